//! MHA's commands: names, options, exit codes and log lines of MHA 0.58; the work is done by Understudy.
//!
//! ```text
//!   options ──> conf (MHA's file) ──> site ─┬─ a running `understudy serve` for these servers: its API
//!                                           └─ none: a manager that runs as long as the command, without a proxy
//!   master_switch ──> checks ──> script: stop ──> switchover, or failover ──> script: start ──> replicas follow
//!   manager       ──> watches, writes APP.master_status.health, fails over once, ends
//! ```
//!
//! Source: seed-tools.md, section 7. Passwords from MHA's file are written to no log and no command line.

mod check;
mod dead;
mod failed;
mod log;
mod manager;
mod master_switch;
mod options;
mod own;
mod scripts;
mod site;
mod steps;
mod stop;
mod workdir;

use std::process::ExitCode;

use failed::Failed;
use log::Log;
use options::Options;

/// Runs the command of this name; `None` if it is not one of MHA's.
pub fn run(name: &str, arguments: Vec<String>) -> Option<ExitCode> {
    // Before any thread is started: the local time zone can be determined only then.
    let log = Log::new();
    let known = match name {
        "masterha_master_switch" => master_switch::OPTIONS,
        "masterha_manager" => manager::OPTIONS,
        "masterha_check_repl" => check::REPL_OPTIONS,
        "masterha_check_status" => check::STATUS_OPTIONS,
        "masterha_stop" => stop::OPTIONS,
        _ => return None,
    };
    let outcome = Options::read(arguments, known).map_err(Failed::from).and_then(|options| {
        if options.has("help") {
            print!("{}", Options::usage(name, known));
            return Ok(0);
        }
        if options.has("version") {
            println!("{name} version 0.58, as Understudy {} does it.", env!("CARGO_PKG_VERSION"));
            return Ok(0);
        }
        match name {
            "masterha_master_switch" => master_switch::run(&log, &options),
            "masterha_manager" => manager::run(log.clone(), &options),
            "masterha_check_repl" => check::repl(&log, &options),
            "masterha_check_status" => check::status(&options),
            _ => stop::run(&options),
        }
    });
    Some(ExitCode::from(outcome.unwrap_or_else(|failed| {
        log.error(&failed.why);
        failed.code
    })))
}
