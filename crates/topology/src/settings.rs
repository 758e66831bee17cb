//! The settings of a cluster, and the default of each.
//!
//! Only the configuration is read. The brain and the shell that works for it get the same value. Invariant: a `Settings` that passed
//! [`Settings::check`] has at least one node, distinct names and addresses, and no zero where zero would mean "for ever" or "never".

use std::time::Duration;

use crate::galera::settings as galera;
pub use crate::galera::settings::{BootstrapPolicy, EvictPolicy, SilencePolicy};
use crate::heartbeat;
use crate::kind::Kind;
use crate::reads;
use crate::replication::settings as replication;
use crate::{NodeId, Origin};

/// Who takes writes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Writers {
    /// One writer, which stays the writer until it is moved; the others are standbys.
    #[default]
    One,
    /// Every healthy node.
    All,
}

/// One node of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// Its name, for people.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// The node with the highest priority writes; among equals, the first in the configuration.
    pub priority: u32,
}

/// All settings that concern how a cluster is monitored and moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's name, for people.
    pub cluster: String,
    /// How its nodes replicate.
    pub kind: Kind,
    /// Who takes writes.
    pub writers: Writers,
    /// The nodes. A [`NodeId`] is an index into this list.
    pub nodes: Vec<NodeSettings>,
    /// The proxies through which clients reach the nodes, by what they acknowledge. No server takes over before all of them have.
    pub proxies: Vec<Origin>,
    /// Settings of a Galera cluster.
    pub galera: galera::Settings,
    /// Settings of a primary with replicas.
    pub replication: replication::Settings,
    /// The port for reads.
    pub reads: reads::Settings,
    /// Time between two status queries of a node, and the deadline of each. Silence is declared after
    /// `misses_max` x `probe_interval`.
    pub probe_interval: Duration,
    /// Missed probes in a row that make a node silent.
    pub misses_max: u32,
    /// Whether events count at once: a link that ends, a connection that is refused, a statement that breaks. Without them only missed
    /// probes count, and a refused connection is a missed probe. That is how a load balancer checks, and is meant for comparisons.
    pub events: bool,
    /// The heartbeat.
    pub heartbeat: heartbeat::Settings,
    /// Refused or reset connections in a row that make a node dead.
    pub refusals_max: u32,
    /// The time limit of one barrier: the new writer's confirmation that it is writable and has applied everything.
    pub barrier_deadline: Duration,
    /// The pause after a failed barrier; it doubles with each failure, up to [`Settings::BACKOFF_MAX`].
    pub barrier_backoff: Duration,
    /// Time between two readings of the account table.
    pub accounts_interval: Duration,
    /// The least time between two readings that are caused by unknown account names.
    pub accounts_gap_min: Duration,
    /// How long the store may take to write a decision.
    pub persist_deadline: Duration,
}

impl Settings {
    /// The addresses of the nodes, in the order of the list.
    #[must_use]
    pub fn addresses(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| &*node.address).collect()
    }

    /// The longest pause between two tries of anything.
    pub const BACKOFF_MAX: Duration = Duration::from_secs(2);
    /// Transactions get this long to end when a node leaves without a budget from an operator: by its own maintenance mode, or by an order
    /// that carries none.
    pub const HANDOVER_BUDGET: Duration = Duration::from_secs(10);

    /// The defaults.
    pub fn new(cluster: impl Into<String>, writers: Writers, nodes: Vec<NodeSettings>) -> Self {
        Self {
            cluster: cluster.into(),
            kind: Kind::default(),
            writers,
            nodes,
            proxies: vec![Origin(0)],
            galera: galera::Settings::default(),
            replication: replication::Settings::default(),
            reads: reads::Settings::default(),
            probe_interval: Duration::from_millis(200),
            misses_max: 3,
            events: true,
            heartbeat: heartbeat::Settings::default(),
            refusals_max: 2,
            barrier_deadline: Duration::from_secs(3),
            barrier_backoff: Duration::from_millis(100),
            accounts_interval: Duration::from_secs(30),
            accounts_gap_min: Duration::from_secs(1),
            persist_deadline: Duration::from_secs(5),
        }
    }

    /// The first error in the settings, as a sentence that says what is allowed.
    pub fn check(&self) -> Result<(), String> {
        if self.nodes.is_empty() {
            return Err("the cluster has no node: give at least one [[cluster.node]]".into());
        }
        if self.nodes.len() > 255 {
            return Err(format!("the cluster has {} nodes: at most 255 are allowed", self.nodes.len()));
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if node.name.is_empty() || node.address.is_empty() {
                return Err(format!("node {} of the cluster has no name or no address", place + 1));
            }
            if let Some(twin) = self.nodes[..place].iter().find(|other| other.name == node.name) {
                return Err(format!("two nodes are called {:?}: names must differ", twin.name));
            }
            if let Some(twin) = self.nodes[..place].iter().find(|other| other.address == node.address) {
                return Err(format!(
                    "{:?} and {:?} have the same address {}",
                    twin.name, node.name, node.address
                ));
            }
        }
        if self.kind == Kind::Replication && self.writers == Writers::All {
            return Err("kind = \"replication\" has one primary: set writers = \"one\"".into());
        }
        let millisecond = Duration::from_millis(1);
        for (name, value, least) in [
            ("probe_interval", self.probe_interval, 10 * millisecond),
            ("barrier_deadline", self.barrier_deadline, 10 * millisecond),
            ("barrier_backoff", self.barrier_backoff, millisecond),
            ("accounts_interval", self.accounts_interval, 100 * millisecond),
            ("persist_deadline", self.persist_deadline, 10 * millisecond),
            ("reads.lag_max", self.reads.lag_max, 100 * millisecond),
            ("evict_deadline", self.galera.evict_deadline, 10 * millisecond),
        ] {
            if value < least {
                return Err(format!("{name} is {value:?}: at least {least:?} is needed"));
            }
        }
        if self.misses_max == 0 || self.refusals_max == 0 {
            return Err("misses_max and refusals_max must be at least 1".into());
        }
        Ok(())
    }

    /// The node of that name, where this is the first configuration of the process: a later one may have other ids.
    pub fn id_at_start(&self, name: &str) -> Option<NodeId> {
        self.nodes
            .iter()
            .position(|node| node.name == name)
            .and_then(|place| u8::try_from(place).ok())
            .map(NodeId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, address: &str) -> NodeSettings {
        NodeSettings { name: name.into(), address: address.into(), priority: 0 }
    }

    #[test]
    fn bad_settings_are_named() {
        let check = |nodes| Settings::new("shop", Writers::One, nodes).check();
        assert!(check(vec![node("a", "h:1"), node("b", "h:2")]).is_ok());
        assert!(check(vec![]).unwrap_err().contains("no node"));
        assert!(check(vec![node("a", "h:1"), node("a", "h:2")]).unwrap_err().contains("names must differ"));
        assert!(check(vec![node("a", "h:1"), node("b", "h:1")]).unwrap_err().contains("same address"));
        let mut zero = Settings::new("shop", Writers::One, vec![node("a", "h:1")]);
        zero.probe_interval = Duration::ZERO;
        assert!(zero.check().unwrap_err().contains("probe_interval"));
        let mut all = Settings::new("shop", Writers::All, vec![node("a", "h:1")]);
        all.kind = Kind::Replication;
        assert!(all.check().unwrap_err().contains("one primary"));
    }
}
