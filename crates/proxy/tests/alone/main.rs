//! Tests that count or take what belongs to the whole process: they wait for one another, and no other test is in this program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod hostile;
mod local_resources;

use tokio::sync::Mutex;

/// Descriptors, tasks and memory are those of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());
