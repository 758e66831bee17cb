//! `understudy set-max-connections`: how many sessions a node takes at most.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use cli::exit::{CommandResult, Failure};
use client::Server;
use client::node::node_path;

/// 0 drains the node; "none" lifts the limit.
#[derive(Args)]
pub struct SetMaxConnections {
    /// Which node
    node: String,
    /// A number, or none
    limit: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl SetMaxConnections {
    /// Gives the order and says what came of it.
    pub fn run(self) -> CommandResult {
        let value = match self.limit.as_str() {
            "none" => Value::Null,
            number => number.parse::<u32>().map(Value::from).map_err(|_| {
                Failure::Usage(format!(
                    "the limit must be a whole number from 0 to {}, or none; it is {number:?}",
                    u32::MAX
                ))
            })?,
        };
        let path = node_path(&self.node, "max_connections");
        let answer = self.server.client()?.put(&path, &json!({ "value": value }), None)?;
        answer.print(self.json);
        Ok(ExitCode::SUCCESS)
    }
}
