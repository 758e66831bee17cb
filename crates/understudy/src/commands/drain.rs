//! `understudy drain` and `undrain`: a node leaves, and comes back.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use cli::exit::CommandResult;
use client::node::node_path;
use client::{Server, body};
use operate::budget::Budget;

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
