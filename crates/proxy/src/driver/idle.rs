//! For how long a client has sent nothing (`proxy.client_idle_max_ms`).

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep_until};

/// The time since the last answer.
#[derive(Default)]
pub(super) struct Idle {
    /// `None` until it is waited for: without a limit nobody needs the time.
    since: Option<Instant>,
    /// Set for when an earlier idle time would have been too long, and moved only then: to set one for each command takes a lock.
    timer: Option<Pin<Box<Sleep>>>,
    /// The bytes of the next command that had come when the time was over before.
    begun: usize,
}

impl Idle {
    /// The client has its answer.
    pub fn begins(&mut self) {
        (self.since, self.begun) = (None, 0);
    }

    /// Resolves when it has lasted for that long.
    pub async fn lasts(&mut self, max: Duration) {
        let since = *self.since.get_or_insert_with(Instant::now);
        let due = tokio::time::Instant::from_std(since + max);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while tokio::time::Instant::now() < due {
            // The limit may have become shorter, too.
            if timer.is_elapsed() || timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            timer.as_mut().await;
        }
    }

    /// The time is over, and so many bytes of a command are here: whether some are new, so that it begins anew.
    pub fn has_begun_to_send(&mut self, bytes: usize) -> bool {
        let has = bytes > self.begun;
        if has {
            (self.since, self.begun) = (None, bytes);
        }
        has
    }
}
