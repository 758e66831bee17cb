//! What to start.

use super::kind::ClusterKind;

/// Where the nodes are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Namespaces when this process may make them, loopback addresses otherwise.
    #[default]
    Automatic,
    /// Loopback addresses: all that an ordinary user can have. `vanish` is impossible there.
    Loopback,
}

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// Galera, or a primary with replicas.
    pub kind: ClusterKind,
    /// 1 to 20 of `a-z`, `0-9`, `-`.
    pub name: String,
    /// 1 to 5; with replication the first is the primary.
    pub nodes: u8,
    /// Of Galera nodes: provider options, `;` between them, beside our own `gcache.size=64M`.
    pub galera_options: String,
    /// Lines of `[mariadbd]`.
    pub server_options: Vec<String>,
    /// Each node's data is on a file system of its own, of so many megabytes of memory; needs root. 100 at the least are needed.
    pub disk_mb: Option<u32>,
    /// Nodes survive this process, until `lab down`.
    pub keep: bool,
    /// Namespaces or loopback.
    pub form: Form,
}

impl Default for StagePlan {
    fn default() -> Self {
        Self {
            kind: ClusterKind::default(),
            name: "lab".to_owned(),
            nodes: 3,
            galera_options: String::new(),
            server_options: Vec::new(),
            disk_mb: None,
            keep: false,
            form: Form::Automatic,
        }
    }
}
