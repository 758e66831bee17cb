//! Runs the scripts of an MHA site with MHA's arguments, and evaluates their exit codes as MHA does.
//!
//! | exit code | `--command=status`, before anything | `stop`, `stopssh`, `start` |
//! |---|---|---|
//! | 0 | OK | done |
//! | 10 | stop | there is a problem, but continue; from shutdown_script: the host still answers, its server is stopped |
//! | other, a signal, no such script, no end | stop | stop |
//!
//! MHA passes passwords on the command line, where every user can read them. Here they are in the environment: ORIG_MASTER_PASSWORD and
//! NEW_MASTER_PASSWORD. MHA waits for a script without end; here it is killed after [`TIME_MAX`], with all that it has started.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::log::Log;
use import::mha::conf::{Conf, Server, resolved};
use import::mha::shell;

/// The time limit of a script.
const TIME_MAX: Duration = Duration::from_secs(300);
/// The same where it is only asked whether it can do its work.
const STATUS_MAX: Duration = Duration::from_secs(30);
const PROCEED: i32 = 10;
/// MHA's options of `ssh`, before those of the site.
const SSH_OPTIONS: &str = "-o ServerAliveInterval=60 -o ServerAliveCountMax=20 -o StrictHostKeyChecking=no -o ConnectionAttempts=5 -o PasswordAuthentication=no -o BatchMode=yes";

pub const FAILOVER: &str = "master_ip_failover_script";
pub const ONLINE_CHANGE: &str = "master_ip_online_change_script";
const SHUTDOWN: &str = "shutdown_script";

/// One call.
pub struct Call<'a> {
    pub key: &'static str,
    pub command: &'static str,
    /// Whose script it is.
    pub whose: &'a Server,
    pub orig: &'a Server,
    pub new: Option<&'a Server>,
    pub more: Vec<String>,
}

/// Asks the scripts that a failover from this master will call whether they can do it. As in MHA, every exit code but 0 is an error.
pub fn check(log: &Log, master: &Server) -> Result<(), String> {
    for (key, what) in [(FAILOVER, "master_ip_failover_script"), (SHUTDOWN, "shutdown script")] {
        let Some(script) = master.get(key) else {
            log.warning(&format!("{key} is not defined."));
            continue;
        };
        log.info(&format!("Checking {what} status:"));
        let mut arguments = vec!["--command=status".to_owned(), format!("--ssh_user={}", master.ssh_user())];
        let whose = if key == FAILOVER { "orig_master_" } else { "" };
        arguments.extend(place(whose, master).into_iter().take(if key == FAILOVER { 3 } else { 2 }));
        arguments.extend(ssh(whose, master));
        match run(log, script, &arguments, &[], STATUS_MAX)? {
            Code::Done => log.info(" OK."),
            Code::Proceed(why) | Code::Failed(why) => {
                return Err(format!("Failed to get {what} status: {script} {why}"));
            }
        }
    }
    Ok(())
}

/// Runs the script; an `Err` means that the command must stop. Without such a script nothing is done.
pub fn call(log: &Log, call: Call<'_>) -> Result<(), String> {
    let Some(script) = call.whose.get(call.key) else {
        log.info(&format!("{} is not set. Skipping.", call.key));
        return Ok(());
    };
    let is_online = call.key == ONLINE_CHANGE;
    let mut arguments = vec![format!("--command={}", call.command)];
    if !is_online && call.command != "stop" {
        arguments.push(format!("--ssh_user={}", call.new.unwrap_or(call.orig).ssh_user()));
    }
    let mut environment = vec![("ORIG_MASTER_PASSWORD", call.orig.password())];
    let both = [("orig_master_", Some(call.orig)), ("new_master_", call.new)];
    let both: Vec<(&str, &Server)> =
        both.into_iter().filter_map(|(whose, server)| Some((whose, server?))).collect();
    for (whose, server) in &both {
        arguments.extend(place(whose, server));
        // A failover script gets the new primary's account, since it may have to open that server to the application.
        if is_online || *whose == "new_master_" {
            arguments.push(format!("--{whose}user={}", server.user()));
        }
    }
    if is_online {
        arguments
            .extend(both.iter().map(|(whose, server)| format!("--{whose}ssh_user={}", server.ssh_user())));
    }
    arguments.extend(both.iter().flat_map(|(whose, server)| ssh(whose, server)));
    arguments.extend(call.more);
    environment.extend(call.new.map(|new| ("NEW_MASTER_PASSWORD", new.password())));
    proceeds(log, script, run(log, script, &arguments, &environment, TIME_MAX)?)
}

