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

use crate::NodeId;
use crate::core::Core;
use crate::fact::Now;
use crate::finding::Finding;
use crate::galera::{self, Galera};
use crate::kind::Kind;
use crate::status::Status;

/// What the nodes of the cluster are to each other.
#[derive(Clone, Debug)]
pub(crate) enum Group {
    Galera(Galera),
}

impl Group {
    pub fn new(kind: Kind, nodes: usize) -> Self {
        match kind {
            Kind::Galera => Self::Galera(Galera::new(nodes)),
        }
    }

    /// The node said this; its belief still has what it said before.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &Status) {
        match (self, status) {
            (Self::Galera(group), Status::Galera(status)) => group.heard(core, id, status),
        }
    }

    /// The node is late with its answer to a question that was sent at `asked`.
    pub fn slow(&mut self, id: NodeId, asked: Now) {
        match self {
            Self::Galera(group) => group.slow(id, asked),
        }
    }

    /// Before the nodes are judged.
    pub fn look_around(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.look_around(core),
        }
    }

    /// What the others say against a node that answers.
    pub fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        match self {
            Self::Galera(group) => group.against(core, id),
        }
    }

    /// The others have certainly gone on without a node that must not be used: it has nothing to say any more that could count.
    pub fn is_out(&self, core: &Core, id: NodeId) -> bool {
        match self {
            Self::Galera(group) => group.is_out(core, id),
        }
    }

    /// After the nodes were judged.
    pub fn judged(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.note_departures(core),
        }
    }

    /// The plan gives `lost` up: whatever spares the others the wait for it, if it is allowed at this moment. Gives its part of the
    /// sentence.
    pub fn strike(&mut self, core: &mut Core, lost: NodeId) -> String {
        match self {
            Self::Galera(group) => group.strike(core, lost),
        }
    }

    /// After the plan has done its part.
    pub fn act(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.act(core),
        }
    }

    /// Something waits for what the nodes have to say: they are asked until it is clear.
    pub fn is_unclear(&self, core: &Core) -> bool {
        match self {
            Self::Galera(group) => group.is_unclear(core),
        }
    }

    /// What came of an action of this kind; those of another kind mean nothing.
    pub fn outcome(&mut self, core: &mut Core, outcome: galera::Outcome) {
        match self {
            Self::Galera(group) => group.outcome(core, outcome),
        }
    }

    /// Time passed.
    pub fn tick(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.tick(core),
        }
    }
}
