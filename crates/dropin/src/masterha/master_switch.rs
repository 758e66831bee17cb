//! `masterha_master_switch`: makes another server the master, by order. The old master is alive (this file) or dead ([`super::dead`]).
//!
//! ```text
//!   Phase 1  nobody is dead, nobody is behind, nothing runs for long ── --check_only ends here
//!   Phase 2  online change script: stop ── switchover ── online change script: start ── replicas follow
//!   Phase 5  the new master follows nobody
//! ```
//!
//! Exit codes: 0 done; 10 done, but some replicas do not follow; 1 not done.

use std::time::Duration;

use api::Status;
use topology::view::TrafficFlow;

use super::dead;
use super::failed::{Failed, ToolResult};
use super::log::Log;
use super::options::{Options, Takes};
use super::scripts::{self, Call, ONLINE_CHANGE};
use super::site::{self, For, Site, ask};
use super::steps::{KNOWN_WITHIN, chosen, confirm, followers, read_conf, remove, start_from};
use super::workdir::Workdir;
use import::mha::conf::{Conf, Server};

use Takes::{Nothing, Value as Text};

/// All options of MHA.
pub const OPTIONS: &[(&str, Takes)] = &[
    ("help", Nothing),
    ("version", Nothing),
    ("conf", Text),
    ("global_conf", Text),
    ("master_state", Text),
    ("interactive", Text),
    ("new_master_host", Text),
    ("new_master_port", Text),
    ("orig_master_is_new_slave", Nothing),
    ("running_updates_limit", Text),
    ("running_seconds_limit", Text),
    ("seconds_behind_master", Text),
    ("skip_lock_all_tables", Nothing),
    ("remove_orig_master_conf", Nothing),
    ("remove_dead_master_conf", Nothing),
    ("flush_tables", Text),
    ("check_only", Nothing),
    ("workdir", Text),
    ("dead_master_host", Text),
    ("dead_master_ip", Text),
    ("dead_master_port", Text),
    ("ssh_reachable", Text),
    ("last_failover_minute", Text),
    ("ignore_last_failover", Nothing),
    ("wait_on_failover_error", Text),
    ("skip_save_master_binlog", Nothing),
    ("skip_change_master", Nothing),
    ("skip_disable_read_only", Nothing),
    ("wait_until_gtid_in_sync", Text),
    ("ignore_binlog_server_error", Nothing),
];

/// The condition for statements that change something.
const UPDATES: &str =
    "AND INFO RLIKE '^[[:space:]]*(INSERT|UPDATE|DELETE|REPLACE|LOAD|ALTER|CREATE|DROP|TRUNCATE|CALL)'";
/// How long to wait until it is known of every replica that it follows the master.
const KNOWN_FOLLOWING_WITHIN: Duration = Duration::from_secs(2);
/// The exit code when some replicas do not follow.
const PARTIALLY: u8 = 10;

pub fn run(log: &Log, options: &Options) -> ToolResult {
    let conf = read_conf(log, options)?;
    // A running masterha_manager would treat the new master as an unknown server, and make it read only.
    if let Some(manager) = Workdir::of(&conf, None).health().filter(|_| !options.has("check_only")) {
        return Err(format!(
            "masterha_manager runs, pid {}: nothing was changed. Stop it (masterha_stop), and try again.",
            manager.pid
        )
        .into());
    }
    match options.get("master_state") {
        Some("alive") => alive(log, &conf, options),
        Some("dead") => dead::run(log, &conf, options),
        _ => Err("--master_state=<state> must be either alive or dead.".to_owned().into()),
    }
}

