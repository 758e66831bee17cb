//! `understudy settings`: the table of settings.

use std::process::ExitCode;

use clap::Args;

use cli::exit::{CommandResult, Failure};
use settings::page;

/// Every setting with its default, what is allowed, and what it means.
#[derive(Args)]
pub struct ShowSettings {
    /// Only those whose name contains this, such as `hold.time_ms`, `tls` or `cluster.monitor.`
    #[arg(value_name = "KEY", conflicts_with_all = ["markdown", "json"])]
    key: Option<String>,
    /// As the page of the documentation
    #[arg(long)]
    markdown: bool,
    /// As JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
}

impl ShowSettings {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let text = if self.json {
            format!("{:#}\n", page::json())
        } else if self.markdown {
            page::markdown()
        } else {
            let key = self.key.as_deref().unwrap_or_default();
            page::text(key).ok_or_else(|| Failure::usage(format!("no setting's name contains {key}")))?
        };
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    }
}
