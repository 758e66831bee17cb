//! A move of the writer, from the decision to the open lane; or back, or on to another candidate.
//!
//! ```text
//!   write the decision ─┐
//!   old lane quiet ─────┼─> barrier passed ─> finish        candidate lost, barrier failed ─> the next one
//!   (a handover only)   │                                   a handover over its budget ─────> undone
//! ```

use super::{HANDOVER_GAP, One, Phase};
use crate::action::Level;
use crate::core::{Core, Running};
use crate::disk::{Ticket, Written};
use crate::election::{elect_any, ids};
use crate::fact::Now;
use crate::finding::Serves;
use crate::group::{Group, Heir, Way};
use crate::heartbeat::Pulse;
use crate::plan::{Barrier, Budget, back_off, cut};
use crate::problem::seconds;
use crate::routes::LaneState;
use crate::{NodeId, Term};

#[derive(Clone, Debug)]
pub(super) struct Move {
    /// Where statements went until now; `None` at the start.
    pub from: Option<NodeId>,
    pub to: NodeId,
    pub term: Term,
    pub kind: Kind,
    pub ticket: Option<Ticket>,
    /// A failed write is tried again then.
    pub write_after: Now,
    pub barrier: Barrier,
    pub tries: u32,
    pub since: Now,
    pub order: Option<Running>,
    /// The order is answered by then, whatever has become of it.
    pub answer_by: Now,
    /// The limit of sessions to restore when a drain is undone.
    pub undrain: Option<(NodeId, Option<u32>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Start,
    Failover,
    /// Planned: the old lane drains.
    Handover {
        budget: Budget,
        quiet: bool,
        /// Only a quiet seen under routes later than these counts: an earlier draining may have been quiet, too.
        after: u64,
    },
}

impl Move {
    pub fn new(core: &Core, from: Option<NodeId>, to: NodeId, term: Term, kind: Kind) -> Self {
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
            order: None,
            answer_by: core.now,
            undrain: None,
        }
    }
}

