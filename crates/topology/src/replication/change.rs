//! A change of the primary. Before a server is promoted, every other one is fenced: made unable to commit.
//!
//! ```text
//!   lanes shut ──> their links cut (acknowledged) ──> others read only (acknowledged), decision on disk ──> promote
//!                                                     no server fetches from a lost primary ([`super::parting`])
//!   a switchover only:  promoted ──> the old primary follows the new one ──> the lane opens
//!                                    it cannot ──> undone: it still has everything, and is promoted again
//! ```
//!
//! Invariant: a server is ordered to become writable only when no other server that answers may be writable, and when none of the proxy's
//! statements can still run on another server. A server that does not answer is made read only as soon as it comes back, before anything
//! else is done with it.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::gtid::Position;

use super::Errand;
use super::action::ErrandKind;
use super::parting::may_send;
use super::renumber;
use super::reports::{answers, own, writes};
use super::start::root_of;
use super::state::{Demotion, Fence, Followed, OldFollows, Replication, retry_at};
use super::status::ReplicationStatus;
use crate::action::Level;
use crate::core::{Core, FailedOver};
use crate::group::{Change, Choose, Heir, Way};
use crate::routes::LaneState;
use crate::time::Now;
use crate::{NodeId, Term};

impl Change for Replication {
    /// A failover to `to` begins, or takes over from a switchover that was in progress.
    fn begin(&mut self, core: &mut Core, to: NodeId, term: Term, failover: bool) {
        self.begin_as(core, to, term, false);
        // A switchover's server may have got more since that began.
        let missing_said = self.lacked_of_last(core, to);
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.is_planned) {
            fence.is_planned = false;
            fence.missing_said = missing_said;
        }
        if failover {
            core.failed_over = Some(FailedOver::now(core.now));
        }
    }

    /// What the change still waits for before the new primary is ordered to take over; `None` when it was ordered, or when there is no change.
    fn awaited(&self, core: &Core) -> Option<String> {
        let fence = self.fence.as_ref()?;
        let is_open = |id: &NodeId| *id != fence.to && !core.links_gone(*id);
        if let Some(id) = core.nodes.ids().find(is_open) {
            return Some(format!("connections to {} had not been closed", core.name(id)));
        }
        if let (OldFollows::Ordered, Some(from)) = (&fence.old_follows, fence.lost) {
            return Some(format!("{} did not follow {} yet", core.name(from), core.name(fence.to)));
        }
        let mut demoted = fence.demoted.iter();
        demoted.find_map(|(id, demotion)| match demotion {
            Demotion::Ordered => Some(format!(
                "{} had not become read only (does a transaction commit, or has it locked tables?)",
                core.name(*id)
            )),
            Demotion::Failed { why, .. } => {
                Some(format!("{} had not become read only: {why}", core.name(*id)))
            }
            Demotion::Done { .. } => None,
        })
    }

    /// Whether everything is done that must precede the order to `to` to take over, and starts what is not. `from` was the primary.
    /// `within` limits each preparation.
    fn clear_the_way(
        &mut self,
        core: &mut Core,
        from: Option<NodeId>,
        to: NodeId,
        term: Term,
        within: Duration,
    ) -> Way {
        self.begin_as(core, to, term, true);
        if core.settings.replication.is_external() {
            return self.clear_to_follow(core, to);
        }
        let others: Vec<NodeId> = core.nodes.ids().filter(|id| *id != to).collect();
        for id in &others {
            core.set_lane(*id, LaneState::Shut);
        }
        if others.iter().any(|id| !core.links_gone(*id)) {
            return Way::Wait;
        }
        if !self.nobody_fetches(core, to, term) {
            return Way::Wait;
        }
        if let Some(way) = self.outrun(core, to) {
            return way;
        }
        // Without the decision on disk, this program could choose another server under the same term after a restart.
        let may_not_yet = self.is_ordered(core, to) || core.disk.written < term || !self.has_spoken(core, to);
        let mut way = if may_not_yet { Way::Wait } else { Way::Clear };
        let is_handed_over = |fence: &Fence, id| fence.is_planned && fence.lost == Some(id);
        for id in others {
            if !answers(core.node(id)) {
                // One that hands over may have lost only its connection to this program, and be writable.
                if self.fence.as_ref().is_some_and(|fence| is_handed_over(fence, id)) {
                    way = Way::Wait;
                }
                continue;
            }
            match self.fenced(core, id, Some(id) == from) {
                Fenced::Is => {}
                Fenced::Waits => way = Way::Wait,
                Fenced::Not => {
                    self.demote(core, id, term, within);
                    way = Way::Wait;
                }
                // The old primary hangs in its own commits. The proxy has no link to it any more, and it is made read only when that
                // becomes possible.
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
        let has_lost = |from: &NodeId| self.was_written_to(core, *from, to);
        match from.filter(|_| matches!(way, Way::Clear)).filter(has_lost) {
            Some(from) => Way::Outrun(format!("has not what was written to {} meanwhile", core.name(from))),
            None => way,
        }
    }

    /// Orders `to` to take over within `within`. `true`: it is the primary already.
    fn take_over(
        &mut self,
        core: &mut Core,
        to: NodeId,
        term: Term,
        _lost: Option<NodeId>,
        within: Duration,
    ) -> bool {
        let settings = &core.settings.replication;
        // At a start under dry_run it is writable already (`who_starts`); an order would make it wait for replicas (semi-sync).
        if settings.is_external() || (settings.dry_run && !self.decided && writes(core.node(to))) {
            return true;
        }
        let reach = self.reach(core, to);
        self.server_mut(to).may_write = Some(term);
        self.order(core, to, term, within, Errand::Promote { reach });
        false
    }

    /// Whether the old primary follows `to`, which a switchover has promoted; orders it. It logs in at `to` from its own host, by the name and
    /// with the account that every replica will use. Until it follows, it has everything, and the switchover can be undone.
    fn is_followed(&mut self, core: &mut Core, to: NodeId, term: Term, within: Duration) -> Way {
        if core.settings.replication.is_external() {
            return Way::Clear;
        }
        let Some(fence) = self.fence.as_ref().filter(|fence| fence.is_planned && fence.to == to) else {
            return Way::Clear;
        };
        // What it had when it was fenced, `to` has reached.
        let fenced = |from: &NodeId| matches!(fence.demoted.get(from), Some(Demotion::Done { .. }));
        let Some(from) = fence.lost.filter(fenced) else { return Way::Clear };
        let ordered = self.is_ordered(core, from);
        match &fence.old_follows {
            OldFollows::Yes => Way::Clear,
            OldFollows::Failed(why) => {
                Way::Blocked(format!("{} could not follow {}: {why}", core.name(from), core.name(to)))
            }
            _ if ordered => Way::Wait,
            OldFollows::Ordered => {
                let text = format!("{} did not say in time that it follows", core.name(from));
                Way::Blocked(text)
            }
            OldFollows::Unasked => {
                self.order(core, from, term, within, Errand::Follow { source: to });
                if let Some(fence) = &mut self.fence {
                    fence.old_follows = OldFollows::Ordered;
                }
                Way::Wait
            }
        }
    }

    /// The change has ended: `to` is the primary.
    fn taken_over(&mut self, core: &mut Core, to: NodeId) {
        renumber::taken_over(core, to);
        // What the primary has is right.
        if core.node_mut(to).had_filters.take().is_some() {
            core.persist();
        }
        if let Some(fence) = self.fence.take() {
            self.move_events(core, fence.lost.unwrap_or(to), to, fence.term);
        }
        if let Some(status) = own(core.node(to)) {
            let line = self.last_word.as_ref().and_then(|word| word.history.as_ref());
            self.inherited.pass_on(line, status.has().as_ref(), status.origin());
        }
        self.remember_taken_over(core, to);
        self.forced = None;
        self.none_acknowledged(own(core.node(to)));
        self.decided = true;
        self.is_opening = true;
        self.last_word = None;
        self.base = None;
        self.lost_since = None;
        self.late = None;
        self.asked_early = None;
        for server in self.servers.iter_mut() {
            server.compared = None;
            server.said = None;
            server.left = false;
            server.kept_up = None;
        }
        let server = self.server_mut(to);
        server.writable_since = Some(core.now);
        server.unstopped = None;
        server.errant = None;
        (server.lost, server.is_unproven) = (None, false);
        server.was_incomplete = false;
        server.uncompared = None;
        server.relinked = false;
    }

    /// A switchover is abandoned. `true` when the old primary may have become read only.
    fn abandon(&mut self) -> bool {
        self.fence.take().is_some_and(|fence| !fence.demoted.is_empty())
    }

    fn barrier_answered(&mut self, to: NodeId, term: Term) {
        self.answered(to, term, ErrandKind::Promote);
    }

    fn unattached(&self, core: &mut Core, to: NodeId, since: Now) -> Option<String> {
        self.awaited_at_opening(core, to, since)
    }

    fn unattached_again(&self, core: &mut Core, primary: NodeId) -> Option<String> {
        self.awaited_again(core, primary)
    }

    fn opened(&mut self) {
        self.is_opening = false;
    }
}

impl Replication {
    fn begin_as(&mut self, core: &Core, to: NodeId, term: Term, is_planned: bool) {
        if self.fence.as_ref().is_none_or(|fence| (fence.term, fence.to) != (term, to)) {
            let lost = self.replaced(core);
            self.is_opening = false;
            self.fence = Some(Fence {
                term,
                to,
                lost,
                is_planned,
                quiet_since: None,
                missing_said: self.lacked_of_last(core, to),
                demoted: BTreeMap::new(),
                parted: BTreeMap::new(),
                old_follows: OldFollows::Unasked,
            });
        }
    }

    /// The primary that is replaced. If this process has restarted since the decision, the writer on disk is the successor already; the
    /// primary is then the server that the successor followed when the process started.
    pub fn replaced(&self, core: &Core) -> Option<NodeId> {
        if self.decided {
            return core.writer;
        }
        let begun = self.fence.as_ref().and_then(|fence| fence.lost);
        begun.or_else(|| match (core.writer, self.forced) {
            (Some(last), _) => Some(root_of(core, last)),
            // At a first start by order: the one that the new primary has followed.
            (None, Some(to)) => Some(root_of(core, to)).filter(|root| *root != to),
            (None, None) => None,
        })
    }

    /// The only server that may be writable, now or as the result of the change in progress.
    pub(super) fn sole_writer(&self, core: &Core) -> Option<NodeId> {
        match &self.fence {
            Some(fence) => Some(fence.to),
            None => core.writer,
        }
    }

    /// A lost primary may have continued and acknowledged commits until its links were cut. The other servers' positions are therefore read
    /// once more, and compared again.
    fn outrun(&mut self, core: &mut Core, to: NodeId) -> Option<Way> {
        let now = core.now;
        let since = *self.fence.as_mut()?.quiet_since.get_or_insert(now);
        let since = since.max(self.parted_at());
        // `to` has what it was chosen for unless it has restarted. A lost primary that answers is waited for when it is fenced.
        let began_anew = self.server(to).relinked && !writes(core.node(to));
        if began_anew && core.writer.is_none() {
            return self.first_again(core, to);
        }
        if self.forced == Some(to) {
            return self.outrun_by_force(core, to);
        }
        let lost = self.fence.as_ref()?.lost?;
        let is_known = !began_anew && (lost == to || !may_send(core, lost));
        if is_known {
            return None;
        }
        let here = core.nodes.ids().filter(|id| *id != lost && answers(core.node(*id)));
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

    /// A switchover is undone, and `to`, which is to go on writing, follows nobody: whether somebody wrote to `from`, which had been promoted,
    /// past the proxy.
    fn was_written_to(&self, core: &Core, from: NodeId, to: NodeId) -> bool {
        let mine =
            own(core.node(to)).filter(|status| status.channels.is_empty()).and_then(ReplicationStatus::has);
        let fence = self.fence.as_ref().filter(|fence| fence.lost == Some(to));
        match (mine, fence.and_then(|fence| fence.demoted.get(&from))) {
            (Some(mine), Some(Demotion::Done { position, .. })) => mine.contains(position) == Ok(false),
            _ => false,
        }
    }

    /// `to` was chosen at a first start, and has restarted since: whether it would be chosen with what it has now.
    fn first_again(&mut self, core: &mut Core, to: NodeId) -> Option<Way> {
        if self.forced == Some(to) {
            return self.first_ordered(core, Some(to), true).err().map(Way::Outrun);
        }
        match self.start(core, true) {
            Heir::This(best) if best == to => None,
            Heir::This(best) => {
                Some(Way::Outrun(format!("has restarted, and has less than {}", core.name(best))))
            }
            Heir::Soon(_) => Some(Way::Wait),
            _ => Some(Way::Outrun("has restarted, and may have less than it had".into())),
        }
    }

    /// Whether `to` has answered since the proxy's last statement ended. It may have restarted in between.
    fn has_spoken(&self, core: &mut Core, to: NodeId) -> bool {
        let since = self.fence.as_ref().and_then(|fence| fence.quiet_since).unwrap_or_default();
        let spoken = core.node(to).answered_since(since);
        if !spoken {
            core.ask_probe(to);
        }
        spoken
    }

    /// Whether a server that answers is certainly read only. `must`: its own report is not enough, it must have carried out an order.
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

    /// Orders a server to become read only.
    pub(super) fn demote(&mut self, core: &mut Core, id: NodeId, term: Term, within: Duration) {
        if let Some(fence) = &mut self.fence {
            fence.demoted.insert(id, Demotion::Ordered);
        }
        let for_good = self.fence.as_ref().is_none_or(|fence| !fence.is_planned);
        self.order(core, id, term, within, Errand::Demote { for_good });
    }

    /// The position that `to` must reach before it takes over: what the server it follows had written when it was fenced, or, where that
    /// server hangs in its commits and cannot be fenced, what it reported last. That server must still answer, since nobody else can send
    /// what it alone has. After a failover by force a server that receives nothing does not wait for what the order has given up.
    fn reach(&self, core: &Core, to: NodeId) -> Option<Position> {
        let channel = own(core.node(to))?.source()?;
        let fence = self.fence.as_ref()?;
        if self.forced == Some(to) && !fence.is_planned && !channel.io_running {
            return None;
        }
        let source = &channel.source;
        let (id, demotion) = fence.demoted.iter().find(|(id, _)| {
            let node = core.node(**id);
            // One that has handed over may have lost only its connection to this program.
            let is_there = answers(node) || fence.is_planned && !node.gone;
            node.address == *source && is_there && !node.pulse.has_broken_off()
        })?;
        let node = core.node(*id);
        let said = own(node).and_then(|status| status.position.clone());
        let position = match demotion {
            // It may have restarted since, without some of what it had.
            Demotion::Done { position, at } => {
                said.filter(|_| node.answered_since(*at)).unwrap_or_else(|| position.clone())
            }
            Demotion::Failed { .. } if node.pulse.is_given_up() => said?,
            Demotion::Failed { .. } | Demotion::Ordered => return None,
        };
        Some(position).filter(|position| !position.is_empty())
    }

    /// The answer to an order to follow. `Some`: the change in progress waited for it; the server to follow.
    pub(super) fn old_follows(&mut self, node: NodeId, term: Term, failed: Option<&str>) -> Option<NodeId> {
        let fence = self.fence.as_mut().filter(|fence| fence.term == term && fence.lost == Some(node))?;
        fence.old_follows = failed.map_or(OldFollows::Yes, |why| OldFollows::Failed(why.to_owned()));
        Some(fence.to)
    }

    pub(super) fn demoted(&mut self, core: &Core, node: NodeId, term: Term, position: Position) {
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.term == term) {
            fence.demoted.insert(node, Demotion::Done { position, at: core.now });
        }
        let server = self.server_mut(node);
        server.may_write = None;
        server.followed = Followed::ReadOnly(core.now);
    }

    pub(super) fn demote_failed(&mut self, core: &mut Core, node: NodeId, term: Term, why: &str) {
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.term == term) {
            let again = retry_at(core.now);
            fence.demoted.insert(node, Demotion::Failed { again, why: why.to_owned() });
        } else if term == core.term {
            let text = format!("{} is writable, and cannot be made read only: {why}", core.name(node));
            core.note(Level::Warn, text);
        }
        self.server_mut(node).followed = Followed::Failed(retry_at(core.now));
    }
}

/// Whether a server is certainly read only.
enum Fenced {
    Is,
    Not,
    Waits,
    Refuses(String),
}
