//! What is found against a node, and which findings a caller tolerates ([`Rules`]). Three words, from the part to the whole:
//!
//! - a [`Problem`] is what can be wrong; tables (problem.rs, and each kind's `words.rs`) say when it is, and decisions compare it;
//! - [`Serves`] is what may be done with a node that has it;
//! - a [`Finding`] is a problem that one node has: what it makes of the node, and the sentence. The graver ([`graver`]) of its own finding and of
//!   the others' is what the node is held to be (`Belief::finding`).

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// What a node may be.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NodeState {
    /// Not yet checked; counts as down.
    #[default]
    Unknown,
    /// A full member that takes writes.
    Synced,
    /// It feeds a joining node.
    Donor,
    /// It is catching up.
    Joining,
    /// It works, and its traffic is to go elsewhere: drained by an operator, or in maintenance by its own status.
    Draining,
    /// It does not answer.
    Silent,
    /// Its process is not there: connections are refused or reset.
    Dead,
    /// It is there, and must not be used; the reason says why.
    #[serde(other)]
    Refused,
}

impl NodeState {
    /// Each of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The word for sentences.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What may be done with a node, whatever it is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Serves {
    /// May be chosen.
    Well,
    /// Works and may stay; is not chosen while another is well (a donor).
    Stays,
    /// Works, and should hand over as soon as another can take it (maintenance, desync by an operator, drained).
    Leaves,
    /// Must not be used.
    #[default]
    #[serde(other)]
    No,
}

/// What can be wrong with a node, or with what is asked about it. Its name in snake case is what programs read: the status, the checks before a
/// move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Problem {
    /// Nothing is wrong.
    None,

    // With any node.
    Dead,
    Rejected,
    Silent,
    Unchecked,
    /// It answers and does not commit.
    NotCommitting,
    /// It answers and takes no new connections.
    ShutOut,
    Drained,
    ReadOnly,
    /// It is being confirmed whether it is lost.
    Doubt,

    // With a member of a Galera cluster.
    NonPrimary,
    Joining,
    State,
    NotReady,
    RejectQueries,
    DonorRejects,
    Maintenance,
    Desync,
    Joined,
    Donor,
    NotGalera,
    Left,
    Evicted,
    /// It is in another component than the writer's.
    TwoClusters,
    /// It is not known yet whether it is in the writer's component.
    Unplaced,

    // With a primary or a replica.
    Renumbered,
    Errant,
    Stray,
    SeveralSources,
    Stranger,
    Ring,
    OtherSource,
    NotApplying,
    Delayed,
    Filtered,
    NotByGtid,
    NoBinlog,
    NotFetching,
    BinlogFormat,
    LostTransactions,
    TwoPrimaries,
    Replica,
    GaleraNode,

    // With what a health check asks for.
    ReplicationUnknown,
    NoReplica,
    ReplicationStopped,
    LagUnknown,
    Held,
    NotWriter,
    LaneShut,
    Lag,
    Stopping,
    /// It is about what this program does not ask the node.
    NotAsked,
    /// In the status of another version: one that this version does not know.
    #[serde(other)]
    Other,
}

impl Problem {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// A node that has this problem.
    pub fn found(self, sentence: impl Into<String>) -> Finding {
        Finding { problem: self, state: self.state(), serves: self.serves(), sentence: sentence.into() }
    }

    /// What it makes of a node.
    fn state(self) -> NodeState {
        match self {
            Self::None | Self::BinlogFormat => NodeState::Synced,
            Self::Dead => NodeState::Dead,
            Self::Silent => NodeState::Silent,
            Self::Unchecked => NodeState::Unknown,
            Self::Drained | Self::Maintenance => NodeState::Draining,
            Self::DonorRejects | Self::Donor => NodeState::Donor,
            Self::Joining | Self::Joined | Self::Unplaced => NodeState::Joining,
            Self::Stray | Self::OtherSource | Self::NotFetching | Self::Replica => NodeState::Joining,
            _ => NodeState::Refused,
        }
    }

    /// How gravely.
    fn serves(self) -> Serves {
        match self {
            Self::None | Self::BinlogFormat => Serves::Well,
            Self::Joined | Self::Donor | Self::NotFetching | Self::Replica => Serves::Stays,
            Self::ShutOut | Self::Drained | Self::Maintenance | Self::Desync => Serves::Leaves,
            _ => Serves::No,
        }
    }
}

/// A problem of one node ([`Problem::None`] where nothing is wrong), what it makes of the node, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// What it makes of the node.
    pub state: NodeState,
    /// How gravely.
    pub serves: Serves,
    /// The sentence, to follow the node's name.
    pub sentence: String,
}

/// Which of two findings counts, one by the other nodes and one by the node's own status: the graver one; if equal, that of the others.
pub fn graver(others: Option<Finding>, own: Option<Finding>) -> Option<Finding> {
    match (others, own) {
        (Some(others), Some(own)) if own.serves == Serves::No && others.serves != Serves::No => Some(own),
        (others, own) => others.or(own),
    }
}

/// Which findings the caller tolerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A node that feeds another, or was desynchronised, is good (clustercheck's third argument).
    pub donor: bool,
    /// A node with read_only set is good (clustercheck's fifth argument).
    pub read_only: bool,
    /// A node that an operator drained is good: for an HTTP check beside an agent check, which says `drain`. A load balancer that gets a
    /// "down" from the HTTP check would cut the connections that "drain" keeps.
    pub drained: bool,
}

impl Rules {
    /// Tolerates nothing.
    pub const STRICT: Self = Self { donor: false, read_only: false, drained: false };
}

impl Default for Rules {
    /// clustercheck's own: a donor is not good, a read-only node is.
    fn default() -> Self {
        Self { read_only: true, ..Self::STRICT }
    }
}
