//! `writers = "one"`: one node is the writer; its lane is open and all others are shut. It stays the writer until it is lost, leaves, or an
//! operator moves it.
//!
//! ```text
//!            all checked, or time up             barrier passed and term on disk
//!   Starting ───────────────────────> Moving ─────────────────────> Opening ────> Settled
//!                                      ^  │ ^                                        │
//!                                      │  │ └── writer does not serve: failover ─────┤
//!                                      │  │ └── order, or writer leaves: handover ───┘
//!                                      │  └── handover over budget: undone ──> Settled
//!                                      └── candidate lost or barrier failed: the next one
//! ```
//!
//! In a handover (a planned switchover, or a writer that is to be left) the old lane drains first, and the barrier is asked for when no
//! transaction runs there any more. In a failover the old lane is shut at once; the decision's write to disk, the eviction of the lost node
//! and the barrier on the new one run at the same time. Opening: the new writer has taken over, and is opened at once, except where replicas
//! have to attach to it first.
//! Invariants: at most one lane is open; a new writer's lane opens only when its term is on disk and its barrier passed.

mod informed;
mod moving;
mod opening;
mod orders;
mod relief;

use std::time::Duration;

use self::informed::Informed;
use self::moving::{Move, MoveKind};
use super::{Budget, back_off};
use crate::about::{About, Change};
use crate::action::Level;
use crate::core::{Core, Running};
use crate::disk::{Ticket, Written};
use crate::election::{elect, elect_any};
use crate::finding::{Problem, Serves};
use crate::group::{Group, Heir};
use crate::routes::LaneState;
use crate::settings::Settings;
use crate::time::Now;
use crate::{NodeId, Term};

/// How long after the loss the best candidate's status is waited for, before the next best that has answered is taken.
const WORD_WAIT: Duration = Duration::from_millis(60);
/// How long after the loss a node that is well and has not answered yet is waited for, before a donor or a node in maintenance is taken.
const SECOND_BEST_WAIT: Duration = Duration::from_millis(500);
/// After a handover was undone, the next one that no operator ordered begins after this long.
const HANDOVER_GAP: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct One {
    phase: Phase,
    /// A handover that no operator ordered does not begin before this.
    not_before: Now,
    /// After a handover was undone: the write of the decision that names the old writer again. Repeated until it is on disk, or a newer
    /// decision has replaced it.
    going_on: Option<Ticket>,
    going_on_after: Now,
    /// The writer was lost while no node could replace it. When it is back, it has to pass the barrier like any new writer before its lane
    /// opens.
    barrier_needed: bool,
    /// A writer that answers and does not commit is not replaced before this.
    relief_after: Now,
    /// When the journal was last told why it is not replaced.
    relief_said: Option<Now>,
    /// When a move of the writer by another program was last seen to be complete (cluster.manager = "external").
    followed_at: Option<Now>,
}

#[derive(Clone)]
enum Phase {
    Starting {
        until: Now,
    },
    Settled,
    Moving(Box<Move>),
    /// The new writer has taken over, and its lane is not open yet.
    Opening(Box<Move>),
    /// Another program is about to move the writer.
    Informed(Box<Informed>),
}

impl One {
    pub fn new(core: &Core) -> Self {
        let patience = core.settings.probe_interval * (core.settings.misses_max + 1);
        Self {
            phase: Phase::Starting { until: core.now + patience },
            not_before: Now::ZERO,
            going_on: None,
            going_on_after: Now::ZERO,
            barrier_needed: false,
            relief_after: Now::ZERO,
            relief_said: None,
            followed_at: None,
        }
    }

    /// What runs now.
    pub fn doing(&self, core: &Core) -> Option<String> {
        let run = match &self.phase {
            Phase::Moving(run) | Phase::Opening(run) => run,
            Phase::Informed(run) => return Some(Self::announced(core, run)),
            Phase::Starting { .. } | Phase::Settled => return None,
        };
        let to = core.name(run.to);
        Some(match (run.kind, run.from) {
            (MoveKind::Handover { .. }, Some(from)) => {
                format!("switchover from {} to {to}, term {}", core.name(from), run.term)
            }
            (MoveKind::Failover, Some(from)) => {
                format!("failover from {} to {to}, term {}", core.name(from), run.term)
            }
            _ => format!("start with {to} as writer, term {}", run.term),
        })
    }

