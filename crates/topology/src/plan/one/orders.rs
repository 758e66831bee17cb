//! An operator's orders with one writer: whether each may start, and which node it leads to.

use super::moving::{Move, MoveKind};
use super::relief::part_from;
use super::{One, Phase, is_time_up};
use crate::NodeId;
use crate::about::Change;
use crate::action::Level;
use crate::core::{Core, Running};
use crate::election::elect;
use crate::finding::Serves;
use crate::group::{ByForce, Group};
use crate::plan::Budget;

impl One {
    /// Moves the writer, if that may be tried now.
    pub fn switchover(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        order: Running,
        to: Option<NodeId>,
        budget: Budget,
        force: bool,
    ) {
        if group.follows(core) {
            self.inform(core, group, order, to, budget);
            return;
        }
        self.give_up_by_order(core, group, to);
        if force && self.move_by_force(core, group, &order, to, budget) {
            return;
        }
        if self.fail_over_by_order(core, group, &order, to, budget, force) {
            if self.is_settled() {
                // No node can take over.
                self.take_back(core, group);
            }
            return;
        }
        if self.start_by_order(core, group, &order, to, budget, force) {
            return;
        }
        let Some(writer) = self.may_order(core, &order) else { return };
        if to == Some(writer) {
            let text = format!("{} already is the writer, term {}", core.name(writer), core.term);
            core.answer_unchanged(&order, text);
            return;
        }
        let Some(to) = self.pick(core, &order, writer, to, "not_writable") else { return };
        let because = order.what.clone();
        self.hand_over(core, to, budget, Some(order), None, &because);
    }

    /// With force a node may be named that does not get what the writer writes. `true`: the order is dealt with.
    fn move_by_force(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        order: &Running,
        to: Option<NodeId>,
        budget: Budget,
    ) -> bool {
        let both = core.writer.zip(to).filter(|(writer, to)| writer != to && core.node(*writer).sound());
        let Some((writer, to)) = both.filter(|_| self.is_settled()) else { return false };
        match group.by_force(core, writer, to) {
            None => return false,
            Some(Err(why)) => core.refuse(order.id, "not_writable", why),
            Some(Ok(ByForce::HandOver)) => {
                let because = order.what.clone();
                self.hand_over(core, to, budget, Some(order.clone()), None, &because);
            }
            Some(Ok(ByForce::Leave)) => {
                part_from(core, group, writer);
                return false;
            }
        }
        true
    }

    /// The writer is lost, and an operator names its successor. `false`: it is not lost, or this kind of cluster has no such order.
    fn fail_over_by_order(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        order: &Running,
        to: Option<NodeId>,
        budget: Budget,
        force: bool,
    ) -> bool {
        let is_lost = |id: &NodeId| core.node(*id).finding.serves == Serves::No;
        let may_replace = !matches!(self.phase, Phase::Moving(_) | Phase::Opening(_));
        let lost = core.writer.filter(|id| self.waits_for_anybody() || may_replace && is_lost(id));
        let Some(writer) = lost else { return false };
        match group.ordered(core, writer, to, force) {
            None => return false,
            Some(Err(why)) => core.refuse(order.id, "not_writable", why),
            Some(Ok(to)) => {
                let because = format!(
                    "{} while {} {}",
                    order.what,
                    core.name(writer),
                    core.node(writer).finding.sentence
                );
                self.replace(core, group, writer, to, &because, Some((order.clone(), budget.over())));
            }
        }
        true
    }

    /// A change is not over because nobody can take over: an order may name somebody.
    fn waits_for_anybody(&self) -> bool {
        matches!(&self.phase, Phase::Moving(run) if run.finds_nobody && run.order.is_none())
    }

