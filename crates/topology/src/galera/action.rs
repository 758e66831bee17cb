//! What is asked of a Galera cluster, and what comes of it.

use std::time::Duration;

use super::component::Component;
use super::position::Left;
use crate::NodeId;

/// What the brain asks the shell to do to a group.
#[derive(Clone, Debug)]
pub enum Action {
    /// Evict `victim` from the group (`evs.evict`), unless it still acknowledges what the group sends ([`super::question`]); answered by
    /// `Evicted` when `via` is in a new view, by `Spared` or by `EvictFailed`.
    Evict {
        /// The node to evict.
        victim: NodeId,
        /// Its gcomm UUID in its last answer. It has another one after a restart, so a node that is back is never hit.
        gcomm_uuid: String,
        /// The survivor whose server is given the order.
        via: NodeId,
        /// `wsrep_cluster_conf_id` of the view in which `via` last listed the victim. If `via` is in another view by now, nothing is ordered: the
        /// victim may have left by itself.
        view: u64,
        /// Give up after this long.
        within: Duration,
    },
    /// Set `evs.join_retrans_period` on the node to 0.1 s, so that it sends its join messages for the next view again that often; or give it
    /// its own value back. Has no outcome; the newest action for a node counts. See [`super::sql::FAST_JOIN_RETRANS`] and `pace.rs`.
    Pace {
        /// Which node.
        node: NodeId,
        /// 0.1 s; otherwise the node's own value.
        fast_join_retrans: bool,
    },
    /// Shorten the evs timers (suspect timeout and its like) of all `members`, or of none, if the group waits for a member that does not
    /// acknowledge ([`super::question`]). Give all members their own values back as soon as the group has a view other than `view`, on
    /// [`Action::Ease`], or when that takes too long. Answered by `Hurried` when all are set, and in every case by `HurryEnded`. See
    /// [`super::hurry`] and [`super::timers`].
    Hurry {
        /// Ties the answers to it.
        number: u64,
        /// The silent nodes; used in sentences only.
        silent: Vec<NodeId>,
        /// All other members of the view.
        members: Vec<NodeId>,
        /// The view's `wsrep_cluster_conf_id`.
        view: u64,
    },
    /// End the hurry of that number: give its members their own timers back now. Answered by its `HurryEnded`.
    Ease {
        /// The number of its [`Action::Hurry`].
        number: u64,
    },
    /// Set `wsrep_desync` on a node that does not apply, so that flow control does not stop the group for it, or take that back. Has no outcome.
    Desync {
        /// Which node.
        node: NodeId,
        /// Desynchronised: the group does not wait for it.
        on: bool,
    },
    /// Ask the node's host for proof that the server's process has ended, and for the position that it left on its disk. Answered by `Proof` at
    /// once when it is known, since a proof grows old.
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
        /// The node that gets the order.
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
    /// Write the writer's component to disk, as far as that is possible. Has no outcome.
    Remember {
        /// It.
        component: Component,
    },
    /// Clear the node's list of evicted members, without which each later change of the view costs 5 s more. Has no outcome. See [`super::sql::FORGET_EVICTED`].
    Forget {
        /// Which node.
        node: NodeId,
    },
}

/// What came of an [`Action`]: sent by the manager as a fact when the action has ended. `number` is the action's own.
#[allow(missing_docs)] // the fields are those of the action; `why` and `failed` are an error's text
#[derive(Clone, Debug)]
pub enum Outcome {
    /// `via` took `evs.evict` and is in a new view. The victim has to be restarted if it lives.
    Evicted { victim: NodeId, via: NodeId },
    /// Nothing was ordered: asked through `via`, the victim still acknowledges what the group sends, so it lives. Asked again a second later.
    Spared { victim: NodeId, via: NodeId },
    /// It could not be ordered, or the view did not change. Tried again, five times at the most.
    EvictFailed { victim: NodeId, why: String },
    /// The evs timers of all members are shortened. `HurryEnded` follows.
    Hurried { number: u64 },
    /// They could not be shortened, need not be, or have their own values again.
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
