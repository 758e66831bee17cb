//! How long may a node be away before it needs a full copy?

pub mod absence;
pub mod busiest;
pub mod copied;
pub mod galera;
pub mod log;
pub mod replication;
pub mod restart;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a node that stays away for some time needs when it returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forecast {
    /// What it missed is enough, if it returns within this time from now. `None`: for as long as nothing is written.
    Missed(Option<Duration>),
    /// Only a full copy brings it back.
    FullCopy(Reason),
    /// Some of the servers that it could follow have what it missed, and some have not: which it is depends on who is chosen. Of replication only: Galera
    /// chooses a donor that has it.
    DependsOnSource(Option<Duration>),
}

/// Why only a full copy brings a node back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Nobody has all that it missed any more.
    Gone,
    /// Its data are of another history than the cluster's.
    OtherHistory,
    /// It has something that no other node has.
    Ahead,
    /// It has no position: it is empty, or crashed and was not asked by `--wsrep-recover`.
    NoPosition,
}

/// How fast a cluster is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteRate {
    /// Bytes that a node that is away misses in a second.
    pub bytes_per_s: f64,
    /// Transactions in a second.
    pub transactions_per_s: f64,
}

impl WriteRate {
    /// The one of these with the most bytes: a node that sees less of the writes than others does not slow them down.
    pub fn highest(rates: impl Iterator<Item = Self>) -> Option<Self> {
        rates.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
    }
}

impl Forecast {
    /// What holds where it is not known which of several sources the node will have, `each` being the forecast with one of them: only what all can do is
    /// certain. Without any source nothing but a full copy is left.
    pub fn of_all(each: &[Self]) -> Self {
        let windows: Vec<Option<Duration>> = each
            .iter()
            .filter_map(|one| match one {
                Self::Missed(window) | Self::DependsOnSource(window) => Some(*window),
                Self::FullCopy(_) => None,
            })
            .collect();
        if windows.is_empty() {
            return Self::FullCopy(Reason::Gone);
        }
        // `None` is for ever.
        if each.iter().all(|one| matches!(one, Self::Missed(_))) {
            return Self::Missed(windows.into_iter().flatten().min());
        }
        let is_endless = windows.contains(&None);
        Self::DependsOnSource(if is_endless { None } else { windows.into_iter().flatten().max() })
    }

    /// For how long from now the node may still return without a full copy; `None` for ever.
    pub fn window(self) -> Option<Duration> {
        match self {
            Self::Missed(window) | Self::DependsOnSource(window) => window,
            Self::FullCopy(_) => Some(Duration::ZERO),
        }
    }
}

/// `amount` at `per_s` of it in a second; `None` when it never ends, or not in the lifetime of a server.
fn lasting(amount: f64, per_s: f64) -> Option<Duration> {
    (per_s > 0.0).then(|| Duration::try_from_secs_f64(amount.max(0.0) / per_s).ok()).flatten()
}

/// How long a full copy takes, when `bytes` are copied at `bytes_per_s`.
pub fn full_copy(bytes: u64, bytes_per_s: f64) -> Option<Duration> {
    lasting(bytes as f64, bytes_per_s)
}
