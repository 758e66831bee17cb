//! The types of the procedure's interface: its plan, orders, events, phases and reasons for ending.

use std::fmt;
use std::time::Duration;

use super::reading::Reading;
use topology::kind::Kind;

/// The parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kind of cluster.
    pub kind: Kind,
    /// How long the usual rate of applying is observed before the hold.
    pub baseline: Duration,
    /// How long the node is to apply nothing.
    pub hold: Duration,
    /// How long catching up may take. After that the procedure waits for the same time again for the queue to become short.
    pub catch_up_max: Duration,
    /// A queue of at most this many transactions is short: resynchronising the node with it causes no flow control.
    pub queue_short: u64,
    /// How long the node may take to change its state after an order.
    pub change_max: Duration,
    /// The hold ends when this many bytes have been received. They are stored in the node's gcache (Galera) or relay logs (replica).
    pub backlog_bytes_max: u64,
    /// The hold ends when this many transactions are in the queue. They are in the node's memory.
    pub backlog_max: u64,
}

/// An action that the procedure requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Take the node out of service in the proxy, the health endpoint and the virtual address.
    TakeOut,
    /// Stop the node from sending flow control messages by desynchronising it (Galera).
    Desync,
    /// Stop applying.
    Stop,
    /// Resume applying.
    Resume,
    /// Resynchronise the node, so that it takes part in flow control again (Galera).
    Resync,
    /// Put the node back into service.
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

/// An event that the procedure is informed of.
#[derive(Clone, Debug)]
pub enum Event {
    /// The nodes were read.
    Read(Reading),
    /// The last order was carried out.
    Done,
    /// The last order failed, or its result is unknown.
    Failed(String),
    /// The node, or the connection to it, is lost.
    Lost(String),
    /// The session on the node's server that would undo everything no longer exists.
    GuardLost(String),
    /// The user requested the end of the run. The second request ends it without waiting for the queue.
    Interrupted(String),
}

/// The phases of the procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// [`Order::TakeOut`] is under way.
    TakingOut,
    /// The usual rate is being observed.
    Baseline,
    /// [`Order::Desync`] is under way, or complete and not yet visible in the node's state.
    Desyncing,
    /// [`Order::Stop`] is under way.
    Stopping,
    /// The node applies nothing.
    Held,
    /// [`Order::Resume`] is under way.
    Resuming,
    /// The node applies its queue.
    CatchingUp,
    /// [`Order::Resync`] is under way, or complete and not yet visible in the node's state.
    Resyncing,
    /// [`Order::PutBack`] is under way.
    PuttingBack,
    /// Nothing is left to do.
    Ended,
}

/// Why the hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The planned time was over.
    Time,
    /// The limit of received bytes was reached.
    BacklogBytes,
    /// The limit of the queue's length was reached.
    Backlog,
    /// Flow control paused writes on another node.
    FlowControl,
    /// Another server stopped answering, so that this one may be needed.
    OtherLost,
    /// A client of the node was waiting to write.
    WriterWaits,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Before anything was done to the node: the node would receive more during the hold than is permitted.
    NoRoom {
        /// The bytes expected during the hold.
        expected_bytes: u64,
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// Before anything was done to the node: there are no writes, so no queue would form.
    NoWrites,
    /// Before anything was done to the node: its own clients write, and would have to wait during the hold.
    Written {
        /// Their transactions during the baseline.
        transactions: u64,
    },
    /// While it caught up, the node was a burden to its group: it requested flow control pauses, or its queue became too long.
    Burden(String),
    /// The node had not caught up in time: it applies less than arrives, or little more.
    TooSlow {
        /// Transactions left in the queue.
        queue: u64,
    },
    /// An order failed.
    Order(Order, String),
    /// The node entered a state in which nothing can be measured.
    State(String),
    /// The node, its guard, or the connection to it was lost.
    Lost(String),
    /// The user ended the run.
    Interrupted(String),
}
