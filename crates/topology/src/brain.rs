//! The only door: facts go in, with the time they were learned; actions come out.
//!
//! ```text
//!   on(now, fact): fact ─> beliefs ─> judgement ─> plan step ─> eviction ─> questions ─> routes (if they changed)
//! ```
//!
//! Invariants: the same facts at the same times give the same actions; at most one `Publish` for each fact, and it comes first;
//! every order gets exactly one answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Accounts;
use crate::action::Action;
use crate::core::{Core, Running, Saving};
use crate::disk::Written;
use crate::election::ids;
use crate::fact::{ConnectFailure, Fact, GaleraStatus, LinkEnd, Now, Outcome};
use crate::health::{self, Serves};
use crate::order::{Order, OrderId};
use crate::plan::Quiet;
use crate::plan::all::All;
use crate::plan::one::One;
use crate::problem::seconds;
use crate::routes::{Lane, LaneState, Routes, ServerGreeting};
use crate::settings::{Settings, Writers};
use crate::view::{ClusterView, Gate, Level, NodeView};
use crate::{NodeId, Term};

/// After traffic raised a false alarm, its next one within this time asks the node but holds nobody: statements that broke with the
/// first alarm report late.
const ALARM_GAP: Duration = Duration::from_millis(100);

/// While a node's new connections fail, the next one is tried after this long.
const SHUT_OUT_GAP: Duration = Duration::from_secs(1);

/// So long after its loss the writer's successor is sought by asking, not by waiting for the next round of probes.
const JUST_LOST: Duration = Duration::from_secs(1);

/// From this many missed probes in a row on, an open node takes nothing new: what is sent to a frozen node hangs.
const MISSES_HELD: u32 = 2;

/// What was on disk when the program started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The last decision's number; 0 when there was none.
    pub term: Term,
    /// The last decision's writer.
    pub writer: Option<NodeId>,
    /// Of each node: the limit of its sessions.
    pub sessions_max: Vec<Option<u32>>,
}

/// The decision maker of one cluster.
pub struct Brain {
    core: Core,
    plan: Plan,
    greeting: Option<Arc<ServerGreeting>>,
    accounts: Arc<Accounts>,
    accounts_due: Due,
    untransactional: Option<Arc<BTreeSet<String>>>,
    tables_due: Due,
    published: Option<Arc<Routes>>,
}

/// Something that is read from a node now and then.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    asked: Option<Now>,
    /// Sooner than the next time: something new may be there.
    wanted: bool,
}

impl Due {
    fn is_due(&self, now: Now, settings: &Settings) -> bool {
        let Some(asked) = self.asked else { return true };
        let since = now.saturating_sub(asked);
        since >= settings.accounts_interval || (self.wanted && since >= settings.accounts_gap_min)
    }
}

enum Plan {
    One(One),
    All(All),
}

impl Brain {
    /// Begins with what was on disk. `settings` must have passed [`Settings::check`].
    pub fn new(settings: Settings, restored: Restored, now: Now) -> Self {
        let count = settings.nodes.len();
        let writer =
            restored.writer.filter(|id| usize::from(id.0) < count && settings.writers == Writers::One);
        let writers = settings.writers;
        let core = Core::new(settings, restored.term, writer, &restored.sessions_max, now);
        let plan = match writers {
            Writers::One => Plan::One(One::new(&core)),
            Writers::All => Plan::All(All::new(&core)),
        };
        Self {
            core,
            plan,
            greeting: None,
            accounts: Arc::default(),
            accounts_due: Due::default(),
            untransactional: None,
            tables_due: Due::default(),
            published: None,
        }
    }

    /// Takes in one fact; gives back what is to be done about it, in order. Facts about nodes that the configuration does not have
    /// are ignored. Never fails, whatever it is told.
    pub fn on(&mut self, now: Now, fact: Fact) -> Vec<Action> {
        // A clock that steps back would undo waits: time only grows.
        self.core.now = self.core.now.max(now);
        self.notice_stall();
        self.take_in(fact);
        self.core.judge_all();
        self.core.note_departures();
        self.save();
        match &mut self.plan {
            Plan::One(plan) => plan.step(&mut self.core),
            Plan::All(plan) => plan.step(&mut self.core),
        }
        self.evict();
        self.core.pace();
        self.ask();
        self.read_catalogues();
        self.publish();
        std::mem::take(&mut self.core.out)
    }

