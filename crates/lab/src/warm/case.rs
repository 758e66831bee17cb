//! Measures one way of warming: the standby is restarted, warmed, and sent the statements that the active node ran after the failover.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::ground::{ACTIVE, Ground, Reads, STANDBY};
use super::plan::WarmPlan;
use super::playback::{Playback, Played};
use super::record::{self, Recorded, Recording};
use super::result::{Case, Sample};
use super::way::{Chunk, Does, Way};
use super::workload::TABLE;
use super::{chunk, proxy};
use crate::program;
use crate::stage::account::{APP_SCHEMA, APP_USER};
use crate::stage::process::ProcessParent;

/// Time limit of a replay, besides its planned duration.
const PATIENCE: Duration = Duration::from_secs(600);
/// Minimum interval between two readings of the counters.
const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);
/// Number of readings, if the interval between them is not too short.
const SAMPLES_MIN: f64 = 40.0;

/// What each measurement needs.
pub struct Bench<'a> {
    /// The servers.
    pub ground: &'a Ground,
    /// The parameters.
    pub plan: &'a WarmPlan,
    /// Both chunks.
    pub recording: &'a Recording,
    /// Parent of the replay processes.
    pub process_parent: &'a ProcessParent,
}

/// The warming before the measurement.
#[derive(Default)]
pub(super) struct Warming {
    played: Option<Played>,
    expected: Option<u64>,
    /// Its duration, s.
    took_s: Option<f64>,
    /// Pages read from disk.
    reads: u64,
}

