//! `understudy recovery forecast`, and a running `serve`, beside what then happens: a Galera node stays away for a little, and for too long, and its
//! return shows which kind of state transfer it needed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod program;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use program::{BIN, Serving, house, run, until};
use serde_json::Value;

/// Of one row, bytes; more than the gcache in all that is written while the node is away for too long.
const ROW_BYTES: usize = 200_000;
/// A gcache of 4 MB has not all of so many writesets.
const WRITTEN_MAX: i64 = 300;
const GCACHE: &str = "gcache.size=4M; gcache.keep_pages_size=0";

async fn write(stage: &Stage, rows: usize) {
    for _ in 0..rows {
        let insert = format!("INSERT INTO {APP_SCHEMA}.w (pad) VALUES (REPEAT('x', {ROW_BYTES}))");
        stage.run_in("db1", &insert).await.unwrap();
    }
}

/// Stops db2, and gives the last writeset that it has.
async fn stop(stage: &Stage) -> i64 {
    stage.fault("db2", Fault::Stop).await.unwrap();
    let file = stage.directory().join("db2/data/grastate.dat");
    let position = program::until("db2 has written its position", || {
        let text = std::fs::read_to_string(&file).unwrap();
        let seqno = text.lines().find_map(|line| line.strip_prefix("seqno:"))?.trim().parse::<i64>().unwrap();
        (seqno >= 0).then_some(seqno)
    });
    assert!(position > 0);
    position
}

fn log(stage: &Stage, node: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(stage.directory().join(node).join("error.log")).unwrap())
        .into_owned()
}

fn plan(name: &str) -> StagePlan {
    StagePlan {
        name: format!("t{}-{name}", std::process::id()),
        nodes: 2,
        galera_options: GCACHE.to_owned(),
        ..StagePlan::default()
    }
}

/// The configuration's part about the nodes.
fn nodes(stage: &Stage) -> String {
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config + &format!("[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n")
}

async fn make_table(stage: &Stage) {
    let table = format!("CREATE TABLE {APP_SCHEMA}.w (id INT AUTO_INCREMENT PRIMARY KEY, pad MEDIUMTEXT)");
    stage.run_in("db1", &table).await.unwrap();
}

/// Starts db2 again, and says that it was given everything anew.
async fn returns_by_full_copy(stage: &Stage) {
    let (before, donors) = (log(stage, "db2").len(), log(stage, "db1").len());
    stage.fault("db2", Fault::Heal).await.unwrap();
    let (joiner, donor) = (log(stage, "db2"), log(stage, "db1"));
    assert!(!joiner[before..].contains("Receiving IST: "), "{}", &joiner[before..]);
    assert!(
        donor[donors..].contains("--role 'donor'") && !donor[donors..].contains("--bypass"),
        "{}",
        &donor[donors..]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_needs_what_was_forecast_when_it_returns() {
    let stage = Stage::up(plan("recovery")).await.unwrap();
    make_table(&stage).await;
    let house = house(&nodes(&stage));
    let forecast = |further: &[&str]| -> (i32, Value) {
        let mut command = std::process::Command::new(BIN);
        command.args(["recovery", "forecast", "--window-s", "1", "--json"]).args(further).current_dir(&house);
        let ended = run(&mut command);
        (ended.code, ended.json())
    };

    // Both run, nobody writes.
    let (code, told) = forecast(&[]);
    assert_eq!((code, &told["nodes"][1]["returns_by"]), (0, &Value::from("ist")), "{told:#}");
    assert_eq!(told["nodes"][1]["gcache_bytes"], 4 << 20);
    assert!(told["full_copy_bytes"].as_u64().unwrap() > 1 << 20, "{told:#}");

    // Away for a little.
    let position = stop(&stage).await;
    let (code, told) = forecast(&[]);
    assert_eq!((code, &told["nodes"][1]["returns_by"]), (1, &Value::Null), "{told:#}");
    assert!(told["nodes"][1]["sentence"].as_str().unwrap().contains("--position db2=SEQNO"), "{told:#}");
    write(&stage, 3).await;
    let (_, told) = forecast(&["--position", &format!("db2={position}")]);
    assert_eq!(told["nodes"][1]["returns_by"], "ist", "{told:#}");
    let before = log(&stage, "db2").len();
    stage.fault("db2", Fault::Heal).await.unwrap();
    assert!(log(&stage, "db2")[before..].contains("Receiving IST: "), "{}", &log(&stage, "db2")[before..]);

    // Away for too long: more was written than the gcache holds.
    let position = stop(&stage).await;
    // The gcache drops a writeset only when every member has reported that it has applied it, so that it may hold more than its size for a while.
    let (code, told) = loop {
        write(&stage, 10).await;
        let (code, told) = forecast(&["--position", &format!("db2={position}")]);
        let kept_from = told["nodes"][0]["cached_downto"].as_i64().unwrap();
        if kept_from > position + 1 {
            break (code, told);
        }
        assert_eq!(told["nodes"][1]["returns_by"], "ist", "{told:#}");
        let written = told["nodes"][0]["position"].as_i64().unwrap() - position;
        assert!(written < WRITTEN_MAX, "its gcache still has everything: {told:#}");
    };
    assert_eq!((code, &told["nodes"][1]["returns_by"]), (1, &Value::from("sst")), "{told:#}");
    assert!(told["nodes"][1]["sentence"].as_str().unwrap().starts_with("needs a full copy of "), "{told:#}");
    returns_by_full_copy(&stage).await;
    stage.down().await.unwrap();
}

/// Between two writes of 20 kB: a gcache of 4 MB is full after about ten seconds.
const PACE: Duration = Duration::from_millis(50);

/// Writes on db1 at that pace for as long as it lives.
struct Load {
    is_over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(stage: &Arc<Stage>) -> Self {
        let (stage, is_over) = (Arc::clone(stage), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&is_over);
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(PACE);
            while !ends.load(Relaxed) {
                tick.tick().await;
                let insert = format!("INSERT INTO {APP_SCHEMA}.w (pad) VALUES (REPEAT('x', 20000))");
                stage.run_in("db1", &insert).await.unwrap();
            }
        });
        Self { is_over, task }
    }

    async fn end(self) {
        self.is_over.store(true, Relaxed);
        self.task.await.unwrap();
    }
}

