//! `writers = "one"`: one sticky writer, its lane open, all others shut.
//!
//! ```text
//!            all checked, or time up             barrier passed and term on disk
//!   Starting ───────────────────────> Moving ───────────────────────────────────> Settled
//!                                      ^  │ ^                                        │
//!                                      │  │ └── writer does not serve: failover ─────┤
//!                                      │  │ └── order, or writer leaves: handover ───┘
//!                                      │  └── handover over budget: undone ──> Settled
//!                                      └── candidate lost or barrier failed: the next one
//! ```
//!
//! In a handover the old lane drains first and the barrier waits for its quiet; in a failover the old lane is shut at once, and
//! write, eviction and barrier run side by side.
//! Invariants: at most one lane is open; a new writer's lane opens only when its term is on disk and its barrier passed.

use std::time::Duration;

use super::{Barrier, Quiet, back_off};
use crate::core::{Core, Running};
use crate::disk::{Ticket, Written};
use crate::election::{elect, elect_any, ids};
use crate::fact::Now;
use crate::health::Serves;
use crate::problem::seconds;
use crate::routes::LaneState;
use crate::settings::Settings;
use crate::view::Level;
use crate::{NodeId, Term};

/// The best candidate's word is waited for so long after the loss, before the next best that has spoken is taken.
const WORD_WAIT: Duration = Duration::from_millis(60);
/// So long a node that is well, and just being asked, is preferred to one that is not.
const SECOND_BEST_WAIT: Duration = Duration::from_millis(500);
/// An undone handover that nobody ordered is tried again after this long.
const HANDOVER_GAP: Duration = Duration::from_secs(30);

pub(crate) struct One {
    phase: Phase,
    /// A handover nobody ordered waits until then.
    not_before: Now,
    /// The writer did not serve and nobody could follow it: when it comes back, it has to pass the barrier like any other.
    shaken: bool,
}

enum Phase {
    Starting { until: Now },
    Settled,
    Moving(Box<Move>),
}

#[derive(Clone, Debug)]
struct Move {
    /// Where statements went until now; `None` at the start.
    from: Option<NodeId>,
    to: NodeId,
    term: Term,
    kind: Kind,
    ticket: Option<Ticket>,
    /// A failed write is tried again then.
    write_after: Now,
    barrier: Barrier,
    tries: u32,
    since: Now,
    order: Option<Running>,
    /// The order is answered by then, whatever has become of it.
    answer_by: Now,
    /// The limit of sessions to restore when a drain is undone.
    undrain: Option<(NodeId, Option<u32>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start,
    Failover,
    /// Planned: the old lane drains until `until`.
    Handover {
        until: Now,
        quiet: bool,
        /// Only a quiet seen under routes later than these counts: an earlier draining may have been quiet, too.
        after: u64,
    },
}

impl One {
    pub fn new(core: &Core) -> Self {
        let patience = core.settings.probe_interval * (core.settings.misses_max + 1);
        Self { phase: Phase::Starting { until: core.now + patience }, not_before: Now::ZERO, shaken: false }
    }

    /// What runs now.
    pub fn doing(&self, core: &Core) -> Option<String> {
        let Phase::Moving(run) = &self.phase else { return None };
        let to = core.name(run.to);
        Some(match (run.kind, run.from) {
            (Kind::Handover { .. }, Some(from)) => {
                format!("switchover from {} to {to}, term {}", core.name(from), run.term)
            }
            (Kind::Failover, Some(from)) => {
                format!("failover from {} to {to}, term {}", core.name(from), run.term)
            }
            _ => format!("start with {to} as writer, term {}", run.term),
        })
    }

    pub fn quiesced(&mut self, quiet: Quiet, core: &Core) {
        if let Phase::Moving(run) = &mut self.phase
            && run.from == Some(quiet.node)
            && core.node(quiet.node).epoch == quiet.epoch
            && core.term == quiet.term
            && let Kind::Handover { quiet: seen, after, .. } = &mut run.kind
            && quiet.version > *after
        {
            *seen = true;
        }
    }

    pub fn barrier_answered(&mut self, node: NodeId, term: Term, failed: Option<&str>) {
        if let Phase::Moving(run) = &mut self.phase
            && run.to == node
            && run.term == term
        {
            run.barrier.answered(failed);
        }
    }

    /// Brings lanes and actions in line with what is true now.
    pub fn step(&mut self, core: &mut Core) {
        // A step may lead to the next at once (a failed candidate to another); each is a state of its own, so a few are enough.
        for _ in 0..4 {
            let again = match std::mem::replace(&mut self.phase, Phase::Settled) {
                Phase::Starting { until } => self.starting(core, until),
                Phase::Settled => self.settled(core),
                Phase::Moving(run) => self.moving(core, run),
            };
            if !again {
                break;
            }
        }
    }

