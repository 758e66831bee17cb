//! The command line of `lab warm`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::way::{self, WAYS, Way};
use super::workload::Shape;
use crate::experiment::Output;
use crate::output::positive;

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

/// Two servers and a workload whose hot set moves: the disk reads that a standby needs after a failover, by how it was warmed
#[derive(Debug, clap::Args)]
pub struct WarmPlan {
    /// A run of about a minute on little data: fewer ways, shorter chunks
    #[arg(id = "quick", long)]
    pub(super) is_quick: bool,
    /// Only this part; may be repeated [default: all; with --quick ways and forecasts]
    #[arg(long = "part", value_name = "NAME", value_delimiter = ',', value_enum)]
    pub(super) parts: Vec<Part>,
    /// Only this way; may be repeated [default: all]
    #[arg(long = "way", value_name = "NAME", value_delimiter = ',', value_parser = way::parse)]
    pub(super) ways: Vec<&'static Way>,
    /// Size of the table, MiB [default: 384; with --quick 48]
    #[arg(long, value_name = "MIB", default_value_t = 384, default_value_if("quick", "true", "48"), hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(16..=65_536))]
    pub(super) data_mb: u32,
    /// The active node's buffer pool, MiB [default: 48; with --quick 10]
    #[arg(long, value_name = "MIB", default_value_t = 48, default_value_if("quick", "true", "10"), hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(8..=32_768))]
    pub(super) pool_mb: u32,
    /// The standby's buffer pool, MiB [default: as the active node's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(8..=32_768))]
    pub(super) standby_pool_mb: Option<u32>,
    /// Length of the traffic in one chunk of the log, s [default: 120; with --quick 4]
    #[arg(long, value_name = "S", default_value_t = 120, default_value_if("quick", "true", "4"), hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) chunk_s: u32,
    /// Statements a second while the log is recorded [default: 500; with --quick 1200]
    #[arg(long, value_name = "N", default_value_t = 500, default_value_if("quick", "true", "1200"), hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) rate: u32,
    /// Number of connections that run them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) connections: u32,
    /// Speed at which chunk 2 is measured, relative to how it was recorded [default: 12; with --quick 2]
    #[arg(long, value_name = "FACTOR", default_value_t = 12.0, default_value_if("quick", "true", "2"), hide_default_value = true,
        value_parser = positive)]
    pub(super) speed: f64,
    /// The same seed gives the same statements
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) output: Output,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

impl WarmPlan {
    /// The parts to measure.
    pub(super) fn parts(&self) -> &[Part] {
        match (self.parts.is_empty(), self.is_quick) {
            (false, _) => &self.parts,
            (true, true) => &[Part::Ways, Part::Forecasts],
            (true, false) => Part::value_variants(),
        }
    }

    /// The ways, in this order; none without [`Part::Ways`].
    pub(super) fn ways(&self) -> Vec<&'static Way> {
        match self.ways.is_empty() {
            _ if !self.parts().contains(&Part::Ways) => Vec::new(),
            true => WAYS.iter().filter(|way| way.is_quick || !self.is_quick).collect(),
            false => self.ways.clone(),
        }
    }

    pub(super) fn standby_pool_mb(&self) -> u32 {
        self.standby_pool_mb.unwrap_or(self.pool_mb)
    }

    /// Number of statements in a chunk.
    pub(super) fn events_per_chunk(&self) -> u64 {
        u64::from(self.chunk_s) * u64::from(self.rate)
    }

    /// The table and the statements on it.
    pub(super) fn shape(&self) -> Shape {
        Shape::new(self.data_mb, self.pool_mb.min(self.standby_pool_mb()), self.events_per_chunk(), self.seed)
    }
}
