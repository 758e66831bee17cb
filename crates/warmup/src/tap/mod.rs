//! The proxy as the source: reads that its clients have their answers of, in place of a slow log.
//!
//! ```text
//!   proxy's tap ──> a bounded queue ──┬──> log: entries of a slow log, each connection's state before its first read ──> replay, or HTTP
//!                                     └──> mirror: run at once on the standby, in no order (a share of them)
//! ```
//!
//! The active node has nothing to do with either, and no client waits for them: what does not fit the queue is left out, and counted.

pub mod log;
pub mod mirror;
