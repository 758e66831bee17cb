//! Observations of a node in buckets of a fixed length: a time series of bounded size.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::estimate::Source;

/// A bucket in which at most one part in this many of the time was busy still represents the usual rate.
const CATCHING_UP_PARTS: u64 = 10;

/// Busy time, and the transactions applied in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// Transactions.
    pub applied: u64,
    /// Microseconds.
    pub us: u64,
}

impl Busy {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, more: Self) {
        self.applied = self.applied.saturating_add(more.applied);
        self.us = self.us.saturating_add(more.us);
    }

    /// Transactions per second of busy time.
    pub fn per_s(self) -> Option<f64> {
        (self.us > 0).then(|| self.applied as f64 * 1e6 / self.us as f64)
    }
}

/// One bucket of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The index of the bucket: its start on the clock of the samples, divided by the bucket length.
    pub number: u64,
    /// All transactions applied, and the time that was observed.
    pub all: Busy,
    /// The queue was nearly empty at the end of the bucket: the node kept up with what arrived.
    pub kept_up: bool,
    /// Busy time that is known from the queue.
    #[serde(default, skip_serializing_if = "Busy::is_none")]
    pub backlog: Busy,
    /// Busy time that is known from the node's own flow control.
    #[serde(default, skip_serializing_if = "Busy::is_none")]
    pub flow_control: Busy,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Series {
    buckets: VecDeque<Bucket>,
    bucket_us: u64,
    buckets_max: usize,
}

impl Series {
    /// A series of at most this many buckets of this many microseconds each; older buckets are dropped.
    pub fn new(bucket_us: u64, buckets_max: usize) -> Self {
        Self { buckets: VecDeque::new(), bucket_us: bucket_us.max(1), buckets_max: buckets_max.max(1) }
    }

    /// Loads a stored series: buckets of the same length, on the same clock. Buckets that are too old for the series, later than `now_us`,
    /// or out of order are left out.
    pub fn resume(&mut self, kept: impl IntoIterator<Item = Bucket>, now_us: u64) {
        let now = now_us / self.bucket_us;
        let oldest = (now + 1).saturating_sub(self.buckets_max as u64);
        for bucket in kept {
            let follows = self.buckets.back().is_none_or(|last| last.number < bucket.number);
            if follows && (oldest..=now).contains(&bucket.number) {
                self.buckets.push_back(bucket);
            }
        }
    }

    /// The buckets, oldest first.
    pub fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter()
    }

    /// The length of a bucket, microseconds.
    pub fn bucket_us(&self) -> u64 {
        self.bucket_us
    }

    fn bucket(&mut self, at_us: u64) -> &mut Bucket {
        let number = at_us / self.bucket_us;
        if self.buckets.back().is_none_or(|last| last.number < number) {
            // Drops by age rather than by number, because the series may have gaps and old buckets say nothing about the present.
            let oldest = (number + 1).saturating_sub(self.buckets_max as u64);
            while self.buckets.front().is_some_and(|first| first.number < oldest) {
                self.buckets.pop_front();
            }
            self.buckets.push_back(Bucket { number, kept_up: true, ..Bucket::default() });
        }
        let last = self.buckets.len() - 1;
        &mut self.buckets[last]
    }

    pub(super) fn note_rate(&mut self, at_us: u64, span: Busy, kept_up: bool) {
        let bucket = self.bucket(at_us);
        bucket.all.add(span);
        bucket.kept_up = kept_up;
    }

    pub(super) fn note_busy(&mut self, at_us: u64, source: Source, busy: Busy) {
        let bucket = self.bucket(at_us);
        match source {
            Source::Backlog => bucket.backlog.add(busy),
            Source::FlowControl => bucket.flow_control.add(busy),
        }
    }

    /// The highest usual rate, transactions per second: the highest among the buckets that were observed for at least half of their length
    /// and in which the node was not catching up.
    pub fn peak_per_s(&self) -> Option<f64> {
        let is_usual = |bucket: &&Bucket| {
            (bucket.backlog.us + bucket.flow_control.us) * CATCHING_UP_PARTS <= bucket.all.us
        };
        self.full().filter(is_usual).filter_map(|bucket| bucket.all.per_s()).reduce(f64::max)
    }

    /// The highest rate among the buckets in which the node kept up.
    pub fn kept_up_per_s(&self) -> Option<f64> {
        self.full().filter(|bucket| bucket.kept_up).filter_map(|bucket| bucket.all.per_s()).reduce(f64::max)
    }

    fn full(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter().filter(|bucket| bucket.all.us * 2 >= self.bucket_us)
    }
}
