//! Lets a Galera node rejoin its group.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;

use super::super::wait::{PACE, error_log_tail};
use super::super::{STOP_LIMIT, Stage, StageNode};
use super::word::ask;
use crate::wait;

impl Stage {
    pub(in super::super) async fn bring_back_to_group(
        &self,
        node: &StageNode,
        within: Duration,
    ) -> anyhow::Result<Instant> {
        let name = &node.name;
        // A process that was just killed may still hold its files.
        let mut restarted = false;
        let returned = wait::found(within, PACE, async || {
            if self.alive(node)?.is_none() {
                if restarted {
                    bail!("{name} does not stay up:\n{}", error_log_tail(&node.error_log));
                }
                self.start(name).await?;
                restarted = true;
            }
            match ask(node).await {
                Ok(word) if word.is_synced() && self.share_view(name, word.view).await? => {
                    return Ok(Some(Instant::now()));
                }
                Ok(word) if word.is_cast_out() && !restarted => {
                    // Evicted while running: it will never rejoin by itself.
                    self.signal(node, Signal::TERM)?;
                    self.wait_gone(name, STOP_LIMIT).await?;
                }
                Ok(_) | Err(_) => {}
            }
            Ok(None)
        });
        returned.await?.with_context(|| {
            let tail = error_log_tail(&node.error_log);
            format!("{name} is not Synced {:.0} s after it was mended:\n{tail}", within.as_secs_f64())
        })
    }

    /// Whether every other node of the group is in the same view. A node that was silent reports Synced until it learns
    /// that the others continued without it; and while they agree on the next view, they are in none.
    async fn share_view(&self, name: &str, view: u64) -> anyhow::Result<bool> {
        for other in self.nodes().iter().filter(|other| other.name != name) {
            let record = self.recorded(other)?;
            let hears = self.alive(other)?.is_some_and(|process| !process.is_frozen());
            if !hears || record.vanished || record.leaving {
                continue;
            }
            match ask(other).await {
                Ok(word) if !word.is_cast_out() && word.view != view => return Ok(false),
                Ok(_) => {}
                // It runs and is connected: it will respond when the group has agreed.
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}
