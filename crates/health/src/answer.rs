//! An answer about a node, independent of the style in which it is written.

use std::sync::Arc;
use std::time::Duration;

use topology::health::{Finding, Problem};

/// The kinds of answers, as far as the styles distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// The node may take traffic.
    Good,
    /// The question was about Understudy itself, which accepts clients; that says nothing about any node.
    TakesClients,
    /// The node's status has a problem.
    NotSynced,
    /// The node is read only, and the question requires one that is not.
    ReadOnly,
    /// An operator has disabled it by a file.
    Disabled,
    /// The node does not report its status, or not enough of it, or its last report is too old.
    Unknown,
    /// The program that was asked has no usable report from the node: not yet, or not with its account, or not on this port. Another
    /// endpoint may have one.
    Unasked,
    /// A sign that the node may be lost. It is being probed, and a definite answer follows within moments.
    Doubted,
}

/// An answer about one node.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The kind of answer.
    pub kind: AnswerKind,
    /// The reason, as a predicate to put after the node's name.
    pub reason: Arc<str>,
    /// The age of the facts.
    pub age: Duration,
    /// The greatest possible age of a replica's data, if that was requested and is known.
    pub lag: Option<Duration>,
}

impl Answer {
    /// An answer from facts that are `age` old.
    pub fn new(kind: AnswerKind, reason: impl Into<Arc<str>>, age: Duration) -> Self {
        Self { kind, reason: reason.into(), age, lag: None }
    }

    /// The answer from the result of the rules; `good` is the reason if they found nothing.
    pub fn of(found: Result<(), Finding>, good: &str, age: Duration) -> Self {
        match found {
            Ok(()) => Self::new(AnswerKind::Good, good, age),
            Err(finding) => Self::new(kind_of(&finding), finding.sentence, age),
        }
    }

    /// Whether the node may take traffic.
    pub fn is_good(&self) -> bool {
        matches!(self.kind, AnswerKind::Good | AnswerKind::TakesClients)
    }
}

/// The same for what a node says of itself and for what the brain says of it, which has names of its own.
fn kind_of(finding: &Finding) -> AnswerKind {
    match finding.problem {
        Problem::ReadOnly => AnswerKind::ReadOnly,
        Problem::Drained => AnswerKind::Disabled,
        Problem::Doubt => AnswerKind::Doubted,
        Problem::Dead | Problem::Silent | Problem::ReplicationUnknown | Problem::LagUnknown => {
            AnswerKind::Unknown
        }
        // The monitor account may be wrong where another is right, and it watches members, not replicas.
        Problem::Rejected | Problem::Unchecked | Problem::NotAsked => AnswerKind::Unasked,
        _ => AnswerKind::NotSynced,
    }
}
