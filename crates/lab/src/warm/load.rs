//! The application of the experiment: connections that run the workload's statements, each at its time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use super::workload::Shape;
use crate::load::session::Target;

/// Logged last by each connection. When it is answered, all that the connection ran before is in the log.
const MARK: &str = "SET @understudy_lab = 1";
/// One statement may take so long.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Ran {
    /// Statements that read.
    pub reads: u64,
    /// Statements that write.
    pub writes: u64,
    /// From the first to the last, s.
    pub took_s: f64,
    /// Each statement's response time, from when it was due; in the order of their ends within a connection.
    #[serde(skip)]
    pub answers: Vec<Answer>,
}

/// One statement's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was due, since the load began.
    pub due: Duration,
    /// How long after that it was answered.
    pub took: Duration,
}

/// Connections that stay over several chunks.
pub struct Load {
    shape: Arc<Shape>,
    connections: Vec<Conn>,
}

impl Load {
    /// Connects.
    pub async fn connect(target: &Target, connections: u32, shape: Shape) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for _ in 0..connections.max(1) {
            all.push(Conn::new(target.opts()).await.context("the load cannot connect")?);
        }
        Ok(Self { shape: Arc::new(shape), connections: all })
    }

    /// Runs the statements `from..from + count`, so many a second; 0: as fast as they are answered.
    ///
    /// # Errors
    /// The first statement that fails, or is not answered: the experiment needs each of them.
    pub async fn run(&mut self, from: u64, count: u64, per_s: u32) -> anyhow::Result<Ran> {
        let step = self.connections.len() as u64;
        let begin = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (index, connection) in std::mem::take(&mut self.connections).into_iter().enumerate() {
            let shape = Arc::clone(&self.shape);
            tasks.spawn(async move {
                let numbers = (index as u64..count).step_by(step as usize);
                run_one(connection, &shape, from, numbers, begin, per_s).await
            });
        }
        let mut ran = Ran::default();
        while let Some(ended) = tasks.join_next().await {
            let (connection, part) = ended.context("a connection of the load broke off")??;
            self.connections.push(connection);
            ran.reads += part.reads;
            ran.writes += part.writes;
            ran.answers.extend(part.answers);
        }
        ran.took_s = begin.elapsed().as_secs_f64();
        Ok(ran)
    }

    /// Says goodbye.
    pub async fn end(self) {
        for connection in self.connections {
            // All that was run is answered; how the goodbye goes does not matter.
            let _ = connection.disconnect().await;
        }
    }
}

async fn run_one(
    mut connection: Conn,
    shape: &Shape,
    from: u64,
    numbers: impl Iterator<Item = u64>,
    begin: Instant,
    per_s: u32,
) -> anyhow::Result<(Conn, Ran)> {
    let mut ran = Ran::default();
    for number in numbers {
        let statement = shape.statement(from + number);
        let due = if per_s == 0 {
            begin.elapsed()
        } else {
            let due = Duration::from_secs_f64(number as f64 / f64::from(per_s));
            tokio::time::sleep_until(begin + due).await;
            due
        };
        run_limited(&mut connection, &statement.sql).await?;
        let took = begin.elapsed().saturating_sub(due);
        ran.answers.push(Answer { due, took });
        if statement.is_read {
            ran.reads += 1;
        } else {
            ran.writes += 1;
        }
    }
    run_limited(&mut connection, MARK).await?;
    Ok((connection, ran))
}

async fn run_limited(connection: &mut Conn, sql: &str) -> anyhow::Result<()> {
    match tokio::time::timeout(STATEMENT_LIMIT, connection.query_drop(sql)).await {
        Ok(ended) => ended.with_context(|| format!("the load's `{sql}`")),
        Err(_) => bail!("the load's `{sql}` was not answered within {} s", STATEMENT_LIMIT.as_secs()),
    }
}
