//! Serves a growing slow log over HTTP to any number of readers. Each event is sent complete, with the schema and time that a reader would
//! otherwise take from earlier events.
//!
//! `GET /slow` begins after the last existing event. `rate_limit=N` keeps one event in N (`by=session`: one connection in N), `from=start`
//! begins at the file's first byte, and `resume=PLACE` continues at a position that an earlier stream gave. Path, port and the parameter
//! `rate_limit` are those of mysql_slowlogd.
//!
//! Two comments may be in the events' heads, where readers that do not know them skip them: `# Understudy_place: P` (at most once a second)
//! is the position at which to resume; `# Understudy_dropped_bytes: N` says that N bytes of the log before this event were dropped because
//! this reader was too far behind.

mod body;
mod http;

pub use http::router;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use slowlog::Event;

use crate::follow::Log;

/// The field with the bytes of the log that were dropped for this reader between the previous event and this one.
pub(crate) fn dropped_bytes(event: &Event<'_>) -> u64 {
    let noted = event.field("Understudy_dropped_bytes");
    noted.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

/// The limit of concurrent readers. Each may use several MiB of memory, plus the length of an entry.
const READERS_MAX: u64 = 128;

/// The log to serve, and its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The slow log.
    pub log: PathBuf,
    /// A reader that is more bytes behind than this continues at the end of the log, and is sent the number of bytes that it missed.
    pub behind_bytes_max: u64,
}

/// Counters of the whole streamer since its start.
#[derive(Debug, Default)]
pub struct Figures {
    /// Connected readers.
    pub readers: AtomicU64,
    /// Events sent to readers; an event sent to two readers counts twice.
    pub events: AtomicU64,
    /// Bytes sent to readers.
    pub bytes: AtomicU64,
    /// Bytes of the log that readers missed because they were too far behind or the file was emptied.
    pub dropped_bytes: AtomicU64,
    /// Bytes of the log that are not part of an event.
    pub unparsed_bytes: AtomicU64,
}

impl Figures {
    /// The counters in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in [
            ("understudy_slowlog_readers", "gauge", "Readers of the stream.", &self.readers),
            ("understudy_slowlog_events_total", "counter", "Events given to readers.", &self.events),
            ("understudy_slowlog_bytes_total", "counter", "Bytes given to readers.", &self.bytes),
            (
                "understudy_slowlog_dropped_bytes_total",
                "counter",
                "Bytes of the log that readers missed.",
                &self.dropped_bytes,
            ),
            (
                "understudy_slowlog_unparsed_bytes_total",
                "counter",
                "Bytes of the log that are no event.",
                &self.unparsed_bytes,
            ),
        ] {
            let value = value.load(Relaxed);
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"));
        }
        text
    }
}

/// The state that all requests share.
pub(crate) struct Shared {
    log: Log,
    settings: Settings,
    figures: Figures,
}

type Streamer = Arc<Shared>;
