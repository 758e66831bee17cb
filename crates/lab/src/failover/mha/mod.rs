//! MHA as the baseline: Debian's mha4mysql-manager and mha4mysql-node, with HAProxy in front of the servers, which MHA's scripts point at
//! the master.
//!
//! ```text
//!   clients ── HAProxy ── master <── SQL ── masterha_master_switch (graceful), masterha_manager (all else)
//!                 ^                             │          │ ssh ─> the node's namespace: save_binary_logs, ...
//!                 └────── move_application <────┘          └─ on MariaDB only with a module of the lab's: see `files`
//! ```
//!
//! What MHA leaves to an operator is done here in the same way: restart its manager, make the old master follow.

mod files;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::Instant;

use self::files::Server;
use super::understudy::Ordered;
use crate::figures::ms;
use crate::peer;
use crate::stage::account::APP_USER;
use crate::stage::process::{MARK, Owned, ProcessParent};
use crate::stage::replication::{REPLICATION_PASSWORD, REPLICATION_USER};
use crate::stage::{ClusterKind, Stage};
use crate::wait;

/// MHA's programs.
const MANAGER: &str = "masterha_manager";
const STATUS: &str = "masterha_check_status";
const SWITCH: &str = "masterha_master_switch";
/// Limit from the manager's start until it pings; it checks every host first.
const WATCHES_WITHIN: Duration = Duration::from_secs(60);
/// Limit of one switchover or one failover.
const DONE_WITHIN: Duration = Duration::from_secs(120);
/// Limit from SIGTERM until the manager has ended.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Polling interval of states that are not notified.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How it was set up, and what differs from Debian's package; for the report.
pub const SET_UP: &str = "Debian's mha4mysql-manager 0.58 with ping_interval = 1; HAProxy in front, which its scripts point at the master in the steps of MHA's \
samples (1.5 s for sessions to leave, read_only, 0.5 s for what runs, sessions cut); graceful: masterha_master_switch, else: masterha_manager. \
On MariaDB it ends with \"Redundant argument in sprintf\" and \"Unknown system variable 'super_read_only'\": three of its functions are replaced by the lab's. \
ssh and scp are the lab's, and run the commands in the nodes' namespaces. It knows nothing of semi-synchronous replication: the new master waits for \
acknowledgements only after the repetition";

/// MHA running on a stage.
pub struct Mha {
    dir: PathBuf,
    /// The stage's mark on its processes.
    mark: PathBuf,
    servers: Vec<Server>,
    manager: Mutex<Option<Owned>>,
}

impl Mha {
    /// Writes MHA's files to `dir`.
    ///
    /// # Errors
    /// When MHA is not installed or a file cannot be written.
    pub fn set(stage: &Stage, dir: &Path, haproxy_socket: &Path) -> anyhow::Result<Self> {
        for program in [MANAGER, STATUS, SWITCH] {
            peer::find(program)?;
        }
        let servers =
            stage.nodes().iter().map(|node| server(stage, node)).collect::<anyhow::Result<Vec<_>>>()?;
        for made in
            ["bin", "lib", "work"].into_iter().chain(servers.iter().map(|server| server.name.as_str()))
        {
            let made = dir.join(made);
            std::fs::create_dir_all(&made).with_context(|| format!("cannot make {}", made.display()))?;
        }
        write(&dir.join("app1.cnf"), &files::conf(&servers, dir), 0o600)?;
        write(&dir.join("bin/ssh"), &files::ssh(&servers), 0o700)?;
        write(&dir.join("bin/scp"), &files::scp(), 0o700)?;
        write(&dir.join("lib").join(format!("{}.pm", files::MODULE)), &files::module(), 0o600)?;
        let script = files::move_application(&servers, haproxy_socket, APP_USER);
        write(&dir.join("move_application"), &script, 0o700)?;
        let (dir, mark) = (dir.to_owned(), stage.directory().to_owned());
        Ok(Self { dir, mark, servers, manager: Mutex::new(None) })
    }

    /// A command line for one of MHA's programs, with its configuration.
    fn command(&self, program: &str) -> anyhow::Result<Command> {
        let mut path = self.dir.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(peer::find(program)?);
        command.arg(format!("--conf={}", self.dir.join("app1.cnf").display()));
        command.env("PATH", path).env("PERL5LIB", self.dir.join("lib"));
        command.env("PERL5OPT", format!("-M{}", files::MODULE));
        // No option files and known hosts of this user; dates in one language.
        command.env("HOME", &self.dir).env("LC_ALL", "C").env(MARK, &self.mark);
        command.stdin(Stdio::null()).current_dir(&self.dir);
        Ok(command)
    }

    /// Starts the manager and waits until it monitors the master.
    pub async fn watch(&self, process_parent: &ProcessParent) -> anyhow::Result<()> {
        let log = self.dir.join("mha-manager.log");
        let mut command = self.command(MANAGER)?;
        // The files of the last failover would stop this manager from acting.
        command.args(["--ignore_last_failover"]);
        let mut manager = process_parent.spawn(&command, Some(&log))?;
        let mut said = Vec::new();
        let watches = async || {
            let mut status = tokio::process::Command::from(self.command(STATUS)?);
            let status = status.kill_on_drop(true).output().await.context(STATUS)?;
            if !status.status.success()
                && let Some(ended) = manager.try_wait()?
            {
                bail!("masterha_manager could not run ({ended}): {}", errors(&log));
            }
            said = status.stdout;
            Ok(status.status.success())
        };
        if !wait::holds(WATCHES_WITHIN, LOOK_EVERY, watches).await? {
            let said = String::from_utf8_lossy(&said);
            bail!("masterha_manager does not watch after {} s: {}", WATCHES_WITHIN.as_secs(), said.trim());
        }
        *self.manager.lock().unwrap_or_else(PoisonError::into_inner) = Some(manager);
        Ok(())
    }

