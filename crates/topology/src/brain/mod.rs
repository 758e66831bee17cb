//! The decision maker of one cluster. Facts go in, with the time at which they were learned; actions come out.
//!
//! ```text
//!   on(now, fact):
//!     take_in        the fact changes what is known of a node (`Belief`), or goes to the plan, the disk, an order
//!     judge_all      what is known is turned into a state for each node (synced, donor, silent, dead, ...)
//!     plan.step      opens, drains and shuts lanes; begins, continues and ends switchovers and failovers
//!     group.act      what only this kind of cluster has: for Galera evictions and shorter timers, for replicas CHANGE MASTER
//!     ask            as long as something is unclear, the nodes that may know are asked at once
//!     publish        new routes for the proxy, if they differ from the last
//! ```
//!
//! `Belief` (belief.rs) holds what is known of one node, `Core` (core.rs) all nodes and what both plans share, `Group` (group.rs) what is
//! particular to the kind of cluster, `Plan` the setting `writers`. Each fact runs through all steps, since each step looks only at what is
//! known now and not at the fact: facts may come late, twice or in any order.
//!
//! Invariants: the same facts at the same times give the same actions; at most one `Publish` for each fact, and it comes first;
//! every order gets exactly one answer.

mod dry_run;
mod orders;
mod proxied;
mod reconfigure;
mod signs;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

pub use self::reconfigure::NotTaken;
use crate::account::Accounts;
use crate::action::{Action, Level};
use crate::catalogue::Catalogue;
use crate::core::{Core, FailedOver};
use crate::disk::Ticket;
use crate::fact::{ConnectFailure, Fact, Outcome};
use crate::finding::{Problem, Serves};
use crate::galera::Galera;
use crate::group::Group;
use crate::heartbeat::Wish;
use crate::judgement::judge_all;
use crate::kind::Kind;
use crate::plan::all::All;
use crate::plan::one::One;
use crate::readers::{Common, Readers};
use crate::replication::Replication;
pub use crate::restored::Restored;
use crate::routes::{Lane, LaneState, Routes, ServerGreeting};
use crate::settings::{NodeSettings, Settings, Writers};
use crate::time::{Now, seconds};
use crate::{NodeId, Term};

/// For this long after a node that took statements was lost, all nodes are asked without a pause, instead of with the next round of probes:
/// the survivors tell whether the group has gone on without it, and which of them can take over.
const JUST_LOST: Duration = Duration::from_secs(1);

/// The decision maker of one cluster.
#[derive(Clone)]
pub struct Brain {
    core: Core,
    group: Box<dyn Group>,
    plan: Plan,
    greeting: Option<Arc<ServerGreeting>>,
    accounts: Arc<Accounts>,
    accounts_due: Due,
    catalogue: Option<Arc<Catalogue>>,
    tables_due: Due,
    readers: Readers,
    published: Option<Arc<Routes>>,
}

/// When a table that is read from a node from time to time (the accounts, the catalogue) was last asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    asked: Option<Now>,
    /// Something new may be in it: it is read before the interval is over, but not before `accounts_gap_min`.
    wanted: bool,
}

impl Due {
    fn is_due(&self, now: Now, settings: &Settings) -> bool {
        let Some(asked) = self.asked else { return true };
        let since = now.saturating_sub(asked);
        since >= settings.accounts_interval || (self.wanted && since >= settings.accounts_gap_min)
    }
}

#[derive(Clone)]
enum Plan {
    One(One),
    All(All),
}

