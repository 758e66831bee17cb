//! `understudy settings`: the table of settings.

use std::process::ExitCode;

use clap::Args;

use cli::exit::{CommandResult, Failure};
use settings::page;

/// Every setting with its default, what is allowed, and what it means.
#[derive(Args)]
pub struct ShowSettings {
    /// Only those whose name contains this, such as `hold.time_ms`, `tls` or `cluster.monitor.`
    #[arg(value_name = "KEY", conflicts_with = "markdown")]
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
        let key = self.key.as_deref().unwrap_or_default();
        let none = || Failure::usage(format!("no setting's name contains {key}"));
        let text = if self.markdown { Some(page::markdown()) } else { page::text(key) }.ok_or_else(none)?;
        if self.json {
            println!("{:#}", page::json(key));
            return Ok(ExitCode::SUCCESS);
        }
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    }
}
