//! A real failover under load, through Understudy: the primary is killed, and the new one was warmed, is cold, or is cold and slow.
//!
//! The effect on clients is the 99th percentile of response times in the seconds before, compared with the first seconds in which the new
//! primary responds. Afterwards the old primary returns as a replica with a warm cache, and the new one, however slow, must keep
//! its role: in GitHub's failover of 2012 the role went back to the old server because the new one was cold.

use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use tokio::time::Instant;

use super::ground::{ACTIVE, Ground, STANDBY};
use super::load::{Answer, Load};
use super::plan::WarmPlan;
use super::playback::Playback;
use super::record::Recording;
use super::takeover::{self, Asked, Killed};
use crate::failover::front::Front;
use crate::figures::{ms, quantile};
use crate::stage::process::ProcessParent;

/// Length of the windows before the kill and after the takeover.
const WINDOW: Duration = Duration::from_secs(10);
/// Interval between two queries for the writer.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Buffer pool of a standby that is to be slow, MiB.
const TINY_POOL_MB: u32 = 8;
/// Time limit of a replay.
const PATIENCE: Duration = Duration::from_secs(300);

/// The state of the standby when it takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standby {
    Warmed,
    Cold,
    Slow,
}

/// Results of one failover.
#[derive(Clone, Debug, Serialize)]
pub struct Failover {
    /// The state of the standby.
    pub standby: &'static str,
    /// 99th percentile of the response times in the 10 s before the kill, ms.
    pub p99_before_ms: f64,
    /// The same in the first 10 s from the new primary's first response on, ms.
    pub p99_after_ms: f64,
    /// Ratio of the second to the first.
    pub p99_ratio: f64,
    /// From the kill to the new primary's first response, ms.
    pub gap_ms: f64,
    /// Pages that the new primary read from disk until the counted load ended.
    pub disk_reads: u64,
    /// Statements that failed.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// Whether the traffic went back to the old primary by itself, while or after that returned.
    pub moved_back: bool,
}

/// Measures each state, one after the other on the same servers.
pub async fn measure(
    ground: &Ground,
    plan: &WarmPlan,
    recording: &Recording,
    process_parent: &ProcessParent,
) -> anyhow::Result<Vec<Failover>> {
    let mut rows = Vec::new();
    for standby in [Standby::Warmed, Standby::Cold, Standby::Slow] {
        rows.push(run(ground, plan, recording, process_parent, standby).await?);
    }
    Ok(rows)
}

async fn run(
    ground: &Ground,
    plan: &WarmPlan,
    recording: &Recording,
    process_parent: &ProcessParent,
    standby: Standby,
) -> anyhow::Result<Failover> {
    let stage = &ground.stage;
    ground.make_cold().await?;
    stage.run_in(STANDBY, "START SLAVE").await?;
    ground.applied().await?;
    // The active node has just run chunk 2 in each case, whatever happened to it before.
    replay(ground, recording, process_parent, ACTIVE).await?;
    match standby {
        Standby::Warmed => replay(ground, recording, process_parent, STANDBY).await?,
        Standby::Cold => {}
        Standby::Slow => {
            let sql = format!("SET GLOBAL innodb_buffer_pool_size = {TINY_POOL_MB} * 1024 * 1024");
            stage.run_in(STANDBY, &sql).await?;
        }
    }
    let front = takeover::front(ground).await?;
    let mut load = Load::connect(&front.target, plan.connections, plan.shape()).await?;
    let before = ground.reads(STANDBY).await?;
    let seconds = WINDOW.as_secs() * 2 + 1;
    let (first, per_s) = (2 * plan.events_per_chunk(), plan.rate);
    let asked = Asked { from: first, count: seconds * u64::from(per_s), per_s, kill_after: WINDOW };
    let Killed { ran, after, .. } = takeover::kill(ground, &mut load, asked).await?;
    let disk_reads = ground.reads(STANDBY).await?.since(before).pool;
    let windows = Windows::of(&ran.answers, after)?;
    // The old primary returns while the load on the new one continues.
    let more = load.run(first + seconds * u64::from(per_s), WINDOW.as_secs() * u64::from(per_s), per_s);
    let (more, moved_back, back) = tokio::join!(more, watch(&front), takeover::heal(ground, &front));
    let more = more?;
    back?;
    load.end().await;
    let moved_back = moved_back? || front.active().await? != STANDBY;
    takeover::back(ground, front).await?;
    Ok(Failover {
        standby: match standby {
            Standby::Warmed => "warmed by parallel replay",
            Standby::Cold => "cold",
            Standby::Slow => "cold, and slow (a buffer pool of 8 MiB)",
        },
        p99_before_ms: ms(windows.before),
        p99_after_ms: ms(windows.after),
        p99_ratio: (windows.after.as_secs_f64() / windows.before.as_secs_f64().max(1e-6) * 100.0).round()
            / 100.0,
        gap_ms: ms(windows.gap),
        disk_reads,
        errors: ran.errors + more.errors,
        first_error: ran.first_error.or(more.first_error),
        moved_back,
    })
}

