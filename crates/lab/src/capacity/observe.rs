//! Observes the rows of the measured node, and computes from them alone how fast it caught up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::load::paced::Counts;

/// Interval between two queries.
const PACE: Duration = Duration::from_millis(20);

/// One observation of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Time since the observation began.
    pub at: Duration,
    /// The highest row number on the node.
    pub there: u64,
    /// The highest row number that had been sent when the query was sent.
    pub sent: u64,
}

/// The result computed from the rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// Rows applied from the end of the standstill until the node had caught up.
    pub rows: u64,
    /// Length of that time, s.
    pub took_s: f64,
    /// Rows a second, between the first and the last look in that time: unlike its ends, which lie between looks, both are moments at which the rows were
    /// counted, however late.
    pub per_s: f64,
    /// Length of the standstill, s.
    pub stood_s: f64,
}

/// Observes until `is_over`.
pub async fn watch(
    socket: &Path,
    counts: Arc<Counts>,
    is_over: Arc<AtomicBool>,
) -> anyhow::Result<Vec<Seen>> {
    let options = OptsBuilder::default()
        .socket(Some(socket.display().to_string()))
        .user(Some("root"))
        .db_name(Some(crate::stage::account::APP_SCHEMA))
        .prefer_socket(false);
    let mut conn = Conn::new(options).await.context("the observer cannot connect")?;
    conn.query_drop("SET SESSION wsrep_sync_wait = 0").await?;
    let began = Instant::now();
    let mut seen = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let sent = counts.sent.load(Ordering::Relaxed);
        let asked = began.elapsed();
        let there: Option<Option<u64>> = conn.query_first("SELECT MAX(id) FROM capacity").await?;
        let at = asked + began.elapsed().saturating_sub(asked) / 2;
        seen.push(Seen { at, there: there.flatten().unwrap_or(0), sent });
        sleep(PACE).await;
    }
    conn.disconnect().await?;
    Ok(seen)
}

/// The apply rate after the longest standstill. `under_way`: rows that may be sent but not yet applied although the node is not behind.
///
/// `None` if the longest standstill was shorter than `stood_min`, or if the node never caught up.
pub fn truth(seen: &[Seen], stood_min: Duration, under_way: u64) -> Option<Truth> {
    let (from, to) = longest_standstill(seen)?;
    let stood = seen[to].at.saturating_sub(seen[from].at);
    if stood < stood_min {
        return None;
    }
    let behind = &seen[to + 1..];
    let end = behind.iter().position(|seen| seen.there + under_way >= seen.sent)?;
    let (end, behind) = (behind[end], &behind[..end]);
    let counted = |from: Seen, to: Seen| (to.there - from.there, to.at.saturating_sub(from.at).as_secs_f64());
    let (rows, took_s) = counted(seen[to], end);
    let (in_between, over_s) = match behind {
        [first, .., last] if last.there > first.there => counted(*first, *last),
        _ => (rows, took_s),
    };
    let per_s = in_between as f64 / over_s;
    (rows > 0).then_some(Truth { rows, took_s, per_s, stood_s: stood.as_secs_f64() })
}

/// Indices of its first and last observation.
fn longest_standstill(seen: &[Seen]) -> Option<(usize, usize)> {
    let mut longest: Option<(usize, usize)> = None;
    let mut from = 0;
    for to in 0..seen.len() {
        if seen[to].there != seen[from].there {
            from = to;
        }
        let length = |(from, to): (usize, usize)| seen[to].at.saturating_sub(seen[from].at);
        if longest.is_none_or(|found| length((from, to)) > length(found)) {
            longest = Some((from, to));
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_alone_tell_the_rate() {
        // 100 rows a second arrive; from 2 s to 7 s none is applied, then 300 a second.
        let mut seen = Vec::new();
        let mut there = 0.0_f64;
        for tick in 0..1200 {
            let at_s = f64::from(tick) * 0.01;
            let sent = at_s * 100.0;
            there = if (2.0..7.0).contains(&at_s) { there } else { sent.min(there + 3.0) };
            seen.push(Seen { at: Duration::from_secs_f64(at_s), there: there as u64, sent: sent as u64 });
        }
        let truth = truth(&seen, Duration::from_secs(4), 1).unwrap();
        assert!((truth.per_s - 300.0).abs() < 6.0, "{truth:?}");
        assert!((truth.took_s - 2.5).abs() < 0.1 && (truth.stood_s - 5.0).abs() < 0.1, "{truth:?}");
        // Looks that are late on a busy machine tell the same.
        let late: Vec<Seen> = seen.iter().step_by(50).copied().collect();
        let by_late = super::truth(&late, Duration::from_secs(4), 1).unwrap();
        assert!((by_late.per_s - 300.0).abs() < 6.0, "{by_late:?}");
        assert_eq!(super::truth(&seen, Duration::from_secs(6), 1), None);
        assert_eq!(super::truth(&seen[..720], Duration::from_secs(4), 1), None, "it never caught up");
        assert_eq!(super::truth(&[], Duration::ZERO, 1), None);
    }
}
