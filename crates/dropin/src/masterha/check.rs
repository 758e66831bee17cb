//! `masterha_check_repl` and `masterha_check_status`: report the state of replication and of the manager.

use std::time::Duration;

use api::Status;
use topology::view::TrafficFlow;

use super::failed::ToolResult;
use super::log::Log;
use super::options::{Options, Takes};
use super::scripts;
use super::site::{self, For, Site};
use super::steps::{KNOWN_WITHIN, read_conf};
use super::workdir::Workdir;
use import::mha::conf::{Conf, Server};

use Takes::{Nothing, Value as Text};

pub const REPL_OPTIONS: &[(&str, Takes)] = &[
    ("help", Nothing),
    ("version", Nothing),
    ("conf", Text),
    ("global_conf", Text),
    ("workdir", Text),
    ("seconds_behind_master", Text),
    ("skip_check_ssh", Nothing),
];
pub const STATUS_OPTIONS: &[(&str, Takes)] = &[
    ("help", Nothing),
    ("version", Nothing),
    ("conf", Text),
    ("global_conf", Text),
    ("workdir", Text),
    ("manager_workdir", Text),
    ("status_dir", Text),
    ("manager_log", Text),
    ("log_output", Text),
    ("ping_limit", Text),
    ("monitor_only", Nothing),
];
/// The default of --ping_limit, in seconds: a manager that has not written its file for this long is stuck.
const OLD_S: u64 = 10;

/// Prints `MySQL Replication Health is OK.`, or `NOT OK!`.
pub fn repl(log: &Log, options: &Options) -> ToolResult {
    let wrong = looked(log, options).unwrap_or_else(|why| vec![why]);
    for why in &wrong {
        log.error(why);
    }
    println!("\nMySQL Replication Health is {}", if wrong.is_empty() { "OK." } else { "NOT OK!" });
    Ok(u8::from(!wrong.is_empty()))
}

/// The problems found; the scripts are asked when there is none with the servers, as in MHA.
fn looked(log: &Log, options: &Options) -> Result<Vec<String>, String> {
    let conf = read_conf(log, options)?;
    site::log_in(&conf, conf.servers.iter())?;
    let site = Site::find(&conf, options, log, For::Look)?;
    let (master, wrong) = health(log, &conf, options, &site)?;
    if let Some(master) = master.filter(|_| wrong.is_empty()) {
        scripts::check(log, master)?;
    }
    Ok(wrong)
}

/// The master, and the problems with the servers, one sentence each.
fn health<'a>(
    log: &Log,
    conf: &'a Conf,
    options: &Options,
    site: &Site,
) -> Result<(Option<&'a Server>, Vec<String>), String> {
    let is_well = |status: &Status| {
        let others = |server: &&Server| status.writer.as_deref() != Some(site.name(server));
        let primary = site.primary(conf, status);
        primary.is_some_and(|primary| {
            status.gate == TrafficFlow::Open
                && conf.servers.iter().filter(others).all(|server| site.follows(status, server, primary))
        })
    };
    let status = site.wait(KNOWN_WITHIN, is_well).unwrap_or_else(|status| *status);
    let mut wrong = Vec::new();
    let Some(primary) = site.primary(conf, &status) else {
        let why = status.hold_because.as_deref().unwrap_or("nothing is known of it");
        return Ok((None, vec![format!("There is no current master: {why}")]));
    };
    if status.gate != TrafficFlow::Open {
        wrong.push(status.view.hold_because.clone().unwrap_or_else(|| "statements wait".to_owned()));
    }
    log.info(&format!("{} (current master)", primary.shown()));
    let most = options.number("seconds_behind_master", 30)?;
    for server in conf.servers.iter().filter(|server| server.block != primary.block) {
        log.info(&format!(" +--{}", server.shown()));
        let lag = site.lag_s(&status, server).unwrap_or(0);
        if !site.follows(&status, server, primary) {
            let why = site.not_following(&status, server, primary);
            wrong.push(format!("{}: {why}", server.shown()));
        } else if lag > most {
            wrong.push(format!("{} is {lag} seconds behind the master", server.shown()));
        }
    }
    Ok((Some(primary), wrong))
}

