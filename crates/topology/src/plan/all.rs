//! `writers = "all"`: every healthy node's lane is open.
//!
//! ```text
//!           barrier passed             doubt: until it answers
//!   Shut ─────────────────> Open ─────────────────────────────────────> Draining
//!    ^                         ^   reports that it does not serve: 5 s       │ │
//!    │                         │   a node was lost or is held: all others   │ │
//!    │                         └────────── barrier passed again ────────────┘ │
//!    └──── dead, silent, the group has gone on without it, or held for 5 s ───┘
//! ```
//!
//! A lane opens only when its node has passed the barrier: it reports that it has applied everything that the group has. When a node is lost,
//! new transactions on the others wait until each has passed the barrier again (about a millisecond), so that a session that wrote through the
//! lost node finds its own writes on the next one.
//!
//! Shutting a lane cuts its connections, and sessions with a temporary table or a lock do not survive that. So a node that only reports of itself
//! that it does not serve (not Primary, not ready, read only) is held for 5 s before it is shut: healthy members report the same for a moment
//! while their group agrees on its next view.
//! Invariants: each loss takes a new term, which is on disk before a lane opens under it; shutting a lane increases its epoch.

use std::time::Duration;

use super::{Barrier, Budget, back_off, cut};
use crate::about::About;
use crate::action::Level;
use crate::core::{Core, Running};
use crate::disk::{Ticket, Written};
use crate::finding::{Problem, Serves};
use crate::group::{Group, Relief};
use crate::judgement::judge_all;
use crate::nodes::ById;
use crate::routes::{Cut, LaneState};
use crate::settings::Settings;
use crate::time::{Now, seconds};
use crate::{NodeId, Term};

#[derive(Clone)]
pub(crate) struct All {
    entries: ById<Entry>,
    /// The term under which lanes open; higher than `core.term` while it is being written to disk.
    term: Term,
    ticket: Option<Ticket>,
    write_after: Now,
    round_since: Now,
    leaving: Option<Leaving>,
}

/// How long a node that reports that it does not serve is held before its connections are cut. Galera has agreed on its next view by then:
/// evs.suspect_timeout is 5 s, and has passed for the others when a node reports this.
const WORD_HELD: Duration = Duration::from_secs(5);

/// How far a node is on its way to an open lane.
#[derive(Clone, Debug, Default)]
struct Entry {
    barrier: Barrier,
    tries: u32,
    /// Since when it is held for what it reports of itself.
    held_since: Option<Now>,
    /// It is in maintenance: since when it drains for that, and how long its transactions may take to end.
    leave: Option<(Now, Budget)>,
    /// The routes' version before that draining began.
    leave_after: u64,
}

impl Entry {
    /// Begins anew. An answer that is on its way was given for before, and does not count.
    fn reset(&mut self) {
        let mut barrier = std::mem::take(&mut self.barrier);
        barrier.reset();
        *self = Self { barrier, ..Self::default() };
    }
}

/// A drain that an operator ordered.
#[derive(Clone, Debug)]
struct Leaving {
    node: NodeId,
    budget: Budget,
    /// The routes' version before the draining began: a `Quiesced` counts only under later ones.
    after: u64,
    before: Option<u32>,
    ticket: Ticket,
    order: Running,
}

impl All {
    pub fn new(core: &Core) -> Self {
        let term = if core.term == Term(0) { Term(1) } else { core.term };
        Self {
            entries: ById::new(core.nodes.len()),
            term,
            ticket: None,
            write_after: core.now,
            round_since: core.now,
            leaving: None,
        }
    }

    /// What runs now.
    pub fn doing(&self, core: &Core) -> Option<String> {
        let leaving = self.leaving.as_ref()?;
        Some(format!("drain of {}", core.name(leaving.node)))
    }

    /// What the node was asked or is waited for, apart from [`Self::doing`].
    pub fn asked(&self, core: &Core, id: NodeId) -> Option<String> {
        let entry = &self.entries[id];
        let is_asked = matches!(entry.barrier, Barrier::Asked { .. }) || entry.leave.is_some();
        let text = || {
            format!("{} is being asked whether it has applied everything, or is being left", core.name(id))
        };
        is_asked.then(text)
    }

    /// The configuration has that node from now on.
    pub fn added(&mut self, id: NodeId) {
        self.entries.put(id, Entry::default());
    }

