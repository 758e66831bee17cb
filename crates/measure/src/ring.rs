//! The most recent samples of one node, oldest first, up to a fixed number.
//!
//! Invariant: each sample is later than the one before it by `at_us`, and the memory is bounded by what [`Ring::new`] was given.

use std::collections::VecDeque;

use crate::sample::Sample;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Ring {
    samples: VecDeque<Sample>,
    samples_max: usize,
}

impl Ring {
    /// A ring of at most this many samples. The minimum is two, because a rate needs two samples. Memory is allocated as the ring fills.
    pub fn new(samples_max: usize) -> Self {
        Self { samples: VecDeque::new(), samples_max: samples_max.max(2) }
    }

    /// Adds a sample, and drops the oldest one when the ring is full. A sample that is not later than the last one is ignored.
    pub fn put(&mut self, sample: Sample) {
        if self.last().is_some_and(|last| last.at_us >= sample.at_us) {
            return;
        }
        if self.samples.len() >= self.samples_max {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The most recent sample.
    pub fn last(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// The most recent sample that is at least this many microseconds older than the last one, or the oldest sample when none is that old.
    /// `None` with fewer than two samples.
    pub fn before_last(&self, age_us: u64) -> Option<&Sample> {
        let last = self.last()?;
        let is_old = |sample: &&Sample| last.at_us - sample.at_us >= age_us;
        let oldest = || self.samples.front().filter(|_| self.samples.len() > 1);
        self.samples.iter().rev().skip(1).find(is_old).or_else(oldest)
    }

    /// Of the samples taken after `since_unix_ms` (milliseconds since 1970), the first `samples_max` whose [`Sample::at_us`] is greater
    /// than `after_us`, oldest first.
    pub fn page(
        &self,
        since_unix_ms: u64,
        after_us: Option<u64>,
        samples_max: usize,
    ) -> impl Iterator<Item = &Sample> {
        let first =
            self.samples.partition_point(|sample| after_us.is_some_and(|after| sample.at_us <= after));
        let rest = self.samples.range(first..);
        rest.filter(move |sample| sample.at_unix_ms > since_unix_ms).take(samples_max)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(s: u64) -> Sample {
        Sample { at_unix_ms: 1000 * s, at_us: 1_000_000 * s, ..Sample::default() }
    }

    #[test]
    fn the_oldest_go_first() {
        let mut ring = Ring::new(3);
        for s in 1..=5 {
            ring.put(at(s));
        }
        assert_eq!(
            ring.page(0, None, 99).map(|sample| sample.at_unix_ms).collect::<Vec<_>>(),
            [3000, 4000, 5000]
        );
        assert_eq!(ring.page(4000, None, 99).count(), 1);
        assert_eq!(ring.page(5000, None, 99).count(), 0);
    }

    #[test]
    fn pages_follow_one_another_without_a_gap() {
        let mut ring = Ring::new(10);
        for s in 1..=7 {
            ring.put(at(s));
        }
        let page = |since, after: Option<u64>| -> Vec<u64> {
            ring.page(since, after, 3).map(|sample| sample.at_us / 1_000_000).collect()
        };
        assert_eq!(page(0, None), [1, 2, 3]);
        assert_eq!(page(0, Some(3_000_000)), [4, 5, 6]);
        assert_eq!(page(0, Some(6_000_000)), [7]);
        assert!(page(0, Some(7_000_000)).is_empty());
        assert_eq!(page(5000, None), [6, 7]);
    }

    #[test]
    fn the_one_before_is_as_old_as_asked_for_or_the_oldest() {
        let mut ring = Ring::new(10);
        assert!(ring.before_last(0).is_none());
        ring.put(at(1));
        assert!(ring.before_last(0).is_none(), "one sample has no rates");
        for s in 2..=5 {
            ring.put(at(s));
        }
        assert_eq!(ring.before_last(0).unwrap().at_unix_ms, 4000);
        assert_eq!(ring.before_last(2_000_000).unwrap().at_unix_ms, 3000);
        assert_eq!(ring.before_last(60_000_000).unwrap().at_unix_ms, 1000);
    }

    #[test]
    fn what_is_not_later_is_not_taken() {
        let mut ring = Ring::new(10);
        ring.put(at(2));
        ring.put(at(2));
        ring.put(at(1));
        assert_eq!(ring.page(0, None, 99).count(), 1);
    }
}
