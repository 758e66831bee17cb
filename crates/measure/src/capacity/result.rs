//! What a run comes to: rates, and how much of what the node can do it is asked to do.

use std::time::Duration;

use super::reading::Reading;

/// Peak rates are those of an interval at least so long: a shorter one shows how finely was sampled, not how fast was applied.
const PEAK_INTERVAL: Duration = Duration::from_secs(1);

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Transactions applied in the baseline.
    pub baseline_applied: u64,
    /// How long the baseline was.
    pub baseline: Duration,
    /// For how long nothing was applied.
    pub held: Duration,
    /// Transactions applied from when the node might apply again until its queue was empty.
    pub applied: u64,
    /// How long that took.
    pub catch_up: Duration,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Transactions a second that the node can apply.
    pub apply_per_s: f64,
    /// Transactions a second that it applied in the baseline.
    pub baseline_per_s: f64,
    /// The share of its capacity that the baseline used, 0 to 1.
    pub baseline_share: f64,
    /// Transactions a second that came while it was held and caught up.
    pub arrival_per_s: f64,
    /// The share of its capacity that those use, 0 to 1.
    pub arrival_share: f64,
}

impl Counted {
    /// `None` when nothing was applied, or in no time: there is no rate.
    pub fn capacity(&self) -> Option<Capacity> {
        let apply_per_s = per_s(self.applied, self.catch_up).filter(|rate| *rate > 0.0)?;
        let baseline_per_s = per_s(self.baseline_applied, self.baseline)?;
        // All that came in both times was applied when the queue was empty.
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

/// A rate; `None` over no time.
pub fn per_s(count: u64, over: Duration) -> Option<f64> {
    (!over.is_zero()).then(|| count as f64 / over.as_secs_f64())
}

/// The moments of a run, as places in its readings. Each is there when the run came so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The baseline's first and last reading.
    pub baseline: Option<(usize, usize)>,
    /// The first reading after the node stopped applying, and when it had stopped.
    pub held: Option<(usize, Duration)>,
    /// When it might apply again, and the first reading after that.
    pub resumed: Option<(usize, Duration)>,
    /// The first reading with an empty queue.
    pub empty: Option<usize>,
}

/// A run's readings and its moments.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// In the order of time.
    pub readings: Vec<Reading>,
    /// What they are.
    pub marks: Marks,
}

/// What the rest of the cluster saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elsewhere {
    /// Commits a second in the baseline.
    pub before_per_s: f64,
    /// While the node was held and caught up.
    pub during_per_s: f64,
    /// For how long flow control stopped writes meanwhile. Anything but zero means that the measuring was felt.
    pub paused: Duration,
}

impl Record {
    fn at(&self, index: usize) -> Option<&Reading> {
        self.readings.get(index)
    }

    /// What was counted, when the run came to its end.
    pub fn counted(&self) -> Option<Counted> {
        let (from, to) = self.marks.baseline?;
        let (from, to) = (self.at(from)?, self.at(to)?);
        let (held, held_at) = self.marks.held?;
        let (_, resumed_at) = self.marks.resumed?;
        let (held, empty) = (self.at(held)?, self.at(self.marks.empty?)?);
        Some(Counted {
            baseline_applied: to.node.applied.saturating_sub(from.node.applied),
            baseline: to.at.saturating_sub(from.at),
            held: resumed_at.saturating_sub(held_at),
            applied: empty.node.applied.saturating_sub(held.node.applied),
            catch_up: empty.at.saturating_sub(resumed_at),
        })
    }

    /// How exactly the end of the catching up is known, as a share of it: the pause between the two readings around it.
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

    /// The highest rate of applying, over a second at least (or the whole catching up, when that was shorter).
    pub fn peak_per_s(&self) -> Option<f64> {
        let (from, _) = self.marks.resumed?;
        let readings = self.readings.get(from..=self.marks.empty?)?;
        let rates = rates(readings, PEAK_INTERVAL, |reading| Some(reading.node.applied));
        let capacity = self.counted()?.capacity()?.apply_per_s;
        Some(rates.into_iter().map(|(_, rate)| rate).fold(capacity, f64::max))
    }

    /// What the others saw, once the run has come to its end.
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
        })
    }
}

/// (middle of the interval, rate a second) for intervals of at least `width`; `count` gives a reading's counter.
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
