//! `lab fault`: injects a fault into a node of a running stage, or heals the node.

use std::process::ExitCode;
use std::time::Instant;

use crate::fault::Fault;
use crate::stage::{ClusterKind, Stage};

/// Injects a fault into a node, or heals it
#[derive(Debug, clap::Args)]
pub struct FaultArgs {
    /// Name of the node: db1, db2, ...
    pub node: String,
    /// The fault
    #[arg(value_enum)]
    pub fault: Fault,
    /// Name of the stage
    #[arg(long, default_value = "lab")]
    pub name: String,
}

/// Runs the command.
pub async fn run(args: &FaultArgs) -> anyhow::Result<ExitCode> {
    let stage = Stage::attach(&args.name)?;
    let asked = Instant::now();
    let done = stage.fault(&args.node, args.fault).await?;
    let effect = effect(args.fault, stage.kind());
    println!("{}: {effect} after {:.3} s", args.node, done.duration_since(asked).as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn effect(fault: Fault, kind: ClusterKind) -> &'static str {
    match fault {
        Fault::Kill => "SIGKILL sent",
        Fault::Stop => "SIGTERM sent",
        Fault::Freeze => "frozen",
        Fault::Thaw => "thawed",
        Fault::Vanish => "its link is down",
        Fault::DiskFull => "its disk is full",
        Fault::WriteLock => "locked against writes",
        Fault::StuckDdl => "its DDL is stuck",
        Fault::Heal if kind == ClusterKind::Galera => "Synced again",
        Fault::Heal => "back",
    }
}
