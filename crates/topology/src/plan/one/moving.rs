//! A move of the writer: from the decision until the new writer's lane is open. It may also end with the old writer (undone), or continue with
//! another candidate.
//!
//! ```text
//!   write the decision ─┐
//!   old lane quiet ─────┼─> barrier passed ─> old writer follows ─> taken over ─> opened    candidate lost, barrier failed ─> the next one
//!   (a handover only)   │                    (a handover only)    [`super::opening`]        a handover over its budget ─────> undone
//! ```

use super::{HANDOVER_GAP, One, Phase};
use crate::about::{About, Change};
use crate::action::Level;
use crate::core::{Core, Running};
use crate::disk::{Ticket, Written};
use crate::election::elect_any;
use crate::finding::Serves;
use crate::group::{Group, Heir, Way};
use crate::plan::{Barrier, Budget, back_off, cut};
use crate::routes::LaneState;
use crate::time::{Now, seconds};
use crate::{NodeId, Term};

#[derive(Clone, Debug)]
pub(super) struct Move {
    /// The writer until now; `None` when the program starts, or when the writer passes the barrier anew.
    pub from: Option<NodeId>,
    pub to: NodeId,
    pub term: Term,
    pub kind: MoveKind,
    pub ticket: Option<Ticket>,
    /// After the write of the decision failed, it is tried again at this time.
    pub write_after: Now,
    pub barrier: Barrier,
    pub tries: u32,
    pub since: Now,
    pub order: Option<Running>,
    /// The latest time at which the operator's order is answered, whether the move has ended or not.
    pub answer_by: Now,
    /// The limit of sessions to restore when a drain is undone.
    pub undrain: Option<(NodeId, Option<u32>)>,
    /// The candidate cannot take over, and nobody else can.
    pub finds_nobody: bool,
    /// Why the last candidate could not.
    pub failed: Option<String>,
    /// It has taken over from another node.
    pub is_moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveKind {
    Start,
    Failover,
    /// Planned: the old lane drains.
    Handover {
        budget: Budget,
        /// The routes' version before the draining began: that no transaction runs counts only if it was seen under later routes, since the
        /// lane may have been drained before.
        after: u64,
    },
}

impl MoveKind {
    pub fn change(self) -> Change {
        match self {
            Self::Start => Change::Start,
            Self::Failover => Change::Failover,
            Self::Handover { .. } => Change::Switchover,
        }
    }
}

impl Move {
    pub fn new(core: &Core, from: Option<NodeId>, to: NodeId, term: Term, kind: MoveKind) -> Self {
        Self {
            from,
            to,
            term,
            kind,
            ticket: None,
            write_after: core.now,
            barrier: Barrier::Idle,
            tries: 0,
            since: core.now,
            finds_nobody: false,
            failed: None,
            is_moved: false,
            order: None,
            answer_by: core.now,
            undrain: None,
        }
    }

