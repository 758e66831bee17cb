//! Reads of the proxy's clients, run on a standby at once: no log, no order, and what comes too late is left out.
//!
//! The same three guards as a replay: what is sent at all, sessions that are read only, an account that cannot write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use link::{Link, LinkError};
use session::finished::{Finished, Offered, ReadState};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::replay::guard::{Verdict, judge_sql};
use crate::replay::state;
use crate::replay::target::{Refused, Target, use_schema};

/// How to mirror.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sessions on the standby.
    pub sessions: usize,
    /// A read is left out when its client has had its answer for longer than this.
    pub wait_max: Duration,
    /// The longest that one read may take there.
    pub statement_max: Duration,
    /// What these accounts read is left out.
    pub skipped_users: Vec<String>,
    /// The standby's account may have rights to write.
    pub may_be_writable: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sessions: 8,
            wait_max: Duration::from_secs(1),
            statement_max: Duration::from_secs(60),
            skipped_users: Vec::new(),
            may_be_writable: false,
        }
    }
}

/// What became of the reads, since mirroring began. What the queue before had no room for is not among them.
#[derive(Debug, Default)]
pub struct Figures {
    /// Run on the standby.
    pub run: AtomicU64,
    /// Left out, since they had waited for too long.
    pub late: AtomicU64,
    /// Left out by the guard.
    pub refused: AtomicU64,
    /// Of accounts that are left out.
    pub skipped: AtomicU64,
    /// Rows that the standby answered with.
    pub rows: AtomicU64,
    /// Reads whose number of rows was another there: it is behind, or ahead.
    pub rows_differ: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Figures {
    /// Errors by class.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed(&self, error: &LinkError) {
        let class = match error {
            // The server's sentence names tables; its number is the class.
            LinkError::Rejected { errno, .. } => format!("error {errno}"),
            LinkError::TimedOut { .. } => "no answer in time".to_owned(),
            other => other.to_string(),
        };
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner).entry(class).or_default() += 1;
    }
}

/// After a connection that could not be made, the next attempt waits; longer each time.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Mirrors until the proxy ends, or this is dropped: then nothing more runs. Fails at once on an account that may write.
pub async fn mirror(
    reads: Receiver<Offered>,
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
) -> Result<(), Refused> {
    target.check(settings.may_be_writable).await?;
    let reads = Arc::new(tokio::sync::Mutex::new(reads));
    let mut sessions = JoinSet::new();
    for _ in 0..settings.sessions.max(1) {
        let session = Session {
            reads: Arc::clone(&reads),
            target: Arc::clone(&target),
            settings: settings.clone(),
            figures: Arc::clone(&figures),
            open: None,
            retry: RETRY_MIN,
        };
        sessions.spawn(session.run());
    }
    while sessions.join_next().await.is_some() {}
    Ok(())
}

/// One session on the standby.
struct Session {
    reads: Arc<tokio::sync::Mutex<Receiver<Offered>>>,
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
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
        loop {
            let next = self.reads.lock().await.recv().await;
            let Some(Offered { read, room }) = next else { break };
            self.read(&read).await;
            drop(room);
        }
        if let Some(open) = self.open.take() {
            open.link.quit();
        }
    }

    async fn read(&mut self, read: &Finished) {
        let figures = Arc::clone(&self.figures);
        if self.settings.skipped_users.iter().any(|user| **user == *read.user) {
            figures.skipped.fetch_add(1, Relaxed);
            return;
        }
        let is_let_through = judge_sql(&read.sql) == Verdict::Replayed
            && read.state.statements.iter().all(|text| judge_sql(text.as_bytes()) == Verdict::State);
        if !is_let_through {
            figures.refused.fetch_add(1, Relaxed);
            return;
        }
        let age = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(Duration::ZERO, |now| now.saturating_sub(Duration::from_micros(read.ended_us)));
        if age > self.settings.wait_max {
            figures.late.fetch_add(1, Relaxed);
            return;
        }
        match self.attempt(read).await {
            Ok(rows) => {
                figures.run.fetch_add(1, Relaxed);
                figures.rows.fetch_add(rows, Relaxed);
                let differs = read.rows_sent.is_some_and(|sent| sent != rows);
                figures.rows_differ.fetch_add(u64::from(differs), Relaxed);
            }
            Err(error) => {
                figures.failed(&error);
                if !matches!(error, LinkError::Rejected { .. }) {
                    self.open = None;
                }
            }
        }
    }

    /// Runs it once. It reads, so nothing is lost when it fails.
    async fn attempt(&mut self, read: &Finished) -> Result<u64, LinkError> {
        let limit = self.settings.statement_max;
        let figures = Arc::clone(&self.figures);
        let open = self.connected().await?;
        if !Arc::ptr_eq(&open.state, &read.state) {
            if open.state != read.state {
                let (has, wanted) = (&open.state.statements, &read.state.statements);
                state::apply(&mut open.link, has, wanted, limit, |error| figures.failed(error)).await?;
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
            self.open = Some(Open { link, schema: None, state: Arc::default() });
        }
        self.open.as_mut().ok_or(LinkError::Closed)
    }
}
