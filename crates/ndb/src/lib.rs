//! Reads NDB Cluster's logs and `ndbinfo.restart_info`: which node restarted when, where its data came from, and how long each part took.
//!
//! Text in, findings out; no I/O. The formats are those of NDB 4.1 to 9.x.
//!
//! ```text
//!   pieces --Lines--> entry::Entry --event::of--> Event --restart::Story--> Restart, Checkpoint
//!                                  '--node_log::NodeLog (a data node's own log)--> OwnStart
//!   Restart + OwnStart --verdict--> where the data came from; what the rule of three checkpoints predicts
//!   restart_info (a table)          advice: TimeBetweenLocalCheckpoints
//! ```
//!
//! Invariants: what is not in the text is `None` or "not known", never a guess; no input makes this crate panic or keep more than its
//! stated limits.

pub mod advice;
mod cluster;
mod entry;
mod event;
mod node_log;
pub mod restart;
pub mod restart_info;
mod time;
pub mod verdict;
mod wrong;

pub use cluster::{ClusterLog, Log, Window};
pub use event::{Start, Version};
pub use node_log::{NodeLog, Own, OwnStart};
pub use time::{Moment, seconds};
pub use wrong::{Note, Wrong};
