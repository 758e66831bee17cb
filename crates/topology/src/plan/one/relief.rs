//! A writer that answers and does not commit: given up when another can write, and kept when that would help nobody.

use std::time::Duration;

use super::{One, Phase};
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::Serves;
use crate::group::{Group, Relief};
use crate::judgement::judge_all;

/// After a writer could not be relieved that is tried again after this long.
const RELIEF_RETRY: Duration = Duration::from_secs(1);

impl One {
    /// Nothing is being moved.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Gives the writer up when it does not commit, and another can write. `true`: it is given up.
    pub(super) fn relieve(&mut self, core: &mut Core, group: &mut Group, writer: NodeId) -> bool {
        let node = core.node(writer);
        let is_stuck = node.pulse.is_stuck(core.now, core.settings.heartbeat.stuck_max);
        if !is_stuck || core.now < self.relief_after {
            return false;
        }
        let is_there = |id: NodeId| {
            let node = core.node(id);
            id != writer && node.present() && !node.drained() && node.assessment.serves == Serves::Well
        };
        if !ids(&core.nodes).any(is_there) {
            return false;
        }
        // Only what must not be used is replaced: whether somebody would take over is seen when it is.
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
                // Once for each time that it is stuck: its age grows.
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
    /// An operator has ordered the writer to be moved, and it does not commit: it is given up for that. What it has not told anybody could be
    /// waited for in vain, as on a full disk a part of it is counted there and can come to no other.
    pub(super) fn give_up_by_order(&mut self, core: &mut Core, group: &mut Group, to: Option<NodeId>) {
        let stuck_max = core.settings.heartbeat.stuck_max;
        let is_stuck = |id: &NodeId| core.node(*id).pulse.is_stuck(core.now, stuck_max);
        let Some(writer) = core.writer.filter(is_stuck) else { return };
        if self.is_settled() && to != Some(writer) && group.leaves_without_waiting() {
            part_from(core, group, writer);
        }
    }

    /// Nobody can take over from a writer that was given up: it may go on, should it commit again.
    pub(super) fn take_back(&mut self, core: &mut Core, group: &mut Group) {
        if let Some(writer) = core.writer.filter(|id| core.node(*id).pulse.is_given_up()) {
            keep(core, group, writer);
            self.relief_after = core.now + RELIEF_RETRY;
        }
    }
}

/// It is given up; since when it has not committed.
fn part_from(core: &mut Core, group: &mut Group, writer: NodeId) -> Now {
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
fn keep(core: &mut Core, group: &mut Group, writer: NodeId) {
    let node = core.node_mut(writer);
    node.pulse.keep();
    node.lost_at = None;
    judge_all(core, group);
}
