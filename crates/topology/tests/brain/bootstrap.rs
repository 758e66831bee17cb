//! `bootstrap = "proven"` with a modelled group: whatever dies, is cut off, is restarted, and is seen or not seen by the manager, there are
//! never two Primary components, and no acknowledged write is lost by one of the manager's orders.
//!
//! ```text
//!   World: processes, networks (group and clients apart), views, disks ── what can be seen ──> Brain
//!                                          <── Prove (truth at the moment it is answered), Bootstrap ──┘
//! ```
//!
//! The model of Galera, as measured on MariaDB 10.11.19 / Galera 26.4.23: a component is Primary with more than half of the last Primary
//! view, or when all members of the newest saved view are there; each Primary view takes a number in the history; a write needs every
//! member of the view; at the moment of a death, a member that applied a write may be the only one that has it; views are numbered in the
//! members' memory, so that the numbers start again when all were down. Proofs are answered one by one, with any time between them. In one
//! respect the model is kinder than Galera, so that only the manager's orders are judged: members that come together by themselves continue
//! with the newest history among them.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use topology::NodeId;
use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome};
use topology::galera::position::Left;
use topology::galera::{self, GaleraStatus};
use topology::routes::ServerGreeting;
use topology::settings::{BootstrapPolicy, NodeSettings, Settings, Writers};

use crate::member::{Member, address};

const NODES: usize = 3;
const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";
const OTHER_UUID: &str = "7f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";
/// No order is given with a proof that is older.
const PROOF_AGE_MAX: Duration = Duration::from_secs(5);
/// Random histories.
const CASES: u32 = 1500;
/// The time between two status queries.
const STEP: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
enum Event {
    /// Time passes; the manager asks every node.
    Wait(u8),
    /// kill -9.
    Kill(usize),
    /// A start by systemd, or by an operator.
    Start(usize),
    /// Which nodes can reach each other at the group's port: those with equal numbers.
    Networks([u8; NODES]),
    /// Which nodes the manager reaches; `true` at the end: the others reset its connections instead of being silent.
    Reach([bool; NODES], bool),
    /// The group agrees on its views.
    Settle,
    Write(usize),
    /// The first node writes, applies and acknowledges, and all but the second die at that moment.
    LastWord(usize, usize),
    /// This many of the requested proofs are answered, and orders carried out.
    Answer(u8),
    /// When all are down: an operator starts the cluster on the node that has most, and then the others.
    Begin,
}

fn event() -> impl Strategy<Value = Event> {
    let node = || 0..NODES;
    prop_oneof![
        10 => (1u8..30).prop_map(Event::Wait),
        4 => node().prop_map(Event::Kill),
        2 => node().prop_map(Event::Start),
        2 => prop::array::uniform3(0u8..3).prop_map(Event::Networks),
        1 => Just(Event::Networks([0; NODES])),
        1 => (prop::array::uniform3(any::<bool>()), any::<bool>()).prop_map(|(reach, resets)| Event::Reach(reach, resets)),
        1 => Just(Event::Reach([true; NODES], false)),
        6 => Just(Event::Settle),
        6 => node().prop_map(Event::Write),
        1 => (node(), node()).prop_map(|(writer, survivor)| Event::LastWord(writer, survivor)),
        8 => (1u8..4).prop_map(Event::Answer),
        1 => Just(Event::Begin),
    ]
}

/// A node's process and disk.
#[derive(Clone, Debug)]
struct Node {
    alive: bool,
    /// Grows with each start: part of its gcomm uuid.
    start: u32,
    /// The last number that it has; on disk at once (innodb_flush_log_at_trx_commit = 1).
    seqno: u64,
    primary: bool,
    /// The number of its last Primary view, and that view's members; kept on disk.
    view: (u64, BTreeSet<usize>),
    /// That view's number as the server reports it; lost with the process.
    conf_id: u64,
    uuid: &'static str,
    /// Members of the component that it is in now.
    component: BTreeSet<usize>,
}

