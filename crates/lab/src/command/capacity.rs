//! `lab capacity`: whether the figure of `understudy capacity` is right.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::capacity::{CapacityPlan, run, table};
use crate::failover::progress::Progress;
use crate::stage::ClusterKind;

/// Which kind of cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ClusterChoice {
    /// Three Galera nodes
    #[default]
    Galera,
    /// A primary with two replicas
    Replication,
}

/// Three servers under load: what `understudy capacity` says of one, beside what its rows say
#[derive(Debug, clap::Args)]
pub struct CapacityArgs {
    /// Which kind of cluster
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub kind: ClusterChoice,
    /// One short measurement
    #[arg(long)]
    pub quick: bool,
    /// How often it is measured [default: 5; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: Option<u32>,
    /// Transactions a second [default: 400; with --quick 200]
    #[arg(long, value_name = "N", value_parser = super::output::positive)]
    pub rate: Option<f64>,
    /// Connections that write
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub connections: u32,
    /// How long the usual rate is looked at, s [default: 20; with --quick 2]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub baseline_s: Option<u64>,
    /// For how long db3 applies nothing, s [default: 60; with --quick 4]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub hold_s: Option<u64>,
    /// gcs.fc_limit of the Galera nodes [default: their own, 16]. db2 shares this machine's processors: where they are busy it has a queue
    /// of its own at times, which ends a hold early; a higher limit is only reached by db3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub fc_limit: Option<u32>,
    /// For so long `--passive` looks before each measurement, s; 0: not at all [default: 60; with --quick 0]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub passive_s: Option<u64>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write everything: table.txt, result.json, and each run's own text, JSON and page
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Measures, prints the table, writes what was asked for. Exit code 1 when a figure is wrong, or flow control was felt.
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
        // Nobody asked for it; what is left there is in the way of nobody.
        let _ = std::fs::remove_dir_all(&dir);
    }
    let report = report.context("lab capacity")?;
    let drawn = table::draw(&report);
    println!("{drawn}");
    let json = serde_json::to_value(&report)?;
    if let Some(path) = &args.json {
        super::output::write_json(path, &json)?;
    }
    if let Some(dir) = &args.out_dir {
        super::output::write_text(&dir.join("table.txt"), &drawn)?;
        super::output::write_json(&dir.join("result.json"), &json)?;
        println!("everything: {}", dir.display());
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
