//! What an operator may ask for, and what comes back.

use std::time::Duration;

use crate::{NodeId, Term};

/// Ties an answer to its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

/// An operator's wish.
#[allow(missing_docs)] // the fields say what they are by their names and types
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Move the writer gracefully: hold new transactions, let running ones end within `budget`, wait until the new writer has
    /// applied everything, release. Over budget, everything is undone; with `force`, what still runs then is cut instead. `to: None`
    /// lets the election choose.
    Switchover { to: Option<NodeId>, budget: Duration, force: bool },
    /// Take the node out: its sessions move at their next boundary. Moves the writer first when it is the writer. `force` as above.
    Drain { node: NodeId, budget: Duration, force: bool },
    /// Let the node take sessions again.
    Undrain { node: NodeId },
    /// At most this many sessions on the node; `None` lifts the limit. 0 is a drain.
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
}

/// Not done, and nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRefused {
    /// Short and stable, for programs: `unknown_node`, `not_writable`, `preflight`, `busy`, `over_budget`, `last_node`, `store`.
    pub code: &'static str,
    /// One sentence: why, and what to do.
    pub sentence: String,
}

/// What came of an order.
pub type OrderReply = Result<OrderDone, OrderRefused>;
