//! What an operator does beside a failover: looks before an order, changes the configuration, recovers and measures nodes, moves an address, and
//! goes on with MHA's commands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod capacity;
mod errant;
mod explain;
mod hooks;
mod masterha;
mod mysql;
mod preflight;
mod recovery_binlogs;
mod recovery_forecast;
mod recovery_ndb;
mod reload;
mod setup;
mod vip;
