//! For `lab status`: the status that a node reports, and the state of its process.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use super::galera::GaleraWord;
use super::kind::ClusterKind;
use super::process::Identity;
use super::replication::ReplicationWord;
use super::stage_dir::NodeRecord;
use super::{StageNode, galera, replication};

/// The status that a node reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// Status of a Galera node.
    Galera(GaleraWord),
    /// Status of a server of a replication stage.
    Replication(ReplicationWord),
}

impl Word {
    /// Whether the node is healthy: a Synced Galera node; a primary, or a replica that replicates.
    pub fn is_well(&self) -> bool {
        match self {
            Self::Galera(word) => word.is_synced(),
            Self::Replication(word) => word.is_primary() || word.is_replicating(),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Galera(word) => word.fmt(formatter),
            Self::Replication(word) => word.fmt(formatter),
        }
    }
}

/// Queries the node's status.
pub async fn word(kind: ClusterKind, node: &StageNode) -> anyhow::Result<Word> {
    match kind {
        ClusterKind::Galera => galera::ask(node).await.map(Word::Galera),
        ClusterKind::Replication { .. } => replication::ask(node).await.map(Word::Replication),
    }
}

/// One line of `lab status`.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// `db1`.
    pub name: String,
    /// Its SQL address.
    pub address: SocketAddr,
    /// Its network namespace.
    pub namespace: Option<String>,
    /// The process ID of its server, if it runs.
    pub pid: Option<u32>,
    /// How long the server has run.
    pub uptime_s: Option<f64>,
    /// Whether it is stopped by SIGSTOP.
    pub frozen: bool,
    /// Whether its link was set down.
    pub vanished: bool,
    /// The status that it reports, if it responds.
    pub word: Option<Word>,
    /// SQL first; then, for Galera: group communication, incremental and full state transfer.
    pub ports: Vec<u16>,
    /// The server's log.
    pub error_log: std::path::PathBuf,
}

impl NodeReport {
    pub(super) async fn of(kind: ClusterKind, node: &StageNode, record: &NodeRecord) -> Self {
        let process = record.process.filter(|process| process.is_alive());
        let frozen = process.is_some_and(Identity::is_frozen);
        let word = if process.is_some() && !frozen { word(kind, node).await.ok() } else { None };
        Self {
            name: node.name.clone(),
            address: node.address,
            namespace: node.namespace.clone(),
            pid: process.map(|process| process.pid),
            uptime_s: process.and_then(Identity::age).map(|age| age.as_secs_f64()),
            frozen,
            vanished: record.vanished,
            word,
            ports: kind.ports(),
            error_log: node.error_log.clone(),
        }
    }

    /// Describes the node: what is wrong with it, or the status that it reports.
    pub fn state(&self) -> String {
        let own = || self.word.as_ref().map_or_else(|| "does not answer".to_owned(), ToString::to_string);
        match (self.pid, self.frozen, self.vanished) {
            (None, _, true) => "not running, its link is down".to_owned(),
            (None, _, false) => "not running".to_owned(),
            (Some(_), true, _) => "frozen".to_owned(),
            (Some(_), false, true) => format!("vanished (its link is down); says: {}", own()),
            (Some(_), false, false) => own(),
        }
    }
}
