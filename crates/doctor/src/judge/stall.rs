//! How long Galera stalls writes when a member becomes silent, by its timeout settings.

use std::time::Duration;

use super::decisive::{ADVISED, NEEDS_RESTART};
use super::nodes::answered;
use super::units::seconds;
use crate::read::NodeFacts;

/// How long Galera itself stalls writes when a member becomes silent.
pub(super) enum Stall {
    /// All nodes have Galera's defaults.
    Defaults,
    /// All nodes have the advised values, or tighter ones.
    Advised,
    /// Other values; with the longest evs.suspect_timeout.
    Other(Duration),
    /// No node reported evs.suspect_timeout.
    Unknown,
}

impl Stall {
    pub(super) fn of(nodes: &[NodeFacts]) -> Self {
        let all = |key: &str, is: &dyn Fn(Duration) -> bool| {
            answered(nodes).all(|(_, said)| said.options.duration(key).is_some_and(is))
        };
        let exactly = |seconds| move |now: Duration| now == Duration::from_secs(seconds);
        let advised = |(key, ms, _): &(&str, u64, &str)| {
            *key == NEEDS_RESTART || all(key, &|now| now <= Duration::from_millis(*ms))
        };
        let suspect =
            answered(nodes).filter_map(|(_, said)| said.options.duration("evs.suspect_timeout")).max();
        match suspect {
            None => Self::Unknown,
            Some(_)
                if all("evs.suspect_timeout", &exactly(5)) && all("evs.inactive_timeout", &exactly(15)) =>
            {
                Self::Defaults
            }
            Some(_) if ADVISED.iter().all(advised) => Self::Advised,
            Some(suspect) => Self::Other(suspect),
        }
    }

    /// The text, with the stall measured for this case at the defaults and at the advised values.
    pub(super) fn sentence(&self, with_defaults: &str, with_advised: &str) -> String {
        match self {
            Self::Defaults => format!("{with_defaults} of stalled writes (measured with these defaults)"),
            Self::Advised => format!("{with_advised} of stalled writes (measured with these values)"),
            Self::Other(suspect) => format!("at least {} of stalled writes", seconds(*suspect)),
            Self::Unknown => "not known".to_owned(),
        }
    }
}
