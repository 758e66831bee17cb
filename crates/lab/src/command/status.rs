//! `lab status`: the state of each node, from its own status and from the state of its process.

use std::process::ExitCode;

use crate::stage::{NodeReport, Stage};

/// Shows the state of each node
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Name of the stage
    #[arg(long, default_value = "lab")]
    pub name: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Exit code 1 when a node is not healthy.
pub async fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let stage = Stage::attach(&args.name)?;
    let nodes = stage.report().await?;
    if args.json {
        let report = serde_json::json!({
            "stage": stage.name(),
            "host_address": stage.host_address(),
            "namespaced": stage.is_namespaced(),
            "kind": stage.kind(),
            "server": stage.server(),
            "settings": stage.settings(),
            "authority": stage.authority(),
            "nodes": nodes,
        });
        println!("{report:#}");
    } else {
        let (server, settings) = (stage.server(), stage.settings());
        println!("stage {}, this side is {}; {server}; {settings}\n", stage.name(), stage.host_address());
        println!("{:<5} {:<18} {:>8} {:>9}  state", "node", "address", "pid", "uptime");
        for node in &nodes {
            println!("{}", line(node));
        }
    }
    let well = nodes
        .iter()
        .all(|node| node.word.as_ref().is_some_and(crate::stage::Word::is_well) && !node.vanished);
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(node: &NodeReport) -> String {
    let dash = || "-".to_owned();
    let pid = node.pid.map_or_else(dash, |pid| pid.to_string());
    let uptime = node.uptime_s.map_or_else(dash, |seconds| format!("{seconds:.0} s"));
    format!("{:<5} {:<18} {pid:>8} {uptime:>9}  {}", node.name, node.address.to_string(), node.state())
}
