//! Random faults and moves under transactions whose results are judged afterwards: is anything lost, doubled, aborted and read, or read
//! backwards that the same transactions on one server without a proxy do not show, too?
//!
//! ```text
//!   stage (real nodes) ── direct: the workload on db1, no proxy, no faults ──────────────┐
//!                      └─ through: the workload through Understudy, random faults ───────┤
//!                                                                                        v
//!                           every node's rows, read directly ──> judge ──> Report ──> table, JSON
//! ```
//!
//! The workload has four parts, each with tables and clients of its own:
//! - `lists`: transactions that append unique values to lists and read whole lists, at two isolation levels;
//! - `bank`: transfers between accounts, and reads of all balances;
//! - `register`: clients that read back what they have just written;
//! - `ids`: inserts whose ids the server gives out.

pub mod bank;
pub mod connection;
pub mod cycles;
pub mod faults;
pub mod history;
pub mod ids;
pub mod judge;
pub mod lists;
pub mod register;
pub mod result;
pub mod run;
pub mod signal;
pub mod table;
pub mod workload;

use anyhow::bail;

use self::result::Report;
use crate::experiment::{ClusterArgs, Experiment, Output, Place};
use crate::stage::ClusterKind;

/// Runs lists, a bank, registers and inserts through Understudy while nodes are killed, frozen, cut off and switched over at random, and judges
/// every answer afterwards: nothing lost, doubled, aborted or read backwards that the same transactions on one server do not show, too
#[derive(Debug, clap::Args)]
pub struct ConsistencyPlan {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Seconds of faults and moves; the last fault is undone after them
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    seconds: u64,
    /// Seconds of the same workload directly on one server, without faults
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    direct_seconds: u64,
    /// The same seed gives the same order of faults [default: random; it is printed]
    // Half of the numbers are enough, and these can be given back as JSON by every program.
    #[arg(long, default_value_t = rand::random::<u32>().into(), hide_default_value = true)]
    seed: u64,
    /// Longest pause of each client between two transactions
    #[arg(long, value_name = "MS", default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pause_ms: u64,
    /// Replication: reads outside transactions run on replicas (listen.split)
    #[arg(long)]
    split: bool,
    #[command(flatten)]
    output: Output,
}

impl Experiment for ConsistencyPlan {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        1
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        if (self.split || self.cluster.asynchronous) && self.cluster.kind() == ClusterKind::Galera {
            bail!("--split and --asynchronous are for --cluster replication");
        }
        println!("seed {}", self.seed);
        run::run(self, place).await
    }
}
