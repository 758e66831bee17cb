//! How warm a standby is, and how many disk reads a failover to it would cost.
//!
//! ```text
//!   the active node's slow log ──> tap ──────────────────────────> replay (all of it, one in N, or no replay at all)
//!                                   │
//!                                   ├─ a random read, up to 20 a second ──> ANALYZE FORMAT=JSON on the standby ──> score
//!                                   └─ window: the reads of two minutes that the standby is not replayed
//!                                                       │ at its end
//!   the standby's own disk reads in the window  ────────┤
//!   its disk reads when it runs those of the window ────┴──> forecast
//! ```
//!
//! **The score** is the share of the active node's page accesses that the standby would serve from memory: 1 - pages read / pages accessed.
//! It is estimated from a random sample of reads, each run on the standby before the replay runs it there.
//!
//! **The forecast** assumes that the next window of traffic is like the last one. Had the standby taken over at the beginning of the
//! window, it would have read from disk the pages that this traffic needs. It ran part of the traffic as a replay, and its own counter
//! gives the disk reads of that part. The rest is run after the end of the window, in its original order, and its page reads are counted;
//! repetitions that would find their pages in memory anyway are skipped. If the replay runs everything, nothing remains to be run. The
//! arithmetic is in [`forecast`].
//!
//! Only reads that [`crate::replay::guard`] lets pass are run, in sessions of [`crate::replay::target`], which cannot write.

mod analyze;
pub mod forecast;
mod meter;
mod probe;
pub mod score;
mod server;
mod tap;
mod window;

use std::time::{Duration, SystemTime};

pub use forecast::{Forecast, Method};
pub use meter::{Meter, Settings};
pub use score::Score;
pub use server::Means;
pub use tap::{Replayed, Tap, Tapped};

/// The present result for one standby.
#[derive(Clone, Debug, PartialEq)]
pub struct Warmth {
    /// The share of page accesses that the standby would serve from memory; `None` while it is unknown.
    pub score: Option<Score>,
    /// The same for the active node, from its own slow log (`log_slow_verbosity = engine`); `None` when the log does not contain it.
    pub active_score: Option<f64>,
    /// Reads chosen for the score in this window that count for nothing: they failed on the standby, or the server's answer did not tell their
    /// pages.
    pub unjudged: u64,
    /// What a failover at the beginning of the last complete window would have cost; `None` before the end of the first window.
    pub forecast: Option<Forecast>,
    /// When this result was determined.
    pub at: SystemTime,
    /// How long a window is, and so the time for which disk reads are forecast.
    pub window: Duration,
    /// Why the score or the forecast is unknown or less precise than it could be, as a sentence.
    pub why_unknown: Option<String>,
}

impl Warmth {
    /// As it is shown.
    pub fn told(&self) -> api::warm::Warmth {
        api::warm::Warmth {
            sentence: self.sentence(),
            score: self.score.as_ref().map(|score| api::warm::Score {
                percent: score.share * 100.0,
                low_percent: score.low * 100.0,
                high_percent: score.high * 100.0,
                statements: score.statements,
                is_coarse: score.is_coarse,
            }),
            unjudged: self.unjudged,
            active_percent: self.active_score.map(|share| share * 100.0),
            forecast: self.forecast.as_ref().map(|forecast| api::warm::Forecast {
                disk_reads: forecast.disk_reads,
                low: forecast.low,
                high: forecast.high,
                method: forecast.method.name().to_owned(),
                window_s: self.window.as_secs(),
            }),
            why_unknown: self.why_unknown.clone(),
            age_s: self.at.elapsed().map_or(0, |age| age.as_secs()),
        }
    }

    /// No result yet.
    fn unknown(window: Duration) -> Warmth {
        Warmth {
            score: None,
            active_score: None,
            unjudged: 0,
            forecast: None,
            at: SystemTime::now(),
            window,
            why_unknown: Some("no read of the active node was seen yet".to_owned()),
        }
    }

    /// The result as a sentence.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if let Some(score) = &self.score {
            let mut part = format!(
                "{:.1} % of page accesses would be served from memory ({:.1} to {:.1} %, {} statements sampled{})",
                score.share * 100.0,
                score.low * 100.0,
                score.high * 100.0,
                score.statements,
                if score.is_coarse { ", by the server's global counters" } else { "" }
            );
            if let Some(active) = self.active_score {
                part += &format!("; the active node served {:.1} %", active * 100.0);
            }
            parts.push(part);
        }
        if self.unjudged > 0 {
            parts.push(format!("{} sampled reads could not be judged and count for nothing", self.unjudged));
        }
        if let Some(forecast) = &self.forecast {
            parts.push(format!(
                "a failover would read {} pages from disk in the first {} s ({} to {}; {})",
                forecast.disk_reads,
                self.window.as_secs(),
                forecast.low,
                forecast.high,
                forecast.method.words()
            ));
        }
        parts.extend(self.why_unknown.clone());
        parts.join("; ")
    }
}
