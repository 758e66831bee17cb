//! `understudy reload`: a running `serve` reads its configuration again.

use std::time::Duration;

use clap::Args;

use cli::exit::CommandResult;
use client::order::OrderArgs;

/// The answer may have to wait for a switchover that runs.
const WAIT: Duration = Duration::from_secs(30);

/// The running `serve` reads its configuration, passwords, key and certificate again, and keeps every client. Either all changes come into
/// force, or none. SIGHUP does the same; after a change of the API's key only SIGHUP does, since this command shows the new one.
#[derive(Args)]
pub struct Reload {
    #[command(flatten)]
    order: OrderArgs,
}

impl Reload {
    /// Asks for it and says what came of it.
    pub fn run(self) -> CommandResult {
        self.order.give("reload", &[], Some(WAIT))
    }
}