/// Replays chunk 2 on a node as fast as the node allows.
async fn replay(
    ground: &Ground,
    recording: &Recording,
    process_parent: &ProcessParent,
    node: &str,
) -> anyhow::Result<()> {
    let address = ground.stage.node(node)?.address;
    let playback = Playback {
        log: &recording.second.path,
        host: address.ip().to_string(),
        port: address.port(),
        pool: None,
        recorded: None,
    };
    playback
        .start(process_parent, ground.stage.directory().join("failover.out"))?
        .ended(PATIENCE)
        .await
        .map(drop)
}

/// Whether any server other than the new primary is the writer during a window.
async fn watch(front: &Front) -> anyhow::Result<bool> {
    let api = front.api().context("Understudy has an API")?;
    let until = Instant::now() + WINDOW;
    let mut moved_back = false;
    while Instant::now() < until {
        let status = api.status().await?;
        moved_back |= status["writer"].as_str().is_some_and(|writer| writer != STANDBY);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(moved_back)
}

/// The effect on clients.
#[derive(Debug, PartialEq, Eq)]
struct Windows {
    before: Duration,
    after: Duration,
    gap: Duration,
}

impl Windows {
    /// `killed`: since the load began. A statement that waited for the takeover is part of the gap, not of a window.
    fn of(answers: &[Answer], killed: Duration) -> anyhow::Result<Self> {
        let first =
            answers.iter().filter(|answer| answer.due > killed).map(|answer| answer.due + answer.took).min();
        let Some(first) = first else { bail!("nothing was answered after the primary was killed") };
        let p99 = |from: Duration, until: Duration| {
            let due = answers.iter().filter(|answer| answer.due >= from && answer.due < until);
            quantile(&mut due.map(|answer| answer.took).collect::<Vec<_>>(), 0.99)
        };
        // The last statements before the kill may have waited for the takeover, too.
        let calm = killed.saturating_sub(Duration::from_millis(100));
        let windows = p99(killed.saturating_sub(WINDOW), calm).zip(p99(first, first + WINDOW));
        let (before, after) = windows.context("a window without an answer")?;
        Ok(Self { before, after, gap: first.saturating_sub(killed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_for_the_takeover_is_in_no_window() {
        let ms = Duration::from_millis;
        let calm = (0..1000).map(|n| Answer { due: ms(n * 10), took: ms(2) });
        let waited = (1000..1050).map(|n| Answer { due: ms(n * 10 + 1), took: ms(10_503 - n * 10) });
        let after = (1051..2000).map(|n| Answer { due: ms(n * 10), took: ms(5) });
        let all: Vec<Answer> = calm.chain(waited).chain(after).collect();
        let windows = Windows::of(&all, ms(10_000)).unwrap();
        assert_eq!(windows, Windows { before: ms(2), after: ms(5), gap: ms(504) });
        assert!(Windows::of(&all, ms(60_000)).is_err());
    }
}
