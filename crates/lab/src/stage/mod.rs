//! The stage: a real cluster of one kind on this machine, started, monitored and removed.
//!
//! ```text
//!   StagePlan --up--> directory + lock --> network --> copies of the template --> db1, db2, db3 start  --> cluster healthy
//!                            |                                                                            |
//!                       stage.json  <---- attach (another process: fault, status, down)                 down / Drop
//! ```
//!
//! Invariants: a stage that is not kept leaves no process, namespace, device or file, however its owner ends (its servers die
//! with it even by SIGKILL; the rest is removed by the next `up` or `down --all`). Processes are ended by their identity
//! ([`process::Identity`]), never by name. stage.json is the authoritative record of processes: two programs may use one stage.

pub mod account;
mod config;
mod disk;
mod galera;
mod guard;
mod kind;
mod lines;
mod links;
mod locks;
mod network;
mod plan;
pub mod process;
pub mod replication;
mod report;
mod servers;
mod sql;
mod stage_dir;
mod sweep;
mod template;
pub(crate) mod tools;
mod up;
mod wait;
mod watchdog;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;

pub use galera::{ADVISED_EVS, GaleraWord};
pub use guard::{Interrupted, guard};
pub use kind::ClusterKind;
pub use network::may_make_namespaces;
pub use plan::{Form, StagePlan};
pub use replication::ReplicationWord;
pub use report::{NodeReport, Word};
pub use sweep::{down, down_all};
use wait::error_log_tail;

use self::network::Network;
use self::process::ProcessParent;
use self::servers::Child;
use self::stage_dir::NodeRecord;
use self::tools::Tools;
use self::watchdog::Watchdog;

/// Time limit for the response of a healthy node.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a clean stop, which may take as long as the last transaction.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The constant properties of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNode {
    /// `db1`, `db2`, ...
    pub name: String,
    /// Its SQL address.
    pub address: SocketAddr,
    /// Its network namespace; none on loopback.
    pub namespace: Option<String>,
    /// The server's data.
    pub datadir: PathBuf,
    /// Its unix socket, reachable even when the node's network is not.
    pub socket: PathBuf,
    /// Its log.
    pub error_log: PathBuf,
    number: u8,
    directory: PathBuf,
}

/// A running cluster.
#[derive(Debug)]
pub struct Stage {
    kind: ClusterKind,
    name: String,
    directory: PathBuf,
    network: Network,
    nodes: Vec<StageNode>,
    tools: Tools,
    /// The parent of the servers that this process owns; None when they are to outlive it.
    process_parent: Option<ProcessParent>,
    /// Present with the process parent: ends the children of the servers if this process is killed.
    watchdog: Option<Watchdog>,
    /// Servers of which this process is the parent, by node.
    children: Mutex<Vec<(u8, Child)>>,
    /// Whether dropping the stage removes it.
    clear_on_drop: bool,
}

impl Stage {
    /// The kind of cluster.
    pub fn kind(&self) -> ClusterKind {
        self.kind
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
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

    fn clear(&mut self) -> anyhow::Result<()> {
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
