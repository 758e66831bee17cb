//! `lab consistency`: judges what transactions see while nodes fail and the writer moves.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use super::failover::{Cluster, WorkDir};
use super::output::write_report;
use crate::consistency::{ConsistencyPlan, run, table};
use crate::failover::progress::Progress;
use crate::stage::ClusterKind;

/// Runs lists, a bank, registers and inserts through Understudy while nodes are killed, frozen, cut off and switched over at random, and judges
/// every answer afterwards: nothing lost, doubled, aborted or read backwards that the same transactions on one server do not show, too
#[derive(Debug, clap::Args)]
pub struct ConsistencyArgs {
    /// Which kind of cluster
    #[arg(long, value_enum, default_value = "galera")]
    pub cluster: Cluster,
    /// Replication: a commit returns before a replica has it, so that a failover may lose acknowledged transactions [default: semi-synchronous]
    #[arg(long)]
    pub asynchronous: bool,
    /// Seconds of faults and moves; the last fault is undone after them
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub seconds: u64,
    /// Seconds of the same workload directly on one server, without faults
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub direct_seconds: u64,
    /// The same seed gives the same order of faults [default: random; it is printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Longest pause of each client between two transactions
    #[arg(long, value_name = "MS", default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub pause_ms: u64,
    /// Replication: reads outside transactions run on replicas (listen.split)
    #[arg(long)]
    pub split: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write everything: table.txt, result.json, and Understudy's log
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Runs it, prints the table, writes the requested files. Exit code 1 when anything is wrong, or the cluster was not well again after a fault.
pub async fn run(args: &ConsistencyArgs) -> anyhow::Result<ExitCode> {
    let cluster = match args.cluster {
        Cluster::Galera => ClusterKind::Galera,
        Cluster::Replication => ClusterKind::Replication { semi_sync: !args.asynchronous },
    };
    if (args.split || args.asynchronous) && cluster == ClusterKind::Galera {
        bail!("--split and --asynchronous are for --cluster replication");
    }
    let work = WorkDir::new()?;
    let plan = ConsistencyPlan {
        cluster,
        seconds: args.seconds,
        direct_seconds: args.direct_seconds,
        // Half of the numbers are enough, and these can be given back as JSON by every program.
        seed: args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>())),
        pause_ms: args.pause_ms,
        split: args.split,
        dir: work.path.clone(),
    };
    println!("seed {}", plan.seed);
    let progress = Progress::new(1);
    let report = run::run(&plan, &progress).await;
    progress.end();
    if let Some(dir) = &args.out_dir {
        work.keep_logs(dir)?;
    }
    let report = report?;
    let figures = serde_json::to_value(&report)?;
    write_report(&table::draw(&report), &figures, args.json.as_deref(), args.out_dir.as_deref())?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
