//! The seam between the brain and what is peculiar to one kind of cluster.
//!
//! The brain knows nodes, lanes, terms, doubts and orders. What a node's word means, what the nodes of a cluster know of each other, and
//! what may be asked of them beside taking statements, is the kind's. A second kind is a second arm in each `match` here, and a module
//! beside [`crate::galera`].
//!
//! ```text
//!   brain:  take in ──> judge ───────────────────────────────> plan ────────> act ──> ask ──> publish
//!   kind:     heard      look_around, against, is_out, judged            strike        act     is_unclear
//! ```

use crate::core::Core;
use crate::fact::Now;
use crate::finding::Finding;
use crate::galera::{self, Galera};
use crate::kind::Kind;
use crate::replication::{self, Replication};
use crate::status::Status;
use crate::{NodeId, Term};

/// What the nodes of the cluster are to each other.
#[derive(Clone, Debug)]
pub(crate) enum Group {
    Galera(Galera),
    Replication(Replication),
}

/// Whether a node may be asked to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It may.
    Clear,
    /// Not yet.
    Wait,
    /// Something stands in the way.
    Blocked(String),
}

impl Group {
    pub fn new(kind: Kind, nodes: usize) -> Self {
        match kind {
            Kind::Galera => Self::Galera(Galera::new(nodes)),
            Kind::Replication => Self::Replication(Replication::new(nodes)),
        }
    }

    /// The node said this; its belief still has what it said before.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &Status, asked: Now) {
        match (self, status) {
            (Self::Galera(group), Status::Galera(status)) => group.heard(core, id, status),
            (Self::Replication(group), Status::Replication(status)) => group.heard(core, id, status, asked),
            // It is not what the cluster is said to be, which is for the rules to say.
            (Self::Galera(_), Status::Replication(_)) | (Self::Replication(_), Status::Galera(_)) => {}
        }
    }

    /// The node is late with its answer to a question that was sent at `asked`.
    pub fn slow(&mut self, id: NodeId, asked: Now) {
        match self {
            Self::Galera(group) => group.slow(id, asked),
            Self::Replication(_) => {}
        }
    }

    /// Before the nodes are judged.
    pub fn look_around(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.look_around(core),
            Self::Replication(group) => group.look_around(core),
        }
    }

    /// What the others say against a node that answers.
    pub fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        match self {
            Self::Galera(group) => group.against(core, id),
            Self::Replication(group) => group.against(core, id),
        }
    }

    /// The others have certainly gone on without a node that must not be used: it has nothing to say any more that could count.
    pub fn is_out(&self, core: &Core, id: NodeId) -> bool {
        match self {
            Self::Galera(group) => group.is_out(core, id),
            Self::Replication(_) => false,
        }
    }

    /// After the nodes were judged.
    pub fn judged(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.note_departures(core),
            Self::Replication(_) => {}
        }
    }

    /// The plan gives `lost` up: whatever spares the others the wait for it, if it is allowed at this moment. Gives its part of the
    /// sentence.
    pub fn strike(&mut self, core: &mut Core, lost: NodeId) -> String {
        match self {
            Self::Galera(group) => group.strike(core, lost),
            Self::Replication(_) => String::new(),
        }
    }

    /// After the plan has done its part.
    pub fn act(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.act(core),
            Self::Replication(group) => group.act(core),
        }
    }

    /// Something waits for what the nodes have to say: they are asked until it is clear.
    pub fn is_unclear(&self, core: &Core) -> bool {
        match self {
            Self::Galera(group) => group.is_unclear(core),
            Self::Replication(_) => false,
        }
    }

    /// What came of an action of this kind; those of another kind mean nothing.
    pub fn galera_outcome(&mut self, core: &mut Core, outcome: galera::Outcome) {
        if let Self::Galera(group) = self {
            group.outcome(core, outcome);
        }
    }

    /// As above.
    pub fn replication_outcome(&mut self, core: &mut Core, outcome: replication::Outcome) {
        if let Self::Replication(group) = self {
            group.outcome(core, outcome);
        }
    }

    // ---- a change of the writer

    /// Whether `to` may be asked to take over from `from`, whose lane is quiet or shut. Brings it about where it can.
    pub fn clear_the_way(&mut self, core: &mut Core, from: Option<NodeId>, to: NodeId, term: Term) -> Way {
        match self {
            // Whoever has applied all may write, beside whomever.
            Self::Galera(_) => Way::Clear,
            Self::Replication(group) => group.clear_the_way(core, from, to, term),
        }
    }

    /// Has `to` take over; answered as a barrier is. `lost`: who was lost with its traffic.
    pub fn take_over(&mut self, core: &mut Core, to: NodeId, term: Term, lost: Option<NodeId>) {
        match self {
            Self::Galera(_) => core.barrier(to, term, lost),
            Self::Replication(group) => group.take_over(core, to, term),
        }
    }

    /// The change has ended well.
    pub fn taken_over(&mut self) {
        if let Self::Replication(group) = self {
            group.taken_over();
        }
    }

    /// A planned change is not gone on with. `true` when the old writer has to take over from itself: it may not be writable by now.
    pub fn is_fenced(&mut self) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(group) => group.is_fenced(),
        }
    }

    /// Time passed.
    pub fn tick(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.tick(core),
            Self::Replication(_) => {}
        }
    }
}
