//! Computes figures from a history: gaps between acknowledged commits, added latency, 100 ms buckets. Pure.
//!
//! All of it is computed after the run from each transaction's due, sent and done times: nothing is sampled and nothing is missed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ledger::{Client, CommitResult, Op};

/// The `q` quantile (0 to 1) of the values by nearest rank; `None` if there are none. Sorts `values`.
pub fn quantile<T: Copy + Ord>(values: &mut [T], q: f64) -> Option<T> {
    values.sort_unstable();
    let rank = (q.clamp(0.0, 1.0) * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

/// The longest time without an acknowledged commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Gap {
    /// The last commit before the gap, since the start of the load.
    pub from: Duration,
    /// The first commit after it.
    pub to: Duration,
}

impl Gap {
    /// Its length.
    pub fn length(&self) -> Duration {
        self.to.saturating_sub(self.from)
    }
}

/// The longest gap between acknowledged commits that ends in `from..until`; `until` itself ends a gap that nothing else ends.
/// `acknowledged` must be sorted.
pub fn longest_gap(acknowledged: &[Duration], from: Duration, until: Duration) -> Gap {
    let before = acknowledged.iter().rev().find(|at| **at < from).copied();
    let mut last = before.unwrap_or(from);
    let mut best = Gap { from: last, to: last };
    let inside = acknowledged.iter().copied().filter(|at| *at >= from && *at < until);
    for at in inside.chain([until]) {
        let gap = Gap { from: last, to: at };
        if gap.length() > best.length() {
            best = gap;
        }
        last = at;
    }
    best
}

/// The longest time in `from..until` during which an acknowledgement was expected and none came.
///
/// The acknowledgement of a transaction is expected at its due time plus `usual`, its latency without a fault. Of the time between two
/// commits, the counted part begins at the first expected acknowledgement that had not come by the earlier commit: random arrivals leave
/// pauses longer than a short outage. A transaction expected before that commit but still waiting says nothing about the time after it, in
/// which others are served: it was held. A failed transaction was due like any other. `until` ends a time that no commit ends.
pub fn longest_outage(ops: &[Op], from: Duration, until: Duration, usual: Duration) -> Gap {
    let mut by_due: Vec<&Op> = ops.iter().collect();
    by_due.sort_unstable_by_key(|op| op.due);
    let mut acknowledged = acknowledged(ops);
    acknowledged.retain(|at| *at < until);
    let first = acknowledged.partition_point(|at| *at < from);
    let mut last = if first == 0 { from } else { acknowledged[first - 1] };
    let mut best = Gap { from, to: from };
    for at in acknowledged[first..].iter().copied().chain([until]) {
        let next = by_due.partition_point(|op| op.due + usual <= last);
        // A transaction faster than usual may have been acknowledged already.
        let missed = by_due[next..].iter().find(|op| op.outcome != CommitResult::Ok || op.done > last);
        if let Some(begin) = missed.map(|op| op.due + usual).filter(|begin| *begin < at) {
            let outage = Gap { from: begin, to: at };
            if outage.length() > best.length() {
                best = outage;
            }
        }
        last = at;
    }
    best
}

/// The times at which transactions were acknowledged, sorted.
fn acknowledged(ops: &[Op]) -> Vec<Duration> {
    let mut acknowledged: Vec<Duration> =
        ops.iter().filter(|op| op.outcome == CommitResult::Ok).map(|op| op.done).collect();
    acknowledged.sort_unstable();
    acknowledged
}

/// The effect of a fault on the service, in the two phases of one repetition.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Effect {
    /// Longest gap between acknowledged commits (all clients together) before the fault, ms. Reported, never subtracted.
    pub gap_quiet_ms: f64,
    /// The average gap that the arrivals alone cause: 1 / the sum of the clients' rates, ms.
    pub gap_expected_ms: f64,
    /// Longest gap between acknowledged commits from the fault on, ms.
    pub gap_ms: f64,
    /// From the fault on, the longest time during which an acknowledgement was expected and none came, ms: see [`longest_outage`].
    pub outage_ms: f64,
    /// The start of that time, since the start of the load, ms.
    pub outage_from_ms: f64,
    /// The same figure before the fault, ms: caused by the load and the machine alone.
    pub noise_ms: f64,
    /// Median latency of the quiet phase (from due to done), ms.
    pub latency_quiet_ms: f64,
    /// The load ended before the outage did: the outage is a lower bound.
    pub outage_is_open: bool,
    /// Maximum latency of an acknowledged transaction from the fault on, minus the quiet median, ms; `None` when nothing was acknowledged
    /// any more, or nothing in the last quarter of a second of the load although some were due: the service was not seen to recover.
    pub hold_ms_max: Option<f64>,
    /// 99th percentile of the latency of transactions acknowledged from the fault on, ms.
    pub latency_p99_ms: f64,
}