    pub fn barrier_answered(&mut self, node: NodeId, term: Term, failed: Option<&str>) {
        if term == self.term {
            self.entries[node].barrier.answered(failed);
        }
    }

    /// Brings lanes and actions in line with what is true now.
    pub fn step(&mut self, core: &mut Core, group: &mut dyn Group) {
        self.write(core);
        let ids: Vec<NodeId> = core.nodes.ids().collect();
        for id in &ids {
            self.node(core, group, *id);
        }
        self.finish_drain(core);
        if core.any_open() {
            // While all nodes are silent, an open lane does not mean that the trouble is over: it is still said only once.
            if !ids.iter().any(|id| core.silent_alone(*id)) {
                core.settled();
            }
        } else if core.nodes.iter().all(|node| node.finding.serves == Serves::No) {
            let unchecked = core.nodes.iter().any(|node| node.finding.problem == Problem::Unchecked);
            let text = format!("no node can write: {}", core.why_nobody());
            if unchecked { core.hold = text } else { core.hold(text) }
        } else {
            core.hold =
                format!("the nodes are asked whether they have applied everything: {}", core.why_nobody());
        }
    }

    fn node(&mut self, core: &mut Core, group: &mut dyn Group, id: NodeId) {
        let now = core.now;
        self.entries[id].barrier.expire(now);
        if core.node(id).finding.serves != Serves::No {
            self.entries[id].held_since = None;
        }
        if core.silent_alone(id) {
            if core.node(id).lane == LaneState::Open {
                let text = "no node answers any more: it is rather our own network than all of them; nothing is moved";
                core.note(Level::Error, text.to_owned());
            }
            return;
        }
        let node = core.node(id);
        if node.doubt.is_some() {
            if node.lane == LaneState::Open {
                core.set_lane(id, LaneState::Draining);
                // Its connections were not cut, so the answer that ended the doubt is enough: no barrier.
            }
            return;
        }
        if node.pulse.is_stuck(now, core.settings.heartbeat.stuck_max)
            && !node.pulse.is_given_up()
            && group.relief(core, id) == Relief::Clear
        {
            let now = core.now;
            core.node_mut(id).pulse.give_up(now);
            judge_all(core, group);
            let how = group.evict_if_allowed(core, id);
            if !how.is_empty() {
                let text =
                    format!("{} {}: {how}others commit", core.name(id), core.node(id).finding.sentence);
                core.say(Level::Warn, text);
            }
        }
        let node = core.node(id);
        match node.finding.serves {
            Serves::No if self.is_lost(core, id) => self.lost(core, group, id),
            Serves::No => self.hold(core, id),
            Serves::Leaves if node.lane == LaneState::Shut => self.entries[id].reset(),
            Serves::Leaves if node.drained() => self.drained(core, id),
            Serves::Leaves if node.finding.problem == Problem::ShutOut => self.stays(core, id),
            Serves::Leaves => self.leaves(core, id),
            Serves::Stays if node.lane == LaneState::Shut && self.another_well(core, id) => {}
            Serves::Well | Serves::Stays => {
                self.entries[id].leave = None;
                core.node_mut(id).turned_away = false;
                self.enter(core, id);
            }
        }
    }

    /// Whether all that was held may go on.
    fn is_lost(&self, core: &Core, id: NodeId) -> bool {
        let node = core.node(id);
        let held = self.entries[id].held_since;
        node.lane == LaneState::Shut
            || node.gone
            || held.is_some_and(|since| core.now.saturating_sub(since) >= WORD_HELD)
    }

    /// The node reports that it does not serve, which may be over in a moment: it gets no new transactions. Its sessions may go to other nodes
    /// meanwhile, and find their own writes there.
    fn hold(&mut self, core: &mut Core, id: NodeId) {
        let entry = &mut self.entries[id];
        if entry.held_since.is_some() {
            return;
        }
        entry.held_since = Some(core.now);
        entry.barrier.reset();
        core.set_lane(id, LaneState::Draining);
        if self.another_serves(core, id) {
            let because = format!("{} {}", core.name(id), core.node(id).finding.sentence);
            let text = format!("{because}: it is held, the others go on when they have applied everything");
            core.say(Level::Warn, text);
            self.ask_others(core, id);
        }
    }