impl Brain {
    /// Begins with what was on disk. `settings` must have passed [`Settings::check`].
    pub fn new(settings: Settings, mut restored: Restored, now: Now) -> Self {
        let count = settings.nodes.len();
        let is_known = |id: &NodeId| usize::from(id.0) < count;
        let writer = restored.writer.filter(|id| is_known(id) && settings.writers == Writers::One);
        let writers = settings.writers;
        let mut group: Box<dyn Group> = match settings.kind {
            Kind::Galera => Box::new(Galera::new(count)),
            Kind::Replication => Box::new(Replication::new(count)),
        };
        let readers = Readers::new(settings.reads.clone(), count, now);
        let mut core = Core::new(settings, restored.term, writer, &restored.sessions_max, now);
        core.failed_over = restored.failed_over_ago.map(|ago| FailedOver::before(now, ago));
        core.is_writer_incomplete = writer.is_some() && restored.is_writer_incomplete;
        core.component = restored.component.take();
        for id in core.nodes.ids() {
            core.node_mut(id).is_renumbered = restored.renumbered.contains(&id);
        }
        let filtered = std::mem::take(&mut restored.filtered);
        for (id, filters) in filtered.into_iter().filter(|(id, _)| is_known(id)) {
            core.node_mut(id).had_filters = Some(filters);
        }
        group.restore(&core, restored);
        let plan = match writers {
            Writers::One => Plan::One(One::new(&core)),
            Writers::All => Plan::All(All::new(&core)),
        };
        Self {
            core,
            group,
            plan,
            greeting: None,
            accounts: Arc::default(),
            accounts_due: Due::default(),
            catalogue: None,
            tables_due: Due::default(),
            readers,
            published: None,
        }
    }

    /// Takes in one fact and gives back the actions that follow, in order. Facts about nodes that the configuration does not have are
    /// ignored. Never fails and never panics, whatever the fact.
    pub fn on(&mut self, now: Now, fact: Fact) -> Vec<Action> {
        // Senders read the clock before they send, so an older time may come later. Time in here never goes back.
        self.core.now = self.core.now.max(now);
        self.notice_stall();
        self.take_in(fact);
        judge_all(&mut self.core, &mut *self.group);
        self.save();
        match &mut self.plan {
            Plan::One(plan) => plan.step(&mut self.core, &mut *self.group),
            Plan::All(plan) => plan.step(&mut self.core, &mut *self.group),
        }
        self.group.act(&mut self.core);
        self.ask();
        self.read_catalogues();
        self.greet();
        self.publish();
        let (greeting, accounts, catalogue) = (&self.greeting, &self.accounts, &self.catalogue);
        self.readers.step(&mut self.core, &*self.group, &Common { greeting, accounts, catalogue });
        std::mem::take(&mut self.core.out)
    }

    /// If this process was suspended or starved, that time counts against no node: nobody could have heard an answer.
    fn notice_stall(&mut self) {
        let core = &mut self.core;
        let Some(gap) = core.stall.gap_before(core.now) else { return };
        core.last_sign = (core.last_sign + gap).min(core.now);
        for node in core.nodes.iter_mut() {
            node.counts.leave_out(gap, core.now);
            node.pulse.slept(core.now);
        }
        self.group.slept(gap);
        if self.group.has_primary()
            && let Plan::One(plan) = &mut self.plan
        {
            plan.slept();
            // Meanwhile the primary may have restarted without some of what it had, which the end of its link would have shown.
            if let Some(writer) = core.writer.filter(|writer| core.node(*writer).linked) {
                let why = format!("this process did not run for {}, and it may have restarted", seconds(gap));
                core.doubt_anew(writer, why);
            }
        }
        core.say(
            Level::Warn,
            format!("this process did not run for {}: missed probes of that time do not count", seconds(gap)),
        );
    }

