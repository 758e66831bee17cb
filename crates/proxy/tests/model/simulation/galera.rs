//! A Galera group in simulated time: nodes are killed, stopped, frozen and cut off, links are ended, errors are forged, the disk fails, the
//! manager stalls, operators give orders.
//!
//! Beside the invariants of both kinds (see `simulation`): a read sees what was acknowledged before it was sent; an order has one answer, and
//! the term of routes is on disk. And in the end, when everything has been mended for a while:
//! - what was acknowledged is in the log, what was said not to be done is not, nothing is there twice, no transaction in part;
//! - no doubt is left, no alarm without an answer, no order without one, each shut lane is cut, statements run again.

use std::collections::HashSet;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use sim::Dice;
use sim::clock::Clock;
use sim::seeds::seeds;
use topology::NodeId;
use topology::order::Order;
use topology::settings::{EvictPolicy, Writers};
use topology::view::TrafficFlow;

use super::client::client;
use super::faults::faults;
use super::ground::Ground;
use super::group::{Group, NODES};
use super::ledger::Ledger;
use super::manager::Manager;
use super::{CLIENTS, World};

/// How long things go wrong, and how long everything may take to be well again.
const FAULTS_TIME: Duration = Duration::from_secs(25);
const MENDING_TIME: Duration = Duration::from_secs(30);

/// All that takes part.
pub struct Galera {
    pub world: Rc<World>,
    pub group: Rc<Group>,
    pub manager: Rc<Manager>,
    /// How long our own network may be out.
    pub outage_ms: (u64, u64),
}

impl Deref for Galera {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Galera {
    fn new(seed: u64, outage_ms: (u64, u64)) -> Rc<Self> {
        let (clock, dice) = (Clock::new(), Rc::new(Dice::new(seed)));
        let is_one = !dice.percent(35);
        let writers = if is_one { Writers::One } else { Writers::All };
        let evict =
            dice.one_of(&[EvictPolicy::Proven, EvictPolicy::Proven, EvictPolicy::Silent, EvictPolicy::Never]);
        let group = Group::new(clock.clone(), dice.clone(), is_one);
        let ground = Rc::new(Ground { clock, dice, nodes: group.clone(), ledger: Rc::<Ledger>::default() });
        let manager = Manager::start(&group, &ground, writers, evict);
        let world = Rc::new(World::new(&ground, manager.clone(), is_one));
        world.start_door(if world.dice.percent(20) { 3 } else { 100 });
        Rc::new(Self { world, group, manager, outage_ms })
    }

    /// The whole of it.
    fn run(self: &Rc<Self>) {
        for number in 0..CLIENTS {
            self.clock.spawn(client(self.world.clone(), number));
        }
        self.clock.spawn(faults(self.clone()));
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
        let open = self.door().lane_table().lanes.iter().filter(|lane| lane.is_open()).count();
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
        self.ledger.check(&self.group.log.borrow(), &HashSet::new());
        let counters = self.door().counters();
        assert!(counters.lawful() && counters.waiting == 0, "{counters:?}");
        let view = self.manager.view();
        assert_eq!(view.gate, TrafficFlow::Open, "{:?}", view.hold_because);
        for node in &view.nodes {
            assert_eq!(node.doubt, None, "{} is in doubt still", node.name);
            assert_eq!(node.problem, None, "{}: {}", node.name, node.reason);
        }
        assert_eq!(self.manager.unanswered(), 0, "an order has no answer");
        let lane_table = self.door().lane_table();
        assert!(lane_table.lanes.iter().all(|lane| lane.is_calm()), "an alarm has no answer");
        assert!(lane_table.lanes.iter().all(|lane| lane.leases() == 0), "a lease is left");
        assert!(self.lanes_are_open(), "not all lanes are open that should be");
        let (shut, cut) = self.door().shut_and_cut();
        assert_eq!(shut, cut, "a shut lane was never said to be cut");
    }
}

/// Runs one seed; the figures that it came to.
fn run(seed: u64, outage_ms: (u64, u64)) -> String {
    let world = Galera::new(seed, outage_ms);
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
    format!("seed {seed}: {}", world.figures())
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