    /// Holds the other open lanes until their nodes have applied all that went through this one.
    fn ask_others(&mut self, core: &mut Core, id: NodeId) {
        self.round_since = core.now;
        for other in core.nodes.ids().filter(|other| *other != id) {
            let entry = &mut self.entries[other];
            entry.barrier.reset();
            entry.tries = 0;
            if core.node(other).lane == LaneState::Open {
                core.set_lane(other, LaneState::Draining);
                self.enter(core, other);
            }
        }
    }

    fn another_serves(&self, core: &Core, id: NodeId) -> bool {
        core.nodes.ids().any(|other| other != id && core.node(other).finding.serves != Serves::No)
    }

    /// A node that must not be used any more.
    fn lost(&mut self, core: &mut Core, group: &mut dyn Group, id: NodeId) {
        self.entries[id].reset();
        let lane = core.node(id).lane;
        if lane == LaneState::Shut {
            return;
        }
        if !self.another_serves(core, id) {
            // No node serves: traffic is held and nothing is cut, since the transactions may go on if this node comes back.
            core.set_lane(id, LaneState::Draining);
            return;
        }
        core.set_lane(id, LaneState::Shut);
        let because = format!("{} {}", core.name(id), core.node(id).finding.sentence);
        let how = group.evict_if_allowed(core, id);
        self.term = core.next_term();
        self.ticket = Some(core.decide(self.term, None));
        let text =
            format!("{because}: {how}the others go on when they have applied everything, term {}", self.term);
        core.say_about(About::Lost { node: core.name(id).to_owned() }, Level::Warn, text);
        // Answers to an older term do not count.
        self.entries.iter_mut().for_each(|entry| entry.barrier = Barrier::Idle);
        self.ask_others(core, id);
    }

    /// Takes a node that serves through the barrier to an open lane.
    fn enter(&mut self, core: &mut Core, id: NodeId) {
        let now = core.now;
        let node = core.node(id);
        if node.lane == LaneState::Open || node.drained() || node.doubt.is_some() || !node.sound() {
            return;
        }
        let entry = &mut self.entries[id];
        if let Barrier::Failed { why } = &entry.barrier {
            entry.tries += 1;
            let wait = back_off(&core.settings, entry.tries);
            let text =
                format!("{} did not pass the barrier: {why}; asked again in {}", node.name, seconds(wait));
            entry.barrier = Barrier::After(now + wait);
            core.say(Level::Warn, text);
            return;
        }
        if entry.barrier.may_ask(now) {
            entry.barrier = Barrier::asked(now, &core.settings);
            core.barrier(id, self.term, None);
        }
        let entry = &self.entries[id];
        if matches!(entry.barrier, Barrier::Passed) && core.disk.written >= self.term {
            core.adopt(self.term);
            core.stop_unexpected(id);
            let held = !core.any_open();
            core.set_lane(id, LaneState::Open);
            let mut text = format!("{} writes, term {}: it has applied everything", core.name(id), self.term);
            if held && self.round_since > Duration::ZERO {
                let took = seconds(now.saturating_sub(self.round_since));
                text = format!("{text}, {took} after the decision");
            }
            let about = if held { About::Writes { node: core.name(id).to_owned() } } else { About::Other };
            core.say_about(about, Level::Info, text);
        }
    }

    /// Drained by an operator: no new transaction; shut when none runs any more.
    fn drained(&mut self, core: &mut Core, id: NodeId) {
        core.set_lane(id, LaneState::Draining);
        if self.leaving.as_ref().is_none_or(|leaving| leaving.node != id) {
            core.set_lane(id, LaneState::Shut);
            self.entries[id].reset();
        }
    }

    /// The node answers and accepts no new connections: sessions that cannot be moved stay there.
    fn stays(&mut self, core: &mut Core, id: NodeId) {
        core.node_mut(id).turned_away = self.another_well(core, id);
        self.enter(core, id);
    }

