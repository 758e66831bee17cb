//! The counters of each node during the last hour, for everything that shows or uses them.
//!
//! ```text
//!   probe (a task per node) ──put──> a ring per node ──page, last, rates──> API, status, live view
//!                                └─> news (each sample, to all listeners; a slow listener misses some and is told so)
//! ```
//!
//! The nodes are not asked anything in addition: once a second the probe's own question includes more names. The samples do not pass
//! through the brain or the proxy. A ring's lock is held for a push, or for copying what is asked for; never across an await.
//!
//! Memory: at most [`SAMPLES_MAX`] samples a node, below 2.5 MB.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use measure::histogram::{Histogram, Snapshot};
use measure::rates::{Rates, Span};
use measure::ring::Ring;
use measure::sample::{Counters, Sample};
use tokio::sync::broadcast;
use topology::NodeId;
use topology::time::Now;

use crate::store::unix_ms;

/// An hour of samples of one node, one a second.
pub const SAMPLES_MAX: usize = 3600;
/// Bounds of the histogram of the times that probes take.
const PROBE_BOUNDS: &[Duration] = &[
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
/// The number of samples that a listener may be behind.
const NEWS_MAX: usize = 256;

/// See the head of this file. Cheap to clone: all clones are the same.
#[derive(Clone)]
pub struct Samples {
    /// Of each node of the configuration.
    nodes: Arc<Mutex<BTreeMap<NodeId, Arc<Series>>>>,
    news: broadcast::Sender<(NodeId, Sample)>,
}

struct Series {
    ring: Mutex<Ring>,
    probes: Histogram,
}

/// Where the probe of one node puts its counters.
#[derive(Clone)]
pub struct Input {
    node: NodeId,
    series: Arc<Series>,
    news: broadcast::Sender<(NodeId, Sample)>,
}

impl Input {
    /// The node has answered a question of the probe after this time.
    pub fn probed(&self, took: Duration) {
        self.series.probes.add(took);
    }

    /// Adds the node's answer to a question of that time.
    #[allow(clippy::large_types_passed_by_value)] // it goes into the sample
    pub fn put(&self, asked: Now, counters: Counters) {
        let sample = Sample { at_unix_ms: unix_ms(), at_us: asked.as_micros() as u64, counters };
        self.series.ring().put(sample);
        // An error means that there is no listener.
        let _ = self.news.send((self.node, sample));
    }
}

impl Series {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        locked(&self.ring)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Samples {
    /// Nothing yet, for these nodes.
    pub fn new(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let samples = Self { nodes: Arc::default(), news: broadcast::channel(NEWS_MAX).0 };
        samples.set_nodes(nodes);
        samples
    }

    /// From now on these are the nodes: what is known of others is forgotten.
    pub(crate) fn set_nodes(&self, nodes: impl IntoIterator<Item = NodeId>) {
        let new =
            || Series { ring: Mutex::new(Ring::new(SAMPLES_MAX)), probes: Histogram::new(PROBE_BOUNDS) };
        let mut known = locked(&self.nodes);
        let mut before = std::mem::take(&mut *known);
        let kept = |node| (node, before.remove(&node).unwrap_or_else(|| Arc::new(new())));
        known.extend(nodes.into_iter().map(kept));
    }

    /// For the probe of that node; `None` if there is none.
    pub fn input(&self, node: NodeId) -> Option<Input> {
        Some(Input { node, series: self.series(node)?, news: self.news.clone() })
    }

    /// The times that the node took to answer the probe; unanswered questions are not included.
    pub fn probe_times(&self, node: NodeId) -> Option<Snapshot> {
        Some(self.series(node)?.probes.snapshot())
    }

    /// The node's samples after that moment (milliseconds since 1970), oldest first: the first `samples_max` later than `after_us` by
    /// [`Sample::at_us`]. The lock is held while these are copied, so all of them are read page by page.
    pub fn page(
        &self,
        node: NodeId,
        since_unix_ms: u64,
        after_us: Option<u64>,
        samples_max: usize,
    ) -> Vec<Sample> {
        let copied =
            |series: Arc<Series>| series.ring().page(since_unix_ms, after_us, samples_max).copied().collect();
        self.series(node).map_or_else(Vec::new, copied)
    }

    /// The last sample.
    pub fn last(&self, node: NodeId) -> Option<Sample> {
        self.series(node)?.ring().last().copied()
    }

    /// The rates from about this long before its last sample until that; over the whole known time if that is shorter. `None` while there
    /// are not two samples, or when it restarted between them.
    pub fn rates(&self, node: NodeId, over: Duration) -> Option<Rates> {
        let series = self.series(node)?;
        let ring = series.ring();
        // Samples are about a second apart, and not exactly.
        let age = over.saturating_sub(Duration::from_millis(500));
        let span = Span::new(ring.before_last(age.as_micros() as u64)?, ring.last()?)?;
        drop(ring);
        Some(span.into())
    }

    /// Each sample from now on, and its node. Also of nodes that were added since, or are just being removed.
    pub fn news(&self) -> broadcast::Receiver<(NodeId, Sample)> {
        self.news.subscribe()
    }

    fn series(&self, node: NodeId) -> Option<Arc<Series>> {
        locked(&self.nodes).get(&node).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_a_node_stays_below_two_and_a_half_megabytes() {
        assert!(size_of::<Sample>() * SAMPLES_MAX < 2_500_000, "{}", size_of::<Sample>());
    }

    #[test]
    fn every_name_of_a_sample_is_asked_for_by_the_probe() {
        use topology::{flavor::Dialect, galera, replication};
        let all = measure::sample::NAMES.iter().chain(measure::sample::GALERA_NAMES);
        for name in all {
            assert!(galera::sql::STATUS_COUNTED.contains(&format!("'{name}'")), "{name}");
        }
        for dialect in [Dialect::MariaDb, Dialect::MySql57, Dialect::MySql80, Dialect::MySql] {
            for name in measure::sample::NAMES {
                assert!(
                    replication::sql::status(dialect, true).contains(&format!("'{name}'")),
                    "{dialect:?} {name}"
                );
            }
        }
    }

    #[test]
    fn rates_are_of_the_span_that_was_asked_for() {
        let samples = Samples::new([NodeId(0)]);
        let (node, input) = (NodeId(0), samples.input(NodeId(0)).unwrap());
        for s in 0..10_u64 {
            let counters = Counters { questions: Some(s * s), ..Counters::default() };
            input.put(Duration::from_secs(s), counters);
        }
        let rate = |s| samples.rates(node, Duration::from_secs(s)).unwrap().questions.unwrap();
        assert!(
            (rate(1) - 17.0).abs() < 1e-9 && (rate(3) - 15.0).abs() < 1e-9 && (rate(60) - 9.0).abs() < 1e-9
        );
        assert!(samples.rates(NodeId(7), Duration::from_secs(1)).is_none());
    }

    #[test]
    fn a_node_keeps_its_samples_in_another_list() {
        let samples = Samples::new([NodeId(0), NodeId(1)]);
        let (holder, mut news) = (samples.clone(), samples.news());
        let removed = samples.input(NodeId(0)).unwrap();
        samples.input(NodeId(1)).unwrap().put(Duration::from_secs(1), Counters::default());
        samples.set_nodes([NodeId(2), NodeId(1)]);
        removed.put(Duration::from_secs(2), Counters::default());
        samples.input(NodeId(2)).unwrap().put(Duration::from_secs(3), Counters::default());
        let last = [0, 1, 2].map(|node| holder.last(NodeId(node)).map(|sample| sample.at_us / 1_000_000));
        assert_eq!(last, [None, Some(1), Some(3)]);
        let told = [(); 3].map(|()| news.try_recv().unwrap().0.0);
        assert_eq!(told, [1, 0, 2]);
        samples.set_nodes([NodeId(0)]);
        assert!(holder.last(NodeId(0)).is_none(), "what was known before is forgotten");
    }
}