    fn notice_stall(&mut self) {
        let core = &mut self.core;
        let interval = core.settings.probe_interval;
        let Some(gap) = core.stall.woke(core.now, interval) else { return };
        core.last_sign = core.now;
        for node in &mut core.nodes {
            if node.counts.misses < core.settings.misses_max {
                node.counts.forgive();
            }
        }
        core.say(
            Level::Warn,
            format!("this process did not run for {}: missed probes of that time do not count", seconds(gap)),
        );
    }

    fn take_in(&mut self, fact: Fact) {
        if let Some(node) = about(&fact)
            && !self.core.known(node)
        {
            return;
        }
        self.note_alarm(&fact);
        let fact = if self.core.settings.events { fact } else { without_events(fact) };
        match fact {
            Fact::LinkUp { node, greeting } => self.link_up(node, greeting),
            Fact::LinkEnded { node, how } => self.link_ended(node, &how),
            Fact::ConnectFailed { node, how } => self.connect_failed(node, how),
            Fact::Status { node, status, asked } => self.status(node, *status, asked),
            Fact::ProbeMissed { node, .. } => self.miss(node),
            Fact::Accounts { rows, .. } => {
                let accounts = Accounts::new(rows);
                if accounts != *self.accounts {
                    self.accounts = Arc::new(accounts);
                }
            }
            Fact::Untransactional { names, .. } => {
                let names: BTreeSet<String> = names.into_iter().map(|name| name.to_lowercase()).collect();
                if self.untransactional.as_deref() != Some(&names) {
                    self.untransactional = Some(Arc::new(names));
                }
            }
            Fact::TablesChanged => self.tables_due.wanted = true,
            Fact::Cut { .. } | Fact::StatementLost { .. } => {}
            Fact::TrafficLost { node, how, .. } => {
                let why = format!("traffic lost its connection, {}", failure(&how));
                self.alarm(node, why, true);
            }
            Fact::TrafficRefused { node, errno, .. } => {
                let why = format!("traffic was refused with error {errno}");
                // Any client can make a node say any error (SIGNAL): that it leaves is believed of its own status and link only.
                self.alarm(node, why, false);
            }
            Fact::Quiesced { node, epoch, term, version } => {
                let quiet = Quiet { node, epoch, term, version };
                match &mut self.plan {
                    Plan::One(plan) => plan.quiesced(quiet, &self.core),
                    Plan::All(plan) => plan.quiesced(quiet, &self.core),
                }
            }
            Fact::UnknownAccount { .. } => self.accounts_due.wanted = true,
            Fact::Outcome(outcome) => self.outcome(outcome),
            Fact::Order { id, order } => self.order(id, order),
            Fact::Tick => self.tick(),
        }
    }

    /// An alarm is answered by the node's own word, also when alarms raise no doubt.
    fn note_alarm(&mut self, fact: &Fact) {
        if let Fact::TrafficLost { node, epoch, alarm, .. }
        | Fact::TrafficRefused { node, epoch, alarm, .. } = fact
        {
            let now = self.core.now;
            self.core.node_mut(*node).alarmed(*epoch, *alarm, now);
        }
    }

    // ---- signs of life and death

    fn link_up(&mut self, id: NodeId, greeting: ServerGreeting) {
        self.core.alive();
        let node = self.core.node_mut(id);
        if node.verdict.serves == Serves::No {
            // What it said in its former life says nothing about this one.
            node.status = None;
        }
        node.linked = true;
        node.linked_once = true;
        node.shut_out = 0;
        node.confirm_asked = None;
        node.rejected = None;
        node.counts.answered();
        if let Some(doubt) = &mut node.doubt {
            doubt.wants_link = false;
        }
        node.greeting = Some(greeting);
        self.greeting = narrow(self.core.nodes.iter().filter_map(|node| node.greeting.as_ref()));
    }