    pub fn barrier_answered(&mut self, node: NodeId, term: Term, failed: Option<&str>) {
        if let Phase::Moving(run) = &mut self.phase
            && run.to == node
            && run.term == term
        {
            run.barrier.answered(failed);
        }
    }

    /// This process did not run for a while: an answer to the barrier from before that may not be true any more, so it is asked for again.
    pub fn slept(&mut self) {
        if let Phase::Moving(run) = &mut self.phase {
            run.barrier.reset();
        }
    }

    /// A node has a new connection: it may have restarted since it passed the barrier, without some of what it had then, and read only.
    pub fn linked(&mut self, node: NodeId) {
        if let Phase::Moving(run) = &mut self.phase
            && run.to == node
        {
            run.barrier.reset();
        }
    }

    /// Brings lanes and actions in line with what is true now.
    pub fn step(&mut self, core: &mut Core, group: &mut dyn Group) {
        self.write_again(core);
        // One phase may lead to the next at once (start to move, a failed candidate to another). Five are enough for any such sequence; whatever
        // remains is done with the next fact, 20 ms later at the most.
        for _ in 0..5 {
            let again = match std::mem::replace(&mut self.phase, Phase::Settled) {
                Phase::Starting { until } => self.starting(core, group, until),
                Phase::Settled => self.settled(core, group),
                Phase::Moving(run) => self.moving(core, group, run),
                Phase::Opening(run) => self.opening(core, group, run),
                Phase::Informed(run) => self.informed(core, group, run),
            };
            if !again {
                break;
            }
        }
    }

    /// After a handover was undone, the decision on disk must not go on naming the node that did not become the writer.
    fn write_again(&mut self, core: &mut Core) {
        let Some(ticket) = self.going_on else { return };
        match core.disk.state(ticket).0 {
            Written::Pending => self.going_on_after = core.now + back_off(&core.settings, 4),
            Written::Done => self.going_on = None,
            Written::Failed if matches!(self.phase, Phase::Moving(_)) => self.going_on = None,
            Written::Failed if core.now >= self.going_on_after => self.going_on = Some(core.persist()),
            Written::Failed => {}
        }
    }

    fn starting(&mut self, core: &mut Core, group: &mut dyn Group, until: Now) -> bool {
        let time_up = is_time_up(core, until);
        let (choice, held) = match group.start(core, time_up) {
            Heir::Any => (self.first_choice(core, time_up), None),
            Heir::This(to) => (Some(to), None),
            Heir::Soon(why) => {
                core.hold = why;
                self.phase = Phase::Starting { until };
                return false;
            }
            Heir::Nobody(why) | Heir::Stay { why, .. } => (None, Some(why)),
        };
        let Some(to) = choice else {
            self.phase = Phase::Starting { until };
            if time_up {
                let text = held.unwrap_or_else(|| format!("no node can write: {}", core.why_nobody()));
                core.hold(text);
            }
            return false;
        };
        let stays = core.writer == Some(to) && core.term > Term(0);
        let term = if stays { core.term } else { core.next_term() };
        let name = core.name(to).to_owned();
        let because = match core.writer {
            Some(_) if stays => format!("{name} wrote before this start and is healthy"),
            Some(old) => {
                format!("{} wrote before this start and {}", core.name(old), core.node(old).finding.sentence)
            }
            None => "first start".to_owned(),
        };
        let lost = core.writer.filter(|old| *old != to && core.node(*old).finding.serves == Serves::No);
        let price = lost.map(|lost| group.price(core, lost, to)).unwrap_or_default();
        let because = format!("{because}: {name} is to write, term {term}{price}");
        core.hold_about(core.chosen(to, Change::Start), Level::Info, because);
        let mut run = Move::new(core, None, to, term, MoveKind::Start);
        group.begin(core, to, term, lost.is_some());
        if !stays {
            run.ticket = Some(core.decide(term, Some(to)));
        }
        self.phase = Phase::Moving(Box::new(run));
        // If it serves, the move goes on in this very step.
        core.node(to).finding.serves != Serves::No
    }

    /// The writer of before this start is kept without waiting for the other nodes, if it is well. Another one is elected when all nodes have
    /// been checked, or the time for that is up.
    fn first_choice(&self, core: &Core, time_up: bool) -> Option<NodeId> {
        let sitting = core.writer.filter(|id| core.node(*id).sound() && !core.node(*id).drained());
        sitting.or_else(|| time_up.then(|| elect_any(&core.nodes, |_| true)).flatten())
    }

