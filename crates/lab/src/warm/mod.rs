//! `lab warm`: measures on real servers how much each way of warming a standby reduces its disk reads.
//!
//! ```text
//!   workload (pure, by a seed) ──> load ──> db1, the active node ──> slow log ──> chunk 1 | chunk 2
//!
//!   for each way (control, cold, replay, a sample, ...):
//!      db2 restarted: cold ──> warmed in that way ──> chunk 2 replayed at recorded times ──> its disk reads, counted and plotted
//! ```
//!
//! The experiment is that of "Keeping the slave's buffer pool warm for failover with Percona Playback" (FOSDEM 2013): chunk 1 warms,
//! chunk 2 is measured, and the control was warmed with chunk 2 itself. Innodb_buffer_pool_reads counts the disk reads: pages for which
//! a statement waited. Replays are made by `understudy replay` as a separate process.

pub mod case;
pub mod chunk;
pub mod failover;
pub mod forecast;
pub mod ground;
pub mod keepup;
pub mod load;
pub mod page;
pub mod playback;
pub mod plot;
pub mod price;
pub mod proxy;
pub mod record;
pub mod result;
pub mod run;
pub mod streamer;
pub mod takeover;
pub mod way;
pub mod workload;

use self::way::Way;
use self::workload::Shape;

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The ways to warm
    Ways,
    /// Whether replay keeps up with a source at full rate
    FullRate,
    /// What streaming costs the active node
    Price,
    /// Real failovers under load: response times
    Failovers,
    /// Real failovers: the forecast, and the counted disk reads
    Forecasts,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct WarmPlan {
    /// The table's size, MiB.
    pub data_mb: u32,
    /// The active node's buffer pool, MiB.
    pub pool_mb: u32,
    /// The standby's buffer pool, MiB.
    pub standby_pool_mb: u32,
    /// Length of one chunk of the log, s.
    pub chunk_s: u32,
    /// Statements a second while the log is recorded.
    pub rate: u32,
    /// Number of connections that run them.
    pub connections: u32,
    /// Chunk 2 is measured at recorded times, sped up by this factor.
    pub speed: f64,
    /// The same seed gives the same statements.
    pub seed: u64,
    /// The parts to measure.
    pub parts: Vec<Part>,
    /// The ways, in this order; none without [`Part::Ways`].
    pub ways: Vec<&'static Way>,
    /// A short run on little data.
    pub is_quick: bool,
}

impl WarmPlan {
    /// Number of statements in a chunk.
    pub fn events_per_chunk(&self) -> u64 {
        u64::from(self.chunk_s) * u64::from(self.rate)
    }

    /// The table and the statements on it.
    pub fn shape(&self) -> Shape {
        Shape::new(self.data_mb, self.pool_mb.min(self.standby_pool_mb), self.events_per_chunk(), self.seed)
    }
}
