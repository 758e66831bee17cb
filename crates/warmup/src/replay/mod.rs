//! Replays the reads of a slow log on another server, with the parallelism in which they were recorded.
//!
//! ```text
//!   bytes ──> slowlog::Reader ──> slowlog::Order ──> guard: only what surely changes nothing
//!                                                      │
//!                             pace: at once, or as recorded
//!                                                      │ by recorded connection, or spread over a pool
//!                                     ┌────────────────┼────────────────┐
//!                                  session          session          session ──> the server, each READ ONLY
//! ```
//!
//! Nothing is written, for three independent reasons: [`guard`] passes only statements that change nothing; each session has run `SET
//! SESSION TRANSACTION READ ONLY`; and [`target`] refuses an account that has write privileges.
//!
//! Memory is bounded by [`Settings::waiting_bytes_max`]: when the waiting statements reach it, no more is read from the source until there
//! is room. With [`Settings::lag_max`], statements that have waited longer than that are skipped instead, oldest first.

pub mod ending;
pub mod figures;
pub mod guard;
mod job;
mod pace;
pub mod running;
mod session;
pub(crate) mod state;
pub mod target;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use slowlog::{Item, Limits, Order, OrderLimits, Reader, Start};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::SendError;
use tokio::time::Instant;

use figures::Figures;
use guard::Disposition;
use job::Job;
use pace::Pace;
use state::States;
use target::Target;

/// Which recorded connections share a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// One session for each recorded connection, with that connection's session state.
    PerConnection {
        /// A session that has been idle for this long is closed; the next statement opens a new one.
        idle_max: Duration,
    },
    /// This many sessions are shared by all connections. The statements of one connection stay in one session, in their order.
    Pool(usize),
}

/// The speed of the replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as the server runs them.
    AtOnce,
    /// By the recorded times, multiplied by this speed.
    Recorded(f64),
}

/// The settings of a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which connections share a session.
    pub sessions: Sessions,
    /// How fast.
    pub speed: Speed,
    /// Statements are sorted by their start as far as they are no further apart than this, which should be the duration of the longest
    /// statement that matters. Used where the log has exact times; it delays a live stream by as much.
    pub order_window: Duration,
    /// Statements whose recorded end is this much before what is being read are skipped. `None`: all are run, however late.
    pub lag_max: Option<Duration>,
    /// The limit on the bytes of waiting statements.
    pub waiting_bytes_max: usize,
    /// The time limit of one statement.
    pub statement_max: Duration,
    /// What these accounts ran is left out.
    pub skipped_users: Vec<String>,
    /// The `sql_mode` with which recorded sessions began, as far as a read means something else under it ([`target::Target::sql_mode`]).
    pub sql_mode: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sessions: Sessions::PerConnection { idle_max: Duration::from_secs(60) },
            speed: Speed::AtOnce,
            order_window: Duration::from_secs(1),
            lag_max: None,
            waiting_bytes_max: 64 << 20,
            statement_max: Duration::from_secs(300),
            skipped_users: Vec::new(),
            sql_mode: String::new(),
        }
    }
}

/// Statements of one session that may wait, besides what [`Settings::waiting_bytes_max`] says.
const QUEUE_MAX: usize = 4096;
/// As much is read at once.
const READ_BYTES: usize = 256 << 10;
/// A source that is quiet for so long has written the last event to its end.
const QUIET: Duration = Duration::from_millis(300);

/// Replays all of `source`, until it ends and what was read is run. An error is the source's. Whoever drops it ends it at once; what runs on the
/// server then is for [`ending::end`].
pub async fn replay(
    mut source: impl AsyncRead + Unpin,
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
) -> io::Result<()> {
    let mut replay = Replay::new(target, settings, figures);
    let mut buffer = vec![0; READ_BYTES];
    let ended = loop {
        match tokio::time::timeout(QUIET, source.read(&mut buffer)).await {
            Ok(Ok(0)) => break Ok(()),
            Ok(Ok(read)) => {
                replay.reader.feed(&buffer[..read]);
                replay.fed = Instant::now();
            }
            Ok(Err(error)) => break Err(error),
            Err(_) => {
                replay.reader.settle();
                replay.take();
                // The log's clock goes on while it is quiet.
                replay.order.quiet(replay.fed.elapsed().as_micros() as u64);
            }
        }
        replay.take();
        replay.run_ordered().await;
    };
    replay.reader.finish();
    replay.take();
    replay.order.finish();
    replay.run_ordered().await;
    replay.end().await;
    ended
}

