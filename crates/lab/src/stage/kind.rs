//! The kinds of cluster a stage can be.

use serde::{Deserialize, Serialize};

/// The kind of cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterKind {
    /// MariaDB Galera nodes, all equal.
    #[default]
    Galera,
    /// One primary of MariaDB or MySQL, db1 at first, and replicas that replicate from it by GTID.
    Replication {
        /// Whether a commit returns only when a replica has received it.
        semi_sync: bool,
    },
}

impl ClusterKind {
    /// A one-word name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Galera => "galera",
            Self::Replication { .. } => "replication",
        }
    }

    /// A description for the beginning of a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Galera => "A real three-node Galera cluster",
            Self::Replication { semi_sync: true } => "A real primary with two semi-synchronous replicas",
            Self::Replication { semi_sync: false } => "A real primary with two asynchronous replicas",
        }
    }

    /// A `SELECT` of one value: the name of the node that executes it.
    pub fn own_name(self) -> &'static str {
        match self {
            Self::Galera => "SELECT @@wsrep_node_name",
            Self::Replication { .. } => "SELECT CONCAT('db', @@server_id)",
        }
    }

    /// A statement that makes a session's reads causal: they see everything committed before on any node; None where this is impossible.
    pub fn causal(self) -> Option<&'static str> {
        match self {
            Self::Galera => Some("SET SESSION wsrep_sync_wait=15"),
            Self::Replication { .. } => None,
        }
    }
}