fn alive(log: &Log, conf: &Conf, options: &Options) -> ToolResult {
    log.info(&format!(
        "MHA::MasterRotate version 0.58, as Understudy {} does it.",
        env!("CARGO_PKG_VERSION")
    ));
    log.info("Starting online master switch..");
    log.info("");
    log.info("* Phase 1: Configuration Check Phase..");
    log.info("");
    site::log_in(conf, conf.servers.iter())?;
    // Until all is checked nothing is changed; a manager that may move things makes a replica of a server that follows nobody.
    let site = Site::find(conf, options, log, For::Look)?;
    let status = all_are_well(conf, &site)?;
    let Some(orig) = site.primary(conf, &status) else {
        return Err("the current master is none of these servers".to_owned().into());
    };
    log.info(&format!("Current Alive Master: {}", orig.shown()));
    log.info("Alive Slaves:");
    let others: Vec<&Server> = conf.servers.iter().filter(|server| server.block != orig.block).collect();
    for server in &others {
        log.info(&format!("  {}", server.shown()));
    }
    let status = all_follow(&site, orig, &others)?;
    let new = chosen(conf, options, &others, orig)?;
    if new.block == orig.block {
        log.info(&format!("{} is the current master already: nothing is done.", orig.shown()));
        return Ok(0);
    }
    check(&site, &status, options, orig, new, &others)?;
    let budget = Duration::from_secs(options.number("running_seconds_limit", 10)?.max(1));
    site.refusal(new, budget)?;
    tree(log, orig, new, &others);
    for (option, why) in [
        ("flush_tables", "tables are not flushed: no global read lock is taken"),
        ("skip_lock_all_tables", "no global read lock is taken anyhow"),
    ] {
        if options.has(option) {
            log.info(&format!("--{option}: {why}."));
        }
    }
    if !options.has("orig_master_is_new_slave") {
        log.warning("--orig_master_is_new_slave is not set: the orig master follows the new one all the same, read only.");
    }
    if options.has("check_only") {
        log.info("--check_only is set: all checks passed, and nothing is done.");
        return Ok(0);
    }
    if options.number("interactive", 1)? != 0 {
        confirm(&format!("Starting master switch from {} to {}? (yes/NO): ", orig.shown(), new.shown()))?;
    }
    let site = site.into_moving(conf)?;
    // The answer to the question may have taken long.
    let status = all_are_well(conf, &site)?;
    if site.primary(conf, &status).is_none_or(|primary| primary.block != orig.block) {
        return Err(format!("{} is not the master any more. No script was called", orig.shown()).into());
    }
    let status = all_follow(&site, orig, &others)?;
    check(&site, &status, options, orig, new, &others)?;
    site.refusal(new, budget)?;
    log.info("** Phase 1: Configuration Check Phase completed.");
    log.info("");
    rotate(log, options, &site, orig, new, budget)?;
    finish(log, conf, options, &site, orig, new)
}

/// The status in which all of them follow the master.
fn all_follow(site: &Site, orig: &Server, others: &[&Server]) -> Result<Status, String> {
    let all = |status: &Status| others.iter().all(|server| site.follows(status, server, orig));
    site.wait(KNOWN_FOLLOWING_WITHIN, all).or_else(|status| {
        let wrong = others.iter().find(|server| !site.follows(&status, server, orig));
        wrong.map_or(Ok(*status.clone()), |server| {
            Err(format!("{} {}", server.shown(), site.not_following(&status, server, orig)))
        })
    })
}

fn rotate(
    log: &Log,
    options: &Options,
    site: &Site,
    orig: &Server,
    new: &Server,
    budget: Duration,
) -> Result<(), String> {
    log.info("* Phase 2: Rejecting updates Phase..");
    log.info("");
    // For both directions, as with MHA, the script of the master before the switch.
    let whose = orig;
    let script = |command, orig, new| {
        let is_slave = options.has("orig_master_is_new_slave");
        let more = if is_slave { vec!["--orig_master_is_new_slave".to_owned()] } else { Vec::new() };
        scripts::call(log, Call { key: ONLINE_CHANGE, command, whose, orig, new: Some(new), more })
    };
    log.info("Executing master ip online change script to disable write on the current master:");
    script("stop", orig, new)?;
    match site.switchover(Some(new), budget, false) {
        Ok(sentence) => log.info(&sentence),
        Err(why) => {
            log.error(&why);
            log.info("The orig master goes on. Executing master ip online change script to allow write on it again:");
            script("start", new, orig)?;
            return Err(format!("Switching master to {} did not happen: {why}", new.shown()));
        }
    }
    log.info(&format!("{} is writable, {} is read only.", new.shown(), orig.shown()));
    start_from(log, site, new);
    log.info("Executing master ip online change script to allow write on the new master:");
    script("start", orig, new)
}

