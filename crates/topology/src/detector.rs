//! From unanswered questions and refusals to "silent" and "dead": the arithmetic of detection, and nothing else.
//!
//! ```text
//!   last heard ──> first question without an answer ──> misses = how many intervals ago; misses_max = silent
//!   refused/reset ─> refusals                       ──> refusals_max in a row            = dead
//!   any answer ────> both 0
//! ```
//!
//! How long a node is silent is the age of the first query, since it was last heard, that has no answer. With the defaults a node is silent after 3 x 0.2 s; with
//! the seed's 3 x 1 s after 3 s.
//!
//! Invariants: time in which this process did not run is no part of that age. Time in which no node at all was heard is left out of it, since
//! our own network is then the likelier cause; but only once until the node is heard again, so that a frozen node among slow ones does
//! become silent.

use std::time::Duration;

use crate::time::Now;

/// A gap between two calls of the brain that is longer than this means that the process was suspended or starved: ticks come
/// every 20 ms.
pub(crate) const STALL: Duration = Duration::from_millis(200);

/// The counts of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// For how many whole probe intervals the oldest unanswered query has waited.
    pub misses: u32,
    /// When that query was sent.
    pub missed_since: Option<Now>,
    /// When it was last heard; moved later by the time that does not count.
    heard: Now,
    /// A silence of all nodes has been left out since it was last heard.
    excused: bool,
    pub refusals: u32,
    pub refused_since: Option<Now>,
    pub refused_last: Option<Now>,
    /// When there were `refusals_max` of them in a row.
    pub proven_at: Option<Now>,
}

impl Counts {
    /// A query that was sent at `asked` has no answer. Several queries may be under way and be reported late, so they are not counted: the age
    /// of the oldest decides.
    pub fn miss(&mut self, now: Now, asked: Now, interval: Duration) {
        let since = *self.missed_since.get_or_insert(asked.max(self.heard).min(now));
        self.misses = intervals(now.saturating_sub(since), interval);
    }

    /// A connection was refused or reset; `enough` in a row prove a death.
    pub fn refuse(&mut self, now: Now, enough: u32) {
        self.refusals = self.refusals.saturating_add(1);
        self.refused_since.get_or_insert(now);
        self.refused_last = Some(now);
        if self.refusals >= enough {
            self.proven_at.get_or_insert(now);
        }
    }

    /// The node gave a sign of life.
    pub fn answered(&mut self, now: Now) {
        *self = Self { heard: now, ..Self::default() };
    }

    /// No node was heard for a while, and now one is: this node's silence begins anew, once.
    pub fn excuse(&mut self, now: Now) {
        if !self.excused {
            self.excused = true;
            self.heard = now;
            self.misses = 0;
            self.missed_since = None;
        }
    }

    /// This process did not run for `gap`, until now: that is no part of the node's silence.
    pub fn leave_out(&mut self, gap: Duration, now: Now) {
        self.heard = (self.heard + gap).min(now);
        self.missed_since = self.missed_since.map(|since| (since + gap).min(now));
    }
}

/// How many intervals fit into `age`. Timers fire a little early or late, so an eighth of an interval makes no difference.
fn intervals(age: Duration, interval: Duration) -> u32 {
    let whole = (age + interval / 8).as_nanos() / interval.as_nanos().max(1);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

/// Notices when this process was suspended or starved.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    last: Now,
}

impl Stall {
    pub fn new(now: Now) -> Self {
        Self { last: now }
    }

    /// Called with each fact; `Some(gap)` when the time since the one before is too long to be true.
    pub fn gap_before(&mut self, now: Now) -> Option<Duration> {
        let gap = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        (gap > STALL).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The counts after questions that were sent at 0 have been told to be unanswered at these moments, in milliseconds.
    fn missed_at(moments: &[u32]) -> Counts {
        let mut counts = Counts::default();
        for at in moments {
            counts.miss(*at * MS, Duration::ZERO, 200 * MS);
        }
        counts
    }

    #[test]
    fn silence_is_an_age_however_often_it_is_told() {
        assert_eq!(missed_at(&[200, 210, 220, 400, 401, 599]).misses, 3);
        assert_eq!(missed_at(&[599]).misses, 3);
        assert_eq!(missed_at(&[170]).misses, 0);
        assert_eq!(missed_at(&[200, 400]).missed_since, Some(Duration::ZERO));
    }

    #[test]
    fn a_question_from_before_it_was_heard_counts_from_then() {
        let mut counts = missed_at(&[200, 400]);
        counts.answered(450 * MS);
        counts.miss(600 * MS, 100 * MS, 200 * MS);
        assert_eq!((counts.misses, counts.missed_since), (0, Some(450 * MS)));
        counts.miss(850 * MS, 100 * MS, 200 * MS);
        assert_eq!(counts.misses, 2);
    }

    #[test]
    fn a_common_silence_is_left_out_once() {
        let mut counts = missed_at(&[200, 400]);
        counts.excuse(450 * MS);
        assert_eq!((counts.misses, counts.missed_since), (0, None));
        counts.miss(850 * MS, Duration::ZERO, 200 * MS);
        counts.excuse(900 * MS);
        counts.miss(1050 * MS, Duration::ZERO, 200 * MS);
        assert_eq!((counts.misses, counts.missed_since), (3, Some(450 * MS)));
        counts.answered(1100 * MS);
        counts.miss(1500 * MS, 1100 * MS, 200 * MS);
        counts.excuse(1500 * MS);
        assert_eq!(counts.misses, 0);
    }

    #[test]
    fn time_in_which_we_did_not_run_is_no_silence() {
        let mut counts = missed_at(&[200, 400]);
        counts.leave_out(5000 * MS, 5420 * MS);
        counts.miss(5430 * MS, 300 * MS, 200 * MS);
        assert_eq!((counts.misses, counts.missed_since), (2, Some(5000 * MS)));
    }

    #[test]
    fn a_late_tick_is_noticed() {
        let mut stall = Stall::new(Duration::ZERO);
        assert_eq!(stall.gap_before(20 * MS), None);
        assert_eq!(stall.gap_before(5020 * MS), Some(5000 * MS));
        assert_eq!(stall.gap_before(5040 * MS), None);
    }
}