    /// No transaction of the old writer is waited for any more.
    fn is_quiet(&self, core: &Core) -> bool {
        match self.kind {
            MoveKind::Start | MoveKind::Failover => true,
            MoveKind::Handover { after, .. } => self.from.is_some_and(|from| core.is_quiet(from, after)),
        }
    }
}

impl One {
    pub(super) fn moving(&mut self, core: &mut Core, group: &mut dyn Group, mut run: Box<Move>) -> bool {
        let now = core.now;
        run.finds_nobody = false;
        run.barrier.expire(now);
        let quiet = run.is_quiet(core);
        let late = matches!(run.kind, MoveKind::Handover { budget, .. } if budget.is_over(now, quiet));
        if !late && self.writer_lost(core, group, &mut run) {
            self.phase = Phase::Moving(run);
            return false;
        }
        if let MoveKind::Handover { budget, .. } = run.kind {
            if late {
                return self.undo(core, group, *run, "over_budget", None);
            }
            if let Some(from) = run.from.filter(|_| !quiet) {
                cut(core, from, budget, run.since);
            }
        }
        let is_waited_for = !matches!(run.kind, MoveKind::Handover { .. });
        if let Some(order) = run.order.take_if(|_| now >= run.answer_by && is_waited_for) {
            let cause = run.failed.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            let text = match (run.kind, run.from) {
                (MoveKind::Failover, Some(from)) => format!(
                    "no other node has taken over from {} within the budget{cause}: the order has ended, and it goes on as a failover",
                    core.name(from)
                ),
                _ => {
                    let on = if core.writer.is_some() { "the order has ended" } else { "it goes on" };
                    format!("{} has not become the writer within the budget{cause}: {on}", core.name(run.to))
                }
            };
            core.refuse(order.id, "over_budget", text);
            if core.writer.is_some() {
                group.force_is_over();
            }
        }
        // The candidate does not serve any more, or is to be left itself.
        let candidate = core.node(run.to);
        let gone = candidate.finding.serves == Serves::No
            || (matches!(run.kind, MoveKind::Handover { .. }) && candidate.finding.serves == Serves::Leaves);
        if gone {
            let why = candidate.finding.sentence.clone();
            if core.silent_alone(run.to) || core.first_word_awaited(run.to) {
                // No node at all is heard, or the candidate's first status after a new connect is on its way: nothing is known against it yet.
                self.phase = Phase::Moving(run);
                return false;
            }
            return self.next_candidate(core, group, *run, &why);
        }
        // Without the decision on disk no lane opens. In a handover a failed write ends the move, in a failover it is tried again.
        if let Some(ticket) = run.ticket {
            let (written, why) = core.disk.state(ticket);
            if written == Written::Failed {
                let why = why.to_owned();
                if matches!(run.kind, MoveKind::Handover { .. }) {
                    core.say(Level::Error, format!("the decision could not be written to disk: {why}"));
                    return self.undo(core, group, *run, "store", None);
                }
                let text = format!(
                    "{} cannot write yet, the decision could not be written to disk: {why}",
                    core.name(run.to)
                );
                core.hold(text);
                run.ticket = None;
                run.write_after = now + back_off(&core.settings, 4);
            }
        }
        if run.ticket.is_none() && core.disk.written < run.term && now >= run.write_after {
            run.ticket = Some(core.persist());
        }
        if let Barrier::Failed { why } = &run.barrier {
            let why = why.clone();
            return self.next_candidate(core, group, *run, &format!("did not pass the barrier: {why}"));
        }
        let quiet = run.is_quiet(core);
        if quiet && core.node(run.to).doubt.is_none() && run.barrier.may_ask(now) {
            let deadline = core.settings.barrier_deadline;
            let within = match run.kind {
                MoveKind::Handover { budget, .. } => deadline.min(budget.over().saturating_sub(now)),
                MoveKind::Start | MoveKind::Failover => deadline,
            };
            match group.clear_the_way(core, run.from, run.to, run.term, within) {
                Way::Clear => {
                    run.barrier = Barrier::asked(now, &core.settings);
                    let before = match run.kind {
                        MoveKind::Failover => run.from,
                        // It may have been lost a moment before this program was started.
                        MoveKind::Start => core.writer.filter(|writer| *writer != run.to),
                        MoveKind::Handover { .. } => None,
                    };
                    let lost = before.filter(|before| core.node(*before).gone);
                    if group.take_over(core, run.to, run.term, lost, within) {
                        run.barrier = Barrier::Passed;
                    }
                }
                Way::Wait => {}
                Way::Outrun(why) => return self.next_candidate(core, group, *run, &why),
                Way::Blocked(why) if matches!(run.kind, MoveKind::Handover { .. }) => {
                    return self.undo(core, group, *run, "not_fenced", Some(&why));
                }
                Way::Blocked(why) => core.hold(why),
            }
        }
        let on_disk = core.disk.written >= run.term;
        if quiet && on_disk && matches!(run.barrier, Barrier::Passed) && core.node(run.to).doubt.is_none() {
            if let MoveKind::Handover { budget, .. } = run.kind
                && !budget.is_forced()
            {
                let within = budget.over().saturating_sub(now);
                match group.is_followed(core, run.to, run.term, within) {
                    Way::Clear => {}
                    Way::Wait => {
                        self.phase = Phase::Moving(run);
                        return false;
                    }
                    Way::Blocked(why) | Way::Outrun(why) => {
                        return self.undo(core, group, *run, "not_followed", Some(&why));
                    }
                }
            }
            group.taken_over(core, run.to);
            self.taken_over(core, run);
            return true;
        }
        self.phase = Phase::Moving(run);
        false
    }

