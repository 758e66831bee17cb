//! `understudy processlist`: the sessions that matter when something is to be moved.

use std::process::ExitCode;

use api::Status;
use api::proxy::Busy;
use clap::Args;
use serde_json::json;

use cli::exit::CommandResult;
use client::Server;
use report::table::{Lean, Table, span};

/// The sessions that wait for a node, have a transaction open, cannot move, or have been doing something else for long; the longest first. An idle
/// session that could move is not among them.
#[derive(Args)]
pub struct ProcessList {
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl ProcessList {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let status: Status = self.server.client()?.get("status")?.read()?;
        if self.json {
            println!("{:#}", json!(sessions(&status)));
        } else {
            print!("{}", table(&status));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Of both ports.
fn sessions(status: &Status) -> Vec<&Busy> {
    let reads = status.read_port.iter().flat_map(|port| &port.sessions);
    status.proxy.sessions.iter().chain(reads).collect()
}

/// As a table, or a sentence when there are none; also used by `status`.
pub fn table(status: &Status) -> String {
    let sessions = sessions(status);
    if sessions.is_empty() {
        return "no session waits, has a transaction open, or is tied to its node\n".to_owned();
    }
    let mut table = Table::new(&[
        ("ID", Lean::Right),
        ("USER", Lean::Left),
        ("CLIENT", Lean::Left),
        ("NODE", Lean::Left),
        ("CONNECTED", Lean::Right),
        ("FOR", Lean::Right),
        ("DOES", Lean::Left),
        ("TIED BY", Lean::Left),
    ]);
    for Busy { id, user, client, node, ties, connected_s, waits_ms, what, .. } in sessions {
        let node = if node.is_empty() { "-" } else { node };
        table.row([
            id.to_string(),
            user.clone(),
            client.clone(),
            node.to_owned(),
            span(connected_s * 1000),
            span(*waits_ms),
            what.clone(),
            ties.clone(),
        ]);
    }
    table.text()
}
