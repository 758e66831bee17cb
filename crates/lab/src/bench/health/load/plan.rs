//! The parameters of a load.

use crate::load::arrivals::Arrivals;

/// How transactions begin.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Mode {
    /// Closed loop: a thread's next transaction begins when its last one has ended. Thread `i` of a group starts at `i * rampup / threads`.
    Closed {
        /// Time until the last thread has started, s.
        rampup_s: f64,
    },
    /// Open loop: transactions begin by a schedule, whether or not earlier ones have ended.
    Open {
        /// Transactions a second.
        rate: f64,
        /// How the arrivals are distributed over time.
        arrivals: Arrivals,
    },
    /// At fixed intervals one transaction on each slot, all at once: first all connect, then all send their requests. A response time is the
    /// time to connect plus the time from request to response; the time between the two, in which the generator opens the other connections,
    /// is not caused by the server. A connection that is not yet established when its request is due counts all of its time.
    Bursts {
        /// Interval between two bursts, s.
        every_s: f64,
    },
}

/// The parameters of a load.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Plan {
    /// Groups of threads; multi-mechanize started one process for each.
    pub groups: u16,
    /// Threads of each group. In the open loop and with bursts: connections.
    pub threads: u16,
    /// Whether connections are kept alive; otherwise each transaction opens a new one.
    pub keep: bool,
    /// How transactions begin.
    pub mode: Mode,
    /// A transaction that takes longer counts as failed, s.
    pub timeout_s: f64,
    /// Length of the run, s.
    pub run_s: f64,
}

impl Plan {
    /// Number of connections at once.
    pub fn slots(&self) -> u32 {
        u32::from(self.groups) * u32::from(self.threads)
    }
}
