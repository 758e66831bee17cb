//! What each node could apply, from what happens by itself: the samples of the manager's probes, a day of them in parts of a minute.
//!
//! Memory: at most [`MINUTES_MAX`] parts a node, below 150 kB.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manager::Samples;
use measure::capacity::passive::{Estimate, Look, Series, Told, Watcher};
use measure::sample::Sample;
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
    /// The highest usual rate of a minute on any node, transactions a second.
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
                Ok((node, sample)) => self.take(node, &sample),
                // The watcher sees the gap by the time between its looks.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn take(&self, node: NodeId, sample: &Sample) {
        if let (Some(look), Some(mut kept)) = (Look::of(sample), self.node(node)) {
            let Node { watcher, series } = &mut *kept;
            watcher.look(look, series);
        }
    }

    fn node(&self, id: NodeId) -> Option<MutexGuard<'_, Node>> {
        let (_, node) = self.nodes.get(usize::from(id.0))?;
        Some(node.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Each node's name and what is known of it, in the configuration's order.
    pub fn known(&self) -> Vec<(String, Known)> {
        let peak_per_s = self.peak_per_s();
        let known = |(name, node): &(String, Mutex<Node>)| {
            let node = node.lock().unwrap_or_else(PoisonError::into_inner);
            (name.clone(), Known { estimate: Estimate::of(&node.series), peak_per_s })
        };
        self.nodes.iter().map(known).collect()
    }

    /// Every node gets all writes: the highest usual rate of any of them is what each has to bear. One that stood still meanwhile shows less.
    fn peak_per_s(&self) -> Option<f64> {
        let peak = |(_, node): &(String, Mutex<Node>)| {
            node.lock().unwrap_or_else(PoisonError::into_inner).series.peak_per_s()
        };
        self.nodes.iter().filter_map(peak).reduce(f64::max)
    }

    /// For `status`. Nothing is told of a node of which nothing is known.
    pub fn status(&self) -> Value {
        let peak = self.peak_per_s().map(|peak| (peak, "the peak of the last 24 h"));
        let told = |(name, node): &(String, Mutex<Node>)| {
            let node = node.lock().unwrap_or_else(PoisonError::into_inner);
            Told::of(name, &node.series, peak)
        };
        let told = self.nodes.iter().map(told).filter(|told| told.at_least_per_s.is_some());
        json!(told.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use measure::sample::{Counters, Galera};

    use super::*;

    #[test]
    fn what_the_samples_show_is_told() {
        let capacities = Capacities::new(["db1", "db2"].into_iter());
        assert_eq!(capacities.status(), json!([]), "nothing is known yet");
        // 300 come a second; for a minute db2 applies nothing, then 900.
        let (mut arrived, mut applied) = (0_u64, 0_u64);
        for s in 1..=600_u64 {
            arrived += 300;
            applied = if (300..360).contains(&s) { applied } else { arrived.min(applied + 900) };
            let galera = Galera {
                primary: Some(true),
                local_state: Some(2),
                last_committed: Some(applied),
                replicated: Some(0),
                recv_queue: Some(arrived - applied),
                ..Galera::default()
            };
            let counters = Counters { galera: Some(galera), ..Counters::default() };
            capacities.take(NodeId(1), &Sample { at_unix_ms: 0, at_us: s * 1_000_000, counters });
        }
        let status = capacities.status();
        assert_eq!(status.as_array().map(Vec::len), Some(1), "{status}");
        let told = &status[0];
        assert_eq!((&told["node"], &told["source"]), (&json!("db2"), &json!("backlog")), "{told}");
        assert!((told["apply_per_s"].as_f64().unwrap_or(0.0) - 900.0).abs() < 9.0, "{told}");
        assert!((told["times_peak"].as_f64().unwrap_or(0.0) - 3.0).abs() < 0.05, "{told}");
        let sentence = told["sentence"].as_str().unwrap_or_default();
        assert!(
            sentence
                .starts_with("db2 would fall behind at 3.0 times the peak of the last 24 h, 300 a second"),
            "{sentence}"
        );
    }
}
