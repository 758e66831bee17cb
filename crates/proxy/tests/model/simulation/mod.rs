//! Brain, door and sessions together in simulated time, while everything that can go wrong goes wrong: nodes are killed, stopped, frozen
//! and cut off, links are ended, errors are forged, the disk fails, the manager stalls, operators give orders.
//!
//! Real: `topology::brain`, `session::hold_queue`, `session::session`, `session::exchange`, and the counts of a lane. Simulated: the nodes and
//! their group, the network, the probes, and what the shells do around the cores. No socket, no thread, no clock: a seed gives one run.
//!
//! Invariants, checked all the time:
//! - with `writers = "one"` never two lanes open, and no transaction beside the open lane;
//! - each held statement has one verdict, the hold's law holds, each command has one answer within a bound;
//! - nothing that may commit is handed to a node while another may yet commit it, or has;
//! - an open transaction has a lease, and its statements go to the node of that lease;
//! - a read sees what was acknowledged before it was sent;
//! - an order has one answer, and the term of routes is on disk.
//!
//! And in the end, when everything has been mended for a while:
//! - what was acknowledged is in the log, what was said not to be done is not, nothing is there twice, no transaction in part;
//! - no doubt is left, no alarm without an answer, no order without one, each shut lane is cut, statements run again.
//!
//! `UNDERSTUDY_SEEDS=FROM..TO` runs other seeds than those of every day; a failure names its seed and the end of what happened.

mod client;
mod door;
mod faults;
mod group;
mod lane;
mod ledger;
mod link;
mod manager;
#[allow(clippy::duplicate_mod)] // the model checker beside this has it with atomics of its own
#[path = "../../../src/lane/occupancy.rs"]
mod occupancy;
mod probe;
mod session_driver;
/// What `occupancy` uses of the standard library.
mod sync {
    pub use std::sync::atomic::AtomicU64;
}

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::{Rc, Weak};
use std::time::Duration;

use session::hold_queue::Limits;
use topology::NodeId;
use topology::order::Order;
use topology::settings::{EvictPolicy, Writers};
use topology::view::TrafficFlow;

use door::Door;
use group::{Group, NODES};
use ledger::Ledger;
use link::Link;
use manager::Manager;
use sim::Dice;
use sim::clock::Clock;
use sim::seeds::seeds;

/// The longest that a statement is held.
const HOLD_TIME: Duration = Duration::from_secs(20);
const CLIENTS: usize = 6;
/// How long things go wrong, and how long everything may take to be well again.
const FAULTS_TIME: Duration = Duration::from_secs(25);
const MENDING_TIME: Duration = Duration::from_secs(30);

/// All that takes part.
struct World {
    clock: Rc<Clock>,
    dice: Rc<Dice>,
    group: Rc<Group>,
    ledger: Rc<Ledger>,
    manager: Rc<Manager>,
    door: Rc<Door>,
    is_one: bool,
    /// How long our own network may be out.
    outage_ms: (u64, u64),
    has_faults: Cell<bool>,
    is_over: Cell<bool>,
    links: RefCell<Vec<Weak<Link>>>,
    /// So much of the log has been acknowledged to somebody.
    high: Cell<usize>,
    /// Rows acknowledged, looks of the manager that did not come, clients that have ended.
    done: Cell<usize>,
    no_words: Cell<usize>,
    left: Cell<usize>,
}

