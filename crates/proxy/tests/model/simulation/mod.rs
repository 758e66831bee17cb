//! Brain, door and sessions together in simulated time, while everything that can go wrong goes wrong.
//!
//! Real: `topology::brain`, `session::hold_queue`, `session::session`, `session::exchange`, `session::split`, and the counts of a lane.
//! Simulated: the nodes, the network, the probes, and what the shells do around the cores. No socket, no thread, no clock: a seed gives one
//! run. What sessions and clients do is the same for both kinds of cluster (`galera`, `replication`).
//!
//! Invariants, checked all the time:
//! - with `writers = "one"` never two lanes open, and no transaction beside the open lane;
//! - each held statement has one verdict, the hold's law holds, each command has one answer within a bound;
//! - nothing that may commit is handed to a node while another may yet commit it, or has;
//! - an open transaction has a lease, and its statements go to the node of that lease.
//!
//! `UNDERSTUDY_SEEDS=FROM..TO` runs other seeds than those of every day; a failure names its seed and the end of what happened.

mod client;
mod door;
mod faults;
mod galera;
mod ground;
mod group;
mod lane;
mod ledger;
mod link;
mod manager;
mod probe;
mod replication;
mod session_driver;
mod side;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use session::hold_queue::QueueLimits;
use sim::Dice;
use sim::clock::Clock;

use door::Door;
use ground::{Control, Ground};
use ledger::Ledger;
use link::Link;
use side::Replicas;

/// The longest that a statement is held.
const HOLD_TIME: Duration = Duration::from_secs(20);
const CLIENTS: usize = 6;

fn limits(statements_max: usize) -> QueueLimits {
    QueueLimits { time: HOLD_TIME, statements_max, bytes_max: 1 << 20, release_at_once: 2 }
}

/// What sessions and clients are in, whichever kind of cluster it is.
pub struct World {
    clock: Rc<Clock>,
    dice: Rc<Dice>,
    ground: Rc<Ground>,
    ledger: Rc<Ledger>,
    control: Rc<dyn Control>,
    /// The proxy's door, and the process whose it is.
    door: RefCell<Option<(Option<u64>, Rc<Door>)>>,
    /// Where sessions read that split their reads off.
    replicas: RefCell<Option<Rc<Replicas>>>,
    is_one: bool,
    has_faults: Cell<bool>,
    is_over: Cell<bool>,
    links: RefCell<Vec<Weak<Link>>>,
    /// Rows acknowledged, looks of the manager that did not come, clients that have ended.
    done: Cell<usize>,
    no_words: Cell<usize>,
    left: Cell<usize>,
}

impl World {
    fn new(ground: &Rc<Ground>, control: Rc<dyn Control>, is_one: bool) -> Self {
        Self {
            clock: ground.clock.clone(),
            dice: ground.dice.clone(),
            ground: ground.clone(),
            ledger: ground.ledger.clone(),
            control,
            door: RefCell::default(),
            replicas: RefCell::default(),
            is_one,
            has_faults: Cell::new(true),
            is_over: Cell::new(false),
            links: RefCell::default(),
            done: Cell::default(),
            no_words: Cell::default(),
            left: Cell::default(),
        }
    }

    /// The proxy starts, with the manager's process.
    fn start_door(&self, statements_max: usize) {
        let limits = limits(statements_max);
        let door = Door::start(&self.clock, &self.dice, self.control.clone(), limits, self.is_one);
        self.door.replace(Some((self.control.process(), door)));
    }

    fn door(&self) -> Rc<Door> {
        self.door.borrow().as_ref().map(|(_, door)| door.clone()).expect("a door")
    }

    /// The process that runs, with its door.
    fn process(&self) -> Option<u64> {
        let process = self.control.process();
        process.filter(|_| self.door.borrow().as_ref().is_some_and(|(of, _)| *of == process))
    }

    /// A session's link stands.
    fn note_link(&self, link: &Rc<Link>) {
        let mut links = self.links.borrow_mut();
        links.retain(|link| link.strong_count() > 0);
        links.push(Rc::downgrade(link));
    }

    /// An operator's KILL on a node.
    fn end_some_link(&self) {
        let links: Vec<Rc<Link>> = self.links.borrow().iter().filter_map(Weak::upgrade).collect();
        if !links.is_empty() {
            links[self.dice.below(links.len() as u64) as usize].end();
        }
    }

    /// What was done, and what became of it.
    fn figures(&self) -> String {
        let [_, done, not_done, unknown] = self.ledger.counts();
        let hold = self.door().counters();
        let (shut, _) = self.door().shut_and_cut();
        format!(
            "{done} done, {not_done} not done, {unknown} unknown; {} held, {} expired; {shut} lanes shut; {} without a word",
            hold.held,
            hold.expired,
            self.no_words.get()
        )
    }
}
