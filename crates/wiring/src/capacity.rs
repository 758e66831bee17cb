//! What each node could apply, from what happens by itself: the samples of the manager's probes, a day of them in parts of a minute.
//!
//! Memory: at most [`MINUTES_MAX`] parts a node, below 150 kB. They are kept in the state directory (`store`) every few minutes.

mod store;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manager::Samples;
use measure::capacity::passive::{Look, NodeCapacity, Series, Watcher};
use measure::sample::Sample;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use topology::NodeId;

/// A day of them.
const MINUTES_MAX: usize = 24 * 60;
/// One part of the series.
const MINUTE_US: u64 = 60_000_000;
/// So often the series are written to disk: no more is lost when `serve` ends.
const SAVE_EVERY: Duration = Duration::from_secs(300);

/// See the head of this file. Cheap to clone: all clones are the same.
#[derive(Clone)]
pub struct Capacities {
    /// In the configuration's order.
    nodes: Arc<[Node]>,
    /// The directory of the file that keeps them.
    state: Arc<Path>,
}

struct Node {
    id: NodeId,
    name: String,
    seen: Mutex<Seen>,
}

struct Seen {
    watcher: Watcher,
    series: Series,
    /// From the samples' clock to microseconds since 1970, fixed at the first one, so that a clock that is set back moves nothing.
    base_us: Option<u64>,
}

impl Node {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Capacities {
    /// Of these nodes that is known which was kept in the state directory. `now_unix_us`: microseconds since 1970.
    pub fn new(nodes: impl Iterator<Item = (NodeId, String)>, state: &Path, now_unix_us: u64) -> Self {
        let kept = store::read(state).unwrap_or_else(|why| {
            tracing::warn!("what the nodes could apply is not known from before: {why}");
            Vec::new()
        });
        let node = |(id, name)| {
            let mut series = Series::new(MINUTE_US, MINUTES_MAX);
            let buckets = kept.iter().find(|kept| kept.name == name).map(|kept| kept.buckets.as_slice());
            series.resume(buckets.unwrap_or_default().iter().copied(), now_unix_us);
            Node { id, name, seen: Mutex::new(Seen { watcher: Watcher::default(), series, base_us: None }) }
        };
        Self { nodes: nodes.map(node).collect(), state: state.into() }
    }

    /// Takes in every sample, and keeps what they come to.
    pub async fn keep(self, samples: Samples) {
        let mut news = samples.news();
        let mut save = interval_at(Instant::now() + SAVE_EVERY, SAVE_EVERY);
        save.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = news.recv() => match news {
                    Ok((node, sample)) => self.take(node, &sample),
                    // The watcher sees the gap by the time between its looks.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return self.save().await,
                },
                _ = save.tick() => self.save().await,
            }
        }
    }

    /// Writes what was measured. A disk that hangs holds up the next samples, and nobody else.
    pub async fn save(&self) {
        let nodes = self.kept();
        let state: PathBuf = self.state.to_path_buf();
        let written = tokio::task::spawn_blocking(move || store::write(&state, nodes)).await;
        if let Ok(Err(why)) = written {
            tracing::warn!("what the nodes could apply is forgotten at a restart: {why}");
        }
    }

    /// The same, and waits no longer than this.
    pub async fn save_within(&self, within: Duration) {
        if tokio::time::timeout(within, self.save()).await.is_err() {
            tracing::warn!("what the nodes could apply was not written within {} s", within.as_secs());
        }
    }

    fn kept(&self) -> Vec<store::Kept> {
        let kept = |node: &Node| {
            let buckets = node.seen().series.buckets().copied().collect();
            store::Kept { name: node.name.clone(), buckets }
        };
        self.nodes.iter().map(kept).collect()
    }

    fn take(&self, node: NodeId, sample: &Sample) {
        let known = self.nodes.iter().find(|known| known.id == node);
        if let (Some(mut look), Some(known)) = (Look::of(sample), known) {
            let Seen { watcher, series, base_us } = &mut *known.seen();
            let base_us =
                *base_us.get_or_insert_with(|| (sample.at_unix_ms * 1000).saturating_sub(sample.at_us));
            look.at_us += base_us;
            watcher.look(look, series);
        }
    }

    /// Every node gets all writes: the highest usual rate of any of them is what each has to bear. One that stood still meanwhile shows less.
    fn peak_per_s(&self) -> Option<f64> {
        self.nodes.iter().filter_map(|node| node.seen().series.peak_per_s()).reduce(f64::max)
    }

    /// What each node could apply, in the configuration's order.
    pub fn known(&self) -> Vec<NodeCapacity> {
        let peak = self.peak_per_s().map(|peak| (peak, "the peak of the last 24 h"));
        let known = |node: &Node| NodeCapacity::of(&node.name, &node.seen().series, peak);
        self.nodes.iter().map(known).collect()
    }

    /// For `status`. Nothing is told of a node of which nothing is known.
    pub fn status(&self) -> Vec<NodeCapacity> {
        self.known().into_iter().filter(|known| known.at_least_per_s.is_some()).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // tests fail by panicking
mod tests {
    use measure::sample::{Counters, Galera};
    use serde_json::{Value, json};

    use super::*;

    fn status(capacities: &Capacities) -> Value {
        json!(capacities.status())
    }

    #[test]
    fn what_the_samples_show_is_told() {
        let state = tempfile::tempdir().unwrap();
        let names = || [(NodeId(4), "db1".to_owned()), (NodeId(1), "db2".to_owned())].into_iter();
        let capacities = Capacities::new(names(), state.path(), 0);
        assert_eq!(status(&capacities), json!([]), "nothing is known yet");
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
        let known = status(&capacities);
        assert_eq!(known.as_array().map(Vec::len), Some(1), "{known}");
        let told = &known[0];
        assert_eq!((&told["node"], &told["source"]), (&json!("db2"), &json!("backlog")), "{told}");
        assert!((told["apply_per_s"].as_f64().unwrap_or(0.0) - 900.0).abs() < 9.0, "{told}");
        assert!((told["times_peak"].as_f64().unwrap_or(0.0) - 3.0).abs() < 0.05, "{told}");
        let sentence = told["sentence"].as_str().unwrap_or_default();
        assert!(
            sentence
                .starts_with("db2 would fall behind at 3.0 times the peak of the last 24 h, 300 a second"),
            "{sentence}"
        );

        // It is known again after a restart, until it is too old; a file of somebody else's is left out.
        store::write(state.path(), capacities.kept()).unwrap();
        let again = |now_unix_us| status(&Capacities::new(names(), state.path(), now_unix_us));
        assert_eq!(again(700_000_000), known);
        assert_eq!(again(700_000_000 + 24 * 60 * MINUTE_US), json!([]));
        std::fs::write(state.path().join("capacity.json"), "{}").unwrap();
        assert_eq!(again(700_000_000), json!([]));
    }
}
