//! Time as this crate counts it, and as its sentences say it.

use std::time::Duration;

/// Time since the program started, monotonic. Cores never ask a clock; every fact comes with one of these.
pub type Now = Duration;

/// A length of time as sentences say it.
pub fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
