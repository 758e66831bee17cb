//! `understudy vip status`: whether this machine has the address, and whether it should.
//!
//! Three sources are asked, because each can be wrong alone: the state that keepalived last told (a killed keepalived tells no
//! more), the machine's own addresses (a killed keepalived leaves them), and the check, run now as keepalived would run it. Each
//! vrrp_instance has its own state and addresses, and is judged by them alone.
//!
//! Invariant: exit code 0 says that every address was looked for and is here.

use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::Serialize;

use super::conf_file::{self, ConfFile, Script};
use super::files::{CONF_FILE, PID_FILE, STATE_FILE, read_conf};
use super::held;
use super::keepalived::Keepalived;
use cli::exit::{CommandResult, Failure};
use manager::Group;
use report::table::{moment, span};

/// A state is one short word.
const WORD_BYTES_MAX: usize = 16;

/// Show whether this machine has the address, and whether it should
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 keepalived runs, and each vrrp_instance says master and has all its addresses here; 1 anything \
                        else (a good backup, too); 2 wrong usage, or no address can be read in the configuration."
)]
pub struct Status {
    /// keepalived's configuration, for the addresses, the checks and the state files
    #[arg(long, value_name = "FILE", default_value = CONF_FILE)]
    config: PathBuf,
    /// Where the state is kept, when there is one vrrp_instance [default: as its notify commands say]
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Where a running keepalived says its process number; one that says it elsewhere is found, too
    #[arg(long, value_name = "FILE", default_value = PID_FILE)]
    pid_file: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    /// All is as on the machine that is to have every address.
    holds: bool,
    /// The last word of keepalived: master, backup, fault, stop. Of several instances, the one that all say.
    state: Option<String>,
    /// When it was said; of several instances, last.
    since_unix_ms: Option<u64>,
    /// keepalived's process, if it runs.
    keepalived_pid: Option<u32>,
    #[serde(skip)]
    keepalived: Keepalived,
    instances: Vec<InstanceStatus>,
    addresses: Vec<Seen>,
    checks: Vec<Checked>,
    /// What somebody should look at.
    warnings: Vec<String>,
}

/// A vrrp_instance.
#[derive(Debug, Serialize)]
struct InstanceStatus {
    name: String,
    /// keepalived runs, it says master, and all its addresses are here.
    holds: bool,
    state: Option<String>,
    since_unix_ms: Option<u64>,
    state_file: PathBuf,
}

/// One of the configuration's addresses.
#[derive(Debug, Serialize)]
struct Seen {
    instance: String,
    address: IpAddr,
    /// Where it was found; when it is not here, where it would be.
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
    /// For some instance, its failure is a fault.
    #[serde(skip)]
    decides: bool,
}

impl Status {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let conf = read_conf(&self.config)?;
        let found = self.look(&conf)?;
        if self.json {
            let json = serde_json::to_string_pretty(&found)
                .map_err(|e| Failure::Failed(format!("cannot write JSON: {e}")))?;
            println!("{json}");
        } else {
            print!("{}", screen(&found, &self.pid_file, now_unix_ms()));
        }
        Ok(ExitCode::from(u8::from(!found.holds)))
    }

    fn look(&self, conf: &ConfFile) -> Result<Found, Failure> {
        if self.state_file.is_some() && conf.instances.len() > 1 {
            return Err(Failure::Usage(format!(
                "--state-file: {} has {} instances, and each has a state of its own",
                self.config.display(),
                conf.instances.len()
            )));
        }
        let instances = conf.instances.iter().map(|instance| self.told(instance)).collect();
        let held = held::all()?;
        let addresses = conf.instances.iter().flat_map(|instance| seen(instance, &held)).collect();
        let wanted: Vec<(&Script, bool)> = conf
            .scripts
            .iter()
            .filter_map(|script| {
                let tracked = conf
                    .instances
                    .iter()
                    .flat_map(|instance| &instance.checks)
                    .filter(|tracked| tracked.name == script.name);
                // Not tracked, not run.
                tracked
                    .map(|tracked| !tracked.weighs.unwrap_or(script.weighs))
                    .reduce(|one, other| one || other)
                    .map(|decides| (script, decides))
            })
            .collect();
        let checks = cli::runtime::start()?.block_on(async {
            let mut checks = Vec::new();
            for (script, decides) in wanted {
                checks.push(check(script, decides).await);
            }
            checks
        });
        let mut found = Found {
            holds: false,
            state: None,
            since_unix_ms: None,
            keepalived_pid: None,
            keepalived: Keepalived::look(&self.pid_file),
            instances,
            addresses,
            checks,
            warnings: Vec::new(),
        };
        found.judge();
        let unread = conf.elsewhere().into_iter().chain(conf.unread.iter().cloned());
        for why in unread {
            found.holds = false;
            found.warnings.push(format!("not every address was looked for: {why}"));
        }
        found.warnings.extend(conf.notes.iter().cloned());
        Ok(found)
    }

    fn told(&self, instance: &conf_file::Instance) -> InstanceStatus {
        let file = self.state_file.clone().or_else(|| instance.state_file.clone());
        let file = file.unwrap_or_else(|| STATE_FILE.into());
        let (state, since) = state(&file).unzip();
        InstanceStatus {
            name: instance.name.clone(),
            holds: false,
            state,
            since_unix_ms: since,
            state_file: file,
        }
    }
}

