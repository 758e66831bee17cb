//! One client connection, kept open over many transactions as in sysbench: logs in, prepares its statements, runs transactions, and maps
//! errors to codes that can be counted.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, IoError, Opts, OptsBuilder, Params, Statement};

use super::transaction::{Shape, Step, Transaction};
use crate::ledger::CommitResult;

/// The protocol by which statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Each statement as text.
    Text,
    /// Prepared once per connection, also BEGIN and COMMIT, as sysbench does.
    Prepared,
}

/// The server's address and the account.
#[derive(Clone, Debug)]
pub struct Target {
    /// Host name or address, without port.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Account.
    pub user: String,
    /// Its password.
    pub password: String,
    /// Default schema.
    pub schema: String,
}

impl Target {
    /// Parses `HOST:PORT` or `[V6]:PORT`.
    pub fn parse(address: &str, user: &str, password: &str, schema: &str) -> anyhow::Result<Self> {
        let (host, port) = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host.trim_matches(['[', ']']), port.parse::<u16>().ok()?)))
            .filter(|(host, _)| !host.is_empty())
            .ok_or_else(|| {
                anyhow::anyhow!("{address:?} is not HOST:PORT, such as 127.0.0.1:6033 or [::1]:6033")
            })?;
        Ok(Self {
            host: host.into(),
            port,
            user: user.into(),
            password: password.into(),
            schema: schema.into(),
        })
    }

    /// Options for mysql_async: no extra statements after login, so that the load has only its own statements.
    pub fn opts(&self) -> Opts {
        OptsBuilder::default()
            .ip_or_hostname(self.host.clone())
            .tcp_port(self.port)
            .user(Some(self.user.clone()))
            .pass(Some(self.password.clone()))
            .db_name(Some(self.schema.clone()))
            .prefer_socket(false)
            .tcp_nodelay(true)
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(28_800))
            .stmt_cache_size(0)
            .into()
    }
}

/// How far a transaction got; it determines the meaning of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// COMMIT has not been sent: the transaction cannot be committed.
    Open,
    /// COMMIT was sent, or returned an error.
    Committing,
}

/// The outcome known to the client after an error. `state` is the server's SQLSTATE, `None` when the connection itself failed.
///
/// Class 40 is the standard's "transaction rolled back" (1213 is 40001), except 40003, "completion unknown".
pub fn outcome_of(phase: Phase, state: Option<&str>) -> CommitResult {
    match (phase, state) {
        (Phase::Open, _) => CommitResult::Failed,
        (Phase::Committing, Some(state)) if state.starts_with("40") && state != "40003" => {
            CommitResult::Failed
        }
        (Phase::Committing, _) => CommitResult::Unknown,
    }
}

/// Describes an error: (code, SQLSTATE, message).
pub fn tell(error: &Error) -> (String, Option<String>, String) {
    match error {
        Error::Server(said) => (said.code.to_string(), Some(said.state.clone()), said.message.clone()),
        Error::Io(IoError::Io(io)) => (io_name(io.kind()).into(), None, io.to_string()),
        Error::Driver(DriverError::ConnectionClosed) => ("closed".into(), None, error.to_string()),
        Error::Driver(_) => ("protocol".into(), None, error.to_string()),
        _ => ("client".into(), None, error.to_string()),
    }
}

fn io_name(kind: std::io::ErrorKind) -> &'static str {
    use std::io::ErrorKind as Kind;
    match kind {
        Kind::ConnectionRefused => "refused",
        Kind::ConnectionReset => "reset",
        Kind::ConnectionAborted | Kind::UnexpectedEof | Kind::BrokenPipe => "closed",
        Kind::TimedOut => "timed-out",
        Kind::HostUnreachable | Kind::NetworkUnreachable => "unreachable",
        _ => "io",
    }
}

/// Callbacks while a transaction runs; the caller keeps the state when the future is dropped.
pub trait Watch {
    /// The statement is about to be sent.
    fn sending(&mut self, shape: Shape);
    /// The statement succeeded.
    fn answered(&mut self, shape: Shape);
}

