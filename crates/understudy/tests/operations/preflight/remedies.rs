//! The remedies that the table prints for a replica, followed to the letter, in each situation in which they are printed: the named problem is
//! gone, and the replica has everything that was acknowledged, which after the primary's death only it had received.

use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::APP_SCHEMA;
use serde_json::Value;
use testbed::program::{Serving, until};
use testbed::scene::{Scene, is_well, status_when, writer};

/// Between two looks at a server.
const PACE: Duration = Duration::from_millis(100);
/// Rows written while the replica does not apply.
const ROWS: u64 = 20;
const ALL: [&str; 3] = ["db1", "db2", "db3"];

/// What is wrong with a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Delayed,
    /// Its applier has stumbled over a row that somebody wrote there.
    Stumbled,
    /// The same, and its receiver was stopped as well.
    Stopped,
    ByFile,
}

impl Wrong {
    fn check(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Stumbled | Self::Stopped => "not_applying",
            Self::ByFile => "not_by_gtid",
        }
    }
}

/// A part of a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Run(String),
    /// SHOW SLAVE STATUS, and its two values in what follows.
    Look,
    Mend,
    UntilApplied,
    Drain,
    Undrain,
    /// It is made a copy of the primary.
    Copy,
    /// In its my.cnf.
    TakeFiltersOut,
    /// In its my.cnf.
    SetBinlog,
    Restart,
    /// Of the primary, which is down.
    BringBack,
}

/// How the steps begin that are no statements.
const WORDS: [(&str, Step); 10] = [
    ("mend ", Step::Mend),
    ("once Slave_SQL_Running_State is 'Slave has read all relay log'", Step::UntilApplied),
    ("once it has applied what it received", Step::UntilApplied),
    ("drain it", Step::Drain),
    ("undrain it", Step::Undrain),
    ("make it a copy of the primary", Step::Copy),
    ("take the filters out of its my.cnf", Step::TakeFiltersOut),
    ("set log_bin and log_slave_updates in its my.cnf", Step::SetBinlog),
    ("restart it", Step::Restart),
    ("bring the primary back", Step::BringBack),
];

/// The steps in a remedy's text, in order.
pub fn steps(remedy: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for clause in remedy.split([';', ':']).map(str::trim) {
        let clauses: Vec<&str> = if clause.starts_with("CHANGE MASTER") {
            vec![clause]
        } else {
            clause.split(',').map(str::trim).collect()
        };
        for clause in clauses {
            let clause = ["and ", "then ", "run "]
                .iter()
                .fold(clause, |clause, word| clause.strip_prefix(word).unwrap_or(clause));
            let statement = clause.split(" there").next().unwrap_or(clause);
            let statement = statement.split(" on the one").next().unwrap_or(statement);
            if let Some((_, step)) = WORDS.iter().find(|(word, _)| clause.starts_with(word)) {
                steps.push(step.clone());
            } else if statement == "SHOW SLAVE STATUS" {
                steps.push(Step::Look);
            } else if [
                "STOP SLAVE",
                "START SLAVE",
                "CHANGE MASTER",
                "RESET SLAVE",
                "STOP ALL",
                "START ALL",
                "SET GLOBAL",
            ]
            .iter()
            .any(|word| statement.starts_with(word))
            {
                steps.push(Step::Run(statement.to_owned()));
            }
        }
    }
    steps
}

/// The row of the table for that check: its verdict and its remedy.
pub fn row(serving: &Serving, node: &str, check: &str) -> Option<(String, String)> {
    let table = serving.ask(&["switchover", "--to", node, "--check", "--json", "-"]).json();
    let rows = table["rows"].as_array()?;
    let row = rows.iter().find(|row| row["check"] == check && row["node"] == node)?;
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    Some((text("verdict"), text("remedy")))
}

async fn count(scene: &Scene, node: &str) -> u64 {
    let query = format!("SELECT COUNT(*) FROM {APP_SCHEMA}.remedied");
    scene.stage.run_in(node, &query).await.unwrap()[0][0].parse().unwrap()
}

