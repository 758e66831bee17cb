//! The words of the procedure: how it is to be done, what may be ordered, what may happen, where it is, and how it may end.

use std::fmt;
use std::time::Duration;

use super::reading::{Kind, Reading};

/// How it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What kind of cluster.
    pub kind: Kind,
    /// How long the rate of applying is looked at before.
    pub baseline: Duration,
    /// For how long the node is to apply nothing.
    pub hold: Duration,
    /// How long catching up may take; a node that takes longer is waited for as long again, until its queue is short.
    pub catch_up_max: Duration,
    /// A queue of at most so many transactions is short: the node asks for no flow control when it is resynchronised with it.
    pub queue_short: u64,
    /// How long the node may take to change its state after an order.
    pub change_max: Duration,
    /// The hold ends when so many bytes have come meanwhile: they are in the node's gcache (in its relay logs).
    pub backlog_bytes_max: u64,
    /// The hold ends when so many transactions are in the queue: they are in the node's memory.
    pub backlog_max: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Take the node out of proxy, health endpoint and address.
    TakeOut,
    /// Have it send no flow control (Galera).
    Desync,
    /// Have it apply nothing.
    Stop,
    /// Have it apply again.
    Resume,
    /// Have it send flow control again (Galera).
    Resync,
    /// Give it traffic again.
    PutBack,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TakeOut => "taking the node out of traffic",
            Self::Desync => "desynchronising it",
            Self::Stop => "stopping it from applying",
            Self::Resume => "letting it apply again",
            Self::Resync => "resynchronising it",
            Self::PutBack => "giving it traffic again",
        })
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The nodes were read.
    Read(Reading),
    /// The last order was carried out.
    Done,
    /// It was not, or nobody knows.
    Failed(String),
    /// The node or the way there is lost.
    Lost(String),
    /// The node's server does not keep the session any more that would undo everything.
    GuardLost(String),
    /// Whoever runs it wants it to end; the second time without waiting for the queue.
    Interrupted(String),
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// [`Order::TakeOut`] is under way.
    TakingOut,
    /// The usual rate is looked at.
    Baseline,
    /// [`Order::Desync`] is under way, or done and not yet seen.
    Desyncing,
    /// [`Order::Stop`] is under way.
    Stopping,
    /// Nothing is applied.
    Held,
    /// [`Order::Resume`] is under way.
    Resuming,
    /// The queue falls.
    CatchingUp,
    /// [`Order::Resync`] is under way, or done and not yet seen.
    Resyncing,
    /// [`Order::PutBack`] is under way.
    PuttingBack,
    /// Nothing is left to do.
    Ended,
}

/// Why the hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// It had lasted as long as planned.
    Time,
    /// As many bytes had come as may.
    BacklogBytes,
    /// The queue was as long as may be.
    Backlog,
    /// Flow control stopped writes elsewhere.
    FlowControl,
    /// Another server did not answer any more: this one may be needed.
    OtherLost,
    /// A client of the node waited to write.
    WriterWaits,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Before anything was done to the node: what it would gather while it is held is more than may be.
    NoRoom {
        /// What would come in the hold, bytes.
        expected_bytes: u64,
        /// What may.
        max_bytes: u64,
    },
    /// Before anything was done to the node: nobody writes, so it would gather nothing.
    NoWrites,
    /// Before anything was done to the node: its own clients write there, and would wait while it is held.
    Written {
        /// Transactions of theirs in the baseline.
        transactions: u64,
    },
    /// While it caught up, it was a burden to its group: it asked for flow control, or what waits there was too much.
    Burden(String),
    /// It was not caught up when time was up: it applies less than comes, or little more.
    TooSlow {
        /// Transactions left in the queue.
        queue: u64,
    },
    /// An order failed.
    Order(Order, String),
    /// It came into a state in which nothing can be measured.
    State(String),
    /// The node, its guard, or the way there was lost.
    Lost(String),
    /// Whoever ran it ended it.
    Interrupted(String),
}
