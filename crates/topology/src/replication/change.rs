//! A change of the primary: before a server is promoted, every other is fenced.
//!
//! ```text
//!   lanes shut ──> their links cut (acknowledged) ──> others read only (acknowledged) ──> promote
//! ```
//!
//! Invariant: a server is ordered to become writable only when no other that answers may be writable, and when no statement of ours can
//! still run there. One that does not answer is made read only when it comes back, before anything else.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::gtid::Position;

use super::follow::Followed;
use super::sight::{answers, own};
use super::{Action, Replication, retry_at};
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::group::Way;
use crate::routes::LaneState;
use crate::{NodeId, Term};

/// The fence of one decision.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub term: Term,
    pub to: NodeId,
    /// Who was ordered to become read only.
    demoted: BTreeMap<NodeId, Demotion>,
}

#[derive(Clone, Debug)]
enum Demotion {
    Ordered,
    Done { position: Position, at: Now },
    Failed { again: Now, why: String },
}

impl Replication {
    /// A change to `to` begins, or another one takes the place of one that was begun.
    pub fn begin(&mut self, to: NodeId, term: Term) {
        if self.fence.as_ref().is_none_or(|fence| (fence.term, fence.to) != (term, to)) {
            self.fence = Some(Fence { term, to, demoted: BTreeMap::new() });
        }
    }

    /// Who is, or is about to be, the only one that may be writable.
    pub(super) fn sole_writer(&self, core: &Core) -> Option<NodeId> {
        match &self.fence {
            Some(fence) => Some(fence.to),
            None => core.writer,
        }
    }

    /// Whether `to` may be asked to take over. `from` was the primary; what has to be done first may take at the most `within`.
    pub fn clear_the_way(
        &mut self,
        core: &mut Core,
        from: Option<NodeId>,
        to: NodeId,
        term: Term,
        within: Duration,
    ) -> Way {
        self.begin(to, term);
        let others: Vec<NodeId> = ids(&core.nodes).filter(|id| *id != to).collect();
        for id in &others {
            core.set_lane(*id, LaneState::Shut);
        }
        if others.iter().any(|id| !core.node(*id).links_gone()) {
            return Way::Wait;
        }
        let mut way = if self.is_ordered(core, to) { Way::Wait } else { Way::Clear };
        for id in others {
            if !answers(core.node(id)) {
                continue;
            }
            match self.fenced(core, id, Some(id) == from) {
                Fenced::Is => {}
                Fenced::Waits => way = Way::Wait,
                Fenced::Not => {
                    self.demote(core, id, term, within);
                    way = Way::Wait;
                }
                Fenced::Refuses(why) => {
                    return Way::Blocked(format!("{} could not be made read only: {why}", core.name(id)));
                }
            }
        }
        way
    }

    /// Whether a server that answers is surely read only. `must`: not by its own word alone.
    fn fenced(&self, core: &Core, id: NodeId, must: bool) -> Fenced {
        let writes_since = |at: Option<Now>| {
            let node = core.node(id);
            let newer = at.is_none_or(|at| node.answered_since(at));
            newer && own(node).is_none_or(|status| !status.read_only)
        };
        match self.fence.as_ref().and_then(|fence| fence.demoted.get(&id)) {
            _ if self.is_ordered(core, id) => Fenced::Waits,
            Some(Demotion::Done { at, .. }) if !writes_since(Some(*at)) => Fenced::Is,
            Some(Demotion::Failed { again, why }) if core.now < *again => Fenced::Refuses(why.clone()),
            Some(_) => Fenced::Not,
            None if must || writes_since(None) || self.server(id).may_write.is_some() => Fenced::Not,
            None => Fenced::Is,
        }
    }

    /// Has a server made read only.
    pub(super) fn demote(&mut self, core: &mut Core, id: NodeId, term: Term, within: Duration) {
        if let Some(fence) = &mut self.fence {
            fence.demoted.insert(id, Demotion::Ordered);
        }
        self.order(core, Action::Demote { node: id, term, within });
    }

    /// Has `to` take over, in at the most `within`.
    pub fn take_over(&mut self, core: &mut Core, to: NodeId, term: Term, within: Duration) {
        // What one that is gone had written can come from nobody.
        let here = |id: &NodeId| answers(core.node(*id));
        let fence = self.fence.iter().flat_map(|fence| &fence.demoted);
        let reach = fence
            .filter_map(|(id, demotion)| match demotion {
                Demotion::Done { position, .. } if here(id) => Some(position.clone()),
                _ => None,
            })
            .reduce(|one, other| one.union(&other).unwrap_or(one))
            .filter(|reach| !reach.is_empty());
        self.server_mut(to).may_write = Some(term);
        self.order(core, Action::Promote { node: to, term, reach, within });
    }

    /// The change has ended: `to` is the primary.
    pub fn taken_over(&mut self, core: &Core, to: NodeId) {
        self.fence = None;
        self.decided = true;
        self.last_word = None;
        self.lost_since = None;
        for server in &mut self.servers {
            server.compared = None;
            server.said = None;
        }
        let server = self.server_mut(to);
        server.writable_since = Some(core.now);
        server.errant = None;
        server.lost = None;
        server.uncompared = None;
    }

    /// A planned change is not gone on with. `true` when the old primary may be read only by now.
    pub fn is_fenced(&mut self) -> bool {
        self.fence.take().is_some_and(|fence| !fence.demoted.is_empty())
    }

    pub(super) fn demoted(&mut self, core: &Core, node: NodeId, term: Term, position: Position) {
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.term == term) {
            fence.demoted.insert(node, Demotion::Done { position, at: core.now });
        }
        let server = self.server_mut(node);
        server.may_write = None;
        server.followed = Followed::Done(core.now);
    }

    pub(super) fn demote_failed(&mut self, core: &Core, node: NodeId, term: Term, why: &str) {
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.term == term) {
            let again = retry_at(core.now);
            fence.demoted.insert(node, Demotion::Failed { again, why: why.to_owned() });
        }
        self.server_mut(node).followed = Followed::Failed(retry_at(core.now));
    }
}

/// Whether a server is surely read only.
enum Fenced {
    Is,
    Not,
    Waits,
    Refuses(String),
}
