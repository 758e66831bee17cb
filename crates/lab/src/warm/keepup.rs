//! Tests whether a replay keeps up: the active node runs statements as fast as it can, and its stream is replayed on the standby, piped as
//! in the talk.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use super::chunk;
use super::ground::{Ground, STANDBY};
use super::load::Load;
use super::plan::WarmPlan;
use super::playback::{WARM_PASSWORD, WARM_USER, summary};
use super::record;
use super::streamer::Streamer;
use crate::program;
use crate::stage::process::ProcessParent;

/// Time limit for replaying the rest after the source has stopped.
const REST_LIMIT: Duration = Duration::from_secs(300);

/// Results of one replay.
#[derive(Clone, Debug, Serialize)]
pub struct KeepUp {
    /// The number of the replay's sessions.
    pub sessions: &'static str,
    /// Statements a second on the active node, at its maximum.
    pub source_per_s: f64,
    /// How long the source ran, s.
    pub source_s: f64,
    /// Reads that ran there.
    pub reads: u64,
    /// Statements that were replayed.
    pub replayed: u64,
    /// From the end of the source's load to the end of the replay, s.
    pub behind_s: f64,
    /// Reads replayed a second, from the source's first statement to the replay's last.
    pub replayed_per_s: f64,
}

/// Measures the replay with the recorded number of sessions, and with one session.
pub async fn measure(
    ground: &Ground,
    plan: &WarmPlan,
    process_parent: &ProcessParent,
) -> anyhow::Result<Vec<KeepUp>> {
    let mut rows = Vec::new();
    for (sessions, pool) in [("as recorded", None), ("one", Some(1))] {
        ground.make_cold().await?;
        rows.push(run(ground, plan, process_parent, sessions, pool).await?);
    }
    Ok(rows)
}

async fn run(
    ground: &Ground,
    plan: &WarmPlan,
    process_parent: &ProcessParent,
    sessions: &'static str,
    pool: Option<u32>,
) -> anyhow::Result<KeepUp> {
    let mut load = Load::connect(&ground.active()?, plan.connections, plan.shape()).await?;
    record::cut(ground, "keepup.log").await?;
    let streamer = Streamer::start(ground, process_parent).await?;
    let said = ground.stage.directory().join("keepup.out");
    // Otherwise it could be the output of the row before.
    let _ = std::fs::remove_file(&said);
    let mut replay = process_parent.spawn(&pipe(ground, &streamer, pool)?, Some(&said))?;
    let began = Instant::now();
    let ran = load.run(2 * plan.events_per_chunk(), plan.events_per_chunk(), 0).await?.whole()?;
    let quiet = Instant::now();
    record::until_idle(ground).await?;
    let logged = chunk::entries(&record::read(&ground.slow_log()?)?);
    streamer.gave(logged, REST_LIMIT).await?;
    // The reader has the whole log, or it is on its way; the end of the stream ends the replay.
    streamer.end().await?;
    let status = tokio::time::timeout(REST_LIMIT, replay.ended()).await;
    let status =
        status.with_context(|| format!("the replay has not ended after {} s", REST_LIMIT.as_secs()))??;
    let behind = quiet.elapsed();
    load.end().await;
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let Some((replayed, _)) = summary(&text).filter(|_| status.success()) else {
        bail!("understudy replay ended with {status}: {}", text.trim());
    };
    let statements = (ran.reads + ran.writes) as f64;
    Ok(KeepUp {
        sessions,
        source_per_s: statements / ran.took_s.max(0.001),
        source_s: ran.took_s,
        reads: ran.reads,
        replayed,
        behind_s: behind.as_secs_f64(),
        replayed_per_s: replayed as f64 / began.elapsed().as_secs_f64().max(0.001),
    })
}

/// The talk's pipe: a reader of the stream into a replay.
fn pipe(ground: &Ground, streamer: &Streamer, pool: Option<u32>) -> anyhow::Result<Command> {
    let address = ground.stage.node(STANDBY)?.address;
    let pool = pool.map(|pool| format!("--pool {pool}")).unwrap_or_default();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!(
        "curl -sN '{}' | \"$UNDERSTUDY\" replay - --host {} --port {} --user {WARM_USER} --skip-user root {pool}",
        streamer.url(),
        address.ip(),
        address.port(),
    ));
    command.env("UNDERSTUDY", program::understudy()?).env("UNDERSTUDY_PASSWORD", WARM_PASSWORD);
    Ok(command)
}
