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
mod held;
mod keepalived;
mod notify;
mod release;
mod status;

use clap::Subcommand;

use cli::exit::{CommandResult, Failure};

/// Where states lie unless somebody says otherwise; root's own. (/run/understudy is the services': systemd gives all in it to their
/// user.) /run is emptied by a restart of the machine, and so is the state then.
const STATE_DIRECTORY: &str = "/run/understudy-vip";
/// The one in it, unless an instance has a name of its own.
const STATE_FILE: &str = "/run/understudy-vip/vip.state";
/// Where keepalived is configured.
const CONF_FILE: &str = "/etc/keepalived/keepalived.conf";
/// Where a running keepalived says its process number.
const PID_FILE: &str = "/run/keepalived.pid";

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

/// Reads keepalived's configuration.
fn read_conf(path: &std::path::Path) -> Result<conf_file::ConfFile, Failure> {
    let text = infile::read_text(path).map_err(|e| {
        Failure::Usage(format!(
            "cannot read {}: {e}; `understudy vip config` prints one, --config says where it is",
            path.display()
        ))
    })?;
    let conf = conf_file::ConfFile::parse(&text);
    if conf.instances.iter().all(|instance| instance.addresses.is_empty()) {
        return Err(Failure::Usage(if conf.unread.is_empty() {
            format!("{} has no vrrp_instance with an address", path.display())
        } else {
            format!(
                "{} has no vrrp_instance with an address that can be read: {}",
                path.display(),
                conf.unread.join("; ")
            )
        }));
    }
    Ok(conf)
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
