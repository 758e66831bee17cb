//! One session on the server: runs the statements of one recorded connection, or of those that share it, in their order.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use link::{Link, LinkError};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout};

use super::figures::Figures;
use super::job::Job;
use super::state::{self, Texts};
use super::target::{Target, use_schema};
use super::{Sessions, Settings};

/// After a connection that could not be made, the next attempt waits; longer each time.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// A statement whose session could not be connected so often in a row is given up, and those behind it have one attempt each until one succeeds:
/// a server that is gone must not keep a replay from ending.
const ATTEMPTS_MAX: u32 = 10;

/// A session, connected when there is something to run.
pub(super) struct ReplaySession {
    target: Arc<Target>,
    settings: Settings,
    figures: Arc<Figures>,
    jobs: Receiver<Job>,
    open: Option<Open>,
    /// The last statement was given up, since nothing could be connected.
    is_cut_off: bool,
}

struct Open {
    link: Link,
    schema: Option<Box<[u8]>>,
    /// What was said to it of how reads are meant.
    state: Texts,
}

impl ReplaySession {
    pub(super) fn new(
        target: Arc<Target>,
        settings: Settings,
        figures: Arc<Figures>,
        jobs: Receiver<Job>,
    ) -> ReplaySession {
        ReplaySession { target, settings, figures, jobs, open: None, is_cut_off: false }
    }

    /// Until no more can come, or nothing came for long.
    pub(super) async fn run(mut self) {
        self.figures.sessions_begun.fetch_add(1, Relaxed);
        let idle_max = match self.settings.sessions {
            Sessions::PerConnection { idle_max } => idle_max,
            Sessions::Pool(_) => Duration::MAX,
        };
        loop {
            match timeout(idle_max, self.jobs.recv()).await {
                Ok(Some(job)) => self.job(job).await,
                Ok(None) => break,
                // What came meanwhile is run; who sends later begins a new session.
                Err(_) => self.jobs.close(),
            }
        }
        if let Some(open) = self.open.take() {
            open.link.quit();
            self.figures.closed(open.link.greeting.connection_id);
        }
    }

    async fn job(&mut self, job: Job) {
        self.figures.waiting.fetch_sub(1, Relaxed);
        let behind = self.figures.behind(job.times.end_us);
        if self.settings.lag_max.is_some_and(|lag_max| behind > lag_max) {
            self.figures.late.fetch_add(1, Relaxed);
            return;
        }
        let begin = Instant::now();
        let ended = self.attempt(&job).await;
        if let Err(error) = &ended
            && !matches!(error, LinkError::Rejected { .. })
        {
            self.close();
        }
        let expected = Duration::from_micros(job.times.query_time_us);
        match ended {
            Ok(rows) => self.figures.executed(&job.sql, begin.elapsed(), expected, rows, job.rows_sent),
            Err(error) => self.figures.failed(&error),
        }
        self.figures.done(job.times.end_us);
        drop(job.permit);
    }

    /// Runs it once. It reads, so nothing is lost when it fails.
    async fn attempt(&mut self, job: &Job) -> Result<u64, LinkError> {
        let limit = self.settings.statement_max;
        let figures = Arc::clone(&self.figures);
        let open = self.connected().await?;
        if !Arc::ptr_eq(&open.state, &job.state) && open.state != job.state {
            state::apply(&mut open.link, &open.state, &job.state, limit, |error| {
                figures.state_refused(error)
            })
            .await?;
        }
        open.state = Arc::clone(&job.state);
        if let Some(schema) = &job.schema
            && open.schema.as_ref() != Some(schema)
        {
            open.link.count_rows(&use_schema(schema), limit).await?;
            open.schema = Some(schema.clone());
        }
        if job.modes == 0 {
            return open.link.count_rows(&job.sql, limit).await;
        }
        open.link.query(&state::with_modes(job.modes), limit).await?;
        let ran = open.link.count_rows(&job.sql, limit).await;
        if let Err(error) = open.link.query(state::USUAL_MODES, limit).await {
            // Nothing else may run under these modes.
            self.close();
            return Err(error);
        }
        ran
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.figures.closed(open.link.greeting.connection_id);
        }
    }

    async fn connected(&mut self) -> Result<&mut Open, LinkError> {
        if self.open.is_none() {
            let mut wait = RETRY_MIN;
            let mut attempt = if self.is_cut_off { ATTEMPTS_MAX } else { 1 };
            let link = loop {
                match self.target.connect_for(self.settings.statement_max).await {
                    Ok(link) => break link,
                    // Too many connections, a server that begins: it passes. A wrong password does not.
                    Err(error) if attempt == ATTEMPTS_MAX || is_final(&error) => {
                        self.is_cut_off = true;
                        return Err(error);
                    }
                    Err(_) => {
                        sleep(wait).await;
                        wait = (wait * 2).min(RETRY_MAX);
                        attempt += 1;
                    }
                }
            };
            self.is_cut_off = false;
            self.figures.opened(link.greeting.connection_id);
            self.open = Some(Open { link, schema: None, state: Texts::default() });
        }
        self.open.as_mut().ok_or(LinkError::Closed)
    }
}

fn is_final(error: &LinkError) -> bool {
    const TOO_MANY: [u16; 3] = [1040, 1203, 1226];
    match error {
        LinkError::Rejected { errno, .. } => !TOO_MANY.contains(errno),
        LinkError::Unanswered(_) | LinkError::Tls(_) | LinkError::Protocol(_) => true,
        _ => false,
    }
}
