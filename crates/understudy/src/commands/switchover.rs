//! `understudy switchover`: a planned move of the writer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::commands::preflight;
use cli::exit::{CommandResult, Failure};
use client::{Server, body};
use operate::budget::Budget;

/// Holds new transactions, lets the running ones end, waits until the new writer has applied everything, lets go. Over
/// budget, everything is undone and the old writer goes on. A result whose client does not read it is cut before that.
#[derive(Args)]
pub struct Switchover {
    /// The new writer [default: the election chooses]
    #[arg(value_name = "NODE", conflicts_with = "to")]
    node: Option<String>,
    /// The same
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    #[command(flatten)]
    budget: Budget,
    /// Cut what still runs then, instead of undoing everything: open transactions are rolled back, what was being committed ends with an
    /// unknown outcome
    #[arg(long)]
    force: bool,
    /// Move it to a standby that is not as warm as warm.require_percent wants, too
    #[arg(long)]
    cold: bool,
    /// Say what could make it fail, or slow, and change nothing; exit code 1 when something would
    #[arg(long, visible_alias = "dry-run", conflicts_with_all = ["force", "cold"])]
    check: bool,
    /// As JSON, on standard output; with --check and a FILE: write that as JSON, too
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

impl Switchover {
    /// Gives the order and says what came of it.
    pub fn run(self) -> CommandResult {
        let to = self.node.or(self.to);
        if self.check {
            return preflight::run(&self.server, to.as_deref(), self.budget.ms(), self.json.as_deref());
        }
        // `--json db2` would move the writer to whomever the election chooses.
        if let Some(file) = self.json.as_deref().filter(|file| *file != Path::new("-")) {
            return Err(Failure::Usage(format!(
                "--json {0}: a FILE is for --check, and nothing was ordered; if {0} is the new writer, write `switchover --to {0} --json`",
                file.display()
            )));
        }
        let body = body(&[
            ("to", to.map(Value::from)),
            ("budget_ms", self.budget.ms().map(Value::from)),
            ("force", self.force.then(|| Value::from(true))),
            ("cold", self.cold.then(|| Value::from(true))),
        ]);
        let answer = self.server.client()?.put("switchover", &body, self.budget.duration())?;
        answer.print(self.json.is_some());
        Ok(ExitCode::SUCCESS)
    }
}
