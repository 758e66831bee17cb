//! `lab bench`: benchmarks of single parts; and `lab bench health`, the benchmark of the health endpoint.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::bench::health::cell::{Cell, Times};
use crate::bench::health::contestant::Who;
use crate::bench::health::load::{Mode, Plan};
use crate::bench::health::{self, BenchPlan, Report, csv, table};
use crate::failover::progress::Progress;
use crate::load::arrivals::Arrivals;

/// What can be measured
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// The health endpoint compared with nginx and HAProxy, under the seed's load and harder ones
    ///
    /// Ends with 1 when an answer was wrong (other bytes than expected, a status other than 200 and 503), or when a server gave none. A missed goal does not change the exit code: speed depends on what else the machine does.
    Health(Box<HealthArgs>),
}

/// The servers that can be measured
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Server {
    /// understudy check, style pyclustercheck, cache time 1 s; the port of its database refuses connections
    Understudy,
    /// nginx, return 503, one worker
    Nginx,
    /// HAProxy, http-request return status 503, one thread
    Haproxy,
}

/// Recreates the seed's benchmark of the health endpoint (simulated failed node, cache time 1 s), compared with nginx and HAProxy
#[derive(Debug, clap::Args)]
pub struct HealthArgs {
    /// Only these loads [default: all; with --like-the-seed a and b]
    #[arg(long = "cell", value_enum, value_delimiter = ',')]
    pub cells: Vec<Cell>,
    /// Only these servers [default: all three; none with --through]
    #[arg(long = "server", value_enum, value_delimiter = ',')]
    pub servers: Vec<Server>,
    /// Also measure the server at this address; 200 and 503 are right with any body
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub through: Vec<SocketAddr>,
    /// The seed's times: 600 s, ramp-up 60 s, intervals of 5 s, for each load and server
    #[arg(long, conflicts_with_all = ["run_s", "rampup_s", "interval_s"])]
    pub like_the_seed: bool,
    /// Seconds of each load for each server [default: 10]
    #[arg(long, value_parser = super::output::positive)]
    pub run_s: Option<f64>,
    /// Seconds until the last thread has started [default: a tenth of --run-s, as in the seed]
    #[arg(long, value_parser = super::output::positive)]
    pub rampup_s: Option<f64>,
    /// Seconds of each interval of the series [default: 1]
    #[arg(long, value_parser = super::output::positive)]
    pub interval_s: Option<f64>,
    /// Seconds after which a transaction has failed
    #[arg(long, default_value_t = 10.0, value_parser = super::output::positive)]
    pub timeout_s: f64,
    /// For a load of your own: groups of threads; needs --threads [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100), requires = "threads", conflicts_with = "cells")]
    pub groups: Option<u16>,
    /// A load of your own instead of the cells: threads of each group; with --rate, maximum of connections [default: none, the cells are
    /// used]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=5000), conflicts_with = "cells")]
    pub threads: Option<u16>,
    /// Your own load keeps its connections; needs --threads [default: a new one for each request]
    #[arg(long, requires = "threads")]
    pub keep_alive: bool,
    /// Your own load is an open loop with this many transactions a second; latency counts from when each was due; needs --threads [default:
    /// a closed loop]
    #[arg(long, requires = "threads", value_parser = super::output::positive)]
    pub rate: Option<f64>,
    /// How the open loop's transactions arrive
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// Maximum of rows in each results.csv for ordinary transactions, which are thinned evenly when there are more, and as many again for
    /// timeouts, errors and answers above 50 ms; the run reports what was left out
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    pub csv_rows: usize,
    /// Do not pin the servers to one processor and the generator to another
    #[arg(long)]
    pub no_pin: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write result.json and table.txt here, and for each load and server results.csv
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

impl HealthArgs {
    fn times(&self) -> anyhow::Result<Times> {
        let run_s = self.run_s.unwrap_or(if self.like_the_seed { 600.0 } else { 10.0 });
        let rampup_s = self.rampup_s.unwrap_or(run_s / 10.0);
        if rampup_s > run_s {
            bail!(
                "--rampup-s {rampup_s} is longer than the run of {run_s} s: some threads would never start"
            );
        }
        Ok(Times { run_s, rampup_s, timeout_s: self.timeout_s })
    }

