//! `understudy vip`: an address that sits on a machine that can serve, moved by keepalived.
//!
//! ```text
//!   vip config ──> keepalived.conf ──> keepalived ── every second ──> the check command
//!                       │                  └── a change of state ──> vip notify ──> the state file
//!                       ├──> vip status    reads both, and looks whether the address is here
//!                       └──> vip release   takes away what a killed keepalived left behind
//! ```
//!
//! keepalived speaks VRRP and moves the address; nothing here does. These commands write its configuration, and keep the books.

mod address;
mod conf_file;
mod conf_text;
mod config;
mod files;
mod held;
mod keepalived;
mod notify;
mod release;
mod status;

use clap::Subcommand;

use cli::exit::CommandResult;

/// An address that sits on a machine that can serve, moved by keepalived
#[derive(Subcommand)]
pub enum Vip {
    /// Print a complete configuration for keepalived
    Config(Box<config::Config>),
    /// Show whether this machine has the address, and whether it should
    Status(status::Status),
    /// Record a change of state; keepalived runs this
    Notify(notify::Notify),
    /// Take away the address that a killed keepalived left behind; systemd runs this
    Release(release::Release),
}

impl Vip {
    /// Runs one.
    pub fn run(self) -> CommandResult {
        match self {
            Self::Config(config) => config.run(),
            Self::Status(status) => status.run(),
            Self::Notify(notify) => notify.run(),
            Self::Release(release) => release.run(),
        }
    }
}

impl conf_file::ConfFile {
    /// Its addresses are not this network namespace's: a sentence.
    fn elsewhere(&self) -> Option<String> {
        let name = self.net_namespace.as_deref().filter(|name| !keepalived::is_in_namespace(name))?;
        Some(format!(
            "by its configuration keepalived works in the network namespace {name}, and this is another (`ip netns exec {name} ...`)"
        ))
    }
}
