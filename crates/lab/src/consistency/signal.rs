//! What a client is told while it works: the time, and when to end.

use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Clone)]
pub struct Signal {
    pub(super) ended: watch::Receiver<bool>,
    pub(super) began: Instant,
    pub(super) pause_ms: u64,
}

impl Signal {
    /// Time since the start of the phase.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Pauses for a random time; false when the client is to end.
    pub async fn pause(&mut self, rng: &mut StdRng) -> bool {
        let pause = Duration::from_millis(rng.random_range(1..=self.pause_ms.max(1)));
        // A sender that is gone means the end, too.
        tokio::time::timeout(pause, self.ended.wait_for(|ended| *ended)).await.is_err()
    }
}
