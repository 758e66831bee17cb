//! What is known of the standbys' warmth, for status, and for the look before a switchover.

use api::warm;
use topology::preflight::{Standby, Warm};
use warmup::warmer::warming_table::WarmingTable;

/// See the head of this file.
#[derive(Clone)]
pub struct Warmth {
    /// Where it is shown how the replays go.
    pub warming_table: WarmingTable,
    /// What a planned switchover needs.
    pub require_percent: Option<u8>,
    /// The name of the source.
    pub source: String,
}

impl Warmth {
    /// For `status`.
    pub fn status(&self) -> warm::Warm {
        warm::Warm {
            source: self.source.clone(),
            require_percent: self.require_percent,
            standbys: self.warming_table.seen(),
        }
    }

    /// For the look before a switchover.
    pub fn before_switchover(&self) -> Warm {
        let standbys = self.warming_table.seen().into_iter().map(|seen| Standby {
            // One that is not warmed now gets colder unseen, and has no score.
            score_percent: seen.warmth.and_then(|warmth| Some(warmth.score?.percent)),
            sentence: match (seen.by, seen.why) {
                (Some(by), _) => format!("is warmed with what {by} is asked"),
                (None, why) => format!("is not warmed: {}", why.unwrap_or_default()),
            },
            name: seen.node,
        });
        Warm { require_percent: self.require_percent, standbys: standbys.collect() }
    }
}
