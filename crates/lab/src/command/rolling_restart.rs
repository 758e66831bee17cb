//! `lab rolling-restart`: restarts every node in turn under load.

use std::path::PathBuf;
use std::process::ExitCode;

use super::failover::{Cluster, FailoverArgs, WorkDir};
use crate::failover::case::Writers;
use crate::failover::progress::Progress;
use crate::failover::run;

/// How many nodes take traffic
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TakeTraffic {
    /// One
    One,
    /// All
    All,
}

/// Restarts every node of a real cluster behind Understudy, one after the other, under load: the cost of maintenance for the application
#[derive(Debug, clap::Args)]
pub struct RollingRestartArgs {
    /// Which kind of cluster
    #[arg(long, value_enum, default_value = "galera")]
    pub cluster: Cluster,
    /// Replication: a commit returns before a replica has it [default: semi-synchronous]
    #[arg(long)]
    pub asynchronous: bool,
    /// Galera: how many nodes take traffic
    #[arg(long, value_enum, default_value = "one")]
    pub writers: TakeTraffic,
    /// Transactions a second of each client
    #[arg(long, default_value_t = 30.0, value_parser = super::output::positive)]
    pub rate: f64,
    /// Threads of each client
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: u32,
    /// Use this running stage (lab up) instead of starting one
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs it, prints the table, writes the requested files. Exit code 1 when a client saw an error, or when an outcome it received does not
/// hold.
pub async fn run(args: &RollingRestartArgs) -> anyhow::Result<ExitCode> {
    let as_failover = FailoverArgs {
        cluster: args.cluster,
        asynchronous: args.asynchronous,
        rate: args.rate,
        threads: args.threads,
        stage: args.stage.clone(),
        ..FailoverArgs::default()
    };
    as_failover.check()?;
    let writers = match args.writers {
        TakeTraffic::One => Writers::One,
        TakeTraffic::All => Writers::All,
    };
    if args.cluster == Cluster::Replication && writers == Writers::All {
        anyhow::bail!(
            "--writers all is for --cluster galera: only one server of a primary and its replicas is written"
        );
    }
    let work = WorkDir::new()?;
    let plan = as_failover.plan(&work.path)?;
    let progress = Progress::new(3);
    let done = run::rolling_restart(&as_failover.ground(&plan)?, &plan, writers, &progress).await;
    progress.end();
    let done = done?;
    print!("{}", done.table());
    if let Some(path) = &args.json {
        report::file::write_json(path, &serde_json::to_value(&done)?)?;
    }
    Ok(if done.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
