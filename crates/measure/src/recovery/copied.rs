//! How fast full copies (SST) are, learned from one that was seen: how long another member was donor for a node that needed one and came back.
//!
//! Enters: for each look at a node that is away, what it needs by the forecast, and whether a member is donor. Leaves: how long the copy took. The
//! moment of a look is a time since a beginning that all looks share.

use std::time::Duration;

use super::Forecast;

/// A shorter copy says little about a larger one: the looks are seconds apart, and the scripts wait for seconds on their own.
const TOOK_MIN: Duration = Duration::from_secs(10);

/// One node's way back, looked at again and again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// Before a donor was named: only a full copy helps.
    is_needed: bool,
    /// A donor was seen from then until then.
    fed: Option<(Duration, Duration)>,
    /// At the last look, too.
    is_fed: bool,
}

impl Copied {
    /// The node is away. `forecast`: what it needs, where that is known. `is_fed`: a member is donor, and no other node is away that it could be for.
    pub fn is_away(&mut self, now: Duration, forecast: Option<Forecast>, is_fed: bool) {
        if is_fed && self.is_needed {
            // A second attempt counts from its own beginning.
            let from = self.fed.filter(|_| self.is_fed).map_or(now, |(from, _)| from);
            self.fed = Some((from, now));
        }
        if let (false, Some(forecast)) = (is_fed, forecast) {
            self.is_needed = matches!(forecast, Forecast::FullCopy(_));
        }
        self.is_fed = is_fed;
    }

    /// The node is a member again: how long the copy took, if there was one that was long enough to be measured.
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

    /// A donor is seen in each of `fed` (from, to; s), in a look every two seconds from 0 to 60.
    fn copied(forecast: Option<Forecast>, fed: &[(u64, u64)]) -> Option<Duration> {
        let mut copied = Copied::default();
        for now in (0..60).step_by(2) {
            let is_fed = fed.iter().any(|(from, to)| (*from..*to).contains(&now));
            // With its only donor busy nothing is known of it.
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
