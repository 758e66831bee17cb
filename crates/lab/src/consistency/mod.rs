//! Random faults and moves under transactions whose results are judged afterwards: is anything lost, doubled, aborted and read, or read
//! backwards that the same transactions on one server without a proxy do not show, too?
//!
//! ```text
//!   stage (real nodes) ── direct: the workload on db1, no proxy, no faults ──────────────┐
//!                      └─ through: the workload through Understudy, random faults ───────┤
//!                                                                                        v
//!                           every node's rows, read directly ──> judge ──> Report ──> table, JSON
//! ```
//!
//! The workload has four parts, each with tables and clients of its own:
//! - `lists`: transactions that append unique values to lists and read whole lists, at two isolation levels;
//! - `bank`: transfers between accounts, and reads of all balances;
//! - `register`: clients that read back what they have just written;
//! - `ids`: inserts whose ids the server gives out.

pub mod bank;
pub mod connection;
pub mod cycles;
pub mod faults;
pub mod history;
pub mod ids;
pub mod judge;
pub mod lists;
pub mod register;
pub mod result;
pub mod run;
pub mod table;
pub mod workload;

use std::path::PathBuf;
use std::time::Duration;

use crate::stage::ClusterKind;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct ConsistencyPlan {
    /// The kind of the cluster.
    pub cluster: ClusterKind,
    /// How long faults are injected; the last one is undone after that.
    pub seconds: u64,
    /// How long the workload runs directly on one server.
    pub direct_seconds: u64,
    /// The same seed gives the same faults in the same order.
    pub seed: u64,
    /// Longest pause of a client between two transactions, ms.
    pub pause_ms: u64,
    /// Whether reads outside transactions may run on replicas, through the port for writes.
    pub split: bool,
    /// Directory for configurations, logs and state of Understudy.
    pub dir: PathBuf,
}

impl ConsistencyPlan {
    /// Time limit of one statement of a client; one that is held during a failover is answered sooner.
    pub const STATEMENT_WITHIN: Duration = Duration::from_secs(30);
}
