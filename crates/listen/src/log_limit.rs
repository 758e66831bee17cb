//! A rate limit of one log line that clients could otherwise cause thousands of times a second.
//!
//! Enters: each event. Leaves: whether to log it now, and how often it was not logged since the last time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One line that is logged at most once in a while.
#[derive(Debug)]
pub struct LogLimit {
    every: Duration,
    last: Mutex<Option<(Instant, u64)>>,
}

impl LogLimit {
    /// Allows the line at most once in `every`.
    pub const fn new(every: Duration) -> Self {
        Self { every, last: Mutex::new(None) }
    }

    /// `Some` if it is to be logged now, with the number of times that it was suppressed since the last time.
    pub fn now(&self, now: Instant) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_mut() {
            Some((at, kept_back)) if now.saturating_duration_since(*at) < self.every => {
                *kept_back += 1;
                None
            }
            _ => Some(last.replace((now, 0)).map_or(0, |(_, kept_back)| kept_back)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_in_a_while_and_nothing_is_uncounted() {
        let limit = LogLimit::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |s| limit.now(start + Duration::from_secs(s));
        assert_eq!(
            [at(0), at(1), at(9), at(10), at(19), at(30)],
            [Some(0), None, None, Some(2), None, Some(1)]
        );
    }
}
