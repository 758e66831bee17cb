//! Rates per second, computed from two samples of one node.
//!
//! Invariant: a rate never spans a restart of the server. After a restart there are no rates until two samples of the new process exist. A
//! counter that decreased without a restart (FLUSH STATUS) has no rate for that interval.

use serde::{Deserialize, Serialize};

use crate::sample::{Counters, Galera, Replication, Sample};

/// Uptime is reported in whole seconds: the tolerance when it is compared with a clock.
const UPTIME_SLACK_US: u64 = 2_000_000;

/// Two samples of the same server process, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    earlier: Sample,
    later: Sample,
}

impl Span {
    /// `None` when the second sample is not later than the first, or the server restarted between them.
    pub fn new(earlier: &Sample, later: &Sample) -> Option<Self> {
        let (earlier, later) = (*earlier, *later);
        let lasted_us = later.at_us.checked_sub(earlier.at_us).filter(|us| *us > 0)?;
        if let (Some(before), Some(after)) = (earlier.counters.uptime_s, later.counters.uptime_s) {
            // The second condition detects a restart after which the server has already been up for longer than it had been before.
            let is_new_life = after.saturating_mul(1_000_000) + UPTIME_SLACK_US < lasted_us;
            if after < before || is_new_life {
                return None;
            }
        }
        Some(Self { earlier, later })
    }

    /// The length of the interval in seconds; more than 0.
    pub fn seconds(&self) -> f64 {
        (self.later.at_us - self.earlier.at_us) as f64 / 1e6
    }

    /// The increase of a counter; `None` when either sample does not have it, or when it decreased.
    pub fn growth(&self, counter: impl Fn(&Counters) -> Option<u64>) -> Option<u64> {
        counter(&self.later.counters)?.checked_sub(counter(&self.earlier.counters)?)
    }

    /// The increase of a counter per second.
    pub fn per_second(&self, counter: impl Fn(&Counters) -> Option<u64>) -> Option<f64> {
        Some(self.growth(counter)? as f64 / self.seconds())
    }
}

/// Rates per second between two samples. A rate that cannot be computed is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Rates {
    /// The length of the interval, in seconds.
    pub over_s: f64,
    /// Statements of clients (Questions).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<f64>,
    /// SELECT statements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selects: Option<f64>,
    /// INSERT, UPDATE and DELETE statements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<f64>,
    /// COMMIT statements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<f64>,
    /// Rows inserted, updated and deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_changed: Option<f64>,
    /// Rows read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_read: Option<f64>,
    /// Pages read from disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_from_disk: Option<f64>,
    /// Bytes of redo log written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<f64>,
    /// Transactions applied or committed. Galera: growth of wsrep_last_committed; replication: growth of the GTIDs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<f64>,
    /// Transactions received. Galera: growth of wsrep_received; replication: growth of the GTIDs received from the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<f64>,
    /// Galera: bytes received from the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<f64>,
    /// Galera: write sets sent to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicated: Option<f64>,
    /// Galera: bytes sent to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicated_bytes: Option<f64>,
    /// Galera: how often this node sent a flow control message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control_sent: Option<f64>,
    /// Galera: the share of the time, 0 to 1, for which flow control paused replication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<f64>,
    /// Galera: transactions that failed certification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_failures: Option<f64>,
    /// Galera: transactions of local clients that were aborted because they conflicted with a replicated transaction (brute force aborts).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bf_aborts: Option<f64>,
}