    /// If the old writer is lost during a handover, turns that into a failover: its transactions are not waited for any more. `true`: it is not
    /// clear yet who is to take over.
    fn writer_lost(&mut self, core: &mut Core, group: &mut dyn Group, run: &mut Move) -> bool {
        let (MoveKind::Handover { .. }, Some(from)) = (run.kind, run.from) else { return false };
        let is_lost = core.node(from).finding.serves == Serves::No
            && !core.silent_alone(from)
            && !core.first_word_awaited(from);
        if !is_lost {
            return false;
        }
        let to = match group.heir(core, from, true) {
            Heir::Any => run.to,
            Heir::This(to) => to,
            // If that lasts longer than the budget, the switchover is undone, and the loss is treated like any other.
            Heir::Soon(why) | Heir::Nobody(why) | Heir::Stay { why, .. } => {
                core.hold = why;
                return true;
            }
        };
        let because = format!(
            "{} {} in the middle of the switchover: it becomes a failover",
            core.name(from),
            core.node(from).finding.sentence
        );
        let how = group.evict_if_allowed(core, from);
        let price = group.price(core, from, to);
        run.kind = MoveKind::Failover;
        core.counts.switchovers_became_failovers += 1;
        core.counts.failovers_begun += 1;
        let chosen = core.chosen(to, Change::Failover);
        let is_another = to != run.to;
        if is_another {
            run.to = to;
            run.term = core.next_term();
            run.barrier = Barrier::Idle;
        }
        group.begin(core, to, run.term, true);
        if is_another {
            run.ticket = Some(core.decide(run.term, Some(to)));
        }
        let text = format!("{because}; {how}{} is to write, term {}{price}", core.name(to), run.term);
        core.say_about(chosen, Level::Warn, text);
        core.hold = because;
        core.set_lane(from, LaneState::Shut);
        false
    }

    /// The candidate cannot take over: tries another one, or the same one later; a handover is undone.
    fn next_candidate(&mut self, core: &mut Core, group: &mut dyn Group, mut run: Move, why: &str) -> bool {
        let name = core.name(run.to).to_owned();
        let failed = run.to;
        if matches!(run.kind, MoveKind::Handover { .. }) {
            core.say(Level::Warn, format!("{name} cannot take over, it {why}"));
            return self.undo(core, group, run, "not_writable", Some(why));
        }
        let from = run.from;
        run.failed = Some(format!("{name} {why}"));
        let next = match group.next_heir(core, core.writer, failed) {
            Heir::Any => {
                run.barrier = Barrier::Idle;
                // Any other would wait for the same, and what is open on the writer would be lost for that.
                let waits = core.writer == Some(failed) && group.is_held_up(core, failed);
                if waits { Ok(failed) } else { elected_after(core, from, failed) }
            }
            Heir::This(to) => Ok(to),
            Heir::Soon(text) => {
                core.hold = text;
                self.phase = Phase::Moving(Box::new(run));
                return false;
            }
            Heir::Nobody(text) | Heir::Stay { why: text, .. } => Err(text),
        };
        let to = match next {
            Ok(to) => to,
            Err(text) if core.writer.is_none() && group.has_order_of_first() => {
                core.hold(text);
                if let Some(order) = run.order {
                    core.refuse(
                        order.id,
                        "not_writable",
                        format!("{name} cannot become the writer: it {why}"),
                    );
                }
                group.first_failed();
                core.decide(core.next_term(), None);
                self.phase = Phase::Starting { until: core.now };
                return false;
            }
            Err(text) => {
                // A writer that was given up because it does not commit may go on when no other node can write.
                self.take_back(core, group);
                core.hold(text);
                run.finds_nobody = true;
                // The decision remains: the first node that can write takes over.
                self.phase = Phase::Moving(Box::new(run));
                return false;
            }
        };
        run.tries += 1;
        let wait = back_off(&core.settings, run.tries);
        let term = if to == failed { run.term } else { core.next_term() };
        // What was said before was said of the other.
        let price = core.writer.filter(|_| to != failed).map(|writer| group.price(core, writer, to));
        let text = format!(
            "{name} {why}: {} is to write, term {term}, asked again in {}{}",
            core.name(to),
            seconds(wait),
            price.unwrap_or_default()
        );
        core.hold_about(core.chosen(to, run.kind.change()), Level::Warn, text);
        if to != failed {
            // The candidate may be the old writer that had come back. What still runs there must not commit after the next candidate has passed
            // the barrier.
            core.set_lane(failed, LaneState::Shut);
            run.to = to;
            run.term = term;
            group.begin(core, to, term, core.writer == Some(failed));
            run.ticket = Some(core.decide(term, Some(to)));
        }
        run.barrier = Barrier::After(core.now + wait);
        self.phase = Phase::Moving(Box::new(run));
        false
    }

