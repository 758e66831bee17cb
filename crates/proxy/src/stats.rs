//! Counters that every client task raises, and the snapshot made from them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use std::time::Duration;

use measure::histogram::{Histogram, Snapshot};
use serde::Serialize;

use crate::activity::Busy;
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
                name: error_reply.name,
                count: count(at),
            })
            .collect()
    }
}

/// How often one of the proxy's errors was sent.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorCount {
    /// See [`ErrorReply::code`].
    pub code: u16,
    /// See [`ErrorReply::name`].
    pub name: &'static str,
    /// How often.
    pub count: u64,
}

/// The hold queue; `held = resumed + evicted + expired + gone + waiting`.
#[derive(Clone, Debug, Serialize)]
pub struct HoldStats {
    /// Statements that ever had to wait.
    pub held: u64,
    /// Those that continued.
    pub resumed: u64,
    /// Those that were removed to make room (error 9103).
    pub evicted: u64,
    /// Those whose time was over (error 9102).
    pub expired: u64,
    /// Those whose client went away.
    pub gone: u64,
    /// Those that wait now.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// The most that ever waited at the same time.
    pub waiting_max: u64,
    /// Whether the equation holds.
    pub lawful: bool,
    /// How long they waited.
    #[serde(skip)]
    pub held_for: Snapshot,
}

/// One node, as the proxy uses it.
#[derive(Clone, Debug, Serialize)]
pub struct LaneStats {
    /// The node's name.
    pub node: String,
    /// `open`, `draining` or `shut`.
    pub state: &'static str,
    /// Sessions with a link to it.
    pub sessions: u32,
    /// Transactions (or statements outside one) running on it.
    pub running: usize,
    /// Those begun on it so far.
    pub begun_total: u64,
}

/// A snapshot of the proxy's counters.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The term of the routes in force.
    pub term: u64,
    /// Clients connected now.
    pub clients: u64,
    /// Clients ever accepted.
    pub clients_total: u64,
    /// Links opened to nodes.
    pub links_total: u64,
    /// Sessions set up on another node.
    pub sessions_moved: u64,
    /// Sessions with state that no other node can have, so that they cannot move now.
    pub sessions_pinned: u64,
    /// Statements sent again after a loss.
    pub statements_again: u64,
    /// The hold queue.
    pub hold: HoldStats,
    /// The nodes.
    pub lanes: Vec<LaneStats>,
    /// The proxy's own errors.
    pub errors: Vec<ErrorCount>,
    /// Sessions that keep a node's lane busy, the longest first.
    pub busy: Vec<Busy>,
    /// Where reads ran; `None` if none may run on replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitStats>,
}

/// Where statements ran.
#[derive(Clone, Debug, Serialize)]
pub struct SplitStats {
    /// Answered by a replica.
    pub replicas: u64,
    /// Sent to the primary because of what they are.
    pub primary: u64,
    /// Reads for a replica that went to the primary, since no replica took them.
    pub primary_nobody: u64,
    /// The same, because the replica did not reach the position in time.
    pub primary_behind: u64,
    /// The same, because the replica failed or answered with an error.
    pub primary_failed: u64,
    /// Sessions with a link to a replica, by node.
    pub lanes: Vec<(String, u32)>,
}
