//! A primary whose disk is full, and that is not relieved by itself (failover = "manual"): freed in time it goes on, and an operator's order moves
//! the primary all the same.

use std::time::{Duration, Instant};

use lab::fault::Fault;
use lab::stage::{ClusterKind, StagePlan};
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::Writers;

/// Longer than a heartbeat is waited for that hangs for no reason that counts.
const LONG_FULL: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_with_a_full_disk_is_left_by_order() {
    for semi_sync in [true, false] {
        let scene = Scene::on(StagePlan {
            kind: ClusterKind::Replication { semi_sync },
            name: format!("t{}-grey{}", std::process::id(), if semi_sync { "s" } else { "a" }),
            disk_mb: Some(300),
            ..StagePlan::default()
        })
        .await;
        let directory = scene.directory("failover = \"manual\"");
        let serving = Serving::start(directory.path());
        status_when(&serving, "all are well", is_well);
        if semi_sync {
            freed(&scene, &serving).await;
        }
        ordered(&scene, &serving).await;
        println!("{}", journal(&serving));
        drop(serving);
        scene.stage.down().await.unwrap();
    }
}

fn does_not_commit(scene: &Scene, status: &Value, node: &str) -> bool {
    scene.node(status, node)["problem"] == "not_committing"
}

/// The disk is full for a while, and then it is not: nobody has ended what waited for space, so the primary goes on, and its replicas with it.
async fn freed(scene: &Scene, serving: &Serving) {
    let before = writer(&serving.status());
    let began = scene.stage.fault(&before, Fault::DiskFull).await.unwrap();
    status_when(serving, "it does not commit", |status| does_not_commit(scene, status, &before));
    while began.elapsed() < LONG_FULL {
        let status = serving.status();
        assert!(does_not_commit(scene, &status, &before), "{}", scene.node(&status, &before));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    let freed = Instant::now();
    // The server itself tries again once a minute.
    let well = |status: &Value| is_well(status) && writer(status) == before;
    while !well(&serving.status()) {
        assert!(freed.elapsed() < 2 * testbed::program::LONG, "{}", journal(serving));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("          freed after {:?}, commits again {:?} later", began.elapsed(), freed.elapsed());
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &super::ALL).await;
}

/// What the old primary has begun to write can come to nobody, and is not waited for.
async fn ordered(scene: &Scene, serving: &Serving) {
    let before = writer(&serving.status());
    let others: Vec<&str> = super::ALL.into_iter().filter(|node| **node != before).collect();
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    scene.stage.fault(&before, Fault::DiskFull).await.unwrap();
    status_when(serving, "it does not commit", |status| does_not_commit(scene, status, &before));
    assert_eq!(writer(&serving.status()), before);
    let refused = serving.ask(&["drain", &before]).with(1);
    assert!(refused.contains("order a switchover first"), "{refused}");
    let done = serving.ask(&["switchover"]);
    println!("          switchover took {:?}: {}", done.took, done.said());
    done.with(0);
    writers.more(50).await;
    let told = writers.stop().await;
    println!("          errors {:?}", told.errors);
    let status = serving.status();
    assert_ne!(writer(&status), before);
    let said = journal(serving);
    assert!(
        said.contains(&format!("a switchover was ordered while {before} answers and does not commit")),
        "{said}"
    );
    scene.has_all(&told, &others).await;

    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    // It may count a transaction that it had begun to write, and nobody was told of.
    let back = |status: &Value| {
        let node = scene.node(status, &before);
        is_well(status) || (node["problem"] == "errant" && node["facts"]["read_only"] == true)
    };
    let status = status_when(serving, "the old primary is back", back);
    println!("          {before}: {}", scene.node(&status, &before)["reason"]);
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let more = writers.stop().await;
    assert_eq!(more.errors, Vec::<String>::new());
    scene.has_exactly(&more, &others).await;
}
