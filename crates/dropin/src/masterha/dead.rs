//! Failover from a dead master: ordered by `masterha_master_switch --master_state=dead`, or started by `masterha_manager`.
//!
//! ```text
//!   Phase 1  no failover was done lately, and it is dead
//!   Phase 2  failover script: stop, shutdown script
//!   Phase 3  the replica that has most applies all of it, and is writable ── failover script: start
//!   Phase 4  the others follow the new master
//!   Phase 5  the new master follows nobody ── report script
//! ```
//!
//! A running Understudy has usually done phases 3 to 5 by then: the scripts are called nevertheless, for clients that bypass it.

use std::time::{Duration, Instant};

use api::Status;
use topology::view::{NodeState, TrafficFlow};

use super::failed::ToolResult;
use super::log::Log;
use super::options::Options;
use super::scripts::{self, Call, FAILOVER};
use super::site::{self, For, Site};
use super::steps::{FOLLOW_WITHIN, KNOWN_WITHIN, chosen, confirm, followers, remove, start_from};
use super::workdir::Workdir;
use import::mha::conf::{Conf, Server};

/// How long to wait until the master is seen as dead; one that still answers after this time is not dead.
const DEAD_WITHIN: Duration = Duration::from_secs(5);
/// The time limit of the promotion: all received transactions are applied first.
const PROMOTION: Duration = Duration::from_secs(60);
/// While the state of the servers is still being determined, the order is repeated when the status changes, and after this time.
const LOOK: Duration = Duration::from_millis(100);
/// The exit code for a failover after which some replicas do not follow, or another server than the named one is the master.
const PARTIALLY: u8 = 10;
/// The manager's text about one that can take over.
const BY_ORDER: &str = "order the switchover";
/// The manager's text about one that is ordered and has less than another.
const HAS_LESS: &str = " is to take over, and not ";
/// The manager's text about a candidate that cannot be proven to have everything.
const BY_FORCE: &str = " takes over only by an order with force";

/// Runs the failover that was ordered.
pub fn run(log: &Log, conf: &Conf, options: &Options) -> ToolResult {
    let host = options
        .get("dead_master_host")
        .ok_or("--dead_master_host=<dead_master_hostname> must be set.".to_owned())?;
    let dead = conf
        .find(host, options.port("dead_master_port")?)
        .ok_or_else(|| format!("{host} does not exist in {}", conf.file.display()))?;
    log.info(&format!(
        "MHA::MasterFailover version 0.58, as Understudy {} does it.",
        env!("CARGO_PKG_VERSION")
    ));
    log.info("Starting master failover.");
    if options.number("interactive", 1)? != 0 {
        confirm(&format!("Master {} is dead. Proceed? (yes/NO): ", dead.shown()))?;
    }
    site::log_in(conf, conf.servers.iter().filter(|server| server.block != dead.block))?;
    let site = Site::find(conf, options, log, For::Replace(dead))?;
    fail_over(log, conf, options, &site, dead)
}

/// Runs the whole failover. After phase 1 it leaves the file APP.failover.complete or APP.failover.error.
pub fn fail_over(log: &Log, conf: &Conf, options: &Options, site: &Site, dead: &Server) -> ToolResult {
    let workdir = Workdir::of(conf, options.get("workdir"));
    log.info("");
    log.info("* Phase 1: Configuration Check Phase..");
    log.info("");
    may_again(&workdir, options)?;
    let is_gone =
        |status: &Status| !site.is_alive(status, dead) && site.state(status, dead) != NodeState::Unknown;
    if let Err(status) = site.wait(DEAD_WITHIN, is_gone) {
        let state = site.reason(&status, dead, "its state is not known");
        return Err(
            format!("The master {} is not dead: {state}. Use --master_state=alive", dead.shown()).into()
        );
    }
    log.info("Dead Servers:");
    log.info(&format!("  {}", dead.shown()));
    let named = heir(conf, options, site, dead)?;
    log.info("** Phase 1: Configuration Check Phase completed.");
    let app = conf.app();
    match recover(log, conf, site, options, (dead, named)) {
        Ok((new, not_done)) => {
            let end = not_done
                .map_or_else(|| "completed successfully.".to_owned(), |what| format!("done, but {what}."));
            let text = format!("Master failover to {} {end}", new.shown());
            workdir.write("failover.complete", &format!("{text}\n"))?;
            let subject =
                format!("{app}: MySQL Master failover {} to {} succeeded", dead.shown(), new.shown());
            log.info("");
            log.info("----- Failover Report -----");
            log.info("");
            log.info(&format!("{subject}\n\nMaster {} is down!\n\n{text}", dead.shown()));
            let replicas: Vec<&str> = others(conf, dead, new).iter().map(|server| server.host()).collect();
            let about = (dead, Some(new));
            scripts::report(log, conf, about, &replicas.join(","), &subject, &text);
            if options.has("remove_dead_master_conf") || options.has("remove_orig_master_conf") {
                remove(conf, dead)?;
                log.info(&format!("Deleted {} entry from {} .", dead.block, conf.file.display()));
            }
            Ok(if not_done.is_some() { PARTIALLY } else { 0 })
        }
        Err(why) => {
            workdir.write("failover.error", &format!("{why}\n"))?;
            let subject = format!("{app}: MySQL Master failover {} failed", dead.shown());
            scripts::report(log, conf, (dead, None), "", &subject, &why);
            Err(why.into())
        }
    }
}

