//! One repetition of one cell: load, quiet phase, fault, observation, healing, check of the ledger.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use super::case::{Case, Scope};
use super::front::Front;
use super::plan::FailoverPlan;
use super::progress::Progress;
use super::rejoin;
use super::result::{BySysbench, Repetition, Timeline};
use super::understudy::Ordered;
use super::watch::NodeWatch;
use super::{Driver, ROWS, TABLES};
use crate::checker;
use crate::fault::Fault;
use crate::figures::{buckets, effect, errors_by_code, ms};
use crate::ledger::{Client, CommitResult, NodeRows, Op, Trouble};
use crate::load::session::Target;
use crate::load::sysbench::{Sysbench, SysbenchPlan};
use crate::load::{ClientPlan, Load, LoadPlan, Run};
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::{ClusterKind, Stage, StageNode};
use crate::trace::Trace;
use crate::wait;

/// The first second of a load is not measured: caches and connections warm up.
pub(super) const SETTLE: Duration = Duration::from_secs(1);
/// After `after_s`, maximum wait until commits flow again.
const PATIENCE: Duration = Duration::from_secs(30);
/// At the end, maximum time for transactions that are still due.
const DRAIN: Duration = Duration::from_secs(30);
/// Number of ledger keys reserved for one repetition.
pub(super) const OPS: u64 = 1_000_000;
/// Offset of the probe's keys among these; it writes about 20 a second.
const PROBE_FROM: u64 = 900_000;
/// Limit for reading a node's ledger, with a pause after each error.
const LEDGER_WITHIN: Duration = Duration::from_secs(60);
const LEDGER_PAUSE: Duration = Duration::from_millis(500);
/// Width of a bucket in the plot.
const BUCKET: Duration = Duration::from_millis(100);
/// Sessions that cannot move, where all nodes take traffic: four for each of three nodes.
const PINNED: u32 = 12;
/// How many errors are kept in full.
const TROUBLES_KEPT: usize = 12;

/// Identifies a repetition of a cell.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Row of the table.
    pub case: Case,
    /// Column of the table.
    pub scope: Scope,
    /// Number of the repetition in this cell, from 0.
    pub repetition: u32,
    /// Number of the repetition in the whole run: ledger keys never repeat.
    pub number: u64,
}

impl At {
    /// Each repetition of each cell has its own arrival schedule, so that a random gap of one schedule is not in all results; every proxy
    /// gets the same schedules. The seeds of a cell's repetitions are consecutive, and those of the next cell are far apart from them.
    fn seed(&self, run: u64) -> u64 {
        let cell = self.case as u64 * Scope::ALL.len() as u64 + self.scope as u64;
        run.wrapping_add((cell << 16) + u64::from(self.repetition))
    }
}

