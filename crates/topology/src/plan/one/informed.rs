//! Another program moves the writer, and an operator has announced it. Statements wait from then on, until another node is the writer, or
//! until the announced time is over; then they continue as before.

use super::moving::MoveKind;
use super::{One, Phase};
use crate::NodeId;
use crate::action::Level;
use crate::core::{Core, Running};
use crate::finding::Serves;
use crate::group::{Group, Heir};
use crate::plan::Budget;
use crate::routes::LaneState;
use crate::time::{Now, seconds};
use std::time::Duration;

/// An order without a node counts as about a move that ended at most this long ago.
const JUST_MOVED: Duration = Duration::from_secs(60);

/// The announcement.
#[derive(Clone)]
pub(super) struct Informed {
    order: Running,
    to: Option<NodeId>,
    until: Now,
}

impl One {
    /// An operator announces a move, and waits for it to happen.
    pub(super) fn inform(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        order: Running,
        to: Option<NodeId>,
        budget: Budget,
    ) {
        let writes = |core: &Core, id: NodeId| core.node(id).lane == LaneState::Open;
        match &mut self.phase {
            Phase::Starting { .. } => {
                core.refuse(order.id, "busy", format!("there is no writer yet: {}", core.why_nobody()));
                return;
            }
            Phase::Moving(run)
                if run.order.is_none()
                    && run.kind == MoveKind::Failover
                    && to.is_none_or(|to| to == run.to) =>
            {
                run.order = Some(order);
                run.answer_by = budget.over();
                return;
            }
            Phase::Moving(_) | Phase::Opening(_) | Phase::Informed(_) => {
                let doing = self.doing(core).unwrap_or_default();
                core.refuse(order.id, "busy", format!("a {doing} is running: try again when it has ended"));
                return;
            }
            Phase::Settled => {}
        }
        let Some(writer) = core.writer else { return };
        let just_moved =
            to.is_none() && self.followed_at.is_some_and(|at| core.now.saturating_sub(at) < JUST_MOVED);
        if (to == Some(writer) || just_moved) && writes(core, writer) {
            let text = format!("{} is the writer already, term {}", core.name(writer), core.term);
            core.answer_unchanged(&order, text);
            return;
        }
        let whom = to.map_or("another server", |to| core.name(to));
        let text = format!("{}: statements wait until {whom} is writable", order.what);
        core.hold = text.clone();
        core.say(Level::Info, text);
        group.announce(true);
        self.phase = Phase::Informed(Box::new(Informed { order, to, until: budget.over() }));
    }

    /// Waits for the announced move.
    pub(super) fn informed(&mut self, core: &mut Core, group: &mut dyn Group, run: Box<Informed>) -> bool {
        let Some(writer) = core.writer else { return false };
        self.phase = Phase::Settled;
        if core.now >= run.until {
            group.announce(false);
            let what = match core.node(writer).finding.serves {
                Serves::No => format!("no other server has become writable within {}", took(core, &run)),
                _ => format!(
                    "{} is still the one that is writable after {}: it goes on",
                    core.name(writer),
                    took(core, &run)
                ),
            };
            core.say(Level::Warn, format!("{}: {what}", run.order.what));
            core.refuse(run.order.id, "over_budget", what);
            return true;
        }
        core.set_lane(writer, LaneState::Draining);
        if core.node(writer).finding.serves == Serves::No && !core.silent_alone(writer) {
            match group.heir(core, writer, true) {
                Heir::This(to) => {
                    self.follow_announced(core, group, writer, to, *run);
                    // A problem may be gone now that this server is followed, so it is judged again.
                    return core.node(to).finding.serves != Serves::No;
                }
                Heir::Soon(why) | Heir::Nobody(why) | Heir::Stay { why, .. } => core.hold = why,
                Heir::Any => {}
            }
        }
        self.phase = Phase::Informed(run);
        false
    }

    fn follow_announced(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        writer: NodeId,
        to: NodeId,
        run: Informed,
    ) {
        group.announce(false);
        let because =
            format!("{}, and {} {}", run.order.what, core.name(writer), core.node(writer).finding.sentence);
        let order = match run.to {
            Some(wanted) if wanted != to => {
                let text = format!("{} has become writable, and not {}", core.name(to), core.name(wanted));
                core.refuse(run.order.id, "not_writable", text);
                None
            }
            _ => Some((run.order, run.until)),
        };
        self.replace(core, group, writer, to, &because, order);
    }

    pub(super) fn announced(core: &Core, run: &Informed) -> String {
        let to = run.to.map_or("another server", |to| core.name(to));
        format!("wait for {to} to be writable")
    }
}

fn took(core: &Core, run: &Informed) -> String {
    seconds(core.now.saturating_sub(run.order.since))
}