struct World {
    brain: Brain,
    now: Duration,
    nodes: Vec<Node>,
    networks: [u8; NODES],
    reach: [bool; NODES],
    resets: bool,
    linked: [bool; NODES],
    /// The highest number that was acknowledged to a client.
    acknowledged: u64,
    views: u64,
    /// What is to be answered, and since when.
    asked: VecDeque<(Duration, Action)>,
    /// When each node was last proven not to run.
    proven: [Duration; NODES],
    bootstraps: u32,
    said: Vec<String>,
}

impl World {
    fn new() -> Self {
        let node = |number: usize| NodeSettings {
            name: format!("db{}", number + 1),
            address: address(number),
            priority: 0,
        };
        let mut settings = Settings::new("shop", Writers::One, (0..NODES).map(node).collect());
        settings.galera.bootstrap = BootstrapPolicy::Proven;
        settings.galera.proof_deadline = Duration::from_secs(3600);
        let restored = Restored::default();
        let all: BTreeSet<usize> = (0..NODES).collect();
        let node = Node {
            alive: true,
            start: 0,
            seqno: 10,
            primary: true,
            view: (3, all.clone()),
            conf_id: 3,
            uuid: UUID,
            component: all,
        };
        let mut world = Self {
            brain: Brain::new(settings, restored, Duration::ZERO),
            now: Duration::ZERO,
            nodes: vec![node; NODES],
            networks: [0; NODES],
            reach: [true; NODES],
            resets: false,
            linked: [false; NODES],
            acknowledged: 10,
            views: 3,
            asked: VecDeque::new(),
            proven: [Duration::ZERO; NODES],
            bootstraps: 0,
            said: Vec::new(),
        };
        world.wait(2);
        world
    }

    fn tell(&mut self, fact: Fact) {
        let mut facts = VecDeque::from([fact]);
        while let Some(fact) = facts.pop_front() {
            for action in self.brain.on(self.now, fact) {
                match action {
                    Action::Persist { number, .. } => {
                        facts.push_back(Fact::Outcome(Outcome::Persisted { number }));
                    }
                    Action::Barrier { node, term, .. } => {
                        facts.push_back(Fact::Outcome(Outcome::BarrierFailed {
                            node,
                            term,
                            why: "not modelled".into(),
                        }))
                    }
                    Action::Galera(galera::Action::Prove { .. } | galera::Action::Bootstrap { .. }) => {
                        self.asked.push_back((self.now, action));
                    }
                    Action::Say(sentence) => self.said.push(sentence.text),
                    _ => {}
                }
            }
        }
    }

    /// How often the manager asks every node.
    fn wait(&mut self, steps: u8) {
        for _ in 0..steps {
            self.now += STEP;
            for number in 0..NODES {
                self.look(number);
            }
            self.tell(Fact::Tick);
        }
    }

    fn look(&mut self, number: usize) {
        let node = NodeId(number as u8);
        let (alive, reached) = (self.nodes[number].alive, self.reach[number]);
        // A server that is not yet in a Primary component after its start does not answer SQL.
        let answers = alive && reached && (self.nodes[number].primary || self.linked[number]);
        if answers {
            if !std::mem::replace(&mut self.linked[number], true) {
                let greeting = ServerGreeting {
                    version: "x".into(),
                    capabilities: 1,
                    charset: 45,
                    status: 2,
                    plugin: "mysql_native_password".into(),
                };
                self.tell(Fact::LinkUp { node, greeting });
            }
            let status = self.status(number).into();
            self.tell(Fact::Status { node, status, asked: self.now });
            return;
        }
        let refuses = if reached { !alive || !self.linked[number] } else { self.resets };
        if std::mem::replace(&mut self.linked[number], false) {
            let how = if refuses { LinkEnd::Closed } else { LinkEnd::Silent };
            self.tell(Fact::LinkEnded { node, how });
        }
        let how = if refuses { ConnectFailure::Refused } else { ConnectFailure::TimedOut };
        self.tell(Fact::ConnectFailed { node, how });
    }

    fn status(&self, number: usize) -> GaleraStatus {
        let node = &self.nodes[number];
        Member {
            is_primary: node.primary,
            conf_id: node.conf_id,
            cluster_uuid: node.uuid,
            gcomm_uuid: self.gcomm_uuid(number),
            component: &node.component,
            seqno: node.seqno,
            number,
            is_auto: false,
        }
        .status()
    }