    /// No writer is known yet, and an operator names it. `false`: one is, or this kind of cluster has no such order.
    fn start_by_order(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        order: &Running,
        to: Option<NodeId>,
        budget: Budget,
        force: bool,
    ) -> bool {
        let until = match self.phase {
            Phase::Starting { until } => until,
            Phase::Moving(_) if self.waits_for_anybody() => core.now,
            _ => return false,
        };
        if core.writer.is_some() || group.follows(core) {
            return false;
        }
        if !is_time_up(core, until) {
            let text = "not every server has been heard yet: try again in a moment";
            core.refuse(order.id, "busy", text);
            return true;
        }
        match group.first_by_order(core, to, force) {
            None => return false,
            Some(Err(why)) => core.refuse(order.id, "not_writable", why),
            Some(Ok(to)) => {
                let term = core.next_term();
                let because =
                    format!("{} at the first start: {} is to write, term {term}", order.what, core.name(to));
                core.hold_about(core.chosen(to, Change::Start), Level::Warn, because);
                let mut run = Move::new(core, None, to, term, MoveKind::Start);
                run.order = Some(order.clone());
                run.answer_by = budget.over();
                group.begin(core, to, term, false);
                run.ticket = Some(core.decide(term, Some(to)));
                self.phase = Phase::Moving(Box::new(run));
            }
        }
        true
    }

    /// Drains a node; the writer is moved away first. `false` when it is not the writer: nothing has to be moved.
    pub fn drain(
        &mut self,
        core: &mut Core,
        group: &dyn Group,
        order: &Running,
        node: NodeId,
        budget: Budget,
    ) -> bool {
        if core.writer != Some(node) {
            return false;
        }
        if group.follows(core) {
            let text = format!(
                "{} is the primary, and another manager moves it (cluster.manager): have that one move it first",
                core.name(node)
            );
            core.refuse(order.id, "external", text);
            return true;
        }
        let Some(writer) = self.may_order(core, order) else { return true };
        let pulse = &core.node(writer).pulse;
        if pulse.is_stuck(core.now, core.settings.heartbeat.stuck_max) && group.has_primary() {
            let text = format!(
                "{} {}: a drain would wait for its commits; order a switchover first, which does not",
                core.name(writer),
                pulse.sentence(core.now)
            );
            core.refuse(order.id, "busy", text);
            return true;
        }
        let Some(to) = self.pick(core, order, writer, None, "last_node") else { return true };
        let before = core.node(node).sessions_max;
        core.node_mut(node).limit(Some(0));
        let because = order.what.clone();
        self.hand_over(core, to, budget, Some(order.clone()), Some((node, before)), &because);
        true
    }

    /// Whether an order may start; otherwise it is refused with an answer.
    fn may_order(&self, core: &mut Core, order: &Running) -> Option<NodeId> {
        if let Some(doing) = self.doing(core) {
            core.refuse(order.id, "busy", format!("a {doing} is running: try again when it has ended"));
            return None;
        }
        let Some(writer) = core.writer.filter(|_| matches!(self.phase, Phase::Settled)) else {
            let text = format!("there is no writer yet: {}", core.why_nobody());
            core.refuse(order.id, "busy", text);
            return None;
        };
        if !core.node(writer).sound() {
            let text =
                format!("the writer {} is not healthy just now: {}", core.name(writer), core.why_nobody());
            core.refuse(order.id, "busy", text);
            return None;
        }
        Some(writer)
    }

    fn pick(
        &self,
        core: &mut Core,
        order: &Running,
        writer: NodeId,
        to: Option<NodeId>,
        code: &'static str,
    ) -> Option<NodeId> {
        let picked = elect(&core.nodes, None, |id| id != writer && to.is_none_or(|to| to == id));
        if picked.is_none() {
            let text = match to {
                Some(to) => match &core.node(to).doubt {
                    Some(doubt) => format!("{} is being confirmed ({}): try again", core.name(to), doubt.why),
                    None => format!(
                        "{} cannot become the writer: it is {}: {}",
                        core.name(to),
                        core.node(to).finding.state.word(),
                        core.node(to).finding.sentence
                    ),
                },
                None => format!("no other node can become the writer: {}", core.why_nobody()),
            };
            core.refuse(order.id, code, text);
        }
        picked
    }
}
