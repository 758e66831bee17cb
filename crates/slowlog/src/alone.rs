//! Makes an entry complete without the entries before it, so that some of them may be left out, or a stream may begin in the middle of a
//! log.
//!
//! Values that a reader otherwise takes from earlier entries are written into the entry: its time, its `use`, and, if entries were sampled,
//! the number of entries that it represents, as `# Log_slow_rate_type: query  Log_slow_rate_limit: N` in the format of Percona Server.

use crate::event::{Event, Rate, RateBy};
use crate::fields::Fields;
use crate::grammar::{QUERY, RATE, USER};
use crate::head::{user_in, write_use};
use crate::time;

/// Appends the entry to `out`: its own bytes, completed with the missing values. `rate` replaces the sampling rate in the entry; `notes` are
/// further lines for the head, each of which is `# Name: value` and its end of line.
pub fn write(event: &Event<'_>, rate: Option<Rate>, notes: &[u8], out: &mut Vec<u8>) {
    let (head, body) = event.bytes.split_at(event.head_bytes.min(event.bytes.len()));
    // Without the blank lines before it.
    let head = head.trim_ascii_start();
    if head.starts_with(USER) && event.end_us > 0 {
        // MariaDB and MySQL before 5.7 write the server's local time, and no entry contains the time zone: this is UTC.
        out.extend_from_slice(format!("# Time: {}\n", time::short(event.end_us)).as_bytes());
    }
    let mut has_use = event.schema.name().is_none();
    let lines = || head.split_inclusive(|byte| *byte == b'\n');
    // Lines that a new one separated could look like the head of another entry: it takes an old one's place, or stands behind a line with
    // which an entry begins.
    let mut has_rate = rate.is_none() || lines().any(is_rate);
    let mut has_notes = false;
    for line in lines() {
        if rate.is_some() && is_rate(line) {
            write_rate(rate, out);
            continue;
        }
        has_use |= line.starts_with(b"use ");
        if line.starts_with(b"SET ") && !has_use {
            write_use(event.schema.name().unwrap_or_default(), out);
            has_use = true;
        }
        out.extend_from_slice(line);
        if user_in(line).is_some() || line.starts_with(QUERY) {
            if !std::mem::replace(&mut has_rate, true) {
                write_rate(rate, out);
            }
            if !std::mem::replace(&mut has_notes, true) {
                out.extend_from_slice(notes);
            }
        }
    }
    out.extend_from_slice(body);
    if !out.ends_with(b"\n") {
        // The last of a log.
        out.push(b'\n');
    }
}

fn is_rate(line: &[u8]) -> bool {
    line.starts_with(RATE) && Fields::new(line).all(|(key, _)| key.starts_with(b"Log_slow_rate_"))
}

pub(crate) fn write_rate(rate: Option<Rate>, out: &mut Vec<u8>) {
    let Some(rate) = rate else { return };
    let by = match rate.by {
        RateBy::Event => "query",
        RateBy::Session => "session",
    };
    let line = format!("# Log_slow_rate_type: {by}  Log_slow_rate_limit: {}\n", rate.one_in);
    out.extend_from_slice(line.as_bytes());
}