    fn link_ended(&mut self, id: NodeId, how: &LinkEnd) {
        let (now, events) = (self.core.now, self.core.settings.events);
        let node = self.core.node_mut(id);
        let stood = node.linked;
        node.linked = false;
        node.probe_asked = None;
        if !events && *how != LinkEnd::Silent {
            return;
        }
        let why = match how {
            LinkEnd::Closed => "its link was closed without a word".to_owned(),
            LinkEnd::Goodbye { errno } => {
                // 1927 is an operator's KILL of our own connection, nothing else.
                if *errno != 1927 {
                    node.leaving_since.get_or_insert(now);
                }
                format!("it ended the link with error {errno}")
            }
            LinkEnd::Silent => {
                // Given up because it did not answer: a miss like any other, and no news.
                self.miss(id);
                return;
            }
        };
        if stood {
            self.core.doubt(id, why, true);
            self.core.ask_confirm(id);
        }
    }

    fn connect_failed(&mut self, id: NodeId, how: ConnectFailure) {
        let (now, enough) = (self.core.now, self.core.settings.refusals_max);
        let node = self.core.node_mut(id);
        node.confirm_asked = None;
        if node.linked {
            self.shut_out(id, &how);
            return;
        }
        let node = self.core.node_mut(id);
        node.probe_asked = None;
        match how {
            ConnectFailure::Refused | ConnectFailure::Reset => {
                // The host answers, so our network works.
                self.core.last_sign = now;
                let node = self.core.node_mut(id);
                node.counts.refuse(now, enough);
                node.lost_at.get_or_insert(now);
                if node.linked_once && node.counts.refusals < enough {
                    self.core.ask_confirm(id);
                }
            }
            ConnectFailure::Rejected { errno, message } => {
                node.counts.answered();
                node.rejected = Some((errno, message));
            }
            ConnectFailure::Protocol { what } => {
                node.counts.answered();
                node.rejected = Some((0, what));
            }
            ConnectFailure::Closed | ConnectFailure::TimedOut | ConnectFailure::Unreachable => self.miss(id),
        }
    }

    /// A new connection failed while the kept link stands. That is no sign of death, whatever it is (a filter for new connections, a full
    /// queue of them, a name server that hangs): the link's own answers tell whether the node lives.
    fn shut_out(&mut self, id: NodeId, how: &ConnectFailure) {
        let (now, enough) = (self.core.now, self.core.settings.refusals_max);
        let node = self.core.node_mut(id);
        node.confirm_after = now + SHUT_OUT_GAP;
        if let ConnectFailure::Rejected { .. } = how {
            // The server speaks: it lives, and it is full, or does not want us.
            if let Some(doubt) = &mut node.doubt {
                doubt.wants_link = false;
            }
            return;
        }
        node.shut_out = node.shut_out.saturating_add(1);
        node.shut_out_why = failure(how);
        if node.shut_out >= enough
            && let Some(doubt) = &mut node.doubt
        {
            // No more new ones are waited for: the kept link's next answer ends the doubt.
            doubt.wants_link = false;
        }
    }

    fn miss(&mut self, id: NodeId) {
        let core = &mut self.core;
        let (now, interval) = (core.now, core.settings.probe_interval);
        let held = MISSES_HELD.min(core.settings.misses_max);
        core.node_mut(id).probe_asked = None;
        if now < core.stall.forgive_until {
            return;
        }
        let node = core.node_mut(id);
        node.counts.miss(now, interval);
        let misses = node.counts.misses;
        if let Some(since) = node.counts.missed_since {
            node.lost_at.get_or_insert(since);
        }
        let open = node.lane == LaneState::Open;
        let since = node.counts.missed_since.unwrap_or_default();
        // When nobody answers, it is rather us: nothing is held for that.
        if open && misses >= held && core.another_answered_since(id, since) {
            core.doubt(id, format!("it did not answer {misses} probes"), false);
        }
    }

    fn status(&mut self, id: NodeId, status: GaleraStatus, asked: Now) {
        self.core.alive();
        let now = self.core.now;
        let healthy = status.ready && status.cluster_status.eq_ignore_ascii_case("Primary");
        if healthy {
            for node in &mut self.core.nodes {
                node.listed_once |= status.members.contains(&node.address);
            }
        }
        let node = self.core.node_mut(id);
        let was_healthy = node.status.as_ref().is_some_and(|old| old.ready);
        node.probe_asked = None;
        node.rejected = None;
        node.counts.answered();
        node.answered_at = Some(now);
        if !status.gcomm_uuid.is_empty() && status.gcomm_uuid != node.gcomm_uuid {
            node.gcomm_uuid.clone_from(&status.gcomm_uuid);
            node.evict_tries = 0;
        }
        if healthy {
            node.lost_at = None;
            node.leaving_since = None;
        } else if was_healthy {
            // It told us itself before it went: an orderly stop looks like this (or a node cut off from the majority).
            node.leaving_since.get_or_insert(now);
        }
        let serves = health::examine(&status).is_none_or(|finding| finding.serves != Serves::No);
        if serves {
            node.looked_after(asked);
        }
        node.status = Some(status);
        if node.doubt.as_ref().is_some_and(|doubt| !doubt.wants_link) {
            node.doubt = None;
            node.doubt_cleared = Some(now);
        }
    }

