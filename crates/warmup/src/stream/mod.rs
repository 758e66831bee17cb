//! Serves a slow log over HTTP while it grows: whole events only, each with the schema and time that it otherwise takes from earlier events, to any number of readers.
//!
//! `GET /slow` begins behind the last event there is; `rate_limit=N` keeps one in N (`by=session`: one connection in N), `from=start` begins at the
//! file's first byte, `resume=PLACE` behind the place that an earlier stream gave. Path, port and parameter `rate_limit` are mysql_slowlogd's.
//!
//! Two notes stand in events' heads, where readers that do not know them skip them: `# Understudy_place: P` (at most once a second) is where to
//! resume; `# Understudy_dropped_bytes: N` says that so much of the log was left out before this event, since this reader was too far behind.

mod body;
mod http;

pub use http::router;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use slowlog::Event;

use crate::follow::Log;

/// Bytes of the log that its reader was not given between the event before and this one, as the streamer notes.
pub(crate) fn dropped_bytes(event: &Event<'_>) -> u64 {
    let noted = event.field("Understudy_dropped_bytes");
    noted.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

/// Readers that are served at once. Each may take some MiB of memory, and an entry's length more.
const READERS_MAX: u64 = 128;

/// What is served, and within which limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The slow log.
    pub log: PathBuf,
    /// A reader that is more bytes behind than this goes on at the log's end, and is told how many it missed.
    pub behind_bytes_max: u64,
}

/// Figures of the whole streamer, since it began.
#[derive(Debug, Default)]
pub struct Figures {
    /// Readers there are.
    pub readers: AtomicU64,
    /// Events given to readers; an event that two readers got counts twice.
    pub events: AtomicU64,
    /// Bytes given to readers.
    pub bytes: AtomicU64,
    /// Bytes of the log that readers missed, since they were too far behind or the file was emptied.
    pub dropped_bytes: AtomicU64,
    /// Bytes of the log that are no event.
    pub unparsed_bytes: AtomicU64,
}

impl Figures {
    /// In Prometheus' text format.
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

/// What all requests share.
pub(crate) struct Shared {
    log: Log,
    settings: Settings,
    figures: Figures,
}

type Streamer = Arc<Shared>;
