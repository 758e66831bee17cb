//! A change of the primary: before a server is promoted, every other is fenced.
//!
//! ```text
//!   lanes shut ──> their links cut (acknowledged) ──> others read only (acknowledged), decision on disk ──> promote
//!                                                     nobody else fetches from a lost primary ([`super::parting`])
//! ```
//!
//! Invariant: a server is ordered to become writable only when no other that answers may be writable, and when no statement of ours can
//! still run there. One that does not answer is made read only when it comes back, before anything else.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::gtid::Position;

use super::external::is_external;
use super::follow::Followed;
use super::parting::{Parting, may_send};
use super::sight::{answers, own, writes};
use super::start::root_of;
use super::{Action, Replication, retry_at};
use crate::action::Level;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::group::{Heir, Way};
use crate::routes::LaneState;
use crate::{NodeId, Term};

/// The fence of one decision.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub term: Term,
    pub to: NodeId,
    /// The primary whose place is taken.
    pub lost: Option<NodeId>,
    /// The old primary was well when it began.
    pub is_planned: bool,
    /// Since then no statement of ours can run on any other server: nothing that is acknowledged later is told to anybody.
    pub quiet_since: Option<Now>,
    /// Who was ordered to become read only.
    demoted: BTreeMap<NodeId, Demotion>,
    /// Who was ordered to fetch no more.
    pub parted: BTreeMap<NodeId, Parting>,
}

#[derive(Clone, Debug)]
enum Demotion {
    Ordered,
    Done { position: Position, at: Now },
    Failed { again: Now, why: String },
}

impl Replication {
    /// A change to `to` begins that nobody planned, or takes the place of one that was begun.
    pub fn begin(&mut self, core: &Core, to: NodeId, term: Term) {
        self.begin_as(core, to, term, false);
        if let Some(fence) = &mut self.fence {
            fence.is_planned = false;
        }
    }

    fn begin_as(&mut self, core: &Core, to: NodeId, term: Term, is_planned: bool) {
        if self.fence.as_ref().is_none_or(|fence| (fence.term, fence.to) != (term, to)) {
            let lost = self.replaced(core);
            self.fence = Some(Fence {
                term,
                to,
                lost,
                is_planned,
                quiet_since: None,
                demoted: BTreeMap::new(),
                parted: BTreeMap::new(),
            });
        }
    }

    /// Whose place is taken. A change that an earlier life of this process had begun is on disk as if it had ended: the primary is then the one
    /// that was followed when this life began.
    pub fn replaced(&self, core: &Core) -> Option<NodeId> {
        if self.decided {
            return core.writer;
        }
        let begun = self.fence.as_ref().and_then(|fence| fence.lost);
        begun.or_else(|| core.writer.map(|last| root_of(core, last)))
    }