/// Runs one repetition.
pub async fn measure(
    stage: &Stage,
    front: &Front,
    plan: &FailoverPlan,
    at: At,
    progress: &Progress,
) -> anyhow::Result<Repetition> {
    let At { case, scope, repetition, number } = at;
    front.wait_ready("the proxy").await?;
    let victim = front.victim(scope, repetition).await?;
    front.begin(case).await?;
    let nodes: Vec<(String, Target)> = stage
        .nodes()
        .iter()
        .map(|node| {
            Ok((node.name.clone(), node_target(&node.address.to_string(), MONITOR_USER, MONITOR_PASSWORD)?))
        })
        .collect::<anyhow::Result<_>>()?;

    // The keys are new even if an earlier run left its rows in the same cluster.
    let op_first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() * OPS * 1000 + number * OPS;
    let load = Load::start(load_plan(front, plan, op_first, at, progress)?).await?;
    let (began, began_wall) = (load.began(), SystemTime::now());
    let watch = NodeWatch::start(stage.kind(), stage.shows_source(), nodes, began);
    let sysbench = match plan.driver {
        Driver::Builtin => None,
        Driver::Sysbench => Some(Sysbench::start(sysbench_plan(&front.target, plan), plan.tell(progress))),
    };

    let warm = SETTLE + Duration::from_secs_f64(plan.warm_s);
    let settled = Duration::from_secs_f64(plan.after_s(case));
    let whole = (warm + settled).as_secs_f64();
    follow(&load, began + warm, whole, progress).await;
    let fault_at = began.elapsed();
    let (order, stopped) = inject_fault(stage, front, case, scope, &victim, began).await?;
    follow(&load, began + fault_at + settled, whole, progress).await;
    wait_for_commits(&load, sysbench.as_ref()).await;

    let sysbench = match sysbench {
        Some(sysbench) => Some(sysbench.stop().await?),
        None => None,
    };
    let run = load.stop(DRAIN).await;
    let words = watch.stop();
    front.end(case, scope).await?;

    let healing = Instant::now();
    stage.fault(&victim, Fault::Heal).await.with_context(|| format!("cannot heal {victim}"))?;
    // In replication, the manager or operator must make the returned server follow the primary.
    let undone = rejoin::whole(stage, front, &victim).await?;
    let heal_ms = ms(healing.elapsed());
    if case == Case::Graceful {
        front.restore(&victim).await.with_context(|| format!("cannot let {victim} take traffic again"))?;
    }
    let rows = read_ledgers(stage, op_first).await?;
    let probed = run.probe.iter().flat_map(|probe| probe.writes.clone());
    let history: Vec<Op> = run.ops.iter().cloned().chain(probed).collect();
    let verdict = checker::check(&history, &rows);

    let journal = match front.api() {
        Some(api) => api.journal(began_wall).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let began_unix_ms = began_wall.duration_since(UNIX_EPOCH)?.as_millis() as u64;
    let until = run.arrivals_ended;
    let journal = journal
        .into_iter()
        .map(|said| (Duration::from_millis(said.at_unix_ms.saturating_sub(began_unix_ms)), said))
        .filter(|(at, _)| *at <= until)
        .collect();
    let timeline = Timeline {
        width: BUCKET,
        buckets: buckets(&run.ops, BUCKET, until),
        fault: fault_at,
        stopped,
        nodes: words,
        journal,
    };
    let sysbench = sysbench.map(|text| Trace::parse(&text).map(|trace| BySysbench::of(&trace))).transpose();
    let sysbench = sysbench.context("sysbench reported nothing")?;
    let rate = rate_of_all(plan);
    Ok(repetition_of(victim, &run, rate, fault_at, verdict, order, sysbench, heal_ms, undone, timeline))
}

/// Injects the fault of the case into the node. Returns the graceful order, and the time at which the server is then stopped.
async fn inject_fault(
    stage: &Stage,
    front: &Front,
    case: Case,
    scope: Scope,
    victim: &str,
    began: Instant,
) -> anyhow::Result<(Option<Ordered>, Option<Duration>)> {
    let (order, fault) = match case {
        Case::Graceful => {
            let order = front.remove(victim, scope).await.with_context(|| {
                format!("the proxy would not take the traffic off {victim}{}", front.last_words())
            })?;
            (Some(order), Fault::Stop)
        }
        Case::SemiGraceful => (None, Fault::Stop),
        Case::NonGraceful => (None, Fault::Kill),
        Case::Freeze => (None, Fault::Freeze),
        Case::Vanish => (None, Fault::Vanish),
    };
    let stopped = order.is_some().then(|| began.elapsed());
    stage.fault(victim, fault).await.with_context(|| format!("cannot do {} to {victim}", case.means()))?;
    Ok((order, stopped))
}

/// Waits until `until` and shows the load's progress; `whole_s` is its expected length.
async fn follow(load: &Load, until: Instant, whole_s: f64, progress: &Progress) {
    while Instant::now() < until {
        let part = load.began().elapsed().as_secs_f64() / whole_s;
        let naive = load.errors(Client::Naive);
        progress.part(part, &format!("{} commits, {naive} errors", load.acknowledged()));
        tokio::time::sleep_until(until.min(Instant::now() + Duration::from_millis(200))).await;
    }
}

/// Waits while no commits arrive, so that the measured outage is not cut off by the end of the run.
async fn wait_for_commits(load: &Load, sysbench: Option<&Sysbench>) {
    let mut before = u64::MAX;
    let flows = async || {
        let now = load.acknowledged();
        let has_grown = now > std::mem::replace(&mut before, now);
        Ok(has_grown && sysbench.is_none_or(Sysbench::flows))
    };
    let _ = wait::holds(PATIENCE, Duration::from_secs(1), flows).await;
}

fn node_target(address: &str, user: &str, password: &str) -> anyhow::Result<Target> {
    Target::parse(address, user, password, "")
}

/// The lab's own clients that run transactions.
fn clients(plan: &FailoverPlan) -> &'static [Client] {
    match plan.driver {
        Driver::Builtin => &[Client::Naive, Client::Retrying],
        Driver::Sysbench => &[Client::Retrying],
    }
}

/// Transactions a second of all these clients together.
pub(super) fn rate_of_all(plan: &FailoverPlan) -> f64 {
    plan.rate * clients(plan).len() as f64
}

pub(super) fn load_plan(
    front: &Front,
    plan: &FailoverPlan,
    op_first: u64,
    at: At,
    progress: &Progress,
) -> anyhow::Result<LoadPlan> {
    let threads = plan.threads;
    // The longest possible duration, with the longer observation time of the two groups of faults.
    let seconds = plan.warm_s + plan.after_s(Case::Vanish) + PATIENCE.as_secs_f64() + 60.0;
    if rate_of_all(plan) * seconds * 1.5 > PROBE_FROM as f64 {
        bail!(
            "{} transactions a second over {seconds:.0} s are more than the {PROBE_FROM} ledger keys of a repetition: \
             a lower --rate or a shorter --after-s is needed",
            rate_of_all(plan)
        );
    }
    Ok(LoadPlan {
        target: front.target.clone(),
        clients: clients(plan)
            .iter()
            .map(|&client| ClientPlan { client, threads, rate: plan.rate })
            .collect(),
        arrivals: plan.arrivals,
        protocol: plan.protocol,
        tables: TABLES,
        rows: ROWS,
        seed: at.seed(plan.seed),
        op_first,
        patience: Duration::from_secs(60),
        probe: Some(op_first + PROBE_FROM),
        pinned: if at.scope == Scope::All { PINNED } else { 0 },
        tell: if plan.driver == Driver::Builtin { plan.tell(progress) } else { None },
    })
}

