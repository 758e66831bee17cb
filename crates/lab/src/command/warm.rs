//! `lab warm`: measures how cold a standby's buffer pool is after each way of warming it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use crate::failover::progress::Progress;
use crate::warm::way::{self, WAYS, Way};
use crate::warm::{Part, WarmPlan, page, run};

/// Two servers and a workload whose hot set moves: the disk reads that a standby needs after a failover, by how it was warmed
#[derive(Debug, clap::Args)]
pub struct WarmArgs {
    /// A run of about a minute on little data: fewer ways, shorter chunks
    #[arg(long)]
    pub quick: bool,
    /// Only this part; may be repeated [default: all; with --quick ways and forecasts]
    #[arg(long = "part", value_name = "NAME", value_delimiter = ',', value_enum)]
    pub parts: Vec<Part>,
    /// Only this way; may be repeated [default: all]
    #[arg(long = "way", value_name = "NAME", value_delimiter = ',', value_parser = way_named)]
    pub ways: Vec<&'static Way>,
    /// Size of the table, MiB [default: 384; with --quick 48]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..=65_536))]
    pub data_mb: Option<u32>,
    /// The active node's buffer pool, MiB [default: 48; with --quick 10]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(8..=32_768))]
    pub pool_mb: Option<u32>,
    /// The standby's buffer pool, MiB [default: as the active node's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(8..=32_768))]
    pub standby_pool_mb: Option<u32>,
    /// Length of the traffic in one chunk of the log, s [default: 120; with --quick 4]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub chunk_s: Option<u32>,
    /// Statements a second while the log is recorded [default: 500; with --quick 1200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: Option<u32>,
    /// Number of connections that run them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub connections: u32,
    /// Speed at which chunk 2 is measured, relative to how it was recorded [default: 12; with --quick 2]
    #[arg(long, value_name = "FACTOR", value_parser = super::output::positive)]
    pub speed: Option<f64>,
    /// The same seed gives the same statements
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write everything: table.txt, result.json, report.html
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

fn way_named(name: &str) -> Result<&'static Way, String> {
    way::named(name).ok_or_else(|| {
        let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        format!("there is {}", names.join(", "))
    })
}

impl WarmArgs {
    fn plan(&self) -> WarmPlan {
        let or = |given: Option<u32>, quick, full| given.unwrap_or(if self.quick { quick } else { full });
        let pool_mb = or(self.pool_mb, 10, 48);
        let parts = match (self.parts.is_empty(), self.quick) {
            (false, _) => self.parts.clone(),
            (true, true) => vec![Part::Ways, Part::Forecasts],
            (true, false) => Part::value_variants().to_vec(),
        };
        let ways = match self.ways.is_empty() {
            _ if !parts.contains(&Part::Ways) => Vec::new(),
            true => WAYS.iter().filter(|way| way.is_quick || !self.quick).collect(),
            false => self.ways.clone(),
        };
        WarmPlan {
            data_mb: or(self.data_mb, 48, 384),
            pool_mb,
            standby_pool_mb: self.standby_pool_mb.unwrap_or(pool_mb),
            chunk_s: or(self.chunk_s, 4, 120),
            rate: or(self.rate, 1200, 500),
            connections: self.connections,
            speed: self.speed.unwrap_or(if self.quick { 2.0 } else { 12.0 }),
            seed: self.seed,
            parts,
            ways,
            is_quick: self.quick,
        }
    }
}

/// Runs the measurements, prints the table, writes the requested files. Exit code 1 when a goal is not met.
pub async fn run(args: &WarmArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan();
    let progress = Progress::new(run::steps(&plan));
    let report = run::run(&plan, &progress).await;
    progress.end();
    let report = report.context("lab warm")?;
    let page = page::document(&report);
    print!("{}", page.text());
    if let Some(path) = &args.json {
        report::file::write_json(path, &report.json()?)?;
    }
    if let Some(path) = &args.html {
        report::file::write_text(path, &page.html())?;
    }
    if let Some(dir) = &args.out_dir {
        report::file::write_text(&dir.join("table.txt"), &page.text())?;
        report::file::write_json(&dir.join("result.json"), &report.json()?)?;
        report::file::write_text(&dir.join("report.html"), &page.html())?;
        println!("everything: {}", dir.display());
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
