//! The door: the real hold queue and the real counts of lanes, fed with routes and messages as the proxy's own door is, one after the other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use proxy::occupancy::State;
use session::hold_queue::{Counters, HoldQueue, QueueLimits, Ticket, WaitEnd};
use topology::Term;
use topology::fact::ProxyFact;
use topology::routes::Routes;

use super::ground::Control;
use super::lane::{Inbox, Lane, Lease, Message};
use sim::Dice;
use sim::clock::Clock;

/// What sessions see of the routes in force.
#[derive(Clone, Default)]
pub struct LaneTable {
    pub term: Term,
    pub version: u64,
    pub lanes: Vec<Rc<Lane>>,
}

/// A place in the ramp.
pub struct Slot {
    ticket: Ticket,
    inbox: Inbox,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.inbox.borrow_mut().push_back(Message::Finished(self.ticket));
    }
}

/// Tells the door when a waiting client goes away.
struct Waiting<'a> {
    door: &'a Door,
    id: u64,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut inbox = self.door.inbox.borrow_mut();
        inbox.push_back(match self.door.verdicts.borrow_mut().remove(&self.id) {
            // A verdict that nobody takes gives its place in the ramp back.
            Some((_, ticket)) => Message::Finished(ticket),
            None => Message::Gone(self.id),
        });
    }
}

/// See the head of this file.
pub struct Door {
    clock: Rc<Clock>,
    control: Rc<dyn Control>,
    is_one: bool,
    lane_table: RefCell<LaneTable>,
    hold_queue: RefCell<HoldQueue>,
    inbox: Inbox,
    waiting: RefCell<BTreeMap<Ticket, u64>>,
    tickets: RefCell<BTreeMap<u64, Ticket>>,
    verdicts: RefCell<BTreeMap<u64, (WaitEnd, Ticket)>>,
    quiesced: RefCell<BTreeSet<u8>>,
    cutting: RefCell<Vec<Rc<Lane>>>,
    shut: Cell<u64>,
    cut: Cell<u64>,
    next_id: Cell<u64>,
}

impl Door {
    pub fn start(
        clock: &Rc<Clock>,
        dice: &Rc<Dice>,
        control: Rc<dyn Control>,
        limits: QueueLimits,
        is_one: bool,
    ) -> Rc<Self> {
        let door = Rc::new(Self {
            clock: clock.clone(),
            control,
            is_one,
            lane_table: RefCell::default(),
            hold_queue: RefCell::new(HoldQueue::new(limits)),
            inbox: Rc::default(),
            waiting: RefCell::default(),
            tickets: RefCell::default(),
            verdicts: RefCell::default(),
            quiesced: RefCell::default(),
            cutting: RefCell::default(),
            shut: Cell::default(),
            cut: Cell::default(),
            next_id: Cell::default(),
        });
        clock.spawn(door.clone().run(dice.clone()));
        door
    }

    /// The routes in force.
    pub fn lane_table(&self) -> LaneTable {
        self.lane_table.borrow().clone()
    }

    /// The numbers of the hold.
    pub fn counters(&self) -> Counters {
        self.hold_queue.borrow().counters()
    }

    /// Lanes that were shut, and those of them that were said to be cut.
    pub fn shut_and_cut(&self) -> (u64, u64) {
        (self.shut.get(), self.cut.get())
    }

    /// A lane that takes a transaction now.
    pub fn try_lease(&self, avoid: Option<&Rc<Lane>>) -> Option<Lease> {
        let lease = pick(&self.lane_table.borrow().lanes, avoid)?.lease();
        self.check_alone();
        lease
    }

