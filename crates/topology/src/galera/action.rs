//! What is asked of a Galera cluster, and what comes of it.

use std::time::Duration;

use super::position::Left;
use crate::NodeId;

/// What the brain asks the shell to do to a group.
#[derive(Clone, Debug)]
pub enum Action {
    /// Strike `victim` from the group, unless it still acknowledges what the group sends ([`super::question`]); answered by `Evicted` when
    /// `via` is in a new view, by `Spared` or by `EvictFailed`.
    Evict {
        /// Who.
        victim: NodeId,
        /// Its name in the group, as it was when it was last heard of.
        gcomm_uuid: String,
        /// The survivor that is to do it.
        via: NodeId,
        /// The number of the view in which `via` last named the victim. In another one nothing is ordered: it may have left by itself.
        view: u64,
        /// Give up after this long.
        within: Duration,
    },
    /// Have the node repeat its part of the talk about the next view every 0.1 s, or at its own pace again; answered by nothing, and
    /// the newest wish for a node counts. See [`super::sql::BRISK`].
    Pace {
        /// Which node.
        node: NodeId,
        /// Every 0.1 s; else its own pace.
        brisk: bool,
    },
    /// Shorten the timers of `members`, all or none, if the group waits for somebody ([`super::question`]); then, as soon as the group has
    /// another view than number `view`, or by [`Action::Ease`], or when that takes too long, give every member its own back. Answered by
    /// `Hurried` when all are set, and always by `HurryEnded`. See [`super::hurry`] and [`super::timers`].
    Hurry {
        /// Ties the answers to it.
        number: u64,
        /// Who is silent; for what is said.
        silent: Vec<NodeId>,
        /// Everybody else in the view.
        members: Vec<NodeId>,
        /// The view's number.
        view: u64,
    },
    /// Give the members of that hurry their own timers back, now.
    Ease {
        /// Which.
        number: u64,
    },
    /// Have the group not wait for a node that does not apply (wsrep_desync), or wait for it again; answered by nothing.
    Desync {
        /// Which node.
        node: NodeId,
        /// It is not waited for.
        on: bool,
    },
    /// Ask for proof that the process of this node has ended, and for what it left on its disk; answered by `Proof` as soon as it is known, since a
    /// proof is as old as its answer.
    Prove {
        /// Ties the answer to it.
        number: u64,
        /// Whose.
        node: NodeId,
        /// Give up after this long.
        within: Duration,
    },
    /// Make the component of `via` Primary (pc.bootstrap), unless it is by now; answered by `BootstrapEnded`.
    Bootstrap {
        /// Ties the answer to it.
        number: u64,
        /// Who is told.
        via: NodeId,
        /// Its name in the group. Under another one nothing is ordered: it has been restarted.
        gcomm_uuid: String,
        /// Members of its component. With another number nothing is ordered: somebody has come.
        size: u32,
        /// Those that are proven not to run. When a server accepts a connection at the address of one, nothing is ordered.
        gone: Vec<NodeId>,
        /// After this long nothing is ordered any more: the proofs are too old.
        begin_within: Duration,
        /// Give up after this long.
        within: Duration,
    },
    /// Clear the node's list of evicted members; answered by nothing. See [`super::sql::FORGET_EVICTED`].
    Forget {
        /// Which node.
        node: NodeId,
    },
}

/// What came of an [`Action`].
#[allow(missing_docs)] // the fields say what they are by their names and types
#[derive(Clone, Debug)]
pub enum Outcome {
    /// `evs.evict` was accepted by `via`.
    Evicted { victim: NodeId, via: NodeId },
    /// It was not ordered: asked through `via`, the victim still acknowledges what the group sends.
    Spared { victim: NodeId, via: NodeId },
    /// No survivor took it.
    EvictFailed { victim: NodeId, why: String },
    /// The timers of all members are shortened.
    Hurried { number: u64 },
    /// They are not, or not any more.
    HurryEnded { number: u64, end: HurryEnd },
    /// What a proof came to: what the node left on its disk, or why nothing is proven.
    Proof { number: u64, node: NodeId, proof: Result<Left, String> },
    /// `via` is in a Primary component; or why it is not known to be.
    BootstrapEnded { number: u64, failed: Option<String> },
}

impl Outcome {
    /// The node it is about, when it is about one.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Evicted { victim, .. } | Self::Spared { victim, .. } | Self::EvictFailed { victim, .. } => {
                Some(*victim)
            }
            Self::Proof { node, .. } => Some(*node),
            Self::Hurried { .. } | Self::HurryEnded { .. } | Self::BootstrapEnded { .. } => None,
        }
    }
}

/// How a hurry ended. Every member has its own values then, or they are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HurryEnd {
    /// Nobody was waited for, or that could not be told: nothing was changed.
    Unneeded,
    /// The members' own timers are short already: nothing was changed.
    Short,
    /// The group has another view.
    GoesOn,
    /// By [`Action::Ease`].
    Eased,
    /// It did not help in time.
    TimeUp,
    /// It could not be done.
    Failed(String),
}