    fn starting(&mut self, core: &mut Core, until: Now) -> bool {
        let waiting = core.nodes.iter().any(|node| node.verdict.problem == "unchecked");
        let sitting = core.writer.filter(|id| core.node(*id).sound() && !core.node(*id).drained());
        // The restored writer is kept without waiting for the others; a new one is chosen when all have been heard, or time is up.
        let choice = sitting.or_else(|| {
            let heard = !waiting || core.now >= until;
            heard.then(|| elect_any(&core.nodes, |_| true)).flatten()
        });
        let Some(to) = choice else {
            self.phase = Phase::Starting { until };
            if !waiting || core.now >= until {
                let text = format!("no node can write: {}", core.why_nobody());
                core.hold(Level::Error, text);
            }
            return false;
        };
        let stays = core.writer == Some(to) && core.term > Term(0);
        let term = if stays { core.term } else { core.next_term() };
        let name = core.name(to).to_owned();
        let because = match core.writer {
            Some(_) if stays => format!("{name} wrote before this start and is healthy"),
            Some(old) => {
                format!("{} wrote before this start and {}", core.name(old), core.node(old).verdict.reason)
            }
            None => "first start".to_owned(),
        };
        let because = format!("{because}: {name} is to write, term {term}");
        core.hold(Level::Info, because);
        let mut run = Move::new(core, None, to, term, Kind::Start);
        if !stays {
            run.ticket = Some(core.persist(term, Some(to)));
        }
        self.phase = Phase::Moving(Box::new(run));
        true
    }

    fn settled(&mut self, core: &mut Core) -> bool {
        self.phase = Phase::Settled;
        let Some(writer) = core.writer else {
            self.phase = Phase::Starting { until: core.now };
            return true;
        };
        let node = core.node(writer);
        if let Some(doubt) = &node.doubt {
            // Running transactions may end, nothing new starts: a false alarm costs one round trip and no error.
            let text = format!("{} is being confirmed as writer: {}", node.name, doubt.why);
            core.hold = text;
            core.set_lane(writer, LaneState::Draining);
            return false;
        }
        if self.shaken && node.verdict.serves != Serves::No {
            self.shaken = false;
            let text = format!(
                "{} is back, and still the writer: it is asked whether it has applied everything",
                node.name
            );
            core.hold(Level::Info, text);
            let run = Move::new(core, None, writer, core.term, Kind::Start);
            self.phase = Phase::Moving(Box::new(run));
            return true;
        }
        match node.verdict.serves {
            Serves::Well | Serves::Stays => {
                self.open(core, writer);
                false
            }
            Serves::Leaves => {
                let other = elect(&core.nodes, None, |id| id != writer);
                match other.filter(|_| core.now >= self.not_before) {
                    Some(to) => {
                        let because = format!("{} {}", node.name, node.verdict.reason);
                        self.hand_over(core, to, Settings::HANDOVER_BUDGET, None, None, &because);
                        true
                    }
                    None => {
                        self.open(core, writer);
                        false
                    }
                }
            }
            Serves::No => self.fail_over(core, writer),
        }
    }

    fn open(&mut self, core: &mut Core, writer: NodeId) {
        if core.node(writer).lane != LaneState::Open {
            core.set_lane(writer, LaneState::Open);
            core.settled();
        }
    }

    /// The writer does not serve: the next one, if there is one.
    fn fail_over(&mut self, core: &mut Core, writer: NodeId) -> bool {
        if core.silent_alone(writer) {
            let text =
                "no node answers any more: it is rather our own network than all of them; nothing is moved"
                    .to_owned();
            core.note(Level::Error, text);
            return false;
        }
        // The successor must have spoken after the loss: what took the writer may have taken it, too.
        let lost = core.node(writer).lost_at.unwrap_or(core.now);
        let mut to = successor(core, lost, |id| id != writer);
        if to.is_some_and(|best| !core.node(best).answered_since(lost)) {
            let waiting = core.now.saturating_sub(lost) < WORD_WAIT;
            let spoke = |id| id != writer && core.node(id).answered_since(lost);
            to = if waiting { None } else { successor(core, lost, spoke) };
            if to.is_none() {
                core.hold = format!(
                    "{} {}: its successor is being asked",
                    core.name(writer),
                    core.node(writer).verdict.reason
                );
                core.set_lane(writer, LaneState::Draining);
                return false;
            }
        }
        let Some(to) = to else {
            let text = format!("no node can write: {}", core.why_nobody());
            core.hold(Level::Error, text);
            core.set_lane(writer, LaneState::Draining);
            self.shaken = true;
            return false;
        };
        self.shaken = false;
        let term = core.next_term();
        let because = format!("{} {}", core.name(writer), core.node(writer).verdict.reason);
        self.start_failover(core, writer, to, term, &because);
        true
    }

