//! For how long each node may be away before it needs a full copy; computed by `doctor`.

use std::time::Duration;

use measure::recovery::{Forecast, Reason};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use topology::kind::Kind;

/// The facts about the whole cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Summary {
    /// The rate of writes: bytes of writesets, or of binary logs, per second.
    pub write_bytes_per_s: f64,
    /// Transactions per second.
    pub transactions_per_s: f64,
    /// For how long those rates were measured, in seconds.
    pub window_s: f64,
    /// The rate of writes in the busiest minute of the last hour, where that is known.
    pub busiest_write_bytes_per_s: Option<f64>,
    /// What a full copy has to transfer, in bytes.
    pub full_copy_bytes: Option<u64>,
    /// The speed of the last observed full copy, in bytes per second.
    pub copied_bytes_per_s: Option<f64>,
    /// What is not known, and what would make it known; one sentence each.
    pub notes: Vec<String>,
}

/// One node's row.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Outlook {
    /// Its name.
    pub node: String,
    /// Its state, in one word.
    pub state: String,
    /// Its position: a number (Galera), or GTIDs.
    pub position: Value,
    /// The oldest writeset in its gcache (Galera).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_downto: Option<u64>,
    /// The size of its gcache, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcache_bytes: Option<u64>,
    /// Its binary logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binlogs: Option<Binlogs>,
    /// How it would return now.
    pub returns_by: Option<Way>,
    /// Why it needs a full copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Reason>,
    /// The members that can send what it misses, if not all can (Galera).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub donors: Vec<String>,
    /// It is in service.
    pub is_there: bool,
    /// How long it has been away, in seconds, if its departure was seen.
    pub away_s: Option<f64>,
    /// It was last seen by an earlier run of the program: `away_s` is an upper limit.
    pub is_remembered: bool,
    /// How long from now it may be away, in seconds; `None` when there is no limit, or nothing is known.
    pub away_max_s: Option<f64>,
    /// The same at the rate of the busiest minute of the last hour.
    pub busiest_away_max_s: Option<f64>,
    /// All that as a sentence.
    pub sentence: String,
    /// Why there is no forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a node would return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Way {
    /// What it missed is sent from a gcache (IST).
    #[serde(rename = "ist")]
    Ist,
    /// The whole database is copied by Galera (SST).
    #[serde(rename = "sst")]
    Sst,
    /// What it missed is read from binary logs.
    #[serde(rename = "binlogs")]
    Binlogs,
    /// It has to be cloned again.
    #[serde(rename = "clone")]
    Clone,
    /// Some, but not all, of the servers that it could replicate from have what it missed.
    #[serde(rename = "depends on the source")]
    Source,
}

impl Way {
    /// The way that a forecast comes to.
    pub fn of(kind: Kind, forecast: Forecast) -> Self {
        match (kind, forecast) {
            // Galera itself chooses a donor that has what is missing.
            (Kind::Galera, Forecast::Missed(_) | Forecast::DependsOnSource(_)) => Self::Ist,
            (Kind::Galera, Forecast::FullCopy(_)) => Self::Sst,
            (Kind::Replication, Forecast::Missed(_)) => Self::Binlogs,
            (Kind::Replication, Forecast::FullCopy(_)) => Self::Clone,
            (Kind::Replication, Forecast::DependsOnSource(_)) => Self::Source,
        }
    }

    /// Whether it is a way of Galera.
    pub fn is_galera(self) -> bool {
        matches!(self, Self::Ist | Self::Sst)
    }
}

impl Outlook {
    /// The forecast that the row's values come from.
    pub fn forecast(&self) -> Option<Forecast> {
        let window = self.away_max_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Some(match self.returns_by? {
            Way::Ist | Way::Binlogs => Forecast::Missed(window),
            Way::Source => Forecast::DependsOnSource(window),
            Way::Sst | Way::Clone => Forecast::FullCopy(self.because.unwrap_or(Reason::Gone)),
        })
    }

    /// Whether it is in service and could return without a full copy, now and after `away`, also at the busiest minute's rate of writes.
    pub fn is_well(&self, away: Option<Duration>) -> bool {
        let busiest = self.busiest_away_max_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        match self.forecast() {
            Some(Forecast::Missed(window)) => {
                let is_long = |window: &Duration| away.is_none_or(|away| *window >= away);
                self.is_there && window.iter().chain(&busiest).all(is_long)
            }
            _ => false,
        }
    }
}

/// A server's binary logs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Binlogs {
    /// Their total size, in bytes.
    pub bytes: u64,
    /// The size of the newest file, in bytes.
    pub newest_bytes: u64,
    /// The oldest one's name.
    pub oldest: Option<String>,
    /// The GTIDs before the oldest file: a server that lacks any of them cannot replicate from here. `None` when the account may not read
    /// it.
    pub purged: Option<String>,
    /// Older files are deleted, in seconds; `None`: no age limit.
    pub age_max_s: Option<u64>,
    /// Beyond this total size the oldest files are deleted, in bytes; `None`: no size limit.
    pub bytes_max: Option<u64>,
    /// The account may not list the files.
    pub is_hidden: bool,
    /// The files with their sizes, oldest first.
    #[serde(skip)]
    pub files: Vec<(String, u64)>,
}

impl Binlogs {
    /// Bytes written since an earlier reading of the same server; a lower limit when the newest file of that reading is gone.
    pub fn grown_since(&self, earlier: &Self) -> u64 {
        let Some((last, had)) = earlier.files.last() else { return self.bytes };
        match self.files.iter().position(|(name, _)| name == last) {
            Some(place) => {
                self.files[place..].iter().map(|(_, bytes)| *bytes).sum::<u64>().saturating_sub(*had)
            }
            None => self.bytes,
        }
    }
}
