//! What a node said of itself when it was asked, whatever kind of cluster it is of.

use crate::finding::{Finding, Rules, Serves};
use crate::galera::status::GaleraStatus;
use crate::galera::words;
use crate::replication::{self, ReplicationStatus};

/// What a node said of itself when it was asked.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum Status {
    /// As a member of a Galera cluster.
    Galera(Box<GaleraStatus>),
    /// As a server of a primary-replica setup.
    Replication(Box<ReplicationStatus>),
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
    /// The word of a Galera member.
    pub fn galera(&self) -> Option<&GaleraStatus> {
        match self {
            Self::Galera(status) => Some(status),
            Self::Replication(_) => None,
        }
    }

    /// The word of a server of a primary-replica setup.
    pub fn replication(&self) -> Option<&ReplicationStatus> {
        match self {
            Self::Replication(status) => Some(status),
            Self::Galera(_) => None,
        }
    }

    /// It is a full part of its cluster, and not on its way out of it.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Galera(status) => status.is_whole(),
            // There is no group that it could be on its way out of.
            Self::Replication(_) => true,
        }
    }

    /// The first thing that it says against itself.
    pub fn examine(&self) -> Option<Finding> {
        match self {
            Self::Galera(status) => words::examine(status),
            Self::Replication(status) => replication::words::examine(status),
        }
    }

    /// It may take statements, by its own word.
    pub fn serves(&self) -> bool {
        // A server that is read only refuses what writes, and another hand may have made it so.
        let is_read_only = self.replication().is_some_and(|status| status.read_only);
        !is_read_only && self.serves_reads()
    }

    /// It may take statements that only read, by its own word.
    pub fn serves_reads(&self) -> bool {
        self.examine().is_none_or(|finding| finding.serves != Serves::No)
    }

    /// The first thing that it says against itself, less what `rules` forgive.
    ///
    /// # Errors
    /// That.
    pub fn admit(&self, rules: Rules) -> Result<(), Finding> {
        match self {
            Self::Galera(status) => words::admit(status, rules),
            Self::Replication(status) => replication::words::admit(status, rules),
        }
    }
}
