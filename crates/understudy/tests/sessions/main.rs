//! What clients of a running `serve` see on real clusters: sessions that read what they wrote, on every port, through drivers of other
//! languages, and while crowds mean harm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod attack;
mod clients;
mod drivers;
mod own_writes;
mod read_port;
mod readers;
mod split;
