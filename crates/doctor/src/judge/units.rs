//! Formats numbers for the report.

use std::time::Duration;

pub(super) fn iso(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("PT{}S", ms / 1000) } else { format!("PT{}S", ms as f64 / 1000.0) }
}

pub(super) fn seconds(d: Duration) -> String {
    format!("{} s", d.as_millis() as f64 / 1000.0)
}

pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

pub(super) fn kib(bytes: f64) -> String {
    format!("{:.1} KiB", bytes / 1024.0)
}
