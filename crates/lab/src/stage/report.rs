//! What a node says of itself, and what the machine says of its process: `lab status`.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::place::NodeRecord;
use super::process::Identity;
use super::{StageNode, sql};

/// How long a node may take to say how it is; a frozen one never does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The node's own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Word {
    /// `Synced`, `Donor/Desynced`, `Joining`, `Initialized`, ...
    pub state: String,
    /// `Primary`, `non-Primary`, `Disconnected`.
    pub cluster_status: String,
    /// It takes statements.
    pub ready: bool,
    /// It has the others' ear.
    pub connected: bool,
    /// Nodes in its view.
    pub cluster_size: u32,
    /// Which view: the same number on every node that is in it.
    pub view: u64,
}

impl Word {
    /// Serves, and has applied what the cluster committed.
    pub fn is_synced(&self) -> bool {
        self.state == "Synced" && self.cluster_status == "Primary" && self.ready
    }

    /// Has left the group and never tries again: what becomes of a node that was evicted alive.
    pub fn is_cast_out(&self) -> bool {
        self.cluster_status == "Disconnected" || !self.connected
    }
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = if self.ready { "ready" } else { "not ready" };
        write!(formatter, "{}, {}, {} in view, {ready}", self.state, self.cluster_status, self.cluster_size)
    }
}

/// Asks it.
pub async fn word(node: &StageNode) -> anyhow::Result<Word> {
    let rows = sql::run(&node.socket, "SHOW GLOBAL STATUS LIKE 'wsrep\\_%'", PATIENCE).await?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.first().is_some_and(|key| key == name));
        row.and_then(|row| row.get(1))
            .with_context(|| format!("{} has no status {name}: is it a Galera node?", node.name))
    };
    Ok(Word {
        state: value("wsrep_local_state_comment")?.clone(),
        cluster_status: value("wsrep_cluster_status")?.clone(),
        ready: value("wsrep_ready")? == "ON",
        connected: value("wsrep_connected")? == "ON",
        cluster_size: value("wsrep_cluster_size")?.parse().context("wsrep_cluster_size is no number")?,
        view: value("wsrep_cluster_conf_id")?.parse().context("wsrep_cluster_conf_id is no number")?,
    })
}

/// One line of `lab status`.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// `db1`.
    pub name: String,
    /// SQL.
    pub address: SocketAddr,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its server, if it runs.
    pub pid: Option<u32>,
    /// How long the server has run.
    pub uptime_s: Option<f64>,
    /// Stopped by SIGSTOP.
    pub frozen: bool,
    /// Its link was taken down.
    pub vanished: bool,
    /// Its own word, when it answers.
    pub word: Option<Word>,
    /// SQL, group communication, incremental and full state transfer.
    pub ports: [u16; 4],
    /// The server's log.
    pub error_log: std::path::PathBuf,
}

impl NodeReport {
    pub(super) async fn of(node: &StageNode, record: &NodeRecord) -> Self {
        let process = record.process.filter(|process| process.is_alive());
        let frozen = process.is_some_and(Identity::is_frozen);
        let word = if process.is_some() && !frozen { word(node).await.ok() } else { None };
        Self {
            name: node.name.clone(),
            address: node.address,
            namespace: node.namespace.clone(),
            pid: process.map(|process| process.pid),
            uptime_s: process.and_then(Identity::age).map(|age| age.as_secs_f64()),
            frozen,
            vanished: record.vanished,
            word,
            ports: [node.address.port(), 4567, 4568, 4444],
            error_log: node.error_log.clone(),
        }
    }

    /// In words: what is wrong with it, or its own word.
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
