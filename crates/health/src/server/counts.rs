//! What was served so far, for status and metrics.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

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
impl Counts {
    /// The answers, by what they said, as one family of Prometheus' text format.
    pub fn answers(&self, name: &str) -> String {
        let mut text = format!("# HELP {name} Answers by what they said.\n# TYPE {name} counter\n");
        for (answer, count) in [("good", &self.good), ("bad", &self.bad), ("not_understood", &self.refused)] {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}{{answer=\"{answer}\"}} {}", count.load(Relaxed));
        }
        text
    }
}