    /// Ends a handover that cannot be completed: the old writer's lane opens again, and held statements go on there without an error.
    fn undo(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        run: Move,
        code: &'static str,
        why: Option<&str>,
    ) -> bool {
        let Some(from) = run.from else {
            self.phase = Phase::Starting { until: core.now };
            return true;
        };
        if let Some((node, before)) = run.undrain {
            core.node_mut(node).sessions_max = before;
        }
        // The decision on disk, or on its way there, names the node that did not become the writer: a newer one replaces it.
        let term = core.next_term();
        self.going_on = Some(core.decide(term, Some(from)));
        let took = seconds(core.now.saturating_sub(run.since));
        let quiet = run.is_quiet(core);
        let why = match code {
            "over_budget" if quiet => match group.awaited(core) {
                Some(what) => format!("{what} after {took}"),
                None => format!("{} had not applied everything after {took}", core.name(run.to)),
            },
            "over_budget" => format!("transactions still ran on {} after {took}", core.name(from)),
            "store" => "the decision could not be written to disk".to_owned(),
            "not_fenced" | "not_followed" => why.unwrap_or_default().to_owned(),
            _ => format!("{} {}", core.name(run.to), why.unwrap_or(&core.node(run.to).finding.sentence)),
        };
        // One that was made read only has to be made writable again, which is told when it is.
        let may_be_read_only = group.abandon();
        let how = if may_be_read_only { "is to go on" } else { "goes on" };
        let text = format!(
            "{why}: the switchover to {} is undone, {} {how} writing",
            core.name(run.to),
            core.name(from)
        );
        // Of one that has to be made writable again it is told when it is.
        let about = match may_be_read_only {
            true => About::Other,
            false => About::Undone { node: core.name(from).to_owned() },
        };
        core.say_about(about, Level::Warn, text.clone());
        core.counts.switchovers_undone += 1;
        self.not_before = core.now + HANDOVER_GAP;
        if may_be_read_only {
            // The old writer may be read only by now: it is promoted like a new one, under the new term.
            let mut back = Move::new(core, Some(run.to), from, term, MoveKind::Start);
            back.ticket = self.going_on.take();
            self.phase = Phase::Moving(Box::new(back));
        } else {
            self.phase = Phase::Settled;
            if core.node(from).doubt.is_none() && core.node(from).finding.serves != Serves::No {
                self.open(core, from);
            }
        }
        if let Some(order) = &run.order {
            core.refuse(order.id, code, text);
        }
        true
    }
}

/// The next candidate by the general election, when `failed` could not take over: a third node, else the one that wrote before, else `failed`
/// again.
fn elected_after(core: &Core, from: Option<NodeId>, failed: NodeId) -> Result<NodeId, String> {
    elect_any(&core.nodes, |id| id != failed && Some(id) != from)
        .or_else(|| elect_any(&core.nodes, |id| id != failed))
        .or_else(|| core.node(failed).sound().then_some(failed))
        .ok_or_else(|| format!("no node can write: {}", core.why_nobody()))
}
