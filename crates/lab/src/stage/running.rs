//! What a running cluster is asked, and its end.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::Context;

use super::kind::ClusterKind;
use super::product::Product;
use super::report::NodeReport;
use super::stage_dir::{self, NodeRecord};
use super::state::{Stage, StageNode};
use super::{certificates, replication, sql, sweep};

/// Time limit for the response of a healthy node.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a clean stop, which may take as long as the last transaction.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(60);

impl Stage {
    /// The kind of cluster.
    pub fn kind(&self) -> ClusterKind {
        self.kind
    }

    /// The statement by which a server says from which one it replicates: a row if it does.
    pub fn shows_source(&self) -> &'static str {
        replication::words(self.product()).status
    }

    /// Whose servers its nodes are.
    pub fn product(&self) -> Product {
        self.nodes().first().map_or(Product::MariaDb, |node| node.product)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its servers' product and version: `MySQL 9.7.4-2`.
    pub fn server(&self) -> String {
        let version = &self.tools.version;
        format!("{} {}", version.product.name(), version.text)
    }

    /// The client that comes with its servers.
    pub fn client(&self) -> &Path {
        &self.tools.client
    }

    /// Its nodes, db1 first.
    pub fn nodes(&self) -> &[StageNode] {
        &self.nodes
    }

    /// The node with this name.
    ///
    /// # Errors
    /// When there is no such node; the text lists the existing ones.
    pub fn node(&self, name: &str) -> anyhow::Result<&StageNode> {
        self.nodes.iter().find(|node| node.name == name).with_context(|| {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            format!("stage {} has no node {name}: there is {}", self.name, names.join(", "))
        })
    }

    /// This side's address on the stage's network: a proxy listens here.
    pub fn host_address(&self) -> IpAddr {
        self.network.host_address()
    }

    /// Whether the nodes have namespaces, which `vanish` needs.
    pub fn is_namespaced(&self) -> bool {
        self.network.namespaced
    }

    /// The recorded process and state of one node.
    pub(crate) fn recorded(&self, node: &StageNode) -> anyhow::Result<NodeRecord> {
        let record = stage_dir::read(&self.directory)?;
        record
            .nodes
            .into_iter()
            .nth(index(node))
            .with_context(|| format!("{} is not in stage.json", node.name))
    }

    pub(crate) fn record(
        &self,
        node: &StageNode,
        change: impl FnOnce(&mut NodeRecord),
    ) -> anyhow::Result<()> {
        stage_dir::update(&self.directory, |record| {
            if let Some(entry) = record.nodes.get_mut(index(node)) {
                change(entry);
            }
        })
    }

    /// Its directory, which is removed with the stage.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The certificate of the authority that has signed those of the nodes, where they have any ([`super::StagePlan::tls`]).
    pub fn authority(&self) -> Option<PathBuf> {
        Some(self.directory.join(certificates::AUTHORITY)).filter(|file| file.exists())
    }

    /// Runs SQL on a node as root over its unix socket, which also works on a vanished node.
    pub async fn run_in(&self, name: &str, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
        self.run_in_within(name, sql, ANSWER_LIMIT).await
    }

    /// The same with another time limit, for slow statements.
    pub async fn run_in_within(
        &self,
        name: &str,
        sql: &str,
        within: Duration,
    ) -> anyhow::Result<Vec<Vec<String>>> {
        sql::run(&self.node(name)?.socket, sql, within).await.with_context(|| format!("in {name}"))
    }

    /// The state of each node.
    pub async fn report(&self) -> anyhow::Result<Vec<NodeReport>> {
        let mut reports = Vec::new();
        for node in &self.nodes {
            self.reap(node);
            reports.push(NodeReport::of(self.kind, node, &self.recorded(node)?).await);
        }
        Ok(reports)
    }

    /// Ends every server and removes everything.
    pub async fn down(mut self) -> anyhow::Result<()> {
        self.clear_on_drop = false;
        tokio::task::spawn_blocking(move || {
            let cleared = self.clear();
            drop(self);
            cleared
        })
        .await?
    }

    pub(super) fn clear(&mut self) -> anyhow::Result<()> {
        let cleared = sweep::clear(&self.directory, Some(&self.network));
        // The processes have ended: this only reaps them.
        self.children.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.process_parent = None;
        self.watchdog = None;
        cleared
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.clear_on_drop
            && let Err(error) = self.clear()
        {
            tracing::error!(
                "stage {} could not be cleared away: {error:#}; `understudy lab down --all` tries again",
                self.name
            );
        }
    }
}

fn index(node: &StageNode) -> usize {
    usize::from(node.number) - 1
}