    fn settled(&mut self, core: &mut Core, group: &mut dyn Group) -> bool {
        self.phase = Phase::Settled;
        let Some(writer) = core.writer else {
            self.phase = Phase::Starting { until: core.now };
            return true;
        };
        let node = core.node(writer);
        if let Some(doubt) = &node.doubt {
            // Running transactions may end, no new one starts: a doubt that proves wrong costs clients one round trip, and no error.
            let text = format!("{} is being confirmed as writer: {}", node.name, doubt.why);
            core.hold = text;
            core.set_lane(writer, LaneState::Draining);
            return false;
        }
        if self.barrier_needed && node.finding.serves != Serves::No {
            self.barrier_needed = false;
            let text = format!(
                "{} is back, and still the writer: it is asked whether it has applied everything",
                node.name
            );
            core.hold_about(core.chosen(writer, Change::Start), Level::Info, text);
            let run = Move::new(core, None, writer, core.term, MoveKind::Start);
            self.phase = Phase::Moving(Box::new(run));
            return true;
        }
        match node.finding.serves {
            Serves::Well | Serves::Stays | Serves::Leaves
                if node.lane != LaneState::Open && group.has_primary() && node.lost_at.is_some() =>
            {
                core.hold = format!("{} has not answered yet since it was lost", node.name);
                core.ask_probe(writer);
                false
            }
            Serves::Well | Serves::Stays => {
                if self.relieve(core, group, writer) {
                    return true;
                }
                if core.node(writer).lane != LaneState::Open
                    && let Some(awaited) = group.unattached_again(core, writer)
                {
                    core.hold = awaited;
                    return false;
                }
                self.open(core, writer);
                false
            }
            // Handing over is not possible, or not ours to do: another program makes servers writable here, or a replica would have to be
            // promoted only because new connections fail.
            Serves::Leaves
                if group.follows(core)
                    || node.finding.problem == Problem::ShutOut && !group.hands_over(core) =>
            {
                self.open(core, writer);
                false
            }
            Serves::Leaves => {
                let other = elect(&core.nodes, None, |id| id != writer);
                match other.filter(|_| core.now >= self.not_before) {
                    Some(to) => {
                        let because = format!("{} {}", node.name, node.finding.sentence);
                        let budget = Budget::new(core.now, Settings::HANDOVER_BUDGET, false);
                        self.hand_over(core, to, budget, None, None, &because);
                        true
                    }
                    None => {
                        self.open(core, writer);
                        false
                    }
                }
            }
            // What other nodes say of it may be older than its new connection: its own status comes first.
            Serves::No if core.first_word_awaited(writer) => {
                let text = format!("{} is linked again: its first word is awaited", node.name);
                let is_open = node.lane == LaneState::Open;
                core.hold = text;
                if is_open {
                    core.set_lane(writer, LaneState::Draining);
                }
                core.ask_probe(writer);
                false
            }
            Serves::No => self.fail_over(core, group, writer),
        }
    }

    fn open(&mut self, core: &mut Core, writer: NodeId) {
        if core.node(writer).lane != LaneState::Open {
            core.set_lane(writer, LaneState::Open);
            core.settled();
            core.say_again(writer);
        }
    }

    /// The writer does not serve: fails over to another node, or holds traffic while that is unclear or impossible.
    fn fail_over(&mut self, core: &mut Core, group: &mut dyn Group, writer: NodeId) -> bool {
        if core.silent_alone(writer) {
            let text =
                "no node answers any more: it is rather our own network than all of them; nothing is moved"
                    .to_owned();
            core.note_about(unless_open(core, writer), Level::Error, text);
            return false;
        }
        let to = match group.heir(core, writer, false) {
            Heir::Any => match self.elected(core, writer) {
                Some(to) => to,
                None => return false,
            },
            Heir::This(to) => to,
            Heir::Soon(why) => {
                core.hold = why;
                core.set_lane(writer, LaneState::Draining);
                return false;
            }
            Heir::Nobody(why) => {
                core.hold(why);
                core.set_lane(writer, LaneState::Draining);
                return false;
            }
            Heir::Stay { why, serves } => {
                let about = if serves { About::Other } else { unless_open(core, writer) };
                core.note_about(about, Level::Error, why.clone());
                core.hold = why;
                if serves {
                    core.set_lane(writer, LaneState::Open);
                    core.say_again(writer);
                }
                return false;
            }
        };
        let because = format!("{} {}", core.name(writer), core.node(writer).finding.sentence);
        self.replace(core, group, writer, to, &because, None);
        core.node(to).finding.serves != Serves::No
    }

