//! What is known of the standbys' warmth, for status, and for the look before a switchover.

use serde_json::{Value, json};
use topology::preflight::{Standby, Warm};
use warmup::warmer::warming_table::{Seen, State, WarmingTable};
use warmup::warmth::Score;

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
    pub fn status(&self) -> Value {
        let standbys: Vec<Value> = self.warming_table.seen().iter().map(standby).collect();
        json!({
            "source": self.source,
            "require_percent": self.require_percent,
            "standbys": standbys,
        })
    }

    /// For the look before a switchover.
    pub fn before_switchover(&self) -> Warm {
        let standbys = self.warming_table.seen().into_iter().map(|seen| Standby {
            score_percent: score(&seen).map(|score| score.share * 100.0),
            sentence: match &seen.state {
                State::Warmed { by } => format!("is warmed with what {by} is asked"),
                State::Failing { why } | State::Off { why } => format!("is not warmed: {why}"),
            },
            name: seen.standby,
        });
        Warm { require_percent: self.require_percent, standbys: standbys.collect() }
    }
}

/// How warm it is. A standby that is not warmed now gets colder unseen: then nothing is known.
fn score(seen: &Seen) -> Option<&Score> {
    seen.warmth.as_ref()?.score.as_ref()
}

fn standby(seen: &Seen) -> Value {
    let (state, by, why) = match &seen.state {
        State::Warmed { by } => ("warmed", Some(by), None),
        State::Failing { why } => ("failing", None, Some(why)),
        State::Off { why } => ("off", None, Some(why)),
    };
    let totals = &seen.totals;
    json!({
        "node": seen.standby,
        "state": state,
        "by": by,
        "why": why,
        "executed": totals.executed,
        "late": totals.late,
        "left_out": totals.left_out,
        "errors": totals.errors,
        "dropped_bytes": totals.dropped_bytes,
        "unparsed_bytes": totals.unparsed_bytes,
        "corrected_times": totals.corrected,
        "lag_ms": seen.lag.as_millis() as u64,
        "waiting": seen.waiting,
        "sessions": seen.sessions,
        "warmth": seen.warmth.as_ref().map(measured),
    })
}

fn measured(warmth: &warmup::warmth::Warmth) -> Value {
    json!({
        "sentence": warmth.sentence(),
        "score": warmth.score.as_ref().map(|score| {
            json!({ "percent": score.share * 100.0, "low_percent": score.low * 100.0, "high_percent": score.high * 100.0,
                    "statements": score.statements, "is_coarse": score.is_coarse })
        }),
        "unjudged": warmth.unjudged,
        "active_percent": warmth.active_score.map(|share| share * 100.0),
        "forecast": warmth.forecast.as_ref().map(|forecast| {
            json!({ "disk_reads": forecast.disk_reads, "low": forecast.low, "high": forecast.high,
                    "method": forecast.method.name(), "window_s": warmth.window.as_secs() })
        }),
        "why_unknown": warmth.why_unknown,
        "age_s": warmth.at.elapsed().map_or(0, |age| age.as_secs()),
    })
}
