//! Slow logs as servers and tools write them, as we write them, and as nobody should: what is read from each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod dialects;
mod forms;
mod hostile;
mod order;
mod round_trip;
