//! Waiting for something on this machine, each time with a limit.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Looks until something is found; `None` if it was not there after the limit.
///
/// # Errors
/// When a look fails.
pub async fn found<T>(
    within: Duration,
    pace: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let deadline = Instant::now() + within;
    loop {
        let found = look().await?;
        if found.is_some() || Instant::now() > deadline {
            return Ok(found);
        }
        sleep(pace).await;
    }
}

/// Looks until a condition holds; whether it did within the limit.
///
/// # Errors
/// When a look fails.
pub async fn holds(
    within: Duration,
    pace: Duration,
    mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    Ok(found(within, pace, async || Ok(is_so().await?.then_some(()))).await?.is_some())
}

/// Tries until it succeeds.
///
/// # Errors
/// The last one, after the limit.
pub async fn retried<T>(
    within: Duration,
    pace: Duration,
    mut attempt: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + within;
    loop {
        match attempt().await {
            Err(_) if Instant::now() <= deadline => sleep(pace).await,
            ended => return ended,
        }
    }
}