    /// Traffic saw something: the node is asked at once, and held until it answers; but a burst asks once.
    fn alarm(&mut self, id: NodeId, why: String, wants_link: bool) {
        let core = &mut self.core;
        let node = core.node(id);
        if node.verdict.serves == Serves::No {
            return;
        }
        // Known already: that new connections fail is no news, and no reason to hold again.
        let known = wants_link && node.shut_out >= core.settings.refusals_max;
        let late = known || node.doubt_cleared.is_some_and(|at| core.now.saturating_sub(at) < ALARM_GAP);
        if node.lane == LaneState::Shut || late {
            core.ask_probe(id);
            return;
        }
        core.doubt(id, why, wants_link);
        if wants_link {
            core.ask_confirm(id);
        } else {
            core.ask_probe(id);
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Persisted { term } => self.core.disk.done(term),
            Outcome::PersistFailed { term, why } => self.core.disk.fail(term, &why),
            Outcome::Evicted { victim, .. } => self.core.evict_ended(victim, None),
            Outcome::EvictFailed { victim, why } => self.core.evict_ended(victim, Some(&why)),
            Outcome::BarrierPassed { node, term } => self.barrier_answered(node, term, None),
            Outcome::BarrierFailed { node, term, why } => self.barrier_answered(node, term, Some(&why)),
        }
    }

    fn barrier_answered(&mut self, node: NodeId, term: Term, failed: Option<&str>) {
        match &mut self.plan {
            Plan::One(plan) => plan.barrier_answered(node, term, failed),
            Plan::All(plan) => plan.barrier_answered(node, term, failed),
        }
    }

    fn tick(&mut self) {
        let core = &mut self.core;
        let (deadline, slack) = (core.settings.persist_deadline, Duration::from_millis(500));
        if core.disk.expire(core.now, deadline) {
            core.say(Level::Error, format!("the store did not write within {}", seconds(deadline)));
        }
        if let Some((victim, since)) = core.evicting
            && core.now.saturating_sub(since) > core.settings.evict_deadline + slack
        {
            core.evict_ended(victim, Some("no answer in time"));
        }
    }

    // ---- after the plan

    /// A lost node that the plan did not strike itself: it stood by, or the proof came later.
    fn evict(&mut self) {
        let Some(warrant) = self.core.warrant() else { return };
        let core = &mut self.core;
        let victim = core.node(warrant.victim);
        let text = format!(
            "{} {}: evicting it through {}",
            victim.name,
            victim.verdict.reason,
            core.name(warrant.via)
        );
        core.say(Level::Warn, text);
        core.evict(&warrant);
    }

    /// While anything is unclear, everybody who may know is asked, one question in flight for each: the survivors' view tells
    /// sooner than the lost node itself whether it has left.
    fn ask(&mut self) {
        let core = &mut self.core;
        for id in ids(&core.nodes) {
            let node = core.node(id);
            if node.shut_out > 0 && node.linked && node.confirm_after <= core.now {
                core.ask_confirm(id);
            }
        }
        let just_lost = core.writer.is_some_and(|writer| {
            let node = core.node(writer);
            let recent = node.lost_at.is_some_and(|at| core.now.saturating_sub(at) < JUST_LOST);
            recent && node.verdict.serves == Serves::No && node.lane != LaneState::Shut
        });
        let unclear =
            core.nodes.iter().any(|node| node.doubt.is_some()) || core.eviction_pending() || just_lost;
        if !unclear {
            self.ask_alarmed();
            return;
        }
        let all: Vec<NodeId> = ids(&core.nodes).collect();
        for id in all {
            match &core.node(id).doubt {
                Some(doubt) if doubt.wants_link => core.ask_confirm(id),
                _ if core.node(id).linked => core.ask_probe(id),
                _ => {}
            }
        }
    }

