//! The cells of the benchmark: the seed article's two loads, and the loads by which this project's endpoint is judged.

use crate::load::arrivals::Arrivals;

use super::load::{Mode, Plan};

/// A load to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// The seed's first load: 2 groups of 100 threads, a new connection for each request
    A,
    /// The seed's second load: 5 groups of 100 threads
    B,
    /// 1,000 threads, keep-alive connections
    Keep,
    /// 1,000 threads, a new connection for each request
    Close,
    /// 1,000 new connections at once, four times a second: all are established before the first request is sent
    Burst,
    /// Open loop over 1,000 keep-alive connections
    Open,
    /// Open loop, a new connection for each request
    OpenClose,
}

/// The times that the user may set.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Length of a run, s.
    pub run_s: f64,
    /// Time until the last thread has started, s.
    pub rampup_s: f64,
    /// A transaction that takes longer counts as failed, s.
    pub timeout_s: f64,
}

/// Transactions a second of the open loop with keep-alive connections: far below what one core serves, so that a wait is caused by the
/// server and not by a queue.
const OPEN_RATE: f64 = 10_000.0;
/// The same with a new connection for each request.
const OPEN_CLOSE_RATE: f64 = 5_000.0;

/// Interval between two bursts: far longer than one burst takes.
const BURST_EVERY_S: f64 = 0.25;

impl Cell {
    /// In the order in which they are measured.
    pub const ALL: [Self; 7] =
        [Self::A, Self::B, Self::Keep, Self::Close, Self::Burst, Self::Open, Self::OpenClose];

    /// Its name in file names and figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Keep => "keep",
            Self::Close => "close",
            Self::Burst => "burst",
            Self::Open => "open",
            Self::OpenClose => "open-close",
        }
    }

    /// The load of this cell.
    pub fn plan(self, times: Times, arrivals: Arrivals) -> Plan {
        let closed = Mode::Closed { rampup_s: times.rampup_s };
        let (groups, threads, keep, mode) = match self {
            Self::A => (2, 100, false, closed),
            Self::B => (5, 100, false, closed),
            Self::Keep => (10, 100, true, closed),
            Self::Close => (10, 100, false, closed),
            Self::Burst => (10, 100, false, Mode::Bursts { every_s: BURST_EVERY_S }),
            Self::Open => (10, 100, true, Mode::Open { rate: OPEN_RATE, arrivals }),
            Self::OpenClose => (10, 100, false, Mode::Open { rate: OPEN_CLOSE_RATE, arrivals }),
        };
        Plan { groups, threads, keep, mode, timeout_s: times.timeout_s, run_s: times.run_s }
    }
}

/// Describes a load.
pub fn words(plan: &Plan) -> String {
    let connections = if plan.keep { "connections kept" } else { "a new connection for each request" };
    let run = plan.run_s;
    match plan.mode {
        Mode::Closed { rampup_s } => format!(
            "closed loop, {} x {} threads, {connections}, ramp-up {rampup_s} s, {run} s",
            plan.groups, plan.threads
        ),
        Mode::Bursts { every_s } => {
            format!(
                "every {every_s} s {} new connections at once, each for one request, {run} s",
                plan.slots()
            )
        }
        Mode::Open { rate, arrivals } => format!(
            "open loop, {rate} a second ({}) over at most {} connections, {connections}, {run} s",
            format!("{arrivals:?}").to_lowercase(),
            plan.slots()
        ),
    }
}