    fn plan(&self) -> anyhow::Result<BenchPlan> {
        let times = self.times()?;
        let loads = if let Some(threads) = self.threads {
            let mode = match self.rate {
                None => Mode::Closed { rampup_s: times.rampup_s },
                Some(rate) => Mode::Open { rate, arrivals: self.arrivals },
            };
            let own = Plan {
                groups: self.groups.unwrap_or(1),
                threads,
                keep: self.keep_alive,
                mode,
                timeout_s: times.timeout_s,
                run_s: times.run_s,
            };
            vec![("own".to_owned(), None, own)]
        } else {
            let cells = match &self.cells[..] {
                [] if self.like_the_seed => &[Cell::A, Cell::B][..],
                [] => &Cell::ALL,
                given => given,
            };
            let load = |cell: &Cell| (cell.name().to_owned(), Some(*cell), cell.plan(times, self.arrivals));
            cells.iter().map(load).collect()
        };
        let all = [Server::Understudy, Server::Nginx, Server::Haproxy];
        let servers =
            if self.servers.is_empty() && self.through.is_empty() { &all[..] } else { &self.servers };
        let ours = servers.iter().map(|server| match server {
            Server::Understudy => Who::Understudy,
            Server::Nginx => Who::Nginx,
            Server::Haproxy => Who::Haproxy,
        });
        Ok(BenchPlan {
            loads,
            contestants: ours.chain(self.through.iter().copied().map(Who::Through)).collect(),
            interval_s: self.interval_s.unwrap_or(if self.like_the_seed { 5.0 } else { 1.0 }),
            // Without --out-dir no rows are written, so none are kept in memory.
            rows_max: if self.out_dir.is_some() { self.csv_rows } else { 0 },
            pin: !self.no_pin,
        })
    }
}

/// Runs the benchmark, prints the table, writes the requested files.
pub async fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    let Bench::Health(args) = bench;
    let dir = tempfile::Builder::new().prefix("understudy-bench-").tempdir();
    let dir = dir.context("cannot make a directory for the servers' files")?;
    let plan = args.plan()?;
    let progress = Progress::new(plan.loads.len() as u64);
    let report = health::run(&plan, dir.path(), &progress).await;
    progress.end();
    let report = report?;
    let drawn = table::draw(&report);
    println!("{drawn}");
    if let Some(path) = &args.json {
        report::file::write_json(path, &report.json())?;
    }
    if let Some(dir) = &args.out_dir {
        write_all(dir, &report, &drawn)?;
        println!("everything: {}", dir.display());
    }
    let faults = report.faults();
    if !faults.is_empty() {
        bail!("the answers were not right: {}", faults.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(dir: &Path, report: &Report, drawn: &str) -> anyhow::Result<()> {
    report::file::write_json(&dir.join("result.json"), &report.json())?;
    report::file::write_text(&dir.join("table.txt"), drawn)?;
    for load in &report.loads {
        for one in &load.measured {
            let dir = dir.join(&load.name).join(one.who.name());
            std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            let path = dir.join("results.csv");
            let rows = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            let mut rows = BufWriter::new(rows);
            let written = csv::write(one.record.rows(), &mut rows).and_then(|()| rows.flush());
            written.with_context(|| format!("cannot write {}", path.display()))?;
            if one.record.stride > 1 {
                println!(
                    "{} has each {}th of the ordinary transactions (--csv-rows)",
                    path.display(),
                    one.record.stride
                );
            }
            if one.record.uncommon_dropped > 0 {
                println!(
                    "{} is without {} timeouts, errors and answers above 50 ms, for which it had no more room (--csv-rows)",
                    path.display(),
                    one.record.uncommon_dropped
                );
            }
        }
    }
    Ok(())
}
