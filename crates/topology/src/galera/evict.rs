//! Whether a lost node may be evicted from the group (`evs.evict`), and through which survivor.
//!
//! Why at all: Galera waits `evs.suspect_timeout` (5 s) before it goes on without a node that vanished, and every survivor's
//! commit waits with it; `evs.evict` ends that wait at once. How, as measured on MariaDB 10.11.19 / Galera 26.4.23, three nodes with
//! default settings, writers on both survivors:
//!   - kill -9, then evict through the survivor with the smallest gcomm uuid (the group's representative): the view changes 7 to 20 ms
//!     after the order, the longest write took 22 to 34 ms (6 runs, any victim). Through the other survivor: 1.0 s each time
//!     (`evs.join_retrans_period`). So the order goes to the representative, whose status is waited for up to 0.15 s if it is not there yet.
//!   - The name must be cleared from the lists of evicted members on every survivor as soon as the view has changed, see
//!     [`super::sql::FORGET_EVICTED`]; otherwise each later change of the view costs 5 s more.
//!
//! And never in the middle of an orderly stop:
//!   - SIGTERM: the node is out of the survivors' view after 8 to 11 ms, no write of theirs takes longer than 10 ms, although
//!     the process itself stays up to 6.6 s (its new connections are accepted and never greeted, its idle connections closed without
//!     a word after 33 ms to 5.5 s, clients get 1047; it never says 1053). grastate.dat holds its position; it comes back by IST.
//!     There is nothing that an eviction could improve.
//!   - `evs.evict` at 4 ms after SIGTERM, before it had left: that interrupted the leaving, and the survivors' writes stalled for 5.0 s.
//!   - the same 50 ms after SIGTERM, when it had left: no effect at all.
//!
//! And never a node that lives behind a firewall which resets our connections to it: a reset may come from the firewall. So the manager asks
//! the group first whether the node still acknowledges what is sent ([`super::question`]). If it does, it is not evicted, and the group is
//! asked again a second later. For a node that is dead the question costs 0.1 s, in which the group stands still in any case.
//!
//! So in every case a survivor must have reported, after the loss, a view that still lists the node; and a node that was seen to be stopping
//! has `leave_grace` to leave by itself.
//!
//! And never while a member of the view cannot be told to forget the name: an arbitrator (garbd, which takes no statements), or a node that is not
//! configured. It would give the name to the others again, and each later change of the view would cost 5 s more. Measured with two nodes
//! and garbd 26.4.23, one after the other: the first kill cost 0.14 s, the next ones 5.2 s each, and each return 6 to 8 s without a commit.
//!
//! Invariants: the nodes that live are a majority of the view, so the last node is never evicted; one eviction at a time, with a new
//! status of a survivor between two.

use std::time::Duration;

use super::action::Action;
use super::reports::{own, survivor};
use super::settings::EvictPolicy;
use super::state::{Eviction, Galera};
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::finding::{NodeState, Serves};

/// How often the eviction of one lost node is tried.
const TRIES_MAX: u32 = 5;
/// How long the representative's status is waited for after the loss, before the order goes to another survivor.
const REPRESENTATIVE_WAIT: Duration = Duration::from_millis(150);
/// Between two tries.
const TRY_GAP: Duration = Duration::from_millis(200);
/// A node that still acknowledged is asked about again after this long: it may be dying.
const SPARED_GAP: Duration = Duration::from_secs(1);
/// The manager ends the action at its deadline; its outcome may take this much longer to arrive here.
const ANSWER_SLACK: Duration = Duration::from_millis(500);

/// An eviction for which all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowedEviction {
    victim: NodeId,
    via: NodeId,
    view: u64,
    gcomm_uuid: String,
}

impl Galera {
    /// A lost node is to be evicted and the conditions do not hold yet: the survivors are asked for their status until they do, or it has left.
    pub(super) fn eviction_pending(&self, core: &Core) -> bool {
        self.evicting.is_none()
            && core
                .nodes
                .ids()
                .any(|id| self.is_to_be_evicted(core, id) && self.member(id).evict_after <= core.now)
    }

    /// The first lost node for whose eviction all conditions hold now.
    fn allowed_eviction(&self, core: &Core) -> Option<AllowedEviction> {
        if self.evicting.is_some() {
            return None;
        }
        core.nodes
            .ids()
            .filter(|id| self.is_to_be_evicted(core, *id) && self.member(*id).evict_after <= core.now)
            .find_map(|victim| {
                let via = self.eviction_survivor(core, victim)?;
                let view = own(core.node(via))?.conf_id;
                Some(AllowedEviction {
                    victim,
                    via,
                    view,
                    gcomm_uuid: self.member(victim).gcomm_uuid.clone(),
                })
            })
    }

