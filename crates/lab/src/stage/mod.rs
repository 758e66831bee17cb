//! The stage: a real cluster on this machine, of one kind, started, watched and cleared away.
//!
//! ```text
//!   StagePlan --up--> directory + lock --> network --> copies of the template --> db1, db2, db3 start  --> as it should be
//!                            |                                                                            |
//!                       stage.json  <---- attach (another process: fault, status, down)                 down / Drop
//! ```
//!
//! Invariants: a stage that is not kept leaves no process, namespace, device or file, however its owner ends (its servers die
//! with it even by SIGKILL; the rest is swept up by the next `up` or `down --all`). What is ended is ended by process identity
//! ([`process::Identity`]), never by name. stage.json is the truth about processes: two processes may work on one stage.

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

/// How long an answer may take from a node that should be well.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// A clean stop may take as long as its last transaction.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A node, as far as it does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNode {
    /// `db1`, `db2`, ...
    pub name: String,
    /// Where it speaks SQL.
    pub address: SocketAddr,
    /// Its network namespace; none on loopback.
    pub namespace: Option<String>,
    /// The server's data.
    pub datadir: PathBuf,
    /// Its unix socket, reachable even when its network is not.
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
    /// Ours alone: the parent of the servers, absent when they are to outlive us.
    process_parent: Option<ProcessParent>,
    /// With the process parent: ends what the servers started, should this process be killed.
    watchdog: Option<Watchdog>,
    /// Servers we are parent of, by node.
    children: Mutex<Vec<(u8, Child)>>,
    /// Drop clears the stage away.
    clear_on_drop: bool,
}

impl Stage {
    /// Which kind of cluster it is.
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

    /// One of them.
    ///
    /// # Errors
    /// The text lists those there are.
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

    /// Namespaces, so that a node can vanish.
    pub fn is_namespaced(&self) -> bool {
        self.network.namespaced
    }

    /// The evidence of one node's process, as recorded.
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

    /// Its directory, which is removed with it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs SQL in a node as root, over its unix socket: a vanished node answers too.
    pub async fn run_in(&self, name: &str, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
        self.run_in_within(name, sql, ANSWER_LIMIT).await
    }

    /// The same, for what may take longer than an answer should.
    pub async fn run_in_within(
        &self,
        name: &str,
        sql: &str,
        within: Duration,
    ) -> anyhow::Result<Vec<Vec<String>>> {
        sql::run(&self.node(name)?.socket, sql, within).await.with_context(|| format!("in {name}"))
    }

    /// How each node is.
    pub async fn report(&self) -> anyhow::Result<Vec<NodeReport>> {
        let mut reports = Vec::new();
        for node in &self.nodes {
            self.reap(node);
            reports.push(NodeReport::of(self.kind, node, &self.recorded(node)?).await);
        }
        Ok(reports)
    }

    /// Ends every server and takes everything away.
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
        // Ended by now: this only collects them.
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
