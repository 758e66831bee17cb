//! The manager: the real brain, with probes, a disk and orders that take their time and may fail.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::catalogue::Catalogue;
use topology::fact::{Fact, Outcome, ProxyFact};
use topology::galera;
use topology::order::{Order, OrderId};
use topology::routes::{LaneState, Routes};
use topology::settings::{EvictPolicy, NodeSettings, Settings, Writers};
use topology::view::ClusterView;
use topology::{NodeId, Origin, Term};

use super::ground::{Control, Ground, Nodes};
use super::group::{Group, NODES};
use super::link::{Answer, Ask, Link};
use super::probe::Wish;
use sim::clock::{Either, race};

const TICK: Duration = Duration::from_millis(20);
/// A node is given up for what happened at most so long ago.
const CAUSE_TIME: Duration = Duration::from_secs(2);
/// An order, and what follows from it, takes no longer.
const ORDER_TIME: Duration = Duration::from_secs(15);

/// See the head of this file.
pub struct Manager {
    pub group: Rc<Group>,
    pub ground: Rc<Ground>,
    pub settings: Settings,
    brain: RefCell<Brain>,
    pub inbox: RefCell<VecDeque<Fact>>,
    /// Facts of the proxy come in the order in which they were told.
    last_told: Cell<Duration>,
    me: Weak<Self>,
    pub wishes: [RefCell<VecDeque<Wish>>; NODES],
    routes: RefCell<Option<Arc<Routes>>>,
    orders: Cell<u64>,
    /// When the last one was given.
    ordered: Cell<Duration>,
    answered: RefCell<BTreeMap<u64, bool>>,
    /// What is on disk.
    written: Cell<Term>,
    disk_fails: Cell<bool>,
    /// The last open lane of `writers = "one"`, and its term; of each node, the last epoch that was not shut.
    wrote: Cell<(NodeId, Term)>,
    last_epoch: [Cell<Option<u64>>; NODES],
    /// Draining lanes that the proxy said to be quiet.
    quiet: RefCell<BTreeSet<(NodeId, u64)>>,
    is_stalled: Cell<bool>,
    /// The last decisions, for whoever looks for the cause of a failure.
    said: RefCell<VecDeque<String>>,
    /// The same of statements that have ended.
    ended: RefCell<VecDeque<String>>,
}

impl Manager {
    pub fn start(group: &Rc<Group>, ground: &Rc<Ground>, writers: Writers, evict: EvictPolicy) -> Rc<Self> {
        let node = |at: usize| NodeSettings {
            name: format!("db{}", at + 1),
            address: Group::address(at),
            priority: 0,
        };
        let mut settings = Settings::new("shop", writers, (0..NODES).map(node).collect());
        settings.galera.evict = evict;
        let restored = Restored::default();
        let manager = Rc::new_cyclic(|me| Self {
            me: me.clone(),
            group: group.clone(),
            ground: ground.clone(),
            brain: RefCell::new(Brain::new(settings.clone(), restored, Duration::ZERO)),
            settings,
            inbox: RefCell::default(),
            last_told: Cell::default(),
            wishes: Default::default(),
            routes: RefCell::default(),
            orders: Cell::default(),
            ordered: Cell::default(),
            answered: RefCell::default(),
            written: Cell::default(),
            disk_fails: Cell::default(),
            wrote: Cell::new((NodeId(0), Term(0))),
            last_epoch: Default::default(),
            quiet: RefCell::default(),
            is_stalled: Cell::default(),
            said: RefCell::default(),
            ended: RefCell::default(),
        });
        for node in 0..NODES {
            group.clock.spawn(manager.clone().probe(node));
        }
        group.clock.spawn(manager.clone().run());
        manager
    }

    /// What the brain holds true.
    pub fn view(&self) -> ClusterView {
        self.brain.borrow().view(self.group.clock.now())
    }

    /// An operator's order; its number.
    pub fn order(&self, order: Order) -> u64 {
        let id = self.orders.get() + 1;
        self.orders.set(id);
        self.ordered.set(self.group.clock.now());
        self.inbox.borrow_mut().push_back(Fact::Order { id: OrderId(id), order });
        id
    }

    /// Whether an order was carried out; nothing while it has no answer.
    pub fn answer_to(&self, order: u64) -> Option<bool> {
        self.answered.borrow().get(&order).copied()
    }

    /// Orders that have no answer.
    pub fn unanswered(&self) -> u64 {
        self.orders.get() - self.answered.borrow().len() as u64
    }

    pub fn set_disk_fails(&self, fails: bool) {
        self.disk_fails.set(fails);
    }

    /// It does not run for a while.
    pub fn set_stalled(&self, stalled: bool) {
        self.is_stalled.set(stalled);
    }

