//! Runs statements on the standby and tells what pages they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use link::{Link, LinkError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::analyze::{self, Pages};
use super::server::{self, Counters, Means};
use super::window::NotRun;
use crate::replay::figures::Figures;
use crate::replay::target::{Target, use_schema};

/// Behind the limit that the server itself has, so that a statement never goes on without anybody waiting for it.
const GRACE: Duration = Duration::from_secs(5);

/// More disk reads of others than this, during one statement, are not subtracted.
const OTHERS_MAX: f64 = 0.5;

/// One session on the standby, connected when it is needed.
pub struct Probe {
    target: Arc<Target>,
    statement_max: Duration,
    /// Where it is noted which connections there are, so that whoever breaks this off can end what they run.
    figures: Arc<Figures>,
    open: Option<Open>,
}

struct Open {
    link: Link,
    means: Means,
    schema: Option<Box<[u8]>>,
}

impl Probe {
    pub fn new(target: Arc<Target>, statement_max: Duration, figures: Arc<Figures>) -> Probe {
        Probe { target, statement_max, figures, open: None }
    }

    /// Another session on the same standby.
    fn another(&self) -> Probe {
        Probe::new(Arc::clone(&self.target), self.statement_max, Arc::clone(&self.figures))
    }

    /// Its session is not needed any more.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.figures.running.closed(open.link.greeting.connection_id);
            open.link.quit();
        }
    }

    async fn open(&mut self) -> Result<&mut Open, LinkError> {
        if self.open.is_none() {
            let mut link = self.target.connect_for(self.statement_max).await?;
            let means = server::means(&mut link).await?;
            self.figures.running.opened(link.greeting.connection_id);
            self.open = Some(Open { link, means, schema: None });
        }
        self.open.as_mut().ok_or(LinkError::Closed)
    }

    /// A session that failed otherwise than by the server's word is not used again.
    fn keep<T>(&mut self, answer: Result<T, LinkError>) -> Result<T, LinkError> {
        if answer.as_ref().is_err_and(|error| !matches!(error, LinkError::Rejected { .. })) {
            self.close();
        }
        answer
    }

    /// How pages are learned from this server.
    pub async fn means(&mut self) -> Result<Means, LinkError> {
        Ok(self.open().await?.means)
    }

    /// The server's counters.
    pub async fn counters(&mut self) -> Result<Counters, LinkError> {
        let answer = server::counters(&mut self.open().await?.link).await;
        self.keep(answer)
    }

    /// Runs a statement, which must have been let pass by the guard. Its pages, where ANALYZE tells them.
    pub async fn run(&mut self, schema: Option<&[u8]>, sql: &[u8]) -> Result<Option<Pages>, LinkError> {
        let limit = self.statement_max + GRACE;
        let answer = self.open().await?.run(schema, sql, limit).await;
        self.keep(answer)
    }

    /// Runs a statement between two looks at the server's counters, and tells all pages that it accessed and read: ANALYZE's, and what the
    /// optimizer read for estimates. Without ANALYZE, the counters' difference. `others_per_s`: disk reads of others, which are subtracted.
    pub async fn score(
        &mut self,
        schema: Option<&[u8]>,
        sql: &[u8],
        others_per_s: f64,
    ) -> Result<(f64, f64), LinkError> {
        let before = self.counters().await?;
        let begin = Instant::now();
        let pages = self.run(schema, sql).await?;
        if let Some(Pages { accessed, read, has_ranges: false }) = pages {
            return Ok((accessed as f64, read as f64));
        }
        let behind = self.counters().await?;
        let counted = behind.reads.saturating_sub(before.reads) as f64;
        let others = others_per_s * begin.elapsed().as_secs_f64();
        let read = counted - others;
        Ok(match pages {
            // Among so many reads of others the few of an estimate are not to be seen.
            Some(pages) if others > OTHERS_MAX => (pages.accessed as f64, pages.read as f64),
            // Each page that was read for an estimate was accessed for it, too.
            Some(pages) => (pages.accessed as f64 + (read - pages.read as f64).max(0.0), read),
            None => (behind.requests.saturating_sub(before.requests) as f64, read),
        })
    }
}

impl Open {
    async fn run(
        &mut self,
        schema: Option<&[u8]>,
        sql: &[u8],
        limit: Duration,
    ) -> Result<Option<Pages>, LinkError> {
        if let Some(name) = schema
            && self.schema.as_deref() != Some(name)
        {
            self.link.count_rows(&use_schema(name), limit).await?;
            self.schema = Some(name.into());
        }
        match self.means {
            Means::Analyze => {
                let text = [b"ANALYZE FORMAT=JSON ", sql].concat();
                let rows = self.link.query_bytes(&text, limit).await?;
                let pages = rows.text(0, 0).and_then(analyze::pages);
                pages.map(Some).ok_or_else(|| {
                    LinkError::Protocol("the answer of ANALYZE FORMAT=JSON is not understood".into())
                })
            }
            Means::Counters => {
                self.link.count_rows(sql, limit).await?;
                Ok(None)
            }
        }
    }
}

