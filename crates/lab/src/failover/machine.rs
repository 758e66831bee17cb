//! Describes the machine and the versions, for every report.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::process::Command;

use super::result::Machine;
use crate::peer;

/// Reads /proc and gets each program's version. What cannot be read is left out.
pub async fn look(programs: &[(&str, &str, &[&str])]) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let mut versions = BTreeMap::new();
    for (name, program, args) in programs {
        if let Some(version) = version(program, args).await {
            versions.insert((*name).to_owned(), version);
        }
    }
    Machine {
        processor: field(&cpu, "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        memory_gib: (memory_kib("MemTotal").unwrap_or(0) as f64 / 1024.0 / 1024.0 * 10.0).round() / 10.0,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        versions,
    }
}

/// Memory available to programs, MiB; None where the kernel does not report it.
pub fn memory_available_mib() -> Option<u64> {
    Some(memory_kib("MemAvailable")? / 1024)
}

/// A line of /proc/meminfo, KiB.
fn memory_kib(name: &str) -> Option<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    let value = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().split(' ').next()?.parse().ok()
}

/// The version that the program prints.
async fn version(program: &str, args: &[&str]) -> Option<String> {
    let program = if peer::is_peer(program) { peer::find(program).ok()? } else { program.into() };
    let run = Command::new(program).args(args).stdin(Stdio::null()).kill_on_drop(true).output();
    let out = tokio::time::timeout(Duration::from_secs(5), run).await.ok()?.ok()?;
    let text =
        String::from_utf8_lossy(if out.stdout.is_empty() { &out.stderr } else { &out.stdout }).into_owned();
    number(&text).map(str::to_owned)
}

/// The first word with a digit and a dot: `2.6.12`, `nginx/1.22.1`, `v2.2.7`.
fn number(text: &str) -> Option<&str> {
    let plain = |word| str::strip_prefix(word, 'v').unwrap_or(word);
    let numbered = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    text.split([' ', ',', '/', '\n']).map(plain).find(numbered).map(|word| word.trim_end_matches('.'))
}

/// The current time, as `2026-01-31T12:00:00Z`.
pub fn now_utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    utc(since)
}

/// Converts days to a date by the civil calendar (400-year eras, years begin in March).
fn utc(since_s: u64) -> String {
    let (days, second) = (since_s / 86_400 + 719_468, since_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_as_programs_write_them() {
        assert_eq!(number("HAProxy version 2.6.12-1+deb12u1 2023/12/16"), Some("2.6.12-1+deb12u1"));
        assert_eq!(number("nginx version: nginx/1.22.1"), Some("1.22.1"));
        assert_eq!(
            number("Keepalived v2.2.7 (01/16,2022)\n\nBuilt with kernel headers for Linux 5.19.11"),
            Some("2.2.7")
        );
        assert_eq!(number("masterha_manager version 0.58."), Some("0.58"));
        assert_eq!(number("no number"), None);
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_404_465_709), "2014-07-04T09:21:49Z");
    }
}
