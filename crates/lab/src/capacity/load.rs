//! Writes numbered rows at a rate, open loop: a row falls due whether or not the ones before have been acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::load::session::Target;

/// The table. Its primary key is the row number; the second index makes applying a row as much work as an application's.
pub const DDL: &str = "CREATE TABLE capacity (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, k INT NOT NULL, pad CHAR(200) NOT NULL, KEY (k))";

/// Rows written so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// The highest row number that was sent.
    pub sent: AtomicU64,
    /// Number of acknowledged rows.
    pub acknowledged: AtomicU64,
    is_over: AtomicBool,
}

/// Running writers. Dropping them aborts them.
pub struct Writers {
    /// Their counts.
    pub counts: Arc<Counts>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Writers {
    /// Connects and starts.
    pub async fn start(target: &Target, connections: u32, rate: f64) -> anyhow::Result<Self> {
        let counts = Arc::new(Counts::default());
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for _ in 0..connections {
            let conn = Conn::new(target.opts()).await.context("a writer cannot connect")?;
            tasks.spawn(write(conn, counts.clone(), began, rate));
        }
        Ok(Self { counts, tasks })
    }

    /// Stops the writers.
    ///
    /// # Errors
    /// When inserting a row has failed meanwhile.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.counts.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended?.context("a writer was refused a row")?;
        }
        Ok(())
    }
}

async fn write(mut conn: Conn, counts: Arc<Counts>, began: Instant, rate: f64) -> anyhow::Result<()> {
    while !counts.is_over.load(Ordering::Relaxed) {
        let id = counts.sent.fetch_add(1, Ordering::Relaxed) + 1;
        sleep_until(began + Duration::from_secs_f64(id as f64 / rate)).await;
        // Spreads the rows over the second index, the same in each run.
        let k = id.wrapping_mul(2_654_435_761) % 1_000_000;
        conn.query_drop(format!("INSERT INTO capacity VALUES ({id}, {k}, REPEAT('{}', 190))", id % 10))
            .await?;
        counts.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    conn.disconnect().await?;
    Ok(())
}