/// Where each address of an instance is.
fn seen(instance: &conf_file::Instance, held: &[held::Held]) -> Vec<Seen> {
    let seen = instance.addresses.iter().map(|(address, device)| {
        let found: Vec<&held::Held> = held.iter().filter(|held| held.is(address.ip, device)).collect();
        // Of several devices, the one that is meant.
        let on = found.iter().find(|held| held.device == *device).or(found.first());
        Seen {
            instance: instance.name.clone(),
            address: address.ip,
            device: on.map_or(device, |held| &held.device).clone(),
            here: on.is_some(),
        }
    });
    seen.collect()
}

impl Found {
    /// Compares the three sources.
    fn judge(&mut self) {
        self.keepalived_pid = self.keepalived.pid();
        let runs = self.keepalived_pid.is_some();
        for told in &mut self.instances {
            let mut its = self.addresses.iter().filter(|seen| seen.instance == told.name);
            told.holds = runs && told.state.as_deref() == Some("master") && its.all(|seen| seen.here);
        }
        self.holds = self.instances.iter().all(|told| told.holds);
        let one = self.instances.first().and_then(|told| told.state.clone());
        self.state = one.filter(|_| self.instances.windows(2).all(|two| two[0].state == two[1].state));
        let since = self.instances.iter().map(|told| told.since_unix_ms).max().flatten();
        self.since_unix_ms = since.filter(|_| self.state.is_some());
        self.warnings = self.contradictions();
    }

    fn contradictions(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        match &self.keepalived {
            Keepalived::No if self.addresses.iter().any(|seen| seen.here) => warnings.push(
                "keepalived does not run, and the address is still here: another machine may have it, too. Start keepalived, or run \
                 `understudy vip release`"
                    .to_owned(),
            ),
            Keepalived::No => {
                warnings.push("keepalived does not run: this machine cannot take the address".to_owned());
            }
            Keepalived::Unknown(why) => {
                warnings.push(format!("whether keepalived runs cannot be seen: {why}. Run this as root"));
            }
            Keepalived::Runs { .. } => {
                for told in &self.instances {
                    let of = if self.instances.len() > 1 { format!("{}: ", told.name) } else { String::new() };
                    warnings.extend(self.contradiction(told).map(|said| of + said));
                }
            }
        }
        for (at, told) in self.instances.iter().enumerate() {
            if let Some(other) = self.instances[..at].iter().find(|other| other.state_file == told.state_file)
            {
                warnings.push(format!(
                    "{} and {} record their states in one file, {}: it has the last word of either. Give each its own \
                     (`understudy vip config --name {} ...`)",
                    other.name,
                    told.name,
                    told.state_file.display(),
                    told.name
                ));
            }
        }
        for check in self.checks.iter().filter(|check| !check.good) {
            warnings.push(if check.decides {
                format!("the check {} fails: this machine cannot take or keep the address", check.name)
            } else {
                format!("the check {} fails", check.name)
            });
        }
        warnings
    }

    /// Between what an instance says and where its addresses are.
    fn contradiction(&self, told: &InstanceStatus) -> Option<&'static str> {
        let mut its = self.addresses.iter().filter(|seen| seen.instance == told.name);
        if told.state.as_deref() == Some("master") {
            (!its.all(|seen| seen.here))
                .then_some("keepalived says master, and not every address is here: was one removed by hand?")
        } else {
            its.any(|seen| seen.here).then_some("keepalived does not say master, and the address is here")
        }
    }
}

