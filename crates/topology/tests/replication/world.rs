//! A primary and its replicas in simulated time, the brain in charge of them, and what the shells do around it: links and probes, orders to
//! servers step by step, the disk, and the proxy's lanes.
//!
//! With dice, everything takes a random time; without, its least time. A seed gives one run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome};
use topology::heartbeat::Beat;
use topology::kind::Kind;
use topology::order::{Order, OrderId};
use topology::routes::{LaneState, Routes, ServerGreeting};
use topology::settings::{NodeSettings, Settings, Writers};
use topology::{NodeId, Term};

use crate::dice::Dice;
use crate::price::Stated;
use crate::server::{Fetching, Server, Transaction, replicate};

type Later = Box<dyn FnOnce(&mut World)>;

/// The deadline of a question, and the time between two.
const PROBE: Duration = Duration::from_millis(200);
const MS: Duration = Duration::from_millis(1);

/// A commit that waits for a replica.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub uid: u64,
    pub server: usize,
    pub life: u64,
    pub epoch: u64,
}

pub struct World {
    pub brain: Option<Brain>,
    pub settings: Settings,
    pub servers: Vec<Server>,
    pub names: Vec<String>,
    pub now: Duration,
    pub dice: Option<Rc<Dice>>,
    queue: BTreeMap<(Duration, u64), Later>,
    next: u64,
    /// Grows with each start of our own process; what an older one began is over.
    pub process: u64,
    began: Duration,
    /// The highest term of any order of this process.
    pub newest: Term,
    /// Our clock is so far ahead.
    pub skew: Duration,
    pub stalled_until: Duration,
    pub disk: Restored,
    /// When the failover was decided on that the disk has.
    failed_over: Option<Duration>,
    pub disk_fails: bool,
    linked: Vec<Option<u64>>,
    /// Of each server: when its last answer on its way arrives.
    answers_until: Vec<Duration>,
    /// Packets get from us (`None`) or a server to a server.
    pub cut_off: Vec<(Option<usize>, usize)>,
    pub routes: Option<Arc<Routes>>,
    lanes: String,
    /// Nothing is quiet by itself.
    pub busy: bool,
    pub out: String,
    orders: u64,
    answered: BTreeMap<u64, bool>,
    pub uid: u64,
    /// Commits wait for a replica.
    pub semi_sync: bool,
    pub waiting: Vec<Waiting>,
    /// What clients were told is done.
    pub acknowledged: Vec<u64>,
    /// All commits.
    pub made: BTreeMap<u64, Transaction>,
    /// What the last sentence about a new primary said may be lost, until it is opened.
    pub stated: Option<Stated>,
    /// What an earlier failover has lost.
    pub known_lost: BTreeSet<u64>,
    /// After so many more actions our process is killed.
    pub kill_after: Option<u64>,
    /// What went wrong, so far.
    pub faults: u64,
    /// Whom we made writable in each term.
    pub made_writable: BTreeMap<Term, usize>,
    /// When a server last began to be reachable, so that it can be demanded that it was made read only.
    pub reachable_since: Vec<Duration>,
    /// Of each server: all links of epochs below this one are cut.
    pub cut_below: Vec<u64>,
    /// Nothing is lost: whoever is served is not made read only.
    pub is_gentle: bool,
}

impl World {
    pub fn new(names: Vec<String>, primary: usize, restored: Restored, dice: Option<Rc<Dice>>) -> Self {
        let node =
            |name: &String| NodeSettings { name: name.clone(), address: format!("{name}:3306"), priority: 0 };
        let mut settings = Settings::new("shop", Writers::One, names.iter().map(node).collect());
        settings.kind = Kind::Replication;
        let servers: Vec<Server> = (0..names.len())
            .map(|number| {
                let mut server = Server {
                    id: number as u32 + 1,
                    up: true,
                    read_only: number != primary,
                    ..Server::default()
                };
                if number != primary {
                    server.follow(primary);
                }
                server
            })
            .collect();
        let count = names.len();
        Self {
            brain: None,
            settings,
            servers,
            names,
            now: Duration::ZERO,
            dice,
            queue: BTreeMap::new(),
            next: 0,
            process: 0,
            began: Duration::ZERO,
            newest: Term(0),
            skew: Duration::ZERO,
            stalled_until: Duration::ZERO,
            disk: restored,
            failed_over: None,
            disk_fails: false,
            linked: vec![None; count],
            answers_until: vec![Duration::ZERO; count],
            cut_off: Vec::new(),
            routes: None,
            lanes: String::new(),
            busy: false,
            out: String::new(),
            orders: 0,
            answered: BTreeMap::new(),
            uid: 0,
            semi_sync: false,
            waiting: Vec::new(),
            acknowledged: Vec::new(),
            made: BTreeMap::new(),
            stated: None,
            known_lost: BTreeSet::new(),
            kill_after: None,
            faults: 0,
            made_writable: BTreeMap::new(),
            reachable_since: vec![Duration::ZERO; count],
            cut_below: vec![0; count],
            is_gentle: false,
        }
    }

