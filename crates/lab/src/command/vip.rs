//! `lab vip`: tests an address moved by three real keepaliveds, through all faults of its holder.

use std::path::PathBuf;
use std::process::ExitCode;

use super::output::write_report;
use crate::failover::progress::Progress;
use crate::vip::scenario::Scenario;
use crate::vip::{Families, VipPlan, run, table};

/// Three Galera nodes, three keepaliveds, one address: which node holds it at every moment, whatever happens to its holder (as root)
#[derive(Debug, clap::Args)]
pub struct VipArgs {
    /// Only this scenario; may be repeated [default: all]
    #[arg(long = "scenario", value_enum, value_delimiter = ',')]
    pub scenarios: Vec<Scenario>,
    /// How often to run each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Which addresses move
    #[arg(long, value_enum, default_value_t)]
    pub ip: Families,
    /// Interval between two adverts of the holder
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    pub advert_interval_ms: u32,
    /// The nodes keep Galera's own evs timeouts instead of the recommended ones
    #[arg(long)]
    pub plain_evs: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write everything: table.txt, result.json
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Runs the scenarios, prints the table, writes the requested files. Exit code 1 when any check failed.
pub async fn run(args: &VipArgs) -> anyhow::Result<ExitCode> {
    let scenarios = if args.scenarios.is_empty() { Scenario::ALL.to_vec() } else { args.scenarios.clone() };
    let plan = VipPlan {
        scenarios,
        repetitions: args.repetitions,
        ip: args.ip,
        advert_interval_ms: args.advert_interval_ms,
        plain_evs: args.plain_evs,
    };
    let progress = Progress::new(plan.scenarios.len() as u64 * u64::from(plan.repetitions));
    let report = run::run(&plan, &progress).await;
    progress.end();
    let report = report?;
    let figures = report.json()?;
    write_report(&table::draw(&report), &figures, args.json.as_deref(), args.out_dir.as_deref())?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