/// The state and when it was written.
fn state(file: &Path) -> Option<(String, u64)> {
    // In a directory like /tmp anybody may have put anything there, such as a pipe that never says a word.
    let about = std::fs::symlink_metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    let text = infile::read_text(file).ok()?;
    let word = text.trim().strip_prefix("now ")?.to_owned();
    if word.len() > WORD_BYTES_MAX || !word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let written = about.modified().ok()?;
    Some((word, written.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64))
}

/// Runs a check as keepalived would: no shell, an end after its time, and only the exit code counts.
async fn check(script: &Script, decides: bool) -> Checked {
    let began = Instant::now();
    let (good, said) = match outcome(&script.command, Duration::from_secs(script.limit_s)).await {
        Ok((status, said)) => {
            let code =
                status.code().map_or_else(|| "ended by a signal".to_owned(), |c| format!("exit code {c}"));
            (status.success(), if said.is_empty() { code } else { format!("{code}: {said}") })
        }
        Err(why) => (false, why),
    };
    Checked { name: script.name.clone(), good, said, took_ms: began.elapsed().as_millis() as u64, decides }
}

async fn outcome(command: &str, limit: Duration) -> Result<(std::process::ExitStatus, String), String> {
    let words = shlex::split(command).unwrap_or_default();
    let (program, arguments) = words.split_first().ok_or("its command line cannot be read")?;
    let cannot = |e: std::io::Error| format!("cannot run {program}: {e}");
    let child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    let group = Group::of(&child);
    let output = tokio::time::timeout(limit, child.wait_with_output())
        .await
        .map_err(|_| format!("no answer within {} s", limit.as_secs()))?
        .map_err(cannot)?;
    group.has_ended();
    let text = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(text);
    // Of an HTTP answer, the body's line; of anything else, the last one.
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    Ok((output.status, line.chars().filter(|sign| !sign.is_control()).take(200).collect()))
}

