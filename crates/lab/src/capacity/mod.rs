//! `lab capacity`: checks the result of `understudy capacity`, on a real Galera cluster or a real replica; also the estimate of `--passive`.
//!
//! ```text
//!   writers ──INSERT of numbered rows, at a rate──> db1 ──> db3, on which `understudy capacity` runs
//!                                                            '<── observer: SELECT MAX(id), every 20 ms
//! ```
//!
//! The check is independent and uses only the rows. Each transaction is one row, numbered in the order of sending, and Galera applies in
//! commit order. So the observer sees the rows of db3 stop and then grow until all rows that were sent are there: this many rows in this
//! time, by its own clock and count. It uses none of Galera's counters.
//!
//! Before each measurement `--passive` observes for a while. Regularly a batch changes some thousand rows at once, as applications do: the
//! small transactions behind it are delayed, and from that alone `--passive` must estimate the same capacity.

pub mod observe;
pub mod run;
pub mod table;

use anyhow::Context;

use self::run::Report;
use crate::experiment::{Cluster, Experiment, Output, Place};
use crate::output::positive;
use crate::stage::ClusterKind;

/// Maximum relative difference between the two figures.
pub const DIFFERENCE_MAX: f64 = 0.05;

/// Three servers under load: compares what `understudy capacity` reports for one with the rate computed from its rows
#[derive(Debug, clap::Args)]
pub struct CapacityPlan {
    /// Which kind of cluster
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    kind: Cluster,
    /// One short measurement
    #[arg(long)]
    quick: bool,
    /// Number of measurements [default: 5; with --quick 1]
    #[arg(long, value_name = "N", default_value_t = 5, default_value_if("quick", "true", "1"), hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Transactions a second [default: 400; with --quick 200]
    #[arg(long, value_name = "N", default_value_t = 400.0, default_value_if("quick", "true", "200"), hide_default_value = true,
        value_parser = positive)]
    rate: f64,
    /// Number of writing connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    connections: u32,
    /// How long the usual rate is observed, s [default: 20; with --quick 2]
    #[arg(long, value_name = "S", default_value_t = 20, default_value_if("quick", "true", "2"), hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    baseline_s: u64,
    /// How long db3 applies nothing, s [default: 60; with --quick 4]
    #[arg(long, value_name = "S", default_value_t = 60, default_value_if("quick", "true", "4"), hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(1..=600))]
    hold_s: u64,
    /// gcs.fc_limit of the Galera nodes [default: Galera's own, 16]. db2 shares this machine's processors: when they are busy it has a queue
    /// itself at times, which ends a hold early; only db3 reaches a higher limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    fc_limit: Option<u32>,
    /// How long `--passive` observes before each measurement, s; 0: not at all [default: 60; with --quick 0]
    #[arg(long, value_name = "S", default_value_t = 60, default_value_if("quick", "true", "0"), hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(0..=3600))]
    passive_s: u64,
    #[command(flatten)]
    output: Output,
}

impl CapacityPlan {
    fn kind(&self) -> ClusterKind {
        match self.kind {
            Cluster::Galera => ClusterKind::Galera,
            Cluster::Replication => ClusterKind::Replication { semi_sync: false },
        }
    }
}

impl Experiment for CapacityPlan {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        1 + u64::from(self.runs)
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        run::run(self, place).await.context("lab capacity")
    }
}
