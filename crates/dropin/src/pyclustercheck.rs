//! `pyclustercheck`: the Python server of that name, with its options, port and response bytes.
//!
//! An option takes precedence over the sysconfig file, that over the environment, that over the default. Sources: the tool's twisted and
//! master branches (Oneiroi/clustercheck) as described in seed-tools.md, section 2.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use health::style::Style;
use topology::health::Rules;

use super::sysconfig::Sysconfig;
use cli::exit::{CommandResult, Failure};
use mycnf::Options;
use nodecheck::database::{Database, system_user};
use nodecheck::disabled_file;
use nodecheck::sockets::Sockets;
use nodecheck::watch::Watch;

/// The default option file.
const CONF: &str = "~/.my.cnf";
/// The original queries the database per request, at most once per cache time. Here it is polled every cache time, but not faster than
/// this.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// The time limit of the database's answer.
const DEADLINE: Duration = Duration::from_secs(1);
/// The limit of the cache time, in seconds; a longer one is a mistake.
const CACHE_S_MAX: f64 = 3600.0;

/// Answers over HTTP whether the Galera node of this machine may take traffic.
///
/// Settings may also stand in the environment or in /etc/sysconfig/clustercheck (/etc/default/clustercheck) as AWD, DWRO, CACHE, CNF,
/// PORT, IPV6 and IPv4.
#[derive(Parser)]
#[command(name = "pyclustercheck", version)]
struct Pyclustercheck {
    /// 1: a donor is available [default: 0]
    #[arg(short = 'a', long, value_name = "0|1", num_args = 0..=1, default_missing_value = "1")]
    available_when_donor: Option<String>,
    /// A node with read_only set is not available
    #[arg(short = 'r', long)]
    disable_when_readonly: bool,
    /// Ask the database each N seconds [default: 1]
    #[arg(short = 'c', long, value_name = "N")]
    cache_time: Option<String>,
    #[arg(
        short = 'f',
        long,
        help = "The option file with [client] user and password [default: ~/.my.cnf]",
        value_name = "FILE"
    )]
    conf: Option<String>,
    /// Port to listen on [default: 8000]
    #[arg(short = 'p', long, value_name = "N")]
    port: Option<String>,
    /// Listen on IPv6, all addresses (and on IPv4 through it)
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Listen on this IPv4 address [default: 0.0.0.0]
    #[arg(short = '4', long, value_name = "ADDR")]
    ipv4: Option<String>,
}

/// Runs the command.
pub fn run() -> ExitCode {
    let sysconfig = Sysconfig::read();
    for remark in &sysconfig.remarks {
        eprintln!("{remark}");
    }
    Pyclustercheck::parse().serve(&sysconfig).unwrap_or_else(|failure| failure.tell())
}

impl Pyclustercheck {
    fn serve(self, sysconfig: &Sysconfig) -> CommandResult {
        let said = |option: Option<String>, name: &str| {
            option.or_else(|| sysconfig.get(name)).filter(|text| !text.is_empty())
        };
        let donor = said(self.available_when_donor, "AWD").unwrap_or_else(|| "0".into());
        let donor = match donor.as_str() {
            "0" => false,
            "1" => true,
            other => return Err(wrong("available-when-donor (AWD)", "0 or 1", other)),
        };
        let switch = |option: bool, name: &str| match said(None, name)
            .unwrap_or_default()
            .to_ascii_lowercase()
            .as_str()
        {
            _ if option => Ok(true),
            "" | "0" | "false" | "no" => Ok(false),
            "1" | "true" | "yes" => Ok(true),
            other => Err(wrong(name, "true or false", other)),
        };
        let read_only = !switch(self.disable_when_readonly, "DWRO")?;
        let is_ipv6 = switch(self.ipv6, "IPV6")?;

        let cache = said(self.cache_time, "CACHE").unwrap_or_else(|| "1".into());
        let seconds = cache.parse().ok().filter(|seconds| (0.0..=CACHE_S_MAX).contains(seconds));
        let seconds = seconds.ok_or_else(|| wrong("cache-time (CACHE)", "seconds, 0 to 3600", &cache))?;
        let interval = Duration::from_secs_f64(seconds).max(INTERVAL_MIN);

        let port = said(self.port, "PORT").unwrap_or_else(|| "8000".into());
        let port: u16 = port.parse().map_err(|_| wrong("port (PORT)", "a number up to 65535", &port))?;
        // Sysconfig files have the name in either spelling.
        let ipv4 = said(self.ipv4.or_else(|| sysconfig.get("IPv4")), "IPV4");
        let address = match ipv4 {
            // As in the original, -6 takes precedence.
            _ if is_ipv6 => "[::]".to_owned(),
            ipv4 => ipv4.unwrap_or_else(|| "0.0.0.0".into()),
        };

        let file = said(self.conf, "CNF");
        let read = move || Database::of(conf(file.clone())?, system_user);
        let database = read()?;
        let read_login = Box::new(move || Ok(read()?.login));
        let socket = database.target.file();
        let sockets = Sockets::open(&[], &[], &format!("{address}:{port}"))?;
        let rules = Rules { donor, read_only, ..Rules::STRICT };
        Watch {
            database,
            read_login,
            interval,
            age_max: interval + DEADLINE,
            disabled_file: Some(disabled_file()),
            rules,
            style: Style::Pyclustercheck,
            exposed: Vec::new(),
            socket,
        }
        .run(sockets)
    }
}

/// Reads the option file: a named one must exist, the user's own need not.
fn conf(named: Option<String>) -> Result<Options, Failure> {
    let is_named = named.is_some();
    let text = named.unwrap_or_else(|| CONF.into());
    let file = match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(text),
    };
    if !is_named && !file.exists() {
        return Ok(Options::default());
    }
    Options::of_file(&file).map_err(Failure::usage)
}

fn wrong(name: &str, allowed: &str, value: &str) -> Failure {
    Failure::usage(format!("{name} must be {allowed}; it is: {value}"))
}
