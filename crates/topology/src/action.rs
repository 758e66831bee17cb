//! What the brain asks the shell to do. Each action is carried out in the order given, without waiting for the one before
//! (a barrier, an eviction and a write to disk run side by side), and what comes of it is told as a fact.

use std::sync::Arc;
use std::time::Duration;

use crate::galera::action as galera;
use crate::order::{OrderId, OrderReply};
use crate::reads::Reached;
use crate::replication::action as replication;
use crate::routes::Routes;
use crate::{NodeId, Term};

/// A wish of the brain.
#[derive(Clone, Debug)]
pub enum Action {
    /// Connect to the node afresh, now; answered by `LinkUp` and a `Status`, or by `ConnectFailed`.
    Confirm {
        /// Which node.
        node: NodeId,
    },
    /// Ask the node for its status, now; answered by `Status`, `ProbeMissed`, `LinkEnded` or `ConnectFailed`.
    Probe {
        /// Which node.
        node: NodeId,
    },
    /// Write this to disk; answered by `Persisted` or `PersistFailed`.
    Persist {
        /// Comes back with the answer.
        number: u64,
        /// The number of the decision; published only when it is on disk.
        term: Term,
        /// The writer decided on.
        writer: Option<NodeId>,
        /// Of each node: the limit of its sessions.
        sessions_max: Vec<Option<u32>>,
        /// How long ago the last automatic failover was decided on, where the next one has to wait for a time.
        failed_over_ago: Option<Duration>,
    },
    /// Something to do to a Galera cluster.
    Galera(galera::Action),
    /// Something to do to a server of a primary-replica setup.
    Replication(replication::Action),
    /// Ask `node` whether it is writable and has applied all the group has; answered by `BarrierPassed` or `BarrierFailed`.
    Barrier {
        /// Which node.
        node: NodeId,
        /// The decision it belongs to.
        term: Term,
        /// Who was lost with its traffic. As long as the group still counts on it, a node may answer from memory, without what the lost one
        /// wrote last: its word counts when its view is without it.
        lost: Option<NodeId>,
        /// Give up after this long.
        within: Duration,
    },
    /// Read the account table; answered by `Accounts`, or by nothing.
    ReadAccounts {
        /// From which node.
        node: NodeId,
    },
    /// Read which names mean more than a statement's text shows; answered by `Catalogue`, or by nothing.
    ReadTables {
        /// From which node.
        node: NodeId,
    },
    /// Tell the data plane.
    Publish(Arc<Routes>),
    /// Tell the part of the data plane that serves the port for reads.
    PublishReads(Arc<Routes>),
    /// The same: up to where the primary was.
    Reached(Arc<Reached>),
    /// Tell the operator.
    Answer {
        /// Which order.
        id: OrderId,
        /// What came of it.
        reply: OrderReply,
    },
    /// Log it, and write it in the journal.
    Say(Sentence),
}

/// How grave a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Info,
    /// Something was lost or moved.
    Warn,
    /// Clients suffer, or an operator is needed.
    Error,
}

impl Level {
    /// The word for logs and transcripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A decision, and its because.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// How grave.
    pub level: Level,
    /// The sentence.
    pub text: String,
}

impl From<galera::Action> for Action {
    fn from(action: galera::Action) -> Self {
        Self::Galera(action)
    }
}

impl From<replication::Action> for Action {
    fn from(action: replication::Action) -> Self {
        Self::Replication(action)
    }
}
