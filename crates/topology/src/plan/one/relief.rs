//! A writer that answers and does not commit. It is given up when another node can write, and kept when no other can.

use std::time::Duration;

use super::{One, Phase};
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::finding::Serves;
use crate::group::{Group, Relief};
use crate::judgement::judge_all;
use crate::time::Now;

/// After no other node could take over, that is tried again after this long.
const RELIEF_RETRY: Duration = Duration::from_secs(1);

impl One {
    /// Nothing is being moved.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Gives up the writer when it does not commit and another node can write. `true`: it was given up.
    pub(super) fn relieve(&mut self, core: &mut Core, group: &mut dyn Group, writer: NodeId) -> bool {
        let node = core.node(writer);
        let is_stuck = node.pulse.is_stuck(core.now, core.settings.heartbeat.stuck_max);
        if !is_stuck || core.now < self.relief_after {
            return false;
        }
        let is_there = |id: NodeId| {
            let node = core.node(id);
            id != writer && node.present() && !node.drained() && node.finding.serves == Serves::Well
        };
        if !core.nodes.ids().any(is_there) {
            return false;
        }
        // The node is given up first, since the choice of a successor considers only writers that must not be used. It is taken back if
        // there is none.
        let since = part_from(core, group, writer);
        match group.relief(core, writer) {
            Relief::Clear => {
                self.relief_after = core.now + group.relief_gap();
                true
            }
            Relief::Soon => {
                keep(core, group, writer);
                false
            }
            Relief::None(why) => {
                keep(core, group, writer);
                self.relief_after = core.now + RELIEF_RETRY;
                // Once for each time that it stops committing; its age grows meanwhile.
                if self.relief_said.is_none_or(|at| at < since) {
                    self.relief_said = Some(core.now);
                    core.say(Level::Error, why);
                }
                false
            }
        }
    }
}

impl One {
    /// An operator has ordered the writer to be moved, and it does not commit: it is given up for that. Waiting for its unacknowledged
    /// transactions could be in vain: on a full disk one is counted there that is only partly written, and can reach no other server.
    pub(super) fn give_up_by_order(&mut self, core: &mut Core, group: &mut dyn Group, to: Option<NodeId>) {
        let stuck_max = core.settings.heartbeat.stuck_max;
        let is_stuck = |id: &NodeId| core.node(*id).pulse.is_stuck(core.now, stuck_max);
        let Some(writer) = core.writer.filter(is_stuck) else { return };
        if self.is_settled() && to != Some(writer) && group.has_primary() {
            part_from(core, group, writer);
        }
    }

    /// No node can take over from a writer that was given up. It continues if it commits again.
    pub(super) fn take_back(&mut self, core: &mut Core, group: &mut dyn Group) {
        if let Some(writer) = core.writer.filter(|id| core.node(*id).pulse.is_given_up()) {
            keep(core, group, writer);
            self.relief_after = core.now + RELIEF_RETRY;
        }
    }
}

/// Gives it up; returns since when it has not committed.
pub(super) fn part_from(core: &mut Core, group: &mut dyn Group, writer: NodeId) -> Now {
    let now = core.now;
    let node = core.node_mut(writer);
    let age = node.pulse.waits(now).map(|(age, _)| age).unwrap_or_default();
    let since = now.saturating_sub(age);
    node.pulse.give_up(now);
    node.lost_at = Some(since);
    judge_all(core, group);
    since
}

/// It stays the writer.
fn keep(core: &mut Core, group: &mut dyn Group, writer: NodeId) {
    let node = core.node_mut(writer);
    node.pulse.keep();
    node.lost_at = None;
    judge_all(core, group);
}
