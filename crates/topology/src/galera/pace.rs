//! When the members of the group are made brisk: told to repeat their part of the talk about the next view every 0.1 s, the least
//! that Galera takes, instead of every `evs.join_retrans_period` (1 s by default).
//!
//! Why: that talk sometimes sticks until it is repeated, and every commit of the group waits with it. Measured on MariaDB 10.11.19 /
//! Galera 26.4.23, three nodes: 6 of about 35 losses (kill, orderly stop; also the stop of a node that had no traffic any more)
//! cost 0.86 to 1.0 s; with 0.1 s on all nodes the worst of 36 was 0.05 s beyond the usual. On one survivor alone it does not
//! help. And an orderly stop that sticks begins without a sign: whoever waits for one is late.
//!
//! So the others are brisk while a node is on its way out of the view:
//!   - it is lost, or said that it leaves, and the view still has it;
//!   - it does not answer while others do;
//!   - an operator took the traffic off it through us, which is what one does before one stops it.
//!
//! Nothing else depends on that period, and each node gets its own back as soon as the reason is over. Never under
//! `evict = "never"` with `silent = "wait"`, which mean that the group is left alone.

use std::time::Duration;

use super::Galera;
use super::action::Action;
use super::settings::{EvictPolicy, SilencePolicy};
use super::view::primary;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::finding::Serves;

/// A node that misses probes now and then makes the others brisk once in this time, not each time.
const LATE_GAP: Duration = Duration::from_secs(5);

impl Galera {
    /// Brings each node's pace in line with what is true now.
    pub(super) fn pace(&mut self, core: &mut Core) {
        self.note_late(core);
        let leaving: Vec<NodeId> = ids(&core.nodes).filter(|id| self.on_its_way_out(core, *id)).collect();
        for id in ids(&core.nodes) {
            let node = core.node(id);
            let brisk = leaving.iter().any(|other| *other != id) && node.linked && primary(node);
            if brisk != self.member(id).brisk {
                self.member_mut(id).brisk = brisk;
                core.out.push(Action::Pace { node: id, brisk }.into());
            }
        }
    }

    /// When a node begins to miss probes while others answer; kept as long as it does.
    fn note_late(&mut self, core: &Core) {
        for id in ids(&core.nodes) {
            let now = core.now;
            let counts = &core.node(id).counts;
            let missing = counts.missed_since.filter(|_| counts.misses > 0);
            let alone = missing.is_none_or(|since| !core.another_answered_since(id, since));
            let member = self.member_mut(id);
            if alone {
                member.late = false;
            } else if !member.late && member.late_last.is_none_or(|at| now.saturating_sub(at) > LATE_GAP) {
                member.late = true;
                member.late_last = Some(now);
            }
        }
    }

    fn on_its_way_out(&self, core: &Core, id: NodeId) -> bool {
        let (node, member) = (core.node(id), self.member(id));
        let settings = &core.settings.galera;
        let left_alone = settings.evict == EvictPolicy::Never && settings.silence == SilencePolicy::Wait;
        if left_alone || !node.linked_once || member.left_view {
            return false;
        }
        let lost = node.verdict.serves == Serves::No
            && (!node.linked || node.leaving_since.is_some())
            && !core.silent_alone(id);
        let stopping = core.now < node.stop_expected_until;
        (lost && !member.spared || member.late || stopping) && node.verdict.problem != "left"
    }
}