    /// What a change waits for before the new primary is asked; `None` when it was asked, or none runs.
    pub fn awaited(&self, core: &Core) -> Option<String> {
        let fence = self.fence.as_ref()?;
        let is_open = |id: &NodeId| *id != fence.to && !core.node(*id).links_gone();
        if let Some(id) = ids(&core.nodes).find(is_open) {
            return Some(format!("connections to {} had not been closed", core.name(id)));
        }
        let mut demoted = fence.demoted.iter();
        let (id, _) = demoted.find(|(_, demotion)| matches!(demotion, Demotion::Ordered))?;
        Some(format!(
            "{} had not become read only (does a transaction commit, or has it locked tables?)",
            core.name(*id)
        ))
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
        self.begin_as(core, to, term, true);
        if is_external(core) {
            return self.clear_to_follow(core, to);
        }
        let others: Vec<NodeId> = ids(&core.nodes).filter(|id| *id != to).collect();
        for id in &others {
            core.set_lane(*id, LaneState::Shut);
        }
        if others.iter().any(|id| !core.node(*id).links_gone()) {
            return Way::Wait;
        }
        if !self.nobody_fetches(core, to, term) {
            return Way::Wait;
        }
        if let Some(way) = self.outrun(core, to) {
            return way;
        }
        // Without the decision on disk another could be made writable under the same term, by this program's next life.
        let may_not_yet = self.is_ordered(core, to) || core.disk.written < term || !self.has_spoken(core, to);
        let mut way = if may_not_yet { Way::Wait } else { Way::Clear };
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
                // It hangs in its own commits: no link of ours is left there, and it is made read only when it can be.
                Fenced::Refuses(why) if core.node(id).pulse.is_given_up() => {
                    let text = format!(
                        "{} could not be made read only ({why}): it is left as it is, and takes no statement of ours",
                        core.name(id)
                    );
                    core.note(Level::Warn, text);
                }
                Fenced::Refuses(why) => {
                    return Way::Blocked(format!("{} could not be made read only: {why}", core.name(id)));
                }
            }
        }
        way
    }

    /// A lost primary may have woken up, and have answered clients until their links were cut: what the others have is asked once more.
    fn outrun(&mut self, core: &mut Core, to: NodeId) -> Option<Way> {
        let now = core.now;
        let since = *self.fence.as_mut()?.quiet_since.get_or_insert(now);
        let since = since.max(self.parted_at());
        let lost = self.fence.as_ref()?.lost.filter(|_| self.forced != Some(to))?;
        // It has what it was chosen for, unless it began anew; and what a lost primary has is waited for, when that one is fenced.
        let began_anew = self.server(to).relinked && !writes(core.node(to));
        let is_known = !began_anew && (lost == to || !may_send(core, lost));
        if is_known {
            return None;
        }
        let here = ids(&core.nodes).filter(|id| *id != lost && answers(core.node(*id)));
        let late: Vec<NodeId> = here.filter(|id| !core.node(*id).answered_since(since)).collect();
        for id in &late {
            core.ask_probe(*id);
        }
        if !late.is_empty() {
            return Some(Way::Wait);
        }
        match self.choose(core, lost, None) {
            Heir::This(best) if best != to && !self.ahead_of(core, to, lost).is_empty() => {
                Some(Way::Outrun(format!("has less than {}", core.name(best))))
            }
            Heir::This(best) if best != to && lost == to => {
                Some(Way::Outrun(format!("has less than {}, or may have", core.name(best))))
            }
            Heir::Nobody(_) if self.waited(core) => Some(Way::Outrun("may not take over any more".into())),
            Heir::Stay { .. } => Some(Way::Outrun("may not take over: the old primary lives".into())),
            Heir::Soon(_) => Some(Way::Wait),
            _ => None,
        }
    }

    /// Since no statement of ours runs any more it has said something: it may have ended meanwhile, and have begun again.
    fn has_spoken(&self, core: &mut Core, to: NodeId) -> bool {
        let since = self.fence.as_ref().and_then(|fence| fence.quiet_since).unwrap_or_default();
        let spoken = core.node(to).answered_since(since);
        if !spoken {
            core.ask_probe(to);
        }
        spoken
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
        let for_good = self.fence.as_ref().is_none_or(|fence| !fence.is_planned);
        self.order(core, Action::Demote { node: id, term, for_good, within });
    }

    /// Has `to` take over, in at the most `within`. `true`: it has already, by another hand.
    pub fn take_over(&mut self, core: &mut Core, to: NodeId, term: Term, within: Duration) -> bool {
        if is_external(core) {
            return true;
        }
        let reach = self.reach(core, to);
        self.server_mut(to).may_write = Some(term);
        self.order(core, Action::Promote { node: to, term, reach, within });
        false
    }

    /// What the one that `to` follows had written when it was fenced, or by its last word when it does not commit and can for that not be
    /// fenced. It must be there still: what it had alone can come from nobody else.
    fn reach(&self, core: &Core, to: NodeId) -> Option<Position> {
        let source = &own(core.node(to))?.source()?.source;
        let (id, demotion) = self.fence.as_ref()?.demoted.iter().find(|(id, _)| {
            let node = core.node(**id);
            node.address == *source && answers(node) && !node.pulse.has_broken_off()
        })?;
        let node = core.node(*id);
        let said = own(node).and_then(|status| status.position.clone());
        let position = match demotion {
            // It may have begun again since, without some of it.
            Demotion::Done { position, at } => {
                said.filter(|_| node.answered_since(*at)).unwrap_or_else(|| position.clone())
            }
            Demotion::Failed { .. } if node.pulse.is_given_up() => said?,
            Demotion::Failed { .. } | Demotion::Ordered => return None,
        };
        Some(position).filter(|position| !position.is_empty())
    }

    /// The change has ended: `to` is the primary.
    pub fn taken_over(&mut self, core: &Core, to: NodeId) {
        self.fence = None;
        self.forced = None;
        self.decided = true;
        self.last_word = None;
        self.base = None;
        self.lost_since = None;
        self.late = None;
        self.asked_early = None;
        for server in &mut self.servers {
            server.compared = None;
            server.said = None;
            server.left = false;
            server.kept_up = None;
        }
        let server = self.server_mut(to);
        server.writable_since = Some(core.now);
        server.errant = None;
        server.lost = None;
        server.uncompared = None;
        server.relinked = false;
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