    /// Orders the eviction of `lost`, if all conditions hold at this moment, and returns the clause for the sentence about the failover.
    pub(super) fn evict_lost(&mut self, core: &mut Core, lost: NodeId) -> String {
        match self.allowed_eviction(core).filter(|allowed_eviction| allowed_eviction.victim == lost) {
            Some(allowed_eviction) => {
                let text = format!("evicting it through {}; ", core.name(allowed_eviction.via));
                self.evict(core, allowed_eviction);
                text
            }
            None => self.part_with(core, lost),
        }
    }

    /// Orders an eviction that was not part of a failover: the lost node was not the writer, or the proof of its death came later.
    pub(super) fn evict_bystander(&mut self, core: &mut Core) {
        let Some(allowed_eviction) = self.allowed_eviction(core) else { return };
        if !self.member(allowed_eviction.victim).spared {
            let victim = core.node(allowed_eviction.victim);
            let (name, reason) = (&victim.name, &victim.finding.sentence);
            let text = format!("{name} {reason}: evicting it through {}", core.name(allowed_eviction.via));
            core.say(Level::Warn, text);
        }
        self.evict(core, allowed_eviction);
    }

    /// Orders the eviction. The caller writes the journal's sentence.
    fn evict(&mut self, core: &mut Core, allowed_eviction: AllowedEviction) {
        let within = core.settings.galera.evict_deadline;
        let AllowedEviction { victim, via, view, gcomm_uuid } = allowed_eviction;
        self.member_mut(victim).evict_tries += 1;
        self.evicting = Some(Eviction { victim, gcomm_uuid: gcomm_uuid.clone(), since: core.now });
        core.out.push(Action::Evict { victim, gcomm_uuid, via, view, within }.into());
    }

    /// Gives up an eviction whose outcome never came.
    pub(super) fn expire_evictions(&mut self, core: &mut Core) {
        self.forget_evicted(core);
        if let Some(Eviction { victim, since, .. }) = &self.evicting
            && core.now.saturating_sub(*since) > core.settings.galera.evict_deadline + ANSWER_SLACK
        {
            self.evict_ended(core, *victim, Some("no answer in time"));
        }
    }

    /// The eviction has ended; `failed`: why it was not done.
    pub(super) fn evict_ended(&mut self, core: &mut Core, victim: NodeId, failed: Option<&str>) {
        let Some(ordered) = self.evicting.take_if(|ordered| ordered.victim == victim) else { return };
        self.evict_ended = Some(core.now);
        let member = self.member_mut(victim);
        match failed {
            None => {
                member.evicted_uuid = ordered.gcomm_uuid;
                core.counts.evictions_done += 1;
                core.say(Level::Info, format!("{} is evicted from the group", core.name(victim)));
            }
            Some(why) => {
                member.evict_after = core.now + TRY_GAP;
                core.counts.evictions_failed += 1;
                core.say(Level::Warn, format!("{} could not be evicted: {why}", core.name(victim)));
            }
        }
        // Also after a failure, since the server may have carried the order out all the same.
        for other in core.nodes.ids().filter(|other| *other != victim) {
            self.member_mut(other).has_evicted = true;
        }
        self.forget_evicted(core);
    }

    /// Clears the lists of evicted members. A node that is not linked is told when it is.
    fn forget_evicted(&mut self, core: &mut Core) {
        for id in core.nodes.ids() {
            if core.node(id).linked && std::mem::take(&mut self.member_mut(id).has_evicted) {
                core.out.push(Action::Forget { node: id }.into());
            }
        }
    }

    /// The victim was not evicted, since it still acknowledges what the group sends.
    pub(super) fn spared(&mut self, core: &mut Core, victim: NodeId, via: NodeId) {
        if self.evicting.take_if(|ordered| ordered.victim == victim).is_none() {
            return;
        }
        self.evict_ended = Some(core.now);
        let member = self.member_mut(victim);
        member.evict_tries = 0;
        member.evict_after = core.now + SPARED_GAP;
        core.counts.evictions_spared += 1;
        if !std::mem::replace(&mut member.spared, true) {
            let text = format!(
                "{} is not evicted: it still acknowledges what the group sends, by {}'s word; something between it and Understudy \
                 ends connections",
                core.name(victim),
                core.name(via)
            );
            core.say(Level::Warn, text);
        }
    }

