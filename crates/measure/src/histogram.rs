//! A histogram of durations in the form that Prometheus expects: for each of a few fixed bounds, the number of durations that did not
//! exceed it. Any number of tasks may add to it.
//!
//! Adding a duration takes three atomic additions and no lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A histogram of durations. `bounds` ascend; durations above the last bound are counted as well.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [Duration],
    /// One counter for each bound, and one for durations above all bounds.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

/// The contents of a [`Histogram`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Each bound, with the number of durations that did not exceed it.
    pub at_most: Vec<(Duration, u64)>,
    /// The number of all durations.
    pub count: u64,
    /// The sum of all durations.
    pub sum: Duration,
}

impl Histogram {
    /// An empty histogram.
    pub fn new(bounds: &'static [Duration]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
        }
    }

    /// Adds one duration.
    pub fn add(&self, took: Duration) {
        let at = self.bounds.partition_point(|bound| *bound < took);
        self.counts[at].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(took.as_micros() as u64, Relaxed);
    }

    /// The present contents. A duration that is added at the same time may be in the count and not yet in the sum.
    pub fn snapshot(&self) -> Snapshot {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let mut count = 0;
        let at_most = self.bounds.iter().zip(&counts).map(|(bound, n)| {
            count += n;
            (*bound, count)
        });
        let at_most = at_most.collect();
        Snapshot {
            at_most,
            count: counts.iter().sum(),
            sum: Duration::from_micros(self.sum_us.load(Relaxed)),
        }
    }
}

impl Snapshot {
    /// The first bound that no duration exceeded of those added since `before`; `None` where there is none of them, or no such bound.
    pub fn bound_since(&self, before: &Self) -> Option<Duration> {
        let added = self.count.saturating_sub(before.count);
        let until = |at: usize| before.at_most.get(at).map_or(0, |(_, count)| *count);
        let mut bounds = self.at_most.iter().enumerate();
        bounds.find(|(at, (_, count))| added > 0 && count - until(*at) >= added).map(|(_, (bound, _))| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_up_to_every_bound_that_it_is_not_longer_than() {
        const BOUNDS: &[Duration] = &[Duration::from_millis(1), Duration::from_millis(10)];
        let histogram = Histogram::new(BOUNDS);
        assert_eq!(histogram.snapshot().count, 0);
        for us in [1, 1000, 1001, 10_000, 50_000] {
            histogram.add(Duration::from_micros(us));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.at_most, [(BOUNDS[0], 2), (BOUNDS[1], 4)]);
        assert_eq!((snapshot.count, snapshot.sum), (5, Duration::from_micros(62_002)));
        assert_eq!(snapshot.bound_since(&snapshot), None, "nothing since");
        histogram.add(Duration::from_millis(3));
        assert_eq!(histogram.snapshot().bound_since(&snapshot), Some(BOUNDS[1]));
        histogram.add(Duration::from_secs(1));
        assert_eq!(histogram.snapshot().bound_since(&snapshot), None, "above all bounds");
    }
}
