//! The primary is killed at random moments while clients write, and comes back.

use std::time::Duration;

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, status_when, writer};
use testbed::writers::{WriterResult, Writers};
use tokio::time::sleep;

use super::{nothing_is_lost, settled};

/// Of every day; `make soak` asks for more.
const CRASHES: u64 = 10;

/// Numbers by a seed.
struct Dice(u64);

impl Dice {
    fn below_ms(&mut self, most: u64) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis((self.0 >> 33) % most)
    }
}

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_killed_at_random_moments_and_nothing_acknowledged_is_lost() {
    let (crashes, seed) = (asked("REPLICATION_CRASHES", CRASHES), asked("REPLICATION_SEED", 1));
    println!("REPLICATION_CRASHES={crashes} REPLICATION_SEED={seed}");
    let mut dice = Dice(seed);
    let scene = Scene::of("crash", true).await;
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    let mut gaps = Vec::new();
    let mut all = WriterResult::default();
    for number in 1..=crashes {
        let before = settled(&scene, &serving).await;
        let writers = Writers::at(scene.through());
        writers.more(10).await;
        sleep(dice.below_ms(1500)).await;
        let killed = scene.stage.fault(&before, Fault::Kill).await.unwrap();
        let is_moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
        let after = writer(&status_when(&serving, "another is the primary", is_moved));
        writers.more(10).await;
        // It comes back while clients write.
        sleep(dice.below_ms(1000)).await;
        scene.stage.fault(&before, Fault::Heal).await.unwrap();
        writers.more(10).await;
        let told = writers.stop().await;
        let gap = told.gap(killed);
        assert_eq!(settled(&scene, &serving).await, after, "a primary that came back took its place again");
        nothing_is_lost(&scene, &told).await;
        println!(
            "crash {number}: {before} to {after}, {} commits, {} errors, longest time without one {:.3} s",
            told.acknowledged.len(),
            told.errors.len(),
            gap.as_secs_f64()
        );
        gaps.push(gap);
        all.add(told);
    }
    nothing_is_lost(&scene, &all).await;
    gaps.sort();
    println!(
        "{crashes} crashes, {} acknowledged commits: lost 0, doubled 0; time without a commit: median {:.3} s, longest {:.3} s",
        all.acknowledged.len(),
        gaps[gaps.len() / 2].as_secs_f64(),
        gaps[gaps.len() - 1].as_secs_f64()
    );
    drop(serving);
    scene.stage.down().await.unwrap();
}