    /// The node is lost in the sense of the setting `evict` (dead; or also silent), has not left by itself, and was not evicted yet.
    fn is_to_be_evicted(&self, core: &Core, id: NodeId) -> bool {
        let (node, member) = (core.node(id), self.member(id));
        let lost = match (core.settings.galera.evict, node.finding.state) {
            (EvictPolicy::Proven | EvictPolicy::Silent, NodeState::Dead) => true,
            (EvictPolicy::Silent, NodeState::Silent) => !core.silent_alone(id),
            _ => false,
        };
        let leaving = node
            .leaving_since
            .is_some_and(|since| core.now.saturating_sub(since) < core.settings.galera.leave_grace);
        lost && !leaving
            && !member.left_view
            && (node.linked_once || member.was_linked)
            && !member.gcomm_uuid.is_empty()
            && member.gcomm_uuid != member.evicted_uuid
            && member.evict_tries < TRIES_MAX
    }

    /// Notes which lost nodes have left the view, and which are back. A lost node that a survivor no longer lists is never evicted after that:
    /// when it restarts, it joins the view long before it accepts connections (its state transfer comes first), and would look like a lost
    /// node that is still in the view.
    pub(super) fn note_departures(&mut self, core: &mut Core) {
        for id in core.nodes.ids() {
            let finding = &core.node(id).finding;
            if finding.serves != Serves::No {
                let member = self.member_mut(id);
                if std::mem::take(&mut member.left_view) {
                    // The stop that was expected has happened, and is over.
                    core.stop_unexpected(id);
                }
                member.evicted_uuid.clear();
                member.evict_tries = 0;
                member.spared = false;
            } else if matches!(finding.state, NodeState::Dead | NodeState::Silent) && self.unlisted(core, id)
            {
                self.member_mut(id).left_view = true;
            }
        }
    }

    /// A survivor has reported since the loss a view that does not list the node.
    pub(super) fn unlisted(&self, core: &Core, id: NodeId) -> bool {
        let since = core.node(id).lost_at.unwrap_or(core.now);
        core.nodes.ids().any(|other| {
            other != id
                && survivor(core.node(other))
                && core.node(other).answered_since(since)
                && !self.lists(core, other, id)
        })
    }

    /// The survivor through which the victim may be evicted now: by a status newer than the loss the victim is still in its view, and the
    /// members that live are a majority of that view. `None`: not now.
    fn eviction_survivor(&self, core: &Core, victim: NodeId) -> Option<NodeId> {
        let since = core.node(victim).lost_at.unwrap_or_default().max(self.evict_ended.unwrap_or_default());
        let stands = |id: &NodeId| *id != victim && survivor(core.node(*id));
        let fresh =
            |id: &NodeId| stands(id) && core.node(*id).answered_since(since) && self.lists(core, *id, victim);
        let uuid = |id: &NodeId| self.member(*id).gcomm_uuid.clone();
        let representative = core.nodes.ids().filter(stands).min_by_key(uuid)?;
        let via = if fresh(&representative) {
            representative
        } else if core.now.saturating_sub(since) < REPRESENTATIVE_WAIT {
            return None;
        } else {
            core.nodes.ids().filter(fresh).min_by_key(uuid)?
        };
        let size = own(core.node(via))?.cluster_size as usize;
        let live = self.live_without(core, victim);
        let is_listed = |id: &NodeId| {
            let member = self.member(*id);
            let was_there = self.is_known_member(core, *id) || member.was_linked;
            stands(id) || was_there && !member.left_view && self.lists(core, via, *id)
        };
        let are_all_ours = core.nodes.ids().filter(is_listed).count() >= size;
        (are_all_ours && live * 2 > size).then_some(via)
    }

    /// The view that `teller` reported lists `id`. Where addresses cannot be compared (a node announces another one than the configuration
    /// has), the size of the view decides: it is larger than the number of members that live without `id`.
    pub(super) fn lists(&self, core: &Core, teller: NodeId, id: NodeId) -> bool {
        let Some(status) = own(core.node(teller)) else { return false };
        if self.member(id).listed_once && !status.members.is_empty() {
            return status.members.contains(&core.node(id).address);
        }
        status.cluster_size as usize > self.live_without(core, id)
    }

    /// It has been linked, or others list its address: it may have been silent before this program started. A view that is larger than the
    /// members that live is no evidence here, since an arbitrator or a node that is not configured may be the rest of it.
    pub(super) fn is_known_member(&self, core: &Core, id: NodeId) -> bool {
        let address = &core.node(id).address;
        let lists = |other: NodeId| {
            let view = own(core.node(other)).filter(|_| other != id && survivor(core.node(other)));
            view.is_some_and(|view| view.members.contains(address))
        };
        core.node(id).linked_once || core.nodes.ids().any(lists)
    }

    /// How many members live, not counting `id`. Members that are not in the configuration cannot be asked, and count as alive.
    fn live_without(&self, core: &Core, id: NodeId) -> usize {
        core.nodes.ids().filter(|other| *other != id && survivor(core.node(*other))).count()
            + self.unconfigured_members
    }
}
