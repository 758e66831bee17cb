//! Our own process is killed at each step of a switchover, and begins again: the switchover is finished or undone.
//!
//! ```text
//!   a transaction runs on   ─> the old primary is being drained
//!   a table is locked there ─> the old primary is being made read only
//!   a table is locked on
//!   the new one             ─> the old primary is read only, the new one has yet to apply
//!   (nothing)               ─> killed as soon as the log shows: promoted, opened, told to follow, following
//! ```

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fixture::wait::until;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use testbed::program::{Serving, with_config};
use testbed::scene::Scene;
use testbed::writers::{Writers, connect};

use super::{nothing_is_lost, settled};

/// What keeps a switchover at its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// A transaction of a client of ours.
    Transaction,
    /// A locked table on the old primary.
    LockedThere,
    /// A locked table on the new one: it cannot apply.
    LockedHere,
    Nothing,
}

/// A step, by what the log says when it has begun. NEW and OLD stand for the two servers.
const STEPS: [(&str, Obstacle, &str); 8] = [
    ("the decision is taken", Obstacle::Transaction, "switchover to NEW was ordered"),
    ("the old primary is drained", Obstacle::Transaction, "switchover to NEW was ordered"),
    ("it is made read only", Obstacle::LockedThere, "OLD is told: Demote"),
    ("the new one has yet to apply", Obstacle::LockedHere, "NEW is told: Promote"),
    ("the new one is promoted", Obstacle::Nothing, "NEW is told: Promote"),
    ("it was promoted", Obstacle::Nothing, "NEW was told, and: BarrierPassed"),
    ("the old one is told to follow", Obstacle::Nothing, "OLD is told: Follow"),
    ("the old one follows", Obstacle::Nothing, "OLD was told, and: Following"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_switchover_that_is_interrupted_at_any_step_is_finished_or_undone() {
    let scene = Scene::of("resume", true).await;
    let directory = scene.directory("failover_gap_ms = 0");
    let mut serving = Serving::start(directory.path());
    for (number, (step, obstacle, sign)) in STEPS.into_iter().enumerate() {
        let old = settled(&scene, &serving).await;
        let new = if old == "db2" { "db3" } else { "db2" };
        let writers = Writers::at(scene.through());
        writers.more(20).await;
        let (lock, at) = hinder(&scene, obstacle, &old, new).await;
        let log = directory.path().join("log");
        let from = std::fs::metadata(&log).unwrap().len();
        let (config, to) = (directory.path().join("understudy.toml"), new.to_owned());
        let order = std::thread::spawn(move || {
            with_config(&config, &["switchover", "--to", &to, "--budget-ms", "20000"])
        });
        let sign = sign.replace("OLD", &old).replace("NEW", new);
        wait_for(&log, from, &sign, if number == 1 { 300 } else { 0 });
        // SIGKILL.
        drop(serving);
        let killed = Instant::now();
        let answer = order.join().unwrap();
        serving = Serving::start(directory.path());
        // Whoever hindered it gets out of the way only now, except where the end of our process ended it.
        drop(lock);
        let primary = settled(&scene, &serving).await;
        let took = killed.elapsed();
        writers.more(20).await;
        let told = writers.stop().await;
        println!(
            "{step} ({at}): {old} to {new}, killed at \"{sign}\"; {} after {:.1} s; {} commits, {} errors; the order: {}",
            if primary == new { "finished" } else { "undone" },
            took.as_secs_f64(),
            told.acknowledged.len(),
            told.errors.len(),
            answer.said().trim()
        );
        assert!(primary == old || primary == new, "{primary} became the primary, and nobody named it");
        settled(&scene, &serving).await;
        nothing_is_lost(&scene, &told).await;
    }
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Sets the obstacle up; it is gone when what is given is dropped.
async fn hinder(scene: &Scene, obstacle: Obstacle, old: &str, new: &str) -> (Option<Conn>, &'static str) {
    let direct = |node: &str| scene.stage.node(node).unwrap().address;
    let (address, statement, what) = match obstacle {
        Obstacle::Transaction => {
            let mut conn = connect(scene.through()).await.unwrap();
            conn.query_drop("BEGIN").await.unwrap();
            (None, Some(conn), "a transaction runs")
        }
        Obstacle::LockedThere => (Some(direct(old)), None, "a table is locked on the old primary"),
        Obstacle::LockedHere => (Some(direct(new)), None, "a table is locked on the new one"),
        Obstacle::Nothing => (None, None, "nothing holds it"),
    };
    let Some(address) = address else {
        let mut conn = statement;
        if let Some(conn) = &mut conn {
            conn.query_drop("SELECT COUNT(*) FROM w").await.unwrap();
        }
        return (conn, what);
    };
    let mut conn = connect(address).await.unwrap();
    let lock =
        if obstacle == Obstacle::LockedThere { "LOCK TABLES locked WRITE" } else { "LOCK TABLES w READ" };
    if obstacle == Obstacle::LockedThere {
        scene
            .stage
            .run_in(old, "CREATE TABLE IF NOT EXISTS sbtest.locked (id INT PRIMARY KEY)")
            .await
            .unwrap();
    }
    conn.query_drop(lock).await.unwrap();
    (Some(conn), what)
}

/// Waits until the log has said so from there on, and `after_ms` longer.
fn wait_for(log: &PathBuf, from: u64, sign: &str, after_ms: u64) {
    let mut file = std::fs::File::open(log).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    let mut said = Vec::new();
    until(&format!("the log says {sign:?}"), || {
        // What was read is not looked at again, but for the end of it.
        said.drain(..said.len().saturating_sub(sign.len()));
        file.read_to_end(&mut said).unwrap();
        said.windows(sign.len()).any(|part| part == sign.as_bytes())
    });
    std::thread::sleep(Duration::from_millis(after_ms));
}
