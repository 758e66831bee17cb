//! Restarts every node in turn under load: measures what maintenance costs the application.
//!
//! The standby nodes come first, the active one last. Each is taken out as an operator would do it (a switchover, or a drain), stopped
//! cleanly, started again, and put back when the cluster is complete and Understudy reports it as up. The load never stops.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use report::words::time;
use serde::Serialize;
use tokio::time::Instant;

use super::case::{Case, Scope, Writers};
use super::cell::{self, At, OPS, SETTLE};
use super::front::Front;
use super::plan::FailoverPlan;
use super::progress::Progress;
use super::rejoin::SETTLED_WITHIN;
use super::result::Conditions;
use super::run;
use super::understudy::Ordered;
use crate::checker::{self, LedgerCheck};
use crate::experiment::{Cluster, ClusterArgs, Experiment, Output, Place, Results};
use crate::fault::Fault;
use crate::figures::{Effect, effect, errors_by_code, ms};
use crate::ledger::{Client, CommitResult, Op};
use crate::load::Load;
use crate::output::positive;
use crate::stage::{STOP_LIMIT, Stage};

/// Limit for finishing the remaining transactions of a load.
const DRAIN: Duration = Duration::from_secs(30);

/// How many nodes take traffic
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TakeTraffic {
    /// One
    One,
    /// All
    All,
}

/// Restarts every node of a real cluster behind Understudy, one after the other, under load: the cost of maintenance for the application
#[derive(Debug, clap::Args)]
pub struct RollingRestartArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Galera: how many nodes take traffic
    #[arg(long, value_enum, default_value = "one")]
    writers: TakeTraffic,
    /// Transactions a second of each client
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    rate: f64,
    /// Threads of each client
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: u32,
    /// Use this running stage (lab up) instead of starting one
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Experiment for RollingRestartArgs {
    type Results = RollingRestart;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        3
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<RollingRestart> {
        let plan = FailoverPlan {
            cluster: self.cluster,
            rate: self.rate,
            threads: self.threads,
            stage: self.stage.clone(),
            ..FailoverPlan::default()
        };
        plan.check()?;
        let writers = match self.writers {
            TakeTraffic::One => Writers::One,
            TakeTraffic::All => Writers::All,
        };
        if self.cluster.cluster == Cluster::Replication && writers == Writers::All {
            bail!(
                "--writers all is for --cluster galera: only one server of a primary and its replicas is written"
            );
        }
        run::rolling_restart(&plan.ground()?, &plan, writers, place).await
    }
}

/// The restart of one node.
#[derive(Clone, Debug, Serialize)]
pub struct Turn {
    /// Which node.
    pub node: String,
    /// Whether it was the active node.
    pub was_active: bool,
    /// The order that took it out.
    pub order: Ordered,
    /// Time from its stop until it was counted in again, ms.
    pub away_ms: f64,
    /// The effect on the clients, from this order until the next node's.
    pub effect: Effect,
    /// Transactions of the naive client that failed in that time.
    pub errors_naive: u64,
    /// The same for the retrying client.
    pub errors_retrying: u64,
}

/// Results of the whole run.
#[derive(Clone, Debug, Serialize)]
pub struct RollingRestart {
    /// The settings of the run.
    pub conditions: Conditions,
    /// One for each node.
    pub turns: Vec<Turn>,
    /// Errors of the naive client, by code, from the first order on.
    pub errors_naive_by_code: BTreeMap<String, u64>,
    /// The same for the retrying client.
    pub errors_retrying_by_code: BTreeMap<String, u64>,
    /// Number of transactions that were due.
    pub transactions: u64,
    /// Reads that missed the client's own earlier write.
    pub stale_reads: u64,
    /// Result of comparing the ledgers with the outcomes that clients received.
    pub verdict: LedgerCheck,
}

impl Results for RollingRestart {
    /// The results as text: a line for each node, and one for the whole run.
    fn table(&self) -> String {
        let mut out = format!(
            "{:<6} {:<10} {:>11} {:>8} {:>14} {:>12} {:>7}\n",
            "node", "was", "taken out", "away", "hold", "outage", "errors"
        );
        // Only the first turn has a quiet phase before it; later ones have the earlier turns.
        let noise_ms = self.turns.first().map_or(0.0, |turn| turn.effect.noise_ms);
        for turn in &self.turns {
            let was = if turn.was_active { "active" } else { "standing by" };
            let worst = turn.effect.hold_ms_max.map_or("-".to_owned(), |worst| format!("+{}", time(worst)));
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "{:<6} {was:<11} {:>10} {:>8} {worst:>14} {:>12} {:>7}",
                turn.node,
                time(turn.order.took_ms),
                time(turn.away_ms),
                if turn.effect.outage_ms > noise_ms {
                    time(turn.effect.outage_ms)
                } else {
                    "none".to_owned()
                },
                turn.errors_naive + turn.errors_retrying,
            );
        }
        let errors = |codes: &BTreeMap<String, u64>| codes.values().sum::<u64>();
        let verdict = &self.verdict;
        let _ = writeln!(
            out,
            "{} transactions: {} errors (naive client), {} (retrying), lost {}, doubled {}, phantom {}, stale reads {}",
            self.transactions,
            errors(&self.errors_naive_by_code),
            errors(&self.errors_retrying_by_code),
            verdict.lost.len(),
            verdict.doubled.len(),
            verdict.phantom.len(),
            self.stale_reads,
        );
        out
    }

    /// Whether no client saw an error, and every outcome that clients received holds.
    fn is_good(&self) -> bool {
        self.errors_naive_by_code.is_empty()
            && self.errors_retrying_by_code.is_empty()
            && self.stale_reads == 0
            && self.verdict.is_good()
    }
}

