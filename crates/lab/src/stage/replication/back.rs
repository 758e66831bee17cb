//! A server of a replication stage comes back.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::super::wait::{PACE, error_log_tail};
use super::super::{Stage, StageNode};
use super::word::ask;

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
        // A process that was just killed may still hold its files.
        let mut restarted = false;
        let word = loop {
            if self.alive(node)?.is_none() {
                if restarted {
                    bail!("{} does not stay up:\n{}", node.name, error_log_tail(&node.error_log));
                }
                self.start(&node.name).await?;
                restarted = true;
            }
            match ask(node).await {
                Ok(word) => break word,
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context(format!("{} does not answer after it was mended", node.name)));
                }
                Err(_) => tokio::time::sleep(PACE).await,
            }
        };
        let Some(source) = word.source else { return Ok(Instant::now()) };
        let followed = self.nodes.iter().find(|other| other.address.ip().to_string() == source.host);
        if restarted {
            if !self.can_be_followed(followed)? {
                return Ok(Instant::now());
            }
            self.run_in(&node.name, "START SLAVE").await?;
        }
        loop {
            let word = ask(node).await;
            if let Ok(word) = &word
                && let Some(source) = &word.source
            {
                if !source.error.is_empty() && source.applying == "No" {
                    bail!("{} is back, and does not replicate: {}", node.name, source.error);
                }
                if !self.can_be_followed(followed)? || source.receiving == "No" {
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
                bail!(
                    "{} does not replicate {:.0} s after it was mended ({last})",
                    node.name,
                    within.as_secs_f64()
                );
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