/// Runs `report_script`; its exit code changes nothing.
pub fn report(
    log: &Log,
    conf: &Conf,
    (orig, new): (&Server, Option<&Server>),
    replicas: &str,
    subject: &str,
    body: &str,
) {
    let Some(script) = orig.get("report_script") else { return };
    let mut arguments = vec![format!("--orig_master_host={}", orig.host())];
    if let Some(new) = new {
        arguments.push(format!("--new_master_host={}", new.host()));
        arguments.push(format!("--new_slave_hosts={replicas}"));
    }
    arguments.push(format!("--conf={}", conf.file.display()));
    arguments.push(format!("--subject={subject}"));
    arguments.push(format!("--body={body}"));
    match run(log, script, &arguments, &[], TIME_MAX) {
        Ok(Code::Done) => {}
        Ok(Code::Proceed(why) | Code::Failed(why)) => {
            log.error(&format!("Failed to send mail: {script} {why}"))
        }
        Err(why) => log.error(&format!("Failed to send mail: {why}")),
    }
}

/// Runs `shutdown_script`, if there is one. `is_reachable`: the host answers to `ssh`.
pub fn shutdown(log: &Log, dead: &Server, is_reachable: bool) -> Result<(), String> {
    let Some(script) = dead.get(SHUTDOWN) else {
        log.warning("shutdown_script is not set. Skipping explicit shutting down of the dead master.");
        return Ok(());
    };
    log.info("Executing SHUTDOWN script:");
    let mut arguments = if is_reachable {
        vec!["--command=stopssh".to_owned(), format!("--ssh_user={}", dead.ssh_user())]
    } else {
        vec!["--command=stop".to_owned()]
    };
    arguments.extend(place("", dead));
    arguments.extend(dead.get("master_pid_file").map(|file| format!("--pid_file={file}")));
    arguments.extend(ssh("", dead));
    proceeds(log, script, run(log, script, &arguments, &[], TIME_MAX)?)
}

/// A server's host, address and port.
fn place(whose: &str, server: &Server) -> [String; 3] {
    [
        format!("--{whose}host={}", server.host()),
        format!("--{whose}ip={}", server.ip()),
        format!("--{whose}port={}", server.port().unwrap_or(3306)),
    ]
}

/// What a script has to know for `ssh` to a server where that is not the usual.
fn ssh(whose: &str, server: &Server) -> Vec<String> {
    let mut all = Vec::new();
    let host = server.get("ssh_host").unwrap_or(server.host());
    if host != server.host() {
        all.push(format!("--{whose}ssh_host={host}"));
        all.push(format!("--{whose}ssh_ip={}", resolved(host)));
    }
    let port = server.get("ssh_port").filter(|port| *port != "22");
    all.extend(port.map(|port| format!("--{whose}ssh_port={port}")));
    // Of the new master MHA passes none.
    let options = server.ssh_options().filter(|_| whose != "new_master_");
    all.extend(options.map(|options| format!("--ssh_options={SSH_OPTIONS} {options}")));
    all
}

/// How a script has ended; with what its exit code says.
enum Code {
    Done,
    Proceed(String),
    Failed(String),
}

fn proceeds(log: &Log, script: &str, code: Code) -> Result<(), String> {
    match code {
        Code::Done => Ok(()),
        Code::Proceed(why) => {
            log.warning(&format!("{script} {why}. Proceeding."));
            Ok(())
        }
        Code::Failed(why) => Err(format!("{script} {why}")),
    }
}

fn run(
    log: &Log,
    script: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
    within: Duration,
) -> Result<Code, String> {
    log.info(&format!("  {script} {}", arguments.join(" ")));
    let status = shell::run(script, arguments, environment, within)?;
    // MHA's two numbers: the exit code, and the signal.
    let (code, signal) = (status.code().unwrap_or(0), status.signal().unwrap_or(0));
    let why = format!("ended with return code {code}:{signal}");
    Ok(match (code, signal) {
        (0, 0) => Code::Done,
        (PROCEED, 0) => Code::Proceed(why),
        // The shell's own codes.
        (126, 0) => Code::Failed(format!("{why}: it may not be executed")),
        (127, 0) => Code::Failed(format!("{why}: there is no such script")),
        _ => Code::Failed(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_script_is_what_it_is_with_mha() {
        let ended = |script: &str| {
            proceeds(&Log::new(), script, run(&Log::new(), script, &["-x".into()], &[], TIME_MAX)?)
        };
        assert_eq!(ended("exit 0;"), Ok(()));
        assert_eq!(ended("exit 10;"), Ok(()));
        let why = |script: &str| ended(script).unwrap_err();
        assert_eq!(why("exit 1;"), "exit 1; ended with return code 1:0");
        assert_eq!(why("exit 2;"), "exit 2; ended with return code 2:0");
        assert_eq!(why("kill -9 $$;"), "kill -9 $$; ended with return code 0:9");
        assert_eq!(why("/no/such"), "/no/such ended with return code 127:0: there is no such script");
        assert_eq!(why("/etc"), "/etc ended with return code 126:0: it may not be executed");
    }
}
