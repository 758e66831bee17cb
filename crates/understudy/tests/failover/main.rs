//! `understudy serve` before real clusters whose nodes die, hang, vanish or are moved, while clients write.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod all_gone;
mod external;
mod grey;
mod lost_member;
mod replication;
mod replication_faults;
mod tls;
mod unread_result;
mod versions;
mod whole_path;
