//! Records a run: a histogram of all response times, one for each interval, and rows for results.csv.
//!
//! Its memory is bounded, however many transactions there are. Every transaction is in the histograms and the counts. If there
//! are too many ordinary rows, one in N is kept. Uncommon rows (failures, slow responses) have their own list; those that do not fit into
//! it are counted.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::answer::{AnswerClass, Counts};

/// Slower responses are never thinned out of the rows.
const SLOW: Duration = Duration::from_millis(50);

/// One transaction, as a row of results.csv.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// When the transaction ended, since the start of the run, ms.
    pub elapsed_ms: u32,
    /// The same moment, seconds since 1970.
    pub epoch_s: u32,
    /// The thread group.
    pub group: u16,
    /// Its outcome.
    pub outcome: AnswerClass,
    /// Its response time, µs.
    pub took_us: u32,
}

impl Row {
    fn is_ordinary(&self) -> bool {
        self.outcome.is_answer() && u128::from(self.took_us) < SLOW.as_micros()
    }
}

/// One interval of the series.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Transactions with a valid response.
    pub answers: u64,
    /// Response times of all but failed connections, µs.
    pub times_us: Histogram<u64>,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Record {
    /// Outcomes.
    pub counts: Counts,
    /// Response times of all but failed connections, µs: a refusal, which takes 20 µs, is no response.
    pub times_us: Histogram<u64>,
    /// The same by interval.
    pub intervals: Vec<Interval>,
    /// The width of an interval.
    pub interval: Duration,
    /// Ordinary rows for results.csv, in the order in which they ended.
    ordinary: Vec<Row>,
    /// Failures and slow responses, in the same order.
    uncommon: Vec<Row>,
    /// One in `stride` ordinary transactions has a row; 1: all of them.
    pub stride: u32,
    /// Uncommon transactions that were left out of the rows.
    pub uncommon_dropped: u64,
    /// Planned length of the run.
    pub run: Duration,
    rows_max: usize,
    ordinary_seen: u64,
    empty: Histogram<u64>,
}

impl Record {
    /// For a run that is to last `run`; keeps at most `rows_max` rows of ordinary transactions and as many of others (0: none).
    ///
    /// # Errors
    /// Never with these settings of the histogram; its library does not promise it.
    pub fn new(run: Duration, interval: Duration, rows_max: usize) -> anyhow::Result<Self> {
        let empty = Histogram::new(3)?;
        Ok(Self {
            counts: Counts::default(),
            times_us: empty.clone(),
            intervals: Vec::new(),
            interval,
            ordinary: Vec::new(),
            uncommon: Vec::new(),
            stride: 1,
            uncommon_dropped: 0,
            run,
            rows_max,
            ordinary_seen: 0,
            empty,
        })
    }

