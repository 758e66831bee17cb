//! `lab bench slowlog`: the benchmark of reading slow logs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::bench::slowlog::{self, Plan, draw};
use crate::failover::progress::Progress;

/// Logs of real entries in the forms of all servers, read on one core with every entry decoded
#[derive(Debug, clap::Args)]
pub struct SlowlogArgs {
    /// Size of each log, MiB; there is one at a time
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub mb: u64,
    /// Size of the slice that pt-query-digest reads, MiB; 0: do not run it
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=1024))]
    pub digest_mb: u64,
    /// Where the logs are written
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write result.json and table.txt here
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Runs the benchmark, prints the table, writes the requested files.
///
/// # Errors
/// When a log cannot be written or read, or when what was read differs from what was written.
pub async fn run(args: &SlowlogArgs) -> anyhow::Result<ExitCode> {
    let dir = tempfile::Builder::new().prefix("understudy-bench-").tempdir_in(&args.dir);
    let dir =
        dir.with_context(|| format!("cannot make a directory for the logs in {}", args.dir.display()))?;
    let plan = Plan { bytes: args.mb << 20, digest_bytes: args.digest_mb << 20 };
    let progress = Progress::new(slowlog::STEPS);
    let report = slowlog::run(plan, dir.path(), &progress).await;
    progress.end();
    let report = report?;
    let drawn = draw(&report);
    print!("{drawn}");
    if let Some(path) = &args.json {
        report::file::write_json(path, &report.json())?;
    }
    if let Some(dir) = &args.out_dir {
        report::file::write_json(&dir.join("result.json"), &report.json())?;
        report::file::write_text(&dir.join("table.txt"), &drawn)?;
        println!("everything: {}", dir.display());
    }
    let faults = report.faults();
    if !faults.is_empty() {
        bail!("what was read is not what was written: {}", faults.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}
