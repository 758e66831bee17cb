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
//! `evict = "never"`, which means that the group is left alone.

use std::time::Duration;

use crate::NodeId;
use crate::action::Action;
use crate::core::Core;
use crate::election::ids;
use crate::health::Serves;
use crate::settings::EvictPolicy;

/// So long after an operator took the traffic off a node, its stop is expected.
const STOP_EXPECTED: Duration = Duration::from_secs(600);
/// A node that misses probes now and then makes the others brisk once in this time, not each time.
const LATE_GAP: Duration = Duration::from_secs(5);

impl Core {
    /// Brings each node's pace in line with what is true now.
    pub(crate) fn pace(&mut self) {
        self.note_late();
        let leaving: Vec<NodeId> = ids(&self.nodes).filter(|id| self.on_its_way_out(*id)).collect();
        for id in ids(&self.nodes) {
            let node = self.node(id);
            let brisk = leaving.iter().any(|other| *other != id) && node.linked && node.primary();
            if brisk != node.brisk {
                self.node_mut(id).brisk = brisk;
                self.out.push(Action::Pace { node: id, brisk });
            }
        }
    }

    /// An operator took the traffic off the node.
    pub(crate) fn stop_expected(&mut self, id: NodeId) {
        self.node_mut(id).stop_expected_until = self.now + STOP_EXPECTED;
    }

    /// It takes traffic again: no stop is expected any more.
    pub(crate) fn stop_unexpected(&mut self, id: NodeId) {
        self.node_mut(id).stop_expected_until = Duration::ZERO;
    }

    /// When a node begins to miss probes while others answer; kept as long as it does.
    fn note_late(&mut self) {
        for id in ids(&self.nodes) {
            let now = self.now;
            let missing = self.node(id).counts.missed_since;
            let alone = missing.is_none_or(|since| !self.another_answered_since(id, since));
            let node = self.node_mut(id);
            if alone {
                node.late = false;
            } else if !node.late && node.late_last.is_none_or(|at| now.saturating_sub(at) > LATE_GAP) {
                node.late = true;
                node.late_last = Some(now);
            }
        }
    }

    fn on_its_way_out(&self, id: NodeId) -> bool {
        let node = self.node(id);
        if self.settings.evict == EvictPolicy::Never || !node.linked_once || node.left_view {
            return false;
        }
        let lost = node.verdict.serves == Serves::No
            && (!node.linked || node.leaving_since.is_some())
            && !self.silent_alone(id);
        let stopping = self.now < node.stop_expected_until;
        (lost || node.late || stopping) && node.verdict.problem != "left"
    }
}
