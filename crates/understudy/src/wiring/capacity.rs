//! What each node could apply, from what happens by itself: the samples of the manager's probes, a day of them in parts of a minute.
//!
//! Memory: at most [`MINUTES_MAX`] parts a node, below 150 kB.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manager::Samples;
use measure::capacity::passive::{Estimate, Look, Series, Told, Watcher};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use topology::NodeId;

/// A day of them.
const MINUTES_MAX: usize = 24 * 60;
/// One part of the series.
const MINUTE_US: u64 = 60_000_000;

/// See the head of this file. Cheap to clone: all clones are the same.
#[derive(Clone)]
pub struct Capacities {
    /// In the configuration's order, with their names.
    nodes: Arc<[(String, Mutex<Node>)]>,
}

struct Node {
    watcher: Watcher,
    series: Series,
}

/// What is known of one node.
pub struct Known {
    /// The figure, a lower bound, or neither.
    pub estimate: Estimate,
    /// The highest usual rate of a minute, transactions a second.
    pub peak_per_s: Option<f64>,
}

impl Capacities {
    /// Of these nodes nothing is known yet.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let node = || Node { watcher: Watcher::default(), series: Series::new(MINUTE_US, MINUTES_MAX) };
        Self { nodes: names.map(|name| (name.to_owned(), Mutex::new(node()))).collect() }
    }

    /// Takes in every sample.
    pub async fn keep(self, samples: Samples) {
        let mut news = samples.news();
        loop {
            match news.recv().await {
                Ok((node, sample)) => {
                    if let (Some(look), Some(mut kept)) = (Look::of(&sample), self.node(node)) {
                        let Node { watcher, series } = &mut *kept;
                        watcher.look(look, series);
                    }
                }
                // The watcher sees the gap by the time between its looks.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn node(&self, id: NodeId) -> Option<MutexGuard<'_, Node>> {
        let (_, node) = self.nodes.get(usize::from(id.0))?;
        Some(node.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Each node's name and what is known of it, in the configuration's order.
    pub fn known(&self) -> Vec<(String, Known)> {
        let known = |(name, node): &(String, Mutex<Node>)| {
            let node = node.lock().unwrap_or_else(PoisonError::into_inner);
            let (estimate, peak_per_s) = (Estimate::of(&node.series), node.series.peak_per_s());
            (name.clone(), Known { estimate, peak_per_s })
        };
        self.nodes.iter().map(known).collect()
    }

    /// For `status`. Nothing is told of a node of which nothing is known.
    pub fn status(&self) -> Value {
        let told = |(name, node): &(String, Mutex<Node>)| {
            let node = node.lock().unwrap_or_else(PoisonError::into_inner);
            Told::of(name, &node.series, "the peak of the last 24 h")
        };
        let told = self.nodes.iter().map(told).filter(|told| told.at_least_per_s.is_some());
        json!(told.collect::<Vec<_>>())
    }
}