    fn start_failover(&mut self, core: &mut Core, from: NodeId, to: NodeId, term: Term, because: &str) {
        let how = strike(core, from);
        let text = format!("{because}: {how}{} is to write, term {term}", core.name(to));
        core.hold = text.clone();
        core.set_lane(from, LaneState::Shut);
        core.say(Level::Warn, text);
        let mut run = Move::new(core, Some(from), to, term, Kind::Failover);
        run.ticket = Some(core.persist(term, Some(to)));
        self.phase = Phase::Moving(Box::new(run));
    }

    fn hand_over(
        &mut self,
        core: &mut Core,
        to: NodeId,
        budget: Duration,
        order: Option<Running>,
        undrain: Option<(NodeId, Option<u32>)>,
        because: &str,
    ) {
        let from = core.writer;
        let term = core.next_term();
        let text = format!("{because}: {} is to write, term {term}", core.name(to));
        core.hold = text.clone();
        core.say(Level::Info, text);
        if let Some(from) = from {
            core.set_lane(from, LaneState::Draining);
        }
        let until = core.now + budget;
        let mut run =
            Move::new(core, from, to, term, Kind::Handover { until, quiet: false, after: core.version });
        run.order = order;
        run.answer_by = until;
        run.undrain = undrain;
        run.ticket = Some(core.persist(term, Some(to)));
        self.phase = Phase::Moving(Box::new(run));
    }

