//! A client that reads its own writes: it writes a row (autocommit) and reads it back on the same session, again and again,
//! and begins each round by reading what it wrote in the round before. What was acknowledged and is not there is stale.
//!
//! After an error it connects anew and first reads its last acknowledged row, as an application would that comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use tokio::sync::watch;
use tokio::time::Instant;

use super::session::{self, Target};
use super::{Stage, reached};
use crate::ledger::Trouble;

/// The probe's table.
pub const PROBE_DDL: &str = "CREATE TABLE IF NOT EXISTS probe (run BIGINT UNSIGNED NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (run, n)) ENGINE=InnoDB";

/// Between two rounds.
const PACE: Duration = Duration::from_millis(50);
/// Between two tries to come back.
const PAUSE: Duration = Duration::from_millis(50);

/// What it saw.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ProbeReport {
    /// Reads of a row whose write had been acknowledged.
    pub reads: u64,
    /// Of these, without the row.
    pub stale_reads: u64,
    /// When, since the start of the load.
    pub stale_at: Vec<Duration>,
    /// Statements and connects that failed, by code.
    pub errors_by_code: BTreeMap<String, u64>,
    /// The first few errors in full.
    pub troubles: Vec<Trouble>,
}

pub(super) struct Probe {
    target: Target,
    run: u64,
    conn: Option<Conn>,
    /// The last row whose write was acknowledged; -1 before the first.
    written: i64,
    report: ProbeReport,
}

impl Probe {
    pub async fn connect(target: &Target, run: u64) -> Result<Self, Error> {
        let conn = Some(Conn::new(target.opts()).await?);
        Ok(Self { target: target.clone(), run, conn, written: -1, report: ProbeReport::default() })
    }

    pub async fn run(mut self, began: Instant, mut signal: watch::Receiver<Stage>) -> ProbeReport {
        let mut ended = signal.clone();
        let rounds = async {
            let mut next = 0;
            loop {
                let paused = match self.round(began, next).await {
                    Ok(()) => PACE,
                    Err(error) => {
                        self.note(began, &error);
                        PAUSE
                    }
                };
                // A write that was not acknowledged may have landed: its number is not used again.
                next += 1;
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
        self.report
    }

    async fn round(&mut self, began: Instant, n: i64) -> Result<(), Error> {
        if self.conn.is_none() {
            self.conn = Some(Conn::new(self.target.opts()).await?);
        }
        if self.written >= 0 {
            self.read_back(began).await?;
        }
        let sql = format!("INSERT INTO probe (run, n) VALUES ({}, {n})", self.run);
        if let Some(conn) = &mut self.conn {
            conn.query_drop(sql).await?;
        }
        self.written = n;
        self.read_back(began).await
    }

    async fn read_back(&mut self, began: Instant) -> Result<(), Error> {
        let sql = format!("SELECT COUNT(*) FROM probe WHERE run={} AND n={}", self.run, self.written);
        let Some(conn) = &mut self.conn else { return Ok(()) };
        let found: Option<u64> = conn.query_first(sql).await?;
        self.report.reads += 1;
        if found != Some(1) {
            self.report.stale_reads += 1;
            self.report.stale_at.push(began.elapsed());
        }
        Ok(())
    }

    fn note(&mut self, began: Instant, error: &Error) {
        self.conn = None;
        let (code, _, message) = session::tell(error);
        *self.report.errors_by_code.entry(code.clone()).or_insert(0) += 1;
        if self.report.troubles.len() < 20 {
            self.report.troubles.push(Trouble { at: began.elapsed(), code, during: "probe", message });
        }
    }
}
