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

/// The table. Its key is the number; the second index makes applying a row as much work as an application's.
pub const DDL: &str = "CREATE TABLE capacity (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, k INT NOT NULL, pad CHAR(200) NOT NULL, KEY (k))";

/// Counts of rows so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// The highest number that was sent.
    pub sent: AtomicU64,
    /// How many were acknowledged.
    pub acknowledged: AtomicU64,
    is_over: AtomicBool,
}

/// Writers at work. Dropped, they end at once.
pub struct Writers {
    /// What they have done.
    pub counts: Arc<Counts>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Writers {
    /// Connects and begins.
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

    /// Ends them.
    ///
    /// # Errors
    /// When a row was refused meanwhile.
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
        // Spread over the second index, and the same each time.
        let k = id.wrapping_mul(2_654_435_761) % 1_000_000;
        conn.query_drop(format!("INSERT INTO capacity VALUES ({id}, {k}, REPEAT('{}', 190))", id % 10))
            .await?;
        counts.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    conn.disconnect().await?;
    Ok(())
}
