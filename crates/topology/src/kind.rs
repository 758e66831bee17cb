//! The kinds of clusters, as the configuration names them.

/// What holds the nodes of a cluster together.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Galera Cluster: every node has everything, the group decides who is in it.
    #[default]
    Galera,
    /// One primary, and replicas that follow it by GTID.
    Replication,
}
