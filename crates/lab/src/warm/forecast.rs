//! What `understudy warmth` forecasts, beside what a real failover then costs in reads from disk.
//!
//! ```text
//!   standby restarted ──> warmed with chunk 2 ──> follows, while traffic runs on the primary and `understudy warmth` reads its log: the forecast
//!   ──> the primary is killed under load ──> as much traffic again: reads from disk, counted
//! ```
//!
//! Where the forecast had to run reads that the standby was not replayed, it has warmed it: then the standby is restarted and warmed anew in between, with
//! chunk 2 and the traffic that the forecast saw.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;

use super::case::Bench;
use super::ground::{Ground, STANDBY};
use super::load::Load;
use super::playback::{WARM_PASSWORD, WARM_USER};
use super::record::{self, Recorded, Recording};
use super::streamer::Streamer;
use super::takeover;
use super::way::{Chunk, Does};
use crate::failover::understudy::program;

/// Traffic runs so many times as fast as recorded, so that a run does not take as long. What is counted is pages, not time.
const TIMES_AS_FAST: u32 = 6;
/// Traffic before the kill.
const BEFORE: Duration = Duration::from_secs(1);
/// Traffic goes on for so long behind the time in which a forecast is to look, which begins a little later than the traffic.
const BEYOND_S: u64 = 2;
/// It begins to read within this.
const START_LIMIT: Duration = Duration::from_secs(20);
/// With `--quick`: has room for all that is read. In a smaller one the pages of the rollback segments, which each write behind a takeover needs, are evicted
/// between, and are a third of so few reads; a forecast on a standby without reads does not have them.
const QUICK_POOL_MB: u32 = 24;
/// One forecast takes at most so long.
const PATIENCE: Duration = Duration::from_secs(600);
/// A smaller standby has one buffer pool in so many of the others.
const SMALLER: u32 = 2;

/// How the standby is warmed all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warmed {
    Replay { one_in: u32 },
    Pool,
    Not,
}

/// One row, before it is measured.
#[derive(Clone, Copy, Debug)]
struct Standby {
    title: &'static str,
    warmed: Warmed,
    is_smaller: bool,
    is_quick: bool,
}

const fn standby(title: &'static str, warmed: Warmed, is_smaller: bool, is_quick: bool) -> Standby {
    Standby { title, warmed, is_smaller, is_quick }
}

const STANDBYS: &[Standby] = &[
    standby("warmed by parallel replay", Warmed::Replay { one_in: 1 }, false, false),
    standby("warmed by 1 in 10", Warmed::Replay { one_in: 10 }, false, false),
    standby("warmed by buffer pool load", Warmed::Pool, false, false),
    standby("cold", Warmed::Not, false, true),
    standby("parallel replay, half the buffer pool", Warmed::Replay { one_in: 1 }, true, false),
    standby("cold, half the buffer pool", Warmed::Not, true, false),
];

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// How the standby was warmed.
    pub standby: &'static str,
    /// Its buffer pool, MiB.
    pub pool_mb: u32,
    /// Where the forecast comes from: replayed, completed, extrapolated.
    pub method: String,
    /// Pages that would be read from disk.
    pub forecast: u64,
    /// Reads of the primary in the window that was forecast; the failover is counted over as many.
    pub reads: u64,
    /// Of the pages, what the standby read by itself while it followed.
    pub own_reads: u64,
    /// The forecast's interval.
    pub low: u64,
    /// See `low`.
    pub high: u64,
    /// The share of page accesses that would need no disk; none when it is not known.
    pub score: Option<f64>,
    /// Pages that the new primary read from disk until a chunk's traffic was run, counted.
    pub disk_reads: u64,
    /// The forecast's error: (forecast - counted) / counted.
    pub error: f64,
    /// Statements that failed in the failover.
    pub errors: u64,
}

/// Each of them, one after the other on the same servers.
pub async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Forecast>> {
    let ground = bench.ground;
    // Its writes are applied before anything is measured.
    follow(ground).await?;
    let mut rows = Vec::new();
    for standby in STANDBYS.iter().filter(|standby| standby.is_quick || !bench.plan.is_quick) {
        let row = run(bench, standby).await;
        rows.push(row.with_context(|| format!("a standby that is {}", standby.title))?);
    }
    ground.set_standby_pool(bench.plan.standby_pool_mb)?;
    Ok(rows)
}

