//! What must be true of a server's variables: one row a rule, with what each reader says of it. Pure data and tests of values; no I/O.
//!
//! ```text
//!   row: name, test ──┬── before a move:   a row of `switchover --check`      (../preflight)
//!                     ├── at rest:         a finding of `understudy doctor`   (doctor/src/replication/judge.rs)
//!                     └── at start:        a line of `serve --check`          (doctor/src/servers.rs)
//! ```
//!
//! To add a rule, add a row to [`variables::ALL`]: the readers ask the servers for what the rows name. The rules about a server's status,
//! which are read live, are in `replication/words.rs` and `galera/words.rs`; the monitor account's privileges in `manager/src/rights.rs`.

pub mod variables;

/// The severity of what is found at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Must be corrected: something does not work.
    Problem,
    /// Works now, but will cause trouble in some situation.
    Warning,
    /// Could be better.
    Advice,
}
