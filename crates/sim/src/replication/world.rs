//! A primary and its replicas in simulated time, with the brain in charge: the clock, the manager's process, and an operator's orders. What
//! the shells do is in `links`, `lanes`, `orders` and `shell`; what clients do, in `traffic`.
//!
//! With random numbers everything takes a random time; without, its least time. A seed determines one run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use protocol::gtid::Family;
use topology::action::Action;
use topology::brain::{Brain, NotTaken, Restored};
use topology::fact::Fact;
use topology::heartbeat::Beat;
use topology::kind::Kind;
use topology::order::{Order, OrderId};
use topology::routes::Routes;
use topology::settings::{NodeSettings, Settings, Writers};
use topology::view::NodeView;
use topology::{NodeId, Term};

use super::events::Memory;
use super::price::Stated;
use super::server::{Server, Transaction};
use crate::Dice;

type Later = Box<dyn FnOnce(&mut World)>;

/// The deadline of a question, and the time between two.
pub const PROBE: Duration = Duration::from_millis(200);
pub const MS: Duration = Duration::from_millis(1);

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
    /// Grows with each start of the manager's process; what an older one began is over.
    pub process: u64,
    /// The process that began last.
    pub last_begun: u64,
    /// What this process and those before it had on disk is lost.
    pub forgotten_up_to: u64,
    pub began: Duration,
    /// The highest term of any order of this process.
    pub newest: Term,
    /// The manager's clock is ahead by this much.
    pub skew: Duration,
    pub stalled_until: Duration,
    pub disk: Restored,
    /// When the failover was decided that is on disk.
    pub failed_over: Option<Duration>,
    /// What was on disk was lost.
    pub has_forgotten: bool,
    /// When what the primary reported last was written to disk.
    pub written_at: Duration,
    pub disk_fails: bool,
    pub linked: Vec<Option<u64>>,
    /// For each server: when its last answer in transit arrives.
    pub answers_until: Vec<Duration>,
    /// For each server: when the manager was, or is, told that its last link has ended.
    pub link_ended_at: Vec<Duration>,
    /// Whether packets get from the manager (`None`) or a server to a server.
    pub cut_off: Vec<(Option<usize>, usize)>,
    pub routes: Option<Arc<Routes>>,
    /// The lanes that take reads.
    pub reads: Option<Arc<Routes>>,
    /// Sessions and a door are driven beside this model, and tell what comes of the lanes: see [`World::proxy_tells`].
    pub has_proxy: bool,
    pub lanes: String,
    /// No lane becomes quiet by itself.
    pub busy: bool,
    pub out: String,
    pub orders: u64,
    pub answered: BTreeMap<u64, bool>,
    pub uid: u64,
    /// Commits wait for a replica.
    pub semi_sync: bool,
    /// The first commit on each primary that is opened is a statement about accounts.
    pub accounts_first: bool,
    /// Every server's event_scheduler is ON.
    pub event_scheduler: bool,
    /// What the manager keeps of the events that the primary runs.
    pub kept: Memory,
    pub waiting: Vec<Waiting>,
    /// The commits that clients were told of.
    pub acknowledged: Vec<u64>,
    /// All commits.
    pub made: BTreeMap<u64, Transaction>,
    /// What the last sentence about a new primary said may be lost, until it is opened.
    pub stated: Option<Stated>,
    /// What an earlier failover has lost.
    pub known_lost: BTreeSet<u64>,
    /// After this many more actions the manager's process is killed.
    pub kill_after: Option<u64>,
    /// What went wrong, so far.
    pub faults: u64,
    /// Reloads that were refused, and that were taken.
    pub reloads: [u64; 2],
    /// When the last process of ours ended.
    pub ended: Option<Duration>,
    /// The server that was made writable in each term.
    pub made_writable: BTreeMap<Term, usize>,
    /// Since when a server has been reachable, after which it must be made read only.
    pub reachable_since: Vec<Duration>,
    /// Of each server: all links of epochs below this one are cut.
    pub cut_below: Vec<u64>,
    /// No server is lost: one that takes traffic is not made read only.
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
            last_begun: 0,
            forgotten_up_to: 0,
            began: Duration::ZERO,
            newest: Term(0),
            skew: Duration::ZERO,
            stalled_until: Duration::ZERO,
            disk: restored,
            failed_over: None,
            has_forgotten: false,
            written_at: Duration::ZERO,
            disk_fails: false,
            linked: vec![None; count],
            answers_until: vec![Duration::ZERO; count],
            link_ended_at: vec![Duration::ZERO; count],
            cut_off: Vec::new(),
            routes: None,
            reads: None,
            has_proxy: false,
            lanes: String::new(),
            busy: false,
            out: String::new(),
            orders: 0,
            answered: BTreeMap::new(),
            uid: 0,
            semi_sync: false,
            accounts_first: false,
            event_scheduler: false,
            kept: Memory::default(),
            waiting: Vec::new(),
            acknowledged: Vec::new(),
            made: BTreeMap::new(),
            stated: None,
            known_lost: BTreeSet::new(),
            kill_after: None,
            faults: 0,
            reloads: [0; 2],
            ended: None,
            made_writable: BTreeMap::new(),
            reachable_since: vec![Duration::ZERO; count],
            cut_below: vec![0; count],
            is_gentle: false,
        }
    }

    /// All servers are of that family.
    pub fn are_of(&mut self, family: Family) {
        for server in &mut self.servers {
            server.is_mysql = family == Family::MySql;
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

    /// When something happens next.
    pub fn next_at(&self) -> Option<Duration> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// A time between these, in milliseconds.
    pub fn delay(&self, least: u64, most: u64) -> Duration {
        self.dice.as_ref().map_or(MS * least as u32, |dice| dice.between_ms(least, most))
    }

    pub fn chance(&self, percent: u64) -> bool {
        self.dice.as_ref().is_some_and(|dice| dice.percent(percent))
    }

    /// The sentences of the brain so far.
    pub fn tail(&self) -> &str {
        let from = self.out.len().saturating_sub(12_000);
        let from = (from..self.out.len()).find(|at| self.out.is_char_boundary(*at)).unwrap_or(0);
        &self.out[from..]
    }

    pub fn note(&mut self, line: &str) {
        let _ = writeln!(self.out, "{:.2} {line}", self.now.as_secs_f64());
    }

    // ---- our own process

    /// The process starts, with what is on disk.
    pub fn start_process(&mut self) {
        self.process += 1;
        self.last_begun = self.process;
        self.began = self.now;
        self.skew = Duration::ZERO;
        self.newest = Term(0);
        self.kept.restart();
        self.reachable_since.fill(self.now);
        let failed_over_ago = self.failed_over.map(|at| self.now.saturating_sub(at));
        let away = self.ended.map(|at| self.now.saturating_sub(at));
        let written_ago = self.now.saturating_sub(self.written_at);
        let written = self.disk.written.clone().map(|(written, _)| (written, written_ago));
        let restored = Restored { failed_over_ago, away, written, ..self.disk.clone() };
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

    /// What is on disk is lost.
    pub fn forget(&mut self) {
        self.disk = Restored::default();
        self.failed_over = None;
        self.kept.on_disk = None;
        self.ended = None;
        self.has_forgotten = true;
        self.forgotten_up_to = self.process;
        // Terms begin anew.
        self.made_writable.clear();
    }

    /// What a process writes gets to the disk. What it had begun to write when it was killed may be there, or not; but it is not written any
    /// more once the next process has begun: a process holds the lock of its state directory until nothing of it runs, and the next one
    /// takes that lock before it reads. Nor is it written where the file itself is lost.
    pub fn may_write_to_disk(&self, process: u64) -> bool {
        let may_be_there = process == self.process || self.chance(50);
        may_be_there && process == self.last_begun && process > self.forgotten_up_to
    }

    /// It is killed: its links end, and what it had begun is not continued.
    pub fn end_process(&mut self) {
        self.process += 1;
        self.ended = Some(self.now);
        self.brain = None;
        self.stated = None;
        (self.routes, self.reads) = (None, None);
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
        let id = NodeId(node as u8);
        let wanted = |brain: &Brain| brain.wishes().iter().any(|(node, wish)| *node == id && wish.beats);
        let wanted = self.brain.as_ref().is_some_and(wanted);
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

    /// The configuration is reloaded, with the servers in another order. Whether that was taken up.
    pub fn reload(&mut self, order: Vec<NodeId>) -> bool {
        let (now, is_stalled) = (self.brain_now(), self.now < self.stalled_until);
        let Some(brain) = self.brain.as_mut().filter(|_| !is_stalled) else { return false };
        let node = |id: NodeId| self.settings.nodes[usize::from(id.0)].clone();
        let settings = Settings { nodes: order.into_iter().map(node).collect(), ..self.settings.clone() };
        assert_eq!(brain.reconfigure(now, settings), Ok(()), "another order is taken whatever is under way");
        self.tell(Fact::Tick);
        true
    }

    /// The configuration is reloaded with one server more, that does not answer, and then without it: which of both was not taken, and why.
    pub fn add_and_remove(&mut self) -> Result<(), (bool, NotTaken)> {
        let (now, is_stalled) = (self.brain_now(), self.now < self.stalled_until);
        let Some(brain) = self.brain.as_mut().filter(|_| !is_stalled) else { return Ok(()) };
        let before = self.settings.clone();
        let mut settings = before.clone();
        settings.nodes.push(NodeSettings { name: "db99".into(), address: "db99:3306".into(), priority: 0 });
        brain.reconfigure(now, settings).map_err(|why| (true, why))?;
        brain.reconfigure(now, before).map_err(|why| (false, why))
    }

    /// What is shown of a server.
    pub fn shown(&self, node: usize) -> NodeView {
        let view = self.brain.as_ref().expect("a brain").view(self.now);
        view.node(NodeId(node as u8)).expect("a node").clone()
    }

    /// The manager's process is killed between two steps of what it has begun.
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
