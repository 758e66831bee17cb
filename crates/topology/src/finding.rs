//! What is found against a node, and which findings a caller tolerates ([`Rules`]). Four words, from the part to the whole:
//!
//! - a *problem* is what can be wrong, by its name; tables (problem.rs, and each kind's `words.rs`) say when it is, and decisions compare it;
//! - [`Serves`] is what may be done with a node that has it;
//! - a [`Finding`] is a problem that one node has: its name, what it makes of the node, and the sentence;
//! - an `Assessment` (belief.rs) is what the node is held to be: by the graver of its own finding and the others' ([`graver`]).

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
    /// It works, and its traffic is to go elsewhere: drained by an operator, or in maintenance by its own status.
    Draining,
    /// It does not answer.
    Silent,
    /// Its process is not there: connections are refused or reset.
    Dead,
    /// It is there, and must not be used; the reason says why.
    Refused,
}

impl NodeState {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Synced,
        Self::Donor,
        Self::Joining,
        Self::Draining,
        Self::Silent,
        Self::Dead,
        Self::Refused,
    ];

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

/// What may be done with a node, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Serves {
    /// May be chosen.
    Well,
    /// Works and may stay; is not chosen while another is well (a donor).
    Stays,
    /// Works, and should hand over as soon as another can take it (maintenance, desync by an operator, drained).
    Leaves,
    /// Must not be used.
    No,
}

/// Why a node may not be used, or only in part.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The rule's name: `non_primary`, `donor`, ...
    pub problem: &'static str,
    /// What it makes of the node.
    pub state: NodeState,
    /// How gravely.
    pub serves: Serves,
    /// The sentence, to follow the node's name.
    pub sentence: String,
}

/// The name of the finding that an operator drained a node.
pub const DRAINED: &str = "drained";

/// Which of two findings counts, one by the other nodes and one by the node's own status: the graver one; if equal, that of the others.
pub fn graver(others: Option<Finding>, own: Option<Finding>) -> Option<Finding> {
    match (others, own) {
        (Some(others), Some(own)) if own.serves == Serves::No && others.serves != Serves::No => Some(own),
        (others, own) => others.or(own),
    }
}

/// A finding that makes a node unusable.
pub fn refused(problem: &'static str, sentence: String) -> Finding {
    Finding { problem, state: NodeState::Refused, serves: Serves::No, sentence }
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