    async fn run(self: Rc<Self>) {
        let clock = self.group.clock.clone();
        let mut tick = clock.now();
        loop {
            let next = || (!self.is_stalled.get()).then(|| self.inbox.borrow_mut().pop_front()).flatten();
            let fact = match race(clock.until(next), clock.sleep_until(tick)).await {
                Either::First(fact) => fact,
                Either::Second(()) => {
                    clock.until(|| (!self.is_stalled.get()).then_some(())).await;
                    tick = clock.now() + TICK;
                    Fact::Tick
                }
            };
            if let Fact::Proxy { fact: ProxyFact::Quiesced { node, epoch, .. }, .. } = &fact {
                self.quiet.borrow_mut().insert((*node, *epoch));
            }
            let actions = self.brain.borrow_mut().on(clock.now(), fact);
            for action in actions {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(self: &Rc<Self>, action: Action) {
        match action {
            Action::Publish(routes) => self.publish(routes),
            Action::Confirm { node } => self.wish(node, Wish::Confirm),
            Action::Probe { node } => self.wish(node, Wish::Probe),
            Action::Persist { number, term, .. } => self.persist(number, term),
            Action::Barrier { node, term, within, .. } => {
                self.check_barrier(node);
                self.barrier(node, term, within);
            }
            Action::Galera(galera::Action::Evict { victim, via, view, within, .. }) => {
                self.evict(victim, via, view, within);
            }
            Action::Galera(_)
            | Action::Replication(_)
            | Action::Remember { .. }
            | Action::PublishReads(_)
            | Action::Reached(_) => {}
            Action::ReadAccounts { node } => self.answer_soon(Fact::Accounts { node, rows: vec![] }),
            Action::ReadTables { node } => {
                self.answer_soon(Fact::Catalogue { node, catalogue: Catalogue::default() });
            }
            Action::Answer { id, reply } => {
                let before = self.answered.borrow_mut().insert(id.0, reply.is_ok());
                assert!(before.is_none(), "order {} was answered twice", id.0);
            }
            Action::Say(sentence) => self.note(sentence.text),
        }
    }

    /// Keeps the end of what happened.
    pub fn note(&self, text: String) {
        self.keep(&self.said, text);
    }

    fn keep(&self, last: &RefCell<VecDeque<String>>, text: String) {
        let mut last = last.borrow_mut();
        if last.len() == 60 {
            last.pop_front();
        }
        last.push_back(format!("{:9.4} {text}", self.group.clock.now().as_secs_f64()));
    }

    /// The last of what was said and done, in its order.
    pub fn tail(&self) -> Vec<String> {
        let mut tail: Vec<String> =
            self.said.borrow().iter().chain(self.ended.borrow().iter()).cloned().collect();
        tail.sort();
        tail
    }

    fn publish(&self, routes: Arc<Routes>) {
        let lanes: Vec<String> = routes
            .lanes
            .iter()
            .map(|lane| format!("{} {:?} {} {}", lane.name, lane.state, lane.epoch, lane.looked))
            .collect();
        self.note(format!("routes {} term {}: {}", routes.version, routes.term, lanes.join(", ")));
        self.check(&routes);
        *self.routes.borrow_mut() = Some(routes);
    }

    /// What must hold of any routes.
    fn check(&self, routes: &Routes) {
        let is_one = self.settings.writers == Writers::One;
        let open: Vec<_> = routes.lanes.iter().filter(|lane| lane.state == LaneState::Open).collect();
        assert!(routes.term <= self.written.get(), "term {} is not on disk", routes.term);
        assert!(!is_one || open.len() <= 1, "two lanes are open");
        if let (true, [lane]) = (is_one, open.as_slice()) {
            let before = self.wrote.replace((lane.node, routes.term));
            assert!(before.0 == lane.node || before.1 < routes.term, "a new writer under an old term");
        }
        let before = self.routes.borrow().clone();
        for lane in &routes.lanes {
            let at = usize::from(lane.node.0);
            let was_open = before.as_ref().is_some_and(|before| before.lanes[at].state != LaneState::Shut);
            if was_open && lane.state == LaneState::Shut {
                let is_planned = if is_one { !open.is_empty() } else { self.ordered_ago() < ORDER_TIME };
                let well_for = self.group.well_for(at);
                assert!(
                    is_planned || well_for < CAUSE_TIME,
                    "{} is given up, and is well for {well_for:?}",
                    lane.name
                );
            }
            if lane.state != LaneState::Shut {
                let is_back = before.is_some() && !was_open;
                let last = self.last_epoch[at].replace(Some(lane.epoch));
                assert!(!is_back || last < Some(lane.epoch), "a lane that was shut opens again");
            }
        }
        let mut quiet = self.quiet.borrow_mut();
        quiet.retain(|(node, epoch)| {
            let lane = &routes.lanes[usize::from(node.0)];
            lane.epoch == *epoch && lane.state == LaneState::Draining
        });
    }

    /// Nobody else writes, or may yet write, when a node is asked whether it has applied everything.
    fn check_barrier(&self, node: NodeId) {
        let routes = self.routes.borrow();
        let Some(routes) = routes.as_ref().filter(|_| self.settings.writers == Writers::One) else { return };
        for lane in routes.lanes.iter().filter(|lane| lane.node != node) {
            let is_over = match lane.state {
                LaneState::Open => false,
                LaneState::Draining => self.quiet.borrow().contains(&(lane.node, lane.epoch)),
                LaneState::Shut => true,
            };
            assert!(is_over, "a barrier is asked of db{} while {} may write", node.0 + 1, lane.name);
        }
    }

    fn ordered_ago(&self) -> Duration {
        self.group.clock.now().saturating_sub(self.ordered.get())
    }

    fn wish(&self, node: NodeId, wish: Wish) {
        let mut wishes = self.wishes[usize::from(node.0)].borrow_mut();
        if wishes.len() < 8 {
            wishes.push_back(wish);
        }
    }

    fn answer_soon(self: &Rc<Self>, fact: Fact) {
        let this = self.clone();
        self.group.clock.spawn(async move {
            this.group.clock.sleep(this.group.dice.between_ms(1, 10)).await;
            this.inbox.borrow_mut().push_back(fact);
        });
    }

    fn persist(self: &Rc<Self>, number: u64, term: Term) {
        let this = self.clone();
        self.group.clock.spawn(async move {
            let time = if this.group.dice.percent(3) { (100, 3000) } else { (1, 8) };
            this.group.clock.sleep(this.group.dice.between_ms(time.0, time.1)).await;
            let outcome = if this.disk_fails.get() {
                Outcome::PersistFailed { number, why: "the disk is full".into() }
            } else {
                this.written.set(this.written.get().max(term));
                Outcome::Persisted { number }
            };
            this.inbox.borrow_mut().push_back(Fact::Outcome(outcome));
        });
    }

    fn barrier(self: &Rc<Self>, node: NodeId, term: Term, within: Duration) {
        let this = self.clone();
        self.group.clock.spawn(async move {
            let at = usize::from(node.0);
            let asked = async {
                let link = Link::connect(&this.ground, at).await.map_err(|e| format!("{e:?}"))?;
                let answer = link.ask(Ask::CausalRead).await.map_err(|e| format!("{e:?}"));
                link.close(false);
                match answer? {
                    Answer::Ok { .. } if this.group.node(at).read_only => Err("read only".to_owned()),
                    Answer::Ok { .. } => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            };
            let outcome = match this.group.clock.within(within, asked).await {
                Some(Ok(())) => Outcome::BarrierPassed { node, term },
                Some(Err(why)) => Outcome::BarrierFailed { node, term, why },
                None => Outcome::BarrierFailed { node, term, why: "no answer in time".into() },
            };
            this.inbox.borrow_mut().push_back(Fact::Outcome(outcome));
        });
    }

    fn evict(self: &Rc<Self>, victim: NodeId, via: NodeId, view: u64, within: Duration) {
        let this = self.clone();
        self.group.clock.spawn(async move {
            let at = usize::from(via.0);
            let reached = this
                .group
                .clock
                .within(within, async {
                    this.group.clock.sleep(this.group.dice.between_us(500, 3000)).await;
                    let group = &this.group;
                    group.clock.until(|| (group.is_reachable(at) && group.runs(at)).then_some(())).await;
                })
                .await;
            let is_evicted = reached.is_some() && this.group.evict(usize::from(victim.0), at, view);
            this.group.clock.sleep(Duration::from_millis(20)).await;
            let outcome = if is_evicted {
                galera::Outcome::Evicted { victim, via }
            } else {
                galera::Outcome::EvictFailed { victim, why: "not taken".into() }
            };
            this.inbox.borrow_mut().push_back(Fact::Outcome(outcome.into()));
        });
    }
}

impl Control for Manager {
    fn routes(&self) -> Option<Arc<Routes>> {
        self.routes.borrow().clone()
    }

    fn tell(&self, fact: ProxyFact, may_be_dropped: bool) -> bool {
        let (clock, dice) = (&self.group.clock, &self.group.dice);
        let Some(this) = self.me.upgrade().filter(|_| !(may_be_dropped && dice.percent(2))) else {
            return false;
        };
        let due = (clock.now() + dice.between_us(10, 400)).max(self.last_told.get());
        self.last_told.set(due);
        clock.spawn(async move {
            this.group.clock.sleep_until(due).await;
            this.inbox.borrow_mut().push_back(fact.by(Origin(0)));
        });
        true
    }

    fn process(&self) -> Option<u64> {
        Some(0)
    }

    fn note_statement(&self, text: String) {
        self.keep(&self.ended, text);
    }
}
