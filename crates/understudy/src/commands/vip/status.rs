//! `understudy vip status`: whether this machine has the address, and whether it should.
//!
//! Three witnesses are heard, because each can be wrong alone: the state that keepalived last told (a killed keepalived tells no
//! more), the machine's own addresses (a killed keepalived leaves them), and the check, run now as keepalived would run it.

use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::Serialize;

use super::conf_file::{ConfFile, Script};
use super::{CONF_FILE, PID_FILE, STATE_FILE, held, read_conf};
use crate::exit::{Failure, Outcome};
use crate::table::{moment, span};

/// keepalived gives a check this long when its configuration says nothing: the interval, which is 1 s by default.
const CHECK_TIME_MAX: Duration = Duration::from_secs(1);

/// A state is one short word.
const WORD_BYTES_MAX: usize = 16;

/// Show whether this machine has the address, and whether it should
#[derive(Args)]
#[command(
    after_help = "Exit code 0: keepalived runs, says master, and every address is here. Exit code 1: anything else; a good \
                        backup is 1, too."
)]
pub struct Status {
    /// keepalived's configuration, for the addresses, the check and the state file
    #[arg(long, value_name = "FILE", default_value = CONF_FILE)]
    config: PathBuf,
    /// Where the state is kept [default: as the notify commands of the configuration say]
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Where a running keepalived says its process number
    #[arg(long, value_name = "FILE", default_value = PID_FILE)]
    pid_file: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    /// All is as on the machine that is to have the address.
    holds: bool,
    /// The last word of keepalived: master, backup, fault, stop.
    state: Option<String>,
    /// When it was said.
    since_unix_ms: Option<u64>,
    /// keepalived's process, if it runs.
    keepalived_pid: Option<u32>,
    addresses: Vec<Seen>,
    checks: Vec<Checked>,
    /// What somebody should look at.
    warnings: Vec<String>,
}

/// One of the configuration's addresses.
#[derive(Debug, Serialize)]
struct Seen {
    instance: String,
    address: IpAddr,
    device: String,
    here: bool,
}

/// What a check came to.
#[derive(Debug, Serialize)]
struct Checked {
    name: String,
    good: bool,
    /// In one line.
    said: String,
    took_ms: u64,
}

impl Status {
    /// Prints it.
    pub fn run(&self) -> Outcome {
        let conf = read_conf(&self.config)?;
        let found = self.look(&conf)?;
        if self.json {
            let json = serde_json::to_string_pretty(&found)
                .map_err(|e| Failure::Failed(format!("cannot write JSON: {e}")))?;
            println!("{json}");
        } else {
            print!("{}", screen(&found, now_unix_ms()));
        }
        Ok(ExitCode::from(u8::from(!found.holds)))
    }

    fn look(&self, conf: &ConfFile) -> Result<Found, Failure> {
        let named = conf.instances.iter().find_map(|instance| instance.state_file.clone());
        let file = self.state_file.clone().or(named).unwrap_or_else(|| STATE_FILE.into());
        let state = state(&file);
        let held = held::all()?;
        let addresses = conf
            .instances
            .iter()
            .flat_map(|instance| {
                instance.addresses.iter().map(|(address, device)| Seen {
                    instance: instance.name.clone(),
                    address: address.ip,
                    device: device.clone(),
                    here: held.iter().any(|held| held.address.ip == address.ip && held.device == *device),
                })
            })
            .collect();
        let wanted: Vec<&Script> = conf
            .scripts
            .iter()
            .filter(|script| conf.instances.iter().any(|instance| instance.checks.contains(&script.name)))
            .collect();
        let checks = crate::commands::runtime()?.block_on(async {
            let mut checks = Vec::new();
            for script in wanted {
                checks.push(check(script).await);
            }
            checks
        });
        let mut found = Found {
            holds: false,
            state: state.as_ref().map(|(word, _)| word.clone()),
            since_unix_ms: state.map(|(_, at)| at),
            keepalived_pid: keepalived(&self.pid_file),
            addresses,
            checks,
            warnings: Vec::new(),
        };
        found.warnings = warnings(&found);
        found.holds = found.keepalived_pid.is_some()
            && found.state.as_deref() == Some("master")
            && found.addresses.iter().all(|seen| seen.here);
        Ok(found)
    }
}

fn warnings(found: &Found) -> Vec<String> {
    let mut warnings = Vec::new();
    let any = found.addresses.iter().any(|seen| seen.here);
    let all = found.addresses.iter().all(|seen| seen.here);
    let master = found.state.as_deref() == Some("master");
    if found.keepalived_pid.is_none() && any {
        warnings.push(
            "keepalived does not run, and the address is still here: another machine may have it, too. Start keepalived, or run \
             `understudy vip release`"
                .to_owned(),
        );
    } else if found.keepalived_pid.is_none() {
        warnings.push("keepalived does not run: this machine cannot take the address".to_owned());
    } else if master && !all {
        warnings.push(
            "keepalived says master, and not every address is here: was one removed by hand?".to_owned(),
        );
    } else if !master && any {
        warnings.push("keepalived does not say master, and the address is here".to_owned());
    }
    for check in found.checks.iter().filter(|check| !check.good) {
        warnings
            .push(format!("the check {} fails: this machine cannot take or keep the address", check.name));
    }
    warnings
}

/// The process in a pid file, when that is a keepalived that lives.
pub fn keepalived(pid_file: &Path) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    (name == "keepalived" && !rest.trim_start().starts_with(['Z', 'X'])).then_some(pid)
}

