//! `understudy serve` before a primary and two replicas, on real servers that replicate semi-synchronously.
//!
//! ```text
//!   first start ─> switchover under writes ─> kill -9 of the primary under writes ─> the old primary comes back
//!      └── what was acknowledged to a client is on every server, once
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

#[path = "../program/mod.rs"]
mod program;
mod scene;
mod writers;

use std::time::Instant;

use lab::fault::Fault;
use program::{Serving, with_config};
use scene::{Scene, is_well, journal, status_when, writer};
use serde_json::Value;
use writers::Writers;

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_changed_and_lost_and_no_acknowledged_write_with_it() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::set().await;
    told("a primary and two replicas are up");
    let house = scene.house("");
    with_config(&house.path().join("understudy.toml"), &["serve", "--check"]).with(0);
    let serving = Serving::start(house.path());
    first(&scene, &serving);
    told("they are known");
    switched(&scene, &serving).await;
    told("db2 took over from db1, which follows it");
    lost(&scene, &serving).await;
    told("db2 was killed, another took over, and db2 came back as a replica");
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Whoever is writable is the primary, and stays it.
fn first(scene: &Scene, serving: &Serving) {
    let status = status_when(serving, "all are well", is_well);
    assert_eq!(writer(&status), "db1");
    let screen = serving.ask(&["status"]).with(0);
    for line in ["a primary and its replicas", "primary db1", "replica of db1, acknowledges"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    assert_eq!(scene.follows(&status, "db2"), scene.address("db1"));
}

/// `understudy switchover` while clients write: nobody sees an error, and the old primary follows.
async fn switched(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = Instant::now();
    let said = serving.ask(&["switchover", "--to", "db2"]).with(0);
    println!("          {} after {:.3} s", said.trim(), began.elapsed().as_secs_f64());
    writers.more(50).await;
    let follows_db2 =
        |status: &Value| is_well(status) && scene.follows(status, "db1") == scene.address("db2");
    let status = status_when(serving, "db1 follows db2", follows_db2);
    assert_eq!(writer(&status), "db2");
    assert_eq!(scene.follows(&status, "db3"), scene.address("db2"));
    let told = writers.stop().await;
    println!("          switchover: longest time without a commit {:?}", told.gap(began));
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    for (node, read_only) in [("db1", "1"), ("db2", "0"), ("db3", "1")] {
        assert_eq!(scene.value(node, "read_only").await, read_only, "{node}");
        assert_eq!(
            scene.value(node, "rpl_semi_sync_master_enabled").await,
            if read_only == "0" { "1" } else { "0" },
            "{node}"
        );
    }
}

/// kill -9 of the primary while clients write.
async fn lost(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let fault = scene.stage.fault("db2", Fault::Kill).await.unwrap();
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != "db2";
    let status = status_when(serving, "another is the primary", moved);
    let primary = writer(&status);
    writers.more(50).await;
    let replica = if primary == "db1" { "db3" } else { "db1" };
    let follows = |status: &Value| scene.follows(status, replica) == scene.address(&primary);
    status_when(serving, "the other replica follows it", follows);
    let told = writers.stop().await;
    println!(
        "          kill -9: longest time without a commit {:?}, errors {:?}",
        told.gap(fault),
        told.errors
    );
    scene.has_all(&told, &["db1", "db3"]).await;

    scene.stage.fault("db2", Fault::Heal).await.unwrap();
    let follows = |status: &Value| is_well(status) && scene.follows(status, "db2") == scene.address(&primary);
    status_when(serving, "the old primary follows the new one", follows);
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let more = writers.stop().await;
    assert_eq!(more.errors, Vec::<String>::new());
    scene.has_exactly(&more, &["db1", "db2", "db3"]).await;
    scene.has_all(&told, &["db2"]).await;
    println!("{}", journal(serving));
}
