//! One real keepalived in a node's namespace, with a configuration that `understudy vip config` printed.
//!
//! Its files are in the stage's directory, and it carries the stage's mark: it, its VRRP process and its checks end with the lab,
//! however that ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;

use crate::stage::Stage;
use crate::stage::process::{Identity, Owned, ProcessParent};
use crate::wait;

/// Time limit for keepalived to start, and to stop cleanly.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Interval between two checks of a condition.
const PACE: Duration = Duration::from_millis(5);

/// Replaces systemd with the project's drop-in: runs keepalived, and when it has ended, releases the address and restarts it after 1 s.
/// `$1` the program, `$2` the configuration, `$3` the pid file; the rest is keepalived's command line.
const SUPERVISOR: &str = r#"understudy=$1 conf=$2 pid=$3
shift 3
while :; do
    "$@" || true
    "$understudy" vip release --config "$conf" --pid-file "$pid"
    sleep 1
done"#;

/// The programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// keepalived.
    pub keepalived: PathBuf,
    /// The Understudy program: the one that lies beside this executable, or that UNDERSTUDY_BIN names.
    pub understudy: PathBuf,
    /// The same program under the name of the original check.
    pub clustercheck: PathBuf,
}

/// A running keepalived.
#[derive(Debug)]
pub struct Agent {
    node: String,
    dir: PathBuf,
    supervised: bool,
    process: Option<Owned>,
}

impl Agent {
    /// Starts it; `config` has the arguments of `understudy vip config`, `env` is set for keepalived and its checks.
    ///
    /// # Errors
    /// When its configuration is rejected, or it does not start; with its own messages.
    pub async fn start(
        stage: &Stage,
        process_parent: &ProcessParent,
        programs: &Programs,
        node: &str,
        config: &[String],
        env: &[(String, String)],
        supervised: bool,
    ) -> anyhow::Result<Self> {
        let dir = stage.directory().join("vip").join(node);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for old in ["keepalived.state", "keepalived.state.by", "keepalived.pid", "vrrp.pid"] {
            let _ = std::fs::remove_file(dir.join(old));
        }
        let mut agent = Self { node: node.to_owned(), dir, supervised, process: None };
        let state_file = agent.file("keepalived.state");
        let log = agent.file("notify.log");
        let printed = std::process::Command::new(&programs.understudy)
            .args(["vip", "config"])
            .args(config)
            .args(["--state-file", &state_file, "--notify-log", &log])
            .arg("--program")
            .arg(&programs.understudy)
            .output()
            .with_context(|| format!("cannot run {}", programs.understudy.display()))?;
        if !printed.status.success() {
            bail!("`understudy vip config`: {}", String::from_utf8_lossy(&printed.stderr).trim());
        }
        let conf = agent.file("keepalived.conf");
        std::fs::write(&conf, &printed.stdout).with_context(|| format!("cannot write {conf}"))?;
        let mut test = stage.command_in(node, &programs.keepalived)?;
        let tested =
            test.args(["--config-test", "--use-file", &conf]).output().context("cannot run keepalived")?;
        if !tested.status.success() {
            let said = String::from_utf8_lossy(&tested.stderr);
            bail!("keepalived does not accept the configuration of {node}: {}", said.trim());
        }
        let words = [
            "--dont-fork".to_owned(),
            "--log-console".into(),
            "--log-detail".into(),
            "--no-syslog".into(),
            "--vrrp".into(),
            format!("--use-file={conf}"),
            format!("--pid={}", agent.file("keepalived.pid")),
            format!("--vrrp_pid={}", agent.file("vrrp.pid")),
        ];
        let mut command = if supervised {
            let mut shell = stage.command_in(node, Path::new("sh"))?;
            shell.args(["-c", SUPERVISOR, "supervisor"]);
            shell.arg(&programs.understudy).args([&conf, &agent.file("keepalived.pid")]);
            shell.arg(&programs.keepalived);
            shell
        } else {
            stage.command_in(node, &programs.keepalived)?
        };
        command.args(words).envs(env.iter().map(|(key, value)| (key, value)));
        agent.process = Some(process_parent.spawn(&command, Some(&agent.dir.join("keepalived.log")))?);
        let runs = async || Ok(agent.parent().is_some() && agent.child().is_some());
        if !wait::holds(START_LIMIT, PACE, runs).await? {
            bail!("keepalived of {node} does not start:\n{}", agent.last_words());
        }
        Ok(agent)
    }

    /// The path of one of its files.
    pub fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// The state that its notify command recorded last: `now master`.
    pub fn state(&self) -> String {
        let text = std::fs::read_to_string(self.dir.join("keepalived.state")).unwrap_or_default();
        text.trim_end().to_owned()
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.dir.join("keepalived.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    fn process_in(&self, name: &str) -> Option<Identity> {
        let pid = std::fs::read_to_string(self.dir.join(name)).ok()?.trim().parse().ok()?;
        Identity::of(pid).filter(|process| process.is_alive())
    }

    fn parent(&self) -> Option<Identity> {
        self.process_in("keepalived.pid")
    }

    /// The VRRP process.
    fn child(&self) -> Option<Identity> {
        self.process_in("vrrp.pid")
    }

    /// Sends SIGTERM, as `systemctl stop` does.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(self.parent(), Signal::TERM)
    }

    /// Kills the VRRP process; its parent lives on.
    pub fn crash(&self) -> anyhow::Result<()> {
        self.signal(self.child(), Signal::KILL)
    }

    /// Kills both at once, as the kernel does when memory runs out. The parent is stopped first: it must not start a new child,
    /// and the child must not notice the parent's end, on which it would shut down cleanly.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let (parent, child) = (self.parent(), self.child());
        self.signal(parent, Signal::STOP)?;
        self.signal(child, Signal::KILL)?;
        self.signal(parent, Signal::KILL)?;
        let has_ended = async || Ok(![parent, child].into_iter().flatten().any(Identity::is_alive));
        let has_ended = wait::holds(START_LIMIT, PACE, has_ended).await?;
        ensure!(has_ended, "keepalived of {} does not end by SIGKILL", self.node);
        Ok(())
    }

    fn signal(&self, process: Option<Identity>, signal: Signal) -> anyhow::Result<()> {
        let sent = process.map(|process| process.signal(signal)).transpose()?.flatten();
        sent.map(drop)
            .with_context(|| format!("keepalived of {} does not run:\n{}", self.node, self.last_words()))
    }

    /// Stops it cleanly, and waits until it has ended.
    pub async fn end(mut self) -> anyhow::Result<()> {
        if self.supervised {
            // The supervisor first: it would start another keepalived.
            self.process = None;
        }
        let all: Vec<Identity> = [self.parent(), self.child()].into_iter().flatten().collect();
        if let Some(parent) = self.parent() {
            parent.signal(Signal::TERM)?;
        }
        let have_ended = async || {
            // Child processes must be reaped before they count as ended.
            if let Some(process) = &mut self.process {
                process.try_wait()?;
            }
            Ok(!all.iter().any(|process| process.is_alive()))
        };
        if !wait::holds(START_LIMIT, PACE, have_ended).await? {
            bail!("keepalived of {} does not end:\n{}", self.node, self.last_words());
        }
        Ok(())
    }
}
