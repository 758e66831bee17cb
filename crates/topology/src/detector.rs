//! From single misses and refusals to "silent" and "dead": the arithmetic of detection, and nothing else.
//!
//! ```text
//!   missed probe ──> misses (at most one counted per interval) ──> misses_max in a row   = silent
//!   refused/reset ─> refusals                                  ──> refusals_max in a row = dead
//!   any answer ────> both 0
//! ```
//!
//! With the defaults: silent after 3 x 0.2 s; with the seed's 3 x 1 s after 3 s.
//! Invariant: time in which this process did not run never counts as a node's silence.

use std::time::Duration;

use crate::fact::Now;

/// A gap between two calls of the brain that is longer than this means that the process was suspended or starved: ticks come
/// every 20 ms.
pub(crate) const STALL: Duration = Duration::from_millis(200);

/// The counts of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub misses: u32,
    /// When the first question of this row of misses went unanswered.
    pub missed_since: Option<Now>,
    last_miss: Option<Now>,
    pub refusals: u32,
    pub refused_since: Option<Now>,
    pub refused_last: Option<Now>,
    /// When there were enough of them.
    pub proven_at: Option<Now>,
}

impl Counts {
    /// A question went unanswered. Several kinds of question may be out at once, so at most one miss counts in three quarters of an
    /// interval: otherwise silence would be declared sooner than the settings say.
    pub fn miss(&mut self, now: Now, interval: Duration) {
        if self.last_miss.is_some_and(|last| now.saturating_sub(last) < interval * 3 / 4) {
            return;
        }
        self.misses = self.misses.saturating_add(1);
        self.last_miss = Some(now);
        self.missed_since.get_or_insert(now.saturating_sub(interval));
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
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// Misses counted so far say nothing: we did not listen ourselves.
    pub fn forgive(&mut self) {
        self.misses = 0;
        self.missed_since = None;
        self.last_miss = None;
    }
}

/// Notices that this process did not run.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    last: Now,
    /// Misses told before this moment come from the gap.
    pub forgive_until: Now,
}

impl Stall {
    pub fn new(now: Now) -> Self {
        Self { last: now, forgive_until: Duration::ZERO }
    }

    /// Called with each fact; `Some(gap)` when the time since the one before is too long to be true.
    pub fn woke(&mut self, now: Now, interval: Duration) -> Option<Duration> {
        let gap = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        if gap <= STALL {
            return None;
        }
        self.forgive_until = now + interval;
        Some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn at_most_one_miss_an_interval() {
        let mut counts = Counts::default();
        for at in [200, 210, 220, 400, 401, 600] {
            counts.miss(at * MS, 200 * MS);
        }
        assert_eq!(counts.misses, 3);
        assert_eq!(counts.missed_since, Some(Duration::ZERO));
    }

    #[test]
    fn a_late_tick_is_noticed() {
        let mut stall = Stall::new(Duration::ZERO);
        assert_eq!(stall.woke(20 * MS, 200 * MS), None);
        assert_eq!(stall.woke(5020 * MS, 200 * MS), Some(5000 * MS));
        assert_eq!(stall.forgive_until, 5220 * MS);
        assert_eq!(stall.woke(5040 * MS, 200 * MS), None);
    }
}
