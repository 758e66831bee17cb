//! What the tasks of the manager work with, and a reload of the configuration may change while they run.

use std::sync::Arc;
use std::time::Duration;

use link::Login;
use tokio::sync::watch;
use topology::NodeId;
use topology::{heartbeat, settings};

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Means {
    /// How the tasks log in.
    pub login: Login,
    /// Between two questions of a probe for the status.
    pub probe_interval: Duration,
    /// So many questions without an answer end the probe's link.
    pub misses_max: u32,
    /// Whether events count at once: then probes send pings between two questions for the status.
    pub events: bool,
    /// How heartbeats are written.
    pub heartbeat: heartbeat::Settings,
    /// The number and the name of each node.
    pub nodes: Vec<(NodeId, String)>,
}

/// The present means. A task that waits for a change sees the newest.
pub(crate) type MeansNow = watch::Receiver<Arc<Means>>;

impl Means {
    /// By these settings, with the nodes' numbers in the same order.
    pub fn new(settings: &settings::Settings, login: Login, numbers: &[NodeId]) -> Self {
        let names = settings.nodes.iter().map(|node| node.name.clone());
        Self {
            login,
            probe_interval: settings.probe_interval,
            misses_max: settings.misses_max,
            events: settings.events,
            heartbeat: settings.heartbeat.clone(),
            nodes: numbers.iter().copied().zip(names).collect(),
        }
    }
}

/// The means as they are now.
pub(crate) fn now(means: &MeansNow) -> Arc<Means> {
    Arc::clone(&means.borrow())
}

/// Returns when the means are others, by that comparison.
pub(crate) async fn changed(means: &MeansNow, mut is_other: impl FnMut(&Means) -> bool) {
    let mut means = means.clone();
    if means.wait_for(|means| is_other(means)).await.is_err() {
        // The manager ends, and its tasks with it.
        std::future::pending::<()>().await;
    }
}
