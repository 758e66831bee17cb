//! Without heartbeats: what a client's own commit waits for tells that its node does not commit.

use lab::fault::Fault;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::connect;

use super::replication::{stays, stuck};

/// Statements that are late for reasons of their own change nothing; commits that hang have another take over.
pub async fn tells(scene: &Scene) {
    let directory = scene.directory("failover_gap_ms = 0\n[cluster.heartbeat]\ninterval_ms = 0");
    let serving = Serving::start(directory.path());
    let status = status_when(&serving, "all are well", is_well);
    row_lock(scene, &serving, &writer(&status)).await;
    backup(scene, &serving, &writer(&status)).await;
    let clause = "a session holds a lock on everything (FLUSH TABLES WITH READ LOCK)";
    stuck(scene, &serving, Fault::WriteLock, clause).await;
}

/// A client waits for a row that another has locked.
async fn row_lock(scene: &Scene, serving: &Serving, primary: &str) {
    let mut holder = connect(scene.stage.node(primary).unwrap().address).await.unwrap();
    holder.query_drop("CREATE TABLE IF NOT EXISTS waited_for (id INT PRIMARY KEY)").await.unwrap();
    holder.query_drop("REPLACE INTO waited_for VALUES (1)").await.unwrap();
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM waited_for FOR UPDATE").await.unwrap();
    let mut client = connect(scene.through()).await.unwrap();
    let waiting = tokio::spawn(async move { client.query_drop("UPDATE waited_for SET id = id + 1").await });
    stays(serving, primary).await;
    holder.query_drop("ROLLBACK").await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// A client's change of a table waits for a backup, and no change of rows does.
async fn backup(scene: &Scene, serving: &Serving, primary: &str) {
    let mut root = super::replication::root(scene, primary).await;
    for stage in ["START", "FLUSH", "BLOCK_DDL"] {
        root.query_drop(format!("BACKUP STAGE {stage}")).await.unwrap();
    }
    let mut client = connect(scene.through()).await.unwrap();
    let waiting = tokio::spawn(async move { client.query_drop("DROP TABLE waited_for").await });
    stays(serving, primary).await;
    root.query_drop("BACKUP STAGE END").await.unwrap();
    waiting.await.unwrap().unwrap();
    let well = |status: &Value| is_well(status) && writer(status) == primary;
    status_when(serving, "all are well, with the same primary", well);
}
