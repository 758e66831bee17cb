//! The parameters of a stage.

use super::kind::ClusterKind;

/// How the nodes are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Namespaces if this process can create them, otherwise loopback addresses.
    #[default]
    Automatic,
    /// Loopback addresses: possible for an ordinary user. `vanish` is impossible there.
    Loopback,
}

/// The parameters of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// Galera, or a primary with replicas.
    pub kind: ClusterKind,
    /// The name of a server that `scripts/servers.sh` unpacked, such as `mariadb-11.8`; None: the machine's MariaDB.
    pub server: Option<String>,
    /// 1 to 20 of `a-z`, `0-9`, `-`.
    pub name: String,
    /// 1 to 5; with replication the first is the primary.
    pub nodes: u8,
    /// Galera only: provider options, separated by `;`, in addition to the lab's `gcache.size=64M`.
    pub galera_options: String,
    /// Additional lines of the server's section in my.cnf.
    pub server_options: Vec<String>,
    /// Each node shows a certificate for its address, of an authority of the stage's own.
    pub tls: bool,
    /// If set, each node's data is on its own file system in memory of this many megabytes, at least 100; needs root.
    pub disk_mb: Option<u32>,
    /// Whether the nodes survive this process, until `lab down`.
    pub keep: bool,
    /// Namespaces or loopback addresses.
    pub form: Form,
}

impl Default for StagePlan {
    fn default() -> Self {
        Self {
            kind: ClusterKind::default(),
            server: None,
            name: "lab".to_owned(),
            nodes: 3,
            galera_options: String::new(),
            server_options: Vec::new(),
            tls: false,
            disk_mb: None,
            keep: false,
            form: Form::Automatic,
        }
    }
}