fn screen(found: &Found, pid_file: &Path, now_unix_ms: u64) -> String {
    let mut screen = String::new();
    // Writing to a String cannot fail.
    for seen in &found.addresses {
        let here = if seen.here { "here" } else { "not here" };
        let _ =
            writeln!(screen, "address     {} on {} ({}): {here}", seen.address, seen.device, seen.instance);
    }
    for told in &found.instances {
        let of = if found.instances.len() > 1 { format!("{}: ", told.name) } else { String::new() };
        let _ = match (&told.state, told.since_unix_ms) {
            (Some(state), Some(since)) => {
                let long = span(now_unix_ms.saturating_sub(since));
                writeln!(screen, "state       {of}{state} for {long}, since {} UTC", moment(since))
            }
            _ => writeln!(
                screen,
                "state       {of}unknown: keepalived has recorded nothing since this machine started"
            ),
        };
    }
    let _ = match &found.keepalived {
        Keepalived::Runs { pid, in_pid_file: true } => {
            writeln!(screen, "keepalived  runs as process {pid}")
        }
        Keepalived::Runs { pid, in_pid_file: false } => {
            writeln!(screen, "keepalived  runs as process {pid}, which {} does not say", pid_file.display())
        }
        Keepalived::No => writeln!(screen, "keepalived  does not run"),
        Keepalived::Unknown(_) => writeln!(screen, "keepalived  cannot be seen"),
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

    #[tokio::test]
    async fn what_a_check_has_started_is_ended_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let command = format!("sh -c 'sleep 60 & echo $! > {}; wait'", file.path().display());
        let late = outcome(&command, Duration::from_millis(500)).await.unwrap_err();
        assert!(late.contains("no answer within"), "{late}");
        let pid = std::fs::read_to_string(file.path()).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !(stat().is_empty() || stat().contains(") Z ")) {
            assert!(Instant::now() < deadline, "it goes on: {}", stat());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn found(told: &[(&str, &str, bool)], keepalived: Keepalived) -> Found {
        let mut found = Found {
            holds: false,
            state: None,
            since_unix_ms: None,
            keepalived_pid: None,
            keepalived,
            instances: Vec::new(),
            addresses: Vec::new(),
            checks: Vec::new(),
            warnings: Vec::new(),
        };
        for (name, state, here) in told {
            found.instances.push(InstanceStatus {
                name: (*name).into(),
                holds: false,
                state: Some((*state).into()),
                since_unix_ms: Some(1_404_465_709_250),
                state_file: format!("/run/{name}.state").into(),
            });
            found.addresses.push(Seen {
                instance: (*name).into(),
                address: "10.0.0.100".parse().unwrap(),
                device: "eth0".into(),
                here: *here,
            });
        }
        found.judge();
        found
    }

    const RUNS: Keepalived = Keepalived::Runs { pid: 7, in_pid_file: true };

    #[test]
    fn contradictions_are_told_and_nothing_else() {
        let one = |state, keepalived, here| found(&[("PXC", state, here)], keepalived);
        assert!(one("master", RUNS, true).holds && one("master", RUNS, true).warnings.is_empty());
        assert!(!one("backup", RUNS, false).holds && one("backup", RUNS, false).warnings.is_empty());
        let unseen = Keepalived::Unknown("why".into());
        for (state, keepalived, here, told) in [
            ("master", Keepalived::No, true, "vip release"),
            ("master", Keepalived::No, false, "does not run"),
            ("master", RUNS, false, "removed by hand"),
            ("fault", RUNS, true, "does not say master"),
            ("master", unseen, true, "cannot be seen: why"),
        ] {
            let found = one(state, keepalived, here);
            assert!(found.warnings.concat().contains(told) && !found.holds, "{state}: {found:?}");
        }
    }

    #[test]
    fn each_instance_is_judged_by_its_own() {
        let judged = |told: &[(&str, &str, bool)]| {
            let found = found(told, RUNS);
            let each: Vec<bool> = found.instances.iter().map(|told| told.holds).collect();
            (found.holds, each, found.state, found.warnings.concat())
        };
        let good = judged(&[("A", "master", true), ("B", "backup", false)]);
        assert_eq!(good, (false, vec![true, false], None, String::new()));
        let both = judged(&[("A", "master", true), ("B", "master", true)]);
        assert_eq!(both, (true, vec![true, true], Some("master".into()), String::new()));
        let odd = judged(&[("A", "backup", true), ("B", "master", false)]).3;
        assert!(odd.starts_with("A: keepalived does not say master") && odd.contains("B: "), "{odd}");
        let mut shared = found(&[("A", "master", true), ("B", "master", true)], RUNS);
        shared.instances[1].state_file = shared.instances[0].state_file.clone();
        shared.judge();
        assert!(shared.warnings.concat().contains("A and B record their states in one file"));
    }

    #[test]
    fn a_check_that_only_weighs_is_no_verdict() {
        let mut found = found(&[("PXC", "master", true)], RUNS);
        let bad = |name: &str, decides| Checked {
            name: name.into(),
            good: false,
            said: String::new(),
            took_ms: 1,
            decides,
        };
        found.checks = vec![bad("a", true), bad("b", false)];
        found.judge();
        assert_eq!(
            found.warnings,
            ["the check a fails: this machine cannot take or keep the address", "the check b fails"]
        );
    }

    #[test]
    fn the_screen_says_it_in_lines() {
        let screen = |told: &[(&str, &str, bool)], keepalived| {
            screen(&found(told, keepalived), Path::new("/run/k.pid"), 1_404_465_714_250)
        };
        assert_eq!(
            screen(&[("PXC", "master", true)], RUNS),
            "address     10.0.0.100 on eth0 (PXC): here\n\
             state       master for 5.0 s, since 2014-07-04 09:21:49.250 UTC\n\
             keepalived  runs as process 7\n"
        );
        let two = screen(
            &[("A", "master", true), ("B", "backup", false)],
            Keepalived::Runs { pid: 8, in_pid_file: false },
        );
        assert_eq!(
            two,
            "address     10.0.0.100 on eth0 (A): here\n\
             address     10.0.0.100 on eth0 (B): not here\n\
             state       A: master for 5.0 s, since 2014-07-04 09:21:49.250 UTC\n\
             state       B: backup for 5.0 s, since 2014-07-04 09:21:49.250 UTC\n\
             keepalived  runs as process 8, which /run/k.pid does not say\n"
        );
    }

    #[tokio::test]
    async fn a_check_is_judged_by_its_exit_code_and_ended_in_time() {
        let run = async |command: &str| {
            let script = Script { name: "c".into(), command: command.into(), limit_s: 1, weighs: false };
            check(&script, true).await
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
}
