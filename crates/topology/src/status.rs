//! A node's status report, for either kind of cluster.

use crate::finding::{Finding, Rules, Serves};
use crate::galera::status::GaleraStatus;
use crate::replication::ReplicationStatus;
use crate::{galera, replication};

/// A node's answer to the status query.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(as = NodeStatus)]
#[serde(untagged)]
pub enum Status {
    /// Of a server of a primary-replica setup. In JSON, it is the one that has channels.
    Replication(Box<ReplicationStatus>),
    /// Of a member of a Galera cluster.
    Galera(Box<GaleraStatus>),
}

impl From<GaleraStatus> for Status {
    fn from(status: GaleraStatus) -> Self {
        Self::Galera(Box::new(status))
    }
}

impl From<ReplicationStatus> for Status {
    fn from(status: ReplicationStatus) -> Self {
        Self::Replication(Box::new(status))
    }
}

impl Status {
    /// The report of a Galera member.
    pub fn galera(&self) -> Option<&GaleraStatus> {
        match self {
            Self::Galera(status) => Some(status),
            Self::Replication(_) => None,
        }
    }

    /// The report of a server of a primary-replica setup.
    pub fn replication(&self) -> Option<&ReplicationStatus> {
        match self {
            Self::Replication(status) => Some(status),
            Self::Galera(_) => None,
        }
    }

    /// The same, to be amended.
    pub(crate) fn replication_mut(&mut self) -> Option<&mut ReplicationStatus> {
        match self {
            Self::Replication(status) => Some(status),
            Self::Galera(_) => None,
        }
    }

    /// Whether the node is a full member of its cluster, and not about to leave it.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Galera(status) => status.is_whole(),
            // There is no group that it could be leaving.
            Self::Replication(_) => true,
        }
    }

    /// The first problem that it reports itself.
    pub fn examine(&self) -> Option<Finding> {
        match self {
            Self::Galera(status) => galera::words::examine(status),
            Self::Replication(status) => replication::words::examine(status),
        }
    }

    /// Whether it may take statements, by its own report.
    pub fn serves(&self) -> bool {
        // A read-only server refuses writes, and an administrator may have made it so.
        let is_read_only = self.replication().is_some_and(|status| status.read_only);
        !is_read_only && self.serves_reads()
    }

    /// Whether it may take statements that only read, by its own report.
    pub fn serves_reads(&self) -> bool {
        self.examine().is_none_or(|finding| finding.serves != Serves::No)
    }

    /// The first problem that it reports itself, except for those that `rules` forgive.
    ///
    /// # Errors
    /// The problem.
    pub fn admit(&self, rules: Rules) -> Result<(), Finding> {
        match self {
            Self::Galera(status) => galera::words::admit(status, rules),
            Self::Replication(status) => replication::words::admit(status, rules),
        }
    }
}
