//! The kinds of cluster a stage can be. What one of them needs and the other does not is in [`super::galera`] and
//! [`super::replication`]; this is where the stage chooses.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::process::Identity;
use super::{Stage, StageNode, config, galera, replication};

/// Which kind of cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterKind {
    /// MariaDB Galera nodes, all alike.
    #[default]
    Galera,
    /// One MariaDB primary, db1 at first, and replicas that follow it by GTID.
    Replication {
        /// A commit returns when a replica has it.
        semi_sync: bool,
    },
}

impl ClusterKind {
    /// How the servers' settings differ from their defaults for the machine's sake.
    pub fn settings(self) -> &'static str {
        match self {
            Self::Galera => galera::SMALL_MACHINE,
            Self::Replication { .. } => config::SMALL_MACHINE,
        }
    }

    /// What of a template's name tells its kind.
    pub(super) fn template_name(self) -> &'static str {
        match self {
            Self::Galera => "",
            Self::Replication { .. } => "-replication",
        }
    }

    /// The lines of a template's my.cnf beyond those of every server.
    pub(super) fn template_lines(self, tools: &super::Tools) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Galera => galera::template_lines(tools),
            Self::Replication { .. } => Ok(Vec::new()),
        }
    }

    /// What its server's command line needs while a template is made.
    pub(super) fn template_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Galera => &["--wsrep-new-cluster"],
            Self::Replication { .. } => &[],
        }
    }

    /// Looks at a template when its server has ended, and takes away what no copy should have.
    pub(super) fn finish_template(self, data: &Path) -> anyhow::Result<()> {
        match self {
            Self::Galera => galera::finish_template(data),
            Self::Replication { .. } => Ok(()),
        }
    }

    /// The statements that make the stage's accounts.
    pub(super) fn accounts(self) -> Vec<String> {
        match self {
            Self::Galera => galera::accounts(),
            Self::Replication { .. } => replication::accounts(),
        }
    }

    /// Ports that a node listens on.
    pub(super) fn ports(self) -> Vec<u16> {
        match self {
            Self::Galera => vec![config::PORT, 4567, 4568, 4444],
            Self::Replication { .. } => vec![config::PORT],
        }
    }
}

impl ClusterKind {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Galera => "galera",
            Self::Replication { .. } => "replication",
        }
    }

    /// What it is, at the beginning of a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Galera => "A real three-node Galera cluster",
            Self::Replication { semi_sync: true } => "A real primary with two semi-synchronous replicas",
            Self::Replication { semi_sync: false } => "A real primary with two asynchronous replicas",
        }
    }

    /// A `SELECT` of one value: the name of the node that runs it.
    pub fn own_name(self) -> &'static str {
        match self {
            Self::Galera => "SELECT @@wsrep_node_name",
            Self::Replication { .. } => "SELECT CONCAT('db', @@server_id)",
        }
    }

    /// What makes the reads of a session see all that was committed before, on whatever node; none where the nodes cannot do that.
    pub fn causal(self) -> Option<&'static str> {
        match self {
            Self::Galera => Some("SET SESSION wsrep_sync_wait=15"),
            Self::Replication { .. } => None,
        }
    }
}

impl Stage {
    /// The lines of a node's my.cnf beyond those of every server.
    pub(super) fn kind_lines(&self, node: &StageNode, galera_options: &str) -> anyhow::Result<Vec<String>> {
        match self.kind {
            ClusterKind::Galera => galera::node_lines(self, node, galera_options),
            ClusterKind::Replication { semi_sync } => Ok(replication::node_lines(node, semi_sync)),
        }
    }

    /// Starts every node of a fresh stage, and waits until the cluster is as it should be.
    pub(super) async fn begin(&self, tell: &impl Fn(&str)) -> anyhow::Result<()> {
        match self.kind {
            ClusterKind::Galera => self.begin_galera(tell).await,
            ClusterKind::Replication { .. } => self.begin_replication(tell).await,
        }
    }

    /// Starts a node that is not running, where its cluster stands. Returns when the process has started.
    ///
    /// # Errors
    /// When it runs already; when it would begin a Galera cluster anew and another dead node knows more.
    pub async fn start(&self, name: &str) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        if let Some(Identity { pid, .. }) = self.alive(node)? {
            anyhow::bail!("{name} is running already, as process {pid}");
        }
        match self.kind {
            ClusterKind::Galera => self.start_in_group(node).await,
            ClusterKind::Replication { .. } => self.launch(node, &[]),
        }
    }

    /// Waits until the cluster is whole again, and every node has what was written before this was called.
    ///
    /// # Errors
    /// When the time is over, with what is missing.
    pub async fn settled(&self, within: Duration) -> anyhow::Result<()> {
        match self.kind {
            // A node that is back has all, or waits for it at a causal read.
            ClusterKind::Galera => Ok(()),
            ClusterKind::Replication { .. } => self.settled_replication(within).await,
        }
    }

    /// Waits until a node whose faults were undone is back, and starts it when it does not run; when it was.
    pub(crate) async fn bring_back(&self, node: &StageNode, within: Duration) -> anyhow::Result<Instant> {
        match self.kind {
            ClusterKind::Galera => self.bring_back_to_group(node, within).await,
            ClusterKind::Replication { .. } => self.bring_back_server(node, within).await,
        }
    }
}
