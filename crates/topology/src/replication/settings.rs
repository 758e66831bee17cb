//! Settings of a primary with replicas.

use std::time::Duration;

/// What is done when the primary is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailoverPolicy {
    /// The best replica is promoted.
    #[default]
    Automatic,
    /// The log says who would be promoted, and why; traffic waits until an operator orders a switchover.
    Manual,
}

/// Who decides which server is the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// This program.
    #[default]
    Understudy,
    /// Another program. Writes go to the server that is writable, and no server gets an order.
    External,
}

/// How the loss of the primary is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is done when it is lost.
    pub failover: FailoverPolicy,
    /// The least time between an automatic failover and the next: what took one primary down may take down its successor. An operator's
    /// order does not wait. Remembered over a restart of this program.
    pub failover_gap: Duration,
    /// A replica is not promoted without an order if it was last known to have all of the primary's transactions longer than this before the loss.
    pub behind_max: Duration,
    /// Nothing is changed without an order: no failover, no server is made read only or a replica. The log says what would have been done.
    pub dry_run: bool,
    /// Who moves the primary. With another manager the settings above mean nothing.
    pub manager: Manager,
}

impl Settings {
    /// Whether another manager moves the primary.
    pub(crate) fn is_external(&self) -> bool {
        self.manager == Manager::External
    }
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