    /// Ends the manager, if one runs. `is_at_work`: the master has failed, so the manager ends by itself after its failover.
    ///
    /// # Errors
    /// When it did not fail over; with its own error messages.
    pub async fn end(&self, is_at_work: bool) -> anyhow::Result<()> {
        let manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut manager) = manager else { return Ok(()) };
        if !is_at_work {
            manager.terminate()?;
            let ended = tokio::time::timeout(ENDS_WITHIN, manager.ended()).await;
            ended.context("masterha_manager does not end on SIGTERM")??;
            return Ok(());
        }
        let ended = tokio::time::timeout(DONE_WITHIN, manager.ended()).await;
        let status = ended.context("masterha_manager does not end its failover")??;
        if !status.success() {
            bail!("masterha_manager failed ({status}): {}", errors(&self.dir.join("mha-manager.log")));
        }
        Ok(())
    }

    /// The switchover of the seed article: another server becomes the master, `from` follows it.
    pub async fn switch(&self, from: &str) -> anyhow::Result<Ordered> {
        let to =
            self.servers.iter().find(|server| server.name != from).context("there is no other server")?;
        let mut command = self.command(SWITCH)?;
        command.args(["--master_state=alive", &format!("--new_master_host={}", to.ip)]);
        command.args(["--orig_master_is_new_slave", "--interactive=0"]);
        let log = self.dir.join("mha-switch.log");
        let file = std::fs::File::options().create(true).append(true).open(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
        let began = Instant::now();
        let mut switch = tokio::process::Command::from(command);
        let ended = tokio::time::timeout(DONE_WITHIN, switch.kill_on_drop(true).status()).await;
        let status = ended.context("masterha_master_switch does not end")??;
        if !status.success() {
            bail!("masterha_master_switch failed ({status}): {}", errors(&log));
        }
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().rev().find_map(|line| line.split_once("[info] "));
        let message = last.map_or("", |(_, said)| said).to_owned();
        Ok(Ordered { took_ms: ms(began.elapsed()), message })
    }
}

/// Creates MHA's account on the primary.
pub async fn account(stage: &Stage) -> anyhow::Result<()> {
    let primary = primary(stage).await?;
    let (user, password) = (files::USER, files::PASSWORD);
    stage
        .run_in(&primary, &format!("CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY '{password}'"))
        .await?;
    stage.run_in(&primary, &format!("GRANT ALL ON *.* TO '{user}'@'%'")).await.map(drop)
}

/// The only writable server.
pub async fn primary(stage: &Stage) -> anyhow::Result<String> {
    let mut all = writable(stage).await;
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => bail!("no server is writable"),
        (Some(last), _) => bail!("{} and {last} are writable", all.join(", ")),
    }
}

/// What an operator does when MHA is done and the old master runs again: all follow the new one by GTID, and it waits for their
/// acknowledgements.
pub async fn rejoin(stage: &Stage, victim: &str, within: Duration) -> anyhow::Result<()> {
    // A server that was frozen or cut off may still be writable.
    if writable(stage).await.len() > 1 {
        stage.run_in(victim, "SET GLOBAL read_only = ON").await?;
    }
    let primary = primary(stage).await?;
    let master = stage.node(&primary)?.address;
    let semi_sync = stage.kind() == ClusterKind::Replication { semi_sync: true };
    for node in stage.nodes().iter().filter(|node| node.name != primary) {
        if semi_sync {
            stage.run_in(&node.name, "SET GLOBAL rpl_semi_sync_master_enabled = OFF").await?;
        }
        stage.run_in(&node.name, "STOP SLAVE").await?;
        if stage.run_in(&node.name, "SHOW SLAVE STATUS").await?.is_empty() {
            stage.run_in(&node.name, "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos").await?;
        }
        let follow = format!(
            "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{REPLICATION_USER}', \
             MASTER_PASSWORD = '{REPLICATION_PASSWORD}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
            master.ip(),
            master.port()
        );
        stage.run_in(&node.name, &follow).await?;
        stage.run_in(&node.name, "START SLAVE").await?;
    }
    stage.settled(within).await?;
    if semi_sync {
        stage.run_in(&primary, "SET GLOBAL rpl_semi_sync_master_enabled = ON").await?;
    }
    Ok(())
}

/// The servers that respond and are writable.
async fn writable(stage: &Stage) -> Vec<String> {
    let mut all = Vec::new();
    for node in stage.nodes() {
        let rows = stage.run_in(&node.name, "SELECT @@GLOBAL.read_only").await.unwrap_or_default();
        if rows.first().and_then(|row| row.first()).is_some_and(|value| value == "0") {
            all.push(node.name.clone());
        }
    }
    all
}

fn server(stage: &Stage, node: &crate::stage::StageNode) -> anyhow::Result<Server> {
    let enter = stage.command_in(&node.name, Path::new("env"))?;
    let words = std::iter::once(enter.get_program()).chain(enter.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(Server {
        name: node.name.clone(),
        ip: node.address.ip().to_string(),
        port: node.address.port(),
        datadir: node.datadir.display().to_string(),
        enter: words.join(" "),
    })
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// MHA's error messages: its last lines with `[error]`, without the times; otherwise its last line.
fn errors(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let said: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("[error]")).map(|(_, why)| why).collect();
    match said.len() {
        0 => text.lines().last().unwrap_or("it said nothing").to_owned(),
        count => said[count.saturating_sub(4)..].join("; "),
    }
}
