//! The cost of warming on the active node: processor time per statement, without a slow log, with one, and with a streamer that has a
//! reader.

use std::process::Command;

use anyhow::Context;
use serde::Serialize;

use super::chunk;
use super::ground::{ACTIVE, Ground};
use super::load::Load;
use super::plan::WarmPlan;
use super::record;
use super::streamer::Streamer;
use crate::stage::process::{Identity, ProcessParent};

/// Each row runs this fraction of a chunk (1/6).
const CHUNK_PART: u64 = 6;
/// Time limit for the streamer to send a reader what was logged, s.
const GIVEN_LIMIT_S: u64 = 60;

/// What ran besides the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    NoLog,
    Log,
    Reader,
}

/// Results of one row: processor time, microseconds per statement.
#[derive(Clone, Debug, Serialize)]
pub struct Price {
    /// What ran besides the load.
    pub beside: &'static str,
    /// Statements that were run.
    pub statements: u64,
    /// The server's processor time.
    pub server_us: f64,
    /// The streamer's processor time; None without a streamer.
    pub streamer_us: Option<f64>,
}

/// Measures each row.
pub async fn measure(
    ground: &Ground,
    plan: &WarmPlan,
    process_parent: &ProcessParent,
) -> anyhow::Result<Vec<Price>> {
    let mut rows = Vec::new();
    // The same statements each time, after one uncounted run: so that the server has the pages in memory in every counted run.
    run(ground, plan, process_parent, Beside::NoLog).await?;
    for beside in [Beside::NoLog, Beside::Log, Beside::Reader] {
        rows.push(run(ground, plan, process_parent, beside).await?);
    }
    ground.stage.run_in(ACTIVE, "SET GLOBAL slow_query_log = ON").await?;
    Ok(rows)
}

async fn run(
    ground: &Ground,
    plan: &WarmPlan,
    process_parent: &ProcessParent,
    beside: Beside,
) -> anyhow::Result<Price> {
    let count = (plan.events_per_chunk() / CHUNK_PART).max(1);
    let is_logged = beside != Beside::NoLog;
    // A connection uses the setting that is in force when it is opened.
    ground.stage.run_in(ACTIVE, &format!("SET GLOBAL slow_query_log = {}", u8::from(is_logged))).await?;
    let mut load = Load::connect(&ground.active()?, plan.connections, plan.shape()).await?;
    if is_logged {
        record::cut(ground, "price.log").await?;
    }
    let streamer = match beside {
        Beside::Reader => Some(Streamer::start(ground, process_parent).await?),
        _ => None,
    };
    let reader = match &streamer {
        Some(streamer) => {
            let mut command = Command::new("curl");
            command.args(["-sN", "-o", "/dev/null", &streamer.url()]);
            Some(
                process_parent
                    .spawn(&command, None)
                    .context("curl reads the stream; apt-get install curl provides it")?,
            )
        }
        None => None,
    };
    let server = ground.process(ACTIVE)?;
    let streams = streamer.as_ref().and_then(Streamer::process);
    let before = (processor_us(server)?, streams.map(processor_us).transpose()?);
    let ran = load.run(2 * plan.events_per_chunk(), count, plan.rate.saturating_mul(2)).await?.whole()?;
    if let Some(streamer) = &streamer {
        let logged = chunk::entries(&record::read(&ground.slow_log()?)?);
        streamer.gave(logged, std::time::Duration::from_secs(GIVEN_LIMIT_S)).await?;
    }
    let after = (processor_us(server)?, streams.map(processor_us).transpose()?);
    drop(reader);
    if let Some(streamer) = streamer {
        streamer.end().await?;
    }
    load.end().await;
    let statements = ran.reads + ran.writes;
    let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / statements.max(1) as f64;
    Ok(Price {
        beside: match beside {
            Beside::NoLog => "no slow log",
            Beside::Log => "slow log, nobody reads it",
            Beside::Reader => "slow log, streamed to one reader",
        },
        statements,
        server_us: each(before.0, after.0),
        streamer_us: before.1.zip(after.1).map(|(from, to)| each(from, to)),
    })
}

/// Processor time that a process has used so far, user and system, microseconds; with the precision of a clock tick (10 ms).
fn processor_us(process: Identity) -> anyhow::Result<u64> {
    let path = format!("/proc/{}/stat", process.pid);
    let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name is in parentheses and may contain any characters.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
    let ticks = fields.and_then(|fields| {
        let used: Vec<u64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        (used.len() == 2).then(|| used.iter().sum::<u64>())
    });
    let ticks = ticks.with_context(|| format!("{path} has no times"))?;
    Ok(ticks * 1_000_000 / rustix::param::clock_ticks_per_second().max(1))
}
