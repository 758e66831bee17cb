//! Keeps a standby's buffer pool warm: a slow log is followed on the active node, streamed, and replayed read-only on the standby.
//!
//! ```text
//!   active node                                                                        standby
//!   slow log ──> follow: bytes, in order, through every rotation ──> stream ──> HTTP ──> source ──> replay: its reads, and nothing else
//!                                                                 whole events       warmer: who is replayed what, and until when
//! ```
//!
//! Where an event begins and ends is decided by the crate `slowlog`; which node is active, by the manager. This crate reads files, speaks HTTP
//! and runs the replay's sessions.

pub mod access;
pub mod follow;
pub mod input;
pub mod pool;
mod recent;
pub mod replay;
pub mod rotate;
pub mod source;
pub mod stream;
pub mod tap;
pub mod warmer;
pub mod warmth;
