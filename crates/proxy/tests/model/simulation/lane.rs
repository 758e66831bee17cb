//! A lane as sessions share it: the real counts, and the guards that keep them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use proxy::occupancy::{Occupancy, State};
use session::hold_queue::Ticket;
use topology::NodeId;
use topology::routes::LaneState;

/// The door's letter box.
pub type Inbox = Rc<RefCell<VecDeque<Message>>>;

/// What the door is told by sessions and lanes.
pub enum Message {
    Wait { id: u64, bytes: usize, since: Duration },
    Gone(u64),
    Finished(Ticket),
    Look,
}

/// The way to one node, as sessions share it.
pub struct Lane {
    pub node: NodeId,
    pub epoch: u64,
    pub occupancy: Occupancy,
    pub sessions: Cell<u32>,
    sessions_max: Cell<Option<u32>>,
    looked: Cell<u64>,
    refused: Cell<u64>,
    alarms: Cell<u64>,
    /// The last alarm that the manager was told of.
    told: Cell<u64>,
    inbox: Inbox,
}

impl Lane {
    pub fn new(lane: &topology::routes::Lane, inbox: &Inbox) -> Rc<Self> {
        let new = Self {
            node: lane.node,
            epoch: lane.epoch,
            occupancy: Occupancy::default(),
            sessions: Cell::default(),
            sessions_max: Cell::default(),
            looked: Cell::default(),
            refused: Cell::default(),
            alarms: Cell::default(),
            told: Cell::default(),
            inbox: inbox.clone(),
        };
        new.set(lane);
        Rc::new(new)
    }

    pub fn set(&self, lane: &topology::routes::Lane) {
        self.sessions_max.set(lane.sessions_max);
        self.looked.set(self.looked.get().max(lane.looked));
        self.refused.set(self.refused.get().max(lane.refused));
        self.occupancy.set(match lane.state {
            LaneState::Open => State::Open,
            LaneState::Draining => State::Draining,
            LaneState::Shut => State::Shut,
        });
    }

    pub fn state(&self) -> State {
        self.occupancy.state()
    }

    pub fn is_open(&self) -> bool {
        self.state() == State::Open
    }

    pub fn is_shut(&self) -> bool {
        self.state() == State::Shut
    }

    pub fn leases(&self) -> usize {
        self.occupancy.leases()
    }

    pub fn has_room(&self) -> bool {
        self.sessions_max.get().is_none_or(|most| self.sessions.get() < most)
    }

    pub fn is_crowded(&self) -> bool {
        self.sessions_max.get().is_some_and(|most| self.sessions.get() > most)
    }

    pub fn next_alarm(&self) -> u64 {
        self.alarms.set(self.alarms.get() + 1);
        self.alarms.get()
    }

    pub fn has_looked(&self, alarm: u64) -> bool {
        self.looked.get() >= alarm
    }

    pub fn has_refused(&self, alarm: u64) -> bool {
        self.refused.get() >= alarm
    }

    /// The manager was told of this alarm.
    pub fn told(&self, alarm: u64) {
        self.told.set(self.told.get().max(alarm));
    }

    /// Every alarm that the manager was told of is answered, or the lane is over.
    pub fn is_calm(&self) -> bool {
        self.is_shut() || self.looked.get().max(self.refused.get()) >= self.told.get()
    }

    pub fn lease(self: &Rc<Self>) -> Option<Lease> {
        let is_open = self.is_open();
        let lease = self.occupancy.begin_lease().then(|| Lease { lane: self.clone() });
        assert!(lease.is_none() || is_open, "a lease on a lane that is not open");
        lease
    }

    /// A link stands here; none where it is shut.
    pub fn register(self: &Rc<Self>) -> Option<Registration> {
        if self.is_shut() {
            return None;
        }
        self.sessions.set(self.sessions.get() + 1);
        Some(Registration { lane: self.clone() })
    }

    fn look(&self) {
        self.inbox.borrow_mut().push_back(Message::Look);
    }
}

/// A transaction runs as long as this lives.
pub struct Lease {
    lane: Rc<Lane>,
}

impl Lease {
    pub fn lane(&self) -> &Rc<Lane> {
        &self.lane
    }

    pub fn save_later(&self) -> Saver {
        self.lane.occupancy.begin_saving();
        Saver { lane: self.lane.clone() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.lane.occupancy.end_lease() {
            self.lane.look();
        }
    }
}

/// Something is to be read from the node as long as this lives.
pub struct Saver {
    lane: Rc<Lane>,
}

impl Drop for Saver {
    fn drop(&mut self) {
        if self.lane.occupancy.end_saving() {
            self.lane.look();
        }
    }
}

/// A link stands on a lane as long as this lives.
pub struct Registration {
    lane: Rc<Lane>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.lane.sessions.set(self.lane.sessions.get() - 1);
        self.lane.look();
    }
}
