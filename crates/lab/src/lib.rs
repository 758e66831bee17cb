//! The lab: starts real clusters on this machine, drives open-loop load, breaks nodes, checks a ledger, and prints what came of it.
//!
//! It links none of Understudy's other crates: what it tests, it runs as a user would, as a program.

pub mod bench;
pub mod capacity;
pub mod checker;
pub mod command;
pub mod failover;
pub mod fault;
pub mod figures;
pub mod ledger;
pub mod load;
pub mod recovery;
pub mod report;
pub mod stage;
pub mod trace;
pub mod vip;
pub mod warm;
