//! Members that say nothing, on Galera's default settings: frozen, vanished, only slow. By default nothing is done about it. With
//! `silent = "hurry"` the others' timers are shortened for the moment, and are their own again afterwards, whatever happens meanwhile.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::fault::Fault;
use testbed::program::{Serving, until};
use tokio::time::sleep;

use super::door::Door;
use super::scene::{PATIENCE, Scene, is_well, journal, journal_with, status_when, two_writers, writer};

/// Galera's own timers need 5.3 to 10.3 s; what is meant is 1.2 s in 19 of 20. In between, for a build that is not optimised, beside whatever
/// else this machine does.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How often a slow member stands still, for how long each time, and how long it runs between.
const STOPS: u32 = 8;
const STOP: Duration = Duration::from_millis(400);
const RUN: Duration = Duration::from_millis(500);
/// How long a machine with too little time is watched.
const BUSY: Duration = Duration::from_secs(6);

/// How long a node stands still that is to stay a member, for the default settings: so long that a shortened timer would suspect it.
const BLINK: Duration = Duration::from_millis(900);
/// The longest time without a commit that this may cost when another node than the writer stands still, on a busy machine, too. A group whose
/// members suspect one another then is without commits for 6 s and longer.
const BLINK_COSTS_MAX: Duration = Duration::from_secs(4);
/// What shortens the timers.
const HURRY: &str = "silent = \"hurry\"";

/// Galera's defaults.
const OWN: [(&str, &str); 3] =
    [("evs.suspect_timeout", "PT5S"), ("evs.keepalive_period", "PT1S"), ("evs.join_retrans_period", "PT1S")];

fn through(scene: &Scene) -> SocketAddr {
    SocketAddr::from((scene.stage.host_address(), 6033))
}

