//! What an operator may set about a cluster, with every default stated once, here.
//!
//! Nothing enters but the configuration; the same value is given to the brain and to the shell that works for it.
//! Invariant: a `Settings` that passed [`Settings::check`] has at least one node, distinct names and addresses, and no zero
//! where a zero would mean "for ever" or "never".

use std::time::Duration;

use crate::NodeId;
use crate::galera::settings as galera;
pub use crate::galera::settings::{BootstrapPolicy, EvictPolicy, SilencePolicy};
use crate::heartbeat;
use crate::kind::Kind;
use crate::reads;
use crate::replication::settings as replication;

/// Who takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writers {
    /// One sticky writer, the others stand by.
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
    /// Higher writes first; equal ones in the configuration's order.
    pub priority: u32,
}

/// All that can be set about how a cluster is watched and moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's name, for people.
    pub cluster: String,
    /// What holds its nodes together.
    pub kind: Kind,
    /// Who takes writes.
    pub writers: Writers,
    /// The nodes; a [`NodeId`] is a place in this list.
    pub nodes: Vec<NodeSettings>,
    /// What concerns a Galera cluster only.
    pub galera: galera::Settings,
    /// What concerns a primary with replicas only.
    pub replication: replication::Settings,
    /// The port for reads.
    pub reads: reads::Settings,
    /// Time between two status queries of a node, and the deadline of each. Silence is declared after
    /// `misses_max` x `probe_interval`.
    pub probe_interval: Duration,
    /// Missed probes in a row that make a node silent.
    pub misses_max: u32,
    /// Whether events count at once: a link that ends, a connection that is refused, a statement that breaks. Without them only
    /// missed probes count, and a refused one is a missed one: the arithmetic of a load balancer's checks, to compare with.
    pub events: bool,
    /// Whether the writer commits.
    pub heartbeat: heartbeat::Settings,
    /// Refused or reset connections in a row that make a node dead.
    pub refusals_max: u32,
    /// How long one try of the barrier (the new writer's own word that it has applied everything) may take.
    pub barrier_deadline: Duration,
    /// Wait after a failed barrier; doubles with each, up to [`Settings::BACKOFF_MAX`].
    pub barrier_backoff: Duration,
    /// Time between two readings of the account table.
    pub accounts_interval: Duration,
    /// Shortest time between two readings that unknown account names may cause.
    pub accounts_gap_min: Duration,
    /// How long the store may take to write a decision.
    pub persist_deadline: Duration,
}

impl Settings {
    /// The longest wait between two tries of anything.
    pub const BACKOFF_MAX: Duration = Duration::from_secs(2);
    /// Transactions get this long to end when a node leaves without an operator's budget (its own maintenance mode, or an
    /// order that carries none).
    pub const HANDOVER_BUDGET: Duration = Duration::from_secs(10);

    /// The defaults.
    pub fn new(cluster: impl Into<String>, writers: Writers, nodes: Vec<NodeSettings>) -> Self {
        Self {
            cluster: cluster.into(),
            kind: Kind::default(),
            writers,
            nodes,
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

    /// The first thing that is wrong, as one sentence that says what is allowed.
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

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
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