    /// The part of a node's state that survives a crash (gvwstate.dat).
    fn gcomm_uuid(&self, number: usize) -> String {
        format!("a-{number}-{}", self.nodes[number].start)
    }

    /// The running nodes that can reach each other.
    fn networks(&self) -> Vec<BTreeSet<usize>> {
        let numbers: BTreeSet<u8> = self.networks.into_iter().collect();
        let running = |net: u8| {
            (0..NODES).filter(|node| self.networks[*node] == net && self.nodes[*node].alive).collect()
        };
        numbers.into_iter().map(running).filter(|members: &BTreeSet<usize>| !members.is_empty()).collect()
    }

    fn settle(&mut self) {
        for members in self.networks() {
            let same = |node: &usize| self.nodes[*node].component == members;
            if members.iter().all(same) {
                continue;
            }
            // The newest Primary view that any of them is, or was, in.
            let is_primary = members.iter().any(|node| self.nodes[*node].primary);
            let newest = members
                .iter()
                .filter(|node| self.nodes[**node].primary || !is_primary)
                .map(|node| self.nodes[*node].view.clone())
                .max_by_key(|view| view.0);
            let Some((_, view)) = newest else { continue };
            let there =
                view.intersection(&members).filter(|node| self.nodes[**node].primary || !is_primary).count();
            let becomes = if is_primary { there * 2 > view.len() } else { there == view.len() };
            self.form(&members, becomes);
        }
        let primaries: BTreeSet<&BTreeSet<usize>> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(number, node)| node.alive && node.primary && self.is_whole(*number))
            .map(|(_, node)| &node.component)
            .collect();
        assert!(primaries.len() <= 1, "two Primary components: {primaries:?}");
    }

    /// Whether all members of its component are there, so that it can commit.
    fn is_whole(&self, number: usize) -> bool {
        let component = &self.nodes[number].component;
        component.iter().all(|other| {
            self.nodes[*other].alive
                && self.networks[*other] == self.networks[number]
                && self.nodes[*other].component == *component
        })
    }

    /// What a node reports while its view changes: the provider has the new list already, and the server the old numbers; a moment later
    /// it says Primary with the numbers of none.
    fn look_at_half(&mut self, number: usize, members: &BTreeSet<usize>, primary: bool) {
        let alive = self.nodes[number].alive && self.reach[number] && self.linked[number];
        if !alive || self.nodes[number].component.len() == members.len() {
            return;
        }
        let node = NodeId(number as u8);
        // The manager has taken the list away: it is not of the view that the numbers are of.
        let half = GaleraStatus { members: vec![], listed: members.len() as u32, ..self.status(number) };
        let mut halves = vec![half.clone()];
        if primary && !self.nodes[number].primary {
            halves.push(GaleraStatus { cluster_status: "Primary".into(), ..half });
        }
        for half in halves {
            self.tell(Fact::Status { node, status: half.into(), asked: self.now });
        }
    }

    fn form(&mut self, members: &BTreeSet<usize>, primary: bool) {
        for number in members {
            self.look_at_half(*number, members, primary);
        }
        let newest = members.iter().map(|node| self.nodes[*node].seqno).max().unwrap_or(0);
        let conf_id = members.iter().map(|node| self.nodes[*node].conf_id).max().unwrap_or(0) + 1;
        if primary {
            self.views += 1;
        }
        for number in members {
            let node = &mut self.nodes[*number];
            node.component.clone_from(members);
            node.primary = primary;
            if primary {
                node.view = (self.views, members.clone());
                node.conf_id = conf_id;
                node.seqno = newest + 1;
            }
        }
    }

    /// A write there, if it can be committed: every member has to take part.
    fn write(&mut self, number: usize) -> bool {
        let node = &self.nodes[number];
        let can = node.alive && node.primary && self.is_whole(number);
        if can {
            self.acknowledged = self.nodes[number].seqno + 1;
            for member in self.nodes[number].component.clone() {
                self.nodes[member].seqno = self.acknowledged;
            }
        }
        can
    }

    fn kill(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.alive = false;
        node.primary = false;
        node.conf_id = 0;
        node.component = BTreeSet::new();
    }

    fn answer(&mut self) {
        let Some((asked, action)) = self.asked.pop_front() else { return };
        let outcome = match action {
            Action::Galera(galera::Action::Prove { number, node, .. }) => {
                let proof = self.proof(usize::from(node.0));
                if proof.is_ok() {
                    self.proven[usize::from(node.0)] = self.now;
                }
                galera::Outcome::Proof { number, node, proof }
            }
            Action::Galera(galera::Action::Bootstrap {
                number,
                via,
                gcomm_uuid,
                size,
                gone,
                begin_within,
                ..
            }) => {
                let is_late = self.now.saturating_sub(asked) > begin_within;
                let is_back = gone.iter().any(|node| {
                    let node = usize::from(node.0);
                    self.nodes[node].alive && self.reach[node]
                });
                let failed = if is_late || is_back {
                    Some("too late".into())
                } else {
                    for node in gone {
                        let age = self.now.saturating_sub(self.proven[usize::from(node.0)]);
                        assert!(age <= PROOF_AGE_MAX, "ordered with a proof that is {age:?} old");
                    }
                    self.bootstrap(usize::from(via.0), &gcomm_uuid, size)
                };
                galera::Outcome::BootstrapEnded { number, failed }
            }
            _ => return,
        };
        self.tell(Fact::Outcome(outcome.into()));
    }

    fn proof(&self, number: usize) -> Result<Left, String> {
        let node = &self.nodes[number];
        if node.alive {
            return Err("it runs".into());
        }
        let mut left = Left::at(format!("{}:{}", node.uuid, node.seqno).parse()?);
        left.members = node.view.1.iter().map(|member| self.gcomm_uuid(*member)).collect();
        Ok(left)
    }

    /// As the shell and the server do it.
    fn bootstrap(&mut self, via: usize, gcomm_uuid: &str, size: u32) -> Option<String> {
        let node = &self.nodes[via];
        if !node.alive || !self.reach[via] {
            return Some("no answer".into());
        }
        if node.primary || self.gcomm_uuid(via) != gcomm_uuid || node.component.len() != size as usize {
            return Some("it has changed".into());
        }
        let members = node.component.clone();
        let has = members.iter().map(|node| self.nodes[*node].seqno).max().unwrap_or(0);
        assert!(
            has >= self.acknowledged,
            "acknowledged: {}, and what is bootstrapped has {has}",
            self.acknowledged
        );
        self.bootstraps += 1;
        self.form(&members, true);
        None
    }

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if !node.alive {
            node.alive = true;
            node.component = BTreeSet::from([number]);
        }
    }

    /// galera_new_cluster on the node that has most; the others are started and find it.
    fn begin_anew(&mut self) {
        if self.nodes.iter().any(|node| node.alive) {
            return;
        }
        let Some(first) = (0..NODES).max_by_key(|number| self.nodes[*number].seqno) else { return };
        self.start(first);
        // Its name in the group is a new one.
        self.nodes[first].start += 1;
        self.form(&BTreeSet::from([first]), true);
        (0..NODES).for_each(|number| self.start(number));
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Wait(steps) => self.wait(*steps),
            Event::Kill(number) => self.kill(*number),
            Event::Start(number) => self.start(*number),
            Event::Begin => self.begin_anew(),
            Event::Networks(networks) => self.networks = *networks,
            Event::Reach(reach, resets) => (self.reach, self.resets) = (*reach, *resets),
            Event::Settle => self.settle(),
            Event::Write(number) => {
                self.write(*number);
            }
            Event::LastWord(writer, survivor) => {
                let had: Vec<u64> = self.nodes.iter().map(|node| node.seqno).collect();
                if writer != survivor && self.write(*writer) {
                    for number in self.nodes[*writer].component.clone() {
                        if number != *writer {
                            self.nodes[number].seqno = had[number];
                        }
                        if number != *survivor {
                            self.kill(number);
                        }
                    }
                }
            }
            Event::Answer(count) => (0..*count).for_each(|_| self.answer()),
        }
    }
}

