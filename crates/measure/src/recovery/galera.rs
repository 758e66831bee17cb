//! Galera: forecasts whether a node returns by an incremental state transfer (IST) from a donor's gcache, or by a full copy (SST).
//!
//! The gcache is a ring buffer of `gcache.size` bytes with the newest writesets; each new one overwrites the oldest. A node that has
//! everything up to writeset P needs P + 1 and all that follow, so a donor must still have P + 1.
//!
//! The choice of the donor: `gcs_group_find_donor` in Galera's gcs_group.cpp first looks for a Synced member whose oldest writeset is P + 1
//! or older (those of `wsrep_sst_donor` first, then any other), and only if there is none for a donor of a full copy. So one suitable donor
//! is enough. Two conditions are checked before that: the node's history must be the group's, and P must be ahead of the oldest writeset of
//! any member by a 128th of the cached range, since writesets continue to be overwritten while the transfer is prepared.
//!
//! A node that is ahead of the group terminates itself at its start ("states diverged", `state_transfer_required` in replicator_str.cpp).

use super::{Forecast, Reason, WriteRate, lasting};

/// The provider's value of wsrep_local_cached_downto for an empty gcache.
const EMPTY: u64 = u64::MAX;
/// One part in this many of the cached range is not used for an incremental transfer.
const RESERVED: u64 = 128;
/// The upper limit of that part, in writesets.
const RESERVED_MAX: u64 = 1 << 20;

/// The status of a member that could be the donor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Donor {
    /// `wsrep_last_committed`.
    pub last_committed: u64,
    /// `wsrep_local_cached_downto`: the oldest writeset in its gcache.
    pub cached_downto: u64,
    /// `gcache.size` of `wsrep_provider_options`, in bytes.
    pub gcache_bytes: u64,
    /// `cached_downto` has been increasing: the ring buffer is full.
    pub is_dropping: bool,
    /// The mean size of all writesets since the server's start, in bytes; `None` while there were none.
    pub mean_bytes: Option<f64>,
}

impl Donor {
    /// Whether it can send all that a node with everything up to `position` misses.
    pub fn serves(&self, position: u64) -> bool {
        // The node's return is itself a writeset, and the first that every member has.
        if self.last_committed <= position {
            return true;
        }
        self.cached_downto != EMPTY && self.cached_downto <= position.saturating_add(1)
    }

    /// For how long it will be able to; `None` means without end. `missed_bytes`: written after `position`, if that was counted.
    fn serves_for(
        &self,
        position: u64,
        missed_bytes: Option<u64>,
        writes: WriteRate,
    ) -> Option<std::time::Duration> {
        let missed = missed_bytes
            .map_or_else(|| self.estimated_bytes(position, writes), |bytes| bytes as f64 * KEPT_BESIDE);
        // The node's next writeset is overwritten once the whole ring has been written since then.
        let usable = self.gcache_bytes as f64 * (1.0 - 1.0 / RESERVED as f64);
        lasting((usable - missed) / KEPT_BESIDE, writes.bytes_per_s)
    }

    /// How much of the ring was written after `position`, in bytes, by the mean size of writesets: of those in the ring when it is full,
    /// else of all since the server's start, else at the present rate.
    fn estimated_bytes(&self, position: u64, writes: WriteRate) -> f64 {
        let missed = self.last_committed.saturating_sub(position) as f64;
        let cached = self.last_committed.saturating_add(1).saturating_sub(self.cached_downto);
        missed
            * if self.is_dropping && cached > 0 {
                self.gcache_bytes as f64 / cached as f64
            } else {
                self.mean_bytes.unwrap_or_else(|| mean_bytes(writes)) * KEPT_BESIDE
            }
    }
}

/// The ratio of gcache space to writeset bytes: there is a header for each writeset, and a gap at the end of the ring.
const KEPT_BESIDE: f64 = 1.1;

/// The mean size of a writeset, in bytes.
fn mean_bytes(writes: WriteRate) -> f64 {
    if writes.transactions_per_s > 0.0 { writes.bytes_per_s / writes.transactions_per_s } else { 0.0 }
}

