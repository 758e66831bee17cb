//! `lab recovery`: measures how long a Galera node takes to rejoin, in the seed's cells: its two tables, without load and with updates, by
//! missing writesets (IST) and by a full copy (SST).
//!
//! ```text
//!   updater ──UPDATE by primary key, at a rate──> db1 ──> db2 (donor) ──> db3, which `understudy recovery measure` restarts
//!                                                  '─────── rows compared with db3's after each restart ───────'
//! ```
//!
//! The content is checked independently: each update increments a row's version, and the row's texts are computed from its key and version.
//! So on the returned node the sum of all versions must be the number of acknowledged updates, and every text must match its version.

pub mod args;
pub mod cell;
pub mod data;
pub mod page;
pub mod run;
pub mod table;

use std::time::Duration;

use serde::Serialize;

/// Parameters of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryPlan {
    /// A short run on little data.
    pub is_quick: bool,
    /// Rows of each of the two tables; one has 512 bytes.
    pub rows: u64,
    /// Updates a second, each of one row, in the cells with load.
    pub updates_per_s: f64,
    /// `innodb_buffer_pool_size` of each node, MiB. The seed's database keeps all of its data in memory.
    pub pool_mb: u64,
    /// `gcache.size` of the nodes, MiB.
    pub gcache_mb: u32,
    /// `gcache.size`, MiB, in the cell where it is too small.
    pub gcache_small_mb: u32,
    /// Length of a short absence.
    pub away: Duration,
    /// Length of an absence that is longer than the gcache lasts.
    pub away_long: Duration,
}

/// A buffer pool that holds both tables, MiB: a row and its index entry take about 700 bytes after updates at random places, and a pool
/// also has other pages.
pub fn pool_mb(rows: u64) -> u64 {
    (rows * 2 * 800).div_ceil(1 << 20).max(64)
}

impl RecoveryPlan {
    /// `innodb_log_file_size`, MiB: a quarter of the buffer pool, so that pages are not written repeatedly while updates arrive.
    pub fn redo_log_mb(&self) -> u64 {
        (self.pool_mb / 4).max(16)
    }

    /// The seed's size: 1 M rows in each table, 2,000 updates a second.
    pub fn full() -> Self {
        Self {
            is_quick: false,
            rows: 1_000_000,
            pool_mb: pool_mb(1_000_000),
            updates_per_s: 2_000.0,
            gcache_mb: 64,
            gcache_small_mb: 4,
            away: Duration::from_secs(10),
            away_long: Duration::from_secs(60),
        }
    }

    /// For CI.
    pub fn quick() -> Self {
        Self {
            is_quick: true,
            rows: 20_000,
            pool_mb: pool_mb(20_000),
            updates_per_s: 500.0,
            gcache_mb: 16,
            gcache_small_mb: 1,
            away: Duration::from_secs(2),
            away_long: Duration::from_secs(40),
        }
    }
}
