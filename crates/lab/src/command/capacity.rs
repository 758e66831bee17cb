//! `lab capacity`: checks the figure of `understudy capacity`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::output::write_report;
use crate::capacity::{CapacityPlan, run, table};
use crate::failover::progress::Progress;
use crate::stage::ClusterKind;

/// The kind of cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ClusterChoice {
    /// Three Galera nodes
    #[default]
    Galera,
    /// A primary with two replicas
    Replication,
}

/// Three servers under load: compares what `understudy capacity` reports for one with the rate computed from its rows
#[derive(Debug, clap::Args)]
pub struct CapacityArgs {
    /// Which kind of cluster
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub kind: ClusterChoice,
    /// One short measurement
    #[arg(long)]
    pub quick: bool,
    /// Number of measurements [default: 5; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: Option<u32>,
    /// Transactions a second [default: 400; with --quick 200]
    #[arg(long, value_name = "N", value_parser = super::output::positive)]
    pub rate: Option<f64>,
    /// Number of writing connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub connections: u32,
    /// How long the usual rate is observed, s [default: 20; with --quick 2]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub baseline_s: Option<u64>,
    /// How long db3 applies nothing, s [default: 60; with --quick 4]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub hold_s: Option<u64>,
    /// gcs.fc_limit of the Galera nodes [default: Galera's own, 16]. db2 shares this machine's processors: when they are busy it has a queue
    /// itself at times, which ends a hold early; only db3 reaches a higher limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub fc_limit: Option<u32>,
    /// How long `--passive` observes before each measurement, s; 0: not at all [default: 60; with --quick 0]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub passive_s: Option<u64>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write everything: table.txt, result.json, and text, JSON and page of each run
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Runs the measurements, prints the table, writes the requested files. Exit code 1 when a figure is wrong, or flow control stopped a write.
pub async fn run(args: &CapacityArgs) -> anyhow::Result<ExitCode> {
    let or = |given: Option<u64>, quick, full| given.unwrap_or(if args.quick { quick } else { full });
    let plan = CapacityPlan {
        kind: match args.kind {
            ClusterChoice::Galera => ClusterKind::Galera,
            ClusterChoice::Replication => ClusterKind::Replication { semi_sync: false },
        },
        fc_limit: args.fc_limit,
        passive: Duration::from_secs(or(args.passive_s, 0, 60)),
        runs: args.runs.unwrap_or(if args.quick { 1 } else { 5 }),
        rate: args.rate.unwrap_or(if args.quick { 200.0 } else { 400.0 }),
        connections: args.connections,
        baseline: Duration::from_secs(or(args.baseline_s, 2, 20)),
        hold: Duration::from_secs(or(args.hold_s, 4, 60)),
    };
    let dir = match &args.out_dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("understudy-lab-capacity-{}", std::process::id())),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let progress = Progress::new(run::steps(&plan));
    let report = run::run(&plan, &dir, &progress).await;
    progress.end();
    if args.out_dir.is_none() {
        // A temporary directory that the user did not request; a failure to remove it does no harm.
        let _ = std::fs::remove_dir_all(&dir);
    }
    let report = report.context("lab capacity")?;
    let figures = serde_json::to_value(&report)?;
    write_report(&table::draw(&report), &figures, args.json.as_deref(), args.out_dir.as_deref())?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
