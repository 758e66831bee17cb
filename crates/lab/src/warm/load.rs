//! The application of the experiment: connections that run the workload's statements, each at its due time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use super::workload::Shape;
use crate::load::session::Target;

/// Logged last by each connection. When it has a response, everything the connection ran before is in the log.
const MARK: &str = "SET @understudy_lab = 1";
/// Time limit of a statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two attempts to reconnect.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// Results of a load.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Statements that read.
    pub reads: u64,
    /// Statements that write.
    pub writes: u64,
    /// Statements that failed; not included in the other counts.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// When the load began.
    pub began: Instant,
    /// Duration of the whole load, s.
    pub took_s: f64,
    /// Response time of each successful statement.
    pub answers: Vec<Answer>,
}

/// The response to one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was due, since the load began.
    pub due: Duration,
    /// Time from then until the response.
    pub took: Duration,
}

impl Ran {
    fn nothing(began: Instant) -> Self {
        Self { reads: 0, writes: 0, errors: 0, first_error: None, began, took_s: 0.0, answers: Vec::new() }
    }

    /// Returns `self` if no statement failed.
    ///
    /// # Errors
    /// The first error: a recording or a count needs every statement.
    pub fn whole(self) -> anyhow::Result<Self> {
        match self.first_error {
            Some(error) => bail!("{} statements of the load failed; the first: {error}", self.errors),
            None => Ok(self),
        }
    }
}

/// Connections that stay open over several chunks.
pub struct Load {
    shape: Arc<Shape>,
    target: Target,
    connections: Vec<Conn>,
}

impl Load {
    /// Connects.
    pub async fn connect(target: &Target, connections: u32, shape: Shape) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for _ in 0..connections.max(1) {
            all.push(Conn::new(target.opts()).await.context("the load cannot connect")?);
        }
        Ok(Self { shape: Arc::new(shape), target: target.clone(), connections: all })
    }

    /// Runs the statements `from..from + count`, `per_s` a second; 0: as fast as possible. A statement that fails is counted, and not
    /// repeated.
    ///
    /// # Errors
    /// When a connection cannot be reopened, or a statement gets no response within its time limit.
    pub async fn run(&mut self, from: u64, count: u64, per_s: u32) -> anyhow::Result<Ran> {
        let step = self.connections.len().max(1);
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (index, connection) in std::mem::take(&mut self.connections).into_iter().enumerate() {
            let shape = Arc::clone(&self.shape);
            let mut client = Client { connection, target: self.target.clone(), ran: Ran::nothing(began) };
            tasks.spawn(async move {
                client.run(&shape, from, (index as u64..count).step_by(step), per_s).await?;
                anyhow::Ok(client)
            });
        }
        let mut ran = Ran::nothing(began);
        while let Some(ended) = tasks.join_next().await {
            let Client { connection, ran: part, .. } =
                ended.context("a connection of the load broke off")??;
            self.connections.push(connection);
            ran.reads += part.reads;
            ran.writes += part.writes;
            ran.errors += part.errors;
            ran.first_error = ran.first_error.or(part.first_error);
            ran.answers.extend(part.answers);
        }
        ran.took_s = began.elapsed().as_secs_f64();
        Ok(ran)
    }

    /// Disconnects.
    pub async fn end(self) {
        for connection in self.connections {
            // Everything that ran has a response; a failed disconnect does not matter.
            let _ = connection.disconnect().await;
        }
    }
}

/// One connection, and what it ran.
struct Client {
    connection: Conn,
    target: Target,
    ran: Ran,
}

impl Client {
    async fn run(
        &mut self,
        shape: &Shape,
        from: u64,
        numbers: impl Iterator<Item = u64>,
        per_s: u32,
    ) -> anyhow::Result<()> {
        for number in numbers {
            let statement = shape.statement(from + number);
            let due = match per_s {
                0 => self.ran.began.elapsed(),
                _ => Duration::from_secs_f64(number as f64 / f64::from(per_s)),
            };
            tokio::time::sleep_until(self.ran.began + due).await;
            if !self.ask(&statement.sql).await? {
                continue;
            }
            let took = self.ran.began.elapsed().saturating_sub(due);
            self.ran.answers.push(Answer { due, took });
            if statement.is_read {
                self.ran.reads += 1;
            } else {
                self.ran.writes += 1;
            }
        }
        self.ask(MARK).await.map(drop)
    }

    /// Runs a statement; returns whether it succeeded. A broken connection is reopened.
    async fn ask(&mut self, sql: &str) -> anyhow::Result<bool> {
        let ended = tokio::time::timeout(STATEMENT_LIMIT, self.connection.query_drop(sql)).await;
        let error = match ended {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(error)) => error,
            Err(_) => {
                bail!("the load's `{sql}` was not answered within {} s", STATEMENT_LIMIT.as_secs())
            }
        };
        self.ran.errors += 1;
        let is_broken = !matches!(error, mysql_async::Error::Server(_));
        self.ran.first_error.get_or_insert_with(|| format!("`{sql}`: {error}"));
        if is_broken {
            let deadline = Instant::now() + STATEMENT_LIMIT;
            self.connection = loop {
                match Conn::new(self.target.opts()).await {
                    Ok(connection) => break connection,
                    Err(error) if Instant::now() > deadline => {
                        return Err(error).context("the load cannot connect again");
                    }
                    Err(_) => tokio::time::sleep(CONNECT_AGAIN).await,
                }
            };
        }
        Ok(false)
    }
}
