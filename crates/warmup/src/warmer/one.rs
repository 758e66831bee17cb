//! The task of one standby: connects to the source of reads and replays them; after an error it starts again, until it is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use link::LinkError;
use tokio::io::AsyncRead;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::warming_table::State;
use super::{Feed, LogMessage, WarmerContext};
use crate::replay::figures::Figures;
use crate::replay::target::Target;
use crate::replay::{self};
use crate::source::{self, SourceError};
use crate::tap::log;
use crate::warmth::Meter;

/// The pause after a failed attempt; it doubles each time, unless a replay ran for longer than the longest pause.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// The interval of logging figures.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// A standby, and the source of its replay.
pub(super) struct One {
    pub standby: String,
    pub active: String,
    /// The active node, by the account that reads.
    pub asked: Target,
    pub feed: Feed,
    pub target: Arc<Target>,
    pub figures: Arc<Figures>,
    pub context: Arc<WarmerContext>,
}

impl One {
    /// Runs until it is dropped, even after a panic in an attempt: that costs only this standby's warmth.
    pub(super) async fn run(self: Arc<Self>) -> Infallible {
        let mut place = None;
        let mut again = AGAIN_MIN;
        let mut said = String::new();
        loop {
            let begin = Instant::now();
            let mut attempt = JoinSet::new();
            attempt.spawn(self.figures.running.counted(Arc::clone(&self).attempt(place.take())));
            let why = tokio::select! {
                ended = attempt.join_next() => match ended {
                    Some(Ok((next, why))) => {
                        place = next;
                        why
                    }
                    _ => "its replay ended with a defect of Understudy, which is in the log above; please report it".to_owned(),
                },
                never = self.tell() => match never {},
            };
            let was_warmed = self.context.warming_table.is_warmed(&self.standby);
            // Reported once, not at each attempt.
            if was_warmed || why != said {
                self.context.say(LogMessage::bad(format!("{} is not warmed now: {why}", self.standby)));
                said.clone_from(&why);
            }
            self.context.warming_table.state(&self.standby, State::Failing { why });
            if begin.elapsed() > AGAIN_MAX {
                again = AGAIN_MIN;
            }
            sleep(again).await;
            again = (again * 2).min(AGAIN_MAX);
        }
    }

    /// Replays until the source ends; returns the position to continue from, and why it ended.
    async fn attempt(self: Arc<Self>, place: Option<String>) -> (Option<String>, String) {
        if let Err(refused) = self.target.check(self.context.may_be_writable).await {
            return (place, refused.to_string());
        }
        let sql_mode = match self.sql_mode().await {
            Ok(sql_mode) => sql_mode,
            Err(error) => return (place, format!("{}: {error}", self.target.address())),
        };
        let stream: Pin<Box<dyn AsyncRead + Send>> = match &self.feed {
            Feed::SlowLog { streamer, sample, access } => {
                match source::open(access, streamer, place.as_deref(), *sample).await {
                    Ok(stream) => Box::pin(stream),
                    Err(error) => {
                        // A position that the streamer no longer has, or does not understand, is not requested again.
                        let is_no_place = match &error {
                            SourceError::Gone(_) => true,
                            SourceError::Refused { status, .. } => status.as_u16() == 400,
                            _ => false,
                        };
                        return (place.filter(|_| !is_no_place), error.to_string());
                    }
                }
            }
            Feed::Proxy(listen) => {
                let (reads, counts) = listen();
                self.figures.add_tap(&counts);
                Box::pin(log::source(reads, counts))
            }
        };
        let Self { standby, active, figures, context, .. } = &*self;
        context.warming_table.state(standby, State::Warmed { by: active.clone() });
        context.say(LogMessage::good(format!(
            "{standby} is warmed with what {active} is asked ({})",
            self.feed
        )));
        let measuring = context.measuring(sql_mode.clone());
        let meter = Meter::new(Arc::clone(&self.target), measuring, Arc::clone(figures));
        let tap = meter.tap();
        context.warming_table.measured(standby, Some(meter.warmth()));
        let replayed = replay::replay(
            tap.source(stream),
            Arc::clone(&self.target),
            replay::Settings { sql_mode, ..context.settings.clone() },
            Arc::clone(figures),
        );
        let why = tokio::select! {
            ended = replayed => match ended {
                Ok(()) => format!("{} ended", self.feed),
                Err(error) => format!("{} broke: {error}", self.feed),
            },
            why = self.silent() => why,
            never = meter.run() => match never {},
        };
        context.warming_table.measured(standby, None);
        (figures.place(), why)
    }

    /// The `sql_mode` with which the sessions in the source began: the active node is asked, since no log has it. Where that is not possible
    /// the standby is, which is meant to be the same.
    async fn sql_mode(&self) -> Result<String, LinkError> {
        if !matches!(self.feed, Feed::SlowLog { .. }) {
            // The proxy says with each read how it is meant.
            return Ok(String::new());
        }
        match self.asked.sql_mode().await {
            Ok(sql_mode) => Ok(sql_mode),
            Err(error) => {
                let Self { standby, active, .. } = self;
                tracing::info!(
                    "{standby}: its own sql_mode is taken for that of {active}, which cannot be asked: {error}"
                );
                self.target.sql_mode().await
            }
        }
    }

    /// Resolves when the streamer does not answer any more, with a sentence. Never for the proxy, which is in this process.
    async fn silent(&self) -> String {
        match &self.feed {
            Feed::SlowLog { streamer, access, .. } => source::silent(access, streamer).await,
            Feed::Proxy(_) => std::future::pending().await,
        }
    }

    /// Logs figures from time to time.
    async fn tell(&self) -> Infallible {
        loop {
            sleep(TELL_EVERY).await;
            let seen = self.context.warming_table.seen();
            let Some(seen) = seen.iter().find(|seen| seen.node == self.standby) else { continue };
            tracing::info!(
                "{}: {} statements run, {} left out as too late, lag {:.1} s, {} errors, {} bytes of the log missed",
                self.standby,
                seen.totals.executed,
                seen.totals.late,
                seen.lag_ms as f64 / 1e3,
                seen.totals.failed(),
                seen.totals.dropped_bytes,
            );
        }
    }
}
