//! The least of a manager: when the proxy saw something amiss at a node, the node takes nothing new until it has been looked at (a
//! doubt), and is then opened again, or given up.
//!
//! For tests in which a node dies, or is slandered, without the test saying when.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::client::{Client, ClientOptions};
use fixture::wait::within_async;
use proxy::{Handle, Settings};
use tokio::task::JoinHandle;
use topology::fact::ProxyFact;
use topology::routes::{Lane, LaneState};

use super::{Bench, lane, routes_of};

/// Who does not answer within this is given up.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// A proxy whose routes are kept by a task. All nodes are open, or the first one alone; when that is given up, the next one is
/// opened.
pub struct Kept {
    pub proxy: Handle,
    seen: Arc<Mutex<Vec<ProxyFact>>>,
    task: JoinHandle<()>,
}

impl Kept {
    /// Over nodes at these addresses.
    pub fn start(settings: Settings, nodes: &[SocketAddr], all_open: bool) -> Self {
        let mut lanes: Vec<Lane> = nodes
            .iter()
            .enumerate()
            .map(|(number, address)| lane(number, *address, LaneState::Shut, 1))
            .collect();
        let open = if all_open { lanes.len() } else { 1 };
        for lane in &mut lanes[..open] {
            lane.state = LaneState::Open;
        }
        let Bench { routes, mut facts, proxy } = Bench::new(settings, routes_of(1, lanes.clone()));
        let seen = Arc::new(Mutex::new(vec![]));
        let (nodes, told) = (nodes.to_vec(), seen.clone());
        let task = tokio::spawn(async move {
            let mut version = 1;
            while let Some(fact) = facts.recv().await {
                told.lock().unwrap().push(fact.clone());
                let (ProxyFact::TrafficLost { node, epoch, alarm, .. }
                | ProxyFact::TrafficRefused { node, epoch, alarm, .. }) = fact
                else {
                    continue;
                };
                let at = usize::from(node.0);
                if lanes[at].state == LaneState::Shut || lanes[at].epoch != epoch {
                    continue;
                }
                lanes[at].state = LaneState::Draining;
                version += 1;
                routes.send_replace(routes_of(version, lanes.clone()));
                if is_well(nodes[at]).await {
                    lanes[at].state = LaneState::Open;
                    lanes[at].looked = lanes[at].looked.max(alarm);
                } else {
                    give_up(&mut lanes, at, all_open);
                }
                version += 1;
                routes.send_replace(routes_of(version, lanes.clone()));
            }
        });
        Self { proxy, seen, task }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.proxy.local_addresses()[0]
    }

    /// A client through the proxy.
    pub async fn client(&self) -> Client {
        Client::connect(self.address()).await
    }

    /// Whether the node of this number is open, after the doubts that there may be.
    pub async fn is_open(&self, number: usize) -> bool {
        let is_open = async || self.proxy.stats().await.lanes[number].state == LaneState::Open;
        within_async(2 * LOOK_PATIENCE, is_open).await.is_ok()
    }

    /// What the proxy has told so far.
    pub fn facts(&self) -> Vec<ProxyFact> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn give_up(lanes: &mut [Lane], at: usize, all_open: bool) {
    lanes[at].state = LaneState::Shut;
    lanes[at].lost_epoch = Some(lanes[at].epoch);
    lanes[at].epoch += 1;
    lanes[at].looked = 0;
    // Never opened before: its epoch is the first.
    let next = lanes.iter_mut().find(|lane| lane.state == LaneState::Shut && lane.epoch == 1);
    if let (false, Some(next)) = (all_open, next) {
        next.state = LaneState::Open;
    }
}

/// The node takes a login and a question.
pub async fn is_well(address: SocketAddr) -> bool {
    let options = ClientOptions { patience: LOOK_PATIENCE, ..ClientOptions::default() };
    match Client::connect_as(address, &options).await {
        Ok(mut client) => client.query("SELECT 1").await.value().as_deref() == Some("1"),
        Err(_) => false,
    }
}
