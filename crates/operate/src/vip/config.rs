//! `understudy vip config`: prints a complete keepalived.conf, with the reason for each line that matters.
//!
//! Enters: the command line, trusted in nothing, for what stands in this file is run by root. Leaves: text that
//! `keepalived --config-test` accepts (2.2 and newer), or a sentence. This file has the options and says which text is asked for:
//!
//! ```text
//!   values (one option: may it stand there?) ──> settled (what the options come to together) ──> advised, or seed ──> text
//!                                                                                           └──> systemd (a drop-in)
//! ```

mod advised;
mod block;
mod program;
mod seed;
mod settled;
mod systemd;
mod values;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use self::values::{advert_interval_ms, command, interface, peer, plain_path, word};
use super::address::Address;
use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};

/// What the address stands for
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Purpose {
    /// A database node that can take traffic
    Database,
    /// A machine whose `understudy serve` is up
    Proxy,
}

/// Print a complete configuration for keepalived
#[derive(Args, Debug)]
#[command(
    after_help = "Give each machine a --priority of its own, at least 30 apart: equal ones, or close ones with a short advert \
                        interval, take the address at the same moment, and both have it until they hear each other.\n\n\
                        Exit codes: 0 printed; 1 this program cannot find its own file; 2 wrong usage."
)]
pub struct Config {
    /// What the address stands for
    #[arg(long = "for", value_enum, default_value = "database", value_name = "WHAT")]
    purpose: Purpose,
    /// The address that moves, with its network: 10.0.0.100/24 or fd00::100/64; may be repeated
    #[arg(long = "address", value_name = "ADDRESS/BITS", required_unless_present = "systemd")]
    addresses: Vec<Address>,
    /// The device that the address sits on; further ones must be up as well [default: eth0]
    #[arg(long = "interface", value_name = "DEVICE", value_parser = interface)]
    interfaces: Vec<String>,
    /// VRRP's virtual router number, 1 to 255: the same on all machines of this address, and no other's in the network
    #[arg(long, visible_alias = "vrid", value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u8).range(1..))]
    virtual_router_id: u8,
    /// Of several good machines, the highest takes a free address [default: 220; with --like-the-seed 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    priority: Option<u8>,
    /// From one advert of the machine that has the address to the next, in ms: 10 to 40950, in steps of 10
    #[arg(long, value_name = "TIME", default_value_t = 1000, value_parser = advert_interval_ms)]
    advert_interval_ms: u32,
    /// Send adverts to this machine alone instead of to everybody (multicast); once for each other machine
    #[arg(long = "peer", value_name = "IP", value_parser = peer)]
    peers: Vec<IpAddr>,
    /// A file with the password of adverts, 1 to 8 characters; forces VRRP version 2
    #[arg(long, value_name = "FILE")]
    auth_password_file: Option<PathBuf>,
    /// What is run to learn whether this machine may have the address [default: Understudy's check]
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    check_command: Option<String>,
    /// The check's user and password, as a MariaDB option file [default: /etc/understudy/check.cnf]
    #[arg(long, value_name = "FILE", conflicts_with = "check_command")]
    defaults_file: Option<PathBuf>,
    /// With --for proxy: the configuration of `understudy serve` [default: /etc/understudy/understudy.toml]
    #[arg(long = "config", value_name = "FILE", conflicts_with = "check_command")]
    serve: Option<PathBuf>,
    /// A node that feeds another, or was desynchronised, may keep the address
    #[arg(long, conflicts_with = "check_command")]
    available_when_donor: bool,
    /// From one check to the next, in s
    #[arg(long, value_name = "TIME", default_value_t = 1, value_parser = seconds(1..=3600))]
    check_interval_s: u64,
    /// A check that takes longer counts as failed, in s
    #[arg(long, value_name = "TIME", default_value_t = 2, value_parser = seconds(1..=3600))]
    check_timeout_s: u64,
    /// So many good checks until a machine counts as good
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    rise: u32,
    /// So many bad checks until it gives the address up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    fall: u32,
    /// Where the state is kept [default: /run/understudy-vip/vip.state, with --name NAME.state there; with --like-the-seed
    /// /tmp/keepalived.state]
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Keep each change of state with its time in this file
    #[arg(long, value_name = "FILE")]
    notify_log: Option<PathBuf>,
    /// What the instance is called; each one of a machine needs a name of its own [default: PXC, or PROXY]
    #[arg(long, value_name = "NAME", value_parser = word)]
    name: Option<String>,
    /// This program, as keepalived is to call it [default: where it lies now]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The seed's configuration: state MASTER and priority 100 on all, no more settings than it has
    #[arg(long, conflicts_with_all = ["purpose", "auth_password_file", "peers", "rise", "fall", "check_timeout_s"])]
    like_the_seed: bool,
    /// Print the drop-in for systemd's keepalived.service instead
    #[arg(long)]
    systemd: bool,
    /// With --systemd: keepalived's configuration, if it is not /etc/keepalived/keepalived.conf
    #[arg(long = "keepalived-config", value_name = "FILE", requires = "systemd")]
    conf: Option<PathBuf>,
    /// With --systemd: where keepalived says its process number, if it is not /run/keepalived.pid
    #[arg(long, value_name = "FILE", requires = "systemd")]
    pid_file: Option<PathBuf>,
}

impl Config {
    /// Prints it.
    pub fn run(self) -> CommandResult {
        self.refuse_what_is_not_asked()?;
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|e| {
                Failure::Failed(format!("cannot find this program's own file: {e}; say --program"))
            })?,
        };
        // On standard error: standard output is the file.
        if let Some(why) = program::doubt(&program) {
            eprintln!("warning: {why}");
        }
        let program = plain_path(&program)?;
        let text = if self.systemd {
            self.drop_in(&program)?
        } else if self.like_the_seed {
            self.seeds(&program)?
        } else {
            self.advised(&program)?
        };
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    }

    /// An option that would have no effect is a mistake.
    fn refuse_what_is_not_asked(&self) -> Result<(), Failure> {
        let proxy = self.purpose == Purpose::Proxy;
        let why = if proxy && self.defaults_file.is_some() {
            "--defaults-file is for a database's check; with --for proxy no database is asked"
        } else if proxy && self.available_when_donor {
            "--available-when-donor is for a database's check; with --for proxy no database is asked"
        } else if !proxy && self.serve.is_some() {
            "--config is the configuration of `understudy serve`, which only --for proxy asks; keepalived's own is --keepalived-config"
        } else {
            return Ok(());
        };
        Err(Failure::usage(why))
    }
}

#[cfg(test)]
mod tests;
