//! A Galera node's own status (wsrep_*).

use std::fmt;

use anyhow::Context;
use serde::Serialize;

use super::super::{StageNode, sql};

/// The node's status, as it reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GaleraWord {
    /// `Synced`, `Donor/Desynced`, `Joining`, `Initialized`, ...
    pub state: String,
    /// `Primary`, `non-Primary`, `Disconnected`.
    pub cluster_status: String,
    /// wsrep_ready: it takes statements.
    pub ready: bool,
    /// wsrep_connected: it is connected to the group.
    pub connected: bool,
    /// Nodes in its view.
    pub cluster_size: u32,
    /// Number of its view: the same on every node in the view.
    pub view: u64,
}

impl GaleraWord {
    /// Whether it serves, and has applied what the cluster committed.
    pub fn is_synced(&self) -> bool {
        self.state == "Synced" && self.cluster_status == "Primary" && self.ready
    }

    /// Whether it has left the group and does not try to rejoin: the state of a node that was evicted while running.
    pub fn is_cast_out(&self) -> bool {
        self.cluster_status == "Disconnected" || !self.connected
    }
}

impl fmt::Display for GaleraWord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = if self.ready { "ready" } else { "not ready" };
        write!(formatter, "{}, {}, {} in view, {ready}", self.state, self.cluster_status, self.cluster_size)
    }
}

/// Queries the node.
pub async fn ask(node: &StageNode) -> anyhow::Result<GaleraWord> {
    let rows = sql::run(&node.socket, "SHOW GLOBAL STATUS LIKE 'wsrep\\_%'", sql::STATUS_TIME_MAX).await?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.first().is_some_and(|key| key == name));
        row.and_then(|row| row.get(1))
            .with_context(|| format!("{} has no status {name}: is it a Galera node?", node.name))
    };
    Ok(GaleraWord {
        state: value("wsrep_local_state_comment")?.clone(),
        cluster_status: value("wsrep_cluster_status")?.clone(),
        ready: value("wsrep_ready")? == "ON",
        connected: value("wsrep_connected")? == "ON",
        cluster_size: value("wsrep_cluster_size")?.parse().context("wsrep_cluster_size is no number")?,
        view: value("wsrep_cluster_conf_id")?.parse().context("wsrep_cluster_conf_id is no number")?,
    })
}