    // ---- time

    pub fn later(&mut self, delay: Duration, what: impl FnOnce(&mut World) + 'static) {
        self.next += 1;
        self.queue.insert((self.now + delay, self.next), Box::new(what));
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        // So many things happen in a second at the most: a run that never gets on is a failure, not a hang.
        let mut left = 20_000 + time.as_millis() as u64 * 20;
        while let Some(first) = self.queue.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), what) = first.remove_entry();
            self.now = at;
            what(self);
            left -= 1;
            assert!(left > 0, "it does not get on at {:?}:\n{}", self.now, self.tail());
        }
        self.now = until;
    }

    /// A time between these, in milliseconds.
    pub fn delay(&self, least: u64, most: u64) -> Duration {
        self.dice.as_ref().map_or(MS * least as u32, |dice| dice.between_ms(least, most))
    }

    pub fn chance(&self, percent: u64) -> bool {
        self.dice.as_ref().is_some_and(|dice| dice.percent(percent))
    }

    /// The end of what was said.
    pub fn tail(&self) -> &str {
        let from = self.out.len().saturating_sub(12_000);
        let from = (from..self.out.len()).find(|at| self.out.is_char_boundary(*at)).unwrap_or(0);
        &self.out[from..]
    }

    pub fn note(&mut self, line: &str) {
        let _ = writeln!(self.out, "{:.2} {line}", self.now.as_secs_f64());
    }

    // ---- our own process

    /// The process begins, with what is on disk.
    pub fn start_process(&mut self) {
        self.process += 1;
        self.began = self.now;
        self.skew = Duration::ZERO;
        self.newest = Term(0);
        self.reachable_since.fill(self.now);
        let failed_over_ago = self.failed_over.map(|at| self.now.saturating_sub(at));
        let restored = Restored { failed_over_ago, ..self.disk.clone() };
        let brain = Brain::new(self.settings.clone(), restored, Duration::ZERO);
        self.brain = Some(brain);
        let process = self.process;
        self.tick(process);
        self.pump(process);
        for node in 0..self.servers.len() {
            let delay = self.delay(1, 40);
            self.later(delay, move |world| world.probe(process, node));
        }
    }

    /// It is killed: its links end, and what it had begun is not gone on with.
    pub fn end_process(&mut self) {
        self.process += 1;
        self.brain = None;
        self.stated = None;
        self.routes = None;
        self.lanes.clear();
        self.linked.fill(None);
        self.waiting.clear();
        let process = self.process;
        self.pump(process);
    }

    fn tick(&mut self, process: u64) {
        if process == self.process {
            self.tell(Fact::Tick);
            self.later(MS * 40, move |world| world.tick(process));
        }
    }

    fn pump(&mut self, process: u64) {
        if process == self.process {
            self.replicate();
            self.later(MS * 10, move |world| world.pump(process));
        }
    }

    /// The heartbeats of a server that does not commit, as long as they are wanted.
    pub fn beat(&mut self, process: u64, node: usize, asked: Duration) {
        if process != self.process {
            return;
        }
        let wanted = self.brain.as_ref().is_some_and(|brain| brain.beats()[node]);
        let id = NodeId(node as u8);
        let Some(stall) = self.servers[node].stuck else {
            self.tell(Fact::Beat { node: id, beat: Beat::Committed { asked: self.brain_now() } });
            return;
        };
        if wanted {
            self.tell(Fact::Beat { node: id, beat: Beat::Waits { asked, stall } });
        }
        self.later(MS * 500, move |world| world.beat(process, node, asked));
    }

    pub fn brain_now(&self) -> Duration {
        self.now.saturating_sub(self.began) + self.skew
    }

    /// A fact of this process.
    pub fn tell(&mut self, fact: Fact) {
        if self.now < self.stalled_until {
            let (process, delay) = (self.process, self.stalled_until.saturating_sub(self.now));
            self.later(delay, move |world| {
                if world.process == process {
                    world.tell(fact);
                }
            });
            return;
        }
        let now = self.brain_now();
        let Some(brain) = &mut self.brain else { return };
        for action in brain.on(now, fact) {
            let is_step =
                matches!(action, Action::Persist { .. } | Action::Replication(_) | Action::Publish(_));
            self.act(action);
            if is_step && self.dies() {
                return;
            }
        }
    }

    /// Our process is killed between two steps of what it has begun.
    fn dies(&mut self) -> bool {
        let Some(left) = &mut self.kill_after else { return false };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return false;
        }
        self.kill_after = None;
        self.note("-- our process is killed at this step");
        self.end_process();
        let delay = self.delay(10, 1500);
        self.later(delay, |world| {
            if world.brain.is_none() {
                world.note("-- our process begins");
                world.start_process();
            }
        });
        true
    }

    /// The same, a moment later.
    pub fn tell_later(&mut self, delay: Duration, fact: Fact) {
        let process = self.process;
        self.later(delay, move |world| {
            if world.process == process {
                world.tell(fact);
            }
        });
    }

    // ---- links and probes

    pub fn reaches(&self, from: Option<usize>, to: usize) -> bool {
        !self
            .cut_off
            .iter()
            .any(|cut| *cut == (from, to) || (from.is_some() && *cut == (Some(to), from.unwrap_or(to))))
    }

    /// It answers whom its packets reach.
    fn speaks(&self, node: usize) -> bool {
        let server = &self.servers[node];
        server.up && !server.frozen && self.reaches(None, node)
    }

    fn probe(&mut self, process: u64, node: usize) {
        if process != self.process {
            return;
        }
        if self.now >= self.stalled_until {
            match self.linked[node] {
                Some(_) => self.ask(node),
                None => self.connect(node),
            }
        }
        self.later(PROBE, move |world| world.probe(process, node));
    }

    fn ask(&mut self, node: usize) {
        let Some(life) = self.linked[node] else { return };
        let (process, asked) = (self.process, self.brain_now());
        let id = NodeId(node as u8);
        let there = self.delay(0, 3);
        let lost = self.chance(1);
        self.later(there, move |world| {
            if process != world.process || world.linked[node] != Some(life) {
                return;
            }
            let server = &world.servers[node];
            if world.reaches(None, node) && (!server.up || server.life != life) {
                // The process it was made to is gone: the host resets it.
                world.end_link(node);
                return;
            }
            if lost || !world.speaks(node) {
                world.later(PROBE / 5, move |world| {
                    if process == world.process && world.linked[node] == Some(life) {
                        world.tell(Fact::ProbeSlow { node: id, asked });
                    }
                });
                world.later(PROBE, move |world| {
                    if process == world.process && world.linked[node] == Some(life) {
                        world.tell(Fact::ProbeMissed { node: id, asked });
                    }
                });
                return;
            }
            let status = world.status(node).into();
            let back = if world.chance(1) { world.delay(30, 500) } else { world.delay(1, 3) };
            // Answers come in the order of the questions.
            let at = (world.now + back).max(world.answers_until[node]);
            world.answers_until[node] = at;
            let back = at.saturating_sub(world.now);
            world.later(back, move |world| {
                if process == world.process && world.linked[node] == Some(life) {
                    world.tell(Fact::Status { node: id, status, asked });
                }
            });
        });
    }

    fn connect(&mut self, node: usize) {
        let process = self.process;
        let there = self.delay(1, 4);
        let id = NodeId(node as u8);
        self.later(there, move |world| {
            if process != world.process {
                return;
            }
            let server = &world.servers[node];
            if !world.reaches(None, node) || (server.up && server.frozen) {
                world.tell_later(PROBE, Fact::ConnectFailed { node: id, how: ConnectFailure::TimedOut });
            } else if !server.up {
                world.tell(Fact::ConnectFailed { node: id, how: ConnectFailure::Refused });
            } else {
                world.linked[node] = Some(server.life);
                world.tell(Fact::LinkUp { node: id, greeting: greeting() });
                world.ask(node);
            }
        });
    }

    pub fn status(&self, node: usize) -> topology::replication::ReplicationStatus {
        let mut status = self.servers[node].status(&self.names, self.semi_sync);
        let follows = |server: &&Server| {
            server.up && server.source == Some(node) && server.fetching == Fetching::Yes && self.semi_sync
        };
        status.semi_sync.replicas = self.servers.iter().filter(follows).count() as u32;
        status
    }

    /// Its process ends.
    pub fn kill(&mut self, node: usize) {
        self.servers[node].up = false;
        self.end_link(node);
    }

    pub fn end_link(&mut self, node: usize) {
        if self.reaches(None, node) && self.linked[node].take().is_some() {
            let delay = self.delay(0, 2);
            self.tell_later(delay, Fact::LinkEnded { node: NodeId(node as u8), how: LinkEnd::Closed });
        }
    }

    pub fn start_server(&mut self, node: usize, lost_from: Option<Duration>) {
        self.servers[node].start(lost_from);
        self.reachable_since[node] = self.now;
    }

    // ---- transactions

    fn replicate(&mut self) {
        let cut_off = std::mem::take(&mut self.cut_off);
        let reaches = |one: usize, other: usize| {
            !cut_off.iter().any(|cut| *cut == (Some(one), other) || *cut == (Some(other), one))
        };
        let dice = self.dice.clone();
        replicate(&mut self.servers, reaches, || match &dice {
            Some(dice) if dice.percent(10) => dice.below(3) as usize,
            _ => usize::MAX,
        });
        self.cut_off = cut_off;
        self.acknowledge();
    }

    /// A commit returns when a replica has it, if its client is still there to hear it.
    fn acknowledge(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for commit in waiting {
            let primary = &self.servers[commit.server];
            if !primary.up || primary.life != commit.life || self.epoch(commit.server) != commit.epoch {
                continue;
            }
            let has = |server: &Server| {
                let transactions = server.received.iter().chain(server.applied.iter().rev().take(200));
                server.source == Some(commit.server)
                    && transactions.into_iter().any(|it| it.uid == commit.uid)
            };
            if self.servers.iter().any(has) && self.speaks(commit.server) {
                self.acknowledged.push(commit.uid);
            } else {
                self.waiting.push(commit);
            }
        }
    }

    fn epoch(&self, node: usize) -> u64 {
        let lane = self.routes.as_ref().and_then(|routes| routes.lane(NodeId(node as u8)));
        lane.map_or(u64::MAX, |lane| lane.epoch)
    }

    /// A client's commit, sent to `node`; `told`: the client is there to hear of it.
    pub fn commit(&mut self, node: usize, told: bool) -> bool {
        if !self.speaks(node) || self.servers[node].read_only || self.servers[node].stuck.is_some() {
            return false;
        }
        self.uid += 1;
        let (uid, now, epoch) = (self.uid, self.now, self.epoch(node));
        let server = &mut self.servers[node];
        server.write(uid, now);
        let life = server.life;
        let made = server.applied.last().copied();
        self.made.extend(made.map(|made| (uid, made)));
        if told && server.waits {
            self.waiting.push(Waiting { uid, server: node, life, epoch });
        } else if told {
            self.acknowledged.push(uid);
        }
        true
    }

    /// The lane that is open.
    pub fn open(&self) -> Option<usize> {
        let routes = self.routes.as_ref()?;
        routes.open().next().map(|lane| usize::from(lane.node.0))
    }

    // ---- what the brain asks for

    fn act(&mut self, action: Action) {
        let line = match action {
            Action::Publish(routes) => match self.publish(routes) {
                Some(line) => line,
                None => return,
            },
            Action::Persist { number, term, writer, sessions_max, failed_over_ago } => {
                self.persist(number, Restored { term, writer, sessions_max, failed_over_ago });
                format!("persist term {term}")
            }
            Action::Replication(action) => self.begin_order(action),
            Action::Probe { node } => return self.ask(usize::from(node.0)),
            Action::Confirm { node } => return self.connect_anew(usize::from(node.0)),
            Action::Say(sentence) => {
                self.note_price(&sentence.text);
                format!("say {}: {}", sentence.level.word(), sentence.text)
            }
            Action::Answer { id, reply } => {
                let before = self.answered.insert(id.0, reply.is_ok());
                assert_eq!(before, None, "an order was answered twice");
                match reply {
                    Ok(done) => format!("answer: {}", done.sentence),
                    Err(refused) => format!("refused {}: {}", refused.code, refused.sentence),
                }
            }
            Action::Barrier { .. } | Action::Galera(_) => panic!("asked of a Galera cluster: {action:?}"),
            Action::PublishReads(_)
            | Action::Reached(_)
            | Action::ReadAccounts { .. }
            | Action::ReadTables { .. } => return,
        };
        self.note(&line);
    }

    fn connect_anew(&mut self, node: usize) {
        match self.linked[node] {
            // The kept link is not given up for it; a new one stands, or does not.
            Some(_) => self.ask(node),
            _ => self.connect(node),
        }
    }

    fn persist(&mut self, number: u64, what: Restored) {
        let process = self.process;
        let failed_over = what.failed_over_ago.map(|ago| self.now.saturating_sub(ago));
        let delay = if self.chance(3) { self.delay(100, 400) } else { self.delay(0, 8) };
        let fails = self.disk_fails;
        self.later(delay, move |world| {
            // A write that was on its way when the process ended may be there, or not.
            let is_ours = process == world.process;
            let lands = !fails && (is_ours || world.chance(50));
            if lands && what.term >= world.disk.term {
                world.disk = what;
                world.failed_over = failed_over;
            }
            let why = "full".to_owned();
            let came =
                if lands { Outcome::Persisted { number } } else { Outcome::PersistFailed { number, why } };
            if is_ours {
                world.tell(Fact::Outcome(came));
            }
        });
    }

    fn publish(&mut self, routes: Arc<Routes>) -> Option<String> {
        let open: Vec<&str> = routes.open().map(|lane| &*lane.name).collect();
        assert!(open.len() <= 1, "two lanes are open: {open:?}");
        for lane in &routes.lanes {
            let known = self.routes.as_ref().and_then(|old| old.lane(lane.node)).cloned();
            let before = known.as_ref().map_or(0, |old| old.epoch);
            if lane.epoch > before {
                self.shut(lane.node, lane.epoch - 1, known.is_some_and(|old| old.state != LaneState::Shut));
            }
            if lane.state == LaneState::Draining {
                let (process, node, epoch) = (self.process, usize::from(lane.node.0), lane.epoch);
                let delay = self.delay(0, 60);
                self.later(delay, move |world| world.quiet(process, node, epoch));
            }
        }
        let state = |state| match state {
            LaneState::Open => "open",
            LaneState::Draining => "draining",
            LaneState::Shut => "shut",
        };
        let lanes: Vec<String> =
            routes.lanes.iter().map(|lane| format!("{}:{}", lane.name, state(lane.state))).collect();
        let lanes = format!("lanes {}, term {}", lanes.join(" "), routes.term);
        self.routes = Some(routes);
        let is_news = lanes != self.lanes;
        self.lanes.clone_from(&lanes);
        if is_news {
            self.demand_one_writer();
            if let Some(open) = self.open() {
                self.demand_price(open);
            }
        }
        is_news.then_some(lanes)
    }

    /// The links of a lane are cut; what was under way there may land until that is certain.
    fn shut(&mut self, id: NodeId, epoch: u64, was_used: bool) {
        let (process, node) = (self.process, usize::from(id.0));
        let gone = self.delay(0, 40);
        if was_used && self.chance(30) {
            let lands = gone / 2;
            self.later(lands, move |world| {
                world.commit(node, false);
            });
        }
        self.later(gone, move |world| {
            if process == world.process {
                world.cut_below[node] = world.cut_below[node].max(epoch + 1);
                world.tell(Fact::Cut { node: id, epoch });
            }
        });
    }

    /// Nothing runs on a draining lane any more, unless a commit waits or a client takes its time.
    pub fn quiet(&mut self, process: u64, node: usize, epoch: u64) {
        let Some(routes) = self.routes.clone().filter(|_| process == self.process) else { return };
        let is_draining =
            |lane: &&topology::routes::Lane| lane.state == LaneState::Draining && lane.epoch == epoch;
        let id = NodeId(node as u8);
        let Some(lane) = routes.lane(id).filter(is_draining) else { return };
        let waits = self.waiting.iter().any(|commit| commit.server == node && commit.epoch == lane.epoch);
        if self.busy || waits {
            self.later(MS * 20, move |world| world.quiet(process, node, epoch));
            return;
        }
        self.tell(Fact::Quiesced { node: id, epoch, term: routes.term, version: routes.version });
    }

    // ---- orders of an operator

    pub fn operator(&mut self, order: Order) -> u64 {
        self.orders += 1;
        let id = self.orders;
        self.tell(Fact::Order { id: OrderId(id), order });
        id
    }

    pub fn answer_to(&self, order: u64) -> Option<bool> {
        self.answered.get(&order).copied()
    }
}

fn greeting() -> ServerGreeting {
    ServerGreeting { version: "5.5.5-10.11.19-MariaDB".into(), capabilities: u64::MAX, charset: 45 }
}