/// A load ends with transactions in progress: the service counts as not recovered only if the last acknowledgement is this long ago.
const AT_END: Duration = Duration::from_millis(250);

/// Computes the effect on `ops` of a fault at `fault`; the load ran from `quiet_from` until `until`, with `rate` transactions a second
/// of all clients together.
pub fn effect(ops: &[Op], quiet_from: Duration, fault: Duration, until: Duration, rate: f64) -> Effect {
    let acknowledged = acknowledged(ops);
    let quiet = longest_gap(&acknowledged, quiet_from, fault);
    let after = longest_gap(&acknowledged, fault, until);

    let ok = ops.iter().filter(|op| op.outcome == CommitResult::Ok);
    let (before_fault, since_fault): (Vec<&Op>, Vec<&Op>) =
        ok.filter(|op| op.due >= quiet_from).partition(|op| op.done < fault);
    let mut before_fault: Vec<Duration> = before_fault.iter().map(|op| op.latency()).collect();
    let mut since_fault: Vec<Duration> = since_fault.iter().map(|op| op.latency()).collect();
    let median = quantile(&mut before_fault, 0.5).unwrap_or_default();
    let p99 = quantile(&mut since_fault, 0.99).unwrap_or_default();
    let worst = since_fault.last().copied();
    let outage = longest_outage(ops, fault, until, median);
    let outage_is_open = outage.to == until && outage.length() >= AT_END;
    Effect {
        gap_quiet_ms: ms(quiet.length()),
        gap_expected_ms: rounded(1e3 / rate.max(1e-3)),
        gap_ms: ms(after.length()),
        outage_ms: ms(outage.length()),
        outage_from_ms: ms(outage.from),
        outage_is_open,
        noise_ms: ms(longest_outage(ops, quiet_from, fault, median).length()),
        latency_quiet_ms: ms(median),
        hold_ms_max: worst.filter(|_| !outage_is_open).map(|worst| ms(worst.saturating_sub(median))),
        latency_p99_ms: ms(p99),
    }
}

/// Milliseconds, rounded to the microsecond.
pub fn ms(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// Transactions of `client` that failed from `from` on, by the code of their last error.
pub fn errors_by_code(ops: &[Op], client: Client, from: Duration) -> BTreeMap<String, u64> {
    let mut codes = BTreeMap::new();
    let bad =
        ops.iter().filter(|op| op.client == client && op.outcome != CommitResult::Ok && op.done >= from);
    for op in bad {
        let code = op.troubles.last().map_or("unnamed", |trouble| trouble.code.as_str());
        *codes.entry(code.to_owned()).or_insert(0) += 1;
    }
    codes
}

/// The events in one bucket of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Bucket {
    /// Transactions acknowledged.
    pub commits: u32,
    /// Transactions that failed (or have an unknown outcome).
    pub errors: u32,
    /// Failed attempts that the client itself repeated.
    pub repeats: u32,
    /// Maximum latency of the acknowledged ones, ms.
    pub latency_ms_max: f64,
    /// Due but not yet taken by a thread, at the end of the bucket.
    pub queue: u32,
    /// In progress, at the end of the bucket.
    pub concurrency: u32,
}

