//! The manager's settings.

use std::path::PathBuf;

use link::{Login, ServerTls};
use protocol::auth::password::Password;

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
}

impl Settings {
    /// How the manager logs in at the nodes.
    pub(crate) fn login(&self) -> Login {
        self.monitor.login()
    }

    /// How replicas log in at their source.
    pub(crate) fn replication_login(&self) -> Option<Login> {
        self.replication.as_ref().map(Account::login)
    }
}

/// An account on the nodes; what grants the one for probes and orders needs, [`crate::grants_for`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User name.
    pub user: String,
    /// Its password.
    pub password: Password,
    /// How the nodes are connected to; `None`: plain.
    pub tls: Option<ServerTls>,
}

impl Account {
    /// How it logs in at a node.
    pub fn login(&self) -> Login {
        Login { tls: self.tls.clone(), ..Login::with_password(&self.user, self.password.clone()) }
    }
}
