//! Waiting until a Galera node is Synced.

use std::time::Duration;

use super::super::Stage;
use super::word::{GaleraWord, ask};

impl Stage {
    /// Waits until a Galera node reports that it is Synced and ready.
    ///
    /// # Errors
    /// When it dies or on timeout, with its last state and the end of its log.
    pub async fn wait_synced(&self, name: &str, within: Duration) -> anyhow::Result<()> {
        let late = |seconds| format!("{name} is not Synced after {seconds:.0} s");
        self.wait_for_word(self.node(name)?, within, ask, GaleraWord::is_synced, late).await.map(drop)
    }
}
