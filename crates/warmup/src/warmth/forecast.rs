//! The forecast: disk reads that the standby made in the window, plus those that the rest of the window's traffic causes.
//!
//! ```text
//!   D = R + U
//!   R   disk reads of the standby in the window: those of its replay, of sampled statements, and of the writes that it applies
//!   U   disk reads of the statements which it did not run, when it runs them behind the window, in their order
//! ```
//!
//! Pages that the standby has read itself are in memory when U is counted, so that no page counts twice, and D is what the standby would
//! have read had it run everything. The figure describes its state at the beginning of the window. A replay of everything makes it warmer
//! in the meantime; how the rate of reads fell within the window, and how long the replay has been running, show how much of D is left
//! (`next_window`). When there was no room or no time for all statements, those of the beginning of the window were run, and the rate of
//! reads is assumed to fall further in the same way (`go_on`).

/// How a forecast was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The standby ran all reads of the window itself, and its disk reads were counted. Evictions are included.
    Replayed,
    /// The standby ran some or none of the reads; all others were run after the window.
    Completed,
    /// As above, but only the others of the window's beginning were run.
    Extrapolated,
}

impl Method {
    /// The name used in sentences.
    pub fn words(self) -> &'static str {
        match self {
            Method::Replayed => "its own disk reads while it was replayed everything",
            Method::Completed => "its own disk reads, and those of all reads that it did not run before",
            Method::Extrapolated => {
                "its own disk reads, and an estimate from a part of the reads that it did not run before"
            }
        }
    }

    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Method::Replayed => "replayed",
            Method::Completed => "completed",
            Method::Extrapolated => "extrapolated",
        }
    }
}

/// The disk reads that a failover would cause during a time as long as a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The number of pages.
    pub disk_reads: u64,
    /// The lower end of the 95 % interval. It covers random variation and the bounds of an extrapolation, and assumes that the next window
    /// is like the last one.
    pub low: u64,
    /// The upper end of that interval.
    pub high: u64,
    /// How the forecast was made.
    pub method: Method,
    /// The number of the active node's reads in the window.
    pub reads: u64,
    /// The number of pages that the standby read itself during the window.
    pub own_reads: u64,
    /// The share of the window's reads that were passed to the replay on the standby.
    pub run_share: f64,
    /// Of the reads that it did not run in the window, the share that was run after it; 1 is all.
    pub completed_share: f64,
}

/// The observations of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Disk reads of the standby in the first half of the window.
    pub own_reads_first: u64,
    /// In the second half.
    pub own_reads_second: u64,
    /// How long a replay of everything had been running at the end of the window, in windows. 0: there is no replay, or not of everything.
    pub replayed_for_windows: f64,
    /// The number of the active node's reads in the window.
    pub reads: u64,
    /// The number of those that were passed to the replay.
    pub run: u64,
    /// The number of statements that the replay ran in that time: fewer when it drops some or falls behind, more when it catches up.
    pub executed: u64,
    /// Disk reads of the statements that were run after the window: after a quarter, half and all of them.
    pub missing: [u64; 3],
    /// Of the reads that the standby did not run in the window, the share that was run after it.
    pub completed_share: f64,
    /// The capacity of the standby's buffer pool in pages.
    pub pool_pages: u64,
    /// The number of statements that were run after the window.
    pub completed: u64,
    /// The number of those that ended with an error or a timeout.
    pub failed: u64,
}

/// A replay that ran less than this share of what it was given is not representative of the rest.
pub const EXECUTED_SHARE_MIN: f64 = 0.8;