/// A logged-in connection.
pub struct LoadSession {
    conn: Conn,
    /// By table (from 1; 0 for statements without one) and shape; empty with the text protocol.
    prepared: Vec<[Option<Statement>; Shape::ALL.len()]>,
}

impl LoadSession {
    /// Logs in and prepares the statements; `within` limits the total time.
    pub async fn connect(
        target: &Target,
        protocol: Protocol,
        tables: u32,
        within: Duration,
    ) -> Result<Self, Error> {
        let connect = async {
            let mut conn = Conn::new(target.opts()).await?;
            let mut prepared = Vec::new();
            if protocol == Protocol::Prepared {
                for table in 0..=tables {
                    let mut row = [const { None }; Shape::ALL.len()];
                    for shape in Shape::ALL.into_iter().filter(|shape| shape.per_table() == (table > 0)) {
                        row[shape.index()] = Some(conn.prep(shape.sql(table)).await?);
                    }
                    prepared.push(row);
                }
            }
            Ok(Self { conn, prepared })
        };
        tokio::time::timeout(within, connect).await.unwrap_or_else(|_| Err(timed_out(within)))
    }

    /// Runs the transaction, notifying `watch` before and after each statement.
    pub async fn run(&mut self, transaction: &Transaction, watch: &mut impl Watch) -> Result<(), Error> {
        for step in &transaction.steps {
            watch.sending(step.shape);
            self.step(transaction.table, step).await?;
            watch.answered(step.shape);
        }
        Ok(())
    }

    async fn step(&mut self, table: u32, step: &Step) -> Result<(), Error> {
        let table = if step.shape.per_table() { table } else { 0 };
        let statement = self.prepared.get(table as usize).and_then(|row| row[step.shape.index()].as_ref());
        match statement {
            Some(statement) => {
                let params = if step.values.is_empty() { Params::Empty } else { step.values.clone().into() };
                self.conn.exec_drop(statement, params).await
            }
            None => self.conn.query_drop(step.text(table)).await,
        }
    }

    /// Ends the open transaction, if there is one.
    pub async fn roll_back(&mut self) -> Result<(), Error> {
        self.conn.query_drop("ROLLBACK").await
    }

    /// Whether the ledger has `op`, as this connection sees it, in its own transaction.
    pub async fn ledger_holds(&mut self, op: u64) -> Result<bool, Error> {
        let found: Option<u64> =
            self.conn.query_first(format!("SELECT COUNT(*) FROM ledger WHERE op={op}")).await?;
        Ok(found.unwrap_or(0) > 0)
    }

    /// Disconnects; gives up after a second if the peer does not respond.
    pub async fn close(self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.conn.disconnect()).await;
    }
}

/// The error of a client that timed out.
pub fn timed_out(after: Duration) -> Error {
    let text = format!("no answer within {} ms", after.as_millis());
    Error::Io(IoError::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_never_guessed() {
        assert_eq!(outcome_of(Phase::Open, None), CommitResult::Failed, "without COMMIT nothing can land");
        assert_eq!(outcome_of(Phase::Open, Some("08S01")), CommitResult::Failed);
        assert_eq!(
            outcome_of(Phase::Committing, Some("40001")),
            CommitResult::Failed,
            "the server's own word"
        );
        assert_eq!(outcome_of(Phase::Committing, Some("40003")), CommitResult::Unknown);
        assert_eq!(outcome_of(Phase::Committing, Some("HY000")), CommitResult::Unknown);
        assert_eq!(outcome_of(Phase::Committing, None), CommitResult::Unknown);
    }

    #[test]
    fn targets_are_read() {
        let host = |s| Target::parse(s, "u", "p", "d").map(|t| (t.host, t.port)).ok();
        assert_eq!(host("127.0.0.1:6033"), Some(("127.0.0.1".into(), 6033)));
        assert_eq!(host("[::1]:6033"), Some(("::1".into(), 6033)));
        assert_eq!(host("nothing"), None);
        assert_eq!(host(":1"), None);
    }
}
