//! What the tasks of the manager work with, and a reload of the configuration may change while they run.

use std::sync::Arc;
use std::time::Duration;

use link::Login;
use tokio::sync::watch;
use topology::settings::{NodeSettings, Settings};
use topology::{NodeId, heartbeat};

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
    /// The nodes, in the configuration's order.
    pub nodes: Vec<(NodeId, NodeSettings)>,
}

/// The present means. A task that waits for a change sees the newest.
pub(crate) type MeansNow = watch::Receiver<Arc<Means>>;

impl Means {
    /// By these settings, of these nodes.
    pub fn new(settings: &Settings, login: Login, nodes: Vec<(NodeId, NodeSettings)>) -> Self {
        Self {
            login,
            probe_interval: settings.probe_interval,
            misses_max: settings.misses_max,
            events: settings.events,
            heartbeat: settings.heartbeat.clone(),
            nodes,
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
