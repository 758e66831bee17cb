//! `lab capacity`: checks the result of `understudy capacity`, on a real Galera cluster or a real replica; also the estimate of `--passive`.
//!
//! ```text
//!   writers ──INSERT of numbered rows, at a rate──> db1 ──> db3, on which `understudy capacity` runs
//!                                                            '<── observer: SELECT MAX(id), every 20 ms
//! ```
//!
//! The check is independent and uses only the rows. Each transaction is one row, numbered in the order of sending, and Galera applies in
//! commit order. So the observer sees the rows of db3 stop and then grow until all rows that were sent are there: this many rows in this
//! time, by its own clock and count. It uses none of Galera's counters.
//!
//! Before each measurement `--passive` observes for a while. Regularly a batch changes some thousand rows at once, as applications do: the
//! small transactions behind it are delayed, and from that alone `--passive` must estimate the same capacity.

pub mod batch;
pub mod load;
pub mod observe;
pub mod run;
pub mod table;

use std::time::Duration;

use crate::stage::ClusterKind;

/// Maximum relative difference between the two figures.
pub const DIFFERENCE_MAX: f64 = 0.05;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct CapacityPlan {
    /// A Galera cluster, or a primary with replicas.
    pub kind: ClusterKind,
    /// gcs.fc_limit of the Galera nodes; None: their default.
    pub fc_limit: Option<u32>,
    /// How long `--passive` observes before each measurement; zero: not at all.
    pub passive: Duration,
    /// Number of measurements.
    pub runs: u32,
    /// Transactions a second.
    pub rate: f64,
    /// Number of writing connections.
    pub connections: u32,
    /// Length of the baseline for `understudy capacity`.
    pub baseline: Duration,
    /// How long db3 applies nothing.
    pub hold: Duration,
}
