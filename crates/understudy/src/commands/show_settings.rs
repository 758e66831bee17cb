//! `understudy settings`: the table of settings.

use std::process::ExitCode;

use clap::Args;

use crate::settings::page;

/// Every setting with its default, what is allowed, and what it means.
#[derive(Args)]
pub struct ShowSettings {
    /// As the page of the documentation
    #[arg(long)]
    markdown: bool,
}

impl ShowSettings {
    /// Prints it.
    pub fn run(&self) -> ExitCode {
        print!("{}", if self.markdown { page::markdown() } else { page::text() });
        ExitCode::SUCCESS
    }
}