    fn moving(&mut self, core: &mut Core, mut run: Box<Move>) -> bool {
        let now = core.now;
        run.barrier.expire(now);
        // The old writer died while it was handing over: no more waiting for its transactions.
        if let (Kind::Handover { .. }, Some(from)) = (run.kind, run.from)
            && core.node(from).verdict.serves == Serves::No
            && !core.silent_alone(from)
        {
            let because = format!(
                "{} {} in the middle of the switchover: it becomes a failover",
                core.name(from),
                core.node(from).verdict.reason
            );
            let how = strike(core, from);
            core.say(
                Level::Warn,
                format!("{because}; {how}{} is to write, term {}", core.name(run.to), run.term),
            );
            core.hold = because;
            core.set_lane(from, LaneState::Shut);
            run.kind = Kind::Failover;
        }
        if let Kind::Handover { until, .. } = run.kind
            && now >= until
        {
            return self.undo(core, *run, "over_budget", None);
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
            if core.silent_alone(run.to) {
                // We hear nobody: keep waiting for this one.
                self.phase = Phase::Moving(run);
                return false;
            }
            return self.next_candidate(core, *run, &why);
        }
        // A failed write: tried again, and without it nothing opens.
        if let Some(ticket) = run.ticket {
            let (written, why) = core.disk.state(ticket);
            if written == Written::Failed {
                let why = why.to_owned();
                if matches!(run.kind, Kind::Handover { .. }) {
                    core.say(Level::Error, format!("the decision could not be written to disk: {why}"));
                    return self.undo(core, *run, "store", None);
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
            run.ticket = Some(core.persist(run.term, Some(run.to)));
        }
        if let Barrier::Failed { why } = &run.barrier {
            let why = why.clone();
            return self.next_candidate(core, *run, &format!("did not pass the barrier: {why}"));
        }
        let quiet = !matches!(run.kind, Kind::Handover { quiet: false, .. });
        if quiet && core.node(run.to).doubt.is_none() && run.barrier.may_ask(now) {
            run.barrier = Barrier::asked(now, &core.settings);
            core.barrier(run.to, run.term);
        }
        let on_disk = core.disk.written >= run.term;
        if quiet && on_disk && matches!(run.barrier, Barrier::Passed) && core.node(run.to).doubt.is_none() {
            self.finish(core, *run);
            return true;
        }
        self.phase = Phase::Moving(run);
        false
    }

    fn finish(&mut self, core: &mut Core, run: Move) {
        for id in ids(&core.nodes) {
            if id != run.to {
                core.set_lane(id, LaneState::Shut);
            }
        }
        core.adopt(run.term);
        core.writer = Some(run.to);
        core.set_lane(run.to, LaneState::Open);
        core.settled();
        self.phase = Phase::Settled;
        let took = core.now.saturating_sub(run.since);
        let mut text = format!(
            "{} writes, term {}: it has applied everything, {} after the decision",
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
    fn next_candidate(&mut self, core: &mut Core, mut run: Move, why: &str) -> bool {
        let name = core.name(run.to).to_owned();
        let failed = run.to;
        if matches!(run.kind, Kind::Handover { .. }) {
            core.say(Level::Warn, format!("{name} cannot take over, it {why}"));
            return self.undo(core, run, "not_writable", Some(why));
        }
        let from = run.from;
        let other = elect_any(&core.nodes, |id| id != failed && Some(id) != from)
            .or_else(|| elect_any(&core.nodes, |id| id != failed));
        let again = core.node(failed).sound();
        let Some(to) = other.or(again.then_some(failed)) else {
            let text = format!("no node can write: {}", core.why_nobody());
            core.hold(Level::Error, text);
            run.barrier = Barrier::Idle;
            // The decision stands; it is carried out as soon as anybody can.
            self.phase = Phase::Moving(Box::new(run));
            return false;
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
            run.to = to;
            run.term = term;
            run.ticket = Some(core.persist(term, Some(to)));
        }
        run.barrier = Barrier::After(core.now + wait);
        self.phase = Phase::Moving(Box::new(run));
        false
    }

    /// A handover that must not go on: the old writer goes on, and nobody sees an error.
    fn undo(&mut self, core: &mut Core, run: Move, code: &'static str, why: Option<&str>) -> bool {
        let Some(from) = run.from else {
            self.phase = Phase::Starting { until: core.now };
            return true;
        };
        if let Some((node, before)) = run.undrain {
            core.node_mut(node).sessions_max = before;
        }
        // What is on disk, or on its way there, names the writer that did not become one.
        let term = core.next_term();
        core.persist(term, Some(from));
        let took = seconds(core.now.saturating_sub(run.since));
        let quiet = matches!(run.kind, Kind::Handover { quiet: true, .. });
        let why = match code {
            "over_budget" if quiet => {
                format!("{} had not applied everything after {took}", core.name(run.to))
            }
            "over_budget" => format!("transactions still ran on {} after {took}", core.name(from)),
            "store" => "the decision could not be written to disk".to_owned(),
            _ => format!("{} {}", core.name(run.to), why.unwrap_or(&core.node(run.to).verdict.reason)),
        };
        let text = format!(
            "{why}: the switchover to {} is undone, {} goes on writing",
            core.name(run.to),
            core.name(from)
        );
        core.say(Level::Warn, text.clone());
        self.not_before = core.now + HANDOVER_GAP;
        self.phase = Phase::Settled;
        if core.node(from).doubt.is_none() && core.node(from).verdict.serves != Serves::No {
            self.open(core, from);
        }
        if let Some(order) = &run.order {
            core.refuse(order.id, code, text);
        }
        true
    }

    // ---- orders

    /// Moves the writer, if that may be tried now.
    pub fn switchover(&mut self, core: &mut Core, order: Running, to: Option<NodeId>, budget: Duration) {
        let Some(writer) = self.may_order(core, &order) else { return };
        if to == Some(writer) {
            let text = format!("{} already is the writer, term {}", core.name(writer), core.term);
            core.answer_done(&order, text);
            return;
        }
        let Some(to) = self.pick(core, &order, writer, to, "not_writable") else { return };
        let because = order.what.clone();
        self.hand_over(core, to, budget, Some(order), None, &because);
    }

    /// Drains a node; the writer is moved away first. `false` when it is not the writer: nothing has to be moved.
    pub fn drain(&mut self, core: &mut Core, order: &Running, node: NodeId, budget: Duration) -> bool {
        if core.writer != Some(node) {
            return false;
        }
        let Some(writer) = self.may_order(core, order) else { return true };
        let Some(to) = self.pick(core, order, writer, None, "last_node") else { return true };
        let before = core.node(node).sessions_max;
        core.node_mut(node).limit(Some(0));
        let because = order.what.clone();
        self.hand_over(core, to, budget, Some(order.clone()), Some((node, before)), &because);
        true
    }

    /// Whether an order may start; else it is refused.
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
                        core.node(to).verdict.state.word(),
                        core.node(to).verdict.reason
                    ),
                },
                None => format!("no other node can become the writer: {}", core.why_nobody()),
            };
            core.refuse(order.id, code, text);
        }
        picked
    }
}

/// Who follows a writer lost at `lost`. One that only stays (a donor) or should leave is taken when no node is well, or when the
/// well ones have not spoken up in a while.
fn successor(core: &Core, lost: Now, allowed: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let well = elect(&core.nodes, None, &allowed);
    let coming = ids(&core.nodes).any(|id| allowed(id) && core.node(id).verdict.serves == Serves::Well);
    if well.is_some() || (coming && core.now.saturating_sub(lost) < SECOND_BEST_WAIT) {
        return well;
    }
    elect_any(&core.nodes, allowed)
}

/// The eviction that belongs to a failover, if it is allowed at this moment; and its part of the sentence.
fn strike(core: &mut Core, from: NodeId) -> String {
    match core.warrant().filter(|warrant| warrant.victim == from) {
        Some(warrant) => {
            core.evict(&warrant);
            format!("evicting it through {}; ", core.name(warrant.via))
        }
        None => String::new(),
    }
}

impl Move {
    fn new(core: &Core, from: Option<NodeId>, to: NodeId, term: Term, kind: Kind) -> Self {
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
