//! `understudy settings`: the table of settings; or an MHA site's configuration as Understudy's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use cli::exit::{CommandResult, Failure};
use import::mha;
use import::mha::conf::Conf;
use settings::page;

/// Every setting with its default, what is allowed, and what it means.
#[derive(Args)]
pub struct ShowSettings {
    /// Only those whose name contains this, such as `hold.time_ms`, `tls` or `cluster.monitor.`
    #[arg(value_name = "KEY", conflicts_with_all = ["markdown", "json", "from_mha"])]
    key: Option<String>,
    /// As the page of the documentation
    #[arg(long)]
    markdown: bool,
    /// As JSON
    #[arg(long, conflicts_with_all = ["markdown", "from_mha"])]
    json: bool,
    /// Print a configuration that serves the servers of this MHA configuration, its passwords included
    #[arg(long, value_name = "APP.CNF", conflicts_with = "markdown")]
    from_mha: Option<PathBuf>,
    /// With --from-mha: MHA's global configuration [default: /etc/masterha_default.cnf, if it exists]
    #[arg(long, value_name = "FILE", requires = "from_mha")]
    mha_global: Option<PathBuf>,
}

impl ShowSettings {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let text = match &self.from_mha {
            Some(file) => {
                let conf = Conf::read(file, self.mha_global.as_deref()).map_err(Failure::Usage)?;
                for doubt in mha::moved::doubts(&conf) {
                    eprintln!("warning: {doubt}");
                }
                mha::moved::configuration(&conf)
            }
            None if self.json => format!("{:#}\n", page::json()),
            None if self.markdown => page::markdown(),
            None => {
                let key = self.key.as_deref().unwrap_or_default();
                page::text(key).ok_or_else(|| Failure::usage(format!("no setting's name contains {key}")))?
            }
        };
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    }
}
