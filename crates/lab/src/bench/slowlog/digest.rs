//! Runs pt-query-digest on a slice of the same log, in the same run.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, bail};
use tokio::process::Command;

use crate::peer;

/// Cost of one run of pt-query-digest.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Digested {
    /// The complete command line.
    pub command: String,
    /// Bytes of the slice.
    pub bytes: u64,
    /// Processor time of the program, s.
    pub cpu_s: f64,
    /// Elapsed time, s.
    pub wall_s: f64,
}

impl Digested {
    /// Megabytes (10^6 bytes) per second of processor time.
    pub fn mb_per_cpu_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.cpu_s
    }
}

/// Runs pt-query-digest; None if it is not installed.
pub async fn run(slice: &Path, no_report: bool) -> anyhow::Result<Option<Digested>> {
    let mut args = vec!["--no-version-check"];
    if no_report {
        args.push("--no-report");
    }
    let bytes = std::fs::metadata(slice).with_context(|| format!("cannot read {}", slice.display()))?.len();
    let (begin, before) = (Instant::now(), children_cpu_s());
    let Ok(program) = peer::find("pt-query-digest") else { return Ok(None) };
    let ran = Command::new(program)
        .args(&args)
        .arg(slice)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run pt-query-digest")?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or_default().to_owned();
        bail!("pt-query-digest ended with {}: {said}", ran.status);
    }
    Ok(Some(Digested {
        command: format!("pt-query-digest {} SLICE", args.join(" ")),
        bytes,
        cpu_s: children_cpu_s() - before,
        wall_s: begin.elapsed().as_secs_f64(),
    }))
}

/// Processor time of all child processes that have exited, s: fields 16 and 17 of /proc/self/stat, in ticks.
fn children_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name may contain spaces.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks: f64 =
        behind.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}
