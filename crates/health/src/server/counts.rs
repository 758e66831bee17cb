//! What was served so far, for status and metrics.

use std::sync::atomic::AtomicU64;

/// What was served so far. Connections are counted when they are accepted, answers by what they said.
#[derive(Debug, Default)]
pub struct Counts {
    /// Open now.
    pub open: AtomicU64,
    /// Accepted.
    pub accepted: AtomicU64,
    /// Answers that said yes.
    pub good: AtomicU64,
    /// Answers that said no.
    pub bad: AtomicU64,
    /// Requests that could not be understood.
    pub refused: AtomicU64,
    /// Connections beyond the limit.
    pub beyond: AtomicU64,
}
