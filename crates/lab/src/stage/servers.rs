//! The nodes' server processes: starting one where the group stands, knowing whether it lives, signalling it.

use std::fs;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::galera::grastate;
use super::place::NodeRecord;
use super::process::{self, Identity, Keeper, Owned};
use super::{Stage, StageNode};

/// How long a node may take to start and be Synced.
pub(super) const START_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) enum Child {
    Owned(Owned),
    Detached(std::process::Child),
}

impl Stage {
    pub(crate) fn alive(&self, node: &StageNode) -> anyhow::Result<Option<Identity>> {
        self.reap(node);
        Ok(self.recorded(node)?.process.filter(|process| process.is_alive()))
    }

    /// Collects a child that has ended, so that its number is free.
    pub(super) fn reap(&self, node: &StageNode) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain_mut(|(number, child)| {
            let running = match child {
                Child::Owned(child) => matches!(child.try_wait(), Ok(None)),
                Child::Detached(child) => matches!(child.try_wait(), Ok(None)),
            };
            *number != node.number || running
        });
    }

    /// Starts a node that is not running. It joins the others; when none of them runs it begins the cluster anew, if no other
    /// node knows more. Returns when the process has started: [`Stage::wait_synced`] is next.
    ///
    /// # Errors
    /// When it runs already, or when another dead node is ahead of it and must be first.
    pub async fn start(&self, name: &str) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        if let Some(process) = self.alive(node)? {
            bail!("{name} is running already, as process {}", process.pid);
        }
        let mut others_alive = false;
        for other in self.nodes.iter().filter(|other| other.number != node.number) {
            others_alive |= self.alive(other)?.is_some();
        }
        let position = self.position(node).await?;
        if !others_alive {
            for other in self.nodes.iter().filter(|other| other.number != node.number) {
                let ahead = self.position(other).await?.seqno - position.seqno;
                if ahead > 0 {
                    bail!(
                        "{name} cannot begin the cluster anew: {} knows {ahead} write sets more, start it first",
                        other.name
                    );
                }
            }
            grastate::allow_bootstrap(&node.datadir)?;
        }
        self.launch(node, !others_alive, Some(&position))
    }

    /// Where a stopped node stands; a crashed one is asked with `--wsrep-recover`, as the packages' own start scripts do.
    async fn position(&self, node: &StageNode) -> anyhow::Result<grastate::Position> {
        if let Some(position) = grastate::position(&node.datadir)? {
            return Ok(position);
        }
        let log = node.directory.join("recover.log");
        let _ = fs::remove_file(&log);
        let mut command = std::process::Command::new(&self.tools.mariadbd);
        command
            .arg(format!("--defaults-file={}", node.directory.join("my.cnf").display()))
            .args(["--wsrep-recover", "--skip-networking"])
            .arg(format!("--log-error={}", log.display()))
            .env(process::MARK, &self.directory);
        // Ours even in a stage that is kept: nobody else would wait for it.
        let keeper = Keeper::new()?;
        let mut recovery = keeper.spawn(&command, None)?;
        tokio::time::timeout(START_LIMIT, recovery.ended())
            .await
            .with_context(|| format!("{}: recovery of its position did not end", node.name))?
            .with_context(|| format!("cannot wait for {}", self.tools.mariadbd.display()))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        grastate::recovered(&text).with_context(|| format!("{} cannot say where it stands", node.name))
    }

    pub(super) fn launch(
        &self,
        node: &StageNode,
        first: bool,
        from: Option<&grastate::Position>,
    ) -> anyhow::Result<Instant> {
        let mut command = self.network.command_in(node.number, &self.tools.mariadbd);
        command.arg(format!("--defaults-file={}", node.directory.join("my.cnf").display()));
        if let Some(position) = from {
            command.arg(format!("--wsrep-start-position={position}"));
        }
        if first {
            command.arg("--wsrep-new-cluster");
        }
        command.env(process::MARK, &self.directory);
        let log = node.directory.join("output.log");
        let (child, pid) = match &self.keeper {
            Some(keeper) => {
                let child = keeper.spawn(&command, Some(&log))?;
                let pid = child.id();
                (Child::Owned(child), pid)
            }
            None => {
                let child = process::spawn_detached(&command, Some(&log))?;
                let pid = child.id();
                (Child::Detached(child), pid)
            }
        };
        let started = Instant::now();
        // `ip netns exec` and `setpriv` become the server: the number stays. A child that is gone already has no identity, and
        // whoever waits for it will say what its log says.
        let process = Identity::of(pid);
        self.children.lock().unwrap_or_else(PoisonError::into_inner).push((node.number, child));
        self.record(node, |entry| *entry = NodeRecord { process, leaving: false, ..entry.clone() })?;
        Ok(started)
    }

    /// Sends a signal to a node's server; when it was sent.
    pub(crate) fn signal(
        &self,
        node: &StageNode,
        signal: rustix::process::Signal,
    ) -> anyhow::Result<Instant> {
        let sent = self.alive(node)?.map(|process| process.signal(signal)).transpose()?.flatten();
        sent.with_context(|| format!("{0} is not running: `heal` starts it", node.name))
    }
}
