//! `masterha_manager`: watches the master until it is dead, fails over once, and ends.
//!
//! ```text
//!   INITIALIZING_MONITOR ──> PING_OK ──> FAILOVER_RUNNING ──> ends, 0    (1, and APP.failover.error, when it fails)
//!                               └── SIGTERM (masterha_stop) ──> ends, 1
//! ```
//!
//! Monitoring, and the decision that a master is dead, are Understudy's: a running one that fails over by itself has usually done so before
//! the scripts are called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::Status;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use topology::view::{NodeState, TrafficFlow};

use super::failed::{Failed, ToolResult};
use super::log::Log;
use super::options::{Options, Takes};
use super::site::{self, For, Site};
use super::steps::{KNOWN_WITHIN, read_conf};
use super::workdir::Workdir;
use super::{dead, scripts};
use import::mha::conf::{Conf, Server};
use import::mha::shell;

use Takes::{Nothing, Value as Text};

pub const OPTIONS: &[(&str, Takes)] = &[
    ("help", Nothing),
    ("version", Nothing),
    ("conf", Text),
    ("global_conf", Text),
    ("manager_log", Text),
    ("manager_workdir", Text),
    ("workdir", Text),
    ("last_failover_minute", Text),
    ("ignore_last_failover", Nothing),
    ("ignore_fail_on_start", Nothing),
    ("ignore_binlog_server_error", Nothing),
    ("remove_dead_master_conf", Nothing),
    ("wait_on_monitor_error", Text),
    ("wait_on_failover_error", Text),
    ("skip_check_ssh", Nothing),
    ("ssh_reachable", Text),
    ("new_master_host", Text),
    ("new_master_port", Text),
];
/// The status is checked after this time even when no change was reported.
const LOOK: Duration = Duration::from_millis(100);
/// A master whose process has been gone for this long is replaced, even if no switchover was proposed.
const DEAD_FOR: Duration = Duration::from_secs(10);
/// The interval of writing the status file.
const TOUCH: Duration = Duration::from_secs(1);

pub fn run(log: Log, options: &Options) -> ToolResult {
    let conf = read_conf(&log, options)?;
    let log = match options.get("manager_log").or_else(|| conf.get("manager_log")) {
        Some(file) => log.to(file.as_ref())?,
        None => log,
    };
    let outcome = watch(&log, &conf, options);
    if let Err(failed) = &outcome {
        log.error(&failed.why);
    }
    outcome
}

fn watch(log: &Log, conf: &Conf, options: &Options) -> ToolResult {
    let workdir = Workdir::of(conf, options.get("workdir").or_else(|| options.get("manager_workdir")));
    if let Some(other) = workdir.health() {
        return Err(format!("{} is running already, pid {}", conf.app(), other.pid).into());
    }
    log.info(&format!(
        "MHA::MasterMonitor version 0.58, as Understudy {} does it.",
        env!("CARGO_PKG_VERSION")
    ));
    // From here on a signal ends it in an orderly way: between two checks, and never during a failover.
    let ended = Ended::listen()?;
    workdir.write_health(10, "INITIALIZING_MONITOR", "")?;
    let watched = watch_until_dead(log, conf, options, &workdir, &ended);
    if watched.is_err() {
        workdir.remove("master_status.health");
    }
    let Some((site, master)) = watched? else { return Ok(1) };
    log.warning(&format!("Master {} is not reachable!", master.shown()));
    workdir.write_health(50, "FAILOVER_RUNNING", master.host())?;
    let done = dead::fail_over(log, conf, options, &site, master);
    workdir.remove("master_status.health");
    done
}

