//! What must be true of a server: one row a rule, with what each reader says of it. Pure data and tests of values; no I/O.
//!
//! | table | read live | before a move | at rest | at start |
//! |---|---|---|---|---|
//! | [`variables::ALL`] | | yes | yes | yes |
//! | [`privileges::ALL`] | yes | yes | yes | yes |
//! | [`crate::replication::words`](mod@crate::replication::words), [`crate::galera::words`](mod@crate::galera::words): a server's status | yes | yes | | yes |
//!
//! Live: what `status` and the journal say (the brain; `manager/src/advice.rs`). Before a move: a row of `switchover --check`
//! ([`crate::preflight`]). At rest: a finding of `understudy doctor` (`doctor/src/replication/judge.rs`). At start: a line of `understudy serve
//! --check` (`doctor/src/servers.rs`).
//!
//! To add a rule about a variable or a privilege, add its row: the readers ask the servers for what the rows name.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

pub mod privileges;
pub mod variables;

/// The severity of what is found at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Must be corrected: something does not work.
    Problem,
    /// Works now, but will cause trouble in some situation.
    Warning,
    /// Could be better.
    Advice,
}

/// The result of a check before a move. A greater value is more serious.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// The node does not answer, and its earlier answers do not count.
    Unknown,
    /// The switchover will succeed, but somebody should know about this.
    Note,
    /// The switchover may take long, or be undone at the end of its budget.
    Slow,
    /// The switchover is not tried without force.
    #[serde(other)]
    Fails,
}

impl Severity {
    /// As tables show it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
