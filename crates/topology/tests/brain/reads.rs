//! Which nodes take reads on the port for reads: lanes of their own, by the age of a replica's data, and by what the traffic saw.

use std::sync::Arc;
use std::time::Duration;

use protocol::gtid::{Family, Position};
use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome, ProxyFact};
use topology::kind::Kind;
use topology::reads::Reached;
use topology::replication::{self, Channel, ReplicationStatus};
use topology::routes::{LaneState, Routes, ServerGreeting};
use topology::settings::{NodeSettings, Settings, Writers};
use topology::{NodeId, Origin, Term};

const MS: Duration = Duration::from_millis(1);
const NODES: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];

/// db1 is the primary; the others follow it.
struct Story {
    brain: Brain,
    now: Duration,
    /// The position of each: a sequence number in domain 0.
    has: [u64; 3],
    silent: [bool; 3],
    routes: Option<Arc<Routes>>,
    writes: Option<Arc<Routes>>,
    reached: Option<Arc<Reached>>,
}

impl Story {
    fn new(fallback: bool) -> Self {
        Self::with(fallback, true)
    }

    /// `events`: whether events count, in addition to checks.
    fn with(fallback: bool, events: bool) -> Self {
        let node =
            |name: &str| NodeSettings { name: name.into(), address: format!("{name}:3306"), priority: 0 };
        let mut settings = Settings::new("shop", Writers::One, ["db1", "db2", "db3"].map(node).to_vec());
        settings.kind = Kind::Replication;
        settings.reads.on = true;
        settings.reads.lag_max = Duration::from_secs(2);
        settings.reads.fallback = fallback;
        settings.events = events;
        let brain = Brain::new(settings, Restored::default(), Duration::ZERO);
        let mut story = Self {
            brain,
            now: Duration::ZERO,
            has: [5; 3],
            silent: [false; 3],
            routes: None,
            writes: None,
            reached: None,
        };
        for node in NODES {
            let greeting = ServerGreeting {
                version: "x".into(),
                capabilities: 0,
                charset: 45,
                status: 2,
                plugin: "mysql_native_password".into(),
            };
            story.tell(Fact::LinkUp { node, greeting });
        }
        story.run(1000);
        story
    }

    fn tell(&mut self, fact: Fact) {
        let mut facts = vec![fact];
        while let Some(fact) = facts.pop() {
            for action in self.brain.on(self.now, fact) {
                match action {
                    Action::PublishReads(routes) => self.routes = Some(routes),
                    Action::Publish(routes) => self.writes = Some(routes),
                    Action::Reached(reached) => self.reached = Some(reached),
                    Action::Persist { number, .. } => {
                        facts.push(Fact::Outcome(Outcome::Persisted { number }))
                    }
                    Action::Replication(replication::Action {
                        node,
                        term,
                        errand: replication::Errand::Promote { .. },
                        ..
                    }) => {
                        facts.push(Fact::Outcome(Outcome::BarrierPassed { node, term }));
                    }
                    _ => {}
                }
            }
        }
    }

    /// This many milliseconds pass; each node is asked every 200 ms.
    fn run(&mut self, time: u64) {
        for _ in 0..time / 20 {
            self.now += 20 * MS;
            if self.now.as_millis().is_multiple_of(200) {
                for node in NODES {
                    self.ask(node);
                }
            } else {
                self.tell(Fact::Tick);
            }
        }
    }

    fn ask(&mut self, node: NodeId) {
        let place = usize::from(node.0);
        if self.silent[place] {
            return;
        }
        let follows = Channel {
            source: "db1:3306".into(),
            io_running: true,
            sql_running: true,
            by_gtid: true,
            ..Channel::default()
        };
        let status = ReplicationStatus {
            server_id: u32::from(node.0) + 1,
            read_only: place != 0,
            log_bin: true,
            log_replica_updates: true,
            position: Position::parse(Family::MariaDb, &format!("0-1-{}", self.has[place])).ok(),
            channels: if place == 0 { vec![] } else { vec![follows] },
            ..ReplicationStatus::default()
        };
        let asked = self.now;
        self.tell(Fact::Status { node, status: status.into(), asked });
    }

    /// The primary's clients write; these replicas apply it.
    fn writes(&mut self, time: u64, appliers: &[usize]) {
        for _ in 0..time / 200 {
            self.has[0] += 1;
            for place in appliers {
                self.has[*place] = self.has[0];
            }
            self.run(200);
        }
    }

    fn states(&self) -> [LaneState; 3] {
        let routes = self.routes.as_ref().unwrap();
        [0, 1, 2].map(|place| routes.lanes[place].state)
    }

    fn lane(&self, place: usize) -> &topology::routes::Lane {
        &self.routes.as_ref().unwrap().lanes[place]
    }
}

use LaneState::{Draining, Open, Shut};

