//! The manager's settings.

use std::fmt;
use std::path::PathBuf;

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster, and how it is watched and moved.
    pub cluster: topology::settings::Settings,
    /// The account for probes and orders.
    pub monitor: Account,
    /// The account that replicas log in with at their source; needed where the cluster is a primary with replicas.
    pub replication: Option<Account>,
    /// Proves that the process of a node has ended; needed where the cluster may be bootstrapped by itself.
    pub proof_command: Option<String>,
    /// The SQLite file for term, writer, drains and journal. Made when it is not there; its directory must exist.
    pub store: PathBuf,
    /// What an earlier manager of this process has left; the default at the start of the program.
    pub inherited: Inherited,
}

/// What a manager takes over from the one before it in the same process, beside what is in the store. Each list has the order of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Whether sessions of applications may have connections to the node.
    pub write_links: Vec<bool>,
    /// Whether sessions of the port for reads may, and reads that were split off.
    pub read_links: Vec<bool>,
    /// Whether the node is drained for the time of some work on it, and not by an operator.
    pub temporary_drains: Vec<bool>,
    /// When the first manager's clock began: that of this one goes on, as all times in views do. `None`: it begins now.
    pub started: Option<std::time::Instant>,
}

/// An account on the nodes; what grants the one for probes and orders needs, [`crate::grants_for`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User name.
    pub user: String,
    /// Its password.
    pub password: Password,
}

/// A password; Debug does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
