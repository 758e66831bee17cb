//! `understudy hooks`: tries the hooks without waiting for a failover.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cli::exit::{CommandResult, Failure};
use serde_json::json;
use settings::Settings;

use crate::Hooks;
use crate::message::{Message, host};

/// The command and the webhook that are told of decisions
#[derive(Subcommand)]
pub enum Command {
    /// Run the command and call the webhook once, with a message of the kind "test"
    Test(Test),
}

/// As the running service would, but once, and as the account that gives this order. Exit code 1 when one of them fails.
#[derive(Args)]
pub struct Test {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Command {
    /// Tries them.
    pub fn run(&self) -> CommandResult {
        let Self::Test(Test { config }) = self;
        let file = settings::find(config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        let hooks = Hooks::read(&settings).map_err(Failure::usage)?;
        let hooks =
            hooks.ok_or_else(|| Failure::usage("neither hooks.command nor hooks.webhook_url is set"))?;
        let message = message(&settings.name);
        let both = async { tokio::join!(hooks.run(&message), hooks.call(&message, &[])) };
        let (command, webhook) = cli::runtime::start()?.block_on(both);
        let mut has_failed = false;
        for told in [command, webhook].into_iter().flatten() {
            has_failed |= told.is_err();
            println!("{}", told.unwrap_or_else(|why| why));
        }
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn message(cluster: &str) -> Message {
    let (id, kind) = ("0000000000000000", "test");
    let body = json!({
        "id": id,
        "cluster": cluster,
        "host": host(),
        "at_unix_ms": manager::unix_ms(),
        "level": "info",
        "term": 0,
        "text": "a test of the hooks: nothing has happened",
        "about": { "kind": kind },
    });
    Message { id: id.into(), kind, body: body.to_string() }
}
