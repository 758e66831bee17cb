//! The capacity of a node: the highest number of transactions a second that it can apply, measured by letting it fall behind and observing
//! how fast it catches up.
//!
//! The procedure follows "Measuring Max Replication Throughput on Percona XtraDB Cluster with wsrep_desync". The node continues to receive
//! and stops applying for a minute. After that it applies as fast as it can until its queue is empty.
//!
//! ```text
//!   precheck ─> out of traffic ─> baseline ─> desync ─> stop applying ─> hold ─> apply again ─> queue empty ─> resync ─> back in traffic
//!                                                              capacity = applied / time to catch up
//! ```
//!
//! Nothing here queries a server or reads a clock. [`precheck`] lists the reasons against a measurement, [`procedure`] decides the next
//! step, [`result`] computes the figures, and [`passive`] estimates the capacity without stopping anything. Invariant of the procedure:
//! every order is undone, in the reverse order, however the run ends.

pub mod passive;
pub mod precheck;
pub mod procedure;
pub mod reading;
pub mod result;
#[cfg(test)]
mod tests;
mod words;