#[test]
fn a_survivor_of_proven_deaths_goes_on() {
    let mut world = World::new();
    world.kill(0);
    world.kill(1);
    world.wait(3);
    assert!(world.asked.is_empty(), "the group has not noticed yet");
    world.settle();
    world.wait(10);
    world.happen(&Event::Answer(2));
    world.wait(2);
    world.answer();
    assert_eq!(world.bootstraps, 1);
    assert!(world.write(2));
}

/// db1 and db2 are dead, db3 has noticed it, and a proof of each is asked for.
fn standstill() -> World {
    let mut world = World::new();
    world.kill(0);
    world.kill(1);
    world.settle();
    world.wait(10);
    assert_eq!(world.asked.len(), 2, "{:?}", world.said);
    world
}

#[test]
fn a_proof_that_has_become_old_beside_a_slow_one_is_asked_for_again() {
    let mut world = standstill();
    world.answer();
    // The other node's InnoDB recovers.
    world.wait(60);
    world.answer();
    world.wait(2);
    let asked: Vec<&Action> = world.asked.iter().map(|(_, action)| action).collect();
    let Some(Action::Galera(galera::Action::Prove { node: NodeId(0), .. })) = asked.first() else {
        panic!("the first one's proof is 12 s old: {asked:?}");
    };
    assert_eq!(asked.len(), 1, "the other's is new");
    world.answer();
    world.wait(2);
    world.answer();
    assert_eq!(world.bootstraps, 1);
}

