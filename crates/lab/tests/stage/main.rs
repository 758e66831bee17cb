//! The lab's stage on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod clients;
mod galera;
mod leftovers;
mod replication;
mod slowlog;
mod versions;

/// One stage at a time: on two cores, each of two stages would slow the other down.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