/// What running the rest of a window came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Disk reads when a quarter of it was run, a half, and all.
    pub read: [u64; 3],
    /// Statements of the window up to where it was run.
    pub statements: u64,
    /// Statements that were sent.
    pub sent: u64,
    /// Of these, those with errors.
    pub failed: u64,
}

/// It is run in so many parts of equal size; the time is looked at between them.
const PARTS: usize = 50;
/// A statement is not run again before so large a part of the buffer pool was read from disk since: what it read is still in memory, and still young. With a
/// quarter, statements came again too seldom to keep the pages that are asked for most. InnoDB puts a page that is read at 3/8 of its list
/// (`innodb_old_blocks_pct`).
const POOL_SHARE: f64 = 0.1;
/// In [`Shared::run_at`]: not run yet.
const NEVER: u64 = u64::MAX;

struct Shared {
    rest: NotRun,
    /// The next of the order.
    next: AtomicUsize,
    /// Disk reads until now: the server's count at the last part's end, and what ANALYZE told since.
    read: AtomicU64,
    /// For each text, what [`Shared::read`] was when it was run last.
    run_at: Vec<AtomicU64>,
    /// So much has to be read before a text is run again.
    again: u64,
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Runs what the standby did not run, in its order, with so many sessions, until all was run or the time is over. `others_per_s`: disk reads a second
/// that are not ours, of the replay and of the writes that the standby applies.
///
/// Disk reads are those of the server's counter: ANALYZE does not tell the pages that the optimizer reads to estimate ranges (MariaDB 10.11.19), which
/// on a cold standby were four of ten.
pub async fn complete(
    probe: &mut Probe,
    rest: NotRun,
    sessions: usize,
    time_max: Duration,
    others_per_s: f64,
) -> Result<Completed, LinkError> {
    if rest.order.is_empty() {
        return Ok(Completed::default());
    }
    let at_begin = probe.counters().await?;
    let begin = Instant::now();
    let statements = rest.order.len();
    let shared = Arc::new(Shared {
        run_at: rest.texts.iter().map(|_| AtomicU64::new(NEVER)).collect(),
        rest,
        next: AtomicUsize::new(0),
        read: AtomicU64::new(0),
        again: (at_begin.pool_pages as f64 * POOL_SHARE) as u64,
        sent: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    });
    let figures = Arc::clone(&probe.figures);
    let mut workers: Vec<Probe> = (0..sessions.max(1)).map(|_| probe.another()).collect();
    // Disk reads up to the end of each part.
    let mut read = vec![0];
    for part in 1..=PARTS {
        if begin.elapsed() > time_max {
            break;
        }
        let to = statements * part / PARTS;
        let mut running = JoinSet::new();
        for mut worker in workers.drain(..) {
            let shared = Arc::clone(&shared);
            let work = async move {
                shared.work(&mut worker, to).await;
                worker
            };
            running.spawn(figures.running.counted(work));
        }
        while let Some(ended) = running.join_next().await {
            workers.extend(ended.ok());
        }
        shared.next.store(to, Relaxed);
        let counted = probe.counters().await?.reads.saturating_sub(at_begin.reads);
        let others = others_per_s * begin.elapsed().as_secs_f64();
        let ours = counted.saturating_sub(others as u64).max(read.last().copied().unwrap_or(0));
        shared.read.store(ours, Relaxed);
        read.push(ours);
    }
    workers.iter_mut().for_each(Probe::close);
    let parts = read.len() - 1;
    // Between the ends of two parts it grows evenly.
    let at = |share: f64| {
        let at = parts as f64 * share;
        let (before, behind) = (read[at.floor() as usize] as f64, read[at.ceil() as usize] as f64);
        (before + (behind - before) * at.fract()) as u64
    };
    Ok(Completed {
        read: [at(0.25), at(0.5), at(1.0)],
        statements: (statements * parts / PARTS) as u64,
        sent: shared.sent.load(Relaxed),
        failed: shared.failed.load(Relaxed),
    })
}

impl Shared {
    /// One session's part: takes the next statement that has to be run, up to the end of this part.
    async fn work(&self, probe: &mut Probe, to: usize) {
        loop {
            let at = self.next.fetch_add(1, Relaxed);
            if at >= to {
                return;
            }
            let number = self.rest.order[at] as usize;
            let now = self.read.load(Relaxed);
            let before = self.run_at[number].load(Relaxed);
            if before != NEVER && now.saturating_sub(before) < self.again {
                continue;
            }
            self.run_at[number].store(now, Relaxed);
            self.sent.fetch_add(1, Relaxed);
            let text = &self.rest.texts[number];
            match probe.run(text.schema.as_deref(), &text.sql).await {
                Ok(pages) => self.read.fetch_add(pages.map_or(0, |pages| pages.read), Relaxed),
                Err(_) => self.failed.fetch_add(1, Relaxed),
            };
        }
    }
}
