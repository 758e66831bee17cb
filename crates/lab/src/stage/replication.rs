//! The replication-specific part of a stage: one writable primary, replicas that replicate from it by GTID, and how a
//! server rejoins. The products' words are in `dialect`.

mod account;
mod back;
mod config;
mod dialect;
mod start;
mod word;

pub(super) use self::account::statements as accounts;
pub use self::account::{REPLICATION_PASSWORD, REPLICATION_USER};
pub(super) use self::config::{node_lines, template_lines};
pub(super) use self::dialect::words;
pub(super) use self::word::ask;
pub use self::word::{ReplicationWord, SemiSync, Source};