    /// The node reports maintenance: it is drained, if another one can take its sessions.
    fn leaves(&mut self, core: &mut Core, id: NodeId) {
        if !self.another_well(core, id) {
            self.enter(core, id);
            return;
        }
        let now = core.now;
        core.set_lane(id, LaneState::Draining);
        let entry = &mut self.entries[id];
        let (since, budget) = *entry.leave.get_or_insert_with(|| {
            entry.leave_after = core.version;
            (now, Budget::new(now, Settings::HANDOVER_BUDGET, false))
        });
        let is_quiet = core.is_quiet(id, entry.leave_after);
        if !is_quiet {
            cut(core, id, budget, since);
        }
        if is_quiet || now >= budget.over() {
            self.entries[id].reset();
            core.set_lane(id, LaneState::Shut);
            let text =
                format!("{} {}: its sessions have moved", core.name(id), core.node(id).finding.sentence);
            core.say(Level::Info, text);
        }
    }

    fn another_well(&self, core: &Core, id: NodeId) -> bool {
        core.nodes.ids().any(|other| {
            other != id
                && core.node(other).finding.serves == Serves::Well
                && core.node(other).lane == LaneState::Open
        })
    }

    fn write(&mut self, core: &mut Core) {
        if let Some(ticket) = self.ticket {
            let (written, why) = core.disk.state(ticket);
            if written == Written::Failed {
                let text =
                    format!("the decision could not be written to disk: {why}; no lane opens under it");
                self.ticket = None;
                self.write_after = core.now + back_off(&core.settings, 4);
                core.hold(text);
            }
        }
        if self.ticket.is_none() && core.disk.written < self.term && core.now >= self.write_after {
            self.ticket = Some(core.decide(self.term, None));
        }
    }

    // ---- orders

    /// Takes a node out of traffic.
    pub fn drain(&mut self, core: &mut Core, order: Running, node: NodeId, budget: Budget) {
        if let Some(doing) = self.doing(core) {
            core.refuse(order.id, "busy", format!("a {doing} is running: try again when it has ended"));
            return;
        }
        let others = core.nodes.ids().any(|id| {
            id != node
                && core.node(id).lane == LaneState::Open
                && core.node(id).sound()
                && !core.node(id).drained()
        });
        if core.node(node).lane != LaneState::Shut && !others {
            let text = format!("{} is the last open node: {}", core.name(node), core.why_nobody());
            core.refuse(order.id, "last_node", text);
            return;
        }
        let before = core.node(node).sessions_max;
        core.node_mut(node).limit(Some(0));
        let ticket = core.decide(self.term, None);
        if core.node(node).lane == LaneState::Open {
            core.set_lane(node, LaneState::Draining);
        }
        core.say(Level::Info, order.what.clone());
        let after = core.version;
        self.leaving = Some(Leaving { node, budget, after, before, ticket, order });
    }

    fn finish_drain(&mut self, core: &mut Core) {
        let Some(leaving) = self.leaving.take() else { return };
        let is_quiet = core.is_quiet(leaving.node, leaving.after);
        if !is_quiet {
            cut(core, leaving.node, leaving.budget, leaving.order.since);
        }
        let name = core.name(leaving.node).to_owned();
        let shut = core.node(leaving.node).lane == LaneState::Shut;
        let (written, why) = core.disk.state(leaving.ticket);
        let took = seconds(core.now.saturating_sub(leaving.order.since));
        let failed = match written {
            Written::Failed => {
                Some(("store", format!("the drain of {name} could not be written to disk: {why}")))
            }
            _ if !(is_quiet || shut) && leaving.budget.is_over(core.now, false) => Some((
                "over_budget",
                format!("transactions still ran on {name} after {took}: the drain is undone"),
            )),
            _ => None,
        };
        if let Some((code, text)) = failed {
            core.node_mut(leaving.node).sessions_max = leaving.before;
            core.decide(self.term, None);
            core.say(Level::Warn, text.clone());
            core.refuse(leaving.order.id, code, text);
            if core.node(leaving.node).lane == LaneState::Draining {
                core.node_mut(leaving.node).cut = Cut::Nothing;
                // The barrier that it passed before still holds, unless a node was lost meanwhile: then it passes a new one like all others.
                self.enter(core, leaving.node);
            }
        } else if (is_quiet || shut) && written == Written::Done {
            core.set_lane(leaving.node, LaneState::Shut);
            core.stop_expected(leaving.node);
            self.entries[leaving.node].reset();
            let text = format!("{name} is drained: no session uses it any more, {took} after the order");
            core.say(Level::Info, text.clone());
            core.answer_done(&leaving.order, text);
        } else {
            self.leaving = Some(leaving);
        }
    }
}
