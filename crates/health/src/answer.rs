//! What is said about a node, before anybody decides how it is written.

use std::sync::Arc;
use std::time::Duration;

use topology::health::Finding;

/// As far as the styles tell answers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It may take traffic.
    Good,
    /// The question was about an Understudy, and that takes clients: which says nothing of any node.
    TakesClients,
    /// It said something that speaks against it.
    NotSynced,
    /// It is read only, and the asker does not want that.
    ReadOnly,
    /// An operator's file says that it is not to be used.
    Disabled,
    /// It says nothing, or too little, or said it too long ago.
    Unknown,
    /// Whoever was asked has no word of the node: not yet, or not with its account, or not on this. Another may know more.
    Unasked,
    /// Something happened that may mean its end; it is being asked, and an answer is a moment away.
    Doubted,
}

/// An answer about one node.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which answer.
    pub kind: Kind,
    /// Why, as one sentence to follow the node's name.
    pub reason: Arc<str>,
    /// How old the facts are.
    pub age: Duration,
    /// How old what a replica has is at the most, where that was asked for and is known.
    pub lag: Option<Duration>,
}

impl Answer {
    /// An answer from facts that are `age` old.
    pub fn new(kind: Kind, reason: impl Into<Arc<str>>, age: Duration) -> Self {
        Self { kind, reason: reason.into(), age, lag: None }
    }

    /// From what the rules found.
    pub fn of(found: Result<(), Finding>, good: &str, age: Duration) -> Self {
        match found {
            Ok(()) => Self::new(Kind::Good, good, age),
            Err(finding) => Self::new(kind_of(&finding), finding.sentence, age),
        }
    }

    /// Whether the node may take traffic.
    pub fn is_good(&self) -> bool {
        matches!(self.kind, Kind::Good | Kind::TakesClients)
    }
}

fn kind_of(finding: &Finding) -> Kind {
    match finding.problem {
        "read_only" => Kind::ReadOnly,
        "replication_unknown" | "lag_unknown" => Kind::Unknown,
        _ => Kind::NotSynced,
    }
}
