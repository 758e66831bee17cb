//! `understudy recovery forecast` beside what then happens: a Galera node stays away for a little, and for too long, and its return shows which kind of
//! state transfer it needed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod program;

use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use program::{BIN, house, run};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_node_needs_what_was_forecast_when_it_returns() {
    let plan = StagePlan {
        name: format!("t{}-recovery", std::process::id()),
        nodes: 2,
        galera_options: GCACHE.to_owned(),
        ..StagePlan::default()
    };
    let stage = Stage::up(plan).await.unwrap();
    let table = format!("CREATE TABLE {APP_SCHEMA}.w (id INT AUTO_INCREMENT PRIMARY KEY, pad MEDIUMTEXT)");
    stage.run_in("db1", &table).await.unwrap();
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!("[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n");
    let house = house(&config);
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
    let (before, donors) = (log(&stage, "db2").len(), log(&stage, "db1").len());
    stage.fault("db2", Fault::Heal).await.unwrap();
    let (joiner, donor) = (log(&stage, "db2"), log(&stage, "db1"));
    assert!(!joiner[before..].contains("Receiving IST: "), "{}", &joiner[before..]);
    assert!(
        donor[donors..].contains("--role 'donor'") && !donor[donors..].contains("--bypass"),
        "{}",
        &donor[donors..]
    );
    stage.down().await.unwrap();
}
