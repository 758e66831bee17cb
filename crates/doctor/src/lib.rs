//! `understudy doctor`: queries each node for the settings that decide how long a failover takes, states which case of the seed article's
//! table each one decides, and proposes better values with the measured reason. It changes nothing. For a primary with replicas: how each
//! server should be set, so that no transaction is lost and no client bypasses Understudy with writes.
//!
//! ```text
//!   nodes ──┬──> read (SQL) ──> judge (facts to findings, no I/O) ──┬──> page (text), or JSON
//!           └──> replication: the same for the other kind ──────────┘
//! ```

pub mod asked;
mod defaults;
pub mod judge;
pub mod options;
mod page;
pub mod proof;
pub mod read;
pub mod replicas_account;
mod replication;
pub mod servers;
pub mod windows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use topology::kind::Kind;

use cli::exit::{CommandResult, Failure};
use settings::{self, Settings, table as t};

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
    /// A server's option file, where it can be read here; may be given for each server (kind "replication" only)
    #[arg(long, value_name = "NODE=FILE")]
    my_cnf: Vec<String>,
}

impl Doctor {
    /// Prints the report.
    pub fn run(self) -> CommandResult {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        let monitor = settings.monitor_login().map_err(Failure::usage)?;
        let files = self.files(&settings)?;
        let runtime = cli::runtime::start()?;
        let account = settings.replication_account().map_err(Failure::usage)?;
        let report = match settings.kind {
            Kind::Replication => {
                let nodes = runtime.block_on(replication::all(&settings, &monitor, account.as_ref(), &files));
                replication::report(&settings, &nodes, &manager::Marks::read(&settings.store()))
            }
            Kind::Galera => {
                // Before the nodes are asked, which may have gone on since it was written.
                let known = manager::remembered(&settings.store());
                let nodes = runtime.block_on(read::all(&settings, &monitor));
                let mut report = judge::report(&settings, &nodes, known.as_ref());
                let answering = nodes.iter().filter(|node| node.said.is_ok());
                let answering = answering.map(|node| (node.name.clone(), node.address.clone())).collect();
                let tried = runtime.block_on(proof::all(&settings, answering));
                report.findings.extend(proof::findings(tried));
                report
            }
        };
        if self.json {
            let text = serde_json::to_string_pretty(&report).map_err(|e| Failure::Failed(e.to_string()))?;
            println!("{text}");
        } else {
            print!("{}", page::text(&report));
        }
        Ok(if report.must_act() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The option files from `--my-cnf`, by node.
    fn files(&self, settings: &Settings) -> Result<replication::Files, Failure> {
        if settings.kind != Kind::Replication && !self.my_cnf.is_empty() {
            let text = "--my-cnf is for a primary with replicas, and cluster.kind is \"galera\"";
            return Err(Failure::usage(settings.problem(&t::CLUSTER_KIND, text)));
        }
        let mut files = replication::Files::new();
        for said in &self.my_cnf {
            let Some((node, file)) = said.split_once('=') else {
                return Err(Failure::usage(format!("--my-cnf {said}: write NODE=FILE")));
            };
            if !settings.nodes.iter().any(|known| known.name == node) {
                return Err(Failure::usage(format!(
                    "--my-cnf {said}: {} has no node {node}",
                    settings.file.display()
                )));
            }
            files.insert(node.to_owned(), PathBuf::from(file));
        }
        Ok(files)
    }
}
