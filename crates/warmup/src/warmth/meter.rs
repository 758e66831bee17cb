//! Measures the warmth of one standby: the score continuously, the forecast at the end of each window.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use link::LinkError;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::Warmth;
use super::forecast::{EXECUTED_SHARE_MIN, Measured, forecast};
use super::probe::{Probe, complete};
use super::score::{Probed, STATEMENTS_MIN, Sample, Score};
use super::server::Means;
use super::tap::{Replayed, Tap, next, reads_tables};
use super::window::{NotRun, WindowLimits};
use crate::replay::figures::Figures;
use crate::replay::state::States;
use crate::replay::target::Target;

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a window is, and so the time for which disk reads are forecast.
    pub window: Duration,
    /// Which share of the reads seen by the tap is replayed on the standby.
    pub replayed: Replayed,
    /// The log arrives at the speed at which it was written. If it arrives faster, no statements are sampled, because the standby then runs
    /// too much else at the same time.
    pub is_live: bool,
    /// The highest number of statements a second that are run for the score.
    pub probes_per_s: u32,
    /// The highest number of distinct statements that are kept for a window.
    pub texts_max: usize,
    /// The highest number of bytes of their texts.
    pub text_bytes_max: usize,
    /// The highest number of statements including repetitions that are kept for a window; each takes 4 bytes.
    pub statements_max: usize,
    /// The number of sessions that run the remaining statements after a window.
    pub sessions: usize,
    /// The time limit of a statement, which the server itself enforces.
    pub statement_max: Duration,
    /// Accounts whose statements are not part of the traffic.
    pub skipped_users: Vec<String>,
    /// The `sql_mode` with which recorded sessions began, as in [`crate::replay::Settings::sql_mode`].
    pub sql_mode: String,
}

impl Default for Settings {
    /// Windows of two minutes; everything is replayed; 20 statements a second for the score.
    fn default() -> Settings {
        Settings {
            window: Duration::from_secs(120),
            replayed: Replayed::OneIn(1),
            is_live: true,
            probes_per_s: 20,
            texts_max: 200_000,
            text_bytes_max: 64 << 20,
            statements_max: 4_000_000,
            sessions: 4,
            statement_max: Duration::from_secs(10),
            skipped_users: Vec::new(),
            sql_mode: String::new(),
        }
    }
}

/// A score uses the statements of at most this many windows, and at most this many statements.
const SCORE_WINDOWS: f64 = 1.0;
const SCORE_STATEMENTS_MAX: usize = 2000;
/// A log that is read faster than it was written leaves no time to sample; this many statements are then run at its end.
const SCORE_STATEMENTS_WANTED: usize = 300;
/// The time limit for running the remaining statements after a window; it is never longer than the window.
const COMPLETE_MAX: Duration = Duration::from_secs(300);
/// The interval at which the server's counters are read.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// The pause before the next attempt after a connection error.
const AGAIN: Duration = Duration::from_secs(1);

/// The counters of the standby at one moment.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Instant,
    disk_reads: u64,
    accesses: u64,
    uptime_s: u64,
    pool_pages: u64,
    /// Statements that the replay has run.
    executed: u64,
    /// Disk reads of the statements that were run for the score.
    probed_reads: f64,
}

/// Measures one standby.
pub struct Meter {
    settings: Settings,
    tap: Tap,
    probe: Probe,
    /// The figures of the replay, which include how many statements it ran.
    figures: Arc<Figures>,
    sample: Sample,
    warmth: watch::Sender<Warmth>,
    begun: Instant,
    /// Disk reads of the statements that were run for the score.
    probed_reads: f64,
    /// Recent disk reads a second by everything else on the standby.
    others_per_s: f64,
    random: u64,
}

impl Meter {
    /// Creates a meter for the standby `target`. The active node's log has to be fed into its [`Tap`]; [`Meter::warmth`] returns the most
    /// recent result.
    pub fn new(target: Arc<Target>, settings: Settings, figures: Arc<Figures>) -> Meter {
        let random = RandomState::new().hash_one(0);
        let limits = WindowLimits {
            texts_max: settings.texts_max,
            bytes_max: settings.text_bytes_max,
            statements_max: settings.statements_max,
        };
        let states = States::new(&settings.sql_mode);
        let tap = Tap::new(settings.replayed, settings.skipped_users.clone(), states, limits, random);
        Meter {
            tap,
            probe: Probe::new(target, settings.statement_max, Arc::clone(&figures)),
            figures,
            sample: Sample::new(settings.window.as_secs_f64() * SCORE_WINDOWS, SCORE_STATEMENTS_MAX),
            warmth: watch::Sender::new(Warmth::unknown(settings.window)),
            begun: Instant::now(),
            probed_reads: 0.0,
            others_per_s: 0.0,
            settings,
            random,
        }
    }

    /// The tap through which the active node's log has to pass.
    pub fn tap(&self) -> Tap {
        self.tap.clone()
    }

    /// The most recent result.
    pub fn warmth(&self) -> watch::Receiver<Warmth> {
        self.warmth.subscribe()
    }

