//! `understudy lab ...`: the command line of the lab. One file a command.

pub mod bench;
pub mod bench_slowlog;
pub mod capacity;
pub mod down;
pub mod failover;
pub mod fault;
pub mod load;
pub mod output;
pub mod recovery;
pub mod rolling_restart;
pub mod status;
pub mod trace;
pub mod up;
pub mod vip;
pub mod warm;

use std::process::ExitCode;

use crate::stage::{Interrupted, guard};

/// The exit code after a signal, as shells use it for Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Real clusters on this machine: start them, load them, break them, measure
#[derive(Debug, clap::Subcommand)]
pub enum Lab {
    /// Start a real cluster on this machine; it stays until `lab down`
    Up(up::UpArgs),
    /// End a stage and take everything of it away
    Down(down::DownArgs),
    /// Show how each node is
    Status(status::StatusArgs),
    /// Break a node, or mend it
    Fault(fault::FaultArgs),
    /// Measure the seed's nine cells, and frozen and vanished nodes, on a real cluster
    Failover(failover::FailoverArgs),
    /// One cell of it, with a picture: the active node is killed under load
    Demo(failover::DemoArgs),
    /// Restart every node in turn under load: zero-downtime maintenance
    RollingRestart(rolling_restart::RollingRestartArgs),
    /// Move an address with three real keepaliveds, and watch that it never has two holders
    Vip(vip::VipArgs),
    /// Measure how cold a standby is after each way of warming it
    Warm(warm::WarmArgs),
    /// Hold what `understudy capacity` says of a node against what its rows say
    Capacity(capacity::CapacityArgs),
    /// The seed's node restarts on Galera: by missed writesets and by a full copy, without load and with updates
    Recovery(recovery::RecoveryArgs),
    /// Drive the seed's load against a database or a proxy
    Load(load::LoadArgs),
    /// Measure one part beside what others use in its place
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Compute the outage from a sysbench trace
    Trace(trace::TraceArgs),
}

/// Runs one command; needs tokio's multi-thread runtime. SIGINT, SIGTERM and SIGHUP end it cleaned up, with exit code 130.
///
/// # Errors
/// Whatever ended the command: its text says what to do.
pub async fn run(lab: Lab) -> anyhow::Result<ExitCode> {
    match guard(Box::pin(dispatch(lab))).await {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("{error}");
            Ok(ExitCode::from(INTERRUPTED))
        }
        result => result,
    }
}

async fn dispatch(lab: Lab) -> anyhow::Result<ExitCode> {
    match lab {
        Lab::Up(args) => up::run(&args).await,
        Lab::Down(args) => down::run(&args).await,
        Lab::Status(args) => status::run(&args).await,
        Lab::Fault(args) => fault::run(&args).await,
        Lab::Failover(args) => failover::run(&args).await,
        Lab::Demo(args) => failover::demo(&args).await,
        Lab::RollingRestart(args) => rolling_restart::run(&args).await,
        Lab::Vip(args) => vip::run(&args).await,
        Lab::Warm(args) => warm::run(&args).await,
        Lab::Capacity(args) => capacity::run(&args).await,
        Lab::Recovery(args) => recovery::run(&args).await,
        Lab::Load(args) => load::run(&args).await.map(|()| ExitCode::SUCCESS),
        Lab::Bench(bench) => bench::run(&bench).await,
        Lab::Trace(args) => trace::run(&args).map(|()| ExitCode::SUCCESS),
    }
}
