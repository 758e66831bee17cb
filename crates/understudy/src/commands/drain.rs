//! `understudy drain` and `undrain`: a node leaves, and comes back.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::budget::Budget;
use crate::client::{Server, body};
use cli::exit::CommandResult;

/// Its sessions move at their next boundary; when it is the writer, the writer moves first.
#[derive(Args)]
pub struct Drain {
    /// Which node
    node: String,
    #[command(flatten)]
    budget: Budget,
    /// Cut what still runs then, instead of undoing the drain: open transactions are rolled back, what was being committed ends with an
    /// unknown outcome
    #[arg(long)]
    force: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

/// The node may take sessions again. It does not become the writer by this.
#[derive(Args)]
pub struct Undrain {
    /// Which node
    node: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Drain {
    /// Gives the order and says what came of it.
    pub fn run(self) -> CommandResult {
        let path = node_path(&self.node, "drain");
        let force = self.force.then(|| Value::from(true));
        let body = body(&[("budget_ms", self.budget.ms().map(Value::from)), ("force", force)]);
        let answer = self.server.client()?.put(&path, &body, self.budget.duration())?;
        answer.print(self.json);
        Ok(ExitCode::SUCCESS)
    }
}

impl Undrain {
    /// Gives the order and says what came of it.
    pub fn run(self) -> CommandResult {
        let answer = self.server.client()?.put(&node_path(&self.node, "undrain"), &json!({}), None)?;
        answer.print(self.json);
        Ok(ExitCode::SUCCESS)
    }
}

/// The path of an order about a node. What cannot be a node's name is written so that it stays one piece of the path.
pub fn node_path(node: &str, order: &str) -> String {
    format!("node/{}/{order}", escaped(node))
}

/// A name as it may stand in a URL.
pub fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_name_stays_one_piece() {
        assert_eq!(node_path("db1", "drain"), "node/db1/drain");
        assert_eq!(node_path("a/../b c?", "drain"), "node/a%2F..%2Fb%20c%3F/drain");
    }
}
