//! Runs statements on the standby and tells what pages they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use link::{Link, LinkError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::analyze::{self, Pages};
use super::server::{self, Counters, Means};
use super::window::Text;
use crate::replay::figures::Figures;
use crate::replay::target::Target;

/// Behind the limit that the server itself has, so that a statement never goes on without anybody waiting for it.
const GRACE: Duration = Duration::from_secs(5);

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
            let mut link = self.target.connect().await?;
            let means = server::prepare(&mut link, self.statement_max).await?;
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

    /// Runs a statement, which must have been let pass by the guard. Its pages; None where they can only be told by counters and `may_be_coarse` is not said.
    pub async fn run(
        &mut self,
        schema: Option<&[u8]>,
        sql: &[u8],
        may_be_coarse: bool,
    ) -> Result<Option<Pages>, LinkError> {
        let limit = self.statement_max + GRACE;
        let open = self.open().await?;
        let answer = open.run(schema, sql, may_be_coarse, limit).await;
        self.keep(answer)
    }
}

impl Open {
    async fn run(
        &mut self,
        schema: Option<&[u8]>,
        sql: &[u8],
        may_be_coarse: bool,
        limit: Duration,
    ) -> Result<Option<Pages>, LinkError> {
        if let Some(name) = schema
            && self.schema.as_deref() != Some(name)
        {
            let mut text = b"USE `".to_vec();
            for byte in name {
                text.extend_from_slice(if *byte == b'`' { b"``" } else { std::slice::from_ref(byte) });
            }
            text.push(b'`');
            self.link.count_rows(&text, limit).await?;
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
            Means::Counters if may_be_coarse => {
                let before = server::counters(&mut self.link).await?;
                self.link.count_rows(sql, limit).await?;
                let behind = server::counters(&mut self.link).await?;
                Ok(Some(Pages {
                    accessed: behind.requests.saturating_sub(before.requests),
                    read: behind.reads.saturating_sub(before.reads),
                }))
            }
            Means::Counters => {
                self.link.count_rows(sql, limit).await?;
                Ok(None)
            }
        }
    }
}

/// What running many statements came to.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// Pages read from disk, for each part that was run.
    pub found: Vec<u64>,
    /// How many parts there were to run.
    pub parts: usize,
    /// Statements that were run.
    pub texts: u64,
    /// Of these, those with errors.
    pub failed: u64,
}

/// So many parts, of about equal size: enough to see how the count grows.
const PARTS: usize = 20;

/// Runs statements, each once, with so many sessions, part by part in their order, until they end or the time is over.
pub async fn run_all(
    probe: &mut Probe,
    texts: Vec<Text>,
    sessions: usize,
    time_max: Duration,
) -> Result<Found, LinkError> {
    if texts.is_empty() {
        return Ok(Found::default());
    }
    let means = probe.means().await?;
    let begin = Instant::now();
    let (texts, parts) = (Arc::new(texts), PARTS);
    let mut done = Found { parts, ..Found::default() };
    let mut workers: Vec<Probe> = (0..sessions.max(1)).map(|_| probe.another()).collect();
    for part in 0..parts {
        if begin.elapsed() > time_max {
            break;
        }
        let (from, to) = (texts.len() * part / parts, texts.len() * (part + 1) / parts);
        let next = Arc::new(AtomicUsize::new(from));
        let before = probe.counters().await?;
        let mut running = JoinSet::new();
        for mut worker in workers.drain(..) {
            let (texts, next) = (Arc::clone(&texts), Arc::clone(&next));
            running.spawn(async move {
                let (mut read, mut failed) = (0, 0);
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    if at >= to {
                        break;
                    }
                    let text = &texts[at];
                    match worker.run(text.schema.as_deref(), &text.sql, false).await {
                        Ok(pages) => read += pages.map_or(0, |pages| pages.read),
                        Err(_) => failed += 1,
                    }
                }
                (worker, read, failed)
            });
        }
        let mut read = 0;
        while let Some(ended) = running.join_next().await {
            let Ok((worker, its_read, its_failed)) = ended else { continue };
            workers.push(worker);
            read += its_read;
            done.failed += its_failed;
        }
        if means == Means::Counters {
            read = probe.counters().await?.reads.saturating_sub(before.reads);
        }
        done.found.push(read);
        done.texts += (to - from) as u64;
    }
    workers.iter_mut().for_each(Probe::close);
    Ok(done)
}