    /// The successor of a lost writer where the general election decides. `None`: none can be chosen at this moment, and traffic is held.
    fn elected(&mut self, core: &mut Core, writer: NodeId) -> Option<NodeId> {
        // Only a node that has answered a query sent after the loss: the same event may have hit several nodes.
        let node = core.node(writer);
        let lost = node.lost_at.or(node.unfit_since).unwrap_or(core.now);
        let mut to = successor(core, lost, |id| id != writer);
        if to.is_some_and(|best| !core.node(best).answered_since(lost)) {
            let waiting = core.now.saturating_sub(lost) < WORD_WAIT;
            let spoke = |id| id != writer && core.node(id).answered_since(lost);
            to = if waiting { None } else { successor(core, lost, spoke) };
            if to.is_none() {
                core.hold = format!(
                    "{} {}: its successor is being asked",
                    core.name(writer),
                    core.node(writer).finding.sentence
                );
                core.set_lane(writer, LaneState::Draining);
                return None;
            }
        }
        if to.is_none() {
            let text = format!("no node can write: {}", core.why_nobody());
            core.hold(text);
            core.set_lane(writer, LaneState::Draining);
            self.barrier_needed = true;
        }
        to
    }

    /// Begins a failover. `order`: the operator's order that it carries out, and when that has to be answered at the latest.
    fn replace(
        &mut self,
        core: &mut Core,
        group: &mut dyn Group,
        writer: NodeId,
        to: NodeId,
        because: &str,
        order: Option<(Running, Now)>,
    ) {
        self.barrier_needed = false;
        let term = core.next_term();
        let how = group.evict_if_allowed(core, writer);
        let price = group.price(core, writer, to);
        let text = format!("{because}: {how}{} is to write, term {term}{price}", core.name(to));
        core.hold = text.clone();
        core.set_lane(writer, LaneState::Shut);
        let (from, kind) =
            if to == writer { (None, MoveKind::Start) } else { (Some(writer), MoveKind::Failover) };
        let change = if group.follows(core) { Change::Followed } else { kind.change() };
        core.say_about(core.chosen(to, change), Level::Warn, text);
        core.counts.failovers_begun += u64::from(kind == MoveKind::Failover);
        let mut run = Move::new(core, from, to, term, kind);
        group.begin(core, to, term, order.is_none() && to != writer);
        run.ticket = Some(core.decide(term, Some(to)));
        if let Some((order, until)) = order {
            run.answer_by = until;
            run.order = Some(order);
        }
        self.phase = Phase::Moving(Box::new(run));
    }

    fn hand_over(
        &mut self,
        core: &mut Core,
        to: NodeId,
        budget: Budget,
        order: Option<Running>,
        undrain: Option<(NodeId, Option<u32>)>,
        because: &str,
    ) {
        let from = core.writer;
        let term = core.next_term();
        let text = format!("{because}: {} is to write, term {term}", core.name(to));
        core.hold = text.clone();
        core.say_about(core.chosen(to, Change::Switchover), Level::Info, text);
        if let Some(from) = from {
            core.set_lane(from, LaneState::Draining);
        }
        let mut run = Move::new(core, from, to, term, MoveKind::Handover { budget, after: core.version });
        run.order = order;
        run.answer_by = budget.over();
        run.undrain = undrain;
        run.ticket = Some(core.decide(term, Some(to)));
        self.phase = Phase::Moving(Box::new(run));
    }
}

/// What it is about that no other node takes over: while the writer's lane is not open, nobody writes.
fn unless_open(core: &Core, writer: NodeId) -> About {
    if core.node(writer).lane == LaneState::Open { About::Other } else { About::NobodyWrites }
}

/// At a start: every node has been checked, or is not waited for any longer.
fn is_time_up(core: &Core, until: Now) -> bool {
    core.now >= until || core.nodes.iter().all(|node| node.finding.problem != Problem::Unchecked)
}

/// The successor of a writer that was lost at `lost`. A node that is not well (a donor, in maintenance) is taken only when no node is well,
/// or when those that are have not answered for a while.
fn successor(core: &Core, lost: Now, allowed: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let well = elect(&core.nodes, None, &allowed);
    let coming = core.nodes.ids().any(|id| allowed(id) && core.node(id).finding.serves == Serves::Well);
    if well.is_some() || (coming && core.now.saturating_sub(lost) < SECOND_BEST_WAIT) {
        return well;
    }
    elect_any(&core.nodes, allowed)
}
