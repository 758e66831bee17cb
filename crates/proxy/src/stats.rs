//! Counters that every client task raises, and the snapshot made from them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use api::proxy::ErrorCount;
use measure::histogram::Histogram;

use crate::error_reply::{self, ErrorReply};

/// Bounds of the histogram of waits in the hold queue.
const HOLD_BOUNDS: &[Duration] = &[
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// Counters, raised from any task.
pub struct Counts {
    /// The term of the routes in force.
    pub term: AtomicU64,
    /// Clients connected now.
    pub clients: AtomicU64,
    /// Clients ever accepted.
    pub clients_total: AtomicU64,
    /// Links opened to nodes.
    pub links_total: AtomicU64,
    /// Sessions set up on another node.
    pub moved: AtomicU64,
    /// Statements sent again after a loss.
    pub again: AtomicU64,
    /// Sessions that cannot be moved now.
    pub pinned: AtomicU64,
    /// How long statements waited in the hold queue, except for those whose client left before the end.
    pub held_for: Histogram,
    errors: [AtomicU64; error_reply::ALL.len()],
}

impl Default for Counts {
    fn default() -> Self {
        let [term, clients, clients_total, links_total, moved, again, pinned] = Default::default();
        Self {
            term,
            clients,
            clients_total,
            links_total,
            moved,
            again,
            pinned,
            held_for: Histogram::new(HOLD_BOUNDS),
            errors: Default::default(),
        }
    }
}

impl Counts {
    /// The proxy sent one of its own errors.
    pub fn error(&self, error_reply: ErrorReply) {
        if let Some(at) = error_reply::ALL.iter().position(|known| *known == error_reply) {
            self.errors[at].fetch_add(1, Relaxed);
        }
    }

    /// A link was opened; `moved`: for a session that was on another.
    pub fn link_made(&self, moved: bool) {
        self.links_total.fetch_add(1, Relaxed);
        if moved {
            self.moved.fetch_add(1, Relaxed);
        }
    }

    /// A statement is tried again.
    pub fn sent_again(&self) {
        self.again.fetch_add(1, Relaxed);
    }

    /// One session more, or less, cannot be moved.
    pub fn pinned(&self, more: bool) {
        if more {
            self.pinned.fetch_add(1, Relaxed);
        } else {
            self.pinned.fetch_sub(1, Relaxed);
        }
    }

    /// How often each error was sent.
    pub fn errors(&self) -> Vec<ErrorCount> {
        let count = |at: usize| self.errors[at].load(Relaxed);
        error_reply::ALL
            .iter()
            .enumerate()
            .map(|(at, error_reply)| ErrorCount {
                code: error_reply.code,
                name: error_reply.name.into(),
                count: count(at),
            })
            .collect()
    }
}