/// The parameters for the real sysbench.
pub fn sysbench_plan(target: &Target, plan: &FailoverPlan) -> SysbenchPlan {
    SysbenchPlan {
        target: target.clone(),
        tables: TABLES,
        rows: ROWS,
        threads: plan.threads,
        rate: plan.rate,
    }
}

/// Reads this repetition's rows directly from every node, not through the proxy, each after a causal read.
pub(super) async fn read_ledgers(stage: &Stage, op_first: u64) -> anyhow::Result<Vec<NodeRows>> {
    let mut all = Vec::new();
    for node in stage.nodes() {
        let mut target = node_target(&node.address.to_string(), APP_USER, APP_PASSWORD)?;
        APP_SCHEMA.clone_into(&mut target.schema);
        let deadline = Instant::now() + LEDGER_WITHIN;
        let rows = loop {
            let read = tokio::time::timeout_at(deadline, read_ledger(stage.kind(), node, &target, op_first));
            let read = read.await.with_context(|| {
                format!("{} did not give its ledger within {} s", node.name, LEDGER_WITHIN.as_secs())
            })?;
            match read {
                Ok(rows) => break rows,
                // A causal read fails (1205) while the group agrees on a view, which may happen again after a node has rejoined. Reading
                // again does not change the result.
                Err(_) if Instant::now() + LEDGER_PAUSE < deadline => tokio::time::sleep(LEDGER_PAUSE).await,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read the ledger of {}", node.name));
                }
            }
        };
        all.push(rows);
    }
    Ok(all)
}

async fn read_ledger(
    kind: ClusterKind,
    node: &StageNode,
    target: &Target,
    op_first: u64,
) -> mysql_async::Result<NodeRows> {
    let mut conn = Conn::new(target.opts()).await?;
    if let Some(causal) = kind.causal() {
        conn.query_drop(causal).await?;
    }
    let sql = format!("SELECT op FROM ledger WHERE op BETWEEN {op_first} AND {}", op_first + OPS - 1);
    let ops: Vec<u64> = conn.query(sql).await?;
    let tables: Vec<String> = (1..=TABLES).map(|t| format!("sbtest{t}")).collect();
    let sums: Vec<(String, Option<u64>)> =
        conn.query(format!("CHECKSUM TABLE {}", tables.join(", "))).await?;
    conn.disconnect().await?;
    Ok(NodeRows { node: node.name.clone(), ops, checksum: format!("{sums:?}") })
}

#[expect(clippy::too_many_arguments, reason = "one record put together from its parts, in one place")]
fn repetition_of(
    victim: String,
    run: &Run,
    rate: f64,
    fault: Duration,
    verdict: checker::LedgerCheck,
    order: Option<Ordered>,
    sysbench: Option<BySysbench>,
    heal_ms: f64,
    undone: u64,
    timeline: Timeline,
) -> Repetition {
    let ops = &run.ops;
    let bad = |op: &&Op| op.outcome != CommitResult::Ok;
    let probe = run.probe.clone().unwrap_or_default();
    let mut troubles: Vec<Trouble> = ops.iter().flat_map(|op| op.troubles.clone()).collect();
    troubles.extend(probe.troubles.iter().cloned());
    troubles.sort_by_key(|trouble| trouble.at);
    troubles.truncate(TROUBLES_KEPT);
    let mut effect = effect(ops, SETTLE, fault, run.arrivals_ended, rate);
    let mut errors_naive_by_code = errors_by_code(ops, Client::Naive, fault);
    if let Some(sysbench) = &sysbench {
        // sysbench is the client that never retries: its results replace those of the naive client.
        effect.outage_ms = sysbench.outage_ms();
        errors_naive_by_code = sysbench.errors_by_code();
    }
    let pinned = run.pinned.clone();
    Repetition {
        pinned_errors_by_code: pinned.as_ref().map(|all| all.errors_elsewhere(&victim)).unwrap_or_default(),
        pinned_ms_max: pinned.as_ref().and_then(|all| all.longest_elsewhere_ms(&victim)),
        pinned,
        victim,
        effect,
        errors_naive_by_code,
        errors_retrying_by_code: errors_by_code(ops, Client::Retrying, fault),
        errors_quiet: ops.iter().filter(bad).filter(|op| op.done < fault).count() as u64,
        retries: ops.iter().map(|op| u64::from(op.attempts.saturating_sub(1))).sum(),
        unknown: ops.iter().filter(|op| op.outcome == CommitResult::Unknown).count() as u64 + probe.unknown(),
        transactions: ops.len() as u64,
        verdict,
        stale_reads: probe.stale_reads,
        probe_reads: probe.reads,
        probe_errors: probe.errors_by_code,
        order,
        sysbench,
        troubles,
        heal_ms,
        undone,
        timeline,
    }
}