impl One {
    pub(super) fn moving(&mut self, core: &mut Core, group: &mut Group, mut run: Box<Move>) -> bool {
        let now = core.now;
        run.barrier.expire(now);
        let late = matches!(run.kind, Kind::Handover { budget, quiet, .. } if budget.is_over(now, quiet));
        if !late && self.writer_lost(core, group, &mut run) {
            self.phase = Phase::Moving(run);
            return false;
        }
        if let Kind::Handover { budget, quiet, .. } = run.kind {
            if budget.is_over(now, quiet) {
                return self.undo(core, group, *run, "over_budget", None);
            }
            if let Some(from) = run.from.filter(|_| !quiet) {
                cut(core, from, budget, run.since);
            }
        }
        if let Some(order) = run.order.take_if(|_| now >= run.answer_by && run.kind == Kind::Failover) {
            let text = format!(
                "{} is lost since the order was given, and no other node has taken over within the budget: it goes on as a failover",
                run.from.map_or("the writer", |from| core.name(from))
            );
            core.refuse(order.id, "over_budget", text);
        }
        // The candidate is not what it was.
        let candidate = core.node(run.to);
        let gone = candidate.verdict.serves == Serves::No
            || (matches!(run.kind, Kind::Handover { .. }) && candidate.verdict.serves == Serves::Leaves);
        if gone {
            let why = candidate.verdict.reason.clone();
            if core.silent_alone(run.to) || core.first_word_awaited(run.to) {
                // We hear nobody, or it is about to speak: keep waiting for this one.
                self.phase = Phase::Moving(run);
                return false;
            }
            return self.next_candidate(core, group, *run, &why);
        }
        // A failed write: tried again, and without it nothing opens.
        if let Some(ticket) = run.ticket {
            let (written, why) = core.disk.state(ticket);
            if written == Written::Failed {
                let why = why.to_owned();
                if matches!(run.kind, Kind::Handover { .. }) {
                    core.say(Level::Error, format!("the decision could not be written to disk: {why}"));
                    return self.undo(core, group, *run, "store", None);
                }
                let text = format!(
                    "{} cannot write yet, the decision could not be written to disk: {why}",
                    core.name(run.to)
                );
                core.hold(Level::Error, text);
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
        let quiet = !matches!(run.kind, Kind::Handover { quiet: false, .. });
        if quiet && core.node(run.to).doubt.is_none() && run.barrier.may_ask(now) {
            let deadline = core.settings.barrier_deadline;
            let within = match run.kind {
                Kind::Handover { budget, .. } => deadline.min(budget.over().saturating_sub(now)),
                Kind::Start | Kind::Failover => deadline,
            };
            match group.clear_the_way(core, run.from, run.to, run.term, within) {
                Way::Clear => {
                    run.barrier = Barrier::asked(now, &core.settings);
                    let is_gone = |from: &NodeId| run.kind == Kind::Failover && core.node(*from).verdict.gone;
                    if group.take_over(core, run.to, run.term, run.from.filter(is_gone), within) {
                        run.barrier = Barrier::Passed;
                    }
                }
                Way::Wait => {}
                Way::Outrun(why) => return self.next_candidate(core, group, *run, &why),
                Way::Blocked(why) if matches!(run.kind, Kind::Handover { .. }) => {
                    return self.undo(core, group, *run, "not_fenced", Some(&why));
                }
                Way::Blocked(why) => core.hold(Level::Error, why),
            }
        }
        let on_disk = core.disk.written >= run.term;
        if quiet && on_disk && matches!(run.barrier, Barrier::Passed) && core.node(run.to).doubt.is_none() {
            group.taken_over(core, run.to);
            self.finish(core, group, *run);
            return true;
        }
        self.phase = Phase::Moving(run);
        false
    }

    /// The old writer died while it was handing over: no more waiting for its transactions. `true`: it is not clear yet what follows.
    fn writer_lost(&mut self, core: &mut Core, group: &mut Group, run: &mut Move) -> bool {
        let (Kind::Handover { .. }, Some(from)) = (run.kind, run.from) else { return false };
        let is_lost = core.node(from).verdict.serves == Serves::No
            && !core.silent_alone(from)
            && !core.first_word_awaited(from);
        if !is_lost {
            return false;
        }
        let to = match group.heir(core, from, true) {
            Heir::Any => run.to,
            Heir::This(to) => to,
            // Over its budget the switchover is undone, and what the writer's loss means is seen then.
            Heir::Soon(why) | Heir::Nobody(why) | Heir::Stay { why, .. } => {
                core.hold = why;
                return true;
            }
        };
        let because = format!(
            "{} {} in the middle of the switchover: it becomes a failover",
            core.name(from),
            core.node(from).verdict.reason
        );
        let how = group.strike(core, from);
        let price = group.price(core, from, to);
        run.kind = Kind::Failover;
        core.counts.switchovers_became_failovers += 1;
        core.counts.failovers_begun += 1;
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
        core.say(
            Level::Warn,
            format!("{because}; {how}{} is to write, term {}{price}", core.name(to), run.term),
        );
        core.hold = because;
        core.set_lane(from, LaneState::Shut);
        false
    }

    fn finish(&mut self, core: &mut Core, group: &Group, run: Move) {
        for id in ids(&core.nodes) {
            if id != run.to {
                core.set_lane(id, LaneState::Shut);
            }
        }
        core.adopt(run.term);
        for node in &mut core.nodes {
            node.pulse = Pulse::default();
        }
        core.writer = Some(run.to);
        core.set_lane(run.to, LaneState::Open);
        core.settled();
        match run.kind {
            Kind::Start => {}
            Kind::Failover => core.counts.failovers_done += 1,
            Kind::Handover { .. } => core.counts.switchovers_done += 1,
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
        core.say(Level::Info, text.clone());
        if let Some(order) = run.order {
            core.answer_done(&order, text);
        }
    }

    /// The chosen one cannot: another, or the same one later, or (in a handover) back.
    fn next_candidate(&mut self, core: &mut Core, group: &mut Group, mut run: Move, why: &str) -> bool {
        let name = core.name(run.to).to_owned();
        let failed = run.to;
        if matches!(run.kind, Kind::Handover { .. }) {
            core.say(Level::Warn, format!("{name} cannot take over, it {why}"));
            return self.undo(core, group, run, "not_writable", Some(why));
        }
        let from = run.from;
        let next = match group.next_heir(core, core.writer, failed) {
            Heir::Any => {
                run.barrier = Barrier::Idle;
                elected_after(core, from, failed)
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
            Err(text) => {
                // One that was given up, since another could write, has to do when no other can.
                self.take_back(core, group);
                core.hold(Level::Error, text);
                // The decision stands; it is carried out as soon as anybody can.
                self.phase = Phase::Moving(Box::new(run));
                return false;
            }
        };
        run.tries += 1;
        let wait = back_off(&core.settings, run.tries);
        let term = if to == failed { run.term } else { core.next_term() };
        let text = format!(
            "{name} {why}: {} is to write, term {term}, asked again in {}",
            core.name(to),
            seconds(wait)
        );
        core.hold(Level::Warn, text);
        if to != failed {
            // It may be the writer that had come back: what still runs there must not commit behind the barrier of another.
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

    /// A handover that must not go on: the old writer goes on, and nobody sees an error.
    fn undo(
        &mut self,
        core: &mut Core,
        group: &mut Group,
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
        // What is on disk, or on its way there, names the writer that did not become one.
        let term = core.next_term();
        self.going_on = Some(core.decide(term, Some(from)));
        let took = seconds(core.now.saturating_sub(run.since));
        let quiet = matches!(run.kind, Kind::Handover { quiet: true, .. });
        let why = match code {
            "over_budget" if quiet => match group.awaited(core) {
                Some(what) => format!("{what} after {took}"),
                None => format!("{} had not applied everything after {took}", core.name(run.to)),
            },
            "over_budget" => format!("transactions still ran on {} after {took}", core.name(from)),
            "store" => "the decision could not be written to disk".to_owned(),
            "not_fenced" => why.unwrap_or_default().to_owned(),
            _ => format!("{} {}", core.name(run.to), why.unwrap_or(&core.node(run.to).verdict.reason)),
        };
        let text = format!(
            "{why}: the switchover to {} is undone, {} goes on writing",
            core.name(run.to),
            core.name(from)
        );
        core.say(Level::Warn, text.clone());
        core.counts.switchovers_undone += 1;
        self.not_before = core.now + HANDOVER_GAP;
        if group.is_fenced() {
            // It may have been made read only: it takes over from itself, under the new term.
            let mut back = Move::new(core, Some(run.to), from, term, Kind::Start);
            back.ticket = self.going_on.take();
            self.phase = Phase::Moving(Box::new(back));
        } else {
            self.phase = Phase::Settled;
            if core.node(from).doubt.is_none() && core.node(from).verdict.serves != Serves::No {
                self.open(core, from);
            }
        }
        if let Some(order) = &run.order {
            core.refuse(order.id, code, text);
        }
        true
    }
}

/// Whom the general election gives when `failed` cannot: another, the one that wrote before, or the same one again.
fn elected_after(core: &Core, from: Option<NodeId>, failed: NodeId) -> Result<NodeId, String> {
    elect_any(&core.nodes, |id| id != failed && Some(id) != from)
        .or_else(|| elect_any(&core.nodes, |id| id != failed))
        .or_else(|| core.node(failed).sound().then_some(failed))
        .ok_or_else(|| format!("no node can write: {}", core.why_nobody()))
}
