//! A client's connection: opened when it is needed, dropped after an error that ended it, with a time limit for each statement.

use std::time::Duration;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Error};

use crate::ledger::CommitResult;
use crate::load::session::{Phase, Target, outcome_of, tell, timed_out};

/// Time limit of one statement of a client; one that is held during a failover is answered sooner.
const STATEMENT_WITHIN: Duration = Duration::from_secs(30);

/// Numbers of connections, over all clients.
static SESSIONS: AtomicU64 = AtomicU64::new(1);

/// A connection to one address.
pub struct Connection {
    target: Target,
    /// Sent once after each login.
    settings: Option<&'static str>,
    /// Whether statements are prepared before they are executed.
    prepared: bool,
    open: Option<(Conn, u64)>,
}

impl Connection {
    /// Opens nothing yet.
    pub fn new(target: &Target, settings: Option<&'static str>, prepared: bool) -> Self {
        Self { target: target.clone(), settings, prepared, open: None }
    }

    /// The number of the open connection; 0 if there is none.
    pub fn session(&self) -> u64 {
        self.open.as_ref().map_or(0, |(_, session)| *session)
    }

    /// The open connection; connects if there is none.
    pub async fn connect(&mut self) -> Result<&mut Conn, Error> {
        let open = match self.open.take() {
            Some(open) => open,
            None => (self.log_in().await?, SESSIONS.fetch_add(1, Relaxed)),
        };
        Ok(&mut self.open.insert(open).0)
    }

    async fn log_in(&self) -> Result<Conn, Error> {
        let log_in = async {
            let mut conn = Conn::new(self.target.opts()).await?;
            if let Some(settings) = self.settings {
                conn.query_drop(settings).await?;
            }
            Ok(conn)
        };
        let limit = STATEMENT_WITHIN;
        tokio::time::timeout(limit, log_in).await.unwrap_or_else(|_| Err(timed_out(limit)))
    }

    /// Runs one statement; returns its rows, and the id that its insert was given (0 without one).
    pub async fn run<R: FromRow + Send + 'static>(&mut self, sql: &str) -> Result<(Vec<R>, u64), Error> {
        let prepared = self.prepared;
        let conn = self.connect().await?;
        let exchange = async {
            let rows = if prepared { conn.exec(sql, ()).await? } else { conn.query(sql).await? };
            Ok((rows, conn.last_insert_id().unwrap_or(0)))
        };
        let limit = STATEMENT_WITHIN;
        let done = tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(timed_out(limit)));
        if matches!(&done, Err(error) if !matches!(error, Error::Server(_))) {
            self.open = None;
        }
        done
    }

    /// The same for a statement without rows.
    pub async fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        self.run::<mysql_async::Row>(sql).await.map(|(_, id)| id)
    }

    /// Rolls back what is open after an error; a connection that cannot do that is dropped.
    pub async fn clean(&mut self) {
        if self.open.is_some() && self.execute("ROLLBACK").await.is_err() {
            self.open = None;
        }
    }

    /// Closes the connection; the next statement opens another one.
    pub fn close(&mut self) {
        self.open = None;
    }
}

/// The outcome that the client knows after `error` in this phase, and the error as text.
pub fn ended(phase: Phase, error: &Error) -> (CommitResult, String) {
    let (code, state, text) = tell(error);
    (outcome_of(phase, state.as_deref()), format!("{code}: {text}"))
}
