//! `understudy lab ...`: the command line of the lab, with one file per command.

pub mod down;
pub mod fault;
pub mod load;
pub mod status;
pub mod sysbench;
pub mod trace;
pub mod up;

use std::process::ExitCode;

use crate::bench::health::args::HealthArgs;
use crate::capacity::CapacityPlan;
use crate::consistency::ConsistencyPlan;
use crate::experiment::conduct;
use crate::failover::plan::{DemoArgs, FailoverPlan};
use crate::failover::rolling::RollingRestartArgs;
use crate::recovery::args::RecoveryArgs;
use crate::stage::{Interrupted, guard};
use crate::vip::VipPlan;
use crate::warm::WarmPlan;

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
    Failover(Box<FailoverPlan>),
    /// One cell of it, with a plot: the active node is killed under load
    Demo(DemoArgs),
    /// Restart every node in turn under load: zero-downtime maintenance
    RollingRestart(RollingRestartArgs),
    /// Move an address with three real keepaliveds, and check that it never has two holders
    Vip(VipPlan),
    /// Measure how cold a standby is after each way of warming it
    Warm(WarmPlan),
    /// Random faults and moves under transactions whose reads and outcomes are judged afterwards: nothing lost, doubled, aborted or read backwards
    Consistency(ConsistencyPlan),
    /// Compare what `understudy capacity` reports for a node with the rate computed from its rows
    Capacity(CapacityPlan),
    /// The seed's node restarts on Galera: by missing writesets (IST) and by a full copy (SST), without load and with updates
    Recovery(RecoveryArgs),
    /// Run the seed's load against a database or a proxy
    Load(load::LoadArgs),
    /// Measure one part, compared with what others use in its place
    #[command(subcommand)]
    Bench(Bench),
    /// Compute the outage from a sysbench trace
    Trace(trace::TraceArgs),
}

impl Lab {
    /// Whether it only prints, and may end in the middle when nobody reads on. What keeps clusters must not end that way.
    pub fn only_prints(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Trace(_))
    }
}

/// What can be measured
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// The health endpoint compared with nginx and HAProxy, under the seed's load and harder ones
    ///
    /// Ends with 1 when an answer was wrong (other bytes than expected, a status other than 200 and 503), or when a server gave none. A missed goal does not change the exit code: speed depends on what else the machine does.
    Health(Box<HealthArgs>),
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
        Lab::Failover(args) => conduct(&*args).await,
        Lab::Demo(args) => conduct(&args.as_failover()).await,
        Lab::RollingRestart(args) => conduct(&args).await,
        Lab::Vip(args) => conduct(&args).await,
        Lab::Warm(args) => conduct(&args).await,
        Lab::Consistency(args) => conduct(&args).await,
        Lab::Capacity(args) => conduct(&args).await,
        Lab::Recovery(args) => conduct(&args).await,
        Lab::Load(args) => load::run(&args).await.map(|()| ExitCode::SUCCESS),
        Lab::Bench(Bench::Health(args)) => conduct(&*args).await,
        Lab::Trace(args) => trace::run(&args).map(|()| ExitCode::SUCCESS),
    }
}
