//! A change of the primary: before a server is promoted, every other is fenced.
//!
//! ```text
//!   lanes shut ──> their links cut (acknowledged) ──> others read only (acknowledged) ──> promote
//! ```
//!
//! Invariant: a server is ordered to become writable only when no other that answers may be writable, and when no statement of ours can
//! still run there. One that does not answer is made read only when it comes back, before anything else.

use std::collections::BTreeMap;

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
    Done(Position),
    Failed { again: Now, why: String },
}

impl Replication {
    /// Whether `to` may be asked to take over. `from` was the primary.
    pub fn clear_the_way(&mut self, core: &mut Core, from: Option<NodeId>, to: NodeId, term: Term) -> Way {
        if self.fence.as_ref().is_none_or(|fence| (fence.term, fence.to) != (term, to)) {
            self.fence = Some(Fence { term, to, demoted: BTreeMap::new() });
        }
        let others: Vec<NodeId> = ids(&core.nodes).filter(|id| *id != to).collect();
        for id in &others {
            core.set_lane(*id, LaneState::Shut);
        }
        if others.iter().any(|id| !core.node(*id).links_gone()) {
            return Way::Wait;
        }
        let mut way = Way::Clear;
        for id in others {
            let node = core.node(id);
            let says_so = own(node).is_some_and(|status| status.read_only);
            let must = Some(id) == from || !says_so || self.server(id).may_write.is_some();
            if !must || !answers(node) {
                continue;
            }
            let now = core.now;
            let Some(fence) = &mut self.fence else { return Way::Wait };
            match fence.demoted.get(&id) {
                Some(Demotion::Done(_)) => {}
                Some(Demotion::Ordered) => way = Way::Wait,
                Some(Demotion::Failed { again, why }) if now < *again => {
                    return Way::Blocked(format!("{} could not be made read only: {why}", core.name(id)));
                }
                _ => {
                    fence.demoted.insert(id, Demotion::Ordered);
                    let within = core.settings.barrier_deadline;
                    core.out.push(Action::Demote { node: id, term, within }.into());
                    way = Way::Wait;
                }
            }
        }
        way
    }

    /// Has `to` take over.
    pub fn take_over(&mut self, core: &mut Core, to: NodeId, term: Term) {
        let done = |demotion: &Demotion| match demotion {
            Demotion::Done(position) => Some(position.clone()),
            _ => None,
        };
        let fence = self.fence.iter().flat_map(|fence| fence.demoted.values());
        let reach = fence.filter_map(done).reduce(|one, other| one.union(&other).unwrap_or(one));
        self.server_mut(to).may_write = Some(term);
        let within = core.settings.barrier_deadline;
        core.out.push(Action::Promote { node: to, term, reach, within }.into());
    }

    /// The change has ended: `to` is the primary.
    pub fn taken_over(&mut self) {
        self.fence = None;
    }

    /// A planned change is not gone on with. `true` when the old primary may be read only by now.
    pub fn is_fenced(&mut self) -> bool {
        self.fence.take().is_some_and(|fence| !fence.demoted.is_empty())
    }

    pub(super) fn demoted(&mut self, core: &Core, node: NodeId, term: Term, position: Position) {
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.term == term) {
            fence.demoted.insert(node, Demotion::Done(position));
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