/// A restart that is being measured.
struct Begun {
    node: String,
    was_active: bool,
    order: Ordered,
    away_ms: f64,
    from: Duration,
}

/// Restarts each node of `stage` in turn, behind `front`.
pub async fn run(
    stage: &Stage,
    front: &Front,
    plan: &FailoverPlan,
    conditions: Conditions,
    progress: &Progress,
) -> anyhow::Result<RollingRestart> {
    front.wait_ready("the proxy").await?;
    let op_first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() * OPS * 1000;
    let at = At { case: Case::Graceful, scope: scope(front), repetition: 0, number: 0 };
    let load = Load::start(cell::load_plan(front, plan, op_first, at, progress)?).await?;
    let began = load.began();
    tokio::time::sleep_until(began + SETTLE + Duration::from_secs_f64(plan.warm_s)).await;

    let mut begun = Vec::new();
    for node in in_order(stage, front).await? {
        progress.now(&format!("restarting {node}"));
        begun.push(restart(stage, front, &node, began).await?);
        progress.step();
    }
    tokio::time::sleep(Duration::from_secs_f64(plan.warm_s)).await;
    let run = load.stop(DRAIN).await;

    stage.settled(SETTLED_WITHIN).await?;
    let rows = cell::read_ledgers(stage, op_first).await?;
    let probe = run.probe.clone().unwrap_or_default();
    let history: Vec<Op> = run.ops.iter().cloned().chain(probe.writes.clone()).collect();
    let first = begun.first().map_or(Duration::ZERO, |turn| turn.from);
    let ends: Vec<Duration> =
        begun.iter().skip(1).map(|turn| turn.from).chain([run.arrivals_ended]).collect();
    let rate = cell::rate_of_all(plan);
    let turns = begun.into_iter().zip(ends).map(|(turn, until)| turn.measured(&run.ops, until, rate));
    Ok(RollingRestart {
        turns: turns.collect(),
        conditions,
        errors_naive_by_code: errors_by_code(&run.ops, Client::Naive, first),
        errors_retrying_by_code: errors_by_code(&run.ops, Client::Retrying, first),
        transactions: run.ops.len() as u64,
        stale_reads: probe.stale_reads,
        verdict: checker::check(&history, &rows),
    })
}

fn scope(front: &Front) -> Scope {
    match front.writers() {
        Writers::One => Scope::Active,
        Writers::All => Scope::All,
    }
}

/// The standby nodes, then the active one.
async fn in_order(stage: &Stage, front: &Front) -> anyhow::Result<Vec<String>> {
    let active = front.active().await?;
    let mut names: Vec<String> = stage.nodes().iter().map(|node| node.name.clone()).collect();
    names.sort_by_key(|name| *name == active);
    Ok(names)
}

async fn restart(stage: &Stage, front: &Front, node: &str, began: Instant) -> anyhow::Result<Begun> {
    let was_active = front.active().await? == node;
    let from = began.elapsed();
    let scope = if was_active && front.writers() == Writers::One { Scope::Active } else { Scope::Passive };
    let order = front
        .remove(node, scope)
        .await
        .with_context(|| format!("the proxy would not take the traffic off {node}{}", front.last_words()))?;
    let stopped = Instant::now();
    stage.fault(node, Fault::Stop).await.with_context(|| format!("cannot stop {node}"))?;
    stage.wait_gone(node, STOP_LIMIT).await?;
    stage.fault(node, Fault::Heal).await.with_context(|| format!("cannot start {node} again"))?;
    stage.settled(SETTLED_WITHIN).await?;
    front.restore(node).await.with_context(|| format!("cannot let {node} take traffic again"))?;
    front.wait_ready("the proxy").await?;
    let away_ms = ms(stopped.elapsed());
    Ok(Begun { node: node.to_owned(), was_active, order, away_ms, from })
}

impl Begun {
    fn measured(self, ops: &[Op], until: Duration, rate: f64) -> Turn {
        // The transactions that were due before the next node's restart, those of the quiet phase included.
        let of_turn: Vec<Op> = ops.iter().filter(|op| op.due < until).cloned().collect();
        let bad = |client| {
            let due = |op: &&Op| op.client == client && op.due >= self.from && op.outcome != CommitResult::Ok;
            of_turn.iter().filter(due).count() as u64
        };
        Turn {
            effect: effect(&of_turn, SETTLE, self.from, until, rate),
            errors_naive: bad(Client::Naive),
            errors_retrying: bad(Client::Retrying),
            node: self.node,
            was_active: self.was_active,
            order: self.order,
            away_ms: self.away_ms,
        }
    }
}
