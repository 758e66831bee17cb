//! A primary and its replicas as a model, the brain in charge of them, and what it decides, word by word.
//!
//! `UNDERSTUDY_BLESS=1 cargo test -p topology --test replication` rewrites what comes out; the change is then to be read as a diff.
//!
//! ```text
//!   cluster nodes=db1,db2,db3 primary=db1 [term=7 writer=db2]      one primary, the others follow it
//!   write 3                       the primary's clients commit so many transactions, which every replica that is connected receives
//!   db2 lags                      it receives and does not apply | db2 goes-on
//!   db1 kill | start              a process that ends, and one that comes back read only, following nobody
//!   db1 errant                    a transaction of its own that nobody else has
//!   db2 refuses                   the next order to it fails
//!   quiet                         nothing runs on a draining lane any more
//!   order switchover db2          budget 2 s
//!   run 1.0                       so much time passes; every node that is up answers every 200 ms, and what it is asked at once
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use protocol::gtid::{Family, History, Position};
use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome};
use topology::kind::Kind;
use topology::order::{Order, OrderId};
use topology::replication::{self, Channel, ReplicationStatus};
use topology::routes::{LaneState, Routes, ServerGreeting};
use topology::settings::{NodeSettings, Settings, Writers};
use topology::{NodeId, Term};

