//! A duration that can be changed while others read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A duration, to the microsecond; its clones share one value.
#[derive(Clone, Debug)]
pub struct LiveDuration(Arc<AtomicU64>);

impl From<Duration> for LiveDuration {
    fn from(duration: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(micros(duration))))
    }
}

impl LiveDuration {
    /// The present value.
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }

    /// Changes it.
    pub fn set(&self, duration: Duration) {
        self.0.store(micros(duration), Relaxed);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