/// Relay_Log_File and Relay_Log_Pos of SHOW SLAVE STATUS, by their places among the columns of MariaDB 10.11.
async fn shown(scene: &Scene, node: &str) -> [String; 2] {
    let rows = scene.stage.run_in(node, "SHOW SLAVE STATUS").await.unwrap();
    [7, 8].map(|place: usize| rows[0][place].clone())
}

/// Slave_SQL_Running_State is what SHOW PROCESSLIST shows of the threads, one for each source.
pub async fn until_applied(scene: &Scene, node: &str) {
    let query = "SELECT SUM(STATE NOT LIKE 'Slave has read all relay log%') FROM information_schema.PROCESSLIST WHERE COMMAND = 'Slave_SQL'";
    scene.until(node, query, |count| count == "0").await;
}

/// Makes the replica wrong, and writes rows on the primary that it receives and, unless it follows by file, does not apply.
async fn make(scene: &Scene, serving: &Serving, primary: &str, node: &str, wrong: Wrong) -> u64 {
    let stage = &scene.stage;
    let first: u64 = stage
        .run_in(primary, &format!("SELECT COALESCE(MAX(id), 0) + 1 FROM {APP_SCHEMA}.remedied"))
        .await
        .unwrap()[0][0]
        .parse()
        .unwrap();
    let spoil = match wrong {
        Wrong::Delayed => "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 3600; START SLAVE".to_owned(),
        Wrong::Stumbled | Wrong::Stopped => {
            format!("SET sql_log_bin = 0; INSERT INTO {APP_SCHEMA}.remedied VALUES ({first})")
        }
        Wrong::ByFile => "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = no; START SLAVE".to_owned(),
    };
    stage.run_in(node, &spoil).await.unwrap();
    if wrong == Wrong::ByFile {
        // Understudy may have seen its threads stand in the middle of that, and have let it follow by GTID again.
        until_async("it is seen to follow by file", async || {
            let channels = stage.run_in(node, "SHOW SLAVE STATUS").await.unwrap();
            if channels.iter().flatten().any(|cell| cell == "Slave_Pos" || cell == "Current_Pos") {
                stage.run_in(node, &spoil).await.unwrap();
            }
            let seen = row(serving, node, wrong.check());
            if seen.as_ref().is_some_and(|(verdict, _)| verdict == "fails") { Ok(()) } else { Err(seen) }
        })
        .await;
    }
    for id in first..first + ROWS {
        stage.run_in(primary, &format!("INSERT INTO {APP_SCHEMA}.remedied VALUES ({id})")).await.unwrap();
    }
    first
}

async fn follow(scene: &Scene, node: &str, remedy: &str, first: u64) {
    let (mut file, mut position) = (String::new(), String::new());
    let steps = steps(remedy);
    assert!(steps.iter().any(|step| matches!(step, Step::Run(_))), "nothing to do in: {remedy}");
    for step in steps {
        match step {
            Step::Run(statement) => {
                let statement = statement
                    .replace("'Relay_Log_File'", &format!("'{file}'"))
                    .replace("= Relay_Log_Pos", &format!("= {position}"));
                scene
                    .stage
                    .run_in(node, &statement)
                    .await
                    .unwrap_or_else(|error| panic!("{statement}: {error:#}"));
            }
            Step::Look => [file, position] = shown(scene, node).await,
            Step::Mend => {
                let mend =
                    format!("SET sql_log_bin = 0; DELETE FROM {APP_SCHEMA}.remedied WHERE id = {first}");
                scene.stage.run_in(node, &mend).await.unwrap();
            }
            Step::UntilApplied => until_applied(scene, node).await,
            other => panic!("{other:?} in: {remedy}"),
        }
    }
}

