//! Counters of connections and answers, for status and metrics.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counters of connections and answers. Connections are counted when they are accepted, answers by their result.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections open now.
    pub open: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Answers with 200.
    pub good: AtomicU64,
    /// Answers with 503.
    pub bad: AtomicU64,
    /// Requests that were refused: not understood, or about an unknown path or node.
    pub refused: AtomicU64,
    /// Connections accepted beyond the limit.
    pub beyond: AtomicU64,
}
impl Counts {
    /// The answers by result, as one family of Prometheus' text format.
    pub fn answers(&self, name: &str) -> String {
        let mut text = format!("# HELP {name} Answers by what they said.\n# TYPE {name} counter\n");
        for (answer, count) in [("good", &self.good), ("bad", &self.bad), ("not_understood", &self.refused)] {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}{{answer=\"{answer}\"}} {}", count.load(Relaxed));
        }
        text
    }
}
