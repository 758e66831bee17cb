//! `understudy drain` and `undrain`: a node leaves, and comes back.

use clap::Args;
use serde_json::Value;

use cli::exit::CommandResult;
use client::node::node_path;
use client::order::OrderArgs;
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
    #[command(flatten)]
    order: OrderArgs,
}

/// The node may take sessions again. It does not become the writer by this.
#[derive(Args)]
pub struct Undrain {
    /// Which node
    node: String,
    #[command(flatten)]
    order: OrderArgs,
}

impl Drain {
    /// Gives the order and says what came of it.
    pub fn run(self) -> CommandResult {
        let path = node_path(&self.node, "drain");
        let force = self.force.then(|| Value::from(true));
        let fields = [("budget_ms", self.budget.ms().map(Value::from)), ("force", force)];
        self.order.give(&path, &fields, self.budget.duration())
    }
}

impl Undrain {
    /// Gives the order and says what came of it.
    pub fn run(self) -> CommandResult {
        self.order.give(&node_path(&self.node, "undrain"), &[], None)
    }
}