#[test]
fn replicas_take_reads_and_the_primary_none() {
    let story = Story::new(true);
    assert_eq!(story.states(), [Shut, Open, Open]);
    let writes = story.writes.as_ref().unwrap();
    assert_eq!([0, 1, 2].map(|place| writes.lanes[place].state), [Open, Shut, Shut]);
    assert_eq!((writes.term, story.routes.as_ref().unwrap().term), (Term(1), Term(1)));
    let reached = story.reached.as_ref().unwrap();
    assert_eq!((reached.primary, &*reached.position), (Some(NodeId(0)), "0-1-5"));
    assert_eq!(NODES.map(|node| reached.is_writable(node)), [true, false, false]);
}

#[test]
fn one_that_falls_behind_gives_its_readers_up_until_it_has_caught_up() {
    let mut story = Story::new(true);
    story.writes(1800, &[1]);
    assert_eq!(story.states(), [Shut, Open, Open], "not yet too old");
    story.writes(800, &[1]);
    assert_eq!(story.states(), [Shut, Open, Draining]);
    assert_eq!(story.lane(2).epoch, 0, "what runs there may end");
    let view = story.brain.view(story.now);
    assert!(view.nodes[2].reads.age_ms.unwrap() > 2000);
    // It applies some of it.
    story.has[2] = story.has[0] - 8;
    story.run(20);
    story.ask(NodeId(2));
    assert_eq!(story.states(), [Shut, Open, Draining], "it is not to come and go");
    story.has[2] = story.has[0];
    story.run(400);
    assert_eq!(story.states(), [Shut, Open, Open]);
}

#[test]
fn the_primary_takes_reads_while_nobody_else_can() {
    for fallback in [true, false] {
        let mut story = Story::new(fallback);
        story.run(2000);
        story.writes(3000, &[]);
        let primary = if fallback { Open } else { Shut };
        assert_eq!(story.states(), [primary, Draining, Draining]);
        assert_eq!(story.routes.as_ref().unwrap().hold_because.is_some(), !fallback);
        story.has = [story.has[0]; 3];
        story.run(400);
        let primary = if fallback { Draining } else { Shut };
        assert_eq!(story.states(), [primary, Open, Open]);
    }
}

#[test]
fn one_that_is_gone_is_shut_and_its_links_with_it() {
    let mut story = Story::new(true);
    story.silent[2] = true;
    story.tell(Fact::LinkEnded { node: NodeId(2), how: LinkEnd::Closed });
    assert_eq!(story.states(), [Shut, Open, Draining], "it is being asked");
    for _ in 0..2 {
        story.tell(Fact::ConnectFailed { node: NodeId(2), how: ConnectFailure::Refused });
    }
    assert_eq!(story.states(), [Shut, Open, Shut]);
    assert_eq!((story.lane(2).epoch, story.lane(2).lost_epoch), (1, Some(0)));
}

#[test]
fn an_alarm_of_this_port_is_answered_by_the_node_and_means_nothing_for_who_is_written() {
    let mut story = Story::new(true);
    let version = story.writes.as_ref().unwrap().version;
    let alarm = |alarm, epoch| {
        let fact = ProxyFact::TrafficRefused { node: NodeId(1), epoch, errno: 1053, alarm };
        ProxyFact::Reads(Box::new(fact)).by(Origin(0))
    };
    story.run(300);
    story.tell(alarm(1, 7));
    assert_eq!(story.states(), [Shut, Open, Open], "it is of another epoch");
    story.tell(alarm(1, 0));
    assert_eq!(story.states(), [Shut, Draining, Open]);
    story.run(400);
    assert_eq!(story.states(), [Shut, Open, Open]);
    assert_eq!((story.lane(1).looked, story.lane(1).epoch), (1, 0));
    let quiesced = ProxyFact::Quiesced { node: NodeId(0), epoch: 0, term: Term(1), version };
    for fact in [quiesced, ProxyFact::Cut { node: NodeId(0), epoch: 0 }] {
        story.tell(ProxyFact::Reads(Box::new(fact)).by(Origin(0)));
    }
    story.run(400);
    assert_eq!(story.writes.as_ref().unwrap().version, version, "the writer's lanes are as they were");
}

#[test]
fn where_only_checks_count_an_alarm_is_answered_all_the_same_and_holds_nobody() {
    let mut story = Story::with(true, false);
    story.run(300);
    story.tell(
        ProxyFact::Reads(Box::new(ProxyFact::TrafficRefused {
            node: NodeId(1),
            epoch: 0,
            errno: 1053,
            alarm: 1,
        }))
        .by(Origin(0)),
    );
    assert_eq!(story.states(), [Shut, Open, Open]);
    story.run(400);
    assert_eq!((story.lane(1).looked, story.lane(1).epoch), (1, 0));
}

#[test]
fn while_the_primary_is_lost_nobody_gets_older_for_it() {
    let mut story = Story::new(true);
    story.writes(1000, &[1, 2]);
    story.silent[0] = true;
    story.tell(Fact::LinkEnded { node: NodeId(0), how: LinkEnd::Closed });
    for _ in 0..2 {
        story.tell(Fact::ConnectFailed { node: NodeId(0), how: ConnectFailure::Refused });
    }
    story.run(20_000);
    let states = story.states();
    assert!(states[1..].contains(&Open), "{states:?}");
}
