//! The shell around [`topology::brain::Brain`]: it watches the nodes, carries out decisions, and keeps what must survive a restart.
//!
//! ```text
//!   probe (a task per node) ──Note──┐                          ┌──> routes, view   (watch: newest wins)
//!   facts from the proxy ───────────┼──> cycle: owns the Brain ┼──> store, journal (own thread, SQLite)
//!   orders ─────────────────────────┘        ^                 └──> act: barrier, accounts; evict; hurry, tables; replication
//!                                            └────── outcomes, as facts ──────┘
//! ```
//!
//! Every task has an owner that learns of its end, including a panic. A probe or a pacer is started again (and its node counts as not
//! answering meanwhile), the store's thread opens its file again, and the end of a task that cannot be started again ends the manager, and
//! the program with it.
//!
//! Everything here runs on a thread of its own with its own runtime: if the proxy could delay a probe, a busy proxy would look like a slow node.

mod abandoned;
mod accounts;
mod act;
mod advice;
mod aliases;
mod bootstrap;
mod cycle;
mod events;
mod evict;
mod failed;
pub mod follower;
mod group;
mod heartbeat;
mod hurry;
mod journal;
mod loan;
mod loans;
mod means;
mod note;
mod pacer;
mod preflight;
mod probe;
mod question;
mod reading;
mod replication;
mod reported;
pub mod rights;
pub mod rival;
mod samples;
mod settings;
mod start;
mod store;
mod tables;
mod tasks;
mod watched;

pub use act::account_table;
pub use advice::{account_for, grants_for, grants_with, mysql_grants};
pub use aliases::{as_configured, tells_apart};
pub use bootstrap::{Trial, try_proof};
pub use group::Group;
pub use journal::Journal;
pub use preflight::{DEADLINE_ASKED, DEADLINE_ORDERED, Preflight, purged, session_defaults, unlogged};
pub use reading::{ServerReading, channel_rows, channels};
pub use samples::Samples;
pub use settings::{Account, Settings};
pub use start::{Handles, Orders, StartError, Stop, begin_after, start};
pub use store::{Marks, StoreError, remembered};
pub use topology::brain::NotTaken;
