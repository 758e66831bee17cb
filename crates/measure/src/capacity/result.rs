//! The figures of a run: rates, and which share of the node's capacity is in use.

use std::time::Duration;

use super::reading::Reading;

/// The shortest interval over which a peak rate is computed. A shorter one would reflect the sampling rather than the rate of applying.
const PEAK_INTERVAL: Duration = Duration::from_secs(1);

/// The counts and times of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Transactions applied in the baseline.
    pub baseline_applied: u64,
    /// How long the baseline was.
    pub baseline: Duration,
    /// For how long the node applied nothing.
    pub held: Duration,
    /// Transactions applied from the end of the hold until the queue was empty.
    pub applied: u64,
    /// How long that took, as far as the looks at the node tell.
    pub catch_up: Duration,
    /// Of these, transactions applied between the first and the last look that saw a queue, and the time between these two. Unlike the two ends of the
    /// catch-up, which lie between looks, both belong to the same moments, however late those are. Up to the look that saw none, where
    /// that rate is higher. `None` without two looks that saw a queue.
    pub behind: Option<(u64, Duration)>,
}

/// The figures computed from [`Counted`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// The capacity, transactions per second.
    pub apply_per_s: f64,
    /// The rate of applying during the baseline, transactions per second.
    pub baseline_per_s: f64,
    /// The share of the capacity that the baseline used, 0 to 1.
    pub baseline_share: f64,
    /// The rate of arrival during the hold and the catch-up, transactions per second.
    pub arrival_per_s: f64,
    /// The share of the capacity that this rate uses, 0 to 1.
    pub arrival_share: f64,
}

impl Counted {
    /// `None` when no transaction was applied or the time was zero.
    pub fn capacity(&self) -> Option<Capacity> {
        let (applied, over) = self.behind.unwrap_or((self.applied, self.catch_up));
        let apply_per_s = per_s(applied, over).filter(|rate| *rate > 0.0)?;
        let baseline_per_s = per_s(self.baseline_applied, self.baseline)?;
        // When the queue is empty, everything that arrived in both times has been applied.
        let arrival_per_s = per_s(self.applied, self.held + self.catch_up)?;
        Some(Capacity {
            apply_per_s,
            baseline_per_s,
            baseline_share: baseline_per_s / apply_per_s,
            arrival_per_s,
            arrival_share: arrival_per_s / apply_per_s,
        })
    }
}

/// A rate per second; `None` for a time of zero.
pub fn per_s(count: u64, over: Duration) -> Option<f64> {
    (!over.is_zero()).then(|| count as f64 / over.as_secs_f64())
}

/// The moments of a run, as indices into its readings. Each is set once the run has reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The first and the last reading of the baseline.
    pub baseline: Option<(usize, usize)>,
    /// The first reading after the node stopped applying, and the time at which it had stopped.
    pub held: Option<(usize, Duration)>,
    /// The time at which the hold ended, and the first reading after that.
    pub resumed: Option<(usize, Duration)>,
    /// The first reading with an empty queue.
    pub empty: Option<usize>,
}

/// The readings of a run and its moments.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// In chronological order.
    pub readings: Vec<Reading>,
    /// The moments within them.
    pub marks: Marks,
}

/// The effect on the other nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Elsewhere {
    /// Commits per second during the baseline.
    pub before_per_s: f64,
    /// Commits per second during the hold and the catch-up.
    pub during_per_s: f64,
    /// For how long flow control paused writes in that time. Any value above zero means that the measurement affected clients.
    pub paused: Duration,
    /// Which of the other nodes asked for that, by their places in [`Reading::others`].
    pub askers: Vec<usize>,
    /// Whether the measured node did.
    pub is_asker: bool,
}

impl Record {
    fn at(&self, index: usize) -> Option<&Reading> {
        self.readings.get(index)
    }

