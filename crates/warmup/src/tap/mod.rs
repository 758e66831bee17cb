//! The proxy as the source of a replay, instead of a slow log: the reads that it has answered.
//!
//! ```text
//!   proxy's tap ──> a bounded queue ──> log: entries of a slow log, each connection's state before its first read ──> replay, or HTTP
//! ```
//!
//! It puts no load on the active node, and no client waits for it: reads that do not fit into the queue are left out and counted.

pub mod log;