/// Computes the forecast.
pub fn forecast(measured: &Measured) -> Forecast {
    let own = measured.own_reads_first + measured.own_reads_second;
    let run_share = if measured.reads == 0 { 0.0 } else { measured.run as f64 / measured.reads as f64 };
    if measured.run == measured.reads && measured.reads > 0 {
        let whole = measured.run as f64 / measured.executed.max(1) as f64;
        let next = next_window(
            measured.own_reads_first as f64 * whole,
            measured.own_reads_second as f64 * whole,
            measured.replayed_for_windows,
        );
        let half = by_chance(own as f64);
        return Forecast {
            disk_reads: next.round() as u64,
            low: (next - half).max(0.0) as u64,
            high: (next + half).ceil() as u64,
            method: Method::Replayed,
            reads: measured.reads,
            own_reads: own,
            run_share,
            completed_share: 1.0,
        };
    }
    // Assumes that the statements that failed would have read as much as the others.
    let whole = measured.completed as f64 / measured.completed.saturating_sub(measured.failed).max(1) as f64;
    let missing = measured.missing.map(|reads| reads as f64 * whole);
    let is_whole = measured.completed_share >= 0.999;
    let (low, missing, high) = if is_whole {
        (missing[2], missing[2], missing[2])
    } else {
        go_on(missing, measured.completed_share, measured.pool_pages as f64)
    };
    let own = own as f64;
    let total = own + missing;
    Forecast {
        disk_reads: total.round() as u64,
        low: (own + low - by_chance(own + low)).max(0.0) as u64,
        high: (own + high + by_chance(own + high)).ceil() as u64,
        method: if is_whole { Method::Completed } else { Method::Extrapolated },
        reads: measured.reads,
        own_reads: own as u64,
        run_share,
        completed_share: measured.completed_share,
    }
}

/// Half the width of the 95 % interval of a count.
fn by_chance(count: f64) -> f64 {
    1.96 * count.max(1.0).sqrt()
}

/// Extrapolates disk reads from the beginning of a run, which is this share of the whole, and the reads counted at its quarter, half and
/// end. Returns an estimate with a lower and an upper bound.
///
/// From the beginning of a run, the number of distinct pages grows as a power of the time (Heaps' law), and more slowly once most of the
/// existing pages have been read: the exponent is assumed to fall with each further doubling of the time by as much as with the last one.
/// When as many pages have been read as fit into the buffer pool, the pool holds what a warm pool of its size would hold. The remaining
/// reads are then those of evicted and new pages, which grow linearly.
fn go_on([quarter, half, all]: [f64; 3], share: f64, pool_pages: f64) -> (f64, f64, f64) {
    const STEPS_PER_DOUBLING: f64 = 16.0;
    let share = share.clamp(1e-6, 1.0);
    if all <= 0.0 {
        return (0.0, 0.0, 0.0);
    }
    let power_of = |more: f64, fewer: f64| (more / fewer.max(1.0)).max(1.0).log2().clamp(0.0, 1.0);
    let (before, now) = (power_of(half, quarter), power_of(all, half));
    let lost = (before - now).max(0.0);
    let steady = (all - half) / (share / 2.0);
    let whole = |lost: f64| {
        let (mut reads, mut at, mut power, mut slope) = (all, share, now, steady);
        let step = STEPS_PER_DOUBLING.recip();
        while at < 1.0 {
            let next = (at * step.exp2()).min(1.0);
            if reads < pool_pages {
                let grown = reads * (next / at).powf(power);
                slope = (grown - reads) / (next - at);
                reads = grown;
                power = (power - lost * step).max(0.0);
            } else {
                reads += slope * (next - at);
            }
            at = next;
        }
        reads
    };
    (whole(2.0 * lost + 0.1), whole(lost), whole(0.0))
}

