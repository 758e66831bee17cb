//! All servers and our own process end within a moment, and the primary comes back alone, without what a replica had acknowledged last: only what
//! is on our disk shows that.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::APP_SCHEMA;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, status_when};

use super::first_start::{everywhere, write};
use super::settled;

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_back_alone_with_less_than_it_reported_is_not_opened() {
    let scene = Scene::of("ended", true).await;
    write(&scene, 0..5).await;
    everywhere(&scene, "5").await;
    // What the disk of db1 still has after the power cut.
    let data = scene.stage.node("db1").unwrap().datadir.clone();
    let kept = data.with_extension("kept");
    scene.stop("db1").await;
    copy(&data, &kept);
    scene.stage.fault("db1", Fault::Heal).await.unwrap();

    let directory = scene.directory("");
    let serving = Serving::start(directory.path());
    assert_eq!(settled(&scene, &serving).await, "db1");
    write(&scene, 5..8).await;
    everywhere(&scene, "8").await;
    let position = scene.value("db1", "gtid_binlog_pos").await;
    let is_reported = |status: &Value| scene.node(status, "db1")["facts"]["position"] == *position;
    status_when(&serving, "db1's position is reported", is_reported);
    drop(serving);
    // A replica that is killed may lose its last transaction, too (docs/lab-replication.md).
    for node in ["db2", "db3"] {
        scene.stop(node).await;
    }
    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&kept, &data);
    scene.stage.fault("db1", Fault::Heal).await.unwrap();

    let serving = Serving::start(directory.path());
    let is_refused = |status: &Value| {
        let because = status["hold_because"].as_str().unwrap_or_default();
        because.contains("which it had reported itself, and db2 and db3 cannot be asked now")
    };
    let status = status_when(&serving, "db1 is not opened", is_refused);
    let is_open = status["nodes"].as_array().unwrap().iter().any(|node| node["lane"] == "open");
    assert!(!is_open, "{status}");
    let refused = serving.ask(&["switchover", "--to", "db1"]).with(1);
    assert!(refused.contains("may have acknowledged"), "{refused}");

    start_until_one_writes(&scene, &serving).await;
    let primary = settled(&scene, &serving).await;
    assert_ne!(primary, "db1", "it lacks three rows");
    let insert = format!("INSERT INTO {APP_SCHEMA}.w VALUES (2, 1)");
    scene.stage.run_in(&primary, &insert).await.unwrap();
    everywhere(&scene, "9").await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Starts both replicas. The lab would wait until both replicate, which the one that takes over does not.
async fn start_until_one_writes(scene: &Scene, serving: &Serving) {
    let heal = |node| scene.stage.fault(node, Fault::Heal);
    let mut both = std::pin::pin!(async {
        // One that cannot follow db1 is an error of its own.
        let _ = tokio::join!(heal("db2"), heal("db3"));
        std::future::pending::<()>().await;
    });
    until_async("somebody takes over", async || {
        let _: Result<(), _> = tokio::time::timeout(Duration::from_millis(50), &mut both).await;
        let status = serving.status();
        if status["gate"] == "open" { Ok(()) } else { Err(status) }
    })
    .await;
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} is not copied", from.display());
}
