//! The lab: starts real clusters on this machine, runs open-loop load, injects faults, checks a ledger, and reports the results.
//!
//! It runs what it tests as a program, as a user would.

mod bench;
mod capacity;
pub mod checker;
pub mod command;
mod consistency;
mod experiment;
mod failover;
pub mod fault;
mod figures;
pub mod ledger;
mod load;
mod output;
mod peer;
mod program;
mod recovery;
pub mod stage;
mod trace;
mod vip;
mod wait;
mod warm;
