//! Selects what is specific to a kind of cluster: [`super::galera`] or [`super::replication`].

use std::path::Path;
use std::time::{Duration, Instant};

use super::kind::ClusterKind;
use super::process::Identity;
use super::product::Product;
use super::state::{Stage, StageNode};
use super::tools::Tools;
use super::{config, galera, replication};

impl ClusterKind {
    /// Settings that differ from the defaults of the machine's MariaDB because of a small machine.
    pub fn settings(self) -> &'static str {
        match self {
            Self::Galera => galera::SMALL_MACHINE,
            Self::Replication { .. } => config::SMALL_MACHINE,
        }
    }

    /// The part of a template's name that identifies its kind.
    pub(super) fn template_name(self) -> &'static str {
        match self {
            Self::Galera => "",
            Self::Replication { .. } => "-replication",
        }
    }

    /// Lines of a template's my.cnf besides those of every server.
    pub(super) fn template_lines(self, tools: &Tools) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Galera => galera::template_lines(tools),
            Self::Replication { .. } => Ok(replication::template_lines(tools.version.product)),
        }
    }

    /// Arguments of the server while a template is created.
    pub(super) fn template_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Galera => &["--wsrep-new-cluster"],
            Self::Replication { .. } => &[],
        }
    }

    /// Checks a template when its server has ended, and removes what no copy should have.
    pub(super) fn finish_template(self, data: &Path) -> anyhow::Result<()> {
        match self {
            Self::Galera => galera::finish_template(data),
            Self::Replication { .. } => Ok(()),
        }
    }

    /// The statements that create the stage's accounts.
    pub(super) fn accounts(self, product: Product) -> Vec<String> {
        match self {
            Self::Galera => galera::accounts(),
            Self::Replication { .. } => replication::accounts(product),
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

impl Stage {
    /// Settings that differ from the server's defaults because of a small machine.
    pub fn settings(&self) -> &'static str {
        match self.tools.version.product {
            Product::MariaDb => self.kind.settings(),
            Product::MySql => config::SMALL_MACHINE_MYSQL,
        }
    }

    /// The lines of a node's my.cnf besides those of every server.
    pub(super) fn kind_lines(&self, node: &StageNode, galera_options: &str) -> anyhow::Result<Vec<String>> {
        match self.kind {
            ClusterKind::Galera => galera::node_lines(self, node, galera_options),
            ClusterKind::Replication { semi_sync } => Ok(replication::node_lines(node, semi_sync)),
        }
    }

    /// Starts every node of a new stage, and waits until the cluster is healthy.
    pub(super) async fn begin(&self, tell: &impl Fn(&str)) -> anyhow::Result<()> {
        match self.kind {
            ClusterKind::Galera => self.begin_galera(tell).await,
            ClusterKind::Replication { .. } => self.begin_replication(tell).await,
        }
    }

    /// Starts a node that is not running, in its existing cluster. Returns when the process has started.
    ///
    /// # Errors
    /// When the node is already running; when it would bootstrap a Galera cluster although another stopped node has more writesets.
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

    /// Waits until the cluster is complete again, and every node has everything written before this call.
    ///
    /// # Errors
    /// On timeout, with what is missing.
    pub async fn settled(&self, within: Duration) -> anyhow::Result<()> {
        match self.kind {
            // A returned node has everything, or waits for it in a causal read.
            ClusterKind::Galera => Ok(()),
            ClusterKind::Replication { .. } => self.settled_replication(within).await,
        }
    }

    /// Waits until a node whose faults were undone is back, and starts it if it is not running; returns when it was back.
    pub(crate) async fn bring_back(&self, node: &StageNode, within: Duration) -> anyhow::Result<Instant> {
        match self.kind {
            ClusterKind::Galera => self.bring_back_to_group(node, within).await,
            ClusterKind::Replication { .. } => self.bring_back_server(node, within).await,
        }
    }
}
