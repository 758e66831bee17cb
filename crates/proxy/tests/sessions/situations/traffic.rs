//! A proxy before two doors, and the least of a manager. The doors are two nodes to the proxy; what is behind them is the [`Ground`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixture::tls::Certificate;
use harness::{SECOND, lane, routes_of, settings, shows};
use link::{Codec, ServerTls};
use protocol::auth::native;
use proxy::{Handle, Inputs, Reads, Split};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use topology::NodeId;
use topology::account::{Account, Accounts, Proof};
use topology::fact::ProxyFact;
use topology::reads::Reached;
use topology::routes::{Lane, LaneState, Routes};

use super::door::Door;
use super::ground::{Ground, Nodes};

/// For how long a lane that is handed over may have sessions that cannot go; their links are broken then, as by an operator's order.
const HAND_OVER_TIME: Duration = Duration::from_millis(60);

/// What the manager says of a node whose link broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Only the link broke.
    Well,
    /// The node is gone, and the other one takes over.
    Lost,
}

/// How traffic leaves a node between two statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    HandedOver,
    Lost,
    /// The other one is open, too, and this one has more sessions than it may have.
    Crowded,
}

struct Lanes {
    all: Vec<Lane>,
    version: u64,
    at: usize,
    verdict: Verdict,
    /// Of the lanes for reads: how often each was shut, and the last alarm after which its server was looked at, and was well.
    reads: [(u64, u64); 2],
}

/// For so long a read waits on a replica, which has everything within milliseconds.
const READ_WAIT: Duration = Duration::from_secs(2);

/// See the head of this file.
pub struct Traffic {
    pub doors: [Door; 2],
    nodes: Arc<AsyncMutex<Nodes>>,
    pub proxy: Handle,
    /// What the proxy shows to clients that ask for TLS.
    pub certificate: Certificate,
    settings: proxy::Settings,
    behind: [SocketAddr; 2],
    lanes: Arc<Mutex<Lanes>>,
    routes: Arc<Published>,
    /// The newest version that its open lane was quiet in.
    quiet: watch::Receiver<u64>,
}

/// With `plain`, whose rights are few: what `init_connect` says is said for it, too.
fn routes_now(version: u64, lanes: Vec<Lane>) -> Arc<Routes> {
    let routes = routes_of(version, lanes);
    let proof = Proof::Native(native::stage2(&native::stage1(b"secret")));
    let account = |user: &str| Account {
        user: user.into(),
        host: "%".into(),
        proofs: vec![proof.clone()],
        ..Account::default()
    };
    let accounts = Arc::new(Accounts::new(vec![account("app"), account("plain")]));
    Arc::new(Routes { accounts, ..(*routes).clone() })
}

impl Lanes {
    fn next(&mut self) -> Arc<Routes> {
        self.version += 1;
        routes_now(self.version, self.all.clone())
    }

    fn shut(&mut self, at: usize, is_lost: bool) {
        let old = &mut self.all[at];
        let lost_epoch = if is_lost { Some(old.epoch) } else { old.lost_epoch };
        let (state, epoch) = (LaneState::Shut, old.epoch + 1);
        *old = Lane { state, epoch, lost_epoch, looked: 0, refused: 0, ..old.clone() };
    }

    /// The other lane is opened in place of the present one.
    fn open_other(&mut self) {
        self.at = 1 - self.at;
        self.all[self.at].state = LaneState::Open;
        // It has taken reads until now.
        self.reads[self.at].0 += 1;
    }

    /// The other lane is opened beside the present one, which may have no session.
    fn crowd(&mut self) {
        self.all[self.at].sessions_max = Some(0);
        self.open_other();
    }

    /// No lane but the present one is open.
    fn calm(&mut self) {
        let other = 1 - self.at;
        if self.all[other].state == LaneState::Open {
            self.all[other].sessions_max = None;
            self.shut(other, false);
        }
    }

    /// The routes of reads: to the lane that does not write.
    fn of_reads(&self) -> Arc<Routes> {
        let mut lanes = self.all.clone();
        for (at, lane) in lanes.iter_mut().enumerate() {
            lane.state = if at == self.at { LaneState::Shut } else { LaneState::Open };
            (lane.epoch, lane.looked) = self.reads[at];
            (lane.lost_epoch, lane.refused) = (None, 0);
        }
        routes_now(self.version, lanes)
    }
}

