//! The command line of `lab bench health`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::cell::{Cell, Times};
use super::contestant::Who;
use super::load::{Mode, Plan};
use super::{BenchPlan, Report, csv, table};
use crate::experiment::{Experiment, Output, Place, Results};
use crate::load::arrivals::Arrivals;
use crate::output::positive;

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
    cells: Vec<Cell>,
    /// Only these servers [default: all three; none with --through]
    #[arg(long = "server", value_enum, value_delimiter = ',')]
    servers: Vec<Server>,
    /// Also measure the server at this address; 200 and 503 are right with any body
    #[arg(long, value_name = "ADDRESS:PORT")]
    through: Vec<SocketAddr>,
    /// The seed's times: 600 s, ramp-up 60 s, intervals of 5 s, for each load and server
    #[arg(long, conflicts_with_all = ["run_s", "rampup_s", "interval_s"])]
    like_the_seed: bool,
    /// Seconds of each load for each server [default: 10]
    #[arg(long, value_parser = positive)]
    run_s: Option<f64>,
    /// Seconds until the last thread has started [default: a tenth of --run-s, as in the seed]
    #[arg(long, value_parser = positive)]
    rampup_s: Option<f64>,
    /// Seconds of each interval of the series [default: 1]
    #[arg(long, value_parser = positive)]
    interval_s: Option<f64>,
    /// Seconds after which a transaction has failed
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    timeout_s: f64,
    /// For a load of your own: groups of threads; needs --threads [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100), requires = "threads", conflicts_with = "cells")]
    groups: Option<u16>,
    /// A load of your own instead of the cells: threads of each group; with --rate, maximum of connections [default: none, the cells are
    /// used]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=5000), conflicts_with = "cells")]
    threads: Option<u16>,
    /// Your own load keeps its connections; needs --threads [default: a new one for each request]
    #[arg(long, requires = "threads")]
    keep_alive: bool,
    /// Your own load is an open loop with this many transactions a second; latency counts from when each was due; needs --threads [default:
    /// a closed loop]
    #[arg(long, requires = "threads", value_parser = positive)]
    rate: Option<f64>,
    /// How the open loop's transactions arrive
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Arrivals,
    /// Maximum of rows in each results.csv for ordinary transactions, which are thinned evenly when there are more, and as many again for
    /// timeouts, errors and answers above 50 ms; the run reports what was left out
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    csv_rows: usize,
    /// Do not pin the servers to one processor and the generator to another
    #[arg(long)]
    no_pin: bool,
    #[command(flatten)]
    output: Output,
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
            rows_max: if self.output.out_dir.is_some() { self.csv_rows } else { 0 },
            pin: !self.no_pin,
        })
    }
}

impl Experiment for HealthArgs {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        self.plan().map_or(0, |plan| plan.loads.len() as u64)
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        super::run(&self.plan()?, &place.work.join("servers"), place.progress).await
    }
}

impl Results for Report {
    fn table(&self) -> String {
        table::draw(self)
    }

    fn write_rest(&self, dir: &Path) -> anyhow::Result<()> {
        write_rows(dir, self)
    }

    fn is_good(&self) -> bool {
        self.faults().is_empty()
    }

    fn verdict(&self) -> anyhow::Result<ExitCode> {
        if !self.is_good() {
            bail!("the answers were not right: {}", self.faults().join("; "));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes results.csv of each load and server.
fn write_rows(dir: &Path, report: &Report) -> anyhow::Result<()> {
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
