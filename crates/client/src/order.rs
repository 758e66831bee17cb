//! What the orders to a running server have in common: a dry run, JSON, and how the answer is told.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cli::exit::CommandResult;
use serde_json::Value;

use crate::{Server, body};

/// The options of every order.
#[derive(Args)]
pub struct OrderArgs {
    /// Say what would come of it, and change nothing: the running server answers; what it would refuse ends with 1 here, too
    #[arg(long)]
    dry_run: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl OrderArgs {
    /// Gives the order with what is set of `fields`, and says what came of it; `wait` is how long the order itself may take.
    pub fn give(
        &self,
        path: &str,
        fields: &[(&str, Option<Value>)],
        wait: Option<Duration>,
    ) -> CommandResult {
        let mut body = body(fields);
        if self.dry_run {
            body["dry_run"] = Value::from(true);
        }
        self.server.client()?.put(path, &body, wait)?.print(self.json);
        Ok(ExitCode::SUCCESS)
    }
}