/// What the proxy hears.
struct Published {
    routes: watch::Sender<Arc<Routes>>,
    of_reads: watch::Sender<Arc<Routes>>,
}

impl Published {
    /// Says what the lanes are now; the version.
    fn say(&self, lanes: &mut Lanes) -> u64 {
        let routes = lanes.next();
        self.of_reads.send_replace(lanes.of_reads());
        self.routes.send_replace(routes);
        lanes.version
    }
}

impl Traffic {
    /// Before the nodes of this ground.
    pub async fn before(ground: Ground) -> Traffic {
        let nodes = Nodes::start(ground).await;
        let behind = nodes.addresses();
        let doors = [Door::before(behind[0]).await, Door::before(behind[1]).await];
        let mut all: Vec<Lane> =
            (0..2).map(|number| lane(number, doors[number].address, LaneState::Shut, 1)).collect();
        all[0].state = LaneState::Open;
        let mut lanes = Lanes { all, version: 0, at: 0, verdict: Verdict::Well, reads: [(1, 0); 2] };
        // The same statement is lost again and again here, and is not to be suspected.
        let certificate = Certificate::of("127.0.0.1");
        let tls = shows(&certificate, false);
        let settings = proxy::Settings { suspect_time: Duration::ZERO, tls, ..settings() };
        let (routes, given) = watch::channel(lanes.next());
        let (of_reads, of_replicas) = watch::channel(lanes.of_reads());
        let (tell, facts) = mpsc::channel(100);
        let inputs = Inputs { routes: given, facts: tell };
        let (told_reached, reached) = watch::channel(Arc::new(reached_at(Duration::ZERO, "")));
        let origin = Instant::now();
        let proxy = match ground {
            Ground::Split => proxy::start_split(
                settings.clone(),
                inputs,
                Split { routes: of_replicas, wait_max: READ_WAIT },
            ),
            Ground::ReadPort => {
                let reads = Reads { reached, origin, wait_max: READ_WAIT.into(), is_group: false };
                proxy::start_reads(settings.clone(), inputs, reads)
            }
            Ground::OneServer | Ground::Galera | Ground::Replication => {
                proxy::start(settings.clone(), inputs)
            }
        };
        let (told_quiet, quiet) = watch::channel(0);
        let traffic = Traffic {
            doors,
            nodes: Arc::new(AsyncMutex::new(nodes)),
            proxy: proxy.unwrap(),
            certificate,
            settings,
            behind,
            lanes: Arc::new(Mutex::new(lanes)),
            routes: Arc::new(Published { routes, of_reads }),
            quiet,
        };
        let manager = Manager {
            lanes: traffic.lanes.clone(),
            routes: traffic.routes.clone(),
            nodes: traffic.nodes.clone(),
            told_quiet,
            told_reached,
            origin,
            is_read_port: ground == Ground::ReadPort,
        };
        tokio::spawn(manager.decide(facts));
        traffic
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.proxy.local_addresses()[0]
    }

    /// Links to the nodes that are made from now on are made so.
    pub fn connect_to_nodes(&self, tls: Option<ServerTls>, compression: Option<Codec>) {
        let settings =
            proxy::Settings { node_tls: tls, node_compression: compression, ..self.settings.clone() };
        self.proxy.apply(settings, SECOND);
    }

    /// The door before the server that takes traffic.
    pub fn door(&self) -> &Door {
        &self.doors[self.lanes.lock().unwrap().at]
    }

    /// The server that takes traffic.
    pub fn server(&self) -> SocketAddr {
        self.behind[self.lanes.lock().unwrap().at]
    }

    /// See [`Nodes::rest`].
    pub async fn rest(&self) {
        self.nodes.lock().await.rest().await;
    }

    /// Said by an administrator on the server that takes traffic.
    pub async fn given(&self, sql: &str) {
        let at = self.lanes.lock().unwrap().at;
        self.nodes.lock().await.given(sql, at).await;
    }

