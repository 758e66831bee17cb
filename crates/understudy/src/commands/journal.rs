//! `understudy journal`: what was decided, and why.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::client::Server;
use crate::exit::CommandResult;
use crate::table::moment;

/// The decisions, oldest first, each as one sentence with its reason. Times are UTC.
#[derive(Args)]
pub struct Journal {
    /// Only entries after this moment, in milliseconds since 1970
    #[arg(long, value_name = "MS", default_value_t = 0)]
    after: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Journal {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let answer = self.server.client()?.get(&format!("journal?after={}", self.after))?;
        if self.json {
            println!("{:#}", answer.data);
            return Ok(ExitCode::SUCCESS);
        }
        for row in answer.data.as_array().map(Vec::as_slice).unwrap_or_default() {
            println!("{}", line(row));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One entry; also used by `status`.
pub fn line(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or("?");
    let at = moment(row["at_unix_ms"].as_u64().unwrap_or(0));
    format!("{at}  {:<5}  {}", text("level"), text("text"))
}
