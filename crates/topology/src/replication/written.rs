//! What the primary reported last, as it is kept on disk: see [`super::remembered`].

use serde::{Deserialize, Serialize};

/// The primary's last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its address.
    pub address: String,
    /// Its position, in its own words.
    pub position: String,
    /// Where commits waited for a replica: a position up to which replicas had acknowledged all.
    pub acknowledged: String,
    /// Commits waited for a replica.
    pub waited: bool,
    /// For how long at the most, in milliseconds; `None` when it was not said.
    pub timeout_ms: Option<u64>,
    /// What it has of the primaries before it; see `copied.rs`.
    #[serde(default)]
    pub inherited: String,
}