    /// No node is crowded any more.
    pub async fn calm(&mut self) {
        self.publish(Lanes::calm).await;
    }

    /// What the manager will say of the next loss.
    pub fn judge(&self, verdict: Verdict) {
        self.lanes.lock().unwrap().verdict = verdict;
    }

    /// All traffic leaves the node that has it.
    pub async fn leave(&mut self, how: Leave) {
        if how == Leave::Crowded {
            self.publish(Lanes::crowd).await;
            return;
        }
        if how == Leave::HandedOver {
            let version = self.publish(|lanes| lanes.all[lanes.at].state = LaneState::Draining).await;
            let quiet = self.quiet.wait_for(|quiet| *quiet >= version);
            let _ = tokio::time::timeout(HAND_OVER_TIME, quiet).await;
        }
        self.publish(|lanes| lanes.shut(lanes.at, how == Leave::Lost)).await;
        self.nodes.lock().await.level().await;
        self.publish(Lanes::open_other).await;
    }

    /// Publishes what `change` makes of the lanes, and returns when the proxy has taken it up; the version.
    async fn publish(&self, change: impl FnOnce(&mut Lanes)) -> u64 {
        let version = {
            let mut lanes = self.lanes.lock().unwrap();
            change(&mut lanes);
            self.routes.say(&mut lanes)
        };
        while self.proxy.stats().await.term < version {
            tokio::task::yield_now().await;
        }
        version
    }
}

/// A position of the primary that was asked for at that time; both nodes are its replicas.
fn reached_at(asked: Duration, position: &str) -> Reached {
    Reached { primary: None, position: position.into(), asked, read_only: vec![NodeId(0), NodeId(1)] }
}

/// The least of a manager: hears what the proxy finds out, and decides as the test has said.
struct Manager {
    lanes: Arc<Mutex<Lanes>>,
    routes: Arc<Published>,
    nodes: Arc<AsyncMutex<Nodes>>,
    told_quiet: watch::Sender<u64>,
    told_reached: watch::Sender<Arc<Reached>>,
    origin: Instant,
    /// The proxy has no other lanes than those for reads.
    is_read_port: bool,
}

impl Manager {
    async fn decide(self, mut facts: mpsc::Receiver<ProxyFact>) {
        while let Some(fact) = facts.recv().await {
            let (fact, of_reads) = match fact {
                ProxyFact::Reads(fact) => (*fact, !self.is_read_port),
                fact => (fact, false),
            };
            let (node, epoch, alarm) = match fact {
                ProxyFact::TrafficLost { node, epoch, alarm, .. }
                | ProxyFact::TrafficRefused { node, epoch, alarm, .. } => (node, epoch, alarm),
                ProxyFact::Quiesced { version, .. } if !of_reads => {
                    self.told_quiet.send_replace(version);
                    continue;
                }
                ProxyFact::PositionWanted => {
                    self.say_position().await;
                    continue;
                }
                _ => continue,
            };
            let at = usize::from(node.0);
            let is_lost = {
                let mut lanes = self.lanes.lock().unwrap();
                if of_reads {
                    // Only a link to the replica broke.
                    lanes.reads[at].1 = alarm;
                    self.routes.say(&mut lanes);
                    continue;
                }
                if lanes.all[at].epoch != epoch {
                    continue;
                }
                // The server of a crowded lane is well.
                let is_lost = at == lanes.at && lanes.verdict == Verdict::Lost;
                if is_lost {
                    lanes.shut(at, true);
                } else {
                    lanes.all[at].looked = alarm;
                }
                self.routes.say(&mut lanes);
                is_lost
            };
            if is_lost {
                self.nodes.lock().await.level().await;
                let mut lanes = self.lanes.lock().unwrap();
                lanes.open_other();
                self.routes.say(&mut lanes);
            }
        }
    }

    /// What was written on the server that sessions have left: on the one that they come to now is what was written there.
    async fn say_position(&self) {
        let asked = self.origin.elapsed();
        let left = 1 - self.lanes.lock().unwrap().at;
        let position = self.nodes.lock().await.position(left).await;
        self.told_reached.send_replace(Arc::new(reached_at(asked, &position)));
    }
}
