//! `lab load ADDRESS`: runs only the load, against any server that speaks the MySQL protocol.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::figures::{self, ms};
use crate::ledger::{Client, CommitResult, Op};
use crate::load::arrivals::Arrivals;
use crate::load::session::{Protocol, Target};
use crate::load::{ClientPlan, Load, LoadPlan, prepare};
use crate::output::print_line;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};

/// Offset of the probe's ledger keys from those of the clients.
const PROBE_FROM: u64 = 900_000_000;

/// Runs the seed's load against an address and prints a line each second
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// HOST:PORT
    pub address: String,
    /// Account; the default is the lab's own, which is not secret
    #[arg(long, default_value = APP_USER)]
    pub user: String,
    /// Password of the account
    #[arg(long, env = "UNDERSTUDY_LAB_PASSWORD", default_value = APP_PASSWORD, hide_env_values = true)]
    pub password: String,
    /// Schema; its tables sbtest1.. and ledger are created when missing
    #[arg(long, default_value = APP_SCHEMA)]
    pub schema: String,
    /// Which clients
    #[arg(long, value_enum, value_delimiter = ',', default_value = "naive")]
    pub clients: Vec<Client>,
    /// Threads of each client
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: u32,
    /// Transactions a second of each client
    #[arg(long, default_value_t = 10.0, value_parser = crate::output::positive)]
    pub rate: f64,
    /// How transactions arrive
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// How statements are sent
    #[arg(long, value_enum, default_value = "prepared")]
    pub protocol: Protocol,
    /// Length of the load, seconds
    #[arg(long, default_value_t = 10.0, value_parser = crate::output::positive)]
    pub time: f64,
    /// Number of tables
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub tables: u32,
    /// Rows of each table
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..))]
    pub table_size: u32,
    /// The same seed gives the same load
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Also run the client that reads its own writes
    #[arg(long)]
    pub probe: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs the load until it ends.
pub async fn run(args: &LoadArgs) -> anyhow::Result<()> {
    let target = Target::parse(&args.address, &args.user, &args.password, &args.schema)?;
    prepare::tables(&target, args.tables, args.table_size, true).await?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let op_first = now.as_secs() * 1_000_000_000;
    let client = |&client: &Client| ClientPlan { client, threads: args.threads, rate: args.rate };
    let load = Load::start(LoadPlan {
        target,
        clients: args.clients.iter().map(client).collect(),
        arrivals: args.arrivals,
        protocol: args.protocol,
        tables: args.tables,
        rows: args.table_size,
        seed: args.seed,
        op_first,
        patience: Duration::from_secs(60),
        probe: args.probe.then_some(op_first + PROBE_FROM),
        pinned: 0,
        tell: Some(Arc::new(print_line)),
    })
    .await?;
    tokio::time::sleep(Duration::from_secs_f64(args.time)).await;
    let run = load.stop(Duration::from_secs(30)).await;

    let mut all = Vec::new();
    for &client in &args.clients {
        let ops: Vec<Op> = run.ops.iter().filter(|op| op.client == client).cloned().collect();
        let ok: Vec<&Op> = ops.iter().filter(|op| op.outcome == CommitResult::Ok).collect();
        let mut latency: Vec<Duration> = ok.iter().map(|op| op.latency()).collect();
        let mut done: Vec<Duration> = ok.iter().map(|op| op.done).collect();
        done.sort_unstable();
        let gap = figures::longest_gap(&done, Duration::ZERO, run.arrivals_ended);
        let mut at = |q| figures::quantile(&mut latency, q).map_or(0.0, ms);
        let (p50, p95, max) = (at(0.5), at(0.95), at(1.0));
        let errors = figures::errors_by_code(&ops, client, Duration::ZERO);
        print_line(&format!(
            "{}: {} transactions, {} acknowledged, errors {errors:?}; response {p50:.2} ms (50%), {p95:.2} ms (95%), \
             {max:.2} ms (worst); longest gap between commits {:.0} ms at {:.1} s",
            client.name(),
            ops.len(),
            ok.len(),
            ms(gap.length()),
            gap.from.as_secs_f64(),
        ));
        if let Some(trouble) = ops.iter().flat_map(|op| &op.troubles).next() {
            print_line(&format!(
                "  the first error: {} during {}: {}",
                trouble.code, trouble.during, trouble.message
            ));
        }
        all.push(serde_json::json!({
            "client": client, "transactions": ops.len(), "acknowledged": ok.len(), "errors_by_code": errors,
            "response_ms_p50": p50, "response_ms_p95": p95, "response_ms_max": max, "gap_ms": ms(gap.length()),
        }));
    }
    if let Some(probe) = &run.probe {
        print_line(&format!(
            "probe: {} reads of its own writes, {} stale, errors {:?}",
            probe.reads, probe.stale_reads, probe.errors_by_code
        ));
    }
    if let Some(path) = &args.json {
        report::file::write_json(path, &serde_json::json!({ "clients": all, "probe": run.probe }))?;
    }
    Ok(())
}
