//! What is driven against a server.

use crate::load::arrivals::Arrivals;

/// How transactions begin.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Mode {
    /// Each thread one after the other, without a pause. Thread `i` of a group starts after `i * rampup / threads`.
    Closed {
        /// Until the last thread has started, s.
        rampup_s: f64,
    },
    /// As the schedule says, whether or not earlier ones have ended.
    Open {
        /// Transactions a second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
    /// Every so often one transaction of each slot, all at once: all of them connect, then all of them ask. A response time is that of
    /// connecting and that from asking to the answer; how long the one generator takes from the one to the other, while it connects
    /// the others, is not the server's doing. A connection that does not stand when it is to ask counts all of its time.
    Bursts {
        /// From one burst to the next, s.
        every_s: f64,
    },
}

/// What is driven against a server.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Plan {
    /// Groups of threads; multi-mechanize made a process of each.
    pub groups: u16,
    /// Threads of each group. In the open loop: connections at once.
    pub threads: u16,
    /// Connections are kept; else each transaction has a new one.
    pub keep: bool,
    /// How transactions begin.
    pub mode: Mode,
    /// A transaction that takes longer has failed, s.
    pub timeout_s: f64,
    /// How long, s.
    pub run_s: f64,
}

impl Plan {
    /// Connections at once.
    pub fn slots(&self) -> u32 {
        u32::from(self.groups) * u32::from(self.threads)
    }
}