/// Estimates the reads of the next window from those of the two halves of this one, when the replay had been running for `age` windows at
/// its end. A cold standby on which everything is replayed reads less and less: at age t in proportion to t^-g, with g computed from the
/// two halves. A standby that was warm before reads as much in both halves, and g is 0.
fn next_window(first: f64, second: f64, age: f64) -> f64 {
    let age = age.max(1.0);
    if first <= second || second <= 0.0 {
        return first + second;
    }
    // Reads between the ages a and b are proportional to b^(1-g) - a^(1-g).
    let between = |a: f64, b: f64, g: f64| b.powf(1.0 - g) - a.max(0.0).powf(1.0 - g);
    let halves = |g: f64| between(age - 1.0, age - 0.5, g) / between(age - 0.5, age, g);
    let (mut low, mut high) = (0.0, 0.95);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if halves(middle) < first / second { low = middle } else { high = middle }
    }
    (first + second) * between(age, age + 1.0, low) / between(age - 1.0, age, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        Measured {
            own_reads_first: 0,
            own_reads_second: 0,
            replayed_for_windows: 0.0,
            reads: 1000,
            run: 0,
            executed: 0,
            missing: [0; 3],
            completed_share: 1.0,
            pool_pages: 100_000,
            completed: 1000,
            failed: 0,
        }
    }

    #[test]
    fn what_it_read_and_what_it_lacks_are_added() {
        let cold = Measured { own_reads_second: 5, missing: [70, 100, 120], ..measured() };
        let result = forecast(&cold);
        assert_eq!((result.disk_reads, result.method), (125, Method::Completed));
        assert!(result.low < 125 && result.high > 125);
        // Statements that failed are taken to be like the others.
        assert_eq!(forecast(&Measured { failed: 500, ..cold }).disk_reads, 245);
    }

    #[test]
    fn a_part_is_extrapolated_as_its_reads_fall() {
        // Distinct pages as the time to the power of 0.7; a quarter was run.
        let pages = |share: f64| (10_000.0 * share.powf(0.7)) as u64;
        let part = Measured {
            missing: [pages(0.0625), pages(0.125), pages(0.25)],
            completed_share: 0.25,
            ..measured()
        };
        let result = forecast(&part);
        assert_eq!(result.method, Method::Extrapolated);
        assert!((result.disk_reads as f64 / 10_000.0 - 1.0).abs() < 0.01, "{result:?}");
        assert!(result.low < 9_500 && result.high >= 10_000, "{result:?}");
        // A small pool is full before the end; then it goes on as it was when it became full.
        let small = Measured { pool_pages: 4000, ..part.clone() };
        let full_at = 0.4_f64.powf(0.7_f64.recip());
        let truth = 4000.0 * (1.0 + 0.7 * (1.0 - full_at) / full_at);
        assert!((forecast(&small).disk_reads as f64 / truth - 1.0).abs() < 0.02, "{truth}");
        // Evictions only: as many all the time.
        let steady = Measured { missing: [250, 500, 1000], pool_pages: 100, ..part.clone() };
        assert_eq!(forecast(&steady).disk_reads, 4000);
        // A table of which soon all pages are known: 2,000 pages, each as likely as any other.
        let known = |share: f64| (2000.0 * (1.0 - (-4.0 * share).exp())) as u64;
        let bounded = Measured {
            missing: [known(0.125), known(0.25), known(0.5)],
            completed_share: 0.5,
            ..part.clone()
        };
        let result = forecast(&bounded);
        assert!(
            (result.disk_reads as f64 / known(1.0) as f64 - 1.0).abs() < 0.15,
            "{result:?} {}",
            known(1.0)
        );
        assert!((result.low..=result.high).contains(&known(1.0)), "{result:?} {}", known(1.0));
        // Nothing was read: nothing is expected, and nothing divides by it.
        let none = Measured { missing: [0; 3], completed_share: 0.0, ..steady };
        assert_eq!(forecast(&none).disk_reads, 0);
    }

    #[test]
    fn a_replay_of_everything_is_counted_and_what_it_left_out_is_added() {
        let steady = Measured {
            own_reads_first: 300,
            own_reads_second: 300,
            run: 1000,
            executed: 1000,
            replayed_for_windows: 9.0,
            ..measured()
        };
        let result = forecast(&steady);
        assert_eq!((result.disk_reads, result.method), (600, Method::Replayed));
        assert!(result.low < 600 && result.high > 600);
        // It ran five in six.
        assert_eq!(forecast(&Measured { run: 1200, reads: 1200, ..steady }).disk_reads, 720);
    }

    #[test]
    fn a_standby_that_is_being_warmed_reads_less_in_the_next_window() {
        // Distinct pages as the square root of time: in windows 3 and 4 of a replay.
        let reads = |from: f64, to: f64| 1000.0 * (to.sqrt() - from.sqrt());
        let next = next_window(reads(2.0, 2.5), reads(2.5, 3.0), 3.0);
        assert!((next / reads(3.0, 4.0) - 1.0).abs() < 0.01, "{next} of {}", reads(3.0, 4.0));
        // In the very first window.
        let next = next_window(reads(0.0, 0.5), reads(0.5, 1.0), 1.0);
        assert!((next / reads(1.0, 2.0) - 1.0).abs() < 0.01, "{next} of {}", reads(1.0, 2.0));
        // More in the second half is no trend.
        assert_eq!(next_window(100.0, 120.0, 5.0).round() as u64, 220);
        assert_eq!(next_window(10.0, 0.0, 5.0).round() as u64, 10);
    }
}
