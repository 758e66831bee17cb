//! The only door: facts go in, with the time they were learned; actions come out.
//!
//! ```text
//!   on(now, fact): fact ─> beliefs ─> judgement ─> plan step ─> the kind's own ─> questions ─> routes (if they changed)
//! ```
//!
//! Invariants: the same facts at the same times give the same actions; at most one `Publish` for each fact, and it comes first;
//! every order gets exactly one answer.

mod orders;
mod reads;
mod signs;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use crate::account::Accounts;
use crate::action::{Action, Level};
use crate::catalogue::Catalogue;
use crate::core::{Core, FailedOver};
use crate::disk::Ticket;
use crate::election::ids;
use crate::fact::{ConnectFailure, Fact, Now, Outcome};
use crate::finding::Serves;
use crate::group::Group;
use crate::heartbeat::Wish;
use crate::judgement::judge_all;
use crate::plan::Quiet;
use crate::plan::all::All;
use crate::plan::one::One;
use crate::problem::{NOT_COMMITTING, seconds};
use crate::readers::{Common, Readers};
use crate::routes::{Lane, LaneState, Routes, ServerGreeting};
use crate::settings::{Settings, Writers};
use crate::{NodeId, Term};

/// So long after the loss of a node that took statements it is asked what becomes of it, and who follows, instead of waiting for the next
/// round of probes.
const JUST_LOST: Duration = Duration::from_secs(1);

/// What was on disk when the program started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The last decision's number; 0 when there was none.
    pub term: Term,
    /// The last decision's writer.
    pub writer: Option<NodeId>,
    /// Of each node: the limit of its sessions.
    pub sessions_max: Vec<Option<u32>>,
    /// How long before the start the last automatic failover was decided on, where the next one has to wait for a time.
    pub failed_over_ago: Option<Duration>,
}

/// The decision maker of one cluster.
pub struct Brain {
    core: Core,
    group: Group,
    plan: Plan,
    greeting: Option<Arc<ServerGreeting>>,
    accounts: Arc<Accounts>,
    accounts_due: Due,
    catalogue: Option<Arc<Catalogue>>,
    tables_due: Due,
    readers: Readers,
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
        let (writers, group) = (settings.writers, Group::new(settings.kind, count));
        let readers = Readers::new(settings.reads.clone(), count, now);
        let mut core = Core::new(settings, restored.term, writer, &restored.sessions_max, now);
        core.failed_over = restored.failed_over_ago.map(|ago| FailedOver::before(now, ago));
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

    /// Takes in one fact; gives back what is to be done about it, in order. Facts about nodes that the configuration does not have
    /// are ignored. Never fails, whatever it is told.
    pub fn on(&mut self, now: Now, fact: Fact) -> Vec<Action> {
        // A clock that steps back would undo waits: time only grows.
        self.core.now = self.core.now.max(now);
        self.notice_stall();
        self.take_in(fact);
        judge_all(&mut self.core, &mut self.group);
        self.save();
        match &mut self.plan {
            Plan::One(plan) => plan.step(&mut self.core, &mut self.group),
            Plan::All(plan) => plan.step(&mut self.core, &mut self.group),
        }
        self.group.act(&mut self.core);
        self.ask();
        self.read_catalogues();
        self.publish();
        let (greeting, accounts, catalogue) = (&self.greeting, &self.accounts, &self.catalogue);
        self.readers.step(&mut self.core, &self.group, &Common { greeting, accounts, catalogue });
        std::mem::take(&mut self.core.out)
    }

