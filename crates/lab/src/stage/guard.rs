//! Handles Ctrl-C at any time: drops the work, and with it every stage and child process in it, which clean up after themselves.

use std::future::Future;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// The error of [`guard`] when a signal came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("interrupted; everything that was started has been cleaned up")
    }
}

impl std::error::Error for Interrupted {}

/// Runs `work` until it ends, or until SIGINT, SIGTERM or SIGHUP. From the first call on, those signals no longer end the
/// process by themselves: a second Ctrl-C cannot interrupt the clean-up.
///
/// # Errors
/// [`Interrupted`] after a signal, otherwise the error of `work`.
pub async fn guard<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let watch = |kind| signal(kind).context("cannot watch for signals");
    let (mut interrupt, mut terminate, mut hangup) =
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?);
    tokio::select! {
        result = work => result,
        _ = interrupt.recv() => Err(Interrupted.into()),
        _ = terminate.recv() => Err(Interrupted.into()),
        _ = hangup.recv() => Err(Interrupted.into()),
    }
}
