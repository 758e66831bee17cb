//! A client that reads its own writes: it writes a row (autocommit) and reads it back in the same session, again and again,
//! and begins each round by reading the row of the round before. A read that misses an acknowledged row is stale.
//!
//! After an error it reconnects and first reads its last acknowledged row, as an application would after a reconnect.
//!
//! Its rows are rows of the ledger under its own keys, each tried once: they are checked (lost, doubled,
//! phantom) like all others, but without BEGIN and COMMIT around them. A key is never used again, whatever its outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use tokio::sync::watch;
use tokio::time::Instant;

use super::session::{self, Phase, Target};
use super::stage::{Stage, reached};
use crate::ledger::{Client, CommitResult, Op, Trouble};

/// Pause between two rounds.
const PACE: Duration = Duration::from_millis(50);
/// Pause between two attempts to reconnect.
const PAUSE: Duration = Duration::from_millis(50);

/// The probe's results.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ProbeReport {
    /// Reads of a row whose write had been acknowledged.
    pub reads: u64,
    /// Reads that did not find the row.
    pub stale_reads: u64,
    /// The times of the stale reads, since the start of the load.
    pub stale_at: Vec<Duration>,
    /// Statements and connects that failed, by code.
    pub errors_by_code: BTreeMap<String, u64>,
    /// The first errors with all details.
    pub troubles: Vec<Trouble>,
    /// Every write that was sent, for the checker.
    #[serde(skip)]
    pub writes: Vec<Op>,
}

impl ProbeReport {
    /// Writes whose outcome the probe does not know.
    pub fn unknown(&self) -> u64 {
        self.writes.iter().filter(|op| op.outcome == CommitResult::Unknown).count() as u64
    }
}

pub(super) struct Probe {
    target: Target,
    conn: Option<Conn>,
    /// The key of the next write.
    next: u64,
    /// The last row whose write was acknowledged.
    written: Option<u64>,
    /// A write that was sent and has no response yet.
    sent: Option<Op>,
    report: ProbeReport,
}

impl Probe {
    /// `first`: its first key in the ledger; all keys from there on must be free.
    pub async fn connect(target: &Target, first: u64) -> Result<Self, Error> {
        let conn = Some(Conn::new(target.opts()).await?);
        let report = ProbeReport::default();
        Ok(Self { target: target.clone(), conn, next: first, written: None, sent: None, report })
    }

    pub async fn run(mut self, began: Instant, mut signal: watch::Receiver<Stage>) -> ProbeReport {
        let mut ended = signal.clone();
        let rounds = async {
            loop {
                let paused = match self.round(began).await {
                    Ok(()) => PACE,
                    Err(error) => {
                        self.note(began, &error);
                        PAUSE
                    }
                };
                tokio::select! {
                    biased;
                    () = reached(&mut signal, Stage::Draining) => break,
                    () = tokio::time::sleep(paused) => {}
                }
            }
        };
        tokio::select! {
            biased;
            () = rounds => {}
            () = reached(&mut ended, Stage::Ended) => {}
        }
        self.answered(began, CommitResult::Unknown);
        self.report
    }

    async fn round(&mut self, began: Instant) -> Result<(), Error> {
        if self.conn.is_none() {
            self.conn = Some(Conn::new(self.target.opts()).await?);
        }
        self.read_back(began).await?;
        let Some(conn) = &mut self.conn else { return Ok(()) };
        let at = began.elapsed();
        let (id, client) = (self.next, Client::Probe);
        // A write that was not acknowledged may have been applied: its key is not used again.
        self.next += 1;
        let sql = format!("INSERT INTO ledger (op, client, attempt) VALUES ({id}, '{}', 1)", client.name());
        let outcome = CommitResult::Unknown;
        self.sent =
            Some(Op { id, client, due: at, sent: at, done: at, outcome, attempts: 1, troubles: vec![] });
        conn.query_drop(sql).await?;
        self.answered(began, CommitResult::Ok);
        self.written = Some(id);
        self.read_back(began).await
    }

    /// Records the outcome of the write in progress, if there is one.
    fn answered(&mut self, began: Instant, outcome: CommitResult) {
        if let Some(op) = self.sent.take() {
            self.report.writes.push(Op { done: began.elapsed(), outcome, ..op });
        }
    }

    async fn read_back(&mut self, began: Instant) -> Result<(), Error> {
        let (Some(conn), Some(written)) = (&mut self.conn, self.written) else { return Ok(()) };
        let sql = format!("SELECT COUNT(*) FROM ledger WHERE op={written}");
        let found: Option<u64> = conn.query_first(sql).await?;
        self.report.reads += 1;
        if found.unwrap_or(0) == 0 {
            self.report.stale_reads += 1;
            self.report.stale_at.push(began.elapsed());
        }
        Ok(())
    }

    fn note(&mut self, began: Instant, error: &Error) {
        self.conn = None;
        let (code, state, message) = session::tell(error);
        // With autocommit the write is its own COMMIT.
        self.answered(began, session::outcome_of(Phase::Committing, state.as_deref()));
        *self.report.errors_by_code.entry(code.clone()).or_insert(0) += 1;
        if self.report.troubles.len() < 20 {
            self.report.troubles.push(Trouble { at: began.elapsed(), code, during: "probe", message });
        }
    }
}