#[test]
fn nothing_is_ordered_while_each_proof_makes_the_other_old() {
    let mut world = standstill();
    for _ in 0..8 {
        world.answer();
        world.wait(30);
    }
    assert_eq!(world.bootstraps, 0);
    assert!(world.said.iter().any(|text| text.contains("proof_command takes too long")), "{:?}", world.said);
}

#[test]
fn a_node_that_comes_back_between_the_proofs_and_the_order_stops_it() {
    let mut world = standstill();
    world.happen(&Event::Answer(2));
    world.wait(1);
    assert_eq!(world.asked.len(), 1, "the order");
    world.start(0);
    world.answer();
    assert_eq!(world.bootstraps, 0);
}

#[test]
fn views_of_different_histories_are_not_compared() {
    let mut world = World::new();
    // db1 was in a cluster that somebody made anew from a copy; its views have lower numbers there.
    (world.nodes[0].uuid, world.nodes[0].conf_id) = (OTHER_UUID, 1);
    world.wait(2);
    world.kill(0);
    world.kill(1);
    world.settle();
    world.wait(10);
    assert!(world.asked.is_empty());
    let said = world.said.join("\n");
    assert!(said.contains("Primary components of different histories"), "{said}");
    assert!(said.contains(&format!("db1 in {OTHER_UUID}, db2 in {UUID}, db3 in {UUID}")), "{said}");
}

#[test]
fn a_cluster_that_was_begun_anew_has_a_survivor_although_its_views_have_lower_numbers() {
    let mut world = World::new();
    (0..NODES).for_each(|number| world.kill(number));
    world.wait(5);
    world.begin_anew();
    world.settle();
    // db1 and db2 are seen in it; db3 is not reached meanwhile, and what it said last has a higher number.
    world.reach[0] = false;
    world.wait(5);
    world.kill(0);
    world.kill(1);
    world.settle();
    world.wait(10);
    assert!(world.nodes[2].conf_id < 3, "its numbers began anew");
    world.happen(&Event::Answer(2));
    world.wait(2);
    world.answer();
    assert_eq!(world.bootstraps, 1, "{:?}", world.said);
}

#[test]
fn a_survivor_that_lacks_an_acknowledged_write_does_not() {
    let mut world = World::new();
    world.happen(&Event::LastWord(0, 2));
    world.settle();
    for _ in 0..20 {
        world.wait(10);
        world.answer();
    }
    assert_eq!(world.bootstraps, 0, "what the first acknowledged is on its disk alone");
}

#[test]
fn never_two_primary_components_and_no_write_lost() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: CASES,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let bootstraps = Cell::new(0);
    let events = prop::collection::vec(event(), 1..60);
    let done = runner.run(&events, |events| {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        world.settle();
        bootstraps.set(bootstraps.get() + world.bootstraps);
        Ok(())
    });
    println!("{} bootstraps in {CASES} runs", bootstraps.get());
    done.unwrap();
    assert!(
        bootstraps.get() > CASES / 100,
        "the danger was hardly ever near: {} bootstraps",
        bootstraps.get()
    );
}
