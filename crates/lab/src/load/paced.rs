//! Numbered statements at a rate, open loop: a statement falls due whether or not the ones before have been acknowledged. Nothing is repeated,
//! and a statement that fails is an error of the whole load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::session::Target;

/// What was sent so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// The highest number of a statement that was sent.
    pub sent: AtomicU64,
    /// Rows that acknowledged statements changed.
    rows: AtomicU64,
    is_over: AtomicBool,
}

/// The running load. Dropping it aborts it.
pub struct Paced {
    /// Its counts.
    pub counts: Arc<Counts>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Paced {
    /// Connects and starts: `per_s` statements a second in all. Each connection has a writer of its own, which gives the statement of a number,
    /// from 1.
    pub async fn start<W: FnMut(u64) -> String + Send + 'static>(
        target: &Target,
        connections: u32,
        per_s: f64,
        writer: impl Fn(u32) -> W,
    ) -> anyhow::Result<Self> {
        let counts = Arc::new(Counts::default());
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for connection in 0..connections {
            let conn = Conn::new(target.opts()).await.context("the load cannot connect")?;
            tasks.spawn(work(conn, counts.clone(), began, per_s, writer(connection)));
        }
        Ok(Self { counts, tasks })
    }

    /// Stops it; returns how many rows were changed.
    ///
    /// # Errors
    /// When a statement has failed: then that number is unknown.
    pub async fn stop(mut self) -> anyhow::Result<u64> {
        self.counts.is_over.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended?.context("a statement of the load was refused")?;
        }
        Ok(self.counts.rows.load(Relaxed))
    }
}

async fn work(
    mut conn: Conn,
    counts: Arc<Counts>,
    began: Instant,
    per_s: f64,
    mut statement: impl FnMut(u64) -> String,
) -> anyhow::Result<()> {
    loop {
        let number = counts.sent.fetch_add(1, Relaxed) + 1;
        sleep_until(began + Duration::from_secs_f64(number as f64 / per_s)).await;
        if counts.is_over.load(Relaxed) {
            break;
        }
        conn.query_drop(statement(number)).await?;
        counts.rows.fetch_add(conn.affected_rows(), Relaxed);
    }
    conn.disconnect().await?;
    Ok(())
}
