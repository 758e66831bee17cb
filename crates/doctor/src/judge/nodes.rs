//! Helpers for the nodes' answers.

use std::time::Duration;

pub(super) use crate::asked::{answered, named};

/// How long writes at `rate` bytes a second fit into `size` bytes.
pub(super) fn window(size: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(size as f64 / rate).ok()
}