    /// The counts, once the run is complete.
    pub fn counted(&self) -> Option<Counted> {
        let (from, to) = self.marks.baseline?;
        let (from, to) = (self.at(from)?, self.at(to)?);
        let (held, held_at) = self.marks.held?;
        let (resumed, resumed_at) = self.marks.resumed?;
        let (held, empty) = (self.at(held)?, self.at(self.marks.empty?)?);
        let (first, last) = (self.at(resumed)?, self.at(self.marks.empty?.saturating_sub(1))?);
        let up_to = |to: &Reading| {
            (to.node.applied.saturating_sub(first.node.applied), to.at.saturating_sub(first.at))
        };
        // A node that takes its time to begin has done the most after the last look that saw a queue. When it is seen empty, it has been so for a
        // while: counted up to there the rate is too low, if anything.
        let (behind, whole) = (up_to(last), up_to(empty));
        let rate = |(applied, over)| per_s(applied, over).unwrap_or_default();
        let behind = Some(if rate(whole) > rate(behind) { whole } else { behind });
        Some(Counted {
            baseline_applied: to.node.applied.saturating_sub(from.node.applied),
            baseline: to.at.saturating_sub(from.at),
            held: resumed_at.saturating_sub(held_at),
            applied: empty.node.applied.saturating_sub(held.node.applied),
            catch_up: empty.at.saturating_sub(resumed_at),
            behind: behind.filter(|(applied, _)| *applied > 0 && last.at > first.at),
        })
    }

    /// The precision of the end of the catch-up, as a share of its length: the time between the two readings around it.
    pub fn resolution(&self) -> Option<f64> {
        let empty = self.marks.empty?;
        let before = self.at(empty.checked_sub(1)?)?.at;
        let catch_up = self.counted()?.catch_up.as_secs_f64();
        let gap = self.at(empty)?.at.saturating_sub(before).as_secs_f64();
        (catch_up > 0.0).then(|| gap / catch_up)
    }

    /// The longest queue.
    pub fn queue_max(&self) -> u64 {
        self.readings.iter().map(|reading| reading.node.queue).max().unwrap_or(0)
    }

    /// The highest rate of applying over at least a second, or over the whole catch-up when that was shorter.
    pub fn peak_per_s(&self) -> Option<f64> {
        let (from, _) = self.marks.resumed?;
        let readings = self.readings.get(from..=self.marks.empty?)?;
        let rates = rates(readings, PEAK_INTERVAL, |reading| Some(reading.node.applied));
        let capacity = self.counted()?.capacity()?.apply_per_s;
        Some(rates.into_iter().map(|(_, rate)| rate).fold(capacity, f64::max))
    }

    /// The effect on the other nodes, once the run is complete.
    pub fn elsewhere(&self) -> Option<Elsewhere> {
        let (from, to) = self.marks.baseline?;
        let rate = |from: &Reading, to: &Reading| {
            let count = to.committed_elsewhere()?.saturating_sub(from.committed_elsewhere()?);
            per_s(count, to.at.saturating_sub(from.at))
        };
        let (held, empty) = (self.at(self.marks.held?.0)?, self.at(self.marks.empty?)?);
        Some(Elsewhere {
            before_per_s: rate(self.at(from)?, self.at(to)?)?,
            during_per_s: rate(held, empty)?,
            paused: empty.paused_since(held),
            askers: empty.askers_since(held),
            is_asker: empty.node.flow_control_sent > held.node.flow_control_sent,
        })
    }
}

/// Pairs of (middle of the interval, rate per second) for intervals of at least `width`; `count` returns the counter of a reading.
pub fn rates(
    readings: &[Reading],
    width: Duration,
    count: impl Fn(&Reading) -> Option<u64>,
) -> Vec<(Duration, f64)> {
    let mut rates = Vec::new();
    let mut from: Option<(Duration, u64)> = None;
    for reading in readings {
        let Some(counted) = count(reading) else { continue };
        let Some((at, before)) = from else {
            from = Some((reading.at, counted));
            continue;
        };
        let long = reading.at.saturating_sub(at);
        if long >= width
            && let Some(rate) = per_s(counted.saturating_sub(before), long)
        {
            rates.push((at + long / 2, rate));
            from = Some((reading.at, counted));
        }
    }
    rates
}