/// Prints the manager's state from its status file; without one, the state of a running `understudy serve` that manages these servers.
pub fn status(options: &Options) -> ToolResult {
    let conf = conf_quietly(options)?;
    let app = conf.app();
    let watched = match workdir(&conf, options).health() {
        Some(health) => {
            let is_old = health.age > Duration::from_secs(options.number("ping_limit", OLD_S)?);
            let code = if health.code == PING_OK && is_old { TIMESTAMP_OLD } else { health.code };
            Some((code, health.pid, health.master))
        }
        None => Site::running(&conf, options).map(|(site, status)| served(&conf, &site, &status)),
    };
    let (code, pid, master) = watched.unwrap_or((NOT_RUNNING, 0, String::new()));
    if !(options.has("monitor_only") && code == PING_OK) {
        println!("{}", said(&app, code, pid, &master));
    }
    Ok(code)
}

const PING_OK: u8 = 0;
const NOT_RUNNING: u8 = 2;
const INITIALIZING_MONITOR: u8 = 10;
const PING_FAILING: u8 = 20;
const TIMESTAMP_OLD: u8 = 32;
pub const FAILOVER_RUNNING: u8 = 50;

/// MHA's status line for an exit code.
fn said(app: &str, code: u8, pid: i32, master: &str) -> String {
    let name = match code {
        PING_OK => "PING_OK",
        INITIALIZING_MONITOR => "INITIALIZING_MONITOR",
        PING_FAILING => "PING_FAILING",
        21 => "PING_FAILED",
        30 => "RETRYING_MONITOR",
        31 => "CONFIG_ERROR",
        TIMESTAMP_OLD => "TIMESTAMP_OLD",
        FAILOVER_RUNNING => "FAILOVER_RUNNING",
        51 => "FAILOVER_ERROR",
        _ => "NOT_RUNNING",
    };
    let what = format!("({code}:{name})");
    match code {
        PING_OK => format!("{app} (pid:{pid}) is running{what}, master:{master}"),
        INITIALIZING_MONITOR => format!(
            "{app} monitoring program is now on initialization phase{what}. Wait for a while and try checking again."
        ),
        PING_FAILING | 21 => format!("{app} master maybe down{what}. master:{master}"),
        30 => format!(
            "{app} monitoring waits for retrying to monitor master again{what}. Wait for a while and try checking again."
        ),
        31 => format!("{app} servers are not correctly configured{what}."),
        TIMESTAMP_OLD => format!(
            "{app} is running, but master_ping.health is too old{what}. Maybe process hangs? master:{master}"
        ),
        FAILOVER_RUNNING => format!("{app} master is down and failover is running{what}. master:{master}"),
        51 => format!("{app} master is down and failover was not successful{what}. master:{master}"),
        _ => format!("{app} is stopped{what}."),
    }
}

/// The exit code for the status of a running Understudy, its process id, and the master.
fn served(conf: &Conf, site: &Site, status: &Status) -> (u8, i32, String) {
    let pid = i32::try_from(status.pid).unwrap_or(0);
    let primary = site.primary(conf, status);
    let master = primary.map_or_else(String::new, |primary| primary.host().to_owned());
    let code = match primary {
        None => INITIALIZING_MONITOR,
        Some(primary) if !site.is_alive(status, primary) => PING_FAILING,
        // A new master is being promoted, or statements are held for another reason.
        Some(_) if status.gate != TrafficFlow::Open && status.order.is_none() => FAILOVER_RUNNING,
        Some(_) => PING_OK,
    };
    (code, pid, master)
}

/// The directory of the manager's files.
pub fn workdir(conf: &Conf, options: &Options) -> Workdir {
    let given = ["workdir", "manager_workdir", "status_dir"].into_iter().find_map(|name| options.get(name));
    Workdir::of(conf, given)
}

/// Reads the file of `--conf` without logging.
pub fn conf_quietly(options: &Options) -> Result<Conf, String> {
    let file = options.path("conf").ok_or("--conf=<server_config_file> must be set.")?;
    let conf = Conf::read(&file, options.path("global_conf").as_deref())?;
    if conf.unknown.is_empty() { Ok(conf) } else { Err(conf.unknown.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn a_state_is_told_in_mhas_line() {
        assert_eq!(said("app1", 0, 7, "db1"), "app1 (pid:7) is running(0:PING_OK), master:db1");
        assert_eq!(said("app1", 2, 0, ""), "app1 is stopped(2:NOT_RUNNING).");
        assert_eq!(said("app1", 20, 7, "db1"), "app1 master maybe down(20:PING_FAILING). master:db1");
    }
}
