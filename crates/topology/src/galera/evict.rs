//! Whether a lost node may be struck from the group, and by whom.
//!
//! Why at all: Galera waits `evs.suspect_timeout` (5 s) before it goes on without a node that vanished, and every survivor's
//! commit waits with it; `evs.evict` ends that wait at once. How, as measured on MariaDB 10.11.19 / Galera 26.4.23, three nodes with
//! default settings, writers on both survivors:
//!   - kill -9, then evict through the survivor with the smallest gcomm uuid (the group's representative): the view changes 7 to 20 ms
//!     after the order, the longest write took 22 to 34 ms (6 runs, any victim). Through the other survivor: 1.0 s each time
//!     (`evs.join_retrans_period`). So the representative is asked, and waited for a moment if it has not spoken yet.
//!   - The name must be cleared from the lists of evicted members on every survivor as soon as the view has changed, see
//!     [`super::sql::FORGET_EVICTED`]; otherwise each later change of the view costs 5 s more.
//!
//! And never in the middle of an orderly stop:
//!   - SIGTERM: the node is out of the survivors' view after 8 to 11 ms, no write of theirs takes longer than 10 ms, although
//!     the process itself stays up to 6.6 s (its new connections are accepted and never greeted, its idle connections closed without
//!     a word after 33 ms to 5.5 s, clients get 1047; it never says 1053). grastate.dat holds its position; it comes back by IST.
//!     Nothing to help.
//!   - `evs.evict` at 4 ms after SIGTERM, before it had left: it broke the leave off, and the survivors' writes stalled for 5.0 s.
//!   - the same 50 ms after SIGTERM, when it had left: no effect at all.
//!
//! And never one that lives behind a firewall that resets the connections between it and us: resets prove the death of whoever answered
//! them. The shell asks the group first ([`super::question`]), and a victim that still acknowledges is spared, and asked about again later.
//! For a node that is dead that costs 0.1 s, in which the group stands still.
//!
//! So a survivor's own word, newer than the loss, that the node is still in its view is asked for in every case, and a node
//! that showed that it was stopping gets `leave_grace` first.
//!
//! Invariants: never the last node; never so many that the live ones are no majority of the view; one at a time, with a
//! fresh status from a survivor in between.

use std::time::Duration;

use super::Galera;
use super::action::Action;
use super::settings::EvictPolicy;
use super::view::{own, primary};
use crate::NodeId;
use crate::action::Level;
use crate::belief::Belief;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::{NodeState, Serves};

/// Tries for one death.
const TRIES_MAX: u32 = 5;
/// So long the representative is waited for, before another survivor is asked instead.
const REPRESENTATIVE_WAIT: Duration = Duration::from_millis(150);
/// Between two tries.
const TRY_GAP: Duration = Duration::from_millis(200);
/// A node that was spared is asked about again after this long: it may die yet.
const SPARED_GAP: Duration = Duration::from_secs(1);
/// The shell keeps an order's deadline itself; so much more is for its answer to arrive.
const ANSWER_SLACK: Duration = Duration::from_millis(500);

/// An eviction that may go ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Warrant {
    victim: NodeId,
    via: NodeId,
    view: u64,
    gcomm_uuid: String,
}

/// An eviction that was ordered.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    victim: NodeId,
    /// Its name in the group then; it may be back under another when the answer comes.
    gcomm_uuid: String,
    since: Now,
}

impl Galera {
    /// Some lost node may yet have to be evicted: survivors are asked until it is clear.
    pub(super) fn eviction_pending(&self, core: &Core) -> bool {
        self.evicting.is_none()
            && ids(&core.nodes).any(|id| self.guilty(core, id) && self.member(id).evict_after <= core.now)
    }

    /// The first eviction that is allowed now.
    fn warrant(&self, core: &Core) -> Option<Warrant> {
        if self.evicting.is_some() {
            return None;
        }
        ids(&core.nodes)
            .filter(|id| self.guilty(core, *id) && self.member(*id).evict_after <= core.now)
            .find_map(|victim| {
                let via = self.witness(core, victim)?;
                let view = own(core.node(via))?.conf_id;
                Some(Warrant { victim, via, view, gcomm_uuid: self.member(victim).gcomm_uuid.clone() })
            })
    }

    /// The eviction that belongs to the loss of `lost`, if it is allowed at this moment; and its part of the sentence.
    pub fn strike(&mut self, core: &mut Core, lost: NodeId) -> String {
        match self.warrant(core).filter(|warrant| warrant.victim == lost) {
            Some(warrant) => {
                let text = format!("evicting it through {}; ", core.name(warrant.via));
                self.evict(core, warrant);
                text
            }
            None => self.part_with(core, lost),
        }
    }

    /// A lost node that the plan did not strike itself: it stood by, or the proof came later.
    pub(super) fn evict_bystander(&mut self, core: &mut Core) {
        let Some(warrant) = self.warrant(core) else { return };
        if !self.member(warrant.victim).spared {
            let victim = core.node(warrant.victim);
            let (name, reason) = (&victim.name, &victim.verdict.reason);
            let text = format!("{name} {reason}: evicting it through {}", core.name(warrant.via));
            core.say(Level::Warn, text);
        }
        self.evict(core, warrant);
    }

    /// Asks for it. The caller says why.
    fn evict(&mut self, core: &mut Core, warrant: Warrant) {
        let within = core.settings.galera.evict_deadline;
        let Warrant { victim, via, view, gcomm_uuid } = warrant;
        self.member_mut(victim).evict_tries += 1;
        self.evicting = Some(Ordered { victim, gcomm_uuid: gcomm_uuid.clone(), since: core.now });
        core.out.push(Action::Evict { victim, gcomm_uuid, via, view, within }.into());
    }

