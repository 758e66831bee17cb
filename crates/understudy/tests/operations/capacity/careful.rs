//! What must not be done to a node that clients use, and what is not ours to undo.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::stage::account::{APP_SCHEMA, MONITOR_USER};
use mysql_async::prelude::Queryable;
use rustix::process::Signal;
use testbed::program::{Serving, until};
use tokio::sync::Notify;

use super::{Scene, flow_control_above, is_well, node, status_when, write};

/// A node that is written to past everybody is not locked, whatever is allowed.
pub async fn written_to(scene: &Scene) {
    let db3 = scene.stage.node("db3").unwrap().address;
    let address = db3.to_string();
    let alone = [
        "--standalone",
        &address,
        "--user",
        MONITOR_USER,
        "--allow",
        "in-use",
        "--baseline-s",
        "1",
        "--hold-s",
        "2",
    ];
    // An open transaction waits with its locks.
    let mut client = scene.root("db3").await;
    client.query_drop("BEGIN").await.unwrap();
    client.query_drop(format!("INSERT INTO {APP_SCHEMA}.c (text) VALUES ('open')")).await.unwrap();
    let mut running = scene.begin(&alone);
    assert_eq!(running.ended().code(), Some(1), "{}", running.said());
    let said = running.said();
    assert!(said.contains("open transactions on") && said.contains("nothing overrides this"), "{said}");
    client.query_drop("ROLLBACK").await.unwrap();
    client.disconnect().await.unwrap();
    // Short transactions are seen by their number.
    let is_over = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Notify::new());
    let writes = tokio::spawn(write(db3, is_over.clone(), begun.clone()));
    tokio::time::timeout(Duration::from_secs(20), begun.notified()).await.unwrap();
    let mut running = scene.begin(&alone);
    let code = running.ended().code();
    is_over.store(true, Ordering::Relaxed);
    writes.await.unwrap();
    let said = running.said();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("clients write on") || said.contains("open transactions on"), "{said}");
    assert!(!said.contains("held: nothing is applied"), "{said}");
    assert_eq!(scene.db3().await, ("Synced".into(), "0".into()));
}

/// A client that begins to write while the node is held ends the hold.
pub async fn a_writer_comes(scene: &Scene) {
    let db3 = scene.stage.node("db3").unwrap().address.to_string();
    let alone = [
        "--standalone",
        &db3,
        "--user",
        MONITOR_USER,
        "--allow",
        "in-use",
        "--baseline-s",
        "1",
        "--hold-s",
        "60",
    ];
    let mut client = scene.root("db3").await;
    client.query_drop("SELECT 1").await.unwrap();
    let mut running = scene.begin(&alone);
    running.until_said("held: nothing is applied");
    let insert = format!("INSERT INTO {APP_SCHEMA}.c (text) VALUES ('waits')");
    tokio::time::timeout(Duration::from_secs(20), client.query_drop(insert)).await.unwrap().unwrap();
    client.disconnect().await.unwrap();
    assert_eq!(running.ended().code(), Some(0), "{}", running.said());
    assert!(
        running.said().contains("ended early: a client of the node waited to write"),
        "{}",
        running.said()
    );
    scene.is_as_before().await;
}

/// The session that would undo everything is ended by somebody: the lock is given up at once, and another one takes its place.
pub async fn guard_lost(scene: &Scene, serving: &Serving) {
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "60"]);
    running.until_said("held: nothing is applied");
    let guards =
        "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(%' AND ID <> CONNECTION_ID()";
    let found = scene.stage.run_in("db3", guards).await.unwrap();
    scene.stage.run_in("db3", &format!("KILL {}", found[0][0])).await.unwrap();
    // Where few transactions have come meanwhile, it has done that before it is looked at.
    running.until_said("another session on the node's server ");
    assert_eq!(running.ended().code(), Some(1), "{}", running.said());
    scene.is_as_before().await;
    status_when(serving, "db3 is back", is_well);
}

/// Two signals while clients are waited for: it was ended by a signal, and that is its exit code.
pub async fn ended_while_taken_out(scene: &Scene, serving: &Serving) {
    let stays = scene.root("db3").await;
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "2"]);
    until("db3 is drained", || (node(&serving.status(), "db3")["sessions_max"] == 0).then_some(()));
    running.signal(Signal::INT);
    running.until_said("it ends when");
    running.signal(Signal::INT);
    assert_eq!(running.ended().code(), Some(130), "{}", running.said());
    stays.disconnect().await.unwrap();
    status_when(serving, "db3 is back", is_well);
}

/// So does an operator's drain that comes while the node is measured.
pub fn drained_meanwhile(scene: &Scene, serving: &Serving) {
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "3"]);
    running.until_said("held: nothing is applied");
    serving.ask(&["drain", "db3"]).with(0);
    assert_eq!(running.ended().code(), Some(0), "{}", running.said());
    assert!(running.said().contains("db3 stays drained: an operator ordered it"), "{}", running.said());
    assert_eq!(node(&serving.status(), "db3")["sessions_max"], 0, "{}", running.said());
    serving.ask(&["undrain", "db3"]).with(0);
    status_when(serving, "db3 is back", is_well);
}

/// The flow control of another node ends the hold, and is not blamed on the measured one.
pub async fn another_node_asks_to_wait(scene: &Scene, serving: &Serving) {
    flow_control_above(&scene.stage, "db2", 1).await;
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "60", "--json", "result.json"]);
    assert_eq!(running.ended().code(), Some(4), "{}", running.said());
    flow_control_above(&scene.stage, "db2", 10_000).await;
    let said = running.said();
    assert!(said.contains("ended early: flow control was seen"), "{said}");
    assert!(
        said.contains("FLOW CONTROL STOPPED WRITES FOR") && said.contains(": db2 asked for it, not db3"),
        "{said}"
    );
    let text = std::fs::read_to_string(scene.dir.path().join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["others"]["flow_control_asked_by"], serde_json::json!(["db2"]), "{said}");
    status_when(serving, "db3 is back", is_well);
}

/// An operator's drain stays as it was.
pub fn drained_before(scene: &Scene, serving: &Serving) {
    serving.ask(&["drain", "db3"]).with(0);
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "2"]);
    assert_eq!(running.ended().code(), Some(0), "{}", running.said());
    assert_eq!(node(&serving.status(), "db3")["sessions_max"], 0, "{}", running.said());
    serving.ask(&["undrain", "db3"]).with(0);
    status_when(serving, "db3 is back", is_well);
}
