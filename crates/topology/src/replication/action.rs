//! What is asked of the servers of a primary-replica setup, and what comes of it.

use std::time::Duration;

use protocol::gtid::Position;

use super::kept_events::Left;
use crate::{NodeId, Term};

/// What the brain asks the shell to do to a server.
#[derive(Clone, Debug)]
pub enum Action {
    /// Make it read only; answered by `Demoted` when it says so itself, with all that it has written by then, or by `DemoteFailed`.
    Demote {
        /// Which server.
        node: NodeId,
        /// The decision it belongs to.
        term: Term,
        /// It will not be the primary again before all is mended: sessions that wait there for space on a full disk are ended, too. The server
        /// then has half an event in its binlog, and no replica can read on behind that (MDEV-27803, seen on MariaDB 10.11.19).
        for_good: bool,
        /// Give up after this long.
        within: Duration,
    },
    /// Have it apply all that it has received, and `reach` besides; then it follows nobody and is writable. Answered by
    /// [`crate::fact::Outcome::BarrierPassed`] when it says so itself, or by `BarrierFailed`, after which it may be writable or not.
    Promote {
        /// Which server.
        node: NodeId,
        /// The decision it belongs to.
        term: Term,
        /// What the old primary had written when it was fenced; `None` when that is not known.
        reach: Option<Position>,
        /// Give up after this long.
        within: Duration,
    },
    /// Make it read only, and have it follow `source` from where it stands; answered by `Following` when both its threads run, or by
    /// `FollowFailed`. If it followed nobody, it was the primary: sessions of clients that hold locks on rows are ended, as replication would
    /// wait for them, and they could not commit.
    Follow {
        /// Which server.
        node: NodeId,
        /// The primary.
        source: NodeId,
        /// The decision by which it is.
        term: Term,
        /// Give up after this long.
        within: Duration,
    },
    /// Restart the replica's I/O thread and see whether it can connect to its source: by itself a replica notices only after
    /// `slave_net_timeout` that its source is gone. Asked only while the SQL thread runs, as MariaDB throws the relay logs away when neither
    /// thread does. Answered by `Reconnected`, or by `ReconnectFailed` when nothing was learned.
    Reconnect {
        /// Which server.
        node: NodeId,
        /// The primary that it follows.
        source: NodeId,
        /// The decision by which it is.
        term: Term,
        /// The source has not answered when the thread is not connected after this long.
        within: Duration,
    },
    /// Stop the replica's I/O thread: nothing more may come from a primary that is lost. Asked only while the SQL thread runs, as above.
    /// Answered by `Parted`, or by `PartFailed`.
    Part {
        /// Which server.
        node: NodeId,
        /// The decision it belongs to.
        term: Term,
        /// Give up after this long.
        within: Duration,
    },
    /// Stop the events of a server that is read only and not to follow anybody, where an order before could not; answered by `EventsStopped`.
    StopEvents {
        /// Which server.
        node: NodeId,
        /// The decision it belongs to.
        term: Term,
        /// Give up after this long.
        within: Duration,
    },
    /// Have the primary run the events that the primary before it ran, and no others ([`super::kept_events`]); given after it has taken over, so
    /// that nothing waits for it. Answered by `EventsRun`, or by `EventsFailed`.
    RunEvents {
        /// Which server.
        node: NodeId,
        /// It has replaced another primary; it has not when a switchover was undone, or this program has started.
        has_replaced: bool,
        /// The decision it belongs to.
        term: Term,
        /// Give up after this long.
        within: Duration,
    },
}

/// What an order is, and of which decision: an answer is for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderKind {
    Demote(Term),
    Promote(Term),
    Follow(Term),
    Reconnect(Term),
    Part(Term),
    StopEvents(Term),
    RunEvents(Term),
}

impl Action {
    pub(super) fn kind(&self) -> OrderKind {
        match self {
            Self::Demote { term, .. } => OrderKind::Demote(*term),
            Self::Promote { term, .. } => OrderKind::Promote(*term),
            Self::Follow { term, .. } => OrderKind::Follow(*term),
            Self::Reconnect { term, .. } => OrderKind::Reconnect(*term),
            Self::Part { term, .. } => OrderKind::Part(*term),
            Self::StopEvents { term, .. } => OrderKind::StopEvents(*term),
            Self::RunEvents { term, .. } => OrderKind::RunEvents(*term),
        }
    }

