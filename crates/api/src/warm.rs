//! How warm the standbys are kept.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What keeps the standbys warm.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Warm {
    /// Where the reads come from: `slow-log` or `proxy`.
    pub source: String,
    /// What a planned switchover needs.
    pub require_percent: Option<u8>,
    pub standbys: Vec<Standby>,
}

/// One standby.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Standby {
    pub node: String,
    /// `warmed`, `failing` (it should be, and cannot be at present) or `off`.
    pub state: Cow<'static, str>,
    /// With what that node is asked, while it is warmed.
    pub by: Option<String>,
    /// Why it is not.
    pub why: Option<String>,
    #[serde(flatten)]
    pub totals: Totals,
    /// How far the replay is behind what was read, in recorded time.
    pub lag_ms: u64,
    /// Statements that wait to be run.
    pub waiting: u64,
    /// Sessions on the standby.
    pub sessions: u64,
    /// How warm it is; `None` while no replay runs, since warmth is only measured during one.
    pub warmth: Option<Warmth>,
}

/// Counts since the program started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Totals {
    /// Statements that succeeded.
    pub executed: u64,
    /// Statements that were left out because they had waited longer than the allowed lag.
    pub late: u64,
    /// Events that were left out because of their kind, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Statements that failed, by class.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of the log that the streamer skipped because this reader was too far behind.
    pub dropped_bytes: u64,
    /// Bytes that belong to no event.
    pub unparsed_bytes: u64,
    /// Events whose times are far from the log's clock; they count as having run when they were written.
    pub corrected_times: u64,
}

impl Totals {
    /// Statements that failed, of all classes.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// How warm a standby is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Warmth {
    pub sentence: String,
    pub score: Option<Score>,
    /// Reads chosen for the score that count for nothing.
    pub unjudged: u64,
    /// The score of the active node.
    pub active_percent: Option<f64>,
    pub forecast: Option<Forecast>,
    /// Why the score or the forecast is unknown or less precise than it could be.
    pub why_unknown: Option<String>,
    /// How long ago this was determined.
    pub age_s: u64,
}

/// The share of page accesses that the standby would serve from memory, and the ends of its 95 % interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Score {
    pub percent: f64,
    pub low_percent: f64,
    pub high_percent: f64,
    /// Statements in the sample.
    pub statements: u64,
    /// The pages are those of the whole server, with other sessions' accesses.
    pub is_coarse: bool,
}

/// The pages that would have been read from disk after a failover, and the ends of the 95 % interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Forecast {
    pub disk_reads: u64,
    pub low: u64,
    pub high: u64,
    /// How it was made.
    pub method: String,
    /// In so long.
    pub window_s: u64,
}
