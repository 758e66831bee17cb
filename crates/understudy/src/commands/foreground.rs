//! What every program that stays in the foreground has: a log on standard error, and signals that end it.

use std::io::IsTerminal;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// The signals that mean the end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal's end, and its quit key.
    hang_up: Option<Signal>,
    quit: Option<Signal>,
}

impl Signals {
    /// Listens for them. To be called inside of a runtime.
    pub fn new() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|e| Failure::Failed(format!("cannot listen for signals: {e}")));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: None,
            quit: None,
        })
    }

    /// The same, and those that a terminal sends as it goes: for a command that has something to undo before it ends.
    pub fn with_terminal() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|e| Failure::Failed(format!("cannot listen for signals: {e}")));
        Ok(Self {
            hang_up: Some(listen(SignalKind::hangup())?),
            quit: Some(listen(SignalKind::quit())?),
            ..Self::new()?
        })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = of(&mut self.hang_up) => "SIGHUP",
            () = of(&mut self.quit) => "SIGQUIT",
        }
    }
}

/// The next of a signal that may not be listened for.
async fn of(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Begins to log. The level is UNDERSTUDY_LOG's.
pub fn log() {
    let filter = EnvFilter::try_from_env("UNDERSTUDY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
