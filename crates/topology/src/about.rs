//! What an entry of the journal is about, for programs. The sentence beside it is for people, and may have other words in the next version.

use strum::{IntoStaticStr, VariantNames};

use crate::finding::{NodeState, Problem};

/// What an entry tells of; in JSON under `about`.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
    IntoStaticStr,
    VariantNames,
)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum About {
    /// A node is in another state, or has another problem.
    Node {
        /// Its name.
        node: String,
        /// Its state from now on.
        state: NodeState,
        /// What is wrong with it; `none` when it is well.
        problem: Problem,
    },
    /// A node was chosen to be the writer. It writes when [`About::Writes`] follows.
    Chosen {
        /// Its name.
        node: String,
        /// The writer until then; none at a first start.
        from: Option<String>,
        /// Why another one is chosen.
        change: Change,
    },
    /// With `writers = "all"`: a node was given up, and the others take writes again when [`About::Writes`] follows.
    Lost {
        /// Its name.
        node: String,
    },
    /// The node takes writes.
    Writes {
        /// Its name.
        node: String,
    },
    /// A switchover was abandoned: the old writer goes on.
    Undone {
        /// The old writer.
        node: String,
    },
    /// Statements are held, as no node can be the writer.
    NobodyWrites,
    /// What the clients noticed of a change of the writer.
    Clients(Clients),
    /// Whatever has no kind of its own here, and kinds of later versions.
    #[default]
    #[serde(other)]
    Other,
}

impl About {
    /// The kinds that programs look for.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().copied().filter(|kind| *kind != Self::Other.kind())
    }

    /// Its kind, as JSON has it.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Whether programs look for nothing of it.
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Why the writer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Understudy has started, or the writer is asked to go on after an interruption.
    Start,
    /// The old writer was lost.
    Failover,
    /// It was ordered while the old writer worked.
    Switchover,
    /// Another program made the node writable (`cluster.manager = "external"`), and Understudy follows.
    Followed,
}

/// What the clients noticed of a change of the writer, counted from shortly before it until shortly after. It has also what had other causes in
/// that time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Clients {
    /// When the count began, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Clients connected at its end.
    pub connected: u64,
    /// Statements that waited for a writer, and all that waited went on except for those that ended with one of `errors` or whose client left.
    pub held: u64,
    /// None of those that went on waited for longer, in milliseconds: the limit of a histogram's bucket. `None` where nothing went on, or a wait
    /// was longer than the histogram's last limit.
    pub held_at_most_ms: Option<u64>,
    /// Clients that left while their statement waited.
    pub left: u64,
    /// Sessions that were set up on another node.
    pub moved: u64,
    /// Statements that were sent again, as the proxy knew that they had no effect before.
    pub again: u64,
    /// The proxy's own errors: each code, and how often it was sent.
    pub errors: Vec<(u16, u64)>,
}
