//! What `status`, the dashboard and the metrics see: one snapshot of everything the brain holds true, ready to be serialised.
//!
//! Made by [`crate::brain::Brain::view`]; nobody decides anything from it.

use crate::fact::GaleraStatus;
use crate::routes::LaneState;
use crate::settings::Writers;
use crate::{NodeId, Term};

/// The whole cluster, now.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ClusterView {
    /// The cluster's name.
    pub cluster: String,
    /// Who takes writes.
    pub writers: Writers,
    /// The writer decision in force.
    pub term: Term,
    /// The version of the routes published last.
    pub version: u64,
    /// The writer's name (`writers = "one"`); also while its lane is held.
    pub writer: Option<String>,
    /// Whether any lane is open.
    pub gate: Gate,
    /// When the gate is held: why.
    pub hold_because: Option<String>,
    /// The order or move in progress, as one sentence.
    pub order: Option<String>,
    /// The nodes, in the configuration's order.
    pub nodes: Vec<NodeView>,
    /// The last decisions, newest last, at most 50.
    pub decisions: Vec<Decision>,
    /// Milliseconds since the program started.
    pub now_ms: u64,
    /// When the program started, milliseconds since 1970 (filled in by the shell; the core has no calendar).
    pub started_unix_ms: u64,
}

/// Whether statements flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// At least one lane takes new transactions.
    Open,
    /// None does: new transactions wait.
    Held,
}

/// One node, now.
#[derive(Clone, Debug, serde::Serialize)]
pub struct NodeView {
    /// Its place in the configuration, from 0.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// What it is.
    pub state: NodeState,
    /// Why, as one sentence.
    pub reason: String,
    /// How long it has been that, in milliseconds.
    pub since_ms: u64,
    /// Whether it takes statements.
    pub lane: LaneState,
    /// The epoch of its lane.
    pub epoch: u64,
    /// At most this many sessions; 0 is drained.
    pub sessions_max: Option<u32>,
    /// It is the writer (`writers = "one"`).
    pub writer: bool,
    /// Its priority in elections.
    pub priority: u32,
    /// The kept-open link stands.
    pub linked: bool,
    /// Probes missed in a row.
    pub misses: u32,
    /// Milliseconds since it last answered a status query.
    pub answered_ms_ago: Option<u64>,
    /// What an operator should do about it, one sentence each.
    pub advice: Vec<String>,
    /// The last answer to the status query.
    pub facts: Option<GaleraStatus>,
}

/// What a node may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Not yet checked; counts as down.
    Unknown,
    /// A full member that takes writes.
    Synced,
    /// It feeds a joining node.
    Donor,
    /// It is catching up.
    Joining,
    /// It works, and is to be left: drained by an operator, or in maintenance by its own word.
    Draining,
    /// It does not answer.
    Silent,
    /// Its process is not there: connections are refused or reset.
    Dead,
    /// It is there, and must not be used; the reason says why.
    Refused,
}

impl NodeState {
    /// The word for sentences.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Synced => "synced",
            Self::Donor => "donor",
            Self::Joining => "joining",
            Self::Draining => "draining",
            Self::Silent => "silent",
            Self::Dead => "dead",
            Self::Refused => "refused",
        }
    }
}

/// A sentence and when it was said.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Decision {
    /// Milliseconds since 1970 (from the brain itself: since the program started; the shell adds its start).
    pub at_unix_ms: u64,
    /// How grave.
    pub level: Level,
    /// The sentence.
    pub text: String,
}

/// How grave a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Info,
    /// Something was lost or moved.
    Warn,
    /// Clients suffer, or an operator is needed.
    Error,
}

impl Level {
    /// The word for logs and transcripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}