fn finish(log: &Log, conf: &Conf, options: &Options, site: &Site, orig: &Server, new: &Server) -> ToolResult {
    log.info("");
    log.info("* Switching slaves in parallel..");
    log.info("");
    let others: Vec<&Server> = conf.servers.iter().filter(|server| server.block != new.block).collect();
    let is_late = followers(log, site, &others, new);
    log.info("");
    log.info("* Phase 5: New master cleanup phase..");
    log.info("");
    log.info(&format!("  {}: Resetting slave info succeeded.", new.host()));
    if options.has("remove_orig_master_conf") || options.has("remove_dead_master_conf") {
        remove(conf, orig)?;
        log.info(&format!("Deleted {} entry from {} .", orig.block, conf.file.display()));
    }
    if is_late {
        log.error(&format!(
            "Switching master to {} done, but switching slaves partially failed.",
            new.shown()
        ));
        return Ok(PARTIALLY);
    }
    log.info(&format!("Switching master to {} completed successfully.", new.shown()));
    Ok(0)
}

/// Waits until all servers answer, and statements flow.
fn all_are_well(conf: &Conf, site: &Site) -> Result<Status, Failed> {
    let everybody = |status: &Status| {
        status.gate == TrafficFlow::Open && conf.servers.iter().all(|server| site.is_alive(status, server))
    };
    site.wait(KNOWN_WITHIN, everybody).map_err(|status| not_well(conf, site, &status))
}

/// The reason why a switch is not possible.
fn not_well(conf: &Conf, site: &Site, status: &Status) -> Failed {
    let dead: Vec<String> = conf
        .servers
        .iter()
        .filter(|server| !site.is_alive(status, server))
        .map(|server| format!("{} {}", server.shown(), site.reason(status, server, "does not answer")))
        .collect();
    let why = if dead.is_empty() {
        status.hold_because.as_deref().unwrap_or("the servers are not known yet").to_owned()
    } else {
        format!("Some servers are not alive: {}. Switching master needs all of them", dead.join("; "))
    };
    Failed { code: 1, why }
}

/// MHA's checks: replication lag, and long-running queries.
fn check(
    site: &Site,
    status: &Status,
    options: &Options,
    orig: &Server,
    new: &Server,
    others: &[&Server],
) -> Result<(), String> {
    let behind = options.number("seconds_behind_master", 30)?;
    for server in others {
        if let Some(lag) = site.lag_s(status, server).filter(|lag| *lag > behind) {
            return Err(format!(
                "{} is {lag} seconds behind the master, which is more than {behind} (--seconds_behind_master)",
                server.shown()
            ));
        }
    }
    let updates = options.number("running_updates_limit", 1)?;
    let queries = options.number("running_seconds_limit", 10)?;
    for (server, limit, which, name) in
        [(orig, updates, UPDATES, "running_updates_limit"), (new, queries, "", "running_seconds_limit")]
    {
        let sql = format!(
            "SELECT CONCAT(ID, ' of ', USER, ', ', TIME, ' s: ', LEFT(INFO, 60)) FROM information_schema.PROCESSLIST \
             WHERE COMMAND = 'Query' AND ID <> CONNECTION_ID() AND USER <> 'system user' AND TIME > {limit} {which}"
        );
        let long = ask(server, &sql).map_err(|why| format!("{}: {why}", server.shown()))?;
        if let Some(first) = long.first() {
            return Err(format!(
                "{} runs a query for longer than {limit} s (--{name}): thread {first}",
                server.shown()
            ));
        }
    }
    Ok(())
}

fn tree(log: &Log, orig: &Server, new: &Server, others: &[&Server]) {
    log.info("");
    log.info("From:");
    log.info(&format!("{} (current master)", orig.shown()));
    for server in others {
        log.info(&format!(" +--{}", server.shown()));
    }
    log.info("");
    log.info("To:");
    log.info(&format!("{} (new master)", new.shown()));
    for server in others.iter().filter(|server| server.block != new.block).chain([&orig]) {
        log.info(&format!(" +--{}", server.shown()));
    }
    log.info("");
}
