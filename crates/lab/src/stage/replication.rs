//! What of a stage is replication's: one primary that may be written, replicas that follow it by GTID, and how a server comes back.

mod account;
mod back;
mod config;
mod start;
mod word;

pub(super) use self::account::statements as accounts;
pub use self::account::{REPLICATION_PASSWORD, REPLICATION_USER};
pub(super) use self::config::node_lines;
pub(super) use self::word::ask;
pub use self::word::{ReplicationWord, SemiSync, Source};
