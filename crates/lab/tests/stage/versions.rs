//! Stages on servers of other versions than the machine's, which `scripts/servers.sh` unpacks: they come up, do what they are for, and go.

use std::process::Command;
use std::time::Duration;

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::{ClusterKind, Stage, StagePlan, Word, account};

use crate::ALONE;
use crate::leftovers::{directory, network, nothing_left};

fn plan(server: &str, kind: ClusterKind) -> StagePlan {
    let name = format!("t{}-other", std::process::id());
    StagePlan { server: Some(server.to_owned()), kind, name, ..StagePlan::default() }
}

/// Through a second `Stage` value, as `lab status` has it.
async fn is_well(stage: &Stage) {
    let report = Stage::attach(stage.name()).unwrap().report().await.unwrap();
    assert!(report.iter().all(|node| node.word.as_ref().is_some_and(Word::is_well)), "{report:?}");
}

/// Writes a row on db1, and waits until the others have it.
async fn a_write_reaches_all(stage: &Stage) {
    stage.run_in("db1", "CREATE TABLE sbtest.word (value INT PRIMARY KEY)").await.unwrap();
    stage.run_in("db1", "INSERT INTO sbtest.word VALUES (7)").await.unwrap();
    for node in stage.nodes() {
        until_async(&format!("{} has the row", node.name), async || {
            match stage.run_in(&node.name, "SELECT value FROM sbtest.word").await {
                Ok(rows) if rows == [["7"]] => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn galera_nodes_of_mariadb_11_8() {
    let _alone = ALONE.lock().await;
    let plan = StagePlan { nodes: 2, ..plan("mariadb-11.8", ClusterKind::Galera) };
    let stage = Stage::up(plan).await.unwrap();
    let (directory, network) = (directory(&stage), network(&stage));
    assert!(stage.server().starts_with("MariaDB 11.8."), "{}", stage.server());
    a_write_reaches_all(&stage).await;
    is_well(&stage).await;

    // A node without data has a full copy made: the scripts and programs for that are the server's own.
    let db2 = stage.node("db2").unwrap();
    stage.fault("db2", Fault::Stop).await.unwrap();
    stage.wait_gone("db2", Duration::from_secs(60)).await.unwrap();
    std::fs::remove_file(db2.datadir.join("grastate.dat")).unwrap();
    stage.fault("db2", Fault::Heal).await.unwrap();
    is_well(&stage).await;
    let log = std::fs::read_to_string(&db2.error_log).unwrap();
    assert!(log.contains("WSREP: SST received"), "{log}");

    stage.down().await.unwrap();
    nothing_left(&directory, &network);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_and_replicas_of_mysql_9_7() {
    let _alone = ALONE.lock().await;
    let stage = Stage::up(plan("mysql-9.7", ClusterKind::Replication { semi_sync: true })).await.unwrap();
    let (directory, network) = (directory(&stage), network(&stage));
    assert!(stage.server().starts_with("MySQL 9.7."), "{}", stage.server());
    let Some(Word::Replication(primary)) = stage.report().await.unwrap().remove(0).word else {
        panic!("db1 does not answer")
    };
    assert_eq!(primary.position, "", "the accounts are in nobody's binlog");
    let semi_sync = primary.semi_sync.unwrap();
    assert!(semi_sync.waits && semi_sync.replicas == 2, "{semi_sync:?}");
    a_write_reaches_all(&stage).await;
    is_well(&stage).await;

    // The accounts are there for clients that know the servers' plugin; a replica takes no writes of theirs.
    let write = "INSERT INTO sbtest.word VALUES (8)";
    for (node, accepted) in [("db1", true), ("db2", false)] {
        let mut client = Command::new(stage.client());
        client.args(["--no-defaults", "-h", &stage.node(node).unwrap().address.ip().to_string()]);
        client.args(["-u", account::APP_USER, "-e", write]).env("MYSQL_PWD", account::APP_PASSWORD);
        let said = client.output().unwrap();
        let error = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.success(), accepted, "{node}: {error}");
        assert!(accepted || error.contains("--read-only"), "{error}");
    }

    stage.down().await.unwrap();
    nothing_left(&directory, &network);
}
