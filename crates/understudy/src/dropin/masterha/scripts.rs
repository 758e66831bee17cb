//! Runs the scripts of an MHA site with MHA's arguments, and evaluates their exit codes.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 10 | there is a problem, but continue; from shutdown_script: the host still answers, its server is stopped |
//! | other | stop |
//!
//! MHA passes passwords on the command line, where every user can read them. Here they are in the environment: ORIG_MASTER_PASSWORD and
//! NEW_MASTER_PASSWORD. Invariant: the shell of a script that does not end is killed after [`TIME_MAX`].

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::log::Log;
use crate::mha::conf::{Conf, Server};

/// The time limit of a script.
const TIME_MAX: Duration = Duration::from_secs(300);
const PROCEED: i32 = 10;

pub const FAILOVER: &str = "master_ip_failover_script";
pub const ONLINE_CHANGE: &str = "master_ip_online_change_script";

/// One call.
pub struct Call<'a> {
    pub key: &'static str,
    pub command: &'static str,
    pub orig: &'a Server,
    pub new: Option<&'a Server>,
    pub more: Vec<String>,
}

/// Runs the script; an `Err` means that the command must stop. Without such a script nothing is done.
pub fn call(log: &Log, conf: &Conf, call: Call<'_>) -> Result<(), String> {
    let Some(script) = call.new.unwrap_or(call.orig).get(call.key) else {
        log.info(&format!("{} is not set. Skipping.", call.key));
        return Ok(());
    };
    let mut arguments = vec![format!("--command={}", call.command)];
    let is_online = call.key == ONLINE_CHANGE;
    arguments.extend(about("orig_master", call.orig, is_online));
    if let Some(new) = call.new {
        // A failover script gets the new primary's account, since it may have to open that server to the application.
        arguments.extend(about("new_master", new, is_online || call.command == "start"));
    }
    arguments.extend(call.more);
    let mut environment = vec![("ORIG_MASTER_PASSWORD", call.orig.password())];
    environment.extend(call.new.map(|new| ("NEW_MASTER_PASSWORD", new.password())));
    if let Some(user) = conf.get("ssh_user").filter(|_| call.command != "stop" || is_online) {
        let whose: &[&str] =
            if call.new.is_some() && is_online { &["orig_master", "new_master"] } else { &[""] };
        arguments.extend(whose.iter().map(|whose| match *whose {
            "" => format!("--ssh_user={user}"),
            whose => format!("--{whose}_ssh_user={user}"),
        }));
    }
    run(log, script, &arguments, &environment)
}

/// Runs `report_script`; its exit code changes nothing.
pub fn report(
    log: &Log,
    conf: &Conf,
    (orig, new): (&str, Option<&str>),
    replicas: &str,
    subject: &str,
    body: &str,
) {
    let Some(script) = conf.get("report_script") else { return };
    let mut arguments = vec![format!("--orig_master_host={orig}")];
    if let Some(new) = new {
        arguments.push(format!("--new_master_host={new}"));
        arguments.push(format!("--new_slave_hosts={replicas}"));
    }
    arguments.push(format!("--conf={}", conf.file.display()));
    arguments.push(format!("--subject={subject}"));
    arguments.push(format!("--body={body}"));
    log.info("Sending mail..");
    if let Err(why) = run(log, script, &arguments, &[]) {
        log.error(&format!("Failed to send mail: {why}"));
    }
}

/// Runs `shutdown_script`, if there is one.
pub fn shutdown(log: &Log, dead: &Server) -> Result<(), String> {
    let Some(script) = dead.get("shutdown_script") else {
        log.warning("shutdown_script is not set. Skipping explicit shutting down of the dead master.");
        return Ok(());
    };
    let port = dead.port().unwrap_or(3306);
    let arguments = [
        "--command=stop".into(),
        format!("--host={}", dead.host()),
        format!("--ip={}", dead.ip()),
        format!("--port={port}"),
    ];
    run(log, script, &arguments, &[])
}

fn about(who: &str, server: &Server, with_account: bool) -> Vec<String> {
    let mut all = vec![
        format!("--{who}_host={}", server.host()),
        format!("--{who}_ip={}", server.ip()),
        format!("--{who}_port={}", server.port().unwrap_or(3306)),
    ];
    if with_account {
        all.push(format!("--{who}_user={}", server.user()));
    }
    all
}

fn run(log: &Log, script: &str, arguments: &[String], environment: &[(&str, &str)]) -> Result<(), String> {
    log.info(&format!("  {script} {}", arguments.join(" ")));
    // The setting is a command, which may have arguments of its own.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{script} \"$@\""), "sh"]).args(arguments).stdin(Stdio::null());
    command.envs(environment.iter().copied()).kill_on_drop(true);
    let runtime = crate::runtime::start().map_err(|_| "cannot start the runtime's threads".to_owned())?;
    let status = runtime.block_on(async {
        let mut child = command.spawn().map_err(|e| format!("{script} cannot be run: {e}"))?;
        match tokio::time::timeout(TIME_MAX, child.wait()).await {
            Ok(ended) => ended.map_err(|e| format!("{script}: {e}")),
            Err(_) => Err(format!("{script} did not end within {} s", TIME_MAX.as_secs())),
        }
    })?;
    match status.code() {
        Some(0) => Ok(()),
        Some(PROCEED) => {
            log.warning(&format!("{script} ended with exit code 10. Proceeding."));
            Ok(())
        }
        _ => Err(format!("{script} failed: {status}")),
    }
}
