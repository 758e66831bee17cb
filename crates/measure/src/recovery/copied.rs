//! Measures how long a full copy (SST) took: how long another member was donor for a node that needed one and returned.
//!
//! Input: for each observation of a node that is away, what it needs by the forecast, and whether a member is donor. Output: how long the
//! copy took. A moment is the time since a common origin.

use std::time::Duration;

use super::Forecast;

/// A shorter copy is not a useful measure for a larger one: observations are seconds apart, and the scripts themselves wait for seconds.
const TOOK_MIN: Duration = Duration::from_secs(10);

/// The return of one node, observed repeatedly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// By the last forecast before there was a donor, the node needs a full copy.
    is_needed: bool,
    /// The first and the last moment at which a donor was seen.
    fed: Option<(Duration, Duration)>,
    /// There was a donor at the last observation.
    is_fed: bool,
}

impl Copied {
    /// Records that the node is away. `forecast`: what it needs, if that is known. `is_fed`: a member is donor, and no other node is away
    /// for which it could be.
    pub fn is_away(&mut self, now: Duration, forecast: Option<Forecast>, is_fed: bool) {
        if is_fed && self.is_needed {
            // A second attempt is measured from its own beginning.
            let from = self.fed.filter(|_| self.is_fed).map_or(now, |(from, _)| from);
            self.fed = Some((from, now));
        }
        if let (false, Some(forecast)) = (is_fed, forecast) {
            self.is_needed = matches!(forecast, Forecast::FullCopy(_));
        }
        self.is_fed = is_fed;
    }

    /// Records that the node is a member again; returns how long the copy took, if there was one that was long enough to be measured.
    pub fn is_back(&mut self) -> Option<Duration> {
        let (from, until) = std::mem::take(self).fed?;
        Some(until.saturating_sub(from)).filter(|took| *took >= TOOK_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reason;
    use super::*;

    const FULL: Option<Forecast> = Some(Forecast::FullCopy(Reason::Gone));

    /// A donor is seen in each of `fed` (from, to; seconds), with an observation every two seconds from 0 to 60.
    fn copied(forecast: Option<Forecast>, fed: &[(u64, u64)]) -> Option<Duration> {
        let mut copied = Copied::default();
        for now in (0..60).step_by(2) {
            let is_fed = fed.iter().any(|(from, to)| (*from..*to).contains(&now));
            // While its only donor is busy, there is no forecast.
            copied.is_away(Duration::from_secs(now), forecast.filter(|_| !is_fed), is_fed);
        }
        let took = copied.is_back();
        assert_eq!(copied.is_back(), None, "once");
        took
    }

    #[test]
    fn a_copy_is_as_long_as_there_was_a_donor() {
        assert_eq!(copied(FULL, &[(10, 40)]), Some(Duration::from_secs(28)));
        assert_eq!(copied(FULL, &[(10, 40), (44, 56)]), Some(Duration::from_secs(10)), "the second attempt");
    }

    #[test]
    fn what_is_no_measured_copy_says_nothing() {
        assert_eq!(copied(FULL, &[]), None);
        assert_eq!(copied(FULL, &[(10, 14)]), None, "too short");
        assert_eq!(copied(Some(Forecast::Missed(None)), &[(10, 40)]), None, "an incremental transfer");
        assert_eq!(copied(None, &[(10, 40)]), None, "it is not known what it needed");
    }
}
