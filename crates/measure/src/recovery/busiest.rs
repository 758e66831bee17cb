//! The busiest minute of the last hour: what a forecast at the present rate of writes is held against.

use std::collections::VecDeque;
use std::time::Duration;

use super::WriteRate;

/// Between two rates that are kept, and the span that each should be of.
pub const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Busiest {
    /// With the moment at which each ended, oldest first.
    minutes: VecDeque<(Duration, WriteRate)>,
}

impl Busiest {
    /// Takes the rate of the minute that ends now, when the last one that was taken ended a minute ago or earlier.
    pub fn see(&mut self, now: Duration, rate: WriteRate) {
        if self.minutes.back().is_some_and(|(at, _)| now.saturating_sub(*at) < MINUTE) {
            return;
        }
        self.minutes.push_back((now, rate));
        while self.minutes.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= HOUR) {
            self.minutes.pop_front();
        }
    }

    /// The one with the most bytes; `None` before the first.
    pub fn rate(&self) -> Option<WriteRate> {
        WriteRate::highest(self.minutes.iter().map(|(_, rate)| *rate))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_busiest_minute_is_remembered_for_an_hour() {
        let mut busiest = Busiest::default();
        assert_eq!(busiest.rate(), None);
        for s in 0..7200 {
            let bytes_per_s = if (600..660).contains(&s) { 9.0 } else { 1.0 };
            busiest.see(Duration::from_secs(s), WriteRate { bytes_per_s, transactions_per_s: 2.0 });
            let expected = if (600..600 + 3600).contains(&s) { 9.0 } else { 1.0 };
            assert!((busiest.rate().unwrap().bytes_per_s - expected).abs() < 1e-9, "{s}");
        }
        assert!(busiest.minutes.len() <= 60);
    }
}
