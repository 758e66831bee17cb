//! Regularly changes some thousand rows in one transaction: db3 applies the transactions behind it only after a delay.

use std::time::Duration;

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::load::session::Target;

/// Rows of one batch.
const ROWS: u32 = 3000;
/// Pause between two batches.
const EVERY: Duration = Duration::from_secs(2);

/// Runs batches until it is dropped.
pub struct Batches(JoinHandle<anyhow::Result<()>>);

impl Batches {
    /// Connects and starts.
    pub async fn start(target: &Target) -> anyhow::Result<Self> {
        let mut conn = Conn::new(target.opts()).await.context("the batches cannot connect")?;
        Ok(Self(tokio::spawn(async move {
            loop {
                conn.query_drop(format!("UPDATE capacity SET pad = MD5(RAND()) WHERE id <= {ROWS}")).await?;
                sleep(EVERY).await;
            }
        })))
    }

    /// Stops the batches.
    ///
    /// # Errors
    /// When a batch has failed meanwhile.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if self.0.is_finished() {
            return (&mut self.0).await?.context("a batch was refused");
        }
        Ok(())
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.0.abort();
    }
}
