//! What every program that stays in the foreground has: a log on standard error, and signals that end it.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::exit::Failure;

/// The signals that mean the end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal's end, and its quit key.
    hang_up: Option<Signal>,
    /// SIGHUP to a service, which does not end it.
    reload: Option<Signal>,
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
            reload: None,
            quit: None,
        })
    }

    /// The same, of a service: SIGHUP, which service managers and log rotation send to have settings or files read anew, does not end it.
    pub fn of_service() -> Result<Self, Failure> {
        let hang_up = signal(SignalKind::hangup());
        let hang_up = hang_up.map_err(|e| Failure::Failed(format!("cannot listen for signals: {e}")))?;
        Ok(Self { reload: Some(hang_up), ..Self::new()? })
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

    /// The name of the next one that means the end. A service that comes here reads nothing again.
    pub async fn next(&mut self) -> &'static str {
        loop {
            match self.next_or_reload().await {
                Heard::End(name) => return name,
                Heard::Reload => tracing::warn!(
                    "SIGHUP: this command reads nothing again; restart it to change its settings"
                ),
            }
        }
    }

    /// The next one.
    pub async fn next_or_reload(&mut self) -> Heard {
        tokio::select! {
            _ = self.terminate.recv() => Heard::End("SIGTERM"),
            _ = self.interrupt.recv() => Heard::End("SIGINT"),
            () = of(&mut self.hang_up) => Heard::End("SIGHUP"),
            () = of(&mut self.quit) => Heard::End("SIGQUIT"),
            () = of(&mut self.reload) => Heard::Reload,
        }
    }
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The end; the signal's name.
    End(&'static str),
    /// Settings and files are to be read again.
    Reload,
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

/// The variable with the level of the log.
const LEVEL: &str = "UNDERSTUDY_LOG";

/// Changes the level while the program logs.
static CHANGE_LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Begins to log. The level is UNDERSTUDY_LOG's; where that means nothing it is `info`, and that is the first line.
pub fn log() {
    log_at("info");
}

/// The same, at this level where UNDERSTUDY_LOG says nothing.
pub fn log_at(level: &str) {
    let wanted = std::env::var(LEVEL).unwrap_or_default();
    let (filter, handle) = reload::Layer::new(targets(given_level(&wanted).unwrap_or(level)));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // A line that cannot be written (the terminal is gone, nobody reads the pipe) is lost: to say so on stderr would panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // It is called once.
    let _ = CHANGE_LEVEL.set(handle);
    if !is_filter(&wanted) {
        tracing::warn!(
            "{LEVEL}={wanted:?} is not understood, the level is {level}: it must be off, error, warn, info, debug or trace"
        );
    }
}

/// Logs at this level from now on, where UNDERSTUDY_LOG does not say otherwise.
pub fn set_level(level: &str) {
    let wanted = std::env::var(LEVEL).unwrap_or_default();
    if let Some(handle) = CHANGE_LEVEL.get().filter(|_| given_level(&wanted).is_none()) {
        // Fails only when nothing logs any more.
        let _ = handle.reload(targets(level));
    }
}

/// The level that UNDERSTUDY_LOG gives; `None` when it is empty or means nothing.
fn given_level(wanted: &str) -> Option<&str> {
    Some(wanted).filter(|wanted| !wanted.is_empty() && is_filter(wanted))
}

/// What is logged at these levels, which [`is_filter`] has found good. The HTTP client never tells its calls: their addresses and headers may be secret.
fn targets(levels: &str) -> Targets {
    let wanted: Targets = levels.parse().unwrap_or_default();
    wanted.with_targets(["ureq", "ureq_proto"].map(|module| (module, LevelFilter::WARN)))
}

/// Levels, also of single modules (`info,proxy=debug`). A word that is no level would be taken for a module by the filter, and nothing else be logged.
pub fn is_filter(wanted: &str) -> bool {
    let is_level = |word: &str| !word.trim().is_empty() && word.trim().parse::<LevelFilter>().is_ok();
    let is_part = |part: &str| match part.split_once('=') {
        Some((module, level)) => !module.trim().is_empty() && is_level(level),
        None => is_level(part),
    };
    wanted.is_empty() || (wanted.split(',').all(is_part) && wanted.parse::<Targets>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_http_client_does_not_tell_its_calls_at_any_level() {
        for levels in ["trace", "ureq=trace,ureq_proto=trace", "info,ureq=debug"] {
            let targets = targets(levels);
            for module in ["ureq", "ureq::run", "ureq_proto::client"] {
                assert!(!targets.would_enable(module, &tracing::Level::INFO), "{levels}: {module}");
                assert!(targets.would_enable(module, &tracing::Level::WARN), "{levels}: {module}");
            }
        }
    }

    #[test]
    fn a_level_is_one_and_a_slip_is_none() {
        for good in ["", "info", "WARN", "off", "info,proxy=debug", "manager=trace"] {
            assert!(is_filter(good), "{good}");
        }
        for bad in ["inof", "info;debug", "proxy", "proxy=loud", "=info", "info,"] {
            assert!(!is_filter(bad), "{bad}");
        }
    }
}