fn metrics(serving: &Serving) -> String {
    let url = format!("http://{}/metrics", serving.http);
    let out = std::process::Command::new("curl").args(["-sS", &url]).output().unwrap().stdout;
    String::from_utf8(out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_warns_before_it_is_too_late() {
    let stage = Arc::new(Stage::up(plan("windows")).await.unwrap());
    make_table(&stage).await;
    let load = Load::start(&stage);
    let host = stage.host_address();
    let listen =
        format!("[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n");
    let house = house(&(nodes(&stage) + &listen));
    let serving = Serving::start(house.path());

    // Both take part, and db1 is written.
    let status = until("a window of db2", || {
        let status = serving.status();
        status["nodes"][1]["recovery"]["away_max_s"].as_f64().filter(|s| (2.0..120.0).contains(s))?;
        Some(status)
    });
    assert_eq!(status["nodes"][1]["recovery"]["returns_by"], "ist", "{status:#}");
    assert_eq!(status["nodes"][1]["recovery"]["gcache_bytes"], 4 << 20, "{status:#}");
    assert!(status["recovery"]["full_copy_bytes"].as_u64().unwrap() > 1 << 20, "{status:#}");
    let shown = serving.ask(&["status"]).with(0);
    assert!(shown.contains("window  db2 may be away "), "{shown}");
    let forecast = serving.ask(&["recovery", "forecast", "--json"]);
    assert_eq!(
        (forecast.code, forecast.json()["is_served"].as_bool()),
        (0, Some(true)),
        "{}",
        forecast.said()
    );

    // db2 is away, and warnings come before it is too late.
    stop(&stage).await;
    let said = until("the word that it is too late", || {
        let journal = serving.ask(&["journal"]).with(0);
        journal
            .contains("db2: has been away for")
            .then_some(journal)
            .filter(|said| said.contains("needs a full copy of"))
    });
    let place = |what: &str| said.find(what).unwrap_or_else(|| panic!("{what}: {said}"));
    let early =
        said.find("half of the time").or_else(|| said.find("must come back within")).expect("a warning");
    assert!(early < place("no member has what it misses"), "{said}");
    assert_eq!(said.matches("no member has what it misses").count(), 1, "once: {said}");
    let forecast = serving.ask(&["recovery", "forecast", "--json"]);
    let row = &forecast.json()["nodes"][1];
    assert_eq!((forecast.code, &row["returns_by"]), (1, &Value::from("sst")), "{}", forecast.said());
    assert!(row["away_s"].as_f64().unwrap() > 0.0, "{row:#}");
    let metrics = metrics(&serving);
    let line = metrics.lines().find(|line| {
        line.starts_with("understudy_recovery_window_seconds{") && line.contains("node=\"db2\"")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 0")), "{line:?}");

    returns_by_full_copy(&stage).await;
    until("it takes part again", || {
        let row = serving.status()["nodes"][1]["recovery"].clone();
        (row["is_there"] == true && row["returns_by"] == "ist").then_some(())
    });
    load.end().await;
    drop(serving);
    Arc::into_inner(stage).unwrap().down().await.unwrap();
}
