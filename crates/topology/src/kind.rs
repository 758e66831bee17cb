//! The kinds of clusters, and what a kind answers when it is asked who may write or read.

use crate::NodeId;

/// What holds the nodes of a cluster together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Galera Cluster: every node has everything, the group decides who is in it.
    #[default]
    Galera,
    /// One primary, and replicas that follow it by GTID.
    Replication,
}

/// Whether a node may be asked to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It may.
    Clear,
    /// Not yet.
    Wait,
    /// Something stands in the way.
    Blocked(String),
    /// Another node is to take over instead; the text says why.
    Outrun(String),
}

/// The result of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// The general election decides.
    Any,
    /// This node.
    This(NodeId),
    /// It will be decided in a moment; the text says what is waited for.
    Soon(String),
    /// No node; traffic is held.
    Nobody(String),
    /// The writer is not lost. `serves`: clients that are connected to it are served.
    Stay { why: String, serves: bool },
}

/// Whether a writer that does not commit may be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// It may; another takes over.
    Clear,
    /// It will be decided in a moment.
    Soon,
    /// It stays; the text says why.
    None(String),
}

/// How an order with force is carried out that names a node which does not get what the writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByForce {
    /// As a switchover.
    HandOver,
    /// The writer is given up, as if it were lost: what runs there cannot end.
    Leave,
}

/// Whether a node may take reads on the port for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// No.
    No,
    /// If its data is recent enough.
    ByAge,
    /// Yes: a session that must see what others wrote can wait there until the node has it.
    Current,
}
