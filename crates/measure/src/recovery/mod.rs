//! Forecasts how long a node may be away before it needs a full copy, and measures restarts.

pub mod absence;
pub mod busiest;
pub mod copied;
pub mod galera;
pub mod log;
pub mod replication;
pub mod restart;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a node that is away needs when it returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forecast {
    /// Only what it missed, if it returns within this time from now. `None`: no limit is in sight, since nothing is written or nothing is
    /// deleted.
    Missed(Option<Duration>),
    /// It needs a full copy.
    FullCopy(Reason),
    /// Some of the servers that it could replicate from have what it missed, and some do not: it depends on which one is chosen. For
    /// replication only: Galera chooses a donor that has it.
    DependsOnSource(Option<Duration>),
}

/// Why a node needs a full copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No other node still has all that it missed.
    Gone,
    /// Its data have another history than the cluster's.
    OtherHistory,
    /// It has something that no other node has.
    Ahead,
    /// It has no position: it is empty, or it crashed and `--wsrep-recover` was not run.
    NoPosition,
}

/// The rate of writes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteRate {
    /// Bytes per second that a node misses while it is away.
    pub bytes_per_s: f64,
    /// Transactions per second.
    pub transactions_per_s: f64,
}

impl WriteRate {
    /// The rate with the most bytes: a node that sees fewer writes than others must not lower the result.
    pub fn highest(rates: impl Iterator<Item = Self>) -> Option<Self> {
        rates.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
    }
}

impl Forecast {
    /// The forecast when it is not known from which of several sources the node will replicate; `each` is the forecast with one of them.
    /// Only what all can provide is certain. Without any source only a full copy is left.
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
        // `None` means without end.
        if each.iter().all(|one| matches!(one, Self::Missed(_))) {
            return Self::Missed(windows.into_iter().flatten().min());
        }
        let is_endless = windows.contains(&None);
        Self::DependsOnSource(if is_endless { None } else { windows.into_iter().flatten().max() })
    }

    /// How long from now the node may still return without a full copy; `None` means without end, zero that it needs one already.
    pub fn window(self) -> Option<Duration> {
        match self {
            Self::Missed(window) | Self::DependsOnSource(window) => window,
            Self::FullCopy(_) => Some(Duration::ZERO),
        }
    }
}

/// How long `amount` lasts at `per_s` per second; `None` when it never ends, or not in the lifetime of a server.
fn lasting(amount: f64, per_s: f64) -> Option<Duration> {
    (per_s > 0.0).then(|| Duration::try_from_secs_f64(amount.max(0.0) / per_s).ok()).flatten()
}

/// How long a full copy of `bytes` takes at `bytes_per_s`; `None` when that speed is zero.
pub fn full_copy(bytes: u64, bytes_per_s: f64) -> Option<Duration> {
    lasting(bytes as f64, bytes_per_s)
}
