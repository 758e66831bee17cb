//! `lab recovery`: the node restarts of the seed article, on Galera.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::output::write_report;
use crate::failover::progress::Progress;
use crate::recovery::cell::CELLS;
use crate::recovery::{RecoveryPlan, page, pool_mb, run};

/// The seed's two tables on three Galera nodes: how long a node takes to rejoin by missing writesets (IST) and by a full copy (SST),
/// without load and with updates
#[derive(Debug, clap::Args)]
pub struct RecoveryArgs {
    /// About 20 MB instead of 1 GB, and only the cells that show both kinds of transfer
    #[arg(long)]
    pub quick: bool,
    /// Rows of each of the two tables, 512 bytes each [default: 1000000; with --quick 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub rows: Option<u64>,
    /// Updates a second, each of one row [default: 2000; with --quick 500]
    #[arg(long, value_name = "N", value_parser = super::output::positive)]
    pub updates_per_s: Option<f64>,
    /// Buffer pool of each of the three nodes, MiB [default: the size of both tables]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1_000_000))]
    pub pool_mb: Option<u64>,
    /// Only this cell; may be given several times
    #[arg(long, value_name = "NAME")]
    pub cell: Vec<String>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write everything: table.txt, result.json, report.html, and the files of each restart
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Runs the measurements, prints the table, writes the requested files. Exit code 1 when a node rejoined by another transfer than expected.
pub async fn run(args: &RecoveryArgs) -> anyhow::Result<ExitCode> {
    let mut plan = if args.quick { RecoveryPlan::quick() } else { RecoveryPlan::full() };
    plan.rows = args.rows.unwrap_or(plan.rows);
    plan.pool_mb = args.pool_mb.unwrap_or_else(|| pool_mb(plan.rows));
    plan.updates_per_s = args.updates_per_s.unwrap_or(plan.updates_per_s);
    if let Some(wrong) = args.cell.iter().find(|name| CELLS.iter().all(|cell| cell.name != **name)) {
        bail!("there is no cell {wrong}: there is {}", CELLS.map(|cell| cell.name).join(", "));
    }
    let cells = run::cells(&plan, &args.cell);
    let own = match &args.out_dir {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("understudy-lab-recovery-")
                .tempdir()
                .context("cannot make a directory")?,
        ),
    };
    let dir = match (&args.out_dir, &own) {
        (Some(dir), _) => dir.clone(),
        (None, Some(own)) => own.path().to_owned(),
        (None, None) => bail!("there is no directory for what is measured"),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let progress = Progress::new(run::steps(&cells));
    let report = run::run(&plan, &cells, &dir, &progress).await;
    progress.end();
    let report = report.context("lab recovery")?;
    let figures = serde_json::to_value(&report)?;
    let page = page::document(&report);
    write_report(&page.text(), &figures, args.json.as_deref(), args.out_dir.as_deref())?;
    if let Some(dir) = &args.out_dir {
        report::file::write_text(&dir.join("report.html"), &page.html())?;
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
