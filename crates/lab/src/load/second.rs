//! The report lines of each second, as sysbench 0.5 printed them in the seed article, byte for byte.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::client::Pool;
use super::stage::{Stage, reached};
use crate::ledger::Client;

/// Receives a complete line without its line end. A caller with a progress bar prints it above the bar.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// The figures of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Seconds since the start.
    pub at_s: u64,
    /// Worker threads.
    pub threads: u32,
    /// Transactions acknowledged a second.
    pub tps: f64,
    /// Read statements a second.
    pub reads: f64,
    /// Write statements a second.
    pub writes: f64,
    /// 95th percentile of the response times of transactions that ended in this second; 0 when none ended.
    pub response_ms: f64,
    /// Due but not yet taken by a thread.
    pub queue: i64,
    /// Threads busy.
    pub concurrency: i64,
}

impl Figures {
    /// The two lines.
    pub fn lines(&self) -> [String; 2] {
        let Self { at_s, threads, tps, reads, writes, response_ms, queue, concurrency } = self;
        [
            format!(
                "[ {at_s}s] threads: {threads}, tps: {tps:.2}, reads/s: {reads:.2}, writes/s: {writes:.2}, \
                 response time: {response_ms:.2}ms (95%)"
            ),
            format!("[ {at_s}s] queue length: {queue}, concurrency: {concurrency}"),
        ]
    }
}

/// Reports the lines of one client until the load drains. The lines of the retrying client are prefixed with its name.
pub(super) async fn report_each(pool: Arc<Pool>, tell: Tell, mut signal: watch::Receiver<Stage>) {
    let mut before = (0, 0, 0);
    let mut since = pool.began();
    for at_s in 1.. {
        tokio::select! {
            biased;
            () = reached(&mut signal, Stage::Draining) => return,
            () = tokio::time::sleep_until(pool.began() + Duration::from_secs(at_s)) => {}
        }
        let counters = &pool.counters;
        let now = (counters.ok.load(Relaxed), counters.reads.load(Relaxed), counters.writes.load(Relaxed));
        let seconds = since.elapsed().as_secs_f64().max(1e-3);
        since = tokio::time::Instant::now();
        let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
        let response_us = {
            let mut times = pool.response_us.lock().unwrap_or_else(PoisonError::into_inner);
            crate::figures::quantile(&mut std::mem::take(&mut *times), 0.95).unwrap_or(0)
        };
        let figures = Figures {
            at_s,
            threads: pool.threads(),
            tps: rate(now.0, before.0),
            reads: rate(now.1, before.1),
            writes: rate(now.2, before.2),
            response_ms: response_us as f64 / 1000.0,
            queue: counters.queue.load(Relaxed).max(0),
            concurrency: counters.running.load(Relaxed).max(0),
        };
        before = now;
        for line in figures.lines() {
            match pool.client() {
                Client::Naive | Client::Sysbench => tell(&line),
                other => tell(&format!("{} {line}", other.name())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_the_seeds_to_the_byte() {
        let seed = include_str!("../../tests/traces/seed-graceful.txt");
        let figures = Figures {
            at_s: 21,
            threads: 4,
            tps: 13.0,
            reads: 139.0,
            writes: 36.0,
            response_ms: 304.07,
            queue: 0,
            concurrency: 1,
        };
        let [first, second] = figures.lines();
        // Each of the seed's lines begins with its line number.
        let bare: Vec<&str> = seed.lines().filter_map(|l| l.split_once(' ').map(|(_, rest)| rest)).collect();
        assert_eq!((first.as_str(), second.as_str()), (bare[0], bare[1]));
    }
}