    fn take_in(&mut self, fact: Fact) {
        if let Some(node) = fact.node()
            && !self.core.known(node)
        {
            return;
        }
        let fact = if self.core.settings.events { fact } else { without_events(fact) };
        match fact {
            Fact::LinkUp { node, greeting } => self.link_up(node, greeting),
            Fact::LoginStatus { node, status } => self.login_status(node, status),
            Fact::ShowsSessions { node, shows } => self.core.node_mut(node).shows_sessions = shows,
            Fact::LinkEnded { node, how } => self.link_ended(node, &how),
            Fact::ConnectFailed { node, how } => self.connect_failed(node, how),
            Fact::Status { node, status, asked } => self.status(node, status, asked),
            Fact::ProbeMissed { node, asked } => self.miss(node, asked),
            Fact::ProbeSlow { node, asked } => self.group.slow(&self.core, node, asked),
            Fact::Beat { node, beat } => {
                let now = self.core.now;
                self.core.node_mut(node).pulse.beat(now, &beat);
            }
            Fact::Accounts { rows, .. } => {
                let accounts = Accounts::new(rows);
                if accounts != *self.accounts {
                    self.accounts = Arc::new(accounts);
                }
            }
            Fact::Catalogue { catalogue, .. } => {
                if self.catalogue.as_deref() != Some(&catalogue) {
                    self.catalogue = Some(Arc::new(catalogue));
                }
            }
            Fact::Proxy { origin, fact } => self.proxy_saw(origin, fact),
            Fact::Outcome(outcome) => self.outcome(outcome),
            Fact::Order { id, order } => self.order(id, order),
            Fact::Tick => self.tick(),
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Persisted { number } => self.core.disk.done(Ticket(number)),
            Outcome::PersistFailed { number, why } => self.core.disk.fail(Ticket(number), &why),
            Outcome::BarrierPassed { node, term } => self.barrier_answered(node, term, None),
            Outcome::BarrierFailed { node, term, why } => self.barrier_answered(node, term, Some(&why)),
            of_kind => self.group.outcome(&mut self.core, of_kind),
        }
    }

    fn barrier_answered(&mut self, node: NodeId, term: Term, failed: Option<&str>) {
        self.group.barrier_answered(node, term);
        match &mut self.plan {
            Plan::One(plan) => plan.barrier_answered(node, term, failed),
            Plan::All(plan) => plan.barrier_answered(node, term, failed),
        }
    }

    fn tick(&mut self) {
        let core = &mut self.core;
        let deadline = core.settings.persist_deadline;
        if core.disk.expire(core.now, deadline) {
            core.say(Level::Error, format!("the store did not write within {}", seconds(deadline)));
        }
        self.group.tick(&mut self.core);
    }

    /// For each node: whether heartbeats are to be written there now, and which of the clients' commits are to be looked at. During a move of the
    /// writer nothing is written, since the server may become read only at any moment.
    pub fn wishes(&self) -> Vec<(NodeId, Wish)> {
        let core = &self.core;
        // Where another program moves the writer (cluster.manager = "external"), nothing of ours is written.
        let may = !core.settings.heartbeat.interval.is_zero()
            && !core.settings.replication.dry_run
            && !self.group.follows(core);
        let writes = |id: NodeId| match &self.plan {
            Plan::One(plan) => plan.is_settled() && core.writer == Some(id),
            // Also on a node that was given up because it did not commit: that is how it is seen to commit again.
            Plan::All(_) => core.node(id).lane != LaneState::Shut || core.node(id).pulse.is_given_up(),
        };
        let late = core.nodes.iter().any(|node| node.pulse.waits(core.now).is_some());
        let settled = match &self.plan {
            Plan::One(plan) => plan.is_settled(),
            Plan::All(_) => true,
        };
        let others = late && settled && !self.group.has_primary();
        core.nodes
            .ids()
            .map(|id| {
                let node = core.node(id);
                let is_fit = node.linked
                    && node.doubt.is_none()
                    && (node.finding.serves != Serves::No || node.pulse.is_given_up());
                let beats = may
                    && is_fit
                    && (writes(id)
                        || others
                            && (node.finding.serves == Serves::Well
                                || node.finding.problem == Problem::NotCommitting));
                let commits = if is_fit && writes(id) { node.pulse.commits(core.now) } else { vec![] };
                (id, Wish { beats, commits })
            })
            .collect()
    }

    /// The nodes of the configuration, in its order.
    pub fn nodes(&self) -> Vec<(NodeId, NodeSettings)> {
        self.core.nodes.ids().zip(self.core.settings.nodes.iter().cloned()).collect()
    }

    /// Whether the configuration has the node. It may have had it before.
    pub fn has(&self, node: NodeId) -> bool {
        self.core.known(node)
    }

