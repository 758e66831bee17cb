//! When `evs.join_retrans_period` is shortened on the members: from its default of 1 s to 0.1 s, the least that Galera takes. With it a member
//! sends its join message again that often while the group agrees on its next view.
//!
//! Why: now and then that agreement makes no progress until the join messages are sent again, and every commit of the group waits for it. Measured on MariaDB 10.11.19 /
//! Galera 26.4.23, three nodes: 6 of about 35 losses (kill, orderly stop; also the stop of a node that had no traffic any more)
//! cost 0.86 to 1.0 s; with 0.1 s on all nodes the worst of 36 was 0.05 s beyond the usual. On one survivor alone it does not
//! help. It has to be set before the view changes: an orderly stop gives no sign beforehand that it will take long.
//!
//! So it is short on all other members while a node is about to leave the view:
//!   - it is lost, or said that it is stopping, and the view still lists it;
//!   - it does not answer while others do;
//!   - an operator drained it or moved the writer away from it, as one does before stopping a node.
//!
//! Nothing else in Galera depends on that period, and each node gets its own value back as soon as the reason is over. With
//! `evict = "never"` and `silent = "wait"` it is not touched: that combination means that the group's settings are left alone.

use std::time::Duration;

use super::action::Action;
use super::reports::primary;
use super::settings::{EvictPolicy, SilencePolicy};
use super::state::Galera;
use crate::NodeId;
use crate::core::Core;
use crate::finding::{NodeState, Problem, Serves};

/// A node that misses probes again and again leads to a shorter period on the others once in this time, not each time.
const LATE_GAP: Duration = Duration::from_secs(5);

impl Galera {
    /// Orders the period of each node that has not the one that it should have now.
    pub(super) fn pace(&mut self, core: &mut Core) {
        self.note_late(core);
        let leaving: Vec<NodeId> = core.nodes.ids().filter(|id| self.on_its_way_out(core, *id)).collect();
        for id in core.nodes.ids() {
            let node = core.node(id);
            let may_form_a_view = node.linked && primary(node) && self.member(id).apart.is_none();
            let fast_join_retrans = may_form_a_view && leaving.iter().any(|other| *other != id);
            if fast_join_retrans != self.member(id).fast_join_retrans {
                self.member_mut(id).fast_join_retrans = fast_join_retrans;
                core.out.push(Action::Pace { node: id, fast_join_retrans }.into());
            }
        }
    }

    /// Notes for each node whether it misses probes while others answer.
    fn note_late(&mut self, core: &Core) {
        for id in core.nodes.ids() {
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

    /// The node may leave the view soon, see the head of this file.
    fn on_its_way_out(&self, core: &Core, id: NodeId) -> bool {
        let (node, member) = (core.node(id), self.member(id));
        let settings = &core.settings.galera;
        let left_alone = settings.evict == EvictPolicy::Never && settings.silence == SilencePolicy::Wait;
        if left_alone || !self.is_known_member(core, id) || member.left_view {
            return false;
        }
        // One that has not been reached yet is not lost.
        let lost = node.finding.serves == Serves::No
            && node.finding.state != NodeState::Unknown
            && (!node.linked || node.leaving_since.is_some())
            && !core.silent_alone(id);
        let stopping = core.now < node.stop_expected_until;
        (lost && !member.spared || member.late || stopping) && node.finding.problem != Problem::Left
    }
}
