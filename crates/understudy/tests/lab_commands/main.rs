//! The lab's commands, and its load generator that answers to `sysbench`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod bench_health;
mod capacity;
mod consistency;
mod mha_baseline;
mod recovery;
mod sysbench;
mod warm;
