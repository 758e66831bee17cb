//! Compares the forecast of `understudy warmth` with the disk reads that a real failover then causes.
//!
//! ```text
//!   standby restarted ──> warmed with chunk 2 ──> replicates, while the primary has traffic; `understudy warmth` reads its log: forecast
//!   ──> the primary is killed under load ──> the same amount of traffic again: its disk reads are counted
//! ```
//!
//! If the forecast had to run reads that were not replayed on the standby, it has warmed it: then the standby is restarted and warmed again
//! in between, with chunk 2 and the traffic that the forecast saw.

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
use crate::program;

/// Speed of the traffic relative to the recording, which shortens the run. Pages are counted, not time.
const TIMES_AS_FAST: u32 = 6;
/// Length of the traffic before the kill.
const BEFORE: Duration = Duration::from_secs(1);
/// How much longer the traffic runs than a forecast observes, since the forecast begins a little later than the traffic.
const BEYOND_S: u64 = 2;
/// Time limit until the forecast begins to read.
const START_LIMIT: Duration = Duration::from_secs(20);
/// With `--quick`: large enough for all pages that are read. In a smaller pool the pages of the rollback segments, which every write after
/// a takeover needs, are evicted in between, and are a third of so few reads; a forecast on a standby without reads does not include them.
const QUICK_POOL_MB: u32 = 24;
/// Time limit of a forecast.
const PATIENCE: Duration = Duration::from_secs(600);
/// The pool of a smaller standby is the others' divided by this.
const SMALLER: u32 = 2;

/// How the standby is kept warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warmed {
    Replay { one_in: u32 },
    Pool,
    Not,
}

/// The parameters of one row.
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

/// Results of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// How the standby was warmed.
    pub standby: &'static str,
    /// Its buffer pool, MiB.
    pub pool_mb: u32,
    /// The method of the forecast: replayed, completed, extrapolated.
    pub method: String,
    /// Pages that would be read from disk, as forecast.
    pub forecast: u64,
    /// Reads of the primary in the forecast's window; the failover is measured over the same number.
    pub reads: u64,
    /// The pages among these that the standby read by itself while it replicated.
    pub own_reads: u64,
    /// Lower end of the forecast's interval.
    pub low: u64,
    /// Upper end of the interval.
    pub high: u64,
    /// The fraction of page accesses that would need no disk read; None if unknown.
    pub score: Option<f64>,
    /// Pages that the new primary read from disk from the kill until the traffic ended, counted.
    pub disk_reads: u64,
    /// The forecast's error: (forecast - counted) / counted.
    pub error: f64,
    /// Statements that failed in the failover.
    pub errors: u64,
}

/// Measures each standby, one after the other on the same servers.
pub async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Forecast>> {
    let ground = bench.ground;
    // Let the standby apply all writes before anything is measured.
    follow(ground).await?;
    let mut rows = Vec::new();
    for standby in STANDBYS.iter().filter(|standby| standby.is_quick || !bench.plan.is_quick) {
        let row = run(bench, standby).await;
        rows.push(row.with_context(|| format!("a standby that is {}", standby.title))?);
    }
    ground.set_standby_pool(bench.plan.standby_pool_mb())?;
    Ok(rows)
}

async fn run(bench: &Bench<'_>, standby: &Standby) -> anyhow::Result<Forecast> {
    let (ground, plan) = (bench.ground, bench.plan);
    let pool_mb = match (plan.is_quick, standby.is_smaller) {
        (true, _) => plan.standby_pool_mb().max(QUICK_POOL_MB),
        (false, true) => plan.standby_pool_mb() / SMALLER,
        (false, false) => plan.standby_pool_mb(),
    };
    ground.set_standby_pool(pool_mb)?;
    ground.make_cold().await?;
    // Chunk 2 comes just before the traffic that follows.
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
    // A window ends a little late on a busy machine: so the cost is counted over as many reads as were forecast.
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

/// Starts replication on the standby and waits until it has applied everything.
async fn follow(ground: &Ground) -> anyhow::Result<()> {
    ground.stage.run_in(STANDBY, "START SLAVE").await?;
    ground.applied().await
}

/// Warms the standby with a chunk.
async fn warm(bench: &Bench<'_>, warmed: Warmed, chunk: Chunk) -> anyhow::Result<()> {
    let does = match warmed {
        Warmed::Replay { one_in } => Does::Replays { chunk, one_in, pool: None },
        Warmed::Pool => Does::LoadsPool { chunk, then_replays: false },
        Warmed::Not => return Ok(()),
    };
    bench.warm(does).await.map(drop)
}

/// The traffic during a forecast.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The number of its first statement.
    from: u64,
    /// Length of the observation by `understudy warmth`, s.
    window_s: u64,
    /// Statements a second.
    per_s: u32,
}

/// Runs `understudy warmth` on the standby, while the primary has traffic whose log is streamed to it; returns its output and that traffic.
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
    let mut command = Command::new(program::understudy()?);
    command.arg("warmth").arg(streamer.base()).args(["--host", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string(), "--window-s", &asked.window_s.to_string()]);
    command.args(["--user", WARM_USER, "--skip-user", "root", "--json"]);
    if let Some(one_in) = replay_one_in {
        command.args(["--replay-one-in", &one_in.to_string()]);
    }
    command.env("UNDERSTUDY_PASSWORD", WARM_PASSWORD);
    let said = stage.directory().join("warmth.out");
    // Otherwise it could be the output of the row before.
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
