//! Whether a lost node may be struck from the group, and by whom.
//!
//! Why at all: Galera waits `evs.suspect_timeout` (5 s) before it goes on without a node that vanished, and every survivor's
//! commit waits with it; `evs.evict` ends that wait at once. How, as measured on MariaDB 10.11.19 / Galera 26.4.23, three nodes with
//! default settings, writers on both survivors:
//!   - kill -9, then evict through the survivor with the smallest gcomm uuid (the group's representative): the view changes 7 to 20 ms
//!     after the order, the longest write took 22 to 34 ms (6 runs, any victim). Through the other survivor: 1.0 s each time
//!     (`evs.join_retrans_period`). So the representative is asked, and waited for a moment if it has not spoken yet.
//!   - The name must be cleared from the lists of evicted members on every survivor as soon as the view has changed, see
//!     [`crate::flavor::Flavor::FORGET_EVICTED`]; otherwise each later change of the view costs 5 s more.
//!
//! And never in the middle of an orderly stop:
//!   - SIGTERM: the node is out of the survivors' view after 8 to 11 ms, no write of theirs takes longer than 10 ms, although
//!     the process itself stays up to 6.6 s (its new connections are accepted and never greeted, its idle connections closed without
//!     a word after 33 ms to 5.5 s, clients get 1047; it never says 1053). grastate.dat holds its position; it comes back by IST.
//!     Nothing to help.
//!   - `evs.evict` at 4 ms after SIGTERM, before it had left: it broke the leave off, and the survivors' writes stalled for 5.0 s.
//!   - the same 50 ms after SIGTERM, when it had left: no effect at all.
//!
//! So a survivor's own word, newer than the loss, that the node is still in its view is asked for in every case, and a node
//! that showed that it was stopping gets `leave_grace` first.
//!
//! Invariants: never the last node; never so many that the live ones are no majority of the view; one at a time, with a
//! fresh status from a survivor in between.

use std::time::Duration;

use crate::NodeId;
use crate::action::Action;
use crate::belief::Belief;
use crate::core::Core;
use crate::election::ids;
use crate::health::Serves;
use crate::settings::EvictPolicy;
use crate::view::{Level, NodeState};

/// Tries for one death.
const TRIES_MAX: u32 = 5;
/// So long the representative is waited for, before another survivor is asked instead.
const REPRESENTATIVE_WAIT: Duration = Duration::from_millis(150);
/// Between two tries.
const TRY_GAP: Duration = Duration::from_millis(200);

/// An eviction that may go ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Warrant {
    pub victim: NodeId,
    pub via: NodeId,
    pub view: u64,
    pub gcomm_uuid: String,
}

impl Core {
    /// Some lost node may yet have to be evicted: survivors are asked until it is clear.
    pub(crate) fn eviction_pending(&self) -> bool {
        self.evicting.is_none() && ids(&self.nodes).any(|id| self.guilty(id))
    }

    /// The first eviction that is allowed now.
    pub(crate) fn warrant(&self) -> Option<Warrant> {
        if self.evicting.is_some() {
            return None;
        }
        ids(&self.nodes).filter(|id| self.guilty(*id) && self.node(*id).evict_after <= self.now).find_map(
            |victim| {
                let via = self.witness(victim)?;
                let view = self.node(via).status.as_ref()?.conf_id;
                Some(Warrant { victim, via, view, gcomm_uuid: self.node(victim).gcomm_uuid.clone() })
            },
        )
    }

    /// Asks for it. The caller says why.
    pub(crate) fn evict(&mut self, warrant: &Warrant) {
        self.evicting = Some((warrant.victim, self.now));
        let within = self.settings.evict_deadline;
        let node = self.node_mut(warrant.victim);
        node.evict_tries += 1;
        self.out.push(Action::Evict {
            victim: warrant.victim,
            gcomm_uuid: warrant.gcomm_uuid.clone(),
            via: warrant.via,
            view: warrant.view,
            within,
        });
    }

    /// What came of it.
    pub(crate) fn evict_ended(&mut self, victim: NodeId, failed: Option<&str>) {
        if self.evicting.is_none_or(|(asked, _)| asked != victim) {
            return;
        }
        self.evicting = None;
        self.evict_ended = Some(self.now);
        let now = self.now;
        let node = self.node_mut(victim);
        match failed {
            None => {
                node.evicted_uuid = node.gcomm_uuid.clone();
                let text = format!("{} is evicted from the group", node.name);
                self.say(Level::Info, text);
            }
            Some(why) => {
                node.evict_after = now + TRY_GAP;
                let text = format!("{} could not be evicted: {why}", node.name);
                self.say(Level::Warn, text);
            }
        }
        // Also after a failure: the order may have been heard all the same.
        for other in ids(&self.nodes) {
            if other != victim && self.node(other).linked {
                self.out.push(Action::Forget { node: other });
            }
        }
    }

