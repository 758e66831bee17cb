//! `masterha_check_repl`, `masterha_check_status`, `masterha_stop`: what is, and the end of a manager.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Outcome;
use super::log::Log;
use super::master_switch::{KNOWN_WITHIN, read_conf};
use super::options::{Options, Takes};
use super::site::{For, Site};
use super::workdir::Workdir;
use crate::mha::conf::Conf;

use Takes::{Nothing, Value as Text};

const OPTIONS: &[(&str, Takes)] = &[
    ("help", Nothing),
    ("version", Nothing),
    ("conf", Text),
    ("global_conf", Text),
    ("workdir", Text),
    ("seconds_behind_master", Text),
    ("skip_check_ssh", Nothing),
    ("monitor_only", Nothing),
    ("abort", Nothing),
];
/// A manager that has not touched its file for so long is stuck.
const OLD: Duration = Duration::from_secs(10);
/// So long a manager may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// `MySQL Replication Health is OK.`, or not.
pub fn repl(log: &Log, arguments: Vec<String>) -> Outcome {
    let options = Options::read(arguments, OPTIONS)?;
    let conf = read_conf(log, &options)?;
    let site = Site::find(&conf, &options, log, For::Look)?;
    let wrong = health(log, &conf, &options, &site)?;
    for why in &wrong {
        log.error(why);
    }
    println!("\nMySQL Replication Health is {}", if wrong.is_empty() { "OK." } else { "NOT OK!" });
    Ok(u8::from(!wrong.is_empty()))
}

/// What is not as it should be.
fn health(log: &Log, conf: &Conf, options: &Options, site: &Site) -> Result<Vec<String>, String> {
    let is_well = |status: &Value| {
        let others = |server: &&crate::mha::conf::Server| status["writer"] != site.name(server);
        let primary = site.primary(conf, status);
        primary.is_some_and(|primary| {
            status["gate"] == "open"
                && conf.servers.iter().filter(others).all(|server| site.follows(status, server, primary))
        })
    };
    let status = site.wait(KNOWN_WITHIN, is_well).unwrap_or_else(|status| status);
    let mut wrong = Vec::new();
    let Some(primary) = site.primary(conf, &status) else {
        let why = status["hold_because"].as_str().unwrap_or("nothing is known of it").to_owned();
        return Ok(vec![format!("There is no current master: {why}")]);
    };
    if status["gate"] != "open" {
        wrong.push(status["hold_because"].as_str().unwrap_or("statements wait").to_owned());
    }
    log.info(&format!("{} (current master)", primary.shown()));
    let most = options.number("seconds_behind_master", 30)?;
    for server in conf.servers.iter().filter(|server| server.block != primary.block) {
        log.info(&format!(" +--{}", server.shown()));
        let node = site.node(&status, server);
        let lag = node["facts"]["channels"][0]["lag_s"].as_u64().unwrap_or(0);
        if !site.follows(&status, server, primary) {
            let why = node["reason"].as_str().unwrap_or("it does not answer");
            wrong.push(format!("{}: {why}", server.shown()));
        } else if lag > most {
            wrong.push(format!("{} is {lag} seconds behind the master", server.shown()));
        }
    }
    Ok(wrong)
}

/// What a manager says of itself, by its file.
pub fn status(arguments: Vec<String>) -> Outcome {
    let options = Options::read(arguments, OPTIONS)?;
    let conf = conf_quietly(&options)?;
    let app = conf.app();
    let workdir = Workdir::of(&conf, options.get("workdir"));
    let Some(health) = workdir.health() else {
        println!("{app} is stopped(2:NOT_RUNNING).");
        return Ok(2);
    };
    let (code, text) =
        if health.age > OLD { (32, "TIMESTAMP_OLD".to_owned()) } else { (health.code, health.text) };
    if options.has("monitor_only") && code == 0 {
        return Ok(0);
    }
    println!("{app} (pid:{}) is running({code}:{text}), master:{}", health.pid, health.master);
    Ok(code)
}

/// Ends a manager.
pub fn stop(arguments: Vec<String>) -> Outcome {
    use rustix::process::{Pid, Signal, kill_process};
    let options = Options::read(arguments, OPTIONS)?;
    let conf = conf_quietly(&options)?;
    let app = conf.app();
    let workdir = Workdir::of(&conf, options.get("workdir"));
    let Some(pid) = workdir.health().and_then(|health| Pid::from_raw(health.pid)) else {
        println!("MHA Manager is not running on {app}(2:NOT_RUNNING).");
        return Ok(1);
    };
    let signal = if options.has("abort") { Signal::KILL } else { Signal::TERM };
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
    let until = Instant::now() + STOP_WITHIN;
    while workdir.health().is_some() {
        if Instant::now() > until {
            return Err(format!("{app} did not stop within {} s; use --abort", STOP_WITHIN.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    workdir.remove("master_status.health");
    println!("Stopped {app} successfully.");
    Ok(0)
}

fn conf_quietly(options: &Options) -> Result<Conf, String> {
    let file = options.path("conf").ok_or("--conf=<server_config_file> must be set.")?;
    Conf::read(&file, options.path("global_conf").as_deref())
}
