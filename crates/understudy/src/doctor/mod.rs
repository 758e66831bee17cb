//! `understudy doctor`: asks each node for what decides how long a failover takes, says which case of the seed's table each
//! answer decides, and proposes better values with the measured reason. It changes nothing.
//!
//! ```text
//!   nodes ──> read (SQL) ──> judge (facts to findings, no I/O) ──> page (text), or JSON
//! ```

mod judge;
mod options;
mod page;
pub mod read;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use topology::kind::Kind;

use crate::exit::{Failure, Outcome};
use crate::settings::{self, Settings, table as t};

/// For `--help`.
const EXIT: &str = "Exit codes: 0 nothing must be put right, though there may be advice; 1 a node cannot be asked, or something \
                    must be put right; 2 wrong usage or configuration.";

/// Reads only; the statements it proposes are for you to run.
#[derive(Args)]
#[command(after_help = EXIT)]
pub struct Doctor {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    /// Prints the report.
    pub fn run(self) -> Outcome {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        if settings.kind == Kind::Replication {
            let text = "the doctor knows Galera clusters only: `understudy serve --check` tries a primary and its replicas";
            return Err(Failure::usage(settings.problem(&t::CLUSTER_KIND, text)));
        }
        let password = settings.password().map_err(Failure::usage)?;
        let runtime = crate::runtime::start()?;
        let nodes = runtime.block_on(read::all(&settings, &password));
        let report = judge::report(&settings, &nodes);
        if self.json {
            let text = serde_json::to_string_pretty(&report).map_err(|e| Failure::Failed(e.to_string()))?;
            println!("{text}");
        } else {
            print!("{}", page::text(&report));
        }
        Ok(if report.must_act() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
