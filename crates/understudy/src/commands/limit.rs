//! `understudy set-max-connections`: how many sessions a node takes at most.

use clap::Args;
use serde_json::Value;

use cli::exit::{CommandResult, Failure};
use client::node::node_path;
use client::order::OrderArgs;

/// 0 drains the node; "none" lifts the limit.
#[derive(Args)]
pub struct SetMaxConnections {
    /// Which node
    node: String,
    /// A number, or none
    limit: String,
    #[command(flatten)]
    order: OrderArgs,
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
        self.order.give(&path, &[("value", Some(value))], None)
    }
}
