//! The recording: the workload runs on the active node, whose slow log is cut into chunks with the same number of statements.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::chunk;
use super::ground::{ACTIVE, Ground, STANDBY};
use super::load::Load;
use super::plan::WarmPlan;
use crate::stage::account::APP_USER;
use crate::wait;

/// Time limit from the last response until the server has logged the statement.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// Interval between two checks of that.
const LOOK: Duration = Duration::from_millis(10);

/// One chunk of the log.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Recorded {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Number of its entries: the statements, and a few of the lab's own.
    pub entries: u64,
    /// Statements that read.
    pub reads: u64,
    /// Statements that write.
    pub writes: u64,
    /// Duration of its traffic, s.
    pub took_s: f64,
    /// Statements a second on the active node.
    pub statements_per_s: f64,
}

/// Both chunks.
pub struct Recording {
    /// The chunk that warms.
    pub first: Recorded,
    /// The chunk that is measured.
    pub second: Recorded,
}

/// Runs both chunks. The standby is cold at the beginning and replicates until the end of the first: what it then has in memory is the
/// effect of replication alone. It does not replicate any more when this returns.
pub async fn record(ground: &Ground, plan: &WarmPlan, tell: impl Fn(&str)) -> anyhow::Result<Recording> {
    ground.make_cold().await?;
    ground.stage.run_in(STANDBY, "START SLAVE").await?;
    let count = plan.events_per_chunk();
    let mut load = Load::connect(&ground.active()?, plan.connections, plan.shape()).await?;
    // The connections' first statements and those that warmed the active node are in no chunk.
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

/// Ends the current log as a rotation does: renames it and opens a new one. It contains every statement with a response: a server writes an
/// entry after it has sent the response.
pub async fn cut(ground: &Ground, name: &str) -> anyhow::Result<PathBuf> {
    until_idle(ground).await?;
    let log = ground.slow_log()?;
    let path = ground.stage.directory().join(name);
    std::fs::rename(&log, &path).with_context(|| format!("cannot rename {}", log.display()))?;
    ground.stage.run_in(ACTIVE, "FLUSH SLOW LOGS").await?;
    Ok(path)
}

/// Waits until no session of the load executes a statement. A session sleeps only after its statement's entry is written.
pub async fn until_idle(ground: &Ground) -> anyhow::Result<()> {
    let busy = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '{APP_USER}' AND COMMAND <> 'Sleep'"
    );
    let is_idle = async || {
        let rows = ground.stage.run_in(ACTIVE, &busy).await?;
        Ok(rows.first().and_then(|row| row.first()).is_some_and(|count| count == "0"))
    };
    ensure!(
        wait::holds(IDLE_LIMIT, LOOK, is_idle).await?,
        "sessions of {APP_USER} on {ACTIVE} still run statements that were answered {IDLE_LIMIT:?} ago"
    );
    Ok(())
}

/// Describes a log that was cut, with the results of its load.
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

/// Reads a whole log.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