    /// The name of a node that the configuration has or had.
    pub fn name(&self, node: NodeId) -> &str {
        self.core.nodes.get(node).map_or("?", |known| &known.name)
    }

    /// The address of a node that the configuration has or had.
    pub fn address(&self, node: NodeId) -> &str {
        self.core.nodes.get(node).map_or("", |known| &known.address)
    }

    /// The switchover, failover or start that runs now, as a clause for sentences.
    fn doing(&self) -> Option<String> {
        match &self.plan {
            Plan::One(plan) => plan.doing(&self.core),
            Plan::All(plan) => plan.doing(&self.core),
        }
    }

    // ---- after the plan

    /// While a node is doubted, the group has an open question, or a node was just lost, every node that may know something is probed
    /// again as soon as it has answered the probe before. All of them, because after a loss the survivors' view tells sooner than the lost
    /// node whether it has left the group.
    fn ask(&mut self) {
        let core = &mut self.core;
        for id in core.nodes.ids() {
            let node = core.node(id);
            if node.shut_out > 0 && node.linked && node.confirm_after <= core.now {
                core.ask_confirm(id);
            }
        }
        let just_lost = core.nodes.iter().any(|node| {
            let recent = node.lost_at.is_some_and(|at| core.now.saturating_sub(at) < JUST_LOST);
            recent && node.finding.serves == Serves::No && node.lane != LaneState::Shut
        });
        let unclear =
            core.nodes.iter().any(|node| node.doubt.is_some()) || self.group.is_unclear(core) || just_lost;
        if !unclear {
            self.ask_alarmed();
            return;
        }
        let all: Vec<NodeId> = core.nodes.ids().collect();
        for id in all {
            match &core.node(id).doubt {
                Some(doubt) if doubt.wants_link => core.ask_confirm(id),
                _ if core.node(id).linked => core.ask_probe(id),
                _ => {}
            }
        }
    }

    /// Probes the nodes on whose lanes an alarm of the traffic is open: a session waits for what the node says.
    fn ask_alarmed(&mut self) {
        let core = &mut self.core;
        let alarmed: Vec<NodeId> =
            core.nodes.ids().filter(|id| core.node(*id).linked && core.node(*id).alarms.is_open()).collect();
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
        let Some(node) = core.writer.filter(sound).or_else(|| core.nodes.ids().find(sound)) else { return };
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
        let lanes: Vec<Lane> = core
            .nodes
            .given()
            .map(|(id, node)| Lane {
                node: id,
                name: node.name.as_str().into(),
                address: node.address.as_str().into(),
                state: node.lane,
                epoch: node.epoch,
                sessions_max: if node.turned_away { Some(0) } else { node.sessions_max },
                looked: node.alarms.looked,
                refused: node.alarms.refused,
                lost_epoch: node.lost_epoch,
                cut: node.cut,
                links_anew: node.links_anew,
                shows_sessions: node.shows_sessions,
                is_removed: !core.known(id),
            })
            .collect();
        let hold: Option<Arc<str>> = (!core.any_open()).then(|| core.hold.as_str().into());
        let same = self.published.as_ref().is_some_and(|old| {
            old.term == core.term
                && old.lanes == lanes
                && old.hold_because == hold
                && old.greeting == self.greeting
                && Arc::ptr_eq(&old.accounts, &self.accounts)
                && old.catalogue == self.catalogue
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
            catalogue: self.catalogue.clone(),
        });
        self.published = Some(Arc::clone(&routes));
        self.core.out.insert(0, Action::Publish(routes));
    }
}

/// With `cluster.monitor.detect = "checks"` only missed probes count, as with other load balancers (for comparisons): what traffic saw is dropped, and a
/// refused connect is taken for one that timed out.
fn without_events(fact: Fact) -> Fact {
    match fact {
        Fact::ConnectFailed { node, how: ConnectFailure::Refused | ConnectFailure::Reset } => {
            Fact::ConnectFailed { node, how: ConnectFailure::TimedOut }
        }
        Fact::ProbeSlow { .. } => Fact::Tick,
        other => other,
    }
}