    /// An order that is never answered is given up.
    pub fn tick(&mut self, core: &mut Core) {
        if let Some(Ordered { victim, since, .. }) = &self.evicting
            && core.now.saturating_sub(*since) > core.settings.galera.evict_deadline + ANSWER_SLACK
        {
            self.evict_ended(core, *victim, Some("no answer in time"));
        }
    }

    /// What came of it.
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
        // Also after a failure: the order may have been heard all the same.
        for other in ids(&core.nodes) {
            if other != victim && core.node(other).linked {
                core.out.push(Action::Forget { node: other }.into());
            }
        }
    }

    /// The victim is alive to the group.
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

    /// Lost for good by the policy's measure, and not struck yet.
    fn guilty(&self, core: &Core, id: NodeId) -> bool {
        let (node, member) = (core.node(id), self.member(id));
        let lost = match (core.settings.galera.evict, node.verdict.state) {
            (EvictPolicy::Proven | EvictPolicy::Silent, NodeState::Dead) => true,
            (EvictPolicy::Silent, NodeState::Silent) => !core.silent_alone(id),
            _ => false,
        };
        let leaving = node
            .leaving_since
            .is_some_and(|since| core.now.saturating_sub(since) < core.settings.galera.leave_grace);
        lost && !leaving
            && !member.left_view
            && node.linked_once
            && !member.gcomm_uuid.is_empty()
            && member.gcomm_uuid != member.evicted_uuid
            && member.evict_tries < TRIES_MAX
    }

    /// Keeps book of who left the view. A lost node that a survivor no longer lists has left for good: a node that comes back is in
    /// the view long before it takes connections (it is being fed first), under its old name after a kill, and must not be
    /// struck for that.
    pub fn note_departures(&mut self, core: &mut Core) {
        for id in ids(&core.nodes) {
            let verdict = &core.node(id).verdict;
            if verdict.serves != Serves::No {
                let member = self.member_mut(id);
                if std::mem::take(&mut member.left_view) {
                    // It stopped, as expected, and is back.
                    core.stop_unexpected(id);
                }
                member.evicted_uuid.clear();
                member.evict_tries = 0;
                member.spared = false;
            } else if matches!(verdict.state, NodeState::Dead | NodeState::Silent) && self.unlisted(core, id)
            {
                self.member_mut(id).left_view = true;
            }
        }
    }

    /// It says itself that it is no member of the Primary component, or said so before its link ended; and a survivor says, after that,
    /// that it is out of the view. A member that says so while the group agrees on the next view, and is in that, is not out.
    pub fn is_out(&self, core: &Core, id: NodeId) -> bool {
        let node = core.node(id);
        let says_so = own(node).is_some() && !primary(node);
        let said_so = !node.linked && node.leaving_since.is_some();
        let struck = self.against(core, id).is_some_and(|finding| finding.problem == super::view::EVICTED);
        struck || ((says_so || said_so) && self.unlisted(core, id))
    }

    /// A survivor says, after the loss, that it is out of the view.
    fn unlisted(&self, core: &Core, id: NodeId) -> bool {
        let since = core.node(id).lost_at.unwrap_or(core.now);
        ids(&core.nodes).any(|other| {
            other != id
                && survivor(core.node(other))
                && core.node(other).answered_since(since)
                && !self.lists(core, other, id)
        })
    }

    /// A survivor that still has the victim in its view by a word newer than the loss, and can spare it.
    fn witness(&self, core: &Core, victim: NodeId) -> Option<NodeId> {
        let since = core.node(victim).lost_at.unwrap_or_default().max(self.evict_ended.unwrap_or_default());
        let stands = |id: &NodeId| *id != victim && survivor(core.node(*id));
        let fresh =
            |id: &NodeId| stands(id) && core.node(*id).answered_since(since) && self.lists(core, *id, victim);
        let uuid = |id: &NodeId| self.member(*id).gcomm_uuid.clone();
        let representative = ids(&core.nodes).filter(stands).min_by_key(uuid)?;
        let via = if fresh(&representative) {
            representative
        } else if core.now.saturating_sub(since) < REPRESENTATIVE_WAIT {
            return None;
        } else {
            ids(&core.nodes).filter(fresh).min_by_key(uuid)?
        };
        let status = own(core.node(via))?;
        let live = self.live_without(core, victim);
        (live * 2 > status.cluster_size as usize).then_some(via)
    }

    /// `teller`'s view has `id`. Where addresses cannot be matched (a node announces another one than the configuration has), the
    /// size of the view speaks.
    pub(super) fn lists(&self, core: &Core, teller: NodeId, id: NodeId) -> bool {
        let Some(status) = own(core.node(teller)) else { return false };
        if self.member(id).listed_once && !status.members.is_empty() {
            return status.members.contains(&core.node(id).address);
        }
        status.cluster_size as usize > self.live_without(core, id)
    }

    /// How many members are there without `id`. Strangers cannot be asked, and are taken to be alive: none has been heard to go.
    fn live_without(&self, core: &Core, id: NodeId) -> usize {
        ids(&core.nodes).filter(|other| *other != id && survivor(core.node(*other))).count() + self.strangers
    }
}

/// It is there, and a full member.
pub(super) fn survivor(node: &Belief) -> bool {
    node.linked && primary(node) && node.counts.misses == 0 && node.doubt.is_none() && usable(node)
}

/// Any full member can carry the message, whatever it may do for clients.
fn usable(node: &Belief) -> bool {
    node.verdict.serves != Serves::No
        || matches!(node.verdict.problem, "read_only" | "reject_queries" | "donor_rejects")
}