    /// Measures until the future is dropped. Errors are reported in [`Warmth::why_unknown`].
    pub async fn run(mut self) -> std::convert::Infallible {
        loop {
            if let Err(error) = self.window(std::future::pending()).await {
                // The server may have been restarted, with an empty buffer pool.
                self.sample.clear();
                self.begun = Instant::now();
                self.tell(|warmth| {
                    warmth.score = None;
                    warmth.forecast = None;
                    warmth.why_unknown = Some(format!("the standby cannot be asked: {error}"));
                });
                sleep(AGAIN).await;
            }
        }
    }

    /// Measures one window, which ends early when `ended` resolves, and returns the result.
    pub async fn window(&mut self, ended: impl Future<Output = ()>) -> Result<Warmth, LinkError> {
        let mut counted = vec![self.count().await?];
        self.tap.window();
        self.tell(|warmth| warmth.unjudged = 0);
        let probes_per_s = self.settings.probes_per_s.max(1);
        let mut tick = interval(Duration::from_secs(1) / probes_per_s);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = interval(COUNT_EVERY);
        count.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let is_over = sleep(self.settings.window);
        tokio::pin!(ended, is_over);
        let is_sampled = self.settings.is_live && self.settings.probes_per_s > 0;
        let mut has_ended = false;
        loop {
            tokio::select! {
                () = &mut ended => {
                    has_ended = true;
                    break;
                }
                () = &mut is_over => break,
                _ = tick.tick(), if is_sampled => self.sampled().await?,
                _ = count.tick() => {
                    self.tap.settle();
                    counted.push(self.count().await?);
                    if let [.., before, now] = &counted[..] {
                        self.others_per_s = others_per_s(before, now);
                    }
                    let left = self.settings.window.saturating_sub(counted[0].at.elapsed());
                    self.tell_score(left);
                }
            }
        }
        counted.push(self.count().await?);
        self.judge(&counted, has_ended).await?;
        Ok(self.warmth.borrow().clone())
    }

    async fn count(&mut self) -> Result<Counted, LinkError> {
        let counters = self.probe.counters().await?;
        // Statements that ended with an error were run as well.
        let errors: u64 = self.figures.errors().values().sum();
        let executed = self.figures.executed.load(Relaxed) + errors;
        Ok(Counted {
            at: Instant::now(),
            disk_reads: counters.reads,
            accesses: counters.requests,
            uptime_s: counters.uptime_s,
            pool_pages: counters.pool_pages,
            executed,
            probed_reads: self.probed_reads,
        })
    }

    /// Runs one statement for the score.
    async fn sampled(&mut self) -> Result<(), LinkError> {
        let Some(candidate) = self.tap.candidate() else { return Ok(()) };
        let (schema, sql) = (candidate.schema.as_deref(), &*candidate.sql);
        self.sample_one(schema, sql, candidate.of as f64).await
    }

    async fn sample_one(&mut self, schema: Option<&[u8]>, sql: &[u8], weight: f64) -> Result<(), LinkError> {
        let is_coarse = self.probe.means().await? == Means::Counters;
        let before = self.probe.counters().await?;
        match self.probe.score(schema, sql, before, self.others_per_s).await {
            Ok(Some((accessed, read))) => {
                // Not below zero: what is subtracted from one statement must not be added to the rate of the other sessions.
                self.probed_reads += read.max(0.0);
                self.sample.push(Probed {
                    at_s: self.begun.elapsed().as_secs_f64(),
                    weight,
                    accessed,
                    read,
                    is_coarse,
                });
                Ok(())
            }
            // It failed (a missing table, a missing privilege, a timeout, an answer that is too large), or cannot be judged. Only when the
            // standby does not answer after it, either, there is more to it.
            Ok(None) | Err(_) => {
                self.tell(|warmth| warmth.unjudged += 1);
                let behind = self.probe.counters().await?;
                // What it read until then is not the other sessions'.
                self.probed_reads += behind.reads.saturating_sub(before.reads) as f64;
                Ok(())
            }
        }
    }

