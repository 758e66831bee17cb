//! The primary is killed, or stands still, at random moments while clients write, and comes back.

use std::time::Duration;

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::{WriterResult, Writers};
use tokio::time::sleep;

use super::{nothing_is_lost, settled};

/// Of every day; `make soak` asks for more.
const CRASHES: u64 = 10;

/// How often a primary of MySQL is lost by each fault, of every day.
const MYSQL_LOSSES: u64 = 2;

/// No commit for longer than that would be more than a busy machine: undisturbed it is 0.3 s after a kill, and 1 s where the primary stands still.
const MYSQL_GAP_MAX: Duration = Duration::from_secs(6);

/// Four writers with this pause commit some 60 transactions a second.
const SLOW: Duration = Duration::from_millis(60);

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
    let crashes = asked("REPLICATION_CRASHES", CRASHES);
    lose_primaries(Scene::of("crash", true).await, Fault::Kill, crashes, Duration::from_millis(8)).await;
}

/// A crashed primary of MySQL commits all that its binlog has, also what no replica has acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_primary_is_killed_at_random_moments_and_nothing_acknowledged_is_lost() {
    let times = asked("MYSQL_LOSSES", MYSQL_LOSSES);
    let gap = lose_primaries(Scene::mysql("kills").await, Fault::Kill, times, SLOW).await;
    assert!(gap < MYSQL_GAP_MAX, "{gap:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_primary_stands_still_at_random_moments_and_nothing_acknowledged_is_lost() {
    let times = asked("MYSQL_LOSSES", MYSQL_LOSSES);
    let gap = lose_primaries(Scene::mysql("freezes").await, Fault::Freeze, times, SLOW).await;
    assert!(gap < MYSQL_GAP_MAX, "{gap:?}");
}

/// Returns the longest time without a commit.
async fn lose_primaries(scene: Scene, fault: Fault, times: u64, rhythm: Duration) -> Duration {
    let seed = asked("REPLICATION_SEED", 1);
    println!("{times} times, REPLICATION_SEED={seed}");
    let mut dice = Dice(seed);
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    let mut gaps = Vec::new();
    let mut all = WriterResult::default();
    for number in 1..=times {
        let before = settled(&scene, &serving).await;
        let writers = Writers::paced(4, rhythm, scene.through());
        writers.more(10).await;
        sleep(dice.below_ms(1500)).await;
        let lost = scene.stage.fault(&before, fault).await.unwrap();
        let is_moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
        let after = writer(&status_when(&serving, "another is the primary", is_moved));
        writers.more(10).await;
        // It comes back while clients write.
        sleep(dice.below_ms(1000)).await;
        scene.stage.fault(&before, Fault::Heal).await.unwrap();
        writers.more(10).await;
        let told = writers.stop().await;
        let gap = told.gap(lost);
        let kept = keep_errant(&scene, &serving, &before, &after, &told).await;
        assert_eq!(settled(&scene, &serving).await, after, "a primary that came back took its place again");
        nothing_is_lost(&scene, &told).await;
        println!(
            "{fault} {number}: {before} to {after}, {} commits, {} errors, {kept} errant, longest time without a commit {:.3} s",
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
        "{times} times {fault}, {} acknowledged commits: lost 0, doubled 0; time without a commit: median {:.3} s, longest {:.3} s",
        all.acknowledged.len(),
        gaps[gaps.len() / 2].as_secs_f64(),
        gaps[gaps.len() - 1].as_secs_f64()
    );
    drop(serving);
    scene.stage.down().await.unwrap();
    gaps[gaps.len() - 1]
}

/// An old primary of MySQL that came back with what no replica had is refused with a sentence. The new primary is given it, under the same
/// GTIDs; returns how many there were.
async fn keep_errant(scene: &Scene, serving: &Serving, old: &str, new: &str, told: &WriterResult) -> usize {
    let is_judged = |status: &Value| is_well(status) || scene.node(status, old)["problem"] == "errant";
    let status = status_when(serving, "the old primary is back, or held back", is_judged);
    if is_well(&status) {
        return 0;
    }
    let reason = scene.node(&status, old)["reason"].to_string();
    assert!(reason.contains("has transactions that the primary has not"), "{reason}");
    assert_eq!(scene.value(old, "super_read_only").await, "1");
    let has = scene.value(new, "gtid_executed").await;
    let missing = format!("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{has}')");
    let errant = gtids(&scene.stage.run_in(old, &missing).await.unwrap()[0][0]);
    let there = scene.rows(new, told).await;
    let rows: Vec<_> =
        scene.rows(old, told).await.into_iter().filter(|row| there.binary_search(row).is_err()).collect();
    println!("{old}: {reason}; rows {rows:?}");
    assert_eq!(errant.len(), rows.len(), "{errant:?}: {rows:?}");
    for (gtid, (writer, number)) in errant.iter().zip(&rows) {
        let again = format!(
            "SET gtid_next = '{gtid}'; INSERT INTO sbtest.w VALUES ({writer}, {number}); SET gtid_next = AUTOMATIC"
        );
        scene.stage.run_in(new, &again).await.unwrap();
    }
    errant.len()
}

/// Each of a set: `UUID:1-3:7,UUID:5`.
fn gtids(set: &str) -> Vec<String> {
    let mut all = Vec::new();
    for part in set.split(',') {
        let mut words = part.trim().split(':');
        let uuid = words.next().unwrap();
        for range in words {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let numbers = first.parse::<u64>().unwrap()..=last.parse().unwrap();
            all.extend(numbers.map(|number| format!("{uuid}:{number}")));
        }
    }
    all
}

#[test]
fn each_gtid_of_a_set() {
    assert_eq!(gtids("a:1-2:7,\nb:5"), ["a:1", "a:2", "a:7", "b:5"]);
}
