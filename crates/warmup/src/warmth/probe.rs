//! Runs statements on the standby and determines the pages that they accessed.

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

/// Added to the time limit that the server enforces, so that the client never stops waiting before the server ends the statement.
const GRACE: Duration = Duration::from_secs(5);

/// If other sessions read more pages than this during one statement, only the pages that ANALYZE reports are counted.
const OTHERS_MAX: f64 = 0.5;

/// One session on the standby, connected on demand.
pub struct Probe {
    target: Arc<Target>,
    statement_max: Duration,
    /// The register of open connections, so that an abort can kill the statements that they run.
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

    /// A further session on the same standby.
    fn another(&self) -> Probe {
        Probe::new(Arc::clone(&self.target), self.statement_max, Arc::clone(&self.figures))
    }

    /// Closes the session.
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

    /// A session with an error other than an error reply of the server is not used again.
    fn keep<T>(&mut self, answer: Result<T, LinkError>) -> Result<T, LinkError> {
        if answer.as_ref().is_err_and(|error| !matches!(error, LinkError::Rejected { .. })) {
            self.close();
        }
        answer
    }

    /// The method by which page accesses are determined on this server.
    pub async fn means(&mut self) -> Result<Means, LinkError> {
        Ok(self.open().await?.means)
    }

    /// The server's counters.
    pub async fn counters(&mut self) -> Result<Counters, LinkError> {
        let answer = server::counters(&mut self.open().await?.link).await;
        self.keep(answer)
    }

    /// Runs a statement that the guard has accepted. Returns its page accesses as far as they are known.
    async fn run(&mut self, schema: Option<&[u8]>, sql: &[u8]) -> Result<Told, LinkError> {
        let limit = self.statement_max + GRACE;
        let answer = self.open().await?.run(schema, sql, limit).await;
        self.keep(answer)
    }

    /// Runs a statement and reads the server's counters before and after it. Returns all pages that it accessed and read: those that
    /// ANALYZE reports, and those that the optimizer read for its estimates. Without ANALYZE it returns the difference of the counters.
    /// `None` when the answer of ANALYZE cannot be judged. `before`: the counters of just before. `others_per_s`: disk reads a second by other sessions, which are subtracted.
    pub async fn score(
        &mut self,
        schema: Option<&[u8]>,
        sql: &[u8],
        before: Counters,
        others_per_s: f64,
    ) -> Result<Option<(f64, f64)>, LinkError> {
        let begin = Instant::now();
        let pages = match self.run(schema, sql).await? {
            Told::Pages(Pages { accessed, read, has_ranges: false }) => {
                return Ok(Some((accessed as f64, read as f64)));
            }
            Told::Pages(pages) => Some(pages),
            Told::Counters => None,
            Told::NotUnderstood => return Ok(None),
        };
        let behind = self.counters().await?;
        let counted = behind.reads.saturating_sub(before.reads) as f64;
        let others = others_per_s * begin.elapsed().as_secs_f64();
        let read = counted - others;
        Ok(Some(match pages {
            // The few pages of an estimate are not distinguishable among so many reads of other sessions.
            Some(pages) if others > OTHERS_MAX => (pages.accessed as f64, pages.read as f64),
            // Each page that was read for an estimate was an access as well.
            Some(pages) => (pages.accessed as f64 + (read - pages.read as f64).max(0.0), read),
            None => (behind.requests.saturating_sub(before.requests) as f64, read),
        }))
    }
}

/// What is known of the pages of a statement that was run.
enum Told {
    /// ANALYZE reported them.
    Pages(Pages),
    /// This server's ANALYZE does not report them.
    Counters,
    /// It should have, and its answer cannot be judged.
    NotUnderstood,
}

impl Open {
    async fn run(&mut self, schema: Option<&[u8]>, sql: &[u8], limit: Duration) -> Result<Told, LinkError> {
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
                let answer = rows.rows.first().and_then(|row| row.first()?.as_deref());
                let pages = answer.and_then(|answer| analyze::pages(sql, answer));
                Ok(pages.map_or(Told::NotUnderstood, Told::Pages))
            }
            Means::Counters => {
                self.link.count_rows(sql, limit).await?;
                Ok(Told::Counters)
            }
        }
    }
}

/// The result of running the rest of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Disk reads after a quarter, half and all of the statements.
    pub read: [u64; 3],
    /// The number of statements of the window up to the point that was reached.
    pub statements: u64,
    /// The number of statements that were sent.
    pub sent: u64,
    /// The number of those that ended with an error.
    pub failed: u64,
}

/// The statements are run in this many parts of equal size; the time limit is checked between them.
const PARTS: usize = 50;
/// A statement is run again only after this share of the buffer pool has been read from disk since its last run: before that its pages are
/// still in memory, near the young end of the LRU list. With a quarter, statements were repeated too rarely to keep the most frequently
/// used pages in memory. InnoDB inserts a page that it reads at 3/8 of the list (`innodb_old_blocks_pct`).
const POOL_SHARE: f64 = 0.1;
/// The value in [`Shared::run_at`] for a statement that has not been run.
const NEVER: u64 = u64::MAX;

struct Shared {
    rest: NotRun,
    /// The index of the next statement in the order.
    next: AtomicUsize,
    /// Disk reads so far: the server's counter at the end of the last part, plus what ANALYZE has reported since.
    read: AtomicU64,
    /// For each text, the value of [`Shared::read`] when it was last run.
    run_at: Vec<AtomicU64>,
    /// The number of disk reads after which a text is run again.
    again: u64,
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Runs the statements that the standby did not run, in their order and with this many sessions, until all have been run or the time is
/// over. `others_per_s`: disk reads a second that are not caused by this, but by the replay and by replicated writes.
///
/// Disk reads are taken from the server's counter, because ANALYZE does not report the pages that the optimizer reads to estimate ranges
/// (MariaDB 10.11.19). On a cold standby these were four of ten.
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
    // Assumes even growth between the ends of two parts.
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
    /// The work of one session: repeatedly takes the next statement that has to be run, up to the end of this part.
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
                Ok(Told::Pages(pages)) => self.read.fetch_add(pages.read, Relaxed),
                // The server's counter has its reads at the end of this part.
                Ok(Told::Counters | Told::NotUnderstood) => 0,
                Err(_) => self.failed.fetch_add(1, Relaxed),
            };
        }
    }
}