    /// What traffic saw is answered by the node's own word, given later.
    fn ask_alarmed(&mut self) {
        let core = &mut self.core;
        let alarmed: Vec<NodeId> = ids(&core.nodes)
            .filter(|id| core.node(*id).linked && !core.node(*id).alarms.is_empty())
            .collect();
        for id in alarmed {
            core.ask_probe(id);
        }
    }

    fn read_catalogues(&mut self) {
        let core = &mut self.core;
        let (now, settings) = (core.now, &core.settings);
        let accounts = self.accounts_due.is_due(now, settings);
        let tables = self.tables_due.is_due(now, settings);
        if !accounts && !tables {
            return;
        }
        let sound = |id: &NodeId| core.node(*id).linked && core.node(*id).sound();
        let Some(node) = core.writer.filter(sound).or_else(|| ids(&core.nodes).find(sound)) else { return };
        let asked = Due { asked: Some(now), wanted: false };
        if accounts {
            self.accounts_due = asked;
            core.out.push(Action::ReadAccounts { node });
        }
        if tables {
            self.tables_due = asked;
            core.out.push(Action::ReadTables { node });
        }
    }

    fn publish(&mut self) {
        let core = &self.core;
        let lanes: Vec<Lane> = ids(&core.nodes)
            .zip(&core.nodes)
            .map(|(id, node)| Lane {
                node: id,
                name: node.name.as_str().into(),
                address: node.address.as_str().into(),
                state: node.lane,
                epoch: node.epoch,
                sessions_max: node.sessions_max,
                looked: node.looked,
                cut: node.cut,
            })
            .collect();
        let untransactional = self.untransactional.clone().unwrap_or_default();
        let untransactional_known = self.untransactional.is_some();
        let hold: Option<Arc<str>> = (!core.any_open()).then(|| core.hold.as_str().into());
        let same = self.published.as_ref().is_some_and(|old| {
            old.term == core.term
                && old.lanes == lanes
                && old.hold_because == hold
                && old.greeting == self.greeting
                && Arc::ptr_eq(&old.accounts, &self.accounts)
                && old.untransactional_known == untransactional_known
                && old.untransactional == untransactional
        });
        if same {
            return;
        }
        self.core.version += 1;
        let core = &self.core;
        let routes = Arc::new(Routes {
            version: core.version,
            term: core.term,
            lanes,
            hold_because: hold,
            greeting: self.greeting.clone(),
            accounts: Arc::clone(&self.accounts),
            untransactional,
            untransactional_known,
        });
        self.published = Some(Arc::clone(&routes));
        self.core.out.insert(0, Action::Publish(routes));
    }

    // ---- orders

    fn order(&mut self, id: OrderId, order: Order) {
        let since = self.core.now;
        let node = match &order {
            Order::Switchover { to, .. } => *to,
            Order::Drain { node, .. } | Order::Undrain { node } | Order::SetSessionsMax { node, .. } => {
                Some(*node)
            }
        };
        if let Some(node) = node
            && !self.core.known(node)
        {
            let names: Vec<&str> = self.core.nodes.iter().map(|node| node.name.as_str()).collect();
            let text = format!("there is no such node; the nodes are {}", names.join(", "));
            self.core.refuse(id, "unknown_node", text);
            return;
        }
        if let Some(saving) = &self.core.saving {
            let text =
                format!("another order is running: {}; try again when it has ended", saving.running.what);
            self.core.refuse(id, "busy", text);
            return;
        }
        // Beliefs may be newer than the last judgement.
        self.core.judge_all();
        let running = |what: String| Running { id, since, what };
        match order {
            Order::Switchover { to, budget, .. } => match &mut self.plan {
                Plan::One(plan) => {
                    let what = match to {
                        Some(to) => format!("switchover to {} was ordered", self.core.name(to)),
                        None => "a switchover was ordered".to_owned(),
                    };
                    plan.switchover(&mut self.core, running(what), to, budget);
                }
                Plan::All(_) => self.core.refuse(
                    id,
                    "no_writer",
                    "all nodes write (writers = \"all\"), so there is no writer to move: drain the node instead",
                ),
            },
            Order::Drain { node, budget, .. } => self.drain(id, node, budget),
            Order::SetSessionsMax { node, sessions_max: Some(0) } => self.drain(id, node, Settings::HANDOVER_BUDGET),
            Order::Undrain { node } => self.limit(id, node, None, true),
            Order::SetSessionsMax { node, sessions_max } => self.limit(id, node, sessions_max, false),
        }
    }

