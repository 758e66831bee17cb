//! The recording: the workload runs on the active node, whose slow log is cut into chunks of equally many statements.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::WarmPlan;
use super::chunk;
use super::ground::{ACTIVE, Ground, STANDBY};
use super::load::Load;
use crate::stage::account::APP_USER;

/// The longest that the server may take from the last answer until it has logged it.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(10);

/// One part of the log.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Recorded {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Entries in it: the statements, and a few of the lab's own.
    pub entries: u64,
    /// Statements that read.
    pub reads: u64,
    /// Statements that write.
    pub writes: u64,
    /// How long it took, s.
    pub took_s: f64,
    /// Statements a second that the active node was asked.
    pub statements_per_s: f64,
}

/// Both, and what followed beside them.
pub struct Recording {
    /// What warms.
    pub first: Recorded,
    /// What is measured.
    pub second: Recorded,
}

/// Runs both chunks. The standby is cold at the beginning and follows until the end of the first: what it then has in memory is what
/// replication alone warms. It does not follow any more when this returns.
pub async fn record(ground: &Ground, plan: &WarmPlan, tell: impl Fn(&str)) -> anyhow::Result<Recording> {
    ground.make_cold().await?;
    ground.stage.run_in(STANDBY, "START SLAVE").await?;
    let count = plan.events_per_chunk();
    let mut load = Load::connect(&ground.active()?, plan.connections, plan.shape()).await?;
    // What the connections ran to begin, and what warmed the active node, is in no chunk.
    cut(ground, "before.log").await?;
    tell(&format!("recording chunk 1: {count} statements at {} a second", plan.rate));
    let first = load.run(0, count, plan.rate).await?.whole()?;
    let first = recorded(cut(ground, "chunk1.log").await?, &first)?;
    ground.applied().await?;
    ground.stage.run_in(STANDBY, "STOP SLAVE").await?;
    tell(&format!("recording chunk 2: {count} statements at {} a second", plan.rate));
    let second = load.run(count, count, plan.rate).await?.whole()?;
    let second = recorded(cut(ground, "chunk2.log").await?, &second)?;
    load.end().await;
    Ok(Recording { first, second })
}

/// Ends the log that is written, as rotation does: renamed, and then begun anew. All that the load was answered is in it: a server writes an entry
/// when it has sent the answer.
pub async fn cut(ground: &Ground, name: &str) -> anyhow::Result<PathBuf> {
    until_idle(ground).await?;
    let log = ground.slow_log()?;
    let path = ground.stage.directory().join(name);
    std::fs::rename(&log, &path).with_context(|| format!("cannot rename {}", log.display()))?;
    ground.stage.run_in(ACTIVE, "FLUSH SLOW LOGS").await?;
    Ok(path)
}

/// Waits until no session of the load is at a statement any more. A session sleeps only when its statement's entry is written.
pub async fn until_idle(ground: &Ground) -> anyhow::Result<()> {
    let busy = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '{APP_USER}' AND COMMAND <> 'Sleep'"
    );
    let deadline = Instant::now() + IDLE_LIMIT;
    loop {
        let rows = ground.stage.run_in(ACTIVE, &busy).await?;
        if rows.first().and_then(|row| row.first()).is_some_and(|count| count == "0") {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "sessions of {APP_USER} on {ACTIVE} still run statements that were answered {IDLE_LIMIT:?} ago"
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What a log that was cut has of a load.
pub fn recorded(path: PathBuf, ran: &super::load::Ran) -> anyhow::Result<Recorded> {
    let entries = chunk::entries(&read(&path)?);
    Ok(Recorded {
        path,
        entries,
        reads: ran.reads,
        writes: ran.writes,
        took_s: ran.took_s,
        statements_per_s: (ran.reads + ran.writes) as f64 / ran.took_s.max(0.001),
    })
}

/// A whole log.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
