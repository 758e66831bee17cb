//! `masterha_stop`: stops a manager.
//!
//! | state | output | exit code |
//! |---|---|---|
//! | no manager runs | `MHA Manager is not running on APP(2:NOT_RUNNING).` | 0 |
//! | it fails over, and no `--abort` | `Currently Failover is running on APP. Should not stop.` | 1 |
//! | it ends on SIGTERM; with `--abort`, on SIGKILL after `--abort_timeout` | `Stopped APP successfully.`, `Forced stopped APP.` | 0 |
//! | it does not | `Failed to stop APP.` | 1 |
//! | `understudy serve` manages these servers | that it does, and that it is not stopped | 1 |

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::check::{FAILOVER_RUNNING, conf_quietly, workdir};
use super::failed::ToolResult;
use super::options::{Options, Takes};
use super::site::Site;
use super::workdir::Workdir;

use Takes::{Nothing, Value as Text};

pub const OPTIONS: &[(&str, Takes)] = &[
    ("help", Nothing),
    ("version", Nothing),
    ("conf", Text),
    ("global_conf", Text),
    ("workdir", Text),
    ("manager_workdir", Text),
    ("status_dir", Text),
    ("manager_log", Text),
    ("log_output", Text),
    ("abort", Nothing),
    ("abort_timeout", Text),
];
/// How long a manager may take to end, in seconds; the same default as in MHA.
const STOP_WITHIN_S: u64 = 5;
/// How long a killed process may take to disappear.
const KILLED_WITHIN: Duration = Duration::from_secs(5);
/// The interval of checking whether the process, which is not a child, has ended.
const LOOK: Duration = Duration::from_millis(20);

pub fn run(options: &Options) -> ToolResult {
    let conf = conf_quietly(options)?;
    let app = conf.app();
    let workdir = workdir(&conf, options);
    let Some(health) = workdir.health() else {
        if let Some((_, status)) = Site::running(&conf, options) {
            let pid = status.pid;
            println!("{app} is managed by understudy serve (pid:{pid}), which this does not stop.");
            println!("Failed to stop {app}.");
            return Ok(1);
        }
        println!("MHA Manager is not running on {app}(2:NOT_RUNNING).");
        return Ok(0);
    };
    let Some(pid) = Pid::from_raw(health.pid) else {
        return Err(format!("{} is no process", health.pid).into());
    };
    let is_aborted = options.has("abort");
    if health.code == FAILOVER_RUNNING && !is_aborted {
        println!("Currently Failover is running on {app}. Should not stop.");
        return Ok(1);
    }
    let within = options.number("abort_timeout", STOP_WITHIN_S)?;
    if ends(&workdir, pid, Signal::TERM, Duration::from_secs(within)) {
        println!("Stopped {app} successfully.");
        return Ok(0);
    }
    println!("Manager process {} didn't stop in {within} seconds.", health.pid);
    if is_aborted && ends(&workdir, pid, Signal::KILL, KILLED_WITHIN) {
        workdir.remove("master_status.health");
        println!("Forced stopped {app}.");
        return Ok(0);
    }
    println!("Failed to stop {app}.");
    Ok(1)
}

/// Sends the signal, and waits until the process has ended.
fn ends(workdir: &Workdir, pid: Pid, signal: Signal, within: Duration) -> bool {
    // An error is ignored: it may have ended already.
    let _ = kill_process(pid, signal);
    let until = Instant::now() + within;
    while workdir.health().is_some() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}
