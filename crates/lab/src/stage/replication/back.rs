//! A server of a replication stage comes back.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::super::wait::{PACE, error_log_tail};
use super::super::{Stage, StageNode};
use super::word::{ReplicationWord, ask};

impl Stage {
    /// A server that does not run is started. A replica is told to follow again whom it followed, and is back when it has applied
    /// what that one has. A former primary comes back read-only and follows nobody.
    ///
    /// A replica whose source is gone, too, is back when it answers, and is not told to follow: with GTIDs the first START SLAVE after
    /// a start of the server, of either thread, throws its relay logs away (seen on 10.11.19, whatever `relay_log_recovery` says),
    /// and what the source had sent is then nowhere else.
    pub(in super::super) async fn bring_back_server(
        &self,
        node: &StageNode,
        within: Duration,
    ) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + within;
        let (word, restarted) = self.bring_up(node, deadline).await?;
        let Some(source) = word.source else { return Ok(Instant::now()) };
        let followed = self.nodes.iter().find(|other| other.address.ip().to_string() == source.host);
        if restarted {
            if !self.can_be_followed(followed)? {
                return Ok(Instant::now());
            }
            self.run_in(&node.name, "START SLAVE").await?;
        }
        self.wait_follows_again(node, followed, restarted, deadline).await
    }

    /// Waits until the server answers, and starts it when it does not run; its word, and whether it was started.
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

    /// Waits until a replica has what its source has, or until it is clear that it will not come to that by itself.
    async fn wait_follows_again(
        &self,
        node: &StageNode,
        followed: Option<&StageNode>,
        restarted: bool,
        deadline: Instant,
    ) -> anyhow::Result<Instant> {
        loop {
            let word = ask(node).await;
            if let Ok(word) = &word
                && let Some(source) = &word.source
            {
                let stopped = [source.receiving.as_str(), source.applying.as_str()];
                if stopped.contains(&"No") && !source.error.is_empty() {
                    bail!("{} is back, and does not replicate: {}", node.name, source.error);
                }
                // Somebody stopped it before: that is no fault of ours to undo.
                let was_stopped = !restarted && stopped == ["No", "No"];
                if was_stopped || !self.can_be_followed(followed)? {
                    return Ok(Instant::now());
                }
                if let (true, Some(followed)) = (source.is_running(), followed) {
                    let left = deadline.saturating_duration_since(Instant::now());
                    self.wait_follows(node, followed, left).await?;
                    return Ok(Instant::now());
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

    /// Whether whom it follows is of this stage and up.
    fn can_be_followed(&self, followed: Option<&StageNode>) -> anyhow::Result<bool> {
        let Some(node) = followed else { return Ok(false) };
        let record = self.recorded(node)?;
        let runs = self.alive(node)?.is_some_and(|process| !process.is_frozen());
        Ok(runs && !record.vanished && !record.leaving)
    }
}
