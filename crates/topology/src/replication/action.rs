//! What is asked of the servers of a primary-replica setup, and what comes of it.

use std::time::Duration;

use protocol::gtid::Position;

use super::kept_events::Left;
use crate::{NodeId, Term};

/// What the brain asks the shell to do to a server.
#[derive(Clone, Debug)]
pub struct Action {
    pub node: NodeId,
    /// The decision it belongs to.
    pub term: Term,
    /// Give up after this long.
    pub within: Duration,
    pub errand: Errand,
}

/// What is to be done there.
#[derive(Clone, Debug)]
pub enum Errand {
    /// Make it read only; answered by `Demoted` when it says so itself, with all that it has written by then, or by `DemoteFailed`.
    Demote {
        /// It will not be the primary again before all is mended: sessions that wait there for space on a full disk are ended, too. The server
        /// then has half an event in its binlog, and no replica can read on behind that (MDEV-27803, seen on MariaDB 10.11.19).
        for_good: bool,
    },
    /// Have it apply all that it has received, and `reach` besides; then it follows nobody and is writable. Answered by
    /// [`crate::fact::Outcome::BarrierPassed`] when it says so itself, or by `BarrierFailed`, after which it may be writable or not.
    Promote {
        /// What the old primary had written when it was fenced; `None` when that is not known.
        reach: Option<Position>,
    },
    /// Make it read only, and have it follow `source`, the primary by that decision, from where it stands; answered by `Following` when both its
    /// threads run, or by `FollowFailed`. If it followed nobody, it was the primary: sessions of clients that hold locks on rows are ended, as
    /// replication would wait for them, and they could not commit.
    Follow { source: NodeId },
    /// Restart the replica's I/O thread and see whether it can connect to its source, the primary that it follows: by itself a replica notices
    /// only after `slave_net_timeout` that its source is gone. The source has not answered when the thread is not connected after the order's
    /// time. Asked only while the SQL thread runs, as MariaDB throws the relay logs away when neither thread does. Answered by `Reconnected`, or
    /// by `ReconnectFailed` when nothing was learned.
    Reconnect { source: NodeId },
    /// Stop the replica's I/O thread: nothing more may come from a primary that is lost. Asked only while the SQL thread runs, as above.
    /// Answered by `Parted`, or by `PartFailed`.
    Part,
    /// Have the commits of a replica of MySQL wait for no replica of its own any more: it was the primary, and its applier would hang. That takes the
    /// server up to a second, in which it answers no question about its settings, so that it comes after the replica follows. Answered by
    /// `StoppedWaiting`.
    StopWaiting,
    /// Stop the events of a server that is read only and not to follow anybody, where an order before could not; answered by `EventsStopped`.
    StopEvents,
    /// Have the primary run the events that the primary before it ran, and no others ([`super::kept_events`]); given after it has taken over, so
    /// that nothing waits for it. Answered by `EventsRun`, or by `EventsFailed`.
    RunEvents {
        /// It has replaced another primary; it has not when a switchover was undone, or this program has started.
        has_replaced: bool,
    },
}

/// An [`Errand`] without what differs from one to the next: an answer is for an order of its own kind and term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrandKind {
    Demote,
    Promote,
    Follow,
    Reconnect,
    Part,
    StopWaiting,
    StopEvents,
    RunEvents,
}

impl Errand {
    pub(super) fn kind(&self) -> ErrandKind {
        match self {
            Self::Demote { .. } => ErrandKind::Demote,
            Self::Promote { .. } => ErrandKind::Promote,
            Self::Follow { .. } => ErrandKind::Follow,
            Self::Reconnect { .. } => ErrandKind::Reconnect,
            Self::Part => ErrandKind::Part,
            Self::StopWaiting => ErrandKind::StopWaiting,
            Self::StopEvents => ErrandKind::StopEvents,
            Self::RunEvents { .. } => ErrandKind::RunEvents,
        }
    }

    /// The server that it is to replicate from.
    pub fn source(&self) -> Option<NodeId> {
        match self {
            Self::Follow { source } | Self::Reconnect { source } => Some(*source),
            _ => None,
        }
    }
}

/// What came of an [`Action`]: sent by the manager as a fact when the action has ended. Node and term are those of the action; an outcome of an
/// older decision is ignored.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub node: NodeId,
    pub term: Term,
    pub end: End,
}

/// How an [`Errand`] ended; `why` is an error's text.
#[derive(Clone, Debug)]
pub enum End {
    /// The server reports that it is read only; `position` is the last that it committed, and it cannot commit more. `events_left`: why some of
    /// its events could not be stopped; those whose definers may write there run on.
    Demoted { position: Position, events_left: Option<String> },
    /// It could not be made read only, or did not say so within the deadline.
    DemoteFailed { why: String },
    /// It follows the primary of that term. So many sessions of clients were ended there first, since they held locks on rows. `events_left`: as
    /// above.
    Following { sessions_ended: usize, events_left: Option<String> },
    /// It does not replicate from that primary. Tried again later.
    FollowFailed { why: String },
    /// The I/O thread was started again; `receives`: it has connected to its source, so the source lives.
    Reconnected { receives: bool },
    /// The I/O thread could not be started again: nothing is known of the source by that.
    ReconnectFailed { why: String },
    /// The I/O thread has stopped: nothing more comes from the lost primary.
    Parted,
    /// It may still run, and receive more from the lost primary.
    PartFailed { why: String },
    /// Its commits wait for nobody; or why they still do.
    StoppedWaiting { failed: Option<String> },
    /// Its events are stopped, but for what `events_left` says.
    EventsStopped { events_left: Option<String> },
    /// It runs `count` events that the primary before it ran.
    EventsRun { count: usize },
    /// `left` does not run there, or it could not be asked. Tried again later.
    EventsFailed { why: String, left: Left },
}

impl End {
    pub(super) fn kind(&self) -> ErrandKind {
        match self {
            Self::Demoted { .. } | Self::DemoteFailed { .. } => ErrandKind::Demote,
            Self::Following { .. } | Self::FollowFailed { .. } => ErrandKind::Follow,
            Self::Reconnected { .. } | Self::ReconnectFailed { .. } => ErrandKind::Reconnect,
            Self::Parted | Self::PartFailed { .. } => ErrandKind::Part,
            Self::StoppedWaiting { .. } => ErrandKind::StopWaiting,
            Self::EventsStopped { .. } => ErrandKind::StopEvents,
            Self::EventsRun { .. } | Self::EventsFailed { .. } => ErrandKind::RunEvents,
        }
    }
}