impl World {
    fn new(seed: u64, outage_ms: (u64, u64)) -> Rc<Self> {
        let (clock, dice) = (Clock::new(), Rc::new(Dice::new(seed)));
        let is_one = !dice.percent(35);
        let writers = if is_one { Writers::One } else { Writers::All };
        let evict =
            dice.one_of(&[EvictPolicy::Proven, EvictPolicy::Proven, EvictPolicy::Silent, EvictPolicy::Never]);
        let (group, ledger) = (Group::new(clock.clone(), dice.clone()), Rc::<Ledger>::default());
        let manager = Manager::start(&group, &ledger, writers, evict);
        let statements_max = if dice.percent(20) { 3 } else { 100 };
        let limits = Limits { time: HOLD_TIME, statements_max, bytes_max: 1 << 20, release_at_once: 2 };
        let door = Door::start(&clock, &dice, &manager, limits, is_one);
        Rc::new(Self {
            clock,
            dice,
            group,
            ledger,
            manager,
            door,
            is_one,
            outage_ms,
            has_faults: Cell::new(true),
            is_over: Cell::new(false),
            links: RefCell::default(),
            high: Cell::default(),
            done: Cell::default(),
            no_words: Cell::default(),
            left: Cell::default(),
        })
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

    /// The whole of it.
    fn run(self: &Rc<Self>) {
        for number in 0..CLIENTS {
            self.clock.spawn(client::client(self.clone(), number));
        }
        self.clock.spawn(faults::faults(self.clone()));
        self.clock.run(FAULTS_TIME);
        self.has_faults.set(false);
        self.manager.note("faults end".into());
        // What was begun is put right by itself; then the rest.
        self.clock.run(FAULTS_TIME + Duration::from_secs(10));
        self.group.heal();
        self.manager.set_disk_fails(false);
        self.manager.set_stalled(false);
        for node in 0..NODES {
            self.clock.spawn(self.clone().undrain(node));
        }
        self.manager.note("mended".into());
        self.clock.run(FAULTS_TIME + MENDING_TIME);
        let before = self.done.get();
        self.clock.run(FAULTS_TIME + MENDING_TIME + Duration::from_secs(5));
        assert!(self.done.get() > before + CLIENTS, "statements do not run again");
        self.is_over.set(true);
        let end = FAULTS_TIME + MENDING_TIME + Duration::from_secs(70);
        self.clock.run(end);
        // Answers are slow now and then also when all is well: a doubt for that is over soon.
        for more in 1..=50 {
            if self.is_at_rest() {
                break;
            }
            self.clock.run(end + more * Duration::from_millis(100));
        }
        self.check();
    }

    fn is_at_rest(&self) -> bool {
        let view = self.manager.view();
        view.nodes.iter().all(|node| node.doubt.is_none() && node.problem.is_none()) && self.lanes_are_open()
    }

    /// As many as there should be when all is well.
    fn lanes_are_open(&self) -> bool {
        let open = self.door.lane_table().lanes.iter().filter(|lane| lane.is_open()).count();
        open == if self.is_one { 1 } else { NODES }
    }

    /// Orders until the node may take sessions again: another order may run.
    async fn undrain(self: Rc<Self>, node: usize) {
        let order = Order::SetSessionsMax { node: NodeId(node as u8), sessions_max: None };
        loop {
            let number = self.manager.order(order.clone());
            if self.clock.until(|| self.manager.answer_to(number)).await {
                return;
            }
            self.clock.sleep(Duration::from_millis(200)).await;
        }
    }

    fn check(&self) {
        assert_eq!(self.left.get(), CLIENTS, "a client never had its answer");
        self.ledger.check(&self.group.log.borrow());
        let counters = self.door.counters();
        assert!(counters.lawful() && counters.waiting == 0, "{counters:?}");
        let view = self.manager.view();
        assert_eq!(view.gate, TrafficFlow::Open, "{:?}", view.hold_because);
        for node in &view.nodes {
            assert_eq!(node.doubt, None, "{} is in doubt still", node.name);
            assert_eq!(node.problem, None, "{}: {}", node.name, node.reason);
        }
        assert_eq!(self.manager.unanswered(), 0, "an order has no answer");
        let lane_table = self.door.lane_table();
        assert!(lane_table.lanes.iter().all(|lane| lane.is_calm()), "an alarm has no answer");
        assert!(lane_table.lanes.iter().all(|lane| lane.leases() == 0), "a lease is left");
        assert!(self.lanes_are_open(), "not all lanes are open that should be");
        let (shut, cut) = self.door.shut_and_cut();
        assert_eq!(shut, cut, "a shut lane was never said to be cut");
    }
}

/// Runs one seed; the figures that it came to.
fn run(seed: u64, outage_ms: (u64, u64)) -> String {
    let world = World::new(seed, outage_ms);
    let end = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = end {
        for line in world.manager.tail() {
            println!("{line}");
        }
        println!(
            "seed {seed}, writers = {}, at {:?}",
            if world.is_one { "one" } else { "all" },
            world.clock.now()
        );
        world.clock.stop();
        resume_unwind(panic);
    }
    world.clock.stop();
    let [_, done, not_done, unknown] = world.ledger.counts();
    let hold = world.door.counters();
    let (shut, _) = world.door.shut_and_cut();
    format!(
        "seed {seed}: {done} done, {not_done} not done, {unknown} unknown; {} held, {} expired; {shut} lanes shut; {} without a word",
        hold.held,
        hold.expired,
        world.no_words.get()
    )
}

/// Shorter than a node's silence has to be.
const SHORT_OUTAGE_MS: (u64, u64) = (50, 500);

#[test]
fn whatever_goes_wrong() {
    for seed in seeds(0..20) {
        println!("{}", run(seed, SHORT_OUTAGE_MS));
    }
}

#[test]
fn nobody_is_given_up_after_an_outage_of_our_own_network() {
    for seed in seeds(0..100) {
        println!("{}", run(seed, (50, 1500)));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(7, SHORT_OUTAGE_MS), run(7, SHORT_OUTAGE_MS));
}
