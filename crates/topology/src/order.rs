//! What an operator may ask for, and what comes back.

use std::time::Duration;

use crate::{NodeId, Term};

/// Ties an answer to its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

/// An operator's order. Comes in as [`crate::fact::Fact::Order`] from the command line or the HTTP API, is carried out one at a time (a second one
/// is refused with `busy`), and is answered exactly once by an [`OrderReply`].
#[allow(missing_docs)] // `budget` is the longest time to wait for running transactions, `force`: cut them when it is over
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Move the writer gracefully: hold new transactions, let running ones end within `budget`, wait until the new writer has
    /// applied everything, release. Over budget, everything is undone; with `force`, what still runs then is cut instead. `to: None`
    /// lets the election choose.
    Switchover { to: Option<NodeId>, budget: Duration, force: bool },
    /// Take the node out of traffic: its sessions move to another node when their running transaction or statement has ended. If it is the
    /// writer, a switchover comes first. Over `budget` the order is undone, or with `force` what still runs is cut. Stays until `Undrain`, also
    /// over a restart. With `temporary` it is for the time of somebody's work, who will order a temporary `Undrain`: an operator's drain that comes meanwhile
    /// stays, whoever comes first.
    Drain { node: NodeId, budget: Duration, force: bool, temporary: bool },
    /// Let the node take sessions again, with the limit that it had before the drain (none, if this program was restarted since). With `temporary` only when no drain is in force but a temporary one; after a
    /// restart of this program every drain counts as an operator's.
    Undrain { node: NodeId, temporary: bool },
    /// Allow at most this many sessions on the node at once; `None` lifts the limit. 0 is a `Drain` with the default budget.
    SetSessionsMax { node: NodeId, sessions_max: Option<u32> },
}

/// Done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderDone {
    /// One sentence: what was done, or why nothing had to be.
    pub sentence: String,
    /// The term now in force.
    pub term: Term,
    /// The writer now (`writers = "one"`).
    pub writer: Option<NodeId>,
    /// From the order to its end.
    pub took: Duration,
    /// Whether the order changed anything.
    pub is_changed: bool,
}

/// Not done, and nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRefused {
    /// Short and stable, for programs: `unknown_node`, `not_writable`, `preflight`, `busy`, `over_budget`, `not_fenced`,
    /// `not_followed`, `last_node`, `store`.
    pub code: &'static str,
    /// One sentence: why, and what to do.
    pub sentence: String,
}

/// What came of an order.
pub type OrderReply = Result<OrderDone, OrderRefused>;