/// The new master that is ordered, if one is. Nothing has been done yet, and nothing is when nobody can take over.
fn heir<'a>(
    conf: &'a Conf,
    options: &Options,
    site: &Site,
    dead: &'a Server,
) -> Result<Option<&'a Server>, String> {
    let others: Vec<&Server> = conf.servers.iter().filter(|server| server.block != dead.block).collect();
    let named = match options.get("new_master_host") {
        Some(_) => Some(chosen(conf, options, &others, dead)?),
        None => None,
    };
    let can_take_over = |status: &Status| {
        let why = status.hold_because.as_deref().unwrap_or_default();
        let is_over = site.primary(conf, status).is_some_and(|primary| primary.block != dead.block);
        is_over || why.contains(BY_ORDER) || why.contains(BY_FORCE)
    };
    // As long as it takes to ask all servers, and to order it.
    let (status, can_take_over) = match site.wait(KNOWN_WITHIN * 2, can_take_over) {
        Ok(status) => (status, true),
        Err(status) => (*status, false),
    };
    if let Some(named) = named.filter(|named| !site.is_alive(&status, named)) {
        return Err(format!("{} is not alive, and can not be new master", named.shown()));
    }
    if !others.iter().any(|server| site.is_alive(&status, server)) {
        return Err("There is no alive slave. We can't do failover".into());
    }
    if can_take_over {
        return Ok(named);
    }
    let why = status.hold_because.as_deref().unwrap_or("it is not known yet which server has most");
    Err(format!("{why}. No script was called"))
}

/// Runs phases 2 to 5. Beside the new master: what of the order was not done.
fn recover<'a>(
    log: &Log,
    conf: &'a Conf,
    site: &Site,
    options: &Options,
    (dead, named): (&'a Server, Option<&'a Server>),
) -> Result<(&'a Server, Option<&'static str>), String> {
    log.info("");
    log.info("* Phase 2: Dead Master Shutdown Phase..");
    log.info("");
    log.info("Forcing shutdown so that applications never connect to the current master..");
    let is_reachable = options.get("ssh_reachable") == Some("1");
    let command = if is_reachable { "stopssh" } else { "stop" };
    log.info("Executing master IP deactivation script:");
    scripts::call(log, Call { key: FAILOVER, command, whose: dead, orig: dead, new: None, more: Vec::new() })
        .and_then(|()| scripts::shutdown(log, dead, is_reachable))
        .map_err(|why| {
            let file = conf.file.display();
            format!(
                "{why}. As with MHA the failover ends here: clients may still reach the dead master. Put the script right, or take it out of {file}, \
                 and order the failover with --ignore_last_failover"
            )
        })?;
    log.info("* Phase 2: Dead Master Shutdown Phase completed.");
    log.info("");
    log.info("* Phase 3: Master Recovery Phase..");
    log.info("");
    log.info("* Phase 3.1: Getting Latest Slaves Phase..");
    log.info("");
    let (new, is_as_named) = promoted(log, conf, site, (dead, named))?;
    start_from(log, site, new);
    log.info("Executing master IP activate script:");
    let start =
        Call { key: FAILOVER, command: "start", whose: new, orig: dead, new: Some(new), more: Vec::new() };
    let started = scripts::call(log, start);
    if let Err(why) = &started {
        log.error(&format!("Failed to activate master IP address for {}: {why}", new.shown()));
    }
    log.info("* Phase 3: Master Recovery Phase completed.");
    log.info("");
    log.info("* Phase 4: Slaves Recovery Phase..");
    log.info("");
    log.info("* Phase 4.1: Starting Slaves in parallel..");
    log.info("");
    let is_late = followers(log, site, &others(conf, dead, new), new);
    log.info("");
    log.info("* Phase 5: New master cleanup phase..");
    log.info("");
    log.info(&format!("  {}: Resetting slave info succeeded.", new.host()));
    // The new master is writable by then, so that the others follow it in any case.
    let shown = new.shown();
    let not_done = if !is_as_named {
        Some("not to the server that was named")
    } else if is_late {
        Some("recovery of some slaves failed")
    } else {
        None
    };
    started.map(|()| (new, not_done)).map_err(|why| {
        format!("{why}. {shown} is the master, and writable, and clients may not reach it: do by hand what the script does")
    })
}

