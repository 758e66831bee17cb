//! What the brain asks the shell to do. Actions are started in the order given, without waiting for the one before (a barrier, an eviction
//! and a write to disk run side by side). The result of each arrives as a fact.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::about::About;
use crate::galera::action as galera;
use crate::order::{OrderId, OrderReply};
use crate::reads::Reached;
use crate::replication::{Written, action as replication};
use crate::routes::Routes;
use crate::{NodeId, Term};

/// An action that the brain asks for.
#[derive(Clone, Debug)]
pub enum Action {
    /// Open a new connection to the node now; answered by `LinkUp` and a `Status`, or by `ConnectFailed`.
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
        /// Repeated in the answer.
        number: u64,
        /// The number of the decision; published only when it is on disk.
        term: Term,
        /// The writer decided on.
        writer: Option<NodeId>,
        /// Of each node: the limit of its sessions.
        sessions_max: Vec<(NodeId, u32)>,
        /// How long ago the last automatic failover was decided, if the next one has to wait.
        failed_over_ago: Option<Duration>,
        /// The writer came back without transactions of its own, and must not be written to although it answers
        /// ([`crate::brain::Restored::is_writer_incomplete`]).
        is_writer_incomplete: bool,
        /// [`crate::brain::Restored::renumbered`].
        renumbered: Vec<NodeId>,
        /// [`crate::brain::Restored::filtered`].
        filtered: Vec<(NodeId, String)>,
    },
    /// Write what the primary of a primary-replica setup reported last to disk, as far as that is possible. Has no outcome.
    Remember {
        /// The report.
        written: Written,
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
        /// The node that was lost with its traffic. While the group still counts it as a member, another node may not have received its
        /// last writes. The answer counts only from a view without the lost node.
        lost: Option<NodeId>,
        /// The last write set that the group is known to have committed (`wsrep_last_committed`). A node that has less is not a member of it, or
        /// has lost some.
        at_least: Option<u64>,
        /// Give up after this long.
        within: Duration,
    },
    /// Read the account table; answered by `Accounts`, or by nothing.
    ReadAccounts {
        /// From which node.
        node: NodeId,
    },
    /// Read the names that change what a statement may do; answered by `Catalogue`, or by nothing.
    ReadTables {
        /// From which node.
        node: NodeId,
    },
    /// Send the routes to the proxy.
    Publish(Arc<Routes>),
    /// Send the routes of the port for reads to the proxy.
    PublishReads(Arc<Routes>),
    /// Send the primary's position for the port for reads.
    Reached(Arc<Reached>),
    /// Answer an operator's order.
    Answer {
        /// Which order.
        id: OrderId,
        /// The result.
        reply: OrderReply,
    },
    /// Log it, and write it to the journal.
    Say(Sentence),
}

/// The severity of a sentence.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    /// Normal operation.
    Info,
    /// Something was lost or moved.
    Warn,
    /// Clients suffer, or an operator is needed.
    #[serde(other)]
    Error,
}

impl Level {
    /// The word for logs and transcripts.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A decision and its reason, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Its severity.
    pub level: Level,
    /// The sentence.
    pub text: String,
    /// What it is about.
    pub about: About,
}

impl Sentence {
    /// One that is about nothing that programs look for.
    pub fn new(level: Level, text: String) -> Self {
        Self { level, text, about: About::Other }
    }
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
