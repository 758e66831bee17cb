//! How long may a node be away before it needs a full copy?

pub mod absence;
pub mod busiest;
pub mod galera;
pub mod log;
pub mod replication;
pub mod restart;

use std::time::Duration;

/// What a node that stays away for some time needs when it returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forecast {
    /// What it missed is enough, if it returns within this time from now. `None`: for as long as nothing is written.
    Missed(Option<Duration>),
    /// Nobody has all that it missed: only a full copy brings it back.
    FullCopy,
    /// Some of the others have what it missed, and some have not: which it is depends on who is chosen as its source.
    DependsOnSource(Option<Duration>),
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
    /// What holds where one of several sources is chosen by others, `each` being the forecast with one of them: only what all can do is certain.
    /// Without any source nothing but a full copy is left.
    pub fn of_all(each: &[Self]) -> Self {
        let windows: Vec<Option<Duration>> = each
            .iter()
            .filter_map(|one| match one {
                Self::Missed(window) | Self::DependsOnSource(window) => Some(*window),
                Self::FullCopy => None,
            })
            .collect();
        if windows.is_empty() {
            return Self::FullCopy;
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
            Self::FullCopy => Some(Duration::ZERO),
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