    /// Adds one transaction, which ended `elapsed` after the start of the run.
    pub fn add(&mut self, elapsed: Duration, epoch_s: u32, group: u16, took: Duration, outcome: AnswerClass) {
        self.counts.add(outcome);
        let took_us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let value = u64::from(took_us).max(1);
        let number = (elapsed.as_nanos() / self.interval.as_nanos().max(1)) as usize;
        // The last transactions end a little after the run's end: they count for the last interval.
        let last = self.run.as_nanos().div_ceil(self.interval.as_nanos().max(1)) as usize;
        let number = number.min(last.saturating_sub(1));
        while self.intervals.len() <= number {
            self.intervals.push(Interval { answers: 0, times_us: self.empty.clone() });
        }
        let interval = &mut self.intervals[number];
        interval.answers += u64::from(outcome.is_answer());
        if !matches!(outcome, AnswerClass::Transport(_)) {
            // The histograms resize themselves, and 32 bits of microseconds are within their range.
            let _ = self.times_us.record(value);
            let _ = interval.times_us.record(value);
        }
        if self.rows_max > 0 {
            let elapsed_ms = u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX);
            self.keep(Row { elapsed_ms, epoch_s, group, outcome, took_us });
        }
    }

    fn keep(&mut self, row: Row) {
        if !row.is_ordinary() {
            if self.uncommon.len() < self.rows_max {
                self.uncommon.push(row);
            } else {
                self.uncommon_dropped += 1;
            }
            return;
        }
        self.ordinary_seen += 1;
        if self.ordinary.len() >= self.rows_max && self.ordinary_seen.is_multiple_of(self.stride.into()) {
            // Drop every other row, at least half of them: those that are left stay as evenly spread as before.
            self.stride = self.stride.saturating_mul(2);
            let mut is_even = true;
            self.ordinary.retain(|_| {
                is_even = !is_even;
                is_even
            });
        }
        if self.ordinary_seen.is_multiple_of(self.stride.into()) {
            self.ordinary.push(row);
        }
    }

    /// All rows, in the order in which they ended.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let (mut ordinary, mut uncommon) = (self.ordinary.iter().peekable(), self.uncommon.iter().peekable());
        std::iter::from_fn(move || match (ordinary.peek(), uncommon.peek()) {
            (Some(one), Some(other)) if one.elapsed_ms <= other.elapsed_ms => ordinary.next(),
            (Some(_), None) => ordinary.next(),
            (_, Some(_)) => uncommon.next(),
            (None, None) => None,
        })
    }

    /// The given percentile of the response times, s.
    pub fn percentile_s(&self, percent: f64) -> f64 {
        self.times_us.value_at_quantile(percent / 100.0) as f64 / 1e6
    }

    /// The longest response time, s.
    pub fn max_s(&self) -> f64 {
        self.times_us.max() as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_thinned_and_the_uncommon_ones_stay() {
        let mut record = Record::new(Duration::from_secs(10), Duration::from_secs(1), 1000).unwrap();
        for n in 0..10_000_u32 {
            let elapsed = Duration::from_millis(u64::from(n));
            let (took, outcome) = match n % 1000 {
                7 => (Duration::from_millis(200), AnswerClass::Unavailable),
                8 => (Duration::from_millis(1), AnswerClass::Timeout),
                _ => (Duration::from_millis(1), AnswerClass::Unavailable),
            };
            record.add(elapsed, 0, 0, took, outcome);
        }
        let rows: Vec<&Row> = record.rows().collect();
        assert!(rows.len() <= 1000 && record.stride >= 10, "{} {}", rows.len(), record.stride);
        assert!(rows.is_sorted_by_key(|row| row.elapsed_ms));
        let ordinary: Vec<u32> = record.ordinary.iter().map(|row| row.elapsed_ms).collect();
        // Evenly spread, except for gaps from the 20 uncommon rows.
        let spaces = ordinary.windows(2).map(|two| two[1] - two[0]);
        assert!(spaces.clone().all(|space| (record.stride..=record.stride + 2).contains(&space)));
        assert_eq!((record.uncommon.len(), record.uncommon_dropped), (20, 0));
        assert_eq!((record.counts.all(), record.counts.timeouts), (10_000, 10));
        assert_eq!(record.intervals.len(), 10);
        assert_eq!(record.intervals.iter().map(|i| i.times_us.len()).sum::<u64>(), 10_000);
        assert!((record.max_s() - 0.2).abs() < 0.001 && (record.percentile_s(50.0) - 0.001).abs() < 1e-5);
    }

    #[test]
    fn a_refused_connection_is_neither_an_answer_nor_a_response_time() {
        let mut record = Record::new(Duration::from_secs(1), Duration::from_secs(1), 0).unwrap();
        let refused = AnswerClass::Transport(super::super::answer::Trouble::Refused);
        for n in 0..1000 {
            let (took_us, outcome) = if n % 100 == 0 { (9000, AnswerClass::Good) } else { (20, refused) };
            record.add(Duration::from_millis(n), 0, 0, Duration::from_micros(took_us), outcome);
        }
        record.add(Duration::from_millis(999), 0, 0, Duration::from_secs(10), AnswerClass::Timeout);
        assert_eq!((record.counts.answers(), record.counts.transport), (10, 990));
        assert_eq!((record.intervals[0].answers, record.intervals[0].times_us.len()), (10, 11));
        assert!((record.percentile_s(50.0) - 0.009).abs() < 1e-4 && record.max_s() > 9.9);
    }

    #[test]
    fn too_many_uncommon_rows_are_counted_and_take_no_room_from_others() {
        let mut record = Record::new(Duration::from_secs(1), Duration::from_secs(1), 10).unwrap();
        for n in 0..100_u64 {
            let outcome = if n % 2 == 0 { AnswerClass::Timeout } else { AnswerClass::Good };
            record.add(Duration::from_millis(n), 0, 0, Duration::from_millis(1), outcome);
        }
        assert_eq!((record.uncommon.len(), record.uncommon_dropped), (10, 40));
        assert!((5..=10).contains(&record.ordinary.len()) && record.stride == 8, "{}", record.ordinary.len());
    }
}