    /// Whom it is asked of.
    pub fn node(&self) -> NodeId {
        match self {
            Self::Demote { node, .. }
            | Self::Promote { node, .. }
            | Self::Follow { node, .. }
            | Self::Reconnect { node, .. }
            | Self::Part { node, .. }
            | Self::StopEvents { node, .. }
            | Self::RunEvents { node, .. } => *node,
        }
    }

    /// How long it may take.
    pub fn within(&self) -> Duration {
        match self {
            Self::Demote { within, .. }
            | Self::Promote { within, .. }
            | Self::Follow { within, .. }
            | Self::Reconnect { within, .. }
            | Self::Part { within, .. }
            | Self::StopEvents { within, .. }
            | Self::RunEvents { within, .. } => *within,
        }
    }
}

/// What came of an [`Action`]: sent by the manager as a fact when the action has ended. `term` is that of the decision to which the action belongs;
/// an outcome of an older decision is ignored.
#[allow(missing_docs)] // `node` and `term` are those of the action; `why` is an error's text
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The server reports that it is read only; `position` is the last that it committed, and it cannot commit more. `events_left`: why some of
    /// its events could not be stopped; those whose definers may write there run on.
    Demoted { node: NodeId, term: Term, position: Position, events_left: Option<String> },
    /// It could not be made read only, or did not say so within the deadline.
    DemoteFailed { node: NodeId, term: Term, why: String },
    /// It follows the primary of that term. So many sessions of clients were ended there first, since they held locks on rows. `events_left`: as
    /// above.
    Following { node: NodeId, term: Term, sessions_ended: usize, events_left: Option<String> },
    /// It does not replicate from that primary. Tried again later.
    FollowFailed { node: NodeId, term: Term, why: String },
    /// The I/O thread was started again; `receives`: it has connected to its source, so the source lives.
    Reconnected { node: NodeId, term: Term, receives: bool },
    /// The I/O thread could not be started again: nothing is known of the source by that.
    ReconnectFailed { node: NodeId, term: Term, why: String },
    /// The I/O thread has stopped: nothing more comes from the lost primary.
    Parted { node: NodeId, term: Term },
    /// It may still run, and receive more from the lost primary.
    PartFailed { node: NodeId, term: Term, why: String },
    /// Its events are stopped, but for what `events_left` says.
    EventsStopped { node: NodeId, term: Term, events_left: Option<String> },
    /// It runs `count` events that the primary before it ran.
    EventsRun { node: NodeId, term: Term, count: usize },
    /// `left` does not run there, or it could not be asked. Tried again later.
    EventsFailed { node: NodeId, term: Term, why: String, left: Left },
}

impl Outcome {
    pub(super) fn kind(&self) -> OrderKind {
        match self {
            Self::Demoted { term, .. } | Self::DemoteFailed { term, .. } => OrderKind::Demote(*term),
            Self::Following { term, .. } | Self::FollowFailed { term, .. } => OrderKind::Follow(*term),
            Self::Reconnected { term, .. } | Self::ReconnectFailed { term, .. } => {
                OrderKind::Reconnect(*term)
            }
            Self::Parted { term, .. } | Self::PartFailed { term, .. } => OrderKind::Part(*term),
            Self::EventsStopped { term, .. } => OrderKind::StopEvents(*term),
            Self::EventsRun { term, .. } | Self::EventsFailed { term, .. } => OrderKind::RunEvents(*term),
        }
    }

    /// The node it is about.
    pub fn node(&self) -> NodeId {
        match self {
            Self::Demoted { node, .. }
            | Self::DemoteFailed { node, .. }
            | Self::Following { node, .. }
            | Self::FollowFailed { node, .. }
            | Self::Reconnected { node, .. }
            | Self::ReconnectFailed { node, .. }
            | Self::Parted { node, .. }
            | Self::PartFailed { node, .. }
            | Self::EventsStopped { node, .. }
            | Self::EventsRun { node, .. }
            | Self::EventsFailed { node, .. } => *node,
        }
    }
}
