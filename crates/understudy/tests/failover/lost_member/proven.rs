//! Connections that are refused or reset: a death when the group stands still, and none when every member acknowledges.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lab::fault::Fault;
use testbed::program::Serving;

use super::door::Door;
use super::scene::{Scene, is_well, journal, journal_with, status_when, two_writers, writer};

/// Something that must not happen is watched for so long: several of the eviction's tries.
const STAYS: Duration = Duration::from_secs(4);
/// What a death may cost here, in a build that is not optimised, beside whatever else this machine does.
const DEATH_MAX: Duration = Duration::from_secs(1);

/// A firewall begins to reset what Understudy says to the writer. The group has it still, and it has clients of its own.
pub async fn behind_resets(scene: &Scene) {
    let node = scene.stage.node("db1").unwrap();
    let door = Door::open(SocketAddr::from((scene.stage.host_address(), 0)), node.address).await;
    let directory = scene.directory("", Some(("db1", door.address)));
    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all well", is_well)), "db1");
    let writers = two_writers(node.address);
    writers.more(50).await;
    let view = scene.word("db2", "wsrep_cluster_conf_id").await;

    let began = Instant::now();
    door.set_resets(true);
    let said = journal_with(&serving, "db1 is not evicted: it still acknowledges what the group sends");
    assert!(said.contains("db1 refused 2 connections"), "{said}");
    status_when(&serving, "another writer", |status| status["writer"] == "db2" && status["gate"] == "open");
    while began.elapsed() < STAYS {
        writers.more(20).await;
        assert_eq!(scene.word("db2", "wsrep_cluster_conf_id").await, view, "the group changed");
    }
    let told = writers.stop().await;
    println!("          behind resets: longest time without a commit {:?}", told.gap(began));
    assert_eq!(told.errors, Vec::<String>::new());
    let said = journal(&serving);
    assert_eq!(said.matches("is not evicted").count(), 1, "said once: {said}");
    assert_eq!(scene.option("db2", "evs.causal_keepalive_period").await, "PT1S", "put back");

    door.set_resets(false);
    status_when(&serving, "db1 is seen again", is_well);
}

/// kill -9, which is what an eviction is for.
pub async fn killed(scene: &Scene) {
    let directory = scene.directory("", None);
    let serving = Serving::start(directory.path());
    let through = SocketAddr::from((scene.stage.host_address(), 6033));
    for active in [true, false] {
        let before = writer(&status_when(&serving, "all well", is_well));
        let victim = if active { before } else { if before == "db3" { "db2" } else { "db3" }.to_owned() };
        let writers = two_writers(through);
        writers.more(100).await;
        let fault = scene.stage.fault(&victim, Fault::Kill).await.unwrap();
        journal_with(&serving, &format!("{victim} is evicted from the group"));
        writers.more(100).await;
        let told = writers.stop().await;
        let gap = told.gap(fault);
        println!(
            "          kill -9 of {victim}: longest time without a commit {gap:?}, errors {:?}",
            told.errors
        );
        assert!(gap < DEATH_MAX, "{gap:?}");
        scene.heal(&victim, &serving).await;
    }
}
