//! Waiting until a Galera node is Synced.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::super::Stage;
use super::super::wait::{PACE, error_log_tail};
use super::word::{GaleraWord, ask};

impl Stage {
    /// Waits until a Galera node itself says that it is Synced and ready.
    ///
    /// # Errors
    /// When it dies or the time is over, with its last state and the end of its log.
    pub async fn wait_synced(&self, name: &str, within: Duration) -> anyhow::Result<()> {
        let node = self.node(name)?;
        let deadline = Instant::now() + within;
        loop {
            let word = ask(node).await;
            if word.as_ref().is_ok_and(GaleraWord::is_synced) {
                return Ok(());
            }
            if self.alive(node)?.is_none() {
                bail!("{name} is not running. The end of its log:\n{}", error_log_tail(&node.error_log));
            }
            if Instant::now() > deadline {
                let last = word.map_or_else(|error| format!("{error:#}"), |word| word.to_string());
                let tail = error_log_tail(&node.error_log);
                bail!(
                    "{name} is not Synced after {:.0} s ({last}). The end of its log:\n{tail}",
                    within.as_secs_f64()
                );
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