/// A replay on its way.
struct Replay {
    reader: Reader,
    /// Events that are not replayed are in it, too: they move its clock.
    order: Order<Option<Job>>,
    /// When the source gave something last.
    fed: Instant,
    pace: Pace,
    sessions: HashMap<u64, Sender<Job>>,
    states: States,
    tasks: tokio::task::JoinSet<()>,
    waiting: Arc<Semaphore>,
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
}

impl Replay {
    fn new(target: Arc<Target>, settings: Settings, figures: Arc<Figures>) -> Replay {
        let order = OrderLimits {
            window_us: settings.order_window.as_micros() as u64,
            bytes_max: settings.waiting_bytes_max,
            ..OrderLimits::default()
        };
        Replay {
            // A file begins with an event, a stream with a whole one; anything else is counted, and shown.
            reader: Reader::new(Limits::default(), Start::Whole),
            order: Order::new(order),
            fed: Instant::now(),
            pace: Pace::new(settings.speed),
            sessions: HashMap::new(),
            states: States::new(&settings.sql_mode),
            tasks: tokio::task::JoinSet::new(),
            waiting: Arc::new(Semaphore::new(settings.waiting_bytes_max.max(1))),
            target,
            settings,
            figures,
        }
    }

    /// Takes what the reader has: what may be replayed waits for its turn.
    fn take(&mut self) {
        while let Some(item) = self.reader.next() {
            let Item::Event(event) = item else { continue };
            self.figures.saw(&event);
            let state = self.states.of(event.connection.unwrap_or(0));
            let verdict = guard::judge(&event, &self.settings.skipped_users, state.modes);
            self.figures.judged(verdict);
            self.states.saw(&event, verdict);
            let job = if verdict == Disposition::Replayed { Job::of(&event, state) } else { None };
            self.order.push(&event, job);
        }
        self.figures.read(self.reader.counts(), self.order.clock());
    }

    /// Gives statements to their sessions, as far as their order is certain.
    async fn run_ordered(&mut self) {
        while let Some(ordered) = self.order.next() {
            let Some(mut job) = ordered.what else { continue };
            job.times = ordered.times;
            self.pace.wait(job.times.order_us).await;
            let bytes = job.bytes().min(self.settings.waiting_bytes_max) as u32;
            // The semaphore is never closed.
            if let Ok(permit) = Arc::clone(&self.waiting).acquire_many_owned(bytes).await {
                job.permit = Some(permit);
            }
            self.figures.waiting.fetch_add(1, Relaxed);
            self.send(job).await;
        }
    }

    async fn send(&mut self, mut job: Job) {
        let key = match self.settings.sessions {
            Sessions::PerConnection { .. } => job.connection,
            Sessions::Pool(sessions) => job.connection % sessions.max(1) as u64,
        };
        // A session that was idle has ended, or is about to.
        loop {
            let sender = self.sessions.entry(key).or_insert_with(|| {
                let (sender, receiver) = tokio::sync::mpsc::channel(QUEUE_MAX);
                let session = session::ReplaySession::new(
                    Arc::clone(&self.target),
                    self.settings.clone(),
                    Arc::clone(&self.figures),
                    receiver,
                );
                self.tasks.spawn(self.figures.running.counted(session.run()));
                sender
            });
            match sender.send(job).await {
                Ok(()) => break,
                Err(SendError(back)) => {
                    job = back;
                    self.sessions.remove(&key);
                }
            }
        }
        // Those that ended are forgotten.
        while self.tasks.try_join_next().is_some() {}
    }

    /// Waits until each session has run what it was given.
    async fn end(mut self) {
        self.sessions.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