impl Bench<'_> {
    /// Measures one way of warming.
    pub async fn measure(&self, way: &'static Way) -> anyhow::Result<Case> {
        if way.does != Does::Follows {
            self.ground.make_cold().await?;
        }
        let warming = self.warm(way.does).await.with_context(|| format!("warming: {}", way.title))?;
        let (played, samples) = self.ask().await.with_context(|| format!("after warming: {}", way.title))?;
        let last = samples.last().copied().unwrap_or_default();
        Ok(Case {
            name: way.name,
            title: way.title,
            expected: warming.expected,
            warmed: warming.played,
            warm_s: warming.took_s,
            warm_reads: warming.reads,
            played,
            disk_reads: last.pool_reads,
            data_reads: last.data_reads,
            to_control: None,
            samples,
        })
    }

    /// Warms the standby.
    pub(super) async fn warm(&self, does: Does) -> anyhow::Result<Warming> {
        let (chunk, one_in, pool) = match does {
            Does::Nothing | Does::Follows => return Ok(Warming::default()),
            Does::LoadsPool { chunk, then_replays } => return self.load_pool(chunk, then_replays).await,
            Does::ReplaysProxy => {
                let before = self.ground.reads(STANDBY).await?;
                let played = proxy::replay(self.ground, self.plan).await?;
                let reads = self.ground.reads(STANDBY).await?.since(before).pool;
                let took_s = Some(played.took_s);
                return Ok(Warming { played: Some(played), expected: None, took_s, reads });
            }
            Does::Replays { chunk, one_in, pool } => (chunk, one_in, pool),
        };
        let part = self.recorded(chunk);
        let (log, expected) = match one_in {
            1 => (part.path.clone(), part.reads),
            _ => {
                let kept = chunk::sample(&record::read(&part.path)?, u64::from(one_in));
                let path = self.file("sampled.log");
                std::fs::write(&path, &kept).with_context(|| format!("cannot write {}", path.display()))?;
                (path, chunk::reads(&kept, APP_USER))
            }
        };
        let before = self.ground.reads(STANDBY).await?;
        let played = self.replay(STANDBY, &log, pool).await?;
        let reads = self.ground.reads(STANDBY).await?.since(before).pool;
        let took_s = played.took_s;
        Ok(Warming { played: Some(played), expected: Some(expected), took_s: Some(took_s), reads })
    }

    /// Loads the pages that the active node had in memory at the end of a chunk. That state is recreated first: the node has run other
    /// chunks since.
    async fn load_pool(&self, chunk: Chunk, then_replays: bool) -> anyhow::Result<Warming> {
        let part = self.recorded(chunk);
        self.ground.make_active_cold().await?;
        self.replay(ACTIVE, &part.path, None).await?;
        // MariaDB lists a tablespace, and loads its pages, only if its table was opened since the server's start.
        let open = format!("SELECT COUNT(*) FROM {APP_SCHEMA}.{TABLE} WHERE id = 0");
        self.ground.stage.run_in(STANDBY, &open).await?;
        let before = self.ground.reads(STANDBY).await?;
        let began = Instant::now();
        let mut command = Command::new(program::understudy()?);
        command
            .args(["pool", "load", "--user", "root", "--from"])
            .arg(&self.ground.stage.node(ACTIVE)?.socket);
        command.arg("--mysql-socket").arg(&self.ground.stage.node(STANDBY)?.socket);
        // The program must not use this machine's own password.
        command.env_remove("UNDERSTUDY_PASSWORD");
        let said = self.file("pool.out");
        let mut load = self.process_parent.spawn(&command, Some(&said))?;
        let status =
            tokio::time::timeout(PATIENCE, load.ended()).await.context("understudy pool load hangs")??;
        if !status.success() {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            bail!("understudy pool load ended with {status}: {}", said.trim());
        }
        let played = match then_replays {
            true => Some(self.replay(STANDBY, &part.path, None).await?),
            false => None,
        };
        let took_s = Some(began.elapsed().as_secs_f64());
        let reads = self.ground.reads(STANDBY).await?.since(before).pool;
        Ok(Warming { played, expected: then_replays.then_some(part.reads), took_s, reads })
    }

    /// Replays a complete log as fast as the node allows.
    async fn replay(&self, node: &str, log: &Path, pool: Option<u32>) -> anyhow::Result<Played> {
        let playing =
            self.playback(node, log, pool, None)?.start(self.process_parent, self.file("warming.out"))?;
        playing.ended(PATIENCE).await
    }

    /// Replays chunk 2 at its recorded times, and counts the disk reads meanwhile.
    async fn ask(&self) -> anyhow::Result<(Played, Vec<Sample>)> {
        let speed = self.plan.speed;
        // One reading for each second of recorded traffic, and more often for short chunks.
        let every_s = (f64::from(self.plan.chunk_s) / SAMPLES_MIN).min(1.0);
        let every = Duration::from_secs_f64(every_s / speed).max(SAMPLE_EVERY_MIN);
        let playback = self.playback(STANDBY, &self.recording.second.path, None, Some(speed))?;
        let before = self.ground.reads(STANDBY).await?;
        let mut playing = playback.start(self.process_parent, self.file("measured.out"))?;
        let began = Instant::now();
        let mut samples = vec![Sample::default()];
        let mut ticks = tokio::time::interval(every);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let has_ended = playing.has_ended()?;
            let recorded_s = began.elapsed().as_secs_f64() * speed;
            let Reads { pool, data } = self.ground.reads(STANDBY).await?.since(before);
            samples.push(Sample { recorded_s, pool_reads: pool, data_reads: data });
            if has_ended || began.elapsed() > PATIENCE {
                break;
            }
        }
        Ok((playing.ended(PATIENCE.saturating_sub(began.elapsed())).await?, samples))
    }

    fn playback<'a>(
        &self,
        node: &str,
        log: &'a Path,
        pool: Option<u32>,
        recorded: Option<f64>,
    ) -> anyhow::Result<Playback<'a>> {
        let address = self.ground.stage.node(node)?.address;
        Ok(Playback { log, host: address.ip().to_string(), port: address.port(), pool, recorded })
    }

    fn recorded(&self, chunk: Chunk) -> &Recorded {
        match chunk {
            Chunk::First => &self.recording.first,
            Chunk::Second => &self.recording.second,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.ground.stage.directory().join(name)
    }
}
