//! Real servers behind the proxy, and the ways in which traffic leaves one of them for another.
//!
//! ```text
//!   handed over   draining ── Quiesced ──> shut, the other open     a switchover
//!   drained       draining, the other open at once; a little later  a drain where all nodes write: who can move has time to, who
//!                 shut                                              cannot has waited for nothing
//!   shut          shut, the other open                              a node that was given up: every link is cut
//!   killed        kill -9, then as above                            a node that died
//! ```

use std::sync::Arc;
use std::time::Duration;

use fixture::client::{Client, ClientOptions};
use fixture::{Server, signal};
use proxy::Settings;
use tokio::sync::mpsc;
use topology::fact::ProxyFact;
use topology::routes::{Cut, LaneState, Routes};

use super::{Bench, SECOND, lane, routes_of};

/// How long sessions that can move have to do so in a drain.
const DRAIN_TIME: Duration = Duration::from_millis(300);

/// How traffic leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// As in a switchover.
    HandedOver,
    /// As in a drain of one node of several that take traffic.
    Drained,
    /// As when a node is given up: its links are cut at once.
    Shut,
}

/// See the head of this file.
pub struct Cluster {
    pub servers: Vec<Server>,
    pub bench: Bench,
    /// What the proxy told, as it came: taken up at once, since the proxy waits for room for what must not be lost.
    pub facts: mpsc::UnboundedReceiver<ProxyFact>,
    lanes: Vec<(LaneState, u64, Cut)>,
    /// Of each server: the last epoch that ended since it was lost.
    lost: Vec<Option<u64>>,
    version: u64,
    /// Which server takes traffic, from 0.
    pub at: usize,
}

impl Cluster {
    /// `count` servers, the first of which takes the traffic.
    pub fn start(count: usize) -> Self {
        Self::with(count, super::settings(), &[])
    }

    /// The same with other settings of the proxy and other options of the servers.
    pub fn with(count: usize, settings: Settings, options: &[&str]) -> Self {
        let servers: Vec<Server> = (0..count).map(|_| Server::start(options)).collect();
        Self::over(servers, settings)
    }

    /// Over servers that run.
    pub fn over(servers: Vec<Server>, settings: Settings) -> Self {
        let mut lanes = vec![(LaneState::Shut, 1, Cut::Nothing); servers.len()];
        lanes[0].0 = LaneState::Open;
        let lost = vec![None; servers.len()];
        let first = routes_now(1, &servers, &lanes, &lost);
        let mut bench = Bench::new(settings, first);
        let mut told = std::mem::replace(&mut bench.facts, mpsc::channel(1).1);
        let (pass_on, facts) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(fact) = told.recv().await {
                let _ = pass_on.send(fact);
            }
        });
        Self { bench, servers, facts, lanes, lost, version: 1, at: 0 }
    }

    /// The server that takes the traffic.
    pub fn here(&self) -> &Server {
        &self.servers[self.at]
    }

    /// The same SQL on every server, as root.
    pub fn everywhere(&self, sql: &str) {
        for server in &self.servers {
            server.sql(sql);
        }
    }

    /// A client through the proxy.
    pub async fn client(&self) -> Client {
        Client::connect(self.bench.proxy.local_addresses()[0]).await
    }

    /// The same as somebody else, or with other manners.
    pub async fn client_as(&self, options: &ClientOptions) -> Client {
        let address = self.bench.proxy.local_addresses()[0];
        Client::connect_as(address, options).await.unwrap_or_else(|part| panic!("{part:?}"))
    }

    /// The routes in force, for those that want them a little different.
    pub fn routes(&self) -> Arc<Routes> {
        routes_now(self.version, &self.servers, &self.lanes, &self.lost)
    }

    async fn publish(&mut self) {
        self.version += 1;
        self.bench.follow(self.routes()).await;
    }

    /// What is to be published next, unless something else is before that.
    fn publish_later(&mut self) {
        let before = self.version;
        self.version += 1;
        let (routes, next) = (self.bench.routes.clone(), self.routes());
        tokio::spawn(async move {
            tokio::time::sleep(DRAIN_TIME).await;
            routes.send_if_modified(|now| {
                let is_due = now.version == before;
                if is_due {
                    *now = next;
                }
                is_due
            });
        });
    }

    fn other(&self) -> usize {
        (self.at + 1) % self.servers.len()
    }

    /// The present lane takes nothing new; what runs may end.
    pub async fn drain(&mut self) {
        self.lanes[self.at].0 = LaneState::Draining;
        self.publish().await;
    }

    /// The drain is given up.
    pub async fn undrain(&mut self) {
        self.lanes[self.at].0 = LaneState::Open;
        self.lanes[self.at].2 = Cut::Nothing;
        self.publish().await;
    }

    /// Says to the draining lane what of that which still runs is to be cut.
    pub async fn cut(&mut self, cut: Cut) {
        self.lanes[self.at].2 = cut;
        self.publish().await;
    }

    /// Whether the draining lane becomes quiet within a time.
    pub async fn quiet(&mut self, within: Duration) -> bool {
        let (here, epoch, least) = (self.at as u8, self.lanes[self.at].1, self.version);
        let facts = &mut self.facts;
        let said = async {
            loop {
                let fact = facts.recv().await.expect("the proxy runs");
                if let ProxyFact::Quiesced { node, epoch: of, version, .. } = fact
                    && (node.0, of) == (here, epoch)
                    && version >= least
                {
                    return;
                }
            }
        };
        tokio::time::timeout(within, said).await.is_ok()
    }

    /// Shuts the present lane and opens the next.
    pub async fn open_next(&mut self) {
        self.shut(self.at);
        self.at = self.other();
        self.open_here();
        self.publish().await;
    }

    fn shut(&mut self, at: usize) {
        if self.lanes[at].0 != LaneState::Shut {
            self.lanes[at] = (LaneState::Shut, self.lanes[at].1 + 1, Cut::Nothing);
        }
    }

    fn open_here(&mut self) {
        // A lane that was left draining is first shut: its links are of an older epoch.
        self.shut(self.at);
        self.lanes[self.at].0 = LaneState::Open;
    }

    /// Moves all traffic to the next server.
    pub async fn move_on(&mut self, how: Move) {
        match how {
            Move::HandedOver => {
                self.drain().await;
                assert!(self.quiet(5 * SECOND).await, "the lane never became quiet");
                self.open_next().await;
            }
            Move::Drained => {
                let from = self.at;
                self.lanes[from].0 = LaneState::Draining;
                self.at = self.other();
                self.open_here();
                self.publish().await;
                self.shut(from);
                self.publish_later();
            }
            Move::Shut => {
                self.lost[self.at] = Some(self.lanes[self.at].1);
                self.open_next().await;
            }
        }
    }

    /// Kills the present server, and then moves on.
    pub async fn kill_here(&mut self) {
        let at = self.at;
        self.servers[at].signal(signal::KILL);
        self.servers[at].wait_gone();
        self.move_on(Move::Shut).await;
    }
}

fn routes_now(
    version: u64,
    servers: &[Server],
    lanes: &[(LaneState, u64, Cut)],
    lost: &[Option<u64>],
) -> Arc<Routes> {
    let lanes = servers.iter().zip(lanes).enumerate().map(|(number, (server, &(state, epoch, cut)))| {
        let mut lane = lane(number, server.address(), state, epoch);
        lane.cut = cut;
        lane.lost_epoch = lost[number];
        lane
    });
    routes_of(version, lanes.collect())
}
