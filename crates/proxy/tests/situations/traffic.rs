//! A proxy before two doors of one server, and the least of a manager.
//!
//! The two doors are two nodes to the proxy, and their data is always the same; a session's state is in its link, as on two servers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::native;
use proxy::Handle;
use tokio::sync::watch;
use topology::account::{Account, Accounts, Proof};
use topology::fact::Fact;
use topology::routes::{Lane, LaneState, Routes};

use crate::bench::{Bench, lane, routes_of, settings};
use crate::door::Door;

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
}

struct Lanes {
    all: Vec<Lane>,
    version: u64,
    at: usize,
    verdict: Verdict,
}

/// See the head of this file.
pub struct Traffic {
    pub doors: [Door; 2],
    pub proxy: Handle,
    lanes: Arc<Mutex<Lanes>>,
    routes: Arc<watch::Sender<Arc<Routes>>>,
    /// The newest version that its open lane was quiet in.
    quiet: watch::Receiver<u64>,
}

/// With `plain`, whose rights are few: what `init_connect` says is said for it, too.
fn routes_now(version: u64, lanes: Vec<Lane>) -> Arc<Routes> {
    let routes = routes_of(version, lanes);
    let proof = Proof::Native(native::stage2(&native::stage1(b"secret")));
    let account =
        |user: &str| Account { user: user.into(), host: "%".into(), proof: proof.clone(), locked: false };
    let accounts = Arc::new(Accounts::new(vec![account("app"), account("plain")]));
    Arc::new(Routes { accounts, ..(*routes).clone() })
}

impl Lanes {
    fn next(&mut self) -> Arc<Routes> {
        self.version += 1;
        routes_now(self.version, self.all.clone())
    }

    /// The other lane is opened in place of the present one.
    fn leave(&mut self, is_lost: bool) {
        let old = &mut self.all[self.at];
        let lost_epoch = if is_lost { Some(old.epoch) } else { old.lost_epoch };
        let (state, epoch) = (LaneState::Shut, old.epoch + 1);
        *old = Lane { state, epoch, lost_epoch, looked: 0, refused: 0, ..old.clone() };
        self.at = 1 - self.at;
        self.all[self.at].state = LaneState::Open;
    }
}

impl Traffic {
    /// Before the server at this address.
    pub async fn before(node: SocketAddr) -> Traffic {
        let doors = [Door::before(node).await, Door::before(node).await];
        let mut lanes: Vec<Lane> =
            (0..2).map(|number| lane(number, doors[number].address, LaneState::Shut, 1)).collect();
        lanes[0].state = LaneState::Open;
        // The same statement is lost again and again here, and is not to be suspected.
        let settings = proxy::Settings { suspect_time: Duration::ZERO, ..settings() };
        let Bench { routes, mut facts, proxy } = Bench::new(settings, routes_now(1, lanes.clone()));
        let lanes = Arc::new(Mutex::new(Lanes { all: lanes, version: 1, at: 0, verdict: Verdict::Well }));
        let (told_quiet, quiet) = watch::channel(0);
        let (kept, sender) = (lanes.clone(), routes.clone());
        tokio::spawn(async move {
            while let Some(fact) = facts.recv().await {
                let mut kept = kept.lock().unwrap();
                match fact {
                    Fact::TrafficLost { node, epoch, alarm, .. }
                    | Fact::TrafficRefused { node, epoch, alarm, .. } => {
                        let at = usize::from(node.0);
                        if kept.all[at].epoch != epoch || at != kept.at {
                            continue;
                        }
                        match kept.verdict {
                            Verdict::Well => kept.all[at].looked = alarm,
                            Verdict::Lost => kept.leave(true),
                        }
                        sender.send_replace(kept.next());
                    }
                    Fact::Quiesced { version, .. } => drop(told_quiet.send_replace(version)),
                    _ => {}
                }
            }
        });
        Traffic { doors, proxy, lanes, routes, quiet }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.proxy.local_addresses()[0]
    }

    /// What the manager will say of the next loss.
    pub fn judge(&self, verdict: Verdict) {
        self.lanes.lock().unwrap().verdict = verdict;
    }

    /// The door of the node that takes traffic.
    pub fn door(&self) -> &Door {
        &self.doors[self.lanes.lock().unwrap().at]
    }

    /// All traffic leaves the node that has it.
    pub async fn leave(&mut self, how: Leave) {
        if how == Leave::HandedOver {
            let version = self.publish(|lanes| lanes.all[lanes.at].state = LaneState::Draining).await;
            let quiet = self.quiet.wait_for(|quiet| *quiet >= version);
            let _ = tokio::time::timeout(HAND_OVER_TIME, quiet).await;
        }
        self.publish(|lanes| lanes.leave(how == Leave::Lost)).await;
    }

    /// Publishes what `change` makes of the lanes, and returns when the proxy has taken it up; the version.
    async fn publish(&self, change: impl FnOnce(&mut Lanes)) -> u64 {
        let version = {
            let mut lanes = self.lanes.lock().unwrap();
            change(&mut lanes);
            self.routes.send_replace(lanes.next());
            lanes.version
        };
        while self.proxy.stats().await.term < version {
            tokio::task::yield_now().await;
        }
        version
    }
}