/// Divides the time until `until` into buckets of `width`.
pub fn buckets(ops: &[Op], width: Duration, until: Duration) -> Vec<Bucket> {
    let index = |at: Duration| (at.as_nanos() / width.as_nanos().max(1)) as usize;
    let mut row = vec![Bucket::default(); index(until) + 1];
    for op in ops {
        if let Some(bucket) = row.get_mut(index(op.done)) {
            match op.outcome {
                CommitResult::Ok => {
                    bucket.commits += 1;
                    bucket.latency_ms_max = bucket.latency_ms_max.max(ms(op.latency()));
                }
                CommitResult::Failed | CommitResult::Unknown => bucket.errors += 1,
            }
        }
        // The last error of a failed transaction is its end; every other error was followed by another attempt.
        let mended =
            op.troubles.len() - usize::from(op.outcome != CommitResult::Ok && !op.troubles.is_empty());
        for trouble in &op.troubles[..mended] {
            if let Some(bucket) = row.get_mut(index(trouble.at)) {
                bucket.repeats += 1;
            }
        }
        // A bucket's end belongs to the next one: in [due, sent) it waits, in [sent, done) it is in progress.
        for bucket in row.iter_mut().take(index(op.sent)).skip(index(op.due)) {
            bucket.queue += 1;
        }
        for bucket in row.iter_mut().take(index(op.done)).skip(index(op.sent)) {
            bucket.concurrency += 1;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Trouble;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn op(due: u64, sent: u64, done: u64, outcome: CommitResult) -> Op {
        let (due, sent, done) = (at(due), at(sent), at(done));
        Op {
            id: due.as_millis() as u64,
            client: Client::Naive,
            due,
            sent,
            done,
            outcome,
            attempts: 1,
            troubles: vec![],
        }
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut values: Vec<u32> = (1..=100).rev().collect();
        assert_eq!(quantile(&mut values, 0.95), Some(95));
        assert_eq!(quantile(&mut values, 1.0), Some(100));
        assert_eq!(quantile(&mut [7], 0.5), Some(7));
        assert_eq!(quantile::<u32>(&mut [], 0.5), None);
    }

    #[test]
    fn a_gap_begins_before_the_fault_and_may_stay_open() {
        let commits = [at(100), at(200), at(300), at(900), at(1000)];
        let gap = longest_gap(&commits, at(350), at(1100));
        assert_eq!((gap.from, gap.to), (at(300), at(900)), "counted from the last commit before the fault");
        assert_eq!(
            longest_gap(&commits, at(950), at(5000)).length(),
            at(4000),
            "nothing after: open until the end"
        );
        assert_eq!(longest_gap(&[], at(100), at(700)).length(), at(600));
    }

    #[test]
    fn outage_is_the_time_for_which_a_commit_was_due_and_none_came() {
        let mut ops: Vec<Op> =
            (0..50).map(|i| op(i * 100, i * 100, i * 100 + 10, CommitResult::Ok)).collect();
        ops.extend((50..60).map(|i| op(i * 100, i * 100, 6000, CommitResult::Ok)));
        ops.extend((60..70).map(|i| op(i * 100, i * 100, i * 100 + 10, CommitResult::Ok)));
        // Nothing was due at 2000: a gap of the arrivals, not an outage.
        ops.retain(|op| op.id != 2000);
        let effect = effect(&ops, at(500), at(5000), at(7000), 10.0);
        assert!((effect.gap_quiet_ms - 200.0).abs() < 1e-6, "one arrival is missing at 2000");
        assert!((effect.gap_ms - 1090.0).abs() < 1e-6, "4910 to 6000");
        assert!(
            (effect.outage_ms - 990.0).abs() < 1e-6,
            "5010, when the first was to end, to 6000: {effect:?}"
        );
        assert!((effect.outage_from_ms - 5010.0).abs() < 1e-6);
        assert!(effect.noise_ms.abs() < 1e-6, "all came when they usually come");
        let hold_ms_max = effect.hold_ms_max.unwrap();
        assert!((hold_ms_max - 990.0).abs() < 1e-6, "due 5000, done 6000, usual 10");
    }

    #[test]
    fn arrivals_that_pause_are_no_outage_and_failed_ones_are() {
        let usual = at(10);
        let pause = [op(0, 0, 10, CommitResult::Ok), op(5000, 5000, 5010, CommitResult::Ok)];
        assert_eq!(longest_outage(&pause, at(100), at(5020), usual).length(), at(0));
        let mut lost = pause.to_vec();
        lost.push(op(3000, 3000, 3001, CommitResult::Failed));
        assert_eq!(longest_outage(&lost, at(100), at(5020), usual), Gap { from: at(3010), to: at(5010) });
        // Its acknowledgement was expected before the last commit, and it still waits after it: it is held, while others are served.
        lost.push(op(5, 5, 4000, CommitResult::Ok));
        lost.push(op(20, 20, 30, CommitResult::Ok));
        assert_eq!(longest_outage(&lost, at(100), at(5020), usual), Gap { from: at(3010), to: at(4000) });
        // No more acknowledgements.
        lost.truncate(1);
        lost.push(op(200, 200, 9000, CommitResult::Failed));
        assert_eq!(longest_outage(&lost, at(100), at(2000), usual), Gap { from: at(210), to: at(2000) });
        // A transaction faster than usual is not missed afterwards.
        let quick = [op(100, 100, 104, CommitResult::Ok), op(900, 900, 903, CommitResult::Ok)];
        assert_eq!(longest_outage(&quick, at(50), at(905), usual).length(), at(0));
    }

    #[test]
    fn a_pause_of_the_arrivals_is_no_outage_while_one_transaction_is_held() {
        let mut ops: Vec<Op> =
            (0..60).map(|i| op(i * 100, i * 100, i * 100 + 10, CommitResult::Ok)).collect();
        ops[20].done = at(4300);
        ops.retain(|op| !(3000..3500).contains(&op.id));
        let outage = longest_outage(&ops, at(1000), at(5920), at(10));
        assert_eq!(
            outage,
            Gap { from: at(2010), to: at(2110) },
            "until the next one came; not the pause of 600 ms"
        );
        ops[20].outcome = CommitResult::Failed;
        assert_eq!(longest_outage(&ops, at(1000), at(5920), at(10)), outage);
    }

    #[test]
    fn a_service_that_is_not_seen_to_come_back_has_a_hold_without_end() {
        let mut ops: Vec<Op> =
            (0..20).map(|i| op(i * 100, i * 100, i * 100 + 10, CommitResult::Ok)).collect();
        // One commit is acknowledged right after the fault, then nothing.
        ops.extend((20..40).map(|i| op(i * 100, i * 100, 9000, CommitResult::Failed)));
        let gone = effect(&ops, at(500), at(1905), at(4000), 10.0);
        assert_eq!((gone.hold_ms_max, gone.outage_is_open), (None, true));
        assert!((gone.outage_ms - 1990.0).abs() < 1e-6, "2010 to the end: {gone:?}");
        // The last ones are in progress when the load ends.
        ops.truncate(20);
        ops.push(op(1995, 1995, 2090, CommitResult::Ok));
        let back = effect(&ops, at(500), at(1505), at(2050), 10.0);
        assert_eq!((back.hold_ms_max, back.outage_is_open), (Some(85.0), false));
    }

    #[test]
    fn errors_are_counted_by_their_last_code_from_the_fault_on() {
        let mut bad = op(10, 10, 20, CommitResult::Failed);
        bad.troubles.push(Trouble {
            at: at(20),
            code: "1213".into(),
            during: "commit",
            message: String::new(),
        });
        let counted = errors_by_code(&[bad.clone(), op(0, 0, 5, CommitResult::Ok)], Client::Naive, at(15));
        assert_eq!(counted.into_iter().collect::<Vec<_>>(), [("1213".to_owned(), 1)]);
        assert!(errors_by_code(&[bad], Client::Naive, at(25)).is_empty());
    }

    #[test]
    fn buckets_hold_what_waited_and_what_ran() {
        let mut mended = op(0, 150, 320, CommitResult::Ok);
        let code = "2013".to_owned();
        mended.troubles.push(Trouble { at: at(210), code, during: "begin", message: String::new() });
        let ops = [mended, op(10, 10, 40, CommitResult::Failed)];
        let row = buckets(&ops, at(100), at(399));
        assert_eq!(row.iter().map(|b| b.repeats).collect::<Vec<_>>(), [0, 0, 1, 0]);
        assert_eq!(row.len(), 4);
        assert_eq!(row.iter().map(|b| b.queue).collect::<Vec<_>>(), [1, 0, 0, 0]);
        assert_eq!(row.iter().map(|b| b.concurrency).collect::<Vec<_>>(), [0, 1, 1, 0]);
        assert_eq!((row[3].commits, row[0].errors), (1, 1));
        assert!((row[3].latency_ms_max - 320.0).abs() < 1e-6);
    }
}
