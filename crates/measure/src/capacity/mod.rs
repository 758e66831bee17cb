//! How many transactions a second a node could apply at most, measured by letting it fall behind and watching it catch up.
//!
//! The procedure is that of "Measuring Max Replication Throughput on Percona XtraDB Cluster with wsrep_desync": the node goes on receiving and
//! stops applying for a minute; from when it may apply again until its queue is empty it applies as fast as it can.
//!
//! ```text
//!   precheck ─> out of traffic ─> baseline ─> desync ─> stop applying ─> hold ─> apply again ─> queue empty ─> resync ─> back in traffic
//!                                                              capacity = applied / time to catch up
//! ```
//!
//! Nothing here asks a server or a clock. [`precheck`] says what speaks against it, [`procedure`] what is to be done next, [`result`] what came of
//! it. [`passive`] estimates the same without stopping anything. Invariant of the procedure: whatever was ordered is undone in the reverse order, however the run ends.

pub mod passive;
pub mod precheck;
pub mod procedure;
pub mod reading;
pub mod result;
#[cfg(test)]
mod tests;
mod words;
