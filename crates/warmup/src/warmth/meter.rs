//! Measures one standby's warmth: the score all the time, the forecast at the end of each window.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use link::LinkError;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::Warmth;
use super::forecast::{Measured, forecast};
use super::probe::{Found, Probe, run_all};
use super::score::{Probed, STATEMENTS_MIN, Sample};
use super::server::{Counters, Means};
use super::tap::{Replayed, Tap, next};
use super::window::{Limits, Text};
use crate::replay::figures::Figures;
use crate::replay::target::Target;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a window is, and so the time for which disk reads are forecast.
    pub window: Duration,
    /// How much of what the tap sees is replayed on the standby.
    pub replayed: Replayed,
    /// Statements a second that are run for the score, at most.
    pub probes_per_s: u32,
    /// Distinct statements that are kept for a window.
    pub texts_max: usize,
    /// Bytes of their texts.
    pub text_bytes_max: usize,
    /// Sessions that run what the standby did not run, behind a window.
    pub sessions: usize,
    /// The longest that one statement may take; the server itself ends it then.
    pub statement_max: Duration,
    /// What these accounts ran is no traffic.
    pub skipped_users: Vec<String>,
}

impl Default for Settings {
    /// Two minutes; everything is replayed; 20 statements a second.
    fn default() -> Settings {
        Settings {
            window: Duration::from_secs(120),
            replayed: Replayed::OneIn(1),
            probes_per_s: 20,
            texts_max: 200_000,
            text_bytes_max: 64 << 20,
            sessions: 4,
            statement_max: Duration::from_secs(10),
            skipped_users: Vec::new(),
        }
    }
}

/// A score is made of statements of so many windows at most, and of so many statements.
const SCORE_WINDOWS: f64 = 1.0;
const SCORE_STATEMENTS_MAX: usize = 2000;
/// A log that is read faster than it was written gives no time to sample; then so many statements are run at its end.
const SCORE_STATEMENTS_WANTED: usize = 300;
/// The server's counters are read so often.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// After an error of the connection the next attempt waits so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Measures one standby.
pub struct Meter {
    settings: Settings,
    tap: Tap,
    probe: Probe,
    /// Of the replay; tells what it left out.
    figures: Arc<Figures>,
    sample: Sample,
    told: watch::Sender<Warmth>,
    begun: Instant,
    random: u64,
}

impl Meter {
    /// A meter of the standby `target`. Its [`Tap`] is to be fed with the active node's log; [`Meter::told`] has the newest figures.
    pub fn new(target: Arc<Target>, settings: Settings, figures: Arc<Figures>) -> Meter {
        let random = RandomState::new().hash_one(0);
        let limits = Limits { texts_max: settings.texts_max, bytes_max: settings.text_bytes_max };
        let tap = Tap::new(settings.replayed, settings.skipped_users.clone(), limits, random);
        Meter {
            tap,
            probe: Probe::new(target, settings.statement_max, Arc::clone(&figures)),
            figures,
            sample: Sample::new(settings.window.as_secs_f64() * SCORE_WINDOWS, SCORE_STATEMENTS_MAX),
            told: watch::Sender::new(Warmth::unknown(settings.window)),
            begun: Instant::now(),
            settings,
            random,
        }
    }

    /// Where the active node's log is to pass through.
    pub fn tap(&self) -> Tap {
        self.tap.clone()
    }

    /// The newest figures.
    pub fn told(&self) -> watch::Receiver<Warmth> {
        self.told.subscribe()
    }

    /// Measures until it is dropped. Errors are told in [`Warmth::why_unknown`].
    pub async fn run(mut self) -> std::convert::Infallible {
        loop {
            if let Err(error) = self.window(std::future::pending()).await {
                self.tell(|warmth| {
                    warmth.score = None;
                    warmth.forecast = None;
                    warmth.why_unknown = Some(format!("the standby cannot be asked: {error}"));
                });
                sleep(AGAIN).await;
            }
        }
    }

    /// Measures one window, which ends with `ended` if that comes first, and gives what is known then.
    pub async fn window(&mut self, ended: impl Future<Output = ()>) -> Result<Warmth, LinkError> {
        let mut counted = vec![(Instant::now(), self.probe.counters().await?)];
        let left_out = self.left_out();
        let salt = next(&mut self.random);
        self.tap.window(salt);
        let probes_per_s = self.settings.probes_per_s.max(1);
        let mut tick = interval(Duration::from_secs(1) / probes_per_s);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = interval(COUNT_EVERY);
        count.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let is_over = sleep(self.settings.window);
        tokio::pin!(ended, is_over);
        loop {
            tokio::select! {
                () = &mut ended => break,
                () = &mut is_over => break,
                _ = tick.tick(), if self.settings.probes_per_s > 0 => self.sampled().await?,
                _ = count.tick() => {
                    self.tap.settle();
                    counted.push((Instant::now(), self.probe.counters().await?));
                    let left = self.settings.window.saturating_sub(counted[0].0.elapsed());
                    self.tell_score(left);
                }
            }
        }
        counted.push((Instant::now(), self.probe.counters().await?));
        let dropped = self.left_out().saturating_sub(left_out);
        self.judge(&counted, dropped).await?;
        Ok(self.told.borrow().clone())
    }

    /// Statements that the replay did not run, or not to their end.
    fn left_out(&self) -> u64 {
        self.figures.late.load(Relaxed) + self.figures.errors().values().sum::<u64>()
    }

    /// Runs one statement for the score.
    async fn sampled(&mut self) -> Result<(), LinkError> {
        let Some(candidate) = self.tap.candidate() else { return Ok(()) };
        let (schema, sql) = (candidate.schema.as_deref(), &*candidate.sql);
        self.sample_one(schema, sql, candidate.of as f64).await?;
        self.tap.was_run(schema, sql);
        Ok(())
    }