#[test]
fn decisions() {
    let bless = std::env::var_os("UNDERSTUDY_BLESS").is_some();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replication");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = vec![];
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let text = std::fs::read_to_string(path).unwrap();
        let (script, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let came = play(script);
        if bless {
            std::fs::write(path, format!("{script}----\n{came}")).unwrap();
        } else if came != expected {
            wrong.push(format!("{}:\n{came}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!files.is_empty());
}

/// A server: what it has written or applied, and what it has received, as transactions `(server, number)`.
#[derive(Clone, Default)]
struct Server {
    up: bool,
    linked: bool,
    read_only: bool,
    source: Option<usize>,
    running: bool,
    lags: bool,
    refuses: bool,
    applied: Vec<(u32, u64)>,
    received: Vec<(u32, u64)>,
}

struct World {
    brain: Brain,
    servers: Vec<Server>,
    names: Vec<String>,
    now: Duration,
    facts: VecDeque<Fact>,
    routes: Option<Arc<Routes>>,
    lanes: String,
    out: String,
    orders: u64,
    number: u64,
    asked: BTreeSet<NodeId>,
}

fn play(script: &str) -> String {
    let mut world: Option<World> = None;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &mut world {
            None => world = Some(World::new(&words)),
            Some(world) => world.line(&words),
        }
    }
    world.expect("a cluster").out
}

impl World {
    fn new(words: &[&str]) -> Self {
        let given = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let names: Vec<String> =
            given("nodes=").unwrap_or("db1,db2,db3").split(',').map(Into::into).collect();
        let place = |name: &str| names.iter().position(|known| known == name).expect("a node");
        let primary = place(given("primary=").unwrap_or("db1"));
        let node =
            |name: &String| NodeSettings { name: name.clone(), address: format!("{name}:3306"), priority: 0 };
        let mut settings = Settings::new("shop", Writers::One, names.iter().map(node).collect());
        settings.kind = Kind::Replication;
        let restored = Restored {
            term: Term(given("term=").map_or(0, |term| term.parse().unwrap())),
            writer: given("writer=").map(|name| NodeId(place(name) as u8)),
            sessions_max: vec![None; names.len()],
        };
        let server = |number: usize| Server {
            up: true,
            read_only: number != primary,
            source: (number != primary).then_some(primary),
            running: number != primary,
            ..Server::default()
        };
        Self {
            brain: Brain::new(settings, restored, Duration::ZERO),
            servers: (0..names.len()).map(server).collect(),
            names,
            now: Duration::ZERO,
            facts: VecDeque::new(),
            routes: None,
            lanes: String::new(),
            out: String::new(),
            orders: 0,
            number: 0,
            asked: BTreeSet::new(),
        }
    }

    fn line(&mut self, words: &[&str]) {
        match words {
            ["run", time] => self.run(Duration::from_secs_f64(time.parse().unwrap())),
            ["write", count] => self.write(count.parse().unwrap()),
            ["quiet"] => self.quiet(),
            ["order", "switchover", rest @ ..] => {
                let to = rest.first().map(|name| self.place(name));
                self.orders += 1;
                let order = Order::Switchover { to, budget: Duration::from_secs(2), force: false };
                self.tell(Fact::Order { id: OrderId(self.orders), order });
            }
            [name, what] => {
                let node = self.place(name);
                let server = &mut self.servers[usize::from(node.0)];
                match *what {
                    "lags" => server.lags = true,
                    "goes-on" => server.lags = false,
                    "refuses" => server.refuses = true,
                    "errant" => {
                        self.number += 1;
                        server.applied.push((u32::from(node.0) + 1, self.number));
                    }
                    "kill" => {
                        server.up = false;
                        server.linked = false;
                        self.tell(Fact::LinkEnded { node, how: LinkEnd::Closed });
                    }
                    "start" => {
                        *server = Server { up: true, read_only: true, linked: false, ..server.clone() }
                    }
                    "start-alone" => {
                        *server = Server {
                            up: true,
                            read_only: true,
                            source: None,
                            running: false,
                            linked: false,
                            ..server.clone()
                        };
                    }
                    _ => panic!("{words:?}"),
                }
            }
            _ => panic!("{words:?}"),
        }
        self.spread();
    }

    fn place(&self, name: &str) -> NodeId {
        NodeId(self.names.iter().position(|known| known == name).expect("a node") as u8)
    }

    /// What is replicated is where it can be.
    fn spread(&mut self) {
        for number in 0..self.servers.len() {
            let server = &self.servers[number];
            if let Some(source) =
                server.source.filter(|source| server.running && server.up && self.servers[*source].up)
            {
                self.servers[number].received = self.servers[source].applied.clone();
            }
            let server = &mut self.servers[number];
            if server.running && server.up && !server.lags {
                for transaction in &server.received {
                    if !server.applied.contains(transaction) {
                        server.applied.push(*transaction);
                    }
                }
            }
        }
    }

    /// Only where the lane is open: that is what clients see.
    fn write(&mut self, count: u64) {
        let routes = self.routes.clone().expect("routes");
        let open = routes.open().next().expect("a lane is open").node;
        let server = &mut self.servers[usize::from(open.0)];
        assert!(server.up && !server.read_only, "clients are sent to a server that does not write");
        for _ in 0..count {
            self.number += 1;
            server.applied.push((u32::from(open.0) + 1, self.number));
        }
    }

    fn quiet(&mut self) {
        let routes = self.routes.clone().expect("routes");
        for lane in routes.lanes.iter().filter(|lane| lane.state == LaneState::Draining) {
            let (node, epoch) = (lane.node, lane.epoch);
            self.tell(Fact::Quiesced { node, epoch, term: routes.term, version: routes.version });
        }
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        let mut ticks = 0;
        while self.now < until {
            self.now += Duration::from_millis(20);
            ticks += 1;
            let asked = std::mem::take(&mut self.asked);
            for number in 0..self.servers.len() {
                let node = NodeId(number as u8);
                let is_asked = ticks % 10 == 0 || asked.contains(&node);
                match &mut self.servers[number] {
                    server if server.up && !server.linked => {
                        server.linked = true;
                        self.tell(Fact::LinkUp { node, greeting: greeting() });
                        self.answer(node);
                    }
                    server if server.up && is_asked => self.answer(node),
                    server if !server.up && is_asked => {
                        self.tell(Fact::ConnectFailed { node, how: ConnectFailure::Refused });
                    }
                    _ => {}
                }
            }
            self.tell(Fact::Tick);
            self.spread();
            self.at_most_one_writes();
        }
    }

    fn at_most_one_writes(&self) {
        let Some(routes) = &self.routes else { return };
        for lane in routes.open() {
            let others = self.servers.iter().enumerate().filter(|(number, server)| {
                *number != usize::from(lane.node.0) && server.up && !server.read_only
            });
            assert_eq!(others.count(), 0, "two writers at {:?}:\n{}", self.now, self.out);
        }
    }

    fn answer(&mut self, node: NodeId) {
        let status = self.status(usize::from(node.0)).into();
        // It was asked a moment before.
        self.tell(Fact::Status { node, status, asked: self.now.saturating_sub(Duration::from_micros(10)) });
        self.now += Duration::from_micros(20);
    }

    fn status(&self, number: usize) -> ReplicationStatus {
        let server = &self.servers[number];
        let channel = |source: usize| Channel {
            source: format!("{}:3306", self.names[source]),
            io_running: server.running && self.servers[source].up,
            io_stopped: !server.running,
            sql_running: server.running,
            by_gtid: true,
            received: position(&server.received),
            ..Channel::default()
        };
        ReplicationStatus {
            server_id: number as u32 + 1,
            read_only: server.read_only,
            log_bin: true,
            log_replica_updates: true,
            gtid_strict_mode: true,
            position: Position::parse(Family::MariaDb, &position(&server.applied)).ok(),
            history: History::parse(Family::MariaDb, &history(&server.applied)).ok(),
            channels: server.source.map(channel).into_iter().collect(),
            ..ReplicationStatus::default()
        }
    }

    fn tell(&mut self, fact: Fact) {
        self.facts.push_back(fact);
        while let Some(fact) = self.facts.pop_front() {
            for action in self.brain.on(self.now, fact) {
                self.act(action);
            }
        }
    }

    fn act(&mut self, action: Action) {
        let name = |names: &[String], node: NodeId| names[usize::from(node.0)].clone();
        let line = match action {
            Action::Publish(routes) => {
                // The links of a lane that is shut are gone at once.
                for lane in &routes.lanes {
                    let before =
                        self.routes.as_ref().and_then(|old| old.lane(lane.node)).map_or(0, |old| old.epoch);
                    if lane.epoch > before {
                        self.facts.push_back(Fact::Cut { node: lane.node, epoch: lane.epoch - 1 });
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
                if lanes == self.lanes {
                    return;
                }
                self.lanes.clone_from(&lanes);
                lanes
            }
            Action::Persist { number, term, .. } => {
                self.facts.push_back(Fact::Outcome(Outcome::Persisted { number }));
                format!("persist term {term}")
            }
            Action::Replication(action) => self.order(action),
            // Answered a moment later.
            Action::Probe { node } | Action::Confirm { node } => {
                self.asked.insert(node);
                return;
            }
            Action::Say(sentence) => format!("say {}: {}", sentence.level.word(), sentence.text),
            Action::Answer { reply: Ok(done), .. } => format!("answer: {}", done.sentence),
            Action::Answer { reply: Err(refused), .. } => {
                format!("refused {}: {}", refused.code, refused.sentence)
            }
            Action::Barrier { node, .. } => panic!("a barrier of {}", name(&self.names, node)),
            _ => return,
        };
        let _ = writeln!(self.out, "{:.2} {line}", self.now.as_secs_f64());
    }

    fn order(&mut self, action: replication::Action) -> String {
        use replication::{Action, Outcome as Came};
        let name = |names: &[String], node: NodeId| names[usize::from(node.0)].clone();
        let (node, term) = match &action {
            Action::Demote { node, term, .. }
            | Action::Promote { node, term, .. }
            | Action::Follow { node, term, .. } => (*node, *term),
        };
        let fails = std::mem::take(&mut self.servers[usize::from(node.0)].refuses)
            || !self.servers[usize::from(node.0)].up;
        let why = || "it refuses".to_owned();
        let server = &mut self.servers[usize::from(node.0)];
        let (line, fact): (String, Fact) = match action {
            Action::Demote { .. } => {
                server.read_only |= !fails;
                let position = Position::parse(Family::MariaDb, &position(&server.applied)).unwrap();
                let outcome = if fails {
                    Came::DemoteFailed { node, term, why: why() }
                } else {
                    Came::Demoted { node, term, position }
                };
                (format!("read only: {}", name(&self.names, node)), Fact::Outcome(outcome.into()))
            }
            Action::Promote { reach, .. } => {
                let has = Position::parse(Family::MariaDb, &position(&server.applied)).unwrap();
                let short = server.applied.len() < server.received.len()
                    || reach.as_ref().is_some_and(|reach| !has.contains(reach).unwrap());
                let outcome = if fails || short {
                    let why = if short { "it has not applied everything".to_owned() } else { why() };
                    Outcome::BarrierFailed { node, term, why }
                } else {
                    *server = Server { read_only: false, source: None, running: false, ..server.clone() };
                    Outcome::BarrierPassed { node, term }
                };
                let reach = reach.map_or("all that it has".to_owned(), |reach| reach.to_string());
                (format!("promote {} at {reach}", name(&self.names, node)), Fact::Outcome(outcome))
            }
            Action::Follow { source, .. } => {
                let outcome = if fails {
                    Came::FollowFailed { node, term, why: why() }
                } else {
                    *server = Server {
                        read_only: true,
                        source: Some(usize::from(source.0)),
                        running: true,
                        ..server.clone()
                    };
                    Came::Following { node, term }
                };
                let line = format!("{} follows {}", name(&self.names, node), name(&self.names, source));
                (line, Fact::Outcome(outcome.into()))
            }
        };
        self.facts.push_back(fact);
        line
    }
}

/// All in one domain: the newest.
fn position(transactions: &[(u32, u64)]) -> String {
    let newest = transactions.iter().max_by_key(|(_, number)| *number);
    newest.map_or_else(String::new, |(server, number)| format!("0-{server}-{number}"))
}

/// The newest of each server.
fn history(transactions: &[(u32, u64)]) -> String {
    let mut newest = std::collections::BTreeMap::<u32, u64>::new();
    for (server, number) in transactions {
        let known = newest.entry(*server).or_default();
        *known = (*known).max(*number);
    }
    newest.iter().map(|(server, number)| format!("0-{server}-{number}")).collect::<Vec<_>>().join(",")
}

fn greeting() -> ServerGreeting {
    ServerGreeting { version: "5.5.5-10.11.19-MariaDB".into(), capabilities: u64::MAX, charset: 45 }
}