    fn notice_stall(&mut self) {
        let core = &mut self.core;
        let Some(gap) = core.stall.woke(core.now) else { return };
        core.last_sign = (core.last_sign + gap).min(core.now);
        for node in &mut core.nodes {
            node.counts.leave_out(gap, core.now);
            node.pulse.slept(core.now);
        }
        if self.group.slept(gap)
            && let Plan::One(plan) = &mut self.plan
        {
            plan.slept();
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
            Fact::Status { node, status, asked } => self.status(node, status, asked),
            Fact::ProbeMissed { node, asked } => self.miss(node, asked),
            Fact::ProbeSlow { node, asked } => self.group.slow(&self.core, node, asked),
            Fact::Beat { node, beat } => {
                let now = self.core.now;
                self.core.node_mut(node).pulse.beat(now, &beat);
            }
            Fact::CommitsWait { node, commits } => {
                let now = self.core.now;
                self.core.node_mut(node).pulse.commits_wait(now, &commits);
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
            Fact::TablesChanged => self.tables_due.wanted = true,
            Fact::StatementLost { node, epoch, digest, text } => {
                let now = self.core.now;
                let node = self.core.node_mut(node);
                // Its lane may have been shut already.
                if epoch + 1 >= node.epoch {
                    node.lost.add(now, digest, text);
                }
            }
            Fact::Cut { node, epoch } => self.core.node_mut(node).links_cut(epoch),
            Fact::TrafficLost { node, epoch, how, .. } => {
                self.traffic_lost(node, self.is_of_now(node, epoch), &how)
            }
            Fact::TrafficRefused { node, epoch, errno, .. } => {
                self.traffic_refused(node, self.is_of_now(node, epoch), errno)
            }
            Fact::Quiesced { node, epoch, term, version } => {
                let quiet = Quiet { node, epoch, term, version };
                match &mut self.plan {
                    Plan::One(plan) => plan.quiesced(quiet, &self.core),
                    Plan::All(plan) => plan.quiesced(quiet, &self.core),
                }
            }
            Fact::UnknownAccount { .. } => self.accounts_due.wanted = true,
            Fact::Reads(fact) => self.reads_saw(*fact),
            Fact::PositionWanted => {
                if let Some(primary) = self.core.writer.filter(|id| self.core.node(*id).linked) {
                    self.core.ask_probe(primary);
                }
            }
            Fact::Outcome(outcome) => self.outcome(outcome),
            Fact::Order { id, order } => self.order(id, order),
            Fact::Tick => self.tick(),
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Persisted { number } => self.core.disk.done(Ticket(number)),
            Outcome::PersistFailed { number, why } => self.core.disk.fail(Ticket(number), &why),
            Outcome::Galera(outcome) => self.group.galera_outcome(&mut self.core, outcome),
            Outcome::Replication(outcome) => self.group.replication_outcome(&mut self.core, outcome),
            Outcome::BarrierPassed { node, term } => self.barrier_answered(node, term, None),
            Outcome::BarrierFailed { node, term, why } => self.barrier_answered(node, term, Some(&why)),
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

    /// What is to be learned of each node's commits at this moment, in the configuration's order. A server that is about to become read only gets
    /// no heartbeat.
    pub fn wishes(&self) -> Vec<Wish> {
        let core = &self.core;
        // Where another program moves the writer nothing is written there.
        let may = !core.settings.heartbeat.interval.is_zero()
            && !core.settings.replication.dry_run
            && !self.group.follows(core);
        let writes = |id: NodeId| match &self.plan {
            Plan::One(plan) => plan.is_settled() && core.writer == Some(id),
            // One that was given up is asked until it commits again.
            Plan::All(_) => core.node(id).lane != LaneState::Shut || core.node(id).pulse.is_given_up(),
        };
        let late = core.nodes.iter().any(|node| node.pulse.waits(core.now).is_some());
        let settled = match &self.plan {
            Plan::One(plan) => plan.is_settled(),
            Plan::All(_) => true,
        };
        let others = late && settled && self.group.beats_others();
        ids(&core.nodes)
            .map(|id| {
                let node = core.node(id);
                let is_fit = node.linked
                    && node.doubt.is_none()
                    && (node.verdict.serves != Serves::No || node.pulse.is_given_up());
                let beats = may
                    && is_fit
                    && (writes(id)
                        || others
                            && (node.verdict.serves == Serves::Well
                                || node.verdict.problem == NOT_COMMITTING));
                let commits = if is_fit && writes(id) { node.pulse.commits(core.now) } else { &[] };
                Wish { beats, commits: commits.to_vec() }
            })
            .collect()
    }

    /// The order or move that runs now.
    fn doing(&self) -> Option<String> {
        match &self.plan {
            Plan::One(plan) => plan.doing(&self.core),
            Plan::All(plan) => plan.doing(&self.core),
        }
    }

    // ---- after the plan

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
        let just_lost = core.nodes.iter().any(|node| {
            let recent = node.lost_at.is_some_and(|at| core.now.saturating_sub(at) < JUST_LOST);
            recent && node.verdict.serves == Serves::No && node.lane != LaneState::Shut
        });
        let unclear =
            core.nodes.iter().any(|node| node.doubt.is_some()) || self.group.is_unclear(core) || just_lost;
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
        let alarmed: Vec<NodeId> =
            ids(&core.nodes).filter(|id| core.node(*id).linked && core.node(*id).alarms.is_open()).collect();
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
                sessions_max: if node.turned_away { Some(0) } else { node.sessions_max },
                looked: node.alarms.looked,
                refused: node.alarms.refused,
                lost_epoch: node.lost_epoch,
                cut: node.cut,
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

/// What is left of a fact when only missed probes count.
fn without_events(fact: Fact) -> Fact {
    match fact {
        Fact::ConnectFailed { node, how: ConnectFailure::Refused | ConnectFailure::Reset } => {
            Fact::ConnectFailed { node, how: ConnectFailure::TimedOut }
        }
        Fact::TrafficLost { .. } | Fact::TrafficRefused { .. } | Fact::ProbeSlow { .. } => Fact::Tick,
        Fact::Reads(fact) => Fact::Reads(Box::new(without_events(*fact))),
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
        | Fact::ProbeSlow { node, .. }
        | Fact::Accounts { node, .. }
        | Fact::Beat { node, .. }
        | Fact::CommitsWait { node, .. }
        | Fact::TrafficLost { node, .. }
        | Fact::TrafficRefused { node, .. }
        | Fact::StatementLost { node, .. }
        | Fact::Catalogue { node, .. }
        | Fact::Quiesced { node, .. }
        | Fact::Cut { node, .. }
        | Fact::Outcome(Outcome::BarrierPassed { node, .. } | Outcome::BarrierFailed { node, .. }) => {
            Some(*node)
        }
        Fact::Reads(fact) => about(fact),
        Fact::Outcome(Outcome::Galera(outcome)) => outcome.node(),
        Fact::Outcome(Outcome::Replication(outcome)) => Some(outcome.node()),
        Fact::Outcome(Outcome::Persisted { .. } | Outcome::PersistFailed { .. })
        | Fact::UnknownAccount { .. }
        | Fact::PositionWanted
        | Fact::TablesChanged
        | Fact::Order { .. }
        | Fact::Tick => None,
    }
}
