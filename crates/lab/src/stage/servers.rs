//! The nodes' server processes: starting one, checking whether it lives, signalling it.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::process::{self, Identity};
use super::stage_dir::NodeRecord;
use super::state::{Child, Stage, StageNode};

/// Time limit for a node to start, and for a Galera node to become Synced.
pub(super) const START_LIMIT: Duration = Duration::from_secs(120);

impl Stage {
    pub(crate) fn alive(&self, node: &StageNode) -> anyhow::Result<Option<Identity>> {
        self.reap(node);
        Ok(self.recorded(node)?.process.filter(|process| process.is_alive()))
    }

    /// Reaps a child that has ended, so that its process ID is free.
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

    /// Starts a node's server with `arguments`; returns when its process was started.
    pub(super) fn launch(&self, node: &StageNode, arguments: &[String]) -> anyhow::Result<Instant> {
        let mut command = self.network.command_in(node.number, &self.tools.server);
        self.tools.prepare(&mut command);
        command.arg(format!("--defaults-file={}", node.directory.join("my.cnf").display()));
        command.args(arguments);
        command.env(process::MARK, &self.directory);
        let log = node.directory.join(super::wait::OUTPUT_LOG);
        let (child, pid) = match &self.process_parent {
            Some(process_parent) => {
                let child = process_parent.spawn(&command, Some(&log))?;
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
        // `ip netns exec` and `setpriv` exec the server: the process ID stays. A child that has already ended has no identity, and the
        // caller that waits for it reports the end of its log.
        let process = Identity::of(pid);
        self.children.lock().unwrap_or_else(PoisonError::into_inner).push((node.number, child));
        self.record(node, |entry| *entry = NodeRecord { process, leaving: false, ..entry.clone() })?;
        Ok(started)
    }

    /// Sends a signal to a node's server; returns when it was sent.
    pub(crate) fn signal(
        &self,
        node: &StageNode,
        signal: rustix::process::Signal,
    ) -> anyhow::Result<Instant> {
        let sent = self.alive(node)?.map(|process| process.signal(signal)).transpose()?.flatten();
        sent.with_context(|| format!("{0} is not running: `heal` starts it", node.name))
    }
}
