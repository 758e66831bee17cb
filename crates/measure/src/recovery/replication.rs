//! Replication: forecasts whether a replica can continue from the primary's binary logs, or needs a new copy.
//!
//! A primary deletes binary logs that are older than `binlog_expire_logs_seconds` (`expire_logs_days`), and with `max_binlog_total_size`
//! the oldest ones beyond that size, even if a replica that is away still needs them. (mariadb.com/kb, "Using and Maintaining the Binary
//! Log".)

use std::time::Duration;

use super::{Forecast, Reason, WriteRate, lasting};

/// The binary logs that a primary retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Whether all that the replica misses still exists.
    pub has_missed: bool,
    /// Logs older than this are deleted; `None`: no age limit.
    pub age_max: Option<Duration>,
    /// Beyond this total size the oldest logs are deleted, in bytes; `None`: no size limit.
    pub bytes_max: Option<u64>,
}

/// What a replica needs that has been away for `away` (zero for one that stops now), and has missed `missed_bytes` of binary logs so far.
pub fn forecast(retention: Retention, away: Duration, missed_bytes: u64, writes: WriteRate) -> Forecast {
    if !retention.has_missed {
        return Forecast::FullCopy(Reason::Gone);
    }
    let by_age = retention.age_max.map(|age_max| age_max.saturating_sub(away));
    let room = retention.bytes_max.map(|bytes_max| bytes_max.saturating_sub(missed_bytes));
    let by_size = room.and_then(|room| lasting(room as f64, writes.bytes_per_s));
    Forecast::Missed([by_age, by_size].into_iter().flatten().min())
}

/// The size of binary logs that a primary must retain so that a replica may be away for this long at this rate of writes, in bytes.
///
/// Logs are deleted as whole files, so there must be room for one more file of `file_bytes`.
pub fn binlog_bytes_for(away: Duration, bytes_per_s: f64, file_bytes: u64) -> u64 {
    ((away.as_secs_f64() * bytes_per_s).round() as u64).saturating_add(file_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: WriteRate = WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 };
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn the_sooner_limit_counts() {
        let both = Retention { has_missed: true, age_max: Some(10 * DAY), bytes_max: Some(3_600_000_000) };
        assert_eq!(
            forecast(both, Duration::ZERO, 0, WRITES),
            Forecast::Missed(Some(Duration::from_secs(3600)))
        );
        let aged = Retention { bytes_max: None, ..both };
        assert_eq!(forecast(aged, 9 * DAY, 0, WRITES), Forecast::Missed(Some(DAY)));
        let half = forecast(both, Duration::from_secs(1800), 1_800_000_000, WRITES);
        assert_eq!(half, Forecast::Missed(Some(Duration::from_secs(1800))));
    }

    #[test]
    fn logs_that_are_never_deleted_last_for_ever() {
        let kept = Retention { has_missed: true, age_max: None, bytes_max: None };
        assert_eq!(forecast(kept, 100 * DAY, u64::MAX, WRITES), Forecast::Missed(None));
    }

    #[test]
    fn what_is_deleted_is_copied() {
        let gone = Retention { has_missed: false, age_max: None, bytes_max: None };
        assert_eq!(forecast(gone, Duration::ZERO, 0, WRITES), Forecast::FullCopy(Reason::Gone));
    }

    #[test]
    fn binary_logs_for_an_hour() {
        assert_eq!(binlog_bytes_for(Duration::from_secs(3600), 1e6, 1 << 30), 3_600_000_000 + (1 << 30));
    }
}