pub async fn lead_where_they_say(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    let table = format!("CREATE TABLE {APP_SCHEMA}.remedied (id BIGINT PRIMARY KEY)");
    scene.stage.run_in(&primary, &table).await.unwrap();
    for (wrong, is_gone) in [
        (Wrong::Delayed, false),
        (Wrong::Stumbled, false),
        (Wrong::ByFile, false),
        (Wrong::Delayed, true),
        (Wrong::Stumbled, true),
        (Wrong::Stopped, true),
        (Wrong::ByFile, true),
    ] {
        let began = Instant::now();
        let status = status_when(serving, "all are well", is_well);
        let primary = writer(&status);
        let node = *ALL.iter().find(|name| **name != primary).unwrap();
        let third = *ALL.iter().find(|name| **name != primary && **name != node).unwrap();
        if is_gone {
            scene.stage.fault(third, Fault::Kill).await.unwrap();
            status_when(serving, "the third is dead", |status| scene.node(status, third)["state"] == "dead");
        }
        let first = make(scene, serving, &primary, node, wrong).await;
        let acknowledged = count(scene, &primary).await;
        if is_gone {
            // What is known of the primary when it dies decides whether the third may have acknowledged more.
            let position = scene.value(&primary, "gtid_current_pos").await;
            let is_known = |status: &Value| {
                let facts = &scene.node(status, &primary)["facts"];
                facts["position"] == position.as_str() && facts["semi_sync"]["replicas"] == 1
            };
            status_when(serving, "all that the primary has is known", is_known);
            scene.stage.fault(&primary, Fault::Kill).await.unwrap();
            let is_dead = |status: &Value| scene.node(status, &primary)["state"] == "dead";
            status_when(serving, "the primary is dead", is_dead);
            if wrong == Wrong::Stopped {
                scene.stage.run_in(node, "STOP SLAVE").await.unwrap();
            }
        }
        let (_, remedy) = until("the table has the remedy", || {
            std::thread::sleep(PACE);
            row(serving, node, wrong.check()).filter(|(verdict, _)| verdict == "fails")
        });
        follow(scene, node, &remedy, first).await;
        let all = format!("{wrong:?}, gone: {is_gone}: all rows are there after: {remedy}");
        until_async(&all, async || count(scene, node).await >= acknowledged).await;
        if is_gone {
            // Nothing stands against it any more, and it takes over.
            status_when(serving, "it has taken over", |status| writer(status) == node);
            for back in [primary.as_str(), third] {
                scene.stage.fault(back, Fault::Heal).await.unwrap();
            }
        }
        let well = status_when(serving, "all are well again", is_well);
        assert_eq!(count(scene, &writer(&well)).await, acknowledged);
        println!(
            "          {wrong:?}, the primary {}: {:?}",
            if is_gone { "gone" } else { "alive" },
            began.elapsed()
        );
    }
}

#[test]
fn the_steps_of_a_remedy_are_read() {
    let run = |statement: &str| Step::Run(statement.to_owned());
    let text = "keep it: STOP SLAVE; SHOW SLAVE STATUS; CHANGE MASTER TO A = 0, B = Relay_Log_Pos; START SLAVE SQL_THREAD there, with the two as \
                shown; once Slave_SQL_Running_State is 'Slave has read all relay log': START SLAVE";
    let change = "CHANGE MASTER TO A = 0, B = Relay_Log_Pos";
    assert_eq!(
        steps(text),
        [
            run("STOP SLAVE"),
            Step::Look,
            run(change),
            run("START SLAVE SQL_THREAD"),
            Step::UntilApplied,
            run("START SLAVE")
        ]
    );
    let text = "once Slave_SQL_Running_State is 'Slave has read all relay log' for them: STOP SLAVE 'NAME'; RESET SLAVE 'NAME' ALL there for all \
                sources; then STOP ALL SLAVES IO_THREAD there, or it is lost";
    let sources = [run("STOP SLAVE 'NAME'"), run("RESET SLAVE 'NAME' ALL"), run("STOP ALL SLAVES IO_THREAD")];
    assert_eq!(steps(text)[0], Step::UntilApplied);
    assert_eq!(steps(text)[1..], sources);
    let text = "drain it, take the filters out of its my.cnf, make it a copy of the primary (mariadb-backup), and undrain it: what";
    assert_eq!(steps(text), [Step::Drain, Step::TakeFiltersOut, Step::Copy, Step::Undrain]);
    let text = "SHOW SLAVE STATUS there: mend what it stumbled over, then START SLAVE SQL_THREAD, and not STOP SLAVE: what it received";
    assert_eq!(steps(text), [Step::Look, Step::Mend, run("START SLAVE SQL_THREAD")]);
}