/// The state and when it was written.
fn state(file: &Path) -> Option<(String, u64)> {
    // In a directory like /tmp anybody may have put anything there, such as a pipe that never says a word.
    let about = std::fs::symlink_metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    let text = std::fs::read_to_string(file).ok()?;
    let word = text.trim().strip_prefix("now ")?.to_owned();
    if word.len() > WORD_BYTES_MAX || !word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let written = about.modified().ok()?;
    Some((word, written.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64))
}

/// Runs a check as keepalived would: no shell, an end after its time, and only the exit code counts.
async fn check(script: &Script) -> Checked {
    let began = Instant::now();
    let limit = script.timeout_s.map_or(CHECK_TIME_MAX, Duration::from_secs);
    let (good, said) = match outcome(&script.command, limit).await {
        Ok((status, said)) => {
            let code =
                status.code().map_or_else(|| "ended by a signal".to_owned(), |c| format!("exit code {c}"));
            (status.success(), if said.is_empty() { code } else { format!("{code}: {said}") })
        }
        Err(why) => (false, why),
    };
    Checked { name: script.name.clone(), good, said, took_ms: began.elapsed().as_millis() as u64 }
}

async fn outcome(command: &str, limit: Duration) -> Result<(std::process::ExitStatus, String), String> {
    let words = shlex::split(command).unwrap_or_default();
    let (program, arguments) = words.split_first().ok_or("its command line cannot be read")?;
    let run = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(limit, run)
        .await
        .map_err(|_| format!("no answer within {} s", limit.as_secs()))?
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    let text = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(text);
    // Of an HTTP answer, the body's line; of anything else, the last one.
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    Ok((output.status, line.chars().filter(|sign| !sign.is_control()).take(200).collect()))
}

fn screen(found: &Found, now_unix_ms: u64) -> String {
    let mut screen = String::new();
    // Writing to a String cannot fail.
    for seen in &found.addresses {
        let here = if seen.here { "here" } else { "not here" };
        let _ =
            writeln!(screen, "address     {} on {} ({}): {here}", seen.address, seen.device, seen.instance);
    }
    let _ = match (&found.state, found.since_unix_ms) {
        (Some(state), Some(since)) => {
            let long = span(now_unix_ms.saturating_sub(since));
            writeln!(screen, "state       {state} for {long}, since {} UTC", moment(since))
        }
        _ => writeln!(
            screen,
            "state       unknown: keepalived has recorded nothing since this machine started"
        ),
    };
    let _ = match found.keepalived_pid {
        Some(pid) => writeln!(screen, "keepalived  runs as process {pid}"),
        None => writeln!(screen, "keepalived  does not run"),
    };
    for check in &found.checks {
        let good = if check.good { "good" } else { "bad" };
        let _ =
            writeln!(screen, "check       {}: {good} after {} ms, {}", check.name, check.took_ms, check.said);
    }
    for warning in &found.warnings {
        let _ = writeln!(screen, "warning     {warning}");
    }
    screen
}

fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(state: &str, pid: Option<u32>, here: bool) -> Found {
        Found {
            holds: false,
            state: Some(state.into()),
            since_unix_ms: Some(1_404_465_709_250),
            keepalived_pid: pid,
            addresses: vec![Seen {
                instance: "PXC".into(),
                address: "10.0.0.100".parse().unwrap(),
                device: "eth0".into(),
                here,
            }],
            checks: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn contradictions_are_told_and_nothing_else() {
        assert!(warnings(&found("master", Some(1), true)).is_empty());
        assert!(warnings(&found("backup", Some(1), false)).is_empty());
        let told = |state, pid, here| warnings(&found(state, pid, here)).concat();
        assert!(told("master", None, true).contains("vip release"));
        assert!(told("master", None, false).contains("does not run"));
        assert!(told("master", Some(1), false).contains("removed by hand"));
        assert!(told("fault", Some(1), true).contains("does not say master"));
    }

    #[test]
    fn the_screen_says_it_in_lines() {
        assert_eq!(
            screen(&found("master", Some(7), true), 1_404_465_714_250),
            "address     10.0.0.100 on eth0 (PXC): here\n\
             state       master for 5.0 s, since 2014-07-04 09:21:49.250 UTC\n\
             keepalived  runs as process 7\n"
        );
    }

    #[tokio::test]
    async fn a_check_is_judged_by_its_exit_code_and_ended_in_time() {
        let run = async |command: &str| {
            check(&Script { name: "c".into(), command: command.into(), timeout_s: Some(1) }).await
        };
        assert!(run("true").await.good);
        let bad = run("sh -c 'echo no; exit 3'").await;
        assert_eq!((bad.good, bad.said.as_str()), (false, "exit code 3: no"));
        let hung = run("sleep 20").await;
        assert_eq!((hung.good, hung.said.as_str()), (false, "no answer within 1 s"));
        assert!(run("'").await.said.contains("cannot be read"));
    }

    #[test]
    fn a_state_is_one_word_in_a_plain_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state");
        for (text, word) in
            [("now master\n", Some("master")), ("now \u{1b}[2Jmaster", None), ("master", None), ("", None)]
        {
            std::fs::write(&file, text).unwrap();
            assert_eq!(state(&file).map(|(word, _)| word).as_deref(), word, "{text:?}");
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::write(&file, "now master\n").unwrap();
        assert_eq!(state(&link), None);
        assert_eq!(state(dir.path()), None);
    }

    #[test]
    fn only_a_keepalived_that_lives_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        std::fs::write(&file, std::process::id().to_string()).unwrap();
        assert_eq!(keepalived(&file), None, "this is no keepalived");
        assert_eq!(keepalived(Path::new("/nowhere")), None);
    }
}