/// Waits until every node has its own timers.
async fn all_own(scene: &Scene, nodes: &[&str]) {
    let began = Instant::now();
    for node in nodes {
        for (option, own) in OWN {
            while scene.option(node, option).await != own {
                assert!(began.elapsed() < PATIENCE, "{node} keeps {option}");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// A node other than the writer.
fn bystander(writer: &str) -> &'static str {
    if writer == "db3" { "db2" } else { "db3" }
}

/// Frozen and vanished, the writer and another.
pub async fn silent(scene: &Scene) {
    let directory = scene.directory(HURRY, None);
    let serving = Serving::start(directory.path());
    let mut ended = 0;
    for fault in [Fault::Freeze, Fault::Vanish] {
        if fault == Fault::Vanish && !scene.stage.is_namespaced() {
            println!("          not root: nothing vanishes");
            continue;
        }
        for active in [true, false] {
            let before = writer(&status_when(&serving, "all well", is_well));
            let victim = if active { before.clone() } else { bystander(&before).to_owned() };
            all_own(scene, &["db1", "db2", "db3"]).await;
            let writers = two_writers(through(scene));
            writers.more(100).await;
            let began = scene.stage.fault(&victim, fault).await.unwrap();
            ended += 1;
            until("the end of the hurry", || {
                (journal(&serving).matches("fell silent").count() == ended).then_some(())
            });
            status_when(&serving, "open again", |status| status["gate"] == "open");
            writers.more(200).await;
            let told = writers.stop().await;
            let gap = told.gap(began);
            println!(
                "          {fault} of {victim}: longest time without a commit {gap:?}, errors {:?}",
                told.errors
            );
            assert!(gap < SILENCE_MAX, "{gap:?}");
            let others: Vec<_> = ["db1", "db2", "db3"].into_iter().filter(|node| *node != victim).collect();
            all_own(scene, &others).await;
            // It comes back by itself: the process is the same, and nobody was evicted.
            scene.heal(&victim, &serving).await;
            let said = journal(&serving);
            assert!(!said.contains("evict"), "{said}");
        }
    }
}

/// With the default settings, the writer and another node stand still for a moment: the group waits for them, and nothing else happens to it.
pub async fn blink(scene: &Scene) {
    let directory = scene.directory("", None);
    let serving = Serving::start(directory.path());
    for active in [false, true] {
        let before = writer(&status_when(&serving, "all well", is_well));
        let victim = if active { before.clone() } else { bystander(&before).to_owned() };
        let view = scene.word(&victim, "wsrep_cluster_conf_id").await;
        let writers = two_writers(through(scene));
        writers.more(50).await;
        let began = scene.stage.fault(&victim, Fault::Freeze).await.unwrap();
        sleep(BLINK).await;
        scene.stage.fault(&victim, Fault::Thaw).await.unwrap();
        let stood = began.elapsed();
        writers.more(100).await;
        status_when(&serving, "all well", is_well);
        // The next writer's answer waits for the one that stood still, and not until it cannot come from memory any more (1.5 s).
        for waited in waits(&journal(&serving)) {
            let limit = stood + Duration::from_millis(500);
            assert!(waited < limit, "{victim} stood still for {stood:?}, the next writer waited {waited:?}");
        }
        let told = writers.stop().await;
        let gap = told.gap(began);
        println!("          {victim} stood still for {BLINK:?}: longest time without a commit {gap:?}");
        // A writer that stands still is replaced, and the next one waits for the group's agreement as well.
        assert!(
            active || gap < BLINK_COSTS_MAX,
            "{victim} stood still for {BLINK:?}: {gap:?} without a commit"
        );
        for node in ["db1", "db2", "db3"] {
            assert_eq!(scene.word(node, "wsrep_cluster_conf_id").await, view, "{node}: the view changed");
        }
    }
    let said = journal(&serving);
    assert!(!said.contains("evs timers"), "{said}");
    all_own(scene, &["db1", "db2", "db3"]).await;
}

/// How long after each decision the new writer said that it had applied everything.
fn waits(journal: &str) -> Vec<Duration> {
    let said = journal.split("it has applied everything, ").skip(1);
    said.map(|rest| Duration::from_secs_f64(rest.split(' ').next().unwrap().parse().unwrap())).collect()
}

/// A member that stands still for less than its suspect timeout, again and again, and a machine that has no time for anybody.
pub async fn slow(scene: &Scene) {
    let directory = scene.directory(HURRY, None);
    let serving = Serving::start(directory.path());
    let before = writer(&status_when(&serving, "all well", is_well));
    let view = scene.word("db1", "wsrep_cluster_conf_id").await;
    let writers = two_writers(through(scene));
    writers.more(50).await;
    for turn in 0..STOPS {
        let node = if turn % 2 == 0 { before.clone() } else { bystander(&before).to_owned() };
        scene.stage.fault(&node, Fault::Freeze).await.unwrap();
        sleep(STOP).await;
        scene.stage.fault(&node, Fault::Thaw).await.unwrap();
        sleep(RUN).await;
        for node in ["db1", "db2", "db3"] {
            assert_eq!(scene.word(node, "wsrep_cluster_conf_id").await, view, "a slow node was shut out");
        }
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    let until = Instant::now() + BUSY;
    let hogs: Vec<_> = (0..cores * 3)
        .map(|_| {
            std::thread::spawn(move || {
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    while Instant::now() < until {
        writers.more(1).await;
    }
    for hog in hogs {
        hog.join().unwrap();
    }
    for node in ["db1", "db2", "db3"] {
        assert_eq!(scene.word(node, "wsrep_cluster_conf_id").await, view, "a node was shut out");
    }
    let told = writers.stop().await;
    let said = journal(&serving);
    let hurries = said.matches("are shortened until").count();
    println!(
        "          slow and busy: {} commits, errors {:?}, timers shortened {hurries} times for it",
        told.acknowledged.len(),
        told.errors
    );
    assert!(!said.contains("fell silent"), "{said}");
    status_when(&serving, "all well", is_well);
    all_own(scene, &["db1", "db2", "db3"]).await;
}

/// Understudy is killed while the timers are short. Its next start gives them back.
pub async fn killed_meanwhile(scene: &Scene) {
    let directory = scene.directory(HURRY, None);
    let mut serving = Serving::start(directory.path());
    let before = writer(&status_when(&serving, "all well", is_well));
    let victim = bystander(&before);
    let others: Vec<_> = ["db1", "db2", "db3"].into_iter().filter(|node| *node != victim).collect();
    all_own(scene, &others).await;
    scene.stage.fault(victim, Fault::Freeze).await.unwrap();
    let began = Instant::now();
    for node in &others {
        while scene.option(node, "evs.suspect_timeout").await == "PT5S" {
            assert!(began.elapsed() < PATIENCE, "{node} is not hurried");
        }
    }
    let sent = Command::new("kill").arg("-KILL").arg(serving.pid().to_string()).status().unwrap();
    assert!(sent.success());
    serving.ended();
    for node in &others {
        assert_ne!(scene.option(node, "evs.suspect_timeout").await, "PT5S", "killed too late for this test");
    }
    let serving = Serving::start(directory.path());
    journal_with(
        &serving,
        "an earlier run ended while evs timers were shortened: every member has its own again",
    );
    for (option, own) in &OWN[..2] {
        for node in &others {
            assert_eq!(scene.option(node, option).await, *own, "{option} of {node}");
        }
    }
    scene.heal(victim, &serving).await;
}

/// One member takes the first step and not the second: both are undone, on all.
pub async fn half_done(scene: &Scene) {
    let node = scene.stage.node("db3").unwrap();
    let door = Door::open(SocketAddr::from((scene.stage.host_address(), 0)), node.address).await;
    let directory = scene.directory(HURRY, Some(("db3", door.address)));
    let serving = Serving::start(directory.path());
    let before = writer(&status_when(&serving, "all well", is_well));
    let victim = if before == "db1" { "db2" } else { "db1" };
    let others: Vec<_> = ["db1", "db2", "db3"].into_iter().filter(|node| *node != victim).collect();
    door.cut_at("evs.suspect_timeout=PT0.6S");
    scene.stage.fault(victim, Fault::Freeze).await.unwrap();
    let said = journal_with(&serving, "could not be shortened");
    assert!(!said.contains("are shortened until"), "{said}");
    for node in &others {
        for (option, own) in &OWN[..2] {
            assert_eq!(scene.option(node, option).await, *own, "{option} of {node}");
        }
        assert_eq!(scene.word(node, "wsrep_cluster_status").await, "Primary");
    }
    door.cut_at("");
    scene.heal(victim, &serving).await;
}