    /// Lost for good by the policy's measure, and not struck yet.
    fn guilty(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let lost = match (self.settings.evict, node.verdict.state) {
            (EvictPolicy::Proven | EvictPolicy::Silent, NodeState::Dead) => true,
            (EvictPolicy::Silent, NodeState::Silent) => !self.silent_alone(id),
            _ => false,
        };
        let leaving = node
            .leaving_since
            .is_some_and(|since| self.now.saturating_sub(since) < self.settings.leave_grace);
        lost && !leaving
            && !node.left_view
            && node.linked_once
            && !node.gcomm_uuid.is_empty()
            && node.gcomm_uuid != node.evicted_uuid
            && node.evict_tries < TRIES_MAX
    }

    /// Keeps book of who left the view. A lost node that a survivor no longer lists has left for good: a node that comes back is in
    /// the view long before it takes connections (it is being fed first), under its old name after a kill, and must not be
    /// struck for that.
    pub(crate) fn note_departures(&mut self) {
        for id in ids(&self.nodes) {
            let node = self.node(id);
            if node.verdict.serves != Serves::No {
                let node = self.node_mut(id);
                if node.left_view {
                    // It stopped, as expected, and is back.
                    node.stop_expected_until = Duration::ZERO;
                }
                node.left_view = false;
                node.evicted_uuid.clear();
                node.evict_tries = 0;
            } else if matches!(node.verdict.state, NodeState::Dead | NodeState::Silent) && self.unlisted(id) {
                self.node_mut(id).left_view = true;
            }
        }
    }

    /// A survivor says, after the loss, that it is out of the view.
    fn unlisted(&self, id: NodeId) -> bool {
        let since = self.node(id).lost_at.unwrap_or(self.now);
        ids(&self.nodes).any(|other| {
            other != id
                && self.survivor(other)
                && self.node(other).answered_since(since)
                && !self.lists(other, id)
        })
    }

    /// A survivor that still has the victim in its view by a word newer than the loss, and can spare it.
    fn witness(&self, victim: NodeId) -> Option<NodeId> {
        let since = self.node(victim).lost_at.unwrap_or_default().max(self.evict_ended.unwrap_or_default());
        let fresh = |id: NodeId| {
            id != victim && self.survivor(id) && self.node(id).answered_since(since) && self.lists(id, victim)
        };
        let uuid = |id: &NodeId| self.node(*id).gcomm_uuid.clone();
        let representative =
            ids(&self.nodes).filter(|id| *id != victim && self.survivor(*id)).min_by_key(uuid)?;
        let via = if fresh(representative) {
            representative
        } else if self.now.saturating_sub(since) < REPRESENTATIVE_WAIT {
            return None;
        } else {
            ids(&self.nodes).filter(|id| fresh(*id)).min_by_key(uuid)?
        };
        let status = self.node(via).status.as_ref()?;
        let live = self.live_without(victim);
        (live * 2 > status.cluster_size as usize).then_some(via)
    }

    fn survivor(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.linked && node.primary() && node.counts.misses == 0 && node.doubt.is_none() && usable(node)
    }

    /// `teller`'s view has `id`. Where addresses cannot be matched (a node announces another one than the configuration has), the
    /// size of the view speaks.
    fn lists(&self, teller: NodeId, id: NodeId) -> bool {
        let Some(status) = &self.node(teller).status else { return false };
        if self.node(id).listed_once && !status.members.is_empty() {
            return status.members.contains(&self.node(id).address);
        }
        status.cluster_size as usize > self.live_without(id)
    }

    /// How many members are there without `id`. Strangers cannot be asked, and are taken to be alive: none has been heard to go.
    fn live_without(&self, id: NodeId) -> usize {
        ids(&self.nodes).filter(|other| *other != id && self.survivor(*other)).count() + self.strangers
    }
}

/// Any full member can carry the message, whatever it may do for clients.
fn usable(node: &Belief) -> bool {
    node.verdict.serves != Serves::No
        || matches!(node.verdict.problem, "read_only" | "reject_queries" | "donor_rejects")
}
