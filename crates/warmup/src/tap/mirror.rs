//! Runs the reads of the proxy's clients on a standby immediately: without a log, in no order; reads that would be late are left out.
//!
//! ```text
//!   proxy's tap ──> a bounded queue ──> guard ──> too old? ──> for the meter? ──> any free session ──> the standby, READ ONLY
//! ```
//!
//! The same three safeguards as in a replay: only reads are sent, in read-only sessions, with an account that cannot write (to be checked
//! first with [`Target::check`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use link::{Link, LinkError};
use protocol::statement::read_state;
use session::finished::{Counts, Finished, Offered, ReadState};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::replay::figures::Figures;
use crate::replay::guard::{Disposition, judge_sql};
use crate::replay::state;
use crate::replay::target::{Target, use_schema};
use crate::warmth::Tap;

/// The settings of a mirror.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sessions on the standby.
    pub sessions: usize,
    /// A read is left out when its client got its answer longer ago than this.
    pub wait_max: Duration,
    /// The time limit of one read on the standby.
    pub statement_max: Duration,
    /// Reads of these accounts are left out.
    pub skipped_users: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sessions: 8,
            wait_max: Duration::from_secs(1),
            statement_max: Duration::from_secs(60),
            skipped_users: Vec::new(),
        }
    }
}

/// The pause after a failed connection attempt; it doubles with each failure.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Mirrors until the proxy ends, or until this future is dropped, after which no read is started. `figures` count as in a replay; reads
/// that did not fit into the queue count as late. `meter` gets each read, and takes some of them to run them itself.
pub async fn mirror(
    (reads, counts): (Receiver<Offered>, Arc<Counts>),
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
    meter: Option<Tap>,
) {
    let queue = Arc::new(Mutex::new(Queue { reads, counts, dropped: 0, dropped_bytes: 0 }));
    let mut sessions = JoinSet::new();
    for _ in 0..settings.sessions.max(1) {
        let session = Session {
            queue: Arc::clone(&queue),
            target: Arc::clone(&target),
            settings: settings.clone(),
            figures: Arc::clone(&figures),
            meter: meter.clone(),
            open: None,
            retry: RETRY_MIN,
        };
        sessions.spawn(figures.running.counted(session.run()));
    }
    while sessions.join_next().await.is_some() {}
}

/// The queue that all sessions take reads from.
struct Queue {
    reads: Receiver<Offered>,
    counts: Arc<Counts>,
    /// The reads that did not fit into the queue, as far as they are counted in the figures.
    dropped: u64,
    dropped_bytes: u64,
}

impl Queue {
    async fn next(&mut self, figures: &Figures) -> Option<Offered> {
        let next = self.reads.recv().await;
        figures.waiting.store(i64::try_from(self.reads.len()).unwrap_or(i64::MAX), Relaxed);
        let dropped = self.counts.dropped.load(Relaxed);
        let dropped_bytes = self.counts.dropped_bytes.load(Relaxed);
        figures.late.fetch_add(dropped.saturating_sub(self.dropped), Relaxed);
        figures.dropped_bytes.fetch_add(dropped_bytes.saturating_sub(self.dropped_bytes), Relaxed);
        (self.dropped, self.dropped_bytes) = (dropped, dropped_bytes);
        next
    }
}

/// One session on the standby.
struct Session {
    queue: Arc<Mutex<Queue>>,
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
    meter: Option<Tap>,
    open: Option<Open>,
    retry: Duration,
}

struct Open {
    link: Link,
    schema: Option<Box<[u8]>>,
    state: Arc<ReadState>,
}

impl Session {
    async fn run(mut self) {
        self.figures.sessions_begun.fetch_add(1, Relaxed);
        loop {
            let next = self.queue.lock().await.next(&self.figures).await;
            let Some(Offered { read, room }) = next else { break };
            self.read(&read).await;
            drop(room);
        }
        if let Some(open) = self.open.take() {
            open.link.quit();
            self.figures.closed(open.link.greeting.connection_id);
        }
    }

    async fn read(&mut self, read: &Finished) {
        let verdict = self.judge(read);
        self.figures.judged(verdict);
        if verdict != Disposition::Replayed {
            return;
        }
        let now_us = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(read.ended_us, |now| now.as_micros() as u64);
        self.figures.heard(now_us, read.ended_us);
        let is_late = Duration::from_micros(now_us.saturating_sub(read.ended_us)) > self.settings.wait_max;
        if self.meter.as_ref().is_some_and(|meter| meter.read(read, !is_late)) {
            // The meter runs it, which also brings its pages into the standby's memory.
            self.figures.executed.fetch_add(1, Relaxed);
            return;
        }
        if is_late {
            self.figures.late.fetch_add(1, Relaxed);
            return;
        }
        let begin = Instant::now();
        match self.attempt(read).await {
            Ok(rows) => {
                let expected = Duration::from_micros(read.took_us);
                self.figures.executed(&read.sql, begin.elapsed(), expected, rows, read.rows_sent);
            }
            Err(error) => {
                self.figures.failed(&error);
                if !matches!(error, LinkError::Rejected { .. })
                    && let Some(open) = self.open.take()
                {
                    self.figures.closed(open.link.greeting.connection_id);
                }
            }
        }
    }

    fn judge(&self, read: &Finished) -> Disposition {
        if self.settings.skipped_users.iter().any(|user| **user == *read.user) {
            return Disposition::SkippedUser;
        }
        let is_state = |text: &String| read_state(text.as_bytes()).is_some();
        match judge_sql(&read.sql, 0) {
            Disposition::Replayed if !read.state.statements.iter().all(is_state) => Disposition::Writing,
            verdict => verdict,
        }
    }

    /// Runs the read once, without a retry: a failed read loses nothing.
    async fn attempt(&mut self, read: &Finished) -> Result<u64, LinkError> {
        let limit = self.settings.statement_max;
        let figures = Arc::clone(&self.figures);
        let open = self.connected().await?;
        if !Arc::ptr_eq(&open.state, &read.state) {
            if open.state != read.state {
                let (has, wanted) = (&open.state.statements, &read.state.statements);
                state::apply(&mut open.link, has, wanted, limit, |error| figures.state_refused(error))
                    .await?;
            }
            open.state = Arc::clone(&read.state);
        }
        if let Some(schema) = &read.schema
            && open.schema.as_ref() != Some(schema)
        {
            open.link.count_rows(&use_schema(schema), limit).await?;
            open.schema = Some(schema.clone());
        }
        open.link.count_rows(&read.sql, limit).await
    }

    async fn connected(&mut self) -> Result<&mut Open, LinkError> {
        if self.open.is_none() {
            let link = match self.target.connect_for(self.settings.statement_max).await {
                Ok(link) => link,
                Err(error) => {
                    sleep(self.retry).await;
                    self.retry = (self.retry * 2).min(RETRY_MAX);
                    return Err(error);
                }
            };
            self.retry = RETRY_MIN;
            self.figures.opened(link.greeting.connection_id);
            self.open = Some(Open { link, schema: None, state: Arc::default() });
        }
        self.open.as_mut().ok_or(LinkError::Closed)
    }
}
