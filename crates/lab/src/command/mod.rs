//! `understudy lab ...`: the command line of the lab, with one file per command.

pub mod bench;
pub mod capacity;
pub mod consistency;
pub mod down;
pub mod failover;
pub mod fault;
pub mod load;
pub mod output;
pub mod recovery;
pub mod rolling_restart;
pub mod status;
pub mod sysbench;
pub mod trace;
pub mod up;
pub mod vip;
pub mod warm;

use std::process::ExitCode;

use crate::stage::{Interrupted, guard};

/// The exit code after a signal, as shells use it for Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Real clusters on this machine: start them, load them, inject faults, measure
#[derive(Debug, clap::Subcommand)]
pub enum Lab {
    /// Start a real cluster on this machine; it stays until `lab down`
    Up(up::UpArgs),
    /// End a stage and remove everything that belongs to it
    Down(down::DownArgs),
    /// Show the state of each node
    Status(status::StatusArgs),
    /// Inject a fault into a node, or heal it
    Fault(fault::FaultArgs),
    /// Measure the seed's nine cells, and frozen and vanished nodes, on a real cluster
    Failover(failover::FailoverArgs),
    /// One cell of it, with a plot: the active node is killed under load
    Demo(failover::DemoArgs),
    /// Restart every node in turn under load: zero-downtime maintenance
    RollingRestart(rolling_restart::RollingRestartArgs),
    /// Move an address with three real keepaliveds, and check that it never has two holders
    Vip(vip::VipArgs),
    /// Measure how cold a standby is after each way of warming it
    Warm(warm::WarmArgs),
    /// Random faults and moves under transactions whose reads and outcomes are judged afterwards: nothing lost, doubled, aborted or read backwards
    Consistency(consistency::ConsistencyArgs),
    /// Compare what `understudy capacity` reports for a node with the rate computed from its rows
    Capacity(capacity::CapacityArgs),
    /// The seed's node restarts on Galera: by missing writesets (IST) and by a full copy (SST), without load and with updates
    Recovery(recovery::RecoveryArgs),
    /// Run the seed's load against a database or a proxy
    Load(load::LoadArgs),
    /// Measure one part, compared with what others use in its place
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Compute the outage from a sysbench trace
    Trace(trace::TraceArgs),
}

impl Lab {
    /// Whether it only prints, and may end in the middle when nobody reads on. What keeps clusters must not end that way.
    pub fn only_prints(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Trace(_))
    }
}

/// Runs one command; needs tokio's multi-thread runtime. SIGINT, SIGTERM and SIGHUP end it after cleaning up, with exit code 130.
///
/// # Errors
/// The error of the command; its text says what to do.
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
        Lab::Consistency(args) => consistency::run(&args).await,
        Lab::Capacity(args) => capacity::run(&args).await,
        Lab::Recovery(args) => recovery::run(&args).await,
        Lab::Load(args) => load::run(&args).await.map(|()| ExitCode::SUCCESS),
        Lab::Bench(bench) => bench::run(&bench).await,
        Lab::Trace(args) => trace::run(&args).map(|()| ExitCode::SUCCESS),
    }
}
