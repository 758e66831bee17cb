//! The lab: starts real clusters on this machine, runs open-loop load, injects faults, checks a ledger, and reports the results.
//!
//! It runs what it tests as a program, as a user would.

pub mod bench;
pub mod capacity;
pub mod checker;
pub mod command;
pub mod consistency;
pub mod failover;
pub mod fault;
pub mod figures;
pub mod ledger;
pub mod load;
pub mod peer;
pub mod program;
pub mod recovery;
pub mod stage;
pub mod trace;
pub mod vip;
pub mod warm;