/// A node that is away, or that stops now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning<'a> {
    /// `wsrep_cluster_state_uuid`, or `uuid` of its grastate.dat; `None` where it is not known, which is treated as equal to the donors'.
    pub history: Option<&'a str>,
    /// The last writeset that it has: `wsrep_last_committed`, or `seqno` of its grastate.dat or of `--wsrep-recover`; -1 where it has none.
    pub seqno: i64,
    /// It does not run, and the donors were queried after it stopped: writesets that it has beyond theirs will not reach them.
    pub is_gone: bool,
    /// Bytes written since it stopped, if they were counted.
    pub missed_bytes: Option<u64>,
}

/// What the node needs to return. `history`: the donors', where it is known.
pub fn forecast(node: Returning<'_>, history: Option<&str>, donors: &[Donor], writes: WriteRate) -> Forecast {
    if let (Some(own), Some(group)) = (node.history, history)
        && !own.eq_ignore_ascii_case(group)
    {
        return Forecast::FullCopy(Reason::OtherHistory);
    }
    let Ok(position) = u64::try_from(node.seqno) else {
        return Forecast::FullCopy(Reason::NoPosition);
    };
    let newest = donors.iter().map(|donor| donor.last_committed).max();
    if node.is_gone && newest.is_some_and(|newest| position > newest) {
        return Forecast::FullCopy(Reason::Ahead);
    }
    let windows: Vec<_> =
        able(position, donors).map(|donor| donor.serves_for(position, node.missed_bytes, writes)).collect();
    match windows.iter().flatten().max() {
        _ if windows.is_empty() => Forecast::FullCopy(Reason::Gone),
        // `None` means without end.
        Some(longest) if !windows.contains(&None) => Forecast::Missed(Some(*longest)),
        _ => Forecast::Missed(None),
    }
}

/// The donors that the group may choose for an incremental transfer to a node with everything up to `position`; if there are none, it is a
/// full copy.
pub fn able(position: u64, donors: &[Donor]) -> impl Iterator<Item = &Donor> {
    let newest = donors.iter().map(|donor| donor.last_committed).max().unwrap_or(0);
    let oldest = donors.iter().map(|donor| donor.cached_downto).filter(|downto| *downto != EMPTY).min();
    let is_safe = oldest.is_none_or(|oldest| {
        let reserved = (newest.saturating_sub(oldest) / RESERVED).min(RESERVED_MAX);
        position >= newest || position >= oldest.saturating_add(reserved)
    });
    donors.iter().filter(move |donor| is_safe && donor.serves(position))
}

