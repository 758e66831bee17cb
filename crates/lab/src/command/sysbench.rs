//! `sysbench`: the load of sysbench 0.5's `oltp.lua` at a rate (`--tx-rate`), with the options of the article on failover times and its lines.
//!
//! The sysbench that is packaged today (1.0) knows neither. Transactions and queue are those of `lab load`, sent as text as `oltp.lua` did.
//! Like the original it ends with the first error that it does not ignore, so that a shell's `while true` starts it again, and a signal
//! kills it, so that Ctrl-C ends that loop, too. Source: the tool as described in seed-tools.md, section 8.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::Client;
use crate::load::arrivals::Arrivals;
use crate::load::session::{Protocol, Target};
use crate::load::{ClientPlan, Load, LoadPlan, prepare};
use crate::output::print_line;
use clap::{Parser, ValueEnum};

use cli::exit::{CommandResult, Failure};
use cli::runtime;

/// sysbench waits for an answer as long as the connection lives.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The load of sysbench 0.5's oltp.lua, at a rate
#[derive(Parser)]
#[command(name = "sysbench", version = concat!(env!("CARGO_PKG_VERSION"), " of Understudy, with the options of sysbench 0.5"))]
struct Sysbench {
    /// oltp.lua, with any directory before it: the load is built in, no file is read
    #[arg(long, value_name = "oltp.lua")]
    test: PathBuf,
    /// The server or proxy, by TCP
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    mysql_host: String,
    /// Its port
    #[arg(long, value_name = "N", default_value_t = 3306)]
    mysql_port: u16,
    /// The account
    #[arg(long, value_name = "NAME", default_value = "sbtest")]
    mysql_user: String,
    /// Its password; better in UNDERSTUDY_PASSWORD, where `ps` does not show it
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "UNDERSTUDY_PASSWORD",
        hide_env_values = true,
        default_value = ""
    )]
    mysql_password: String,
    /// The schema of the tables sbtest1, sbtest2, ...
    #[arg(long, value_name = "NAME", default_value = "sbtest")]
    mysql_db: String,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..))]
    oltp_table_size: u32,
    /// Number of tables
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    oltp_tables_count: u32,
    /// Threads, each with one connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    num_threads: u32,
    /// Seconds until the load ends; 0: it does not
    #[arg(long, value_name = "S", default_value_t = 0)]
    max_time: u64,
    /// Only 0, no limit, is served; it is also what counts where the option is not given (the original: 10000)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=0))]
    max_requests: u64,
    /// 1: lines each second; 0: none
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1))]
    report_interval: u64,
    /// Transactions a second, at random times; needed for `run`, which has no other pace
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tx_rate: Option<u32>,
    /// What to do
    #[arg(value_enum)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum Command {
    /// Make the tables, which must not be there
    Prepare,
    /// Run the load
    Run,
    /// Drop the tables
    Cleanup,
}

/// Runs the command.
pub fn run() -> ExitCode {
    match Sysbench::try_parse() {
        Ok(asked) => asked.perform().unwrap_or_else(|failure| {
            eprintln!("FATAL: {}", failure.text());
            ExitCode::FAILURE
        }),
        Err(error) => {
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            eprintln!(
                "This is Understudy, called by the name sysbench, with the options of sysbench 0.5 (docs/lab.md)."
            );
            ExitCode::FAILURE
        }
    }
}

impl Sysbench {
    fn perform(self) -> CommandResult {
        if self.test.file_name().is_none_or(|name| name != "oltp.lua") {
            return Err(Failure::usage(format!(
                "--test={} is not served: only oltp.lua is",
                self.test.display()
            )));
        }
        let target = Target {
            host: self.mysql_host.clone(),
            port: self.mysql_port,
            user: self.mysql_user.clone(),
            password: self.mysql_password.clone(),
            schema: self.mysql_db.clone(),
        };
        let (tables, rows) = (self.oltp_tables_count, self.oltp_table_size);
        let done = |done: anyhow::Result<()>| {
            done.map(|()| ExitCode::SUCCESS).map_err(|error| Failure::failed(&error))
        };
        runtime::run(async {
            match self.command {
                Command::Prepare => done(prepare::create_new(&target, tables, rows).await),
                Command::Cleanup => done(prepare::remove(&target, tables).await),
                Command::Run => self.load(target).await,
            }
        })
    }

    /// Runs the load until an error, or for `--max-time`.
    async fn load(self, target: Target) -> CommandResult {
        let rate = self.tx_rate.ok_or_else(|| {
            Failure::usage("--tx-rate=N is needed: transactions a second, as this load has no other pace")
        })?;
        let tell: fn(&str) = if self.report_interval > 0 { print_line } else { |_| () };
        let load = Load::start(LoadPlan {
            target,
            clients: vec![ClientPlan {
                client: Client::Sysbench,
                threads: self.num_threads,
                rate: f64::from(rate),
            }],
            arrivals: Arrivals::Poisson,
            protocol: Protocol::Text,
            tables: self.oltp_tables_count,
            rows: self.oltp_table_size,
            seed: std::process::id().into(),
            op_first: 0,
            patience: PATIENCE,
            probe: None,
            pinned: 0,
            tell: Some(Arc::new(tell)),
        });
        let load = load.await.map_err(|error| Failure::failed(&error))?;
        print_line(&format!("Number of threads: {}\n\nThreads started!\n", self.num_threads));
        let limit = if self.max_time > 0 { Duration::from_secs(self.max_time) } else { PATIENCE };
        let begin = Instant::now();
        if tokio::time::timeout(limit, load.failed()).await.is_err() {
            // By this a reader of the lines knows that it has ended by itself.
            print_line(&format!(
                "General statistics:\n    total time: {:.4}s",
                begin.elapsed().as_secs_f64()
            ));
            return Ok(ExitCode::SUCCESS);
        }
        let run = load.stop(Duration::ZERO).await;
        let first = run.ops.iter().flat_map(|op| &op.troubles).min_by_key(|trouble| trouble.at);
        Err(Failure::Failed(first.map_or_else(
            || "a transaction failed".to_owned(),
            |trouble| format!("{} failed: {} ({})", trouble.during, trouble.message, trouble.code),
        )))
    }
}
