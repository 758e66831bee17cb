//! A running cluster as this process knows it; the files beside this one work on it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use super::kind::ClusterKind;
use super::network::Network;
use super::process::{Owned, ProcessParent};
use super::product::Product;
use super::tools::Tools;
use super::watchdog::Watchdog;

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
    /// Whose server it is.
    pub(super) product: Product,
    pub(super) number: u8,
    pub(super) directory: PathBuf,
}

/// A running cluster.
#[derive(Debug)]
pub struct Stage {
    pub(super) kind: ClusterKind,
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) network: Network,
    pub(super) nodes: Vec<StageNode>,
    pub(super) tools: Tools,
    /// The parent of the servers that this process owns; None when they are to outlive it.
    pub(super) process_parent: Option<ProcessParent>,
    /// Present with the process parent: ends the children of the servers if this process is killed.
    pub(super) watchdog: Option<Watchdog>,
    /// Servers of which this process is the parent, by node.
    pub(super) children: Mutex<Vec<(u8, Child)>>,
    /// Whether dropping the stage removes it.
    pub(super) clear_on_drop: bool,
}

#[derive(Debug)]
pub(super) enum Child {
    Owned(Owned),
    Detached(std::process::Child),
}
