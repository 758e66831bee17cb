//! `lab capacity`: whether `understudy capacity` is right, on a real Galera cluster or a real replica; and what `--passive` says beside it.
//!
//! ```text
//!   writers ──INSERT of numbered rows, at a rate──> db1 ──> db3, on which `understudy capacity` runs
//!                                                            '<── observer: SELECT MAX(id), every 20 ms
//! ```
//!
//! What is known independently: the rows. Each transaction is one row, numbered in the order of sending, and Galera applies in the order of committing.
//! So the observer sees the rows of db3 stand still and then grow until it has what the writers have been acknowledged: so many rows in
//! that time, by a clock and a count of its own. None of Galera's counters is used for it.
//!
//! Before each measurement `--passive` looks for a while. Now and then a batch changes some thousand rows at once, as applications do: the small
//! transactions behind it wait for a moment, and from that alone it has to tell the same figure.

pub mod batch;
pub mod load;
pub mod observe;
pub mod run;
pub mod table;

use std::time::Duration;

use crate::stage::ClusterKind;

/// The figures may differ by so much.
pub const DIFFERENCE_MAX: f64 = 0.05;

/// A run, as asked for.
#[derive(Clone, Copy, Debug)]
pub struct CapacityPlan {
    /// A Galera cluster, or a primary with replicas.
    pub kind: ClusterKind,
    /// gcs.fc_limit of the Galera nodes; their default otherwise.
    pub fc_limit: Option<u32>,
    /// For so long `--passive` looks before each measurement; not at all when it is zero.
    pub passive: Duration,
    /// How often it is measured.
    pub runs: u32,
    /// Transactions a second.
    pub rate: f64,
    /// Connections that write.
    pub connections: u32,
    /// What `understudy capacity` is told.
    pub baseline: Duration,
    /// For how long db3 applies nothing.
    pub hold: Duration,
}