/// Returns the dead master; `None` when it was ended by a signal.
fn watch_until_dead<'a>(
    log: &Log,
    conf: &'a Conf,
    options: &Options,
    workdir: &Workdir,
    ended: &Ended,
) -> Result<Option<(Site, &'a Server)>, Failed> {
    site::log_in(conf, conf.servers.iter())?;
    let site = Site::find(conf, options, log, For::Move)?;
    let is_open = |status: &Status| status.gate == TrafficFlow::Open && site.primary(conf, status).is_some();
    let status = site.wait(KNOWN_WITHIN, is_open).map_err(|status| {
        let why = status.hold_because.as_deref().unwrap_or("nothing is known of the servers");
        format!("There is no master to watch: {why}")
    })?;
    let mut master = site.primary(conf, &status).ok_or("There is no master to watch".to_owned())?;
    log.info(&format!("Dead Servers:\nAlive Servers:\n{}", alive(conf, &site, &status)));
    log.info(&format!("Current Alive Master: {}", master.shown()));
    scripts::check(log, master)?;
    let is_told_to_end = || {
        let is_signalled = ended.is_signalled();
        if is_signalled {
            log.info("Got terminate signal. Exit.");
            workdir.remove("master_status.health");
        }
        is_signalled
    };
    if is_told_to_end() {
        return Ok(None);
    }
    log.info(&format!("Starting ping health check on {}..", master.shown()));
    log.info("Ping(SELECT) succeeded, waiting until MySQL doesn't respond..");
    let mut touched: Option<Instant> = None;
    let mut dead_since: Option<Instant> = None;
    loop {
        let status = site.status().unwrap_or_default();
        let writes = site.primary(conf, &status);
        let is_dead = site.state(&status, master) == NodeState::Dead;
        dead_since = is_dead.then(|| dead_since.unwrap_or_else(Instant::now));
        if is_lost(&site, &status, master) || dead_since.is_some_and(|at| at.elapsed() > DEAD_FOR) {
            break;
        }
        // The primary was moved by an order; that is not a failure.
        if let Some(new) = writes.filter(|new| new.block != master.block && status.gate == TrafficFlow::Open)
        {
            log.info(&format!("{} is the master by now.", new.shown()));
            master = new;
        }
        if touched.is_none_or(|at| at.elapsed() >= TOUCH) {
            touched = Some(Instant::now());
            workdir.write_health(0, "PING_OK", master.host())?;
        }
        if is_told_to_end() {
            return Ok(None);
        }
        site.changed(LOOK);
    }
    Ok(Some((site, master)))
}

/// Records SIGTERM, SIGINT, SIGHUP and SIGQUIT, so that the manager can end at a suitable point.
struct Ended {
    signalled: Arc<AtomicBool>,
    /// Held so that the signal tasks run as long as this value exists.
    _runtime: Runtime,
}

impl Ended {
    fn listen() -> Result<Self, String> {
        let runtime = cli::runtime::start().map_err(|_| "cannot start the runtime's threads".to_owned())?;
        let signalled = Arc::new(AtomicBool::new(false));
        let inside = runtime.enter();
        shell::signals_do_not_end_us();
        let kinds =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
        for kind in kinds {
            let mut signals = signal(kind).map_err(|e| format!("cannot listen for signals: {e}"))?;
            let signalled = Arc::clone(&signalled);
            runtime.spawn(async move {
                if signals.recv().await.is_some() {
                    signalled.store(true, Ordering::Relaxed);
                }
            });
        }
        drop(inside);
        Ok(Self { signalled, _runtime: runtime })
    }

    fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }
}

/// It is dead or silent, and either another server is the primary or the status proposes a switchover.
fn is_lost(site: &Site, status: &Status, master: &Server) -> bool {
    let is_gone = matches!(site.state(status, master), NodeState::Dead | NodeState::Silent);
    let is_given_up = status.writer.as_deref() != Some(site.name(master));
    let is_proposed = status.hold_because.as_ref().is_some_and(|why| why.contains("order the switchover"));
    is_gone && (is_given_up || is_proposed)
}

fn alive(conf: &Conf, site: &Site, status: &Status) -> String {
    let alive = conf.servers.iter().filter(|server| site.is_alive(status, server));
    alive.map(|server| format!("  {}", server.shown())).collect::<Vec<_>>().join("\n")
}
