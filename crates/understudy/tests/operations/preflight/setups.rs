//! The remedies for servers that are set up so that they cannot be the primary, followed to the letter in each situation in which they are printed:
//! several sources, filters, no binlog, a binlog without what came from others, and a ring at a first start. The named problem is gone then, no
//! row is missing, and the server acknowledges and becomes the primary.

use std::path::PathBuf;
use std::time::Instant;

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::APP_SCHEMA;
use serde_json::Value;
use testbed::copies::copy;
use testbed::program::{LONG, Serving, until};
use testbed::scene::{Scene, is_well, status_when, writer};

use super::remedies::{Step, row, steps, until_applied};

const ALL: [&str; 3] = ["db1", "db2", "db3"];
/// The one that is set up wrongly.
const NODE: &str = "db2";
/// The name of its second source.
const SECOND: &str = "x";
/// Rows written while it is.
const ROWS: u64 = 20;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    SeveralSources,
    Filtered,
    NoBinlog,
    NoUpdates,
}

impl Wrong {
    fn check(self) -> &'static str {
        match self {
            Self::SeveralSources => "several_sources",
            Self::Filtered => "filtered",
            Self::NoBinlog | Self::NoUpdates => "no_binlog",
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn remedies_for_another_setup_lead_where_they_say() {
    let scene = Scene::of("setups", true).await;
    let table = format!("CREATE TABLE {APP_SCHEMA}.setups (id BIGINT AUTO_INCREMENT PRIMARY KEY)");
    scene.stage.run_in("db1", &table).await.unwrap();
    let directory = scene.directory(super::QUIET);
    let serving = Serving::start(directory.path());
    for wrong in [Wrong::SeveralSources, Wrong::Filtered, Wrong::NoBinlog, Wrong::NoUpdates] {
        for is_gone in [false, true] {
            let began = Instant::now();
            one(&scene, &serving, wrong, is_gone).await;
            println!(
                "          {wrong:?}, the primary {}: {:?}",
                if is_gone { "gone" } else { "alive" },
                began.elapsed()
            );
        }
    }
    unlogged(&scene, &serving).await;
    drop(serving);
    ring(&scene).await;
    scene.stage.down().await.unwrap();
}

async fn one(scene: &Scene, serving: &Serving, wrong: Wrong, is_gone: bool) {
    let stage = &scene.stage;
    let primary = writer(&status_when(serving, "all are well", is_well));
    let third = *ALL.iter().find(|name| **name != primary && **name != NODE).unwrap();
    make(scene, &primary, third, wrong).await;
    let is_wrong = |status: &Value| scene.node(status, NODE)["problem"] == wrong.check();
    status_when(serving, "it is named", is_wrong);
    write(scene, &primary).await;
    if wrong != Wrong::Filtered {
        everywhere(scene, &primary, &[NODE]).await;
    }
    if is_gone {
        stage.fault(third, Fault::Kill).await.unwrap();
        status_when(serving, "the third is dead", |status| scene.node(status, third)["state"] == "dead");
        // What is known of the primary when it dies decides whether the third may have acknowledged more.
        let position = scene.value(&primary, "gtid_current_pos").await;
        let is_known = |status: &Value| {
            let facts = &scene.node(status, &primary)["facts"];
            facts["position"] == position.as_str() && facts["semi_sync"]["replicas"] == 1
        };
        status_when(serving, "all that the primary has is known", is_known);
        stage.fault(&primary, Fault::Kill).await.unwrap();
        let is_dead = |status: &Value| scene.node(status, &primary)["state"] == "dead";
        status_when(serving, "the primary is dead", is_dead);
    }
    let remedy = printed(serving, wrong);
    follow(scene, serving, &primary, &remedy).await;
    if is_gone && remedy.starts_with("bring the primary back") {
        // Then the other remedy is printed.
        stage.fault(third, Fault::Heal).await.unwrap();
        let has_settled = |status: &Value| {
            let primary = writer(status);
            let follow = ALL.iter().filter(|name| **name != primary);
            status["gate"] == "open"
                && follow
                    .map(|name| scene.follows(status, name))
                    .all(|source| source == scene.address(&primary))
        };
        let primary = writer(&status_when(serving, "the others follow a primary", has_settled));
        follow(scene, serving, &primary, &printed(serving, wrong)).await;
    } else if is_gone {
        status_when(serving, "it takes over", |status| writer(status) == NODE);
        for back in [primary.as_str(), third] {
            stage.fault(back, Fault::Heal).await.unwrap();
        }
    }
    let primary = writer(&status_when(serving, "all are well again", is_well));
    everywhere(scene, &primary, &ALL).await;
    is_a_replica_like_any_other(scene, serving, &primary).await;
}

/// It acknowledges when no other does, and becomes the primary by an order; db1 is the primary then.
async fn is_a_replica_like_any_other(scene: &Scene, serving: &Serving, primary: &str) {
    if primary != NODE {
        let third = *ALL.iter().find(|name| **name != primary && **name != NODE).unwrap();
        scene.stage.run_in(third, "SET GLOBAL rpl_semi_sync_slave_enabled = OFF").await.unwrap();
        scene.stage.run_in(third, "STOP SLAVE IO_THREAD; START SLAVE IO_THREAD").await.unwrap();
        status_when(serving, "only one acknowledges", |status| {
            scene.node(status, primary)["facts"]["semi_sync"]["replicas"] == 1 && is_well(status)
        });
        let written = tokio::time::timeout(LONG, write(scene, primary)).await;
        assert!(written.is_ok(), "commits wait for {NODE}, which acknowledges nothing");
        scene.stage.run_in(third, "SET GLOBAL rpl_semi_sync_slave_enabled = ON").await.unwrap();
        scene.stage.run_in(third, "STOP SLAVE IO_THREAD; START SLAVE IO_THREAD").await.unwrap();
        status_when(serving, "both acknowledge", |status| {
            scene.node(status, primary)["facts"]["semi_sync"]["replicas"] == 2 && is_well(status)
        });
        until("it is the primary", || (serving.ask(&["switchover", "--to", NODE]).code == 0).then_some(()));
    }
    status_when(serving, "all follow it", |status| is_well(status) && writer(status) == NODE);
    write(scene, NODE).await;
    everywhere(scene, NODE, &ALL).await;
    serving.ask(&["switchover", "--to", "db1"]).with(0);
    status_when(serving, "all are as before", |status| is_well(status) && writer(status) == "db1");
}

async fn make(scene: &Scene, primary: &str, third: &str, wrong: Wrong) {
    let run = |sql: String| async move { scene.stage.run_in(NODE, &sql).await.unwrap() };
    match wrong {
        Wrong::SeveralSources => {
            let host = scene.stage.node(third).unwrap().address.ip();
            // Both give it the same transactions.
            run(format!(
                "STOP SLAVE; SET GLOBAL gtid_ignore_duplicates = ON; CHANGE MASTER '{SECOND}' TO MASTER_HOST = '{host}', MASTER_PORT = 3306, \
                 MASTER_USER = 'replication', MASTER_PASSWORD = 'replication', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1; \
                 START ALL SLAVES"
            ))
            .await;
        }
        Wrong::Filtered => {
            let id = scene.value(primary, "server_id").await;
            run(format!("STOP SLAVE; CHANGE MASTER TO IGNORE_SERVER_IDS = ({id}); START SLAVE")).await;
        }
        Wrong::NoBinlog => {
            configure(scene, "log-bin = binlog", "skip-log-bin");
            restart(scene).await;
        }
        Wrong::NoUpdates => {
            configure(scene, "log-slave-updates = ON", "log-slave-updates = OFF");
            restart(scene).await;
        }
    }
}

/// A server that leaves a database out of its binlog is told of, and no order goes there before the remedy was followed.
async fn unlogged(scene: &Scene, serving: &Serving) {
    configure(scene, "log-bin = binlog", "log-bin = binlog\nbinlog-ignore-db = left_out");
    restart(scene).await;
    status_when(serving, "all are well", is_well);
    let said = serving.ask(&["switchover", "--to", NODE]).with(1);
    assert!(said.contains("leaves some databases out of its binlog (Binlog_Ignore_DB = left_out)"), "{said}");
    let (verdict, remedy) = row(serving, NODE, "unlogged").unwrap();
    assert_eq!((&*verdict, &*remedy), ("fails", "take that out of its my.cnf, and restart it"));
    for command in [&["doctor"][..], &["serve", "--check"]] {
        let said = serving.ask(command).with(1);
        assert!(said.contains("Binlog_Ignore_DB = left_out"), "{said}");
    }
    configure(scene, "\nbinlog-ignore-db = left_out", "");
    restart(scene).await;
    status_when(serving, "all are well", is_well);
    serving.ask(&["switchover", "--to", NODE]).with(0);
    serving.ask(&["switchover", "--to", "db1"]).with(0);
    status_when(serving, "all are as before", |status| is_well(status) && writer(status) == "db1");
}

fn printed(serving: &Serving, wrong: Wrong) -> String {
    let (_, remedy) = until("the table has the remedy", || {
        row(serving, NODE, wrong.check()).filter(|(verdict, _)| verdict == "fails")
    });
    remedy
}

async fn follow(scene: &Scene, serving: &Serving, primary: &str, remedy: &str) {
    let all = steps(remedy);
    assert!(!all.is_empty(), "nothing to do in: {remedy}");
    for step in all {
        match step {
            Step::Run(statement) => {
                let statement = statement.replace("'NAME'", &format!("'{SECOND}'"));
                let ran = scene.stage.run_in(NODE, &statement).await;
                ran.unwrap_or_else(|error| panic!("{statement}: {error:#}"));
            }
            Step::UntilApplied => until_applied(scene, NODE).await,
            // The copy is made between the two, as docs/replication.md says.
            Step::Drain | Step::Undrain | Step::TakeFiltersOut => {}
            Step::Copy => copy(scene, serving, primary, NODE).await,
            Step::SetBinlog => {
                configure(scene, "skip-log-bin", "log-bin = binlog");
                configure(scene, "log-slave-updates = OFF", "log-slave-updates = ON");
            }
            Step::Restart => restart(scene).await,
            Step::BringBack => {
                scene.stage.fault(primary, Fault::Heal).await.unwrap();
            }
            Step::Look | Step::Mend => panic!("{remedy}"),
        }
    }
}

fn option_file(scene: &Scene) -> PathBuf {
    scene.stage.node(NODE).unwrap().datadir.with_file_name("my.cnf")
}

fn configure(scene: &Scene, from: &str, to: &str) {
    let file = option_file(scene);
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, lines.replace(from, to)).unwrap();
}

async fn restart(scene: &Scene) {
    scene.stop(NODE).await;
    scene.stage.fault(NODE, Fault::Heal).await.unwrap();
}

async fn write(scene: &Scene, primary: &str) {
    for _ in 0..ROWS {
        scene.stage.run_in(primary, &format!("INSERT INTO {APP_SCHEMA}.setups VALUES ()")).await.unwrap();
    }
}

/// The nodes have what the primary has.
async fn everywhere(scene: &Scene, primary: &str, nodes: &[&str]) {
    let query = format!("SELECT COUNT(*), SUM(id) FROM {APP_SCHEMA}.setups");
    let wanted = scene.stage.run_in(primary, &query).await.unwrap();
    for node in nodes {
        until_async(&format!("{node} has all rows"), async || {
            let rows = scene.stage.run_in(node, &query).await.unwrap();
            if rows == wanted { Ok(()) } else { Err(rows) }
        })
        .await;
    }
}

/// Two that follow each other, both read only, and a process that remembers nothing.
async fn ring(scene: &Scene) {
    let host = scene.stage.node(NODE).unwrap().address.ip();
    let close = format!(
        "SET GLOBAL read_only = ON; SET GLOBAL rpl_semi_sync_master_enabled = OFF; SET GLOBAL gtid_slave_pos = @@gtid_current_pos; \
         CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = 3306, MASTER_USER = 'replication', MASTER_PASSWORD = 'replication', \
         MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1; START SLAVE"
    );
    let before =
        scene.stage.run_in("db1", &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.setups")).await.unwrap();
    scene.stage.run_in("db1", &close).await.unwrap();
    let directory = scene.directory("");
    let serving = Serving::start(directory.path());
    let remedy = until("the ring is told", || {
        let status = serving.status();
        let told = status["hold_because"].as_str().unwrap_or_default().to_owned();
        let (_, remedy) = told.split_once("on the one that is to be the primary, ")?;
        Some(remedy.to_owned())
    });
    for step in steps(&remedy) {
        match step {
            Step::Run(statement) => {
                scene.stage.run_in("db1", &statement).await.unwrap();
            }
            Step::UntilApplied => until_applied(scene, "db1").await,
            other => panic!("{other:?} in: {remedy}"),
        }
    }
    status_when(&serving, "all are well", |status| is_well(status) && writer(status) == "db1");
    assert_eq!(
        scene.stage.run_in("db1", &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.setups")).await.unwrap(),
        before
    );
    let mut through = testbed::writers::connect(scene.through()).await.unwrap();
    let insert = format!("INSERT INTO {APP_SCHEMA}.setups VALUES ()");
    let written =
        tokio::time::timeout(LONG, mysql_async::prelude::Queryable::query_drop(&mut through, insert)).await;
    written.expect("commits wait").unwrap();
    everywhere(scene, "db1", &ALL).await;
    drop(serving);
}
