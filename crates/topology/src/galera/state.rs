//! All that is remembered of the group's members from one fact to the next; the files beside this one decide by it, and change it.

use super::position::Left;
use crate::NodeId;
use crate::finding::Finding;
use crate::nodes::ById;
use crate::time::Now;

/// What is known of the group beyond what is known of each node.
#[derive(Clone, Debug)]
pub(crate) struct Galera {
    pub(super) members: ById<Member>,
    pub(super) view: Option<GroupView>,
    /// The writer's component is not written to disk again before this, unless its view changes.
    pub(super) remember_after: Now,
    /// The node that reported its status last, until that was compared with the writer's component.
    pub(super) news: Option<NodeId>,
    /// How many members of the group are not in the configuration (an arbitrator, a node that was forgotten there). Counted whenever all
    /// configured nodes are in the same view, as the size of that view less their number.
    pub(super) unconfigured_members: usize,
    /// An eviction in flight.
    pub(super) evicting: Option<Eviction>,
    /// When the last one ended: the next one is decided on a status that is newer than this.
    pub(super) evict_ended: Option<Now>,
    pub(super) hurry: Option<Hurry>,
    /// No other hurry is begun before this.
    pub(super) hurry_after: Now,
    /// The number of the last one.
    pub(super) hurries: u64,
    /// How the group is given a Primary component again.
    pub(super) revival: Revival,
}

/// What is known of a node as a member of the group.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    /// From its last status; kept when the node is gone, since `evs.evict` needs it.
    pub gcomm_uuid: String,
    /// An earlier process of this program was connected to it, and has left that name.
    pub was_linked: bool,
    /// A Primary view has named the node's address, so that its absence from one means something.
    pub listed_once: bool,
    /// After it was lost, a survivor reported a view without it: it has left the group, so there is nothing to evict until it has served
    /// again.
    pub left_view: bool,
    /// The gcomm UUID under which it was evicted; empty if it was not.
    pub evicted_uuid: String,
    /// Another was evicted, and it was not told yet to forget that.
    pub has_evicted: bool,
    pub evict_tries: u32,
    pub evict_after: Now,
    /// It was to be evicted and still acknowledged what the group sent, so it was not; the journal has that already.
    pub spared: bool,
    /// When the query was sent whose answer is late ([`crate::fact::Fact::ProbeSlow`]).
    pub slow_since: Option<Now>,
    /// Its `evs.join_retrans_period` was ordered to be 0.1 s, see [`super::pace`].
    pub fast_join_retrans: bool,
    /// It misses probes while others answer; and when that last began.
    pub late: bool,
    pub late_last: Option<Now>,
    /// It did not apply write sets and was desynchronised (`wsrep_desync`), so that flow control does not stop the group for it.
    pub parted: bool,
    pub parted_until: Now,
    /// It is Primary in a component that is not the writer's: what is said of that ([`super::placement`]).
    pub apart: Option<Finding>,
    /// Its last status from a Primary component.
    pub prime: Option<Prime>,
}

/// The newest Primary view that any node reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupView {
    pub told_by: String,
    pub conf_id: u64,
    pub cluster_uuid: String,
    pub members: Vec<String>,
    /// When this view was first heard of.
    pub since: Now,
}

/// An eviction that was ordered.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    pub victim: NodeId,
    /// Its gcomm UUID at that time. When the outcome comes, the node may be back under another one.
    pub gcomm_uuid: String,
    pub since: Now,
}

/// A hurry that was ordered.
#[derive(Clone, Debug)]
pub(super) struct Hurry {
    pub number: u64,
    pub silent: Vec<NodeId>,
    pub members: Vec<NodeId>,
    /// When the first question was sent that a silent one has not answered.
    pub since: Now,
    pub ordered: Now,
    pub hurried: bool,
    pub easing: bool,
}

/// What a node reported last while it was in a Primary component.
#[derive(Clone, Debug)]
pub(super) struct Prime {
    /// How often the numbers had started again by then, as far as was seen.
    pub numbering: u64,
    pub conf_id: u64,
    pub cluster_uuid: String,
    pub size: u32,
    /// All of them; none if one is unknown.
    pub members: Vec<String>,
    pub gcomm_uuid: String,
    pub flush_at_commit: Option<u8>,
}

/// The state of the attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Revival {
    pub phase: Phase,
    /// Since when the cluster has been without a Primary component.
    pub since: Option<Now>,
    /// The next try is not before that time.
    pub after: Now,
    /// How many tries failed in a row.
    pub failures: u32,
    /// The number of the last request.
    pub number: u64,
    /// How often proofs were asked for in this try.
    pub rounds: u32,
    /// The last reason given for doing nothing.
    pub said: Option<String>,
    /// How often a Primary component was made.
    pub done: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Proving {
        since: Now,
        /// The nodes whose proofs are awaited.
        open: Vec<NodeId>,
        proofs: Vec<Proof>,
        /// Why one of them proves nothing. The others are still awaited, so that their commands are not started a second time meanwhile.
        failed: Option<String>,
    },
    Checking {
        since: Now,
        proofs: Vec<Proof>,
    },
    Ordered {
        since: Now,
        via: NodeId,
    },
}

/// A node's process did not run at that time, and its disk had this position.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub node: NodeId,
    pub left: Left,
    pub at: Now,
}

impl Galera {
    pub fn new(nodes: usize) -> Self {
        Self {
            members: ById::new(nodes),
            view: None,
            remember_after: Now::ZERO,
            news: None,
            unconfigured_members: 0,
            evicting: None,
            evict_ended: None,
            hurry: None,
            hurry_after: Now::ZERO,
            hurries: 0,
            revival: Revival::default(),
        }
    }

    pub(super) fn member(&self, id: NodeId) -> &Member {
        &self.members[id]
    }

    pub(super) fn member_mut(&mut self, id: NodeId) -> &mut Member {
        &mut self.members[id]
    }
}

impl Revival {
    /// Whether proofs or the bootstrap are awaited.
    pub fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }
}
