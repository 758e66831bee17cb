//! What an operator does beside the running program: measures capacity and recovery, brings back a cluster that has stopped, looks after
//! transactions that only one server has, keeps an address on a machine, and warms standbys by hand. One folder or file a command.

pub mod budget;
pub mod capacity;
pub mod errant;
pub mod lab;
pub mod pool;
pub mod recovery;
pub mod replay;
pub mod setup;
pub mod slowlog;
pub mod streamer;
pub mod vip;
pub mod warm;
pub mod warmth;