    /// Ends the window: runs the statements that the standby did not run, and publishes the result.
    async fn judge(&mut self, counted: &[Counted], has_ended: bool) -> Result<(), LinkError> {
        let seen = self.tap.window();
        let (reads, run) = (seen.window.reads(), seen.window.run());
        let (Some(first), Some(last)) = (counted.first(), counted.last()) else { return Ok(()) };
        // Divides the window at half of the work, where that is known, because a log that is replayed without pauses does not progress
        // evenly.
        let done = |counted: &Counted| {
            if last.executed > first.executed {
                (counted.executed - first.executed) as f64 / (last.executed - first.executed) as f64
            } else {
                counted.at.duration_since(first.at).as_secs_f64()
                    / last.at.duration_since(first.at).as_secs_f64()
            }
        };
        let half = disk_reads_at_half(counted, done);
        let restarted = counted.windows(2).any(|two| two[1].uptime_s < two[0].uptime_s);
        let window = if has_ended { seen.span } else { last.at.duration_since(first.at) };
        let executed = last.executed - first.executed;
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
        } else if seen.dropped_bytes > 0 {
            Some(format!(
                "no forecast: {} bytes of the last window's statements did not arrive, since they were read too slowly",
                seen.dropped_bytes
            ))
        } else if (executed as f64) < EXECUTED_SHARE_MIN * run as f64 {
            Some(format!(
                "no forecast: the replay ran {executed} of the {run} reads of the last window; it is too slow, or drops them"
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
        let rest = seen.window.not_run();
        let statements = rest.statements;
        let before = self.probe.counters().await?.reads;
        // A log that has ended is no longer replayed.
        self.others_per_s = if has_ended { 0.0 } else { self.others_per_s };
        self.sample_at_end(&rest).await?;
        let sampled = self.probe.counters().await?.reads.saturating_sub(before);
        let own_reads = last.disk_reads.saturating_sub(first.disk_reads);
        let others_per_s = if has_ended { 0.0 } else { own_reads as f64 / window.as_secs_f64().max(0.001) };
        let time_max = self.settings.window.min(COMPLETE_MAX);
        let sessions = self.settings.sessions;
        let completed = complete(&mut self.probe, rest, sessions, time_max, others_per_s).await?;
        let measured = Measured {
            own_reads_first: half.saturating_sub(first.disk_reads),
            own_reads_second: last.disk_reads.saturating_sub(half),
            replayed_for_windows: last.at.duration_since(self.begun).as_secs_f64()
                / last.at.duration_since(first.at).as_secs_f64().max(0.001),
            reads,
            run,
            executed,
            // Disk reads for the score belong to the first half of the window.
            missing: completed.read.map(|read| read + sampled),
            completed_share: if statements == 0 {
                1.0
            } else {
                completed.statements as f64 / statements as f64
            },
            pool_pages: last.pool_pages,
            completed: completed.sent,
            failed: completed.failed,
        };
        let forecast = forecast(&measured);
        let accesses = last.accesses.saturating_sub(first.accesses);
        let score = self.sample.score().or_else(|| {
            // The standby ran everything: its own counters give the score without a sample.
            (run == reads).then(|| counted_score(own_reads, accesses, executed))?
        });
        self.tell(|warmth| {
            warmth.score = score;
            warmth.active_score = active_score;
            warmth.forecast = Some(forecast);
            warmth.window = window;
            warmth.why_unknown = score.is_none().then(|| too_few(0));
        });
        Ok(())
    }

    /// For a log that left no time to sample: statements chosen at random, run before all others.
    async fn sample_at_end(&mut self, rest: &NotRun) -> Result<(), LinkError> {
        let wanted = SCORE_STATEMENTS_WANTED.saturating_sub(self.sample.statements());
        let texts = rest.order.iter().map(|number| &rest.texts[*number as usize]);
        let fit: Vec<_> = texts.filter(|text| reads_tables(text.schema.as_deref(), &text.sql)).collect();
        if fit.is_empty() || self.settings.probes_per_s == 0 {
            return Ok(());
        }
        for _ in 0..wanted {
            let text = fit[(next(&mut self.random) % fit.len() as u64) as usize];
            self.sample_one(text.schema.as_deref(), &text.sql, 1.0).await?;
        }
        Ok(())
    }

    fn tell_score(&mut self, left: Duration) {
        self.sample.forget(self.begun.elapsed().as_secs_f64());
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
        self.warmth.send_modify(|warmth| {
            change(warmth);
            warmth.at = SystemTime::now();
        });
    }
}

/// Disk reads at the moment when half of the work was done, interpolated between the two samples around it.
fn disk_reads_at_half(counted: &[Counted], done: impl Fn(&Counted) -> f64) -> u64 {
    for two in counted.windows(2) {
        let (before, behind) = (done(&two[0]), done(&two[1]));
        if before <= 0.5 && behind > 0.5 {
            let share = (0.5 - before) / (behind - before);
            let between = two[1].disk_reads.saturating_sub(two[0].disk_reads) as f64 * share;
            return two[0].disk_reads + between as u64;
        }
    }
    counted.last().map_or(0, |last| last.disk_reads)
}

/// The score of a standby that ran everything itself.
fn counted_score(disk_reads: u64, accesses: u64, statements: u64) -> Option<Score> {
    if accesses == 0 || statements < STATEMENTS_MIN as u64 {
        return None;
    }
    let share = 1.0 - (disk_reads as f64 / accesses as f64).min(1.0);
    Some(Score { share, low: share, high: share, statements, is_coarse: true })
}

/// Interpolates between two samples.
fn others_per_s(before: &Counted, now: &Counted) -> f64 {
    let all = now.disk_reads.saturating_sub(before.disk_reads) as f64;
    let others = all - (now.probed_reads - before.probed_reads);
    (others / now.at.duration_since(before.at).as_secs_f64().max(0.1)).max(0.0)
}

fn too_few(reads: u64) -> String {
    format!(
        "no score: it takes {STATEMENTS_MIN} reads that could be run on the standby ({reads} reads seen in this window)"
    )
}
