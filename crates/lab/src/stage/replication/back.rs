//! Lets a server of a replication stage rejoin.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::super::state::{Stage, StageNode};
use super::super::wait::{PACE, error_log_tail};
use super::dialect::words;
use super::word::{ReplicationWord, ask};
use crate::wait;

/// How long a replica is waited for before it is looked again what it follows, and who the primary is.
const ASK_AGAIN: Duration = Duration::from_secs(5);

impl Stage {
    /// Starts a server that does not run. A replica replicates again from its previous source, and is back when it has applied everything
    /// the source has. A former primary comes back read-only and does not replicate.
    ///
    /// A replica whose source is down, too, is back when it responds, and replication is not started: with GTIDs the first START SLAVE
    /// after a start of the server, of either thread, discards its relay logs (seen on 10.11.19, with any value of `relay_log_recovery`),
    /// and then the transactions that the source had sent exist nowhere else.
    pub(in super::super) async fn bring_back_server(
        &self,
        node: &StageNode,
        within: Duration,
    ) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + within;
        let (word, restarted) = self.bring_up(node, deadline).await?;
        let Some(source) = word.source else { return Ok(Instant::now()) };
        if restarted {
            if !self.can_be_followed(self.of_host(&source.host))? {
                return Ok(Instant::now());
            }
            self.run_in(&node.name, words(node.product).start).await?;
        }
        self.wait_follows_again(node, restarted, deadline).await
    }

    /// Waits until the server responds, and starts it if it does not run; returns its status, and whether it was started.
    async fn bring_up(&self, node: &StageNode, deadline: Instant) -> anyhow::Result<(ReplicationWord, bool)> {
        // A process that was just killed may still hold its files.
        let mut restarted = false;
        loop {
            if self.alive(node)?.is_none() {
                if restarted {
                    bail!("{} does not stay up:\n{}", node.name, error_log_tail(&node.error_log));
                }
                self.start(&node.name).await?;
                restarted = true;
            }
            match ask(node).await {
                Ok(word) => return Ok((word, restarted)),
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context(format!("{} does not answer after it was mended", node.name)));
                }
                Err(_) => tokio::time::sleep(PACE).await,
            }
        }
    }

    /// Waits until a replica has everything its source has, or until it is clear that it will not get there by itself. Meanwhile a manager
    /// may make it follow another, or make it the primary.
    async fn wait_follows_again(
        &self,
        node: &StageNode,
        restarted: bool,
        deadline: Instant,
    ) -> anyhow::Result<Instant> {
        loop {
            let word = ask(node).await;
            if word.as_ref().is_ok_and(ReplicationWord::is_primary) {
                return Ok(Instant::now());
            }
            if let Ok(word) = &word
                && let Some(source) = &word.source
            {
                let followed = self.of_host(&source.host);
                let stopped = [source.receiving.as_str(), source.applying.as_str()];
                if stopped.contains(&"No") && !source.error.is_empty() {
                    bail!("{} is back, and does not replicate: {}", node.name, source.error);
                }
                // It was stopped before the fault: not caused by the lab, so it is not undone.
                let was_stopped = !restarted && stopped == ["No", "No"];
                if was_stopped || !self.can_be_followed(followed)? {
                    return Ok(Instant::now());
                }
                if let (true, Some(followed)) = (source.is_running(), followed) {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match self.wait_follows(node, followed, left.min(ASK_AGAIN)).await {
                        Ok(()) => return Ok(Instant::now()),
                        Err(error) if Instant::now() > deadline => return Err(error),
                        Err(_) => {}
                    }
                }
            }
            if self.alive(node)?.is_none() {
                bail!("{} does not stay up:\n{}", node.name, error_log_tail(&node.error_log));
            }
            if Instant::now() > deadline {
                let last = word.map_or_else(|error| format!("{error:#}"), |word| word.to_string());
                bail!("{} was mended and does not replicate in time ({last})", node.name);
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// Waits until one server is the primary and all others replicate from it and have applied what it had at that time.
    pub(in super::super) async fn settled_replication(&self, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        let settled = wait::retried(within, PACE, async || {
            let primary = self.primary().await?;
            for replica in self.nodes.iter().filter(|node| node.name != primary.name) {
                // Another may have become the primary while they were asked one after the other.
                let left = deadline.saturating_duration_since(Instant::now()).min(ASK_AGAIN);
                self.wait_follows(replica, primary, left).await?;
            }
            Ok(())
        });
        settled.await.context("the servers are not one primary and its replicas again")
    }

    /// The only server that is writable and does not replicate.
    async fn primary(&self) -> anyhow::Result<&StageNode> {
        let mut primaries = Vec::new();
        for node in &self.nodes {
            if ask(node).await.is_ok_and(|word| word.is_primary()) {
                primaries.push(node);
            }
        }
        match primaries.as_slice() {
            [one] => Ok(one),
            [] => bail!("no server is writable and follows nobody"),
            several => {
                let names: Vec<&str> = several.iter().map(|node| node.name.as_str()).collect();
                bail!("{} are all writable and follow nobody", names.join(" and "))
            }
        }
    }

    fn of_host(&self, host: &str) -> Option<&StageNode> {
        self.nodes.iter().find(|node| node.address.ip().to_string() == host)
    }

    /// Whether its source belongs to this stage and is up.
    fn can_be_followed(&self, followed: Option<&StageNode>) -> anyhow::Result<bool> {
        let Some(node) = followed else { return Ok(false) };
        let record = self.recorded(node)?;
        let runs = self.alive(node)?.is_some_and(|process| !process.is_frozen());
        Ok(runs && !record.vanished && !record.leaving)
    }
}
