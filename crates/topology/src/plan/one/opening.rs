//! The end of a move: the new writer has taken over, and its lane opens when nothing is to be waited for any more.
//!
//! ```text
//!   taken over ─> what the kind of cluster waits for (replicas that attach) ─> the lane opens, the order is answered
//!              └─ lost before that ─> the loss of a writer as any other
//! ```

use super::moving::{Move, MoveKind};
use super::{One, Phase};
use crate::about::About;
use crate::action::Level;
use crate::core::Core;
use crate::finding::Serves;
use crate::group::Group;
use crate::heartbeat::Pulse;
use crate::routes::LaneState;
use crate::time::seconds;

impl One {
    /// `run.to` is the writer from now on.
    pub(super) fn taken_over(&mut self, core: &mut Core, mut run: Box<Move>) {
        for id in core.nodes.ids() {
            if id != run.to {
                core.set_lane(id, LaneState::Shut);
            }
        }
        core.adopt(run.term);
        for node in core.nodes.iter_mut() {
            node.pulse = Pulse::default();
        }
        // A failover may end with the old writer, when it came back first.
        run.is_moved = core.writer != Some(run.to);
        if run.is_moved && core.writer.is_some() {
            core.writer_changed_at = Some(core.now);
        }
        core.writer = Some(run.to);
        self.phase = Phase::Opening(run);
    }

    /// Opens the new writer's lane, if nothing is to be waited for.
    pub(super) fn opening(&mut self, core: &mut Core, group: &mut dyn Group, run: Box<Move>) -> bool {
        let node = core.node(run.to);
        let is_lost = node.finding.serves == Serves::No && !core.silent_alone(run.to);
        if is_lost {
            let text = format!("{} has taken over, and {}", node.name, node.finding.sentence);
            if let Some(order) = run.order {
                core.refuse(order.id, "not_writable", text);
            }
            group.opened();
            self.phase = Phase::Settled;
            return true;
        }
        let awaited = match &node.doubt {
            Some(doubt) => Some(format!("{} is being confirmed as writer: {}", node.name, doubt.why)),
            None => group.unattached(core, run.to, run.since),
        };
        if let Some(awaited) = awaited {
            core.hold = awaited;
            self.phase = Phase::Opening(run);
            return false;
        }
        group.opened();
        self.opened(core, group, *run);
        true
    }

    fn opened(&mut self, core: &mut Core, group: &dyn Group, run: Move) {
        core.set_lane(run.to, LaneState::Open);
        core.settled();
        match run.kind {
            MoveKind::Start => {}
            MoveKind::Failover => core.counts.failovers_done += u64::from(run.is_moved),
            MoveKind::Handover { .. } => core.counts.switchovers_done += 1,
        }
        self.phase = Phase::Settled;
        let took = core.now.saturating_sub(run.since);
        let why = if group.follows(core) {
            self.followed_at = run.from.map(|_| core.now);
            "it is the one that is writable"
        } else {
            "it has applied everything"
        };
        let mut text = format!(
            "{} writes, term {}: {why}, {} after the decision",
            core.name(run.to),
            run.term,
            seconds(took)
        );
        if let Some(from) = run.from.filter(|_| run.order.is_some()) {
            core.stop_expected(from);
        }
        core.stop_unexpected(run.to);
        if let Some((drained, _)) = run.undrain {
            text = format!("{} is drained; {text}", core.name(drained));
        }
        let about = About::Writes { node: core.name(run.to).to_owned() };
        core.say_about(about, Level::Info, text.clone());
        if let Some(order) = run.order {
            if run.is_moved {
                core.answer_done(&order, text);
            } else {
                core.answer_unchanged(&order, text);
            }
        }
    }
}
