//! The busiest minute of the last hour, which is compared with the forecast at the present rate of writes.

use std::collections::VecDeque;
use std::time::Duration;

use super::WriteRate;

/// The interval between two stored rates, and the span over which each should be measured.
pub const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Busiest {
    /// The rates with the moment at which each one's minute ended, oldest first.
    minutes: VecDeque<(Duration, WriteRate)>,
}

impl Busiest {
    /// Records the rate of the minute that ends now; ignored if the last recorded one ended less than a minute ago.
    pub fn see(&mut self, now: Duration, rate: WriteRate) {
        if self.minutes.back().is_some_and(|(at, _)| now.saturating_sub(*at) < MINUTE) {
            return;
        }
        self.minutes.push_back((now, rate));
        while self.minutes.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= HOUR) {
            self.minutes.pop_front();
        }
    }

    /// The rate with the most bytes; `None` before the first.
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