/// The `gcache.size`, in bytes, with which a node may be away for this long at this rate of writes.
pub fn gcache_bytes_for(away: std::time::Duration, bytes_per_s: f64) -> u64 {
    let usable = 1.0 - 1.0 / RESERVED as f64;
    (away.as_secs_f64() * bytes_per_s * KEPT_BESIDE / usable).round() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MB: u64 = 1_000_000;
    /// 1 MB and 2,000 transactions per second: the seed article's second test.
    const SEED: WriteRate = WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 };
    const OURS: &str = "4d02cf61-e6ca-11f1-a31c-9aa338aa497e";
    const OTHER: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    fn donor(cached_downto: u64, is_dropping: bool) -> Donor {
        // 127 MB of it are usable.
        Donor {
            last_committed: 1_000_000,
            cached_downto,
            gcache_bytes: 128 * MB,
            is_dropping,
            mean_bytes: Some(500.0),
        }
    }

    fn at(seqno: i64) -> Returning<'static> {
        Returning { history: Some(OURS), seqno, is_gone: true, missed_bytes: None }
    }

    fn forecast_at(seqno: i64, donors: &[Donor]) -> Forecast {
        forecast(at(seqno), Some(OURS), donors, SEED)
    }

    fn seconds(forecast: Forecast) -> u64 {
        let Forecast::Missed(Some(window)) = forecast else { panic!("{forecast:?}") };
        window.as_secs_f64().round() as u64
    }

    #[test]
    fn a_ring_lasts_for_its_size_less_what_was_missed() {
        // 127 MB of it, with a tenth more than the written bytes used for each writeset.
        for is_dropping in [false, true] {
            assert_eq!(seconds(forecast_at(1_000_000, &[donor(800_001, is_dropping)])), 115, "now");
        }
        // Away for 20 s, 40,000 writesets of 500 bytes by the mean of all that the donor has seen.
        assert_eq!(seconds(forecast_at(960_000, &[donor(900_000, false)])), 95);
        // A full ring has 200,000 writesets: half of them take half of it.
        assert_eq!(seconds(forecast_at(900_000, &[donor(800_001, true)])), 57);
    }

    #[test]
    fn what_was_counted_goes_before_what_is_estimated() {
        // 40,000 small writesets while it was away, and large ones now.
        let counted = Returning { missed_bytes: Some(4 * MB), ..at(960_000) };
        let large = WriteRate { bytes_per_s: 1e6, transactions_per_s: 1.0 };
        for is_dropping in [false, true] {
            let result = forecast(counted, Some(OURS), &[donor(900_000, is_dropping)], large);
            assert_eq!(seconds(result), 111);
        }
    }

    #[test]
    fn what_is_not_there_any_more_is_copied() {
        let full = [donor(800_001, true)];
        assert_eq!(forecast_at(799_999, &full), Forecast::FullCopy(Reason::Gone));
        // Galera does not use the oldest 128th: 199,999 / 128 = 1562 writesets.
        assert_eq!(forecast_at(800_001 + 1_561, &full), Forecast::FullCopy(Reason::Gone));
        assert!(matches!(forecast_at(800_001 + 1_562, &full), Forecast::Missed(Some(_))));
        assert_eq!(forecast_at(1_000_000, &[]), Forecast::FullCopy(Reason::Gone));
    }

    #[test]
    fn without_writes_it_never_ends() {
        let idle = WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 };
        let result = |seqno| forecast(at(seqno), Some(OURS), &[donor(900_000, false)], idle);
        assert_eq!(result(1_000_000), Forecast::Missed(None));
        assert_eq!(result(10), Forecast::FullCopy(Reason::Gone));
    }

    #[test]
    fn a_node_of_another_history_needs_everything() {
        let donors = [donor(1, false)];
        let other = Returning { history: Some(OTHER), ..at(1_000_000) };
        assert_eq!(forecast(other, Some(OURS), &donors, SEED), Forecast::FullCopy(Reason::OtherHistory));
        // If one of the two is not known, they are treated as equal.
        assert!(matches!(forecast(other, None, &donors, SEED), Forecast::Missed(_)));
        let upper = OURS.to_ascii_uppercase();
        assert!(matches!(forecast(at(1_000_000), Some(&upper), &donors, SEED), Forecast::Missed(_)));
    }

    #[test]
    fn a_node_that_is_ahead_of_all_has_what_nobody_can_send() {
        let donors = [donor(1, false), Donor { last_committed: 999_990, ..donor(1, false) }];
        assert_eq!(forecast_at(1_000_001, &donors), Forecast::FullCopy(Reason::Ahead));
        assert!(matches!(forecast_at(1_000_000, &donors), Forecast::Missed(_)));
        // A running node was queried later than the others.
        let running = Returning { is_gone: false, ..at(1_000_001) };
        assert!(matches!(forecast(running, Some(OURS), &donors, SEED), Forecast::Missed(_)));
    }

    #[test]
    fn a_node_without_a_position_needs_everything() {
        assert_eq!(forecast_at(-1, &[donor(1, false)]), Forecast::FullCopy(Reason::NoPosition));
    }

    #[test]
    fn one_donor_that_has_it_is_enough() {
        // One donor restarted a moment ago and has only the newest writesets.
        let (old, fresh) = (donor(800_001, true), donor(999_000, false));
        assert_eq!(seconds(forecast_at(900_000, &[old, fresh])), 57);
        assert_eq!(able(900_000, &[old, fresh]).collect::<Vec<_>>(), [&old]);
        // The longest window of all donors counts.
        let small = Donor { gcache_bytes: 64 * MB, ..donor(900_001, true) };
        assert_eq!(seconds(forecast_at(1_000_000, &[small, old])), 115);
    }

    #[test]
    fn an_empty_cache_serves_only_a_node_that_misses_nothing() {
        let empty = Donor { cached_downto: u64::MAX, ..donor(0, false) };
        assert!(empty.serves(1_000_000));
        assert!(!empty.serves(999_999));
        assert_eq!(able(1_000_000, &[empty]).count(), 1);
    }

    #[test]
    fn a_cache_for_an_hour() {
        assert_eq!(gcache_bytes_for(Duration::from_secs(3600), 1e6), 3_991_181_102);
    }
}
