//! One way, measured: the standby restarted, warmed, and asked what the active node was asked after the failover.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::WarmPlan;
use super::chunk;
use super::ground::{Ground, Reads, STANDBY};
use super::playback::{Playback, Played};
use super::record::{self, Recording};
use super::result::{Case, Sample};
use super::way::{Chunk, Does, Way};
use crate::stage::account::APP_USER;
use crate::stage::process::Keeper;

/// A replay ends within this, besides the time that it is to take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks at the counters, at the least.
const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// What each case needs.
pub struct Bench<'a> {
    /// The servers.
    pub ground: &'a Ground,
    /// What was asked for.
    pub plan: &'a WarmPlan,
    /// Both chunks.
    pub recording: &'a Recording,
    /// Parent of the replays.
    pub keeper: &'a Keeper,
}

/// What was done before the measurement.
#[derive(Default)]
struct Warming {
    played: Option<Played>,
    expected: Option<u64>,
    /// Pages read from disk.
    reads: u64,
}

impl Bench<'_> {
    /// Measures one way.
    pub async fn measure(&self, way: &'static Way) -> anyhow::Result<Case> {
        if way.does != Does::Follows {
            self.ground.make_cold().await?;
        }
        let warming = self.warm(way).await.with_context(|| format!("warming: {}", way.title))?;
        let (played, samples) = self.ask().await.with_context(|| format!("after warming: {}", way.title))?;
        let last = samples.last().copied().unwrap_or_default();
        Ok(Case {
            name: way.name,
            title: way.title,
            expected: warming.expected,
            warmed: warming.played,
            warm_reads: warming.reads,
            played,
            disk_reads: last.pool_reads,
            data_reads: last.data_reads,
            to_control: None,
            samples,
        })
    }

    fn part(&self, chunk: Chunk) -> &record::Recorded {
        match chunk {
            Chunk::First => &self.recording.first,
            Chunk::Second => &self.recording.second,
        }
    }

    /// Warms.
    async fn warm(&self, way: &Way) -> anyhow::Result<Warming> {
        let Does::Replays { chunk, one_in, pool } = way.does else { return Ok(Warming::default()) };
        let part = self.part(chunk);
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
        let playing = self.playback(&log, pool, None)?.start(self.keeper, self.file("warming.out"))?;
        let played = Some(playing.ended(PATIENCE).await?);
        let reads = self.ground.reads(STANDBY).await?.since(before).pool;
        Ok(Warming { played, expected: Some(expected), reads })
    }

    /// Asks what chunk 2 asked, at its times, and counts the reads from disk meanwhile.
    async fn ask(&self) -> anyhow::Result<(Played, Vec<Sample>)> {
        let speed = self.plan.speed;
        let every = Duration::from_secs_f64(1.0 / speed).max(SAMPLE_EVERY_MIN);
        let playback = self.playback(&self.recording.second.path, None, Some(speed))?;
        let before = self.ground.reads(STANDBY).await?;
        let mut playing = playback.start(self.keeper, self.file("measured.out"))?;
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
        log: &'a Path,
        pool: Option<u32>,
        recorded: Option<f64>,
    ) -> anyhow::Result<Playback<'a>> {
        let address = self.ground.stage.node(STANDBY)?.address;
        Ok(Playback { log, host: address.ip().to_string(), port: address.port(), pool, recorded })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.ground.stage.directory().join(name)
    }
}
