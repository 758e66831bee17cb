//! Galera: incremental state transfer (IST) from a donor's gcache, or a full copy (SST)?
//!
//! The gcache is a ring of `gcache.size` bytes with the newest writesets. A node that has everything up to writeset P is sent P + 1 and what
//! follows, if the donor still has P + 1. A ring that has been filled once drops its oldest writeset for each new one; one that is not yet
//! full drops none. (galeracluster.com, "State transfers"; the provider's status variables.)

use super::{Forecast, WriteRate, lasting};

/// What the provider reports for an empty gcache.
const EMPTY: u64 = u64::MAX;

/// What a member that could be the donor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Donor {
    /// `wsrep_last_committed`.
    pub last_committed: u64,
    /// `wsrep_local_cached_downto`: the oldest writeset that it can still send.
    pub cached_downto: u64,
    /// `gcache.size` of `wsrep_provider_options`, bytes.
    pub gcache_bytes: u64,
    /// `cached_downto` has been rising: the ring is full.
    pub is_dropping: bool,
}

impl Donor {
    /// Whether it can send all that a node with everything up to `position` misses.
    pub fn serves(&self, position: u64) -> bool {
        if self.last_committed <= position {
            return true;
        }
        self.cached_downto != EMPTY && self.cached_downto <= position.saturating_add(1)
    }

    /// For how long it will be able to, s; `None` for ever.
    fn serves_for(&self, position: u64, writes: WriteRate) -> Option<std::time::Duration> {
        if self.is_dropping {
            let left = position.saturating_add(1).saturating_sub(self.cached_downto);
            // So many writesets are there. When those that come now are larger, fewer of them are enough to push these out.
            let by_count = lasting(left as f64, writes.transactions_per_s);
            let by_bytes = lasting(self.gcache_bytes as f64, writes.bytes_per_s);
            return by_count.into_iter().chain(by_bytes).min();
        }
        let missed = self.last_committed.saturating_sub(position) as f64 * mean_bytes(writes);
        lasting(self.gcache_bytes as f64 - missed, writes.bytes_per_s)
    }
}

/// Of one writeset.
fn mean_bytes(writes: WriteRate) -> f64 {
    if writes.transactions_per_s > 0.0 { writes.bytes_per_s / writes.transactions_per_s } else { 0.0 }
}

/// What a node needs that has everything up to `position` (`seqno` of its grastate.dat or of `--wsrep-recover`; `wsrep_last_committed` of one
/// that runs), if it stops now or has stopped.
///
/// The group chooses the donor, so only what every donor can do is certain.
pub fn forecast(position: i64, donors: &[Donor], writes: WriteRate) -> Forecast {
    let Ok(position) = u64::try_from(position) else {
        return Forecast::FullCopy;
    };
    let with = |donor: &Donor| match donor.serves(position) {
        true => Forecast::Missed(donor.serves_for(position, writes)),
        false => Forecast::FullCopy,
    };
    Forecast::of_all(&donors.iter().map(with).collect::<Vec<_>>())
}

/// `gcache.size` with which a node may be away for so long at so many bytes of writes a second, bytes.
///
/// A tenth is added for what the ring keeps beside the writesets: a header for each, and the gap at its end.
pub fn gcache_bytes_for(away: std::time::Duration, bytes_per_s: f64) -> u64 {
    (away.as_secs_f64() * bytes_per_s * 1.1).round() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MB: u64 = 1_000_000;
    /// 1 MB and 2,000 transactions a second: the seed's second test.
    const SEED: WriteRate = WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 };

    fn donor(cached_downto: u64, is_dropping: bool) -> Donor {
        Donor { last_committed: 1_000_000, cached_downto, gcache_bytes: 128 * MB, is_dropping }
    }

    #[test]
    fn a_ring_that_is_not_full_lasts_for_its_size_at_the_rate_of_writes() {
        let now = forecast(1_000_000, &[donor(990_000, false)], SEED);
        assert_eq!(now, Forecast::Missed(Some(Duration::from_secs(128))));
        // Gone for 20 s: 40,000 writesets of 500 bytes are in it already.
        let gone = forecast(960_000, &[donor(950_000, false)], SEED);
        assert_eq!(gone, Forecast::Missed(Some(Duration::from_secs(108))));
    }

    #[test]
    fn a_full_ring_lasts_for_the_writesets_it_has_behind_the_node() {
        let now = forecast(1_000_000, &[donor(800_001, true)], SEED);
        assert_eq!(now, Forecast::Missed(Some(Duration::from_secs(100))));
        let gone = forecast(900_000, &[donor(800_001, true)], SEED);
        assert_eq!(gone, Forecast::Missed(Some(Duration::from_secs(50))));
        // The last one that is still sent, and the first that is not.
        assert_eq!(forecast(800_000, &[donor(800_001, true)], SEED), Forecast::Missed(Some(Duration::ZERO)));
        assert_eq!(forecast(799_999, &[donor(800_001, true)], SEED), Forecast::FullCopy);
    }

    #[test]
    fn without_writes_it_never_ends() {
        let idle = WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 };
        assert_eq!(forecast(1_000_000, &[donor(900_000, false)], idle), Forecast::Missed(None));
        assert_eq!(forecast(10, &[donor(900_000, false)], idle), Forecast::FullCopy);
    }

    #[test]
    fn a_node_without_a_position_needs_everything() {
        assert_eq!(forecast(-1, &[donor(1, false)], SEED), Forecast::FullCopy);
        assert_eq!(forecast(1_000_000, &[], SEED), Forecast::FullCopy);
    }

    #[test]
    fn only_what_every_donor_has_is_certain() {
        // One restarted a moment ago and has only the newest writesets.
        let fresh = donor(999_000, false);
        let old = donor(800_001, true);
        assert_eq!(
            forecast(900_000, &[old, fresh], SEED),
            Forecast::DependsOnSource(Some(Duration::from_secs(50)))
        );
        // The shortest of all windows, when all can.
        assert_eq!(
            forecast(1_000_000, &[old, fresh], SEED),
            Forecast::Missed(Some(Duration::from_secs(100)))
        );
    }

    #[test]
    fn an_empty_cache_serves_only_a_node_that_misses_nothing() {
        let empty = Donor { cached_downto: u64::MAX, ..donor(0, false) };
        assert!(empty.serves(1_000_000));
        assert!(!empty.serves(999_999));
    }

    #[test]
    fn a_cache_for_an_hour() {
        assert_eq!(gcache_bytes_for(Duration::from_secs(3600), 1e6), 3_960_000_000);
    }
}