async fn run(bench: &Bench<'_>, standby: &Standby) -> anyhow::Result<Forecast> {
    let (ground, plan) = (bench.ground, bench.plan);
    let pool_mb = match (plan.is_quick, standby.is_smaller) {
        (true, _) => plan.standby_pool_mb.max(QUICK_POOL_MB),
        (false, true) => plan.standby_pool_mb / SMALLER,
        (false, false) => plan.standby_pool_mb,
    };
    ground.set_standby_pool(pool_mb)?;
    ground.make_cold().await?;
    // The chunk just before the traffic that follows.
    warm(bench, standby.warmed, Chunk::Second).await?;
    follow(ground).await?;
    let per_s = if plan.is_quick { plan.rate } else { plan.rate.saturating_mul(TIMES_AS_FAST) };
    let window_s = (plan.events_per_chunk() / u64::from(per_s)).max(1);
    let one_in = match standby.warmed {
        Warmed::Replay { one_in } => Some(one_in),
        Warmed::Pool | Warmed::Not => None,
    };
    let from = 2 * plan.events_per_chunk();
    let (output, seen) = forecast(bench, one_in, Asked { from, window_s, per_s }).await?;
    let number = |name: &str| {
        output[name].as_u64().with_context(|| format!("understudy warmth does not tell {name}: {output}"))
    };
    // A window ends a little late on a busy machine: counted is what as many reads cost as were forecast.
    let reads = number("forecast_reads")?;
    let statements = reads * (seen.reads + seen.writes) / seen.reads.max(1);
    if output["forecast_method"] != "replayed" {
        let first = bench.recording.second.clone();
        let recording = Recording { first, second: seen };
        let bench = &Bench { recording: &recording, ..*bench };
        ground.make_cold().await?;
        match standby.warmed {
            Warmed::Replay { .. } => {
                warm(bench, standby.warmed, Chunk::First).await?;
                warm(bench, standby.warmed, Chunk::Second).await?;
            }
            Warmed::Pool => warm(bench, standby.warmed, Chunk::Second).await?,
            Warmed::Not => {}
        }
        follow(ground).await?;
    }
    let front = takeover::front(ground).await?;
    let mut load = Load::connect(&front.target, plan.connections, plan.shape()).await?;
    let asked = takeover::Asked {
        from: from + (window_s + BEYOND_S) * u64::from(per_s),
        count: BEFORE.as_secs() * u64::from(per_s) + statements,
        per_s,
        kill_after: BEFORE,
    };
    let killed = takeover::kill(ground, &mut load, asked).await?;
    let disk_reads = ground.reads(STANDBY).await?.since(killed.reads).pool;
    load.end().await;
    takeover::taken(&front).await?;
    takeover::heal(ground, &front).await?;
    takeover::back(ground, front).await?;

    let forecast = number("forecast_disk_reads")?;
    let error = (forecast as f64 - disk_reads as f64) / disk_reads.max(1) as f64;
    Ok(Forecast {
        standby: standby.title,
        pool_mb,
        method: output["forecast_method"].as_str().unwrap_or_default().to_owned(),
        forecast,
        reads,
        own_reads: number("forecast_own_reads")?,
        low: number("forecast_low")?,
        high: number("forecast_high")?,
        score: output["score"].as_f64(),
        disk_reads,
        error: (error * 1000.0).round() / 1000.0,
        errors: killed.ran.errors,
    })
}

/// The standby follows, and has applied all there is.
async fn follow(ground: &Ground) -> anyhow::Result<()> {
    ground.stage.run_in(STANDBY, "START SLAVE").await?;
    ground.applied().await
}

/// Warms with a chunk.
async fn warm(bench: &Bench<'_>, warmed: Warmed, chunk: Chunk) -> anyhow::Result<()> {
    let does = match warmed {
        Warmed::Replay { one_in } => Does::Replays { chunk, one_in, pool: None },
        Warmed::Pool => Does::LoadsPool { chunk, then_replays: false },
        Warmed::Not => return Ok(()),
    };
    bench.warm(does).await.map(drop)
}

/// The traffic that a forecast sees.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The number of its first statement.
    from: u64,
    /// How long `understudy warmth` looks, s.
    window_s: u64,
    /// Statements a second.
    per_s: u32,
}

/// What `understudy warmth` says of the standby while traffic runs on the primary and is streamed to it, and that traffic.
async fn forecast(
    bench: &Bench<'_>,
    replay_one_in: Option<u32>,
    asked: Asked,
) -> anyhow::Result<(Value, Recorded)> {
    let (ground, plan) = (bench.ground, bench.plan);
    let stage = &ground.stage;
    let address = stage.node(STANDBY)?.address;
    let mut load = Load::connect(&ground.active()?, plan.connections, plan.shape()).await?;
    record::cut(ground, "before-forecast.log").await?;
    let streamer = Streamer::start(ground, bench.process_parent).await?;
    let mut command = Command::new(program()?);
    command.arg("warmth").arg(streamer.base()).args(["--host", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string(), "--window-s", &asked.window_s.to_string()]);
    command.args(["--user", WARM_USER, "--skip-user", "root", "--json"]);
    if let Some(one_in) = replay_one_in {
        command.args(["--replay-one-in", &one_in.to_string()]);
    }
    command.env("UNDERSTUDY_PASSWORD", WARM_PASSWORD);
    let said = stage.directory().join("warmth.out");
    // Else it would be that of the row before.
    let _ = std::fs::remove_file(&said);
    let mut running = bench.process_parent.spawn(&command, Some(&said))?;
    streamer.is_read(START_LIMIT).await?;
    let count = (asked.window_s + BEYOND_S) * u64::from(asked.per_s);
    let ran = load.run(asked.from, count, asked.per_s).await?.whole()?;
    load.end().await;
    let status =
        tokio::time::timeout(PATIENCE, running.ended()).await.context("understudy warmth hangs")??;
    streamer.end().await?;
    let seen = record::recorded(record::cut(ground, "forecast.log").await?, &ran)?;
    let said = std::fs::read_to_string(&said).unwrap_or_default();
    let output = said.lines().find(|line| line.starts_with('{')).filter(|_| status.success());
    let Some(output) = output else { bail!("understudy warmth ended with {status}: {}", said.trim()) };
    let output = serde_json::from_str(output).with_context(|| format!("understudy warmth said: {output}"))?;
    Ok((output, seen))
}
