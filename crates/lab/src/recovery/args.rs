//! The command line of `lab recovery`.

use anyhow::{Context, bail};

use super::cell::{CELLS, Cell};
use super::run::{self, Report};
use super::{RecoveryPlan, pool_mb};
use crate::experiment::{Experiment, Output, Place};
use crate::output::positive;

/// The seed's two tables on three Galera nodes: how long a node takes to rejoin by missing writesets (IST) and by a full copy (SST),
/// without load and with updates
#[derive(Debug, clap::Args)]
pub struct RecoveryArgs {
    /// About 20 MB instead of 1 GB, and only the cells that show both kinds of transfer
    #[arg(long)]
    quick: bool,
    /// Rows of each of the two tables, 512 bytes each [default: 1000000; with --quick 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    rows: Option<u64>,
    /// Updates a second, each of one row [default: 2000; with --quick 500]
    #[arg(long, value_name = "N", value_parser = positive)]
    updates_per_s: Option<f64>,
    /// Buffer pool of each of the three nodes, MiB [default: the size of both tables]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1_000_000))]
    pool_mb: Option<u64>,
    /// Only this cell; may be given several times
    #[arg(long, value_name = "NAME")]
    cell: Vec<String>,
    #[command(flatten)]
    output: Output,
}

impl RecoveryArgs {
    fn plan(&self) -> RecoveryPlan {
        let mut plan = if self.quick { RecoveryPlan::quick() } else { RecoveryPlan::full() };
        plan.rows = self.rows.unwrap_or(plan.rows);
        plan.pool_mb = self.pool_mb.unwrap_or_else(|| pool_mb(plan.rows));
        plan.updates_per_s = self.updates_per_s.unwrap_or(plan.updates_per_s);
        plan
    }

    /// Those that were asked for; otherwise all, or only the quick ones in a quick run.
    fn cells(&self) -> Vec<Cell> {
        let is_wanted = |cell: &&Cell| match self.cell.is_empty() {
            true => cell.is_quick || !self.quick,
            false => self.cell.iter().any(|name| name == cell.name),
        };
        CELLS.iter().filter(is_wanted).copied().collect()
    }
}

impl Experiment for RecoveryArgs {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        2 + self.cells().len() as u64
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        if let Some(wrong) = self.cell.iter().find(|name| CELLS.iter().all(|cell| cell.name != **name)) {
            bail!("there is no cell {wrong}: there is {}", CELLS.map(|cell| cell.name).join(", "));
        }
        run::run(&self.plan(), &self.cells(), place.out, place.progress).await.context("lab recovery")
    }
}