    fn drain(&mut self, id: OrderId, node: NodeId, budget: Duration) {
        let core = &mut self.core;
        let name = core.name(node).to_owned();
        let running = Running { id, since: core.now, what: format!("drain of {name} was ordered") };
        if core.node(node).drained() && core.node(node).lane == LaneState::Shut {
            core.answer_done(&running, format!("{name} already is drained"));
            return;
        }
        match &mut self.plan {
            Plan::One(plan) => {
                if plan.drain(core, &running, node, budget) {
                    return;
                }
                if let Some(doing) = plan.doing(core) {
                    core.refuse(id, "busy", format!("a {doing} is running: try again when it has ended"));
                    return;
                }
                let done = format!("{name} is drained: it is not the writer, and will not become it");
                self.change(running, node, Some(0), done);
            }
            Plan::All(plan) => plan.drain(core, running, node, budget),
        }
    }

    fn limit(&mut self, id: OrderId, node: NodeId, sessions_max: Option<u32>, undrain: bool) {
        let core = &mut self.core;
        let name = core.name(node).to_owned();
        let what =
            format!("{} of {name} was ordered", if undrain { "undrain" } else { "a limit of sessions" });
        let running = Running { id, since: core.now, what };
        let doing = match &self.plan {
            Plan::One(plan) => plan.doing(core),
            Plan::All(plan) => plan.doing(core),
        };
        if let Some(doing) = doing {
            core.refuse(id, "busy", format!("a {doing} is running: try again when it has ended"));
            return;
        }
        let before = core.node(node).sessions_max;
        let sessions_max = if undrain { core.node(node).sessions_max_before } else { sessions_max };
        if undrain && before != Some(0) || before == sessions_max {
            let text = if undrain {
                format!("{name} was not drained")
            } else {
                format!("{name} already has that limit")
            };
            core.answer_done(&running, text);
            return;
        }
        let done = match sessions_max {
            Some(limit) if undrain => format!("{name} takes sessions again, at most {limit}"),
            Some(limit) => format!("{name} takes at most {limit} sessions"),
            None if undrain => format!("{name} takes sessions again"),
            None => format!("{name} has no limit of sessions any more"),
        };
        self.change(running, node, sessions_max, done);
    }

    /// A change that takes effect at once and is answered when it is on disk.
    fn change(&mut self, running: Running, node: NodeId, sessions_max: Option<u32>, done: String) {
        let core = &mut self.core;
        let before = core.node(node).sessions_max;
        core.node_mut(node).limit(sessions_max);
        let (term, writer) = (core.disk.asked.max(core.term), core.writer);
        let ticket = core.persist(term, writer);
        core.saving = Some(Saving { running, ticket, done, node, before });
    }

    fn save(&mut self) {
        let core = &mut self.core;
        let Some(saving) = core.saving.take() else { return };
        match core.disk.state(saving.ticket) {
            (Written::Pending, _) => core.saving = Some(saving),
            (Written::Done, _) => {
                if core.node(saving.node).drained() {
                    core.stop_expected(saving.node);
                } else {
                    core.stop_unexpected(saving.node);
                }
                core.say(Level::Info, saving.done.clone());
                core.answer_done(&saving.running, saving.done);
            }
            (Written::Failed, why) => {
                let text =
                    format!("{}, and could not be written to disk: {why}; it is undone", saving.running.what);
                core.node_mut(saving.node).sessions_max = saving.before;
                // A write that was given up may yet happen: what holds is written after it.
                let (term, writer) = (core.disk.asked.max(core.term), core.writer);
                core.persist(term, writer);
                core.say(Level::Error, text.clone());
                core.refuse(saving.running.id, "store", text);
                core.judge_all();
            }
        }
    }

    // ---- for people