/// Promotes the new master, or finds the one that a running Understudy has already promoted. `false`: it is not the one that was named, which
/// did not get all that it has.
fn promoted<'a>(
    log: &Log,
    conf: &'a Conf,
    site: &Site,
    (dead, named): (&'a Server, Option<&'a Server>),
) -> Result<(&'a Server, bool), String> {
    let is_over = |status: &Status| {
        let primary = site.primary(conf, status).filter(|primary| primary.block != dead.block)?;
        (status.gate == TrafficFlow::Open).then_some(primary)
    };
    let over = |within| {
        let seen = site.wait(within, |status| is_over(status).is_some());
        seen.ok().and_then(|status| is_over(&status))
    };
    let status = site.status()?;
    if let Some(new) = is_over(&status) {
        log.info(&format!("Understudy has made {} the master already.", new.shown()));
        return Ok((new, true));
    }
    log.info("* Phase 3.3: Determining New Master Phase..");
    log.info("");
    log.info("* Phase 3.3: New Master Recovery Phase..");
    log.info("");
    let mut said = order(site, named, false);
    let mut first = None;
    if let Err(why) = &said
        && let Some((before, _)) = why.split_once(BY_FORCE)
        && let Some(best) = before.rsplit([' ', ';']).next().and_then(|name| site.server(conf, name))
    {
        // As MHA does: it promotes the server that has most of those that answer.
        log.warning(&format!("{why}. It is ordered: {} has most of those that answer.", best.shown()));
        first = Some((Some(best), true));
    } else if let (Err(why), Some(_)) = (&said, named)
        && why.contains(HAS_LESS)
    {
        log.info(why);
        first = Some((None, false));
    }
    if let Some((best, force)) = first {
        said = order(site, best, force);
        // As with MHA the one that is named gets what the other has; it is the master first.
        if let (Ok(sentence), Some(named)) = (&said, named)
            && let Some(best) = over(KNOWN_WITHIN).filter(|best| best.block != named.block)
        {
            log.info(sentence);
            said = behind(site, best, named);
        }
    }
    match said {
        Ok(sentence) => log.info(&sentence),
        Err(why) => {
            // A running Understudy may have promoted one in the meantime. Where the named one does not get what the first one had, that one is
            // the master, as soon as the move away from it is undone.
            let new =
                over(if first.is_some() { PROMOTION } else { Duration::ZERO }).ok_or_else(|| why.clone())?;
            log.warning(&format!("{why}. {} is the master.", new.shown()));
            return Ok((new, named.is_none_or(|named| named.block == new.block)));
        }
    }
    let new = over(KNOWN_WITHIN).ok_or("the new master is not known")?;
    log.info(&format!("New master is {}", new.shown()));
    log.info(&format!("Setting read_only=0 on {}.. ok.", new.shown()));
    Ok((new, true))
}

/// Moves the primary. While the servers are being asked it is not clear yet which one has most, and the order is given again.
fn order(site: &Site, to: Option<&Server>, force: bool) -> Result<String, String> {
    let until = Instant::now() + KNOWN_WITHIN;
    loop {
        let said = site.switchover(to, PROMOTION, force);
        let is_soon = said.as_ref().is_err_and(|why| {
            why.contains("try again") || why.contains("is asked") || why.contains("being asked")
        });
        if !is_soon || Instant::now() > until {
            return said;
        }
        site.changed(LOOK);
    }
}

/// Moves the primary on from `best` to the one that is named, once that follows it.
fn behind(site: &Site, best: &Server, named: &Server) -> Result<String, String> {
    // Where it does not follow, the order says why.
    let _ = site.wait(FOLLOW_WITHIN, |status| site.follows(status, named, best));
    order(site, Some(named), false)
}

fn others<'a>(conf: &'a Conf, dead: &Server, new: &Server) -> Vec<&'a Server> {
    let is_other = |server: &&Server| server.block != dead.block && server.block != new.block;
    conf.servers.iter().filter(is_other).collect()
}

/// Refuses a failover soon after the last one, or after a failed one, as MHA does.
fn may_again(workdir: &Workdir, options: &Options) -> Result<(), String> {
    if options.has("ignore_last_failover") {
        workdir.remove("failover.error");
        return Ok(());
    }
    if workdir.age("failover.error").is_some() {
        let file = workdir.file("failover.error");
        return Err(format!(
            "Failover error flag file {} exists: the last failover failed. Look at the servers, then remove it",
            file.display()
        ));
    }
    let minutes = options.number("last_failover_minute", 480)?;
    match workdir.age("failover.complete") {
        Some(age) if age < Duration::from_secs(minutes * 60) => {
            let file = workdir.file("failover.complete");
            Err(format!(
                "Last failover was done {} s ago. Current time is too early to do failover again. If you want to do failover, remove {} , or set --ignore_last_failover",
                age.as_secs(),
                file.display()
            ))
        }
        _ => Ok(()),
    }
}
