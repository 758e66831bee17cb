//! For how long a replica may be away, beside what then happens, on a real primary and a real replica: while the primary has the binary logs that it
//! misses, and when they are deleted, upon which the replica is refused with error 1236.

use std::process::Command;

use fixture::wait::until_async;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{ClusterKind, Stage, StagePlan};
use testbed::program::{Ended, Serving, bin, directory, run, until};

/// ER_MASTER_FATAL_ERROR_READING_BINLOG.
const REFUSED: &str = "1236";

async fn column(stage: &Stage, node: &str, query: &str, column: usize) -> Vec<String> {
    stage.run_in(node, query).await.unwrap().into_iter().map(|row| row[column].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_binary_logs_are_deleted_has_to_be_cloned() {
    let stage = Stage::up(StagePlan {
        kind: ClusterKind::Replication { semi_sync: false },
        name: format!("t{}-binlogs", std::process::id()),
        nodes: 2,
        server_options: vec!["binlog_expire_logs_seconds = 7200".to_owned()],
        ..StagePlan::default()
    })
    .await
    .unwrap();
    let host = stage.host_address();
    let mut config = "[cluster]\nname = \"shop\"\nkind = \"replication\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
         [cluster.replication]\nuser = \"replication\"\npassword = \"replication\"\n\
         [listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
    );
    let directory = directory(&config);
    let forecast = |further: &[&str]| -> Ended {
        let mut command = Command::new(bin());
        command
            .args(["recovery", "forecast", "--window-s", "1", "--json"])
            .args(further)
            .current_dir(&directory);
        run(&mut command)
    };

    // Both take part. The limit is the age of the binary logs.
    let told = forecast(&["--away-min", "60"]);
    let replica = &told.json()["nodes"][1];
    assert_eq!((told.code, replica["returns_by"].as_str()), (0, Some("binlogs")), "{}", told.said());
    assert!((replica["away_max_s"].as_f64().unwrap() - 7200.0).abs() < 1.0, "{replica:#}");
    assert!(told.json()["binlog_bytes_wanted"].as_u64().is_some(), "{}", told.said());
    assert_eq!(forecast(&["--away-min", "180"]).code, 1, "three hours are too long");

    // Away, and everything is still there.
    stage.run_in("db2", "STOP SLAVE").await.unwrap();
    let table = format!("CREATE TABLE {APP_SCHEMA}.missed (id INT PRIMARY KEY)");
    stage.run_in("db1", &table).await.unwrap();
    let told = forecast(&[]);
    assert_eq!(
        (told.code, told.json()["nodes"][1]["returns_by"].as_str()),
        (1, Some("binlogs")),
        "{}",
        told.said()
    );

    // What it misses is deleted.
    stage.run_in("db1", "FLUSH BINARY LOGS").await.unwrap();
    let newest = column(&stage, "db1", "SHOW BINARY LOGS", 0).await.pop().unwrap();
    // The primary keeps what it is still sending to somebody.
    until_async("the primary deletes them", async || {
        stage.run_in("db1", &format!("PURGE BINARY LOGS TO '{newest}'")).await.unwrap();
        let logs = column(&stage, "db1", "SHOW BINARY LOGS", 0).await;
        if logs == [newest.clone()] { Ok(()) } else { Err(logs) }
    })
    .await;
    let told = forecast(&[]);
    let replica = &told.json()["nodes"][1];
    assert_eq!((told.code, replica["returns_by"].as_str()), (1, Some("clone")), "{}", told.said());
    assert!(replica["sentence"].as_str().unwrap().starts_with("needs a full copy of "), "{replica:#}");

    // A running server says the same.
    let serving = Serving::start(directory.path());
    until("the same from a running server", || {
        (serving.status()["nodes"][1]["recovery"]["returns_by"] == "clone").then_some(())
    });
    let shown = serving.ask(&["status"]).with(0);
    assert!(shown.contains("window  db2 needs a full copy of "), "{shown}");
    drop(serving);

    // And so does the replica itself.
    stage.run_in("db2", "START SLAVE").await.unwrap();
    until_async("it is refused", async || {
        let status = stage.run_in("db2", "SHOW SLAVE STATUS").await.unwrap();
        if status[0].iter().any(|value| value == REFUSED) { Ok(()) } else { Err(status) }
    })
    .await;
    stage.down().await.unwrap();
}
