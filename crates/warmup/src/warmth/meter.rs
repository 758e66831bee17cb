//! Measures one standby's warmth: the score all the time, the forecast at the end of each window.

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
use super::tap::{Replayed, Tap, next};
use super::window::{Limits, NotRun};
use crate::replay::figures::Figures;
use crate::replay::target::Target;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a window is, and so the time for which disk reads are forecast.
    pub window: Duration,
    /// How much of what the tap sees is replayed on the standby.
    pub replayed: Replayed,
    /// The log comes as fast as it was written. One that comes faster is not sampled meanwhile: what else the standby runs then is too much
    /// beside it.
    pub is_live: bool,
    /// Statements a second that are run for the score, at most.
    pub probes_per_s: u32,
    /// Distinct statements that are kept for a window.
    pub texts_max: usize,
    /// Bytes of their texts.
    pub text_bytes_max: usize,
    /// Statements that are kept for a window, with repetitions; each takes 4 bytes.
    pub statements_max: usize,
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
            is_live: true,
            probes_per_s: 20,
            texts_max: 200_000,
            text_bytes_max: 64 << 20,
            statements_max: 4_000_000,
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
/// What the standby did not run in the window is run for so long behind it, at most, and for no longer than a window.
const COMPLETE_MAX: Duration = Duration::from_secs(300);
/// The server's counters are read so often.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// After an error of the connection the next attempt waits so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The standby at one moment.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Instant,
    disk_reads: u64,
    accesses: u64,
    uptime_s: u64,
    pool_pages: u64,
    /// Statements that the replay ran so far.
    executed: u64,
    /// Disk reads of what was run for the score so far.
    probed_reads: f64,
    /// Bytes that did not reach the replay so far.
    dropped_bytes: u64,
}

/// Measures one standby.
pub struct Meter {
    settings: Settings,
    tap: Tap,
    probe: Probe,
    /// Of the replay; tells what it ran.
    figures: Arc<Figures>,
    sample: Sample,
    told: watch::Sender<Warmth>,
    begun: Instant,
    /// Disk reads of the statements that were run for the score.
    probed_reads: f64,
    /// Disk reads a second of all others on the standby, lately.
    others_per_s: f64,
    random: u64,
}

impl Meter {
    /// A meter of the standby `target`. Its [`Tap`] is to be fed with the active node's log; [`Meter::told`] has the newest figures.
    pub fn new(target: Arc<Target>, settings: Settings, figures: Arc<Figures>) -> Meter {
        let random = RandomState::new().hash_one(0);
        let limits = Limits {
            texts_max: settings.texts_max,
            bytes_max: settings.text_bytes_max,
            statements_max: settings.statements_max,
        };
        let tap = Tap::new(settings.replayed, settings.skipped_users.clone(), limits, random);
        Meter {
            tap,
            probe: Probe::new(target, settings.statement_max, Arc::clone(&figures)),
            figures,
            sample: Sample::new(settings.window.as_secs_f64() * SCORE_WINDOWS, SCORE_STATEMENTS_MAX),
            told: watch::Sender::new(Warmth::unknown(settings.window)),
            begun: Instant::now(),
            probed_reads: 0.0,
            others_per_s: 0.0,
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
                // It may come back without its pages.
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

    /// Measures one window, which ends with `ended` if that comes first, and gives what is known then.
    pub async fn window(&mut self, ended: impl Future<Output = ()>) -> Result<Warmth, LinkError> {
        let mut counted = vec![self.count().await?];
        self.tap.window();
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
        Ok(self.told.borrow().clone())
    }

    async fn count(&mut self) -> Result<Counted, LinkError> {
        let counters = self.probe.counters().await?;
        // What ended with an error was run, too.
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
            dropped_bytes: self.figures.dropped_bytes.load(Relaxed),
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
        match self.probe.score(schema, sql, self.others_per_s).await {
            Ok((accessed, read)) => {
                // Never less than none: what is subtracted from one statement must not be added to the others' rate.
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
            // The server's word about this statement: a table that is not there, no right to it, too long.
            Err(LinkError::Rejected { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The window is over: runs what the standby did not run, and tells.
    async fn judge(&mut self, counted: &[Counted], has_ended: bool) -> Result<(), LinkError> {
        let seen = self.tap.window();
        let (reads, run) = (seen.window.reads(), seen.window.run());
        let (Some(first), Some(last)) = (counted.first(), counted.last()) else { return Ok(()) };
        // Half of the work, where it is known: a log that is replayed at once does not go on evenly.
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
        // What is mirrored without a log is counted by the replay's figures only.
        let dropped_bytes = seen.dropped_bytes.max(last.dropped_bytes - first.dropped_bytes);
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
        } else if dropped_bytes > 0 {
            Some(format!(
                "no forecast: {dropped_bytes} bytes of the last window's statements did not arrive, since they were read too slowly"
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
        // A log that has ended is not replayed any more.
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
            // What was run for the score belongs to the beginning.
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
            // It ran everything: its own counters know, without a sample.
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

    /// Where no time was to sample: statements at random, before all others.
    async fn sample_at_end(&mut self, rest: &NotRun) -> Result<(), LinkError> {
        let wanted = SCORE_STATEMENTS_WANTED.saturating_sub(self.sample.statements());
        if rest.order.is_empty() || self.settings.probes_per_s == 0 {
            return Ok(());
        }
        for _ in 0..wanted {
            let at = next(&mut self.random) % rest.order.len() as u64;
            let text = &rest.texts[rest.order[at as usize] as usize];
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
        self.told.send_modify(|warmth| {
            change(warmth);
            warmth.at = SystemTime::now();
        });
    }
}

/// Disk reads when half was done, between the two looks around that moment.
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

/// Between two looks.
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
