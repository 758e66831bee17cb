//! What may be set about a primary with replicas, and about no other cluster.

use std::time::Duration;

/// What is done when the primary is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailoverPolicy {
    /// The best replica is promoted.
    #[default]
    Automatic,
    /// Who would be promoted, and why, is said; traffic is held until an operator orders a switchover.
    Manual,
}

/// Who decides which server is the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// This program.
    #[default]
    Understudy,
    /// Another one: whoever is writable is followed, and no server is given an order.
    External,
}

/// How the loss of the primary is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is done when it is lost.
    pub failover: FailoverPolicy,
    /// After an automatic failover the next one waits so long: what took one primary down may take the next. An operator's order does not
    /// wait. Kept over a restart of this program.
    pub failover_gap: Duration,
    /// A replica that was last seen to have received all that the primary had longer than this before the loss is not promoted without an
    /// order.
    pub behind_max: Duration,
    /// Nothing is done that was not ordered: no failover, no server made read only, none told whom to follow. What would have been done is said.
    pub dry_run: bool,
    /// Who moves the primary. With another manager the settings above mean nothing.
    pub manager: Manager,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failover: FailoverPolicy::default(),
            failover_gap: Duration::from_secs(60),
            behind_max: Duration::from_secs(30),
            dry_run: false,
            manager: Manager::default(),
        }
    }
}
