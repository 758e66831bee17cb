//! Sessions that cannot move: each has a temporary table and repeatedly reads and writes it, outside transactions. When a node dies, its
//! sessions end; those on other nodes must notice nothing but a pause, which is checked here.
//!
//! A session is never reopened: its first error ends it.

use std::collections::BTreeMap;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::session::{self, Target};
use super::stage::{Stage, reached};
use crate::figures::ms;

/// Pause between two statements of a session: short compared with the suspicions of failure that they must meet.
const PACE: Duration = Duration::from_millis(20);
/// A statement that is held must end within this; a longer one is an error.
const PATIENCE: Duration = Duration::from_secs(90);

/// The result of one such session.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PinnedSession {
    /// The node that it was on, by the name that this node reports.
    pub node: String,
    /// Number of successful statements.
    pub answered: u64,
    /// The longest of them: its start since the start of the load, and its duration, ms.
    pub longest_ms: (f64, f64),
    /// Its error, if it ended before the load: time in ms, code and message.
    pub ended: Option<(f64, String, String)>,
}

/// The results of all such sessions.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct PinnedReport {
    /// In the order in which they logged in.
    pub sessions: Vec<PinnedSession>,
}

impl PinnedReport {
    /// Errors of sessions on other nodes than `victim`, by code.
    pub fn errors_elsewhere(&self, victim: &str) -> BTreeMap<String, u64> {
        let mut codes = BTreeMap::new();
        for session in self.sessions.iter().filter(|session| session.node != victim) {
            if let Some((_, code, _)) = &session.ended {
                *codes.entry(code.clone()).or_insert(0) += 1;
            }
        }
        codes
    }

    /// The longest statement of sessions on other nodes than `victim`, ms.
    pub fn longest_elsewhere_ms(&self, victim: &str) -> Option<f64> {
        let elsewhere = self.sessions.iter().filter(|session| session.node != victim);
        elsewhere.map(|session| session.longest_ms.1).reduce(f64::max)
    }
}

struct PinnedConn {
    conn: Conn,
    node: String,
    rows: u64,
}

/// Sessions that are logged in but idle.
pub(super) struct Pinned(Vec<PinnedConn>);

impl Pinned {
    /// Logs in `count` sessions one after the other, so that each login sees the placement of the earlier ones.
    pub async fn connect(target: &Target, count: u32) -> Result<Self, Error> {
        let mut sessions = vec![];
        for _ in 0..count {
            let mut conn = Conn::new(target.opts()).await?;
            conn.query_drop("CREATE TEMPORARY TABLE own (x INT)").await?;
            let node: Option<String> = conn.query_first("SELECT @@wsrep_node_name").await?;
            sessions.push(PinnedConn { conn, node: node.unwrap_or_default(), rows: 0 });
        }
        Ok(Self(sessions))
    }

    /// Runs the statements until the load drains.
    pub async fn run(self, began: Instant, signal: watch::Receiver<Stage>) -> PinnedReport {
        let mut tasks = JoinSet::new();
        for (number, session) in self.0.into_iter().enumerate() {
            let signal = signal.clone();
            tasks.spawn(async move { (number, work(session, began, signal).await) });
        }
        let mut sessions = BTreeMap::new();
        while let Some(Ok((number, session))) = tasks.join_next().await {
            sessions.insert(number, session);
        }
        PinnedReport { sessions: sessions.into_values().collect() }
    }
}

async fn work(mut session: PinnedConn, began: Instant, mut signal: watch::Receiver<Stage>) -> PinnedSession {
    let mut result =
        PinnedSession { node: session.node.clone(), answered: 0, longest_ms: (0.0, 0.0), ended: None };
    let mut given_up = signal.clone();
    loop {
        let at = Instant::now();
        let asked = tokio::select! {
            biased;
            () = reached(&mut given_up, Stage::Ended) => return result,
            asked = tokio::time::timeout(PATIENCE, session.once(result.answered)) => asked,
        };
        match asked.unwrap_or_else(|_| Err(session::timed_out(PATIENCE))) {
            Ok(()) => result.answered += 1,
            Err(error) => {
                let (code, _, message) = session::tell(&error);
                result.ended = Some((ms(began.elapsed()), code, message));
                return result;
            }
        }
        if ms(at.elapsed()) > result.longest_ms.1 {
            result.longest_ms = (ms(at.saturating_duration_since(began)), ms(at.elapsed()));
        }
        tokio::select! {
            biased;
            () = reached(&mut signal, Stage::Draining) => return result,
            () = tokio::time::sleep(PACE) => {}
        }
    }
}

impl PinnedConn {
    /// One statement: mostly a read that must find all rows written before.
    async fn once(&mut self, number: u64) -> Result<(), Error> {
        if number.is_multiple_of(8) {
            self.conn.query_drop("INSERT INTO own VALUES (1)").await?;
            self.rows += 1;
            return Ok(());
        }
        let found: Option<u64> = self.conn.query_first("SELECT COUNT(*) FROM own").await?;
        if found == Some(self.rows) {
            return Ok(());
        }
        let text = format!("a temporary table with {} rows has {found:?}", self.rows);
        Err(Error::Other(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(node: &str, longest_ms: f64, code: Option<&str>) -> PinnedSession {
        let ended = code.map(|code| (1.0, code.to_owned(), String::new()));
        PinnedSession { node: node.into(), answered: 5, longest_ms: (0.0, longest_ms), ended }
    }

    #[test]
    fn those_on_the_node_that_died_are_not_counted() {
        let report = PinnedReport {
            sessions: vec![
                session("db1", 5.0, None),
                session("db1", 40.0, Some("9104")),
                session("db3", 900.0, Some("9104")),
            ],
        };
        assert_eq!(report.errors_elsewhere("db3"), BTreeMap::from([("9104".to_owned(), 1)]));
        assert_eq!(report.longest_elsewhere_ms("db3"), Some(40.0));
        assert_eq!(PinnedReport::default().longest_elsewhere_ms("db3"), None);
    }
}