    /// A snapshot of everything held true at `now`. `advice`, the calendar and the journal are the shell's to fill in.
    pub fn view(&self, now: Now) -> ClusterView {
        let core = &self.core;
        let ago = |at: Now| now.saturating_sub(at).as_millis() as u64;
        let nodes = ids(&core.nodes)
            .zip(&core.nodes)
            .map(|(id, node)| NodeView {
                id,
                name: node.name.clone(),
                address: node.address.clone(),
                state: node.verdict.state,
                reason: match &node.doubt {
                    Some(doubt) => format!("is being confirmed: {}", doubt.why),
                    None => node.verdict.reason.clone(),
                },
                serves: node.verdict.serves,
                problem: (node.verdict.serves != Serves::Well).then_some(node.verdict.problem),
                doubt: node.doubt.as_ref().map(|doubt| doubt.why.clone()),
                others: node.verdict.others.clone(),
                since_ms: ago(node.since),
                lane: node.lane,
                epoch: node.epoch,
                sessions_max: node.sessions_max,
                writer: core.writer == Some(id),
                priority: node.priority,
                linked: node.linked,
                misses: node.counts.misses,
                answered_ms_ago: node.answered_at.map(ago),
                advice: Vec::new(),
                facts: node.status.clone(),
            })
            .collect();
        let doing = match &self.plan {
            Plan::One(plan) => plan.doing(core),
            Plan::All(plan) => plan.doing(core),
        };
        ClusterView {
            cluster: core.settings.cluster.clone(),
            writers: core.settings.writers,
            term: core.term,
            version: core.version,
            writer: core.writer.map(|id| core.name(id).to_owned()),
            gate: if core.any_open() { Gate::Open } else { Gate::Held },
            hold_because: (!core.any_open()).then(|| core.hold.clone()),
            order: core.saving.as_ref().map(|saving| saving.running.what.clone()).or(doing),
            nodes,
            decisions: core.decisions.iter().cloned().collect(),
            now_ms: now.as_millis() as u64,
            started_unix_ms: 0,
        }
    }
}

/// What is left of a fact when only missed probes count.
fn without_events(fact: Fact) -> Fact {
    match fact {
        Fact::ConnectFailed { node, how: ConnectFailure::Refused | ConnectFailure::Reset } => {
            Fact::ConnectFailed { node, how: ConnectFailure::TimedOut }
        }
        Fact::TrafficLost { .. } | Fact::TrafficRefused { .. } => Fact::Tick,
        other => other,
    }
}

/// The node a fact is about.
fn about(fact: &Fact) -> Option<NodeId> {
    match fact {
        Fact::LinkUp { node, .. }
        | Fact::LinkEnded { node, .. }
        | Fact::ConnectFailed { node, .. }
        | Fact::Status { node, .. }
        | Fact::ProbeMissed { node, .. }
        | Fact::Accounts { node, .. }
        | Fact::TrafficLost { node, .. }
        | Fact::TrafficRefused { node, .. }
        | Fact::StatementLost { node, .. }
        | Fact::Untransactional { node, .. }
        | Fact::Quiesced { node, .. }
        | Fact::Cut { node, .. }
        | Fact::Outcome(Outcome::BarrierPassed { node, .. } | Outcome::BarrierFailed { node, .. }) => {
            Some(*node)
        }
        Fact::Outcome(Outcome::Evicted { victim, .. } | Outcome::EvictFailed { victim, .. }) => Some(*victim),
        Fact::Outcome(Outcome::Persisted { .. } | Outcome::PersistFailed { .. })
        | Fact::UnknownAccount { .. }
        | Fact::TablesChanged
        | Fact::Order { .. }
        | Fact::Tick => None,
    }
}

fn failure(how: &ConnectFailure) -> String {
    match how {
        ConnectFailure::Refused => "refused".into(),
        ConnectFailure::Reset => "reset".into(),
        ConnectFailure::Closed => "closed".into(),
        ConnectFailure::TimedOut => "timed out".into(),
        ConnectFailure::Unreachable => "unreachable".into(),
        ConnectFailure::Rejected { errno, .. } => format!("rejected with error {errno}"),
        ConnectFailure::Protocol { what } => format!("not the protocol: {what}"),
    }
}

/// What all nodes seen can do, under the name of the first.
fn narrow<'a>(mut greetings: impl Iterator<Item = &'a ServerGreeting>) -> Option<Arc<ServerGreeting>> {
    let mut all = greetings.next()?.clone();
    for other in greetings {
        all.capabilities &= other.capabilities;
    }
    Some(Arc::new(all))
}