    /// Waits in the hold; `None` for a verdict against it.
    pub async fn wait(&self, bytes: usize, since: Duration) -> Result<Slot, WaitEnd> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.inbox.borrow_mut().push_back(Message::Wait { id, bytes, since });
        let mut waiting = Waiting { door: self, id, is_over: false };
        let (verdict, ticket) = self.clock.until(|| self.verdicts.borrow_mut().remove(&id)).await;
        waiting.is_over = true;
        match verdict {
            WaitEnd::Resumed => Ok(Slot { ticket, inbox: self.inbox.clone() }),
            against => Err(against),
        }
    }

    /// The one invariant that the whole design is for; and what was said to be quiet is so.
    pub fn check_alone(&self) {
        for lane in self.lane_table.borrow().lanes.iter().filter(|lane| lane.state() == State::Draining) {
            let is_said = self.quiesced.borrow().contains(&lane.node.0);
            assert!(!is_said || lane.leases() == 0, "a transaction runs on a lane that was said to be quiet");
        }
        if !self.is_one {
            return;
        }
        let lane_table = self.lane_table.borrow();
        let busy: Vec<_> =
            lane_table.lanes.iter().filter(|lane| !lane.is_shut() && lane.leases() > 0).collect();
        assert!(busy.len() <= 1, "transactions run on two nodes");
        let open: Vec<_> = lane_table.lanes.iter().filter(|lane| lane.is_open()).collect();
        assert!(open.len() <= 1, "two lanes are open");
        if let ([busy], [open]) = (busy.as_slice(), open.as_slice()) {
            assert!(Rc::ptr_eq(busy, open), "a transaction runs beside the open lane");
        }
    }

    async fn run(self: Rc<Self>, dice: Rc<Dice>) {
        let mut version = 0;
        let process = self.control.process();
        while self.control.process() == process {
            let deadline = self.hold_queue.borrow().next_deadline().unwrap_or(Duration::MAX);
            let has_news = || {
                let routes = self.control.routes();
                let is_new = routes.is_some_and(|routes| routes.version != version);
                let is_over = self.control.process() != process;
                (is_new || is_over || !self.inbox.borrow().is_empty()).then_some(())
            };
            sim::clock::race(self.clock.until(has_news), self.clock.sleep_until(deadline)).await;
            self.clock.sleep(dice.between_us(1, 100)).await;
            if self.control.process() != process {
                break;
            }
            let routes = self.control.routes().filter(|routes| routes.version != version);
            if let Some(routes) = routes {
                version = routes.version;
                self.take_up(&routes);
            } else if let Some(message) = { self.inbox.borrow_mut().pop_front() } {
                self.heard(message);
            } else {
                self.with_hold_queue(HoldQueue::expire);
            }
            self.say_quiet();
            self.say_cut();
            self.check_alone();
        }
    }

    fn heard(&self, message: Message) {
        match message {
            Message::Wait { id, bytes, since } => {
                self.refresh_gate();
                let mut out = vec![];
                let ticket = self.hold_queue.borrow_mut().enter(self.clock.now(), since, bytes, &mut out);
                self.waiting.borrow_mut().insert(ticket, id);
                self.tickets.borrow_mut().insert(id, ticket);
                self.deliver(out);
            }
            Message::Gone(id) => {
                let ticket = self.tickets.borrow_mut().remove(&id);
                if ticket.is_some_and(|ticket| self.hold_queue.borrow_mut().gone(ticket)) {
                    self.waiting.borrow_mut().retain(|_, waiting| *waiting != id);
                }
            }
            Message::Finished(ticket) => {
                self.with_hold_queue(|hold_queue, now, out| hold_queue.finished(now, ticket, out))
            }
            Message::Look => self.refresh_gate(),
        }
        assert!(self.counters().lawful(), "{:?}", self.counters());
    }

    fn with_hold_queue(&self, act: impl FnOnce(&mut HoldQueue, Duration, &mut Vec<(Ticket, WaitEnd)>)) {
        let mut out = vec![];
        act(&mut self.hold_queue.borrow_mut(), self.clock.now(), &mut out);
        self.deliver(out);
    }

    fn refresh_gate(&self) {
        let is_open = pick(&self.lane_table.borrow().lanes, None).is_some();
        self.with_hold_queue(|hold_queue, now, out| hold_queue.set_open(now, is_open, out));
    }

    fn deliver(&self, verdicts: Vec<(Ticket, WaitEnd)>) {
        for (ticket, verdict) in verdicts {
            let id = self.waiting.borrow_mut().remove(&ticket).expect("a verdict for one who does not wait");
            self.tickets.borrow_mut().remove(&id);
            assert!(self.verdicts.borrow_mut().insert(id, (verdict, ticket)).is_none(), "two verdicts");
        }
    }

    fn take_up(&self, routes: &Arc<Routes>) {
        let old = self.lane_table.borrow().lanes.clone();
        let mut lanes = vec![];
        for wanted in &routes.lanes {
            let lane = match old.get(usize::from(wanted.node.0)) {
                Some(lane) if lane.epoch == wanted.epoch && !lane.is_shut() => {
                    lane.set(wanted);
                    if lane.is_shut() {
                        self.is_shut(lane);
                    }
                    lane.clone()
                }
                Some(lane) => {
                    if !lane.is_shut() {
                        lane.occupancy.set(State::Shut);
                        self.is_shut(lane);
                    }
                    Lane::new(wanted, &self.inbox)
                }
                None => Lane::new(wanted, &self.inbox),
            };
            lanes.push(lane);
        }
        self.quiesced.borrow_mut().clear();
        *self.lane_table.borrow_mut() = LaneTable { term: routes.term, version: routes.version, lanes };
        self.check_alone();
        self.refresh_gate();
    }

    fn is_shut(&self, lane: &Rc<Lane>) {
        self.shut.set(self.shut.get() + 1);
        self.cutting.borrow_mut().push(lane.clone());
    }

    fn say_quiet(&self) {
        let lane_table = self.lane_table();
        for lane in lane_table
            .lanes
            .iter()
            .filter(|lane| lane.state() == State::Draining && lane.occupancy.is_quiet())
        {
            if self.quiesced.borrow_mut().insert(lane.node.0) {
                let fact = ProxyFact::Quiesced {
                    node: lane.node,
                    epoch: lane.epoch,
                    term: lane_table.term,
                    version: lane_table.version,
                };
                self.control.tell(fact, false);
            }
        }
    }

    fn say_cut(&self) {
        for lane in self.cutting.take() {
            self.cut.set(self.cut.get() + 1);
            self.control.tell(ProxyFact::Cut { node: lane.node, epoch: lane.epoch }, false);
        }
    }
}

fn pick<'a>(lanes: &'a [Rc<Lane>], avoid: Option<&Rc<Lane>>) -> Option<&'a Rc<Lane>> {
    lanes
        .iter()
        .filter(|lane| lane.is_open() && lane.has_room())
        .filter(|lane| avoid.is_none_or(|avoid| !Rc::ptr_eq(avoid, lane)))
        .min_by_key(|lane| (lane.leases(), lane.sessions.get()))
}