    /// Gives its disk reads.
    async fn sample_one(&mut self, schema: Option<&[u8]>, sql: &[u8], weight: f64) -> Result<u64, LinkError> {
        let is_coarse = self.probe.means().await? == Means::Counters;
        match self.probe.run(schema, sql, true).await {
            Ok(Some(pages)) => {
                self.sample.push(Probed {
                    at_s: self.begun.elapsed().as_secs_f64(),
                    weight,
                    accessed: pages.accessed,
                    read: pages.read,
                    is_coarse,
                });
                Ok(pages.read)
            }
            // The server's word about this statement: a table that is not there, no right to it, too long.
            Ok(None) | Err(LinkError::Rejected { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The window is over: runs what the standby did not run, and tells.
    async fn judge(&mut self, counted: &[(Instant, Counters)], dropped: u64) -> Result<(), LinkError> {
        let salt = next(&mut self.random);
        let seen = self.tap.window(salt);
        let (reads, run, rate) = (seen.window.reads(), seen.window.run(), seen.window.rate());
        let (Some(&(begin, first)), Some(&(end, last))) = (counted.first(), counted.last()) else {
            return Ok(());
        };
        let middle = begin + (end - begin) / 2;
        let half = counted.iter().find(|(at, _)| *at >= middle).map_or(last, |(_, counters)| *counters);
        let restarted = counted.windows(2).any(|two| two[1].1.uptime_s < two[0].1.uptime_s);
        let active_score = (seen.active.accessed > 0)
            .then(|| 1.0 - (seen.active.read as f64 / seen.active.accessed as f64).min(1.0));
        let why = if reads == 0 {
            Some("the active node ran no read in the last window that may be run elsewhere".to_owned())
        } else if restarted {
            Some("the standby was restarted within the window".to_owned())
        } else if seen.source_one_in > 1 {
            Some(format!(
                "no forecast: the log has only one statement in {}; give the whole log and let less of it be replayed",
                seen.source_one_in
            ))
        } else {
            None
        };
        if let Some(why) = why {
            self.tell(|warmth| {
                warmth.active_score = active_score;
                warmth.forecast = None;
                warmth.why_unknown = Some(why);
            });
            return Ok(());
        }
        let mut texts = seen.window.not_run();
        let sampled = self.sample_at_end(&mut texts).await?;
        let sessions = self.settings.sessions;
        let mut found = run_all(&mut self.probe, texts, sessions, self.settings.window).await?;
        if rate >= 1.0
            && let Some(first) = found.found.first_mut()
        {
            *first += sampled;
        }
        let measured = Measured {
            own_reads_first: half.reads.saturating_sub(first.reads),
            own_reads_second: last.reads.saturating_sub(half.reads),
            replayed_for_windows: self.begun.elapsed().as_secs_f64() / self.settings.window.as_secs_f64(),
            dropped,
            reads,
            run,
            sampled_share: share_run(rate, &found),
            found: found.found,
            texts: found.texts,
            failed: found.failed,
        };
        let forecast = forecast(&measured);
        let score = self.sample.score();
        self.tell(|warmth| {
            warmth.score = score;
            warmth.active_score = active_score;
            warmth.forecast = Some(forecast);
            warmth.why_unknown = score.is_none().then(|| too_few(0));
        });
        Ok(())
    }

    /// Where no time was to sample: statements at random, each with a probability in proportion to how often it was run. Gives their disk reads.
    async fn sample_at_end(&mut self, texts: &mut Vec<Text>) -> Result<u64, LinkError> {
        let wanted = SCORE_STATEMENTS_WANTED.saturating_sub(self.sample.len());
        if wanted == 0 || self.settings.probes_per_s == 0 {
            return Ok(0);
        }
        // The first of so many exponential clocks, each as fast as its statement is frequent.
        let mut clocks: Vec<(f64, usize)> = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let uniform = (next(&mut self.random) >> 11) as f64 / (1_u64 << 53) as f64;
            clocks.push((-(1.0 - uniform).ln() / text.count as f64, at));
        }
        clocks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        clocks.truncate(wanted);
        let mut read = 0;
        for (_, at) in &clocks {
            let text = texts[*at].clone();
            read += self.sample_one(text.schema.as_deref(), &text.sql, 1.0).await?;
        }
        let mut chosen: Vec<usize> = clocks.into_iter().map(|(_, at)| at).collect();
        chosen.sort_unstable();
        let mut at = 0;
        texts.retain(|_| {
            at += 1;
            chosen.binary_search(&(at - 1)).is_err()
        });
        Ok(read)
    }

    fn tell_score(&mut self, left: Duration) {
        let score = self.sample.score();
        let reads = self.tap.reads();
        self.tell(|warmth| {
            warmth.score = score;
            warmth.why_unknown = match (score.is_some(), warmth.forecast.is_some()) {
                (true, true) => None,
                (true, false) => {
                    Some(format!("no forecast yet: the first window ends in {} s", left.as_secs()))
                }
                (false, _) => Some(too_few(reads)),
            };
        });
    }

    fn tell(&self, change: impl FnOnce(&mut Warmth)) {
        self.told.send_modify(|warmth| {
            change(warmth);
            warmth.at = SystemTime::now();
        });
    }
}

fn too_few(reads: u64) -> String {
    format!(
        "no score: it takes {STATEMENTS_MIN} reads that could be run on the standby ({reads} reads seen in this window)"
    )
}

/// The share of all key ranges that was run.
fn share_run(rate: f64, found: &Found) -> f64 {
    if found.parts == 0 { rate } else { rate * found.found.len() as f64 / found.parts as f64 }
}
