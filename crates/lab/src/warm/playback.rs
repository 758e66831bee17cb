//! Runs `understudy replay` as a process: starts it, waits for it, and parses its summary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::program;
use crate::stage::process::{Owned, ProcessParent};

/// The account of the replay: it may only read.
pub const WARM_USER: &str = "warm";
/// Its password.
pub const WARM_PASSWORD: &str = "warm";

/// The parameters of a replay.
#[derive(Clone, Debug)]
pub struct Playback<'a> {
    /// The slow log.
    pub log: &'a Path,
    /// The standby's address, without the port.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Number of sessions, instead of one for each recorded connection.
    pub pool: Option<u32>,
    /// Speed factor for replaying at recorded times; None: as fast as possible.
    pub recorded: Option<f64>,
}

/// Results of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Played {
    /// Statements that succeeded.
    pub statements: u64,
    /// Duration, including the program's start, s.
    pub took_s: f64,
    /// Statements a second: as the replay itself reports it, or by the lab's clock where it reports none.
    pub statements_per_s: f64,
}

/// A running replay; dropping this value ends it.
pub struct Playing {
    owned: Owned,
    said: PathBuf,
    began: Instant,
}

impl Playback<'_> {
    /// Starts it; its output goes to `said`.
    pub fn start(&self, process_parent: &ProcessParent, said: PathBuf) -> anyhow::Result<Playing> {
        let mut command = Command::new(program::understudy()?);
        command.arg("replay").arg(self.log).args(["--host", &self.host, "--port", &self.port.to_string()]);
        // The log also contains the lab's own statements on the active node (user root).
        command.args(["--user", WARM_USER, "--skip-user", "root"]).env("UNDERSTUDY_PASSWORD", WARM_PASSWORD);
        if let Some(pool) = self.pool {
            command.args(["--pool", &pool.to_string()]);
        }
        if let Some(speed) = self.recorded {
            command.args(["--recorded", &speed.to_string()]);
        }
        if said.exists() {
            std::fs::remove_file(&said)?;
        }
        let began = Instant::now();
        Ok(Playing { owned: process_parent.spawn(&command, Some(&said))?, said, began })
    }
}

impl Playing {
    /// Whether it has ended.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.owned.try_wait()?.is_some())
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// When it fails, with its output, or has not ended `within`.
    pub async fn ended(mut self, within: Duration) -> anyhow::Result<Played> {
        let status = tokio::time::timeout(within, self.owned.ended()).await;
        let took = self.began.elapsed();
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let status = status
            .with_context(|| format!("understudy replay has not ended after {:.0} s", within.as_secs_f64()))?
            .context("understudy replay cannot be waited for")?;
        if !status.success() {
            bail!("understudy replay ended with {status}: {}", said.trim());
        }
        let (statements, statements_per_s) =
            summary(&said).with_context(|| format!("understudy replay said: {}", said.trim()))?;
        Ok(Played { statements, took_s: took.as_secs_f64(), statements_per_s })
    }
}

/// The first line of its summary: `60000 statements in 8.1 s, 7407 a second`.
pub fn summary(said: &str) -> Option<(u64, f64)> {
    said.lines().find_map(|line| {
        let (statements, rest) = line.split_once(" statements in ")?;
        let (_, per_s) = rest.split_once(" s, ")?;
        Some((statements.parse().ok()?, per_s.split(' ').next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let said = "60000 statements in 8.1 s, 7407 a second\n12 left out: session only\n";
        assert_eq!(summary(said), Some((60_000, 7407.0)));
        assert_eq!(summary("the slow log x cannot be read"), None);
    }
}