impl From<Span> for Rates {
    fn from(span: Span) -> Self {
        let galera = |counter: fn(&Galera) -> Option<u64>| {
            span.per_second(|counters| counter(counters.galera.as_ref()?))
        };
        let replication = |counter: fn(&Replication) -> Option<u64>| {
            span.per_second(|counters| counter(counters.replication.as_ref()?))
        };
        Self {
            over_s: span.seconds(),
            questions: span.per_second(|c| c.questions),
            selects: span.per_second(|c| c.selects),
            writes: span.per_second(|c| c.inserts?.checked_add(c.updates?)?.checked_add(c.deletes?)),
            commits: span.per_second(|c| c.commits),
            rows_changed: span.per_second(|c| c.rows_changed),
            rows_read: span.per_second(|c| c.rows_read),
            pages_from_disk: span.per_second(|c| c.pages_from_disk),
            log_bytes: span.per_second(|c| c.log_bytes),
            applied: galera(|g| g.last_committed).or_else(|| replication(|r| r.applied)),
            received: galera(|g| g.received).or_else(|| replication(|r| r.received)),
            received_bytes: galera(|g| g.received_bytes),
            replicated: galera(|g| g.replicated),
            replicated_bytes: galera(|g| g.replicated_bytes),
            flow_control_sent: galera(|g| g.flow_control_sent),
            paused: galera(|g| g.flow_control_paused_ns).map(|ns| (ns / 1e9).min(1.0)),
            cert_failures: galera(|g| g.cert_failures),
            bf_aborts: galera(|g| g.bf_aborts),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[allow(clippy::large_types_passed_by_value)] // it goes into the sample
    fn sample(at_s: f64, uptime_s: u64, galera: Galera) -> Sample {
        let counters = Counters { uptime_s: Some(uptime_s), galera: Some(galera), ..Counters::default() };
        Sample { at_unix_ms: (at_s * 1e3) as u64, at_us: (at_s * 1e6) as u64, counters }
    }

    #[test]
    fn the_seeds_catch_up_gives_its_rate() {
        // Seed 004: 665368 before, 667183 applied within 50 s, the queue of almost 350k down to nothing.
        let before = Galera { last_committed: Some(665_368), recv_queue: Some(350_000), ..Galera::default() };
        let after =
            Galera { last_committed: Some(665_368 + 667_183), recv_queue: Some(0), ..Galera::default() };
        let span = Span::new(&sample(10.0, 100, before), &sample(60.0, 150, after)).unwrap();
        let rates = Rates::from(span);
        assert_eq!(rates.applied.map(f64::round), Some(13_344.0));
        assert_eq!(rates.replicated, None, "what was not said has no rate");
    }

    #[test]
    fn a_restart_has_no_rate() {
        let galera = |last_committed| Galera { last_committed: Some(last_committed), ..Galera::default() };
        assert!(Span::new(&sample(10.0, 100, galera(9)), &sample(11.0, 1, galera(9))).is_none());
        // The uptime exceeds what it was before the restart, but is shorter than the time between the two samples.
        assert!(Span::new(&sample(10.0, 5, galera(9)), &sample(40.0, 20, galera(9))).is_none());
        assert!(Span::new(&sample(10.0, 5, galera(9)), &sample(40.0, 34, galera(9))).is_some());
        assert!(Span::new(&sample(10.0, 5, galera(9)), &sample(10.0, 5, galera(9))).is_none());
    }

    #[test]
    fn a_counter_that_was_set_back_has_no_rate_and_the_others_have() {
        let before = Galera { last_committed: Some(9), flow_control_sent: Some(7), ..Galera::default() };
        let after = Galera { last_committed: Some(19), flow_control_sent: Some(0), ..Galera::default() };
        let rates = Rates::from(Span::new(&sample(0.0, 5, before), &sample(2.0, 7, after)).unwrap());
        assert_eq!((rates.applied, rates.flow_control_sent), (Some(5.0), None));
    }

    #[test]
    fn the_pause_is_a_part_of_the_time() {
        let at = |ns| Galera { flow_control_paused_ns: Some(ns), ..Galera::default() };
        let rates = Rates::from(Span::new(&sample(0.0, 5, at(0)), &sample(2.0, 7, at(500_000_000))).unwrap());
        assert_eq!(rates.paused, Some(0.25));
    }
}
