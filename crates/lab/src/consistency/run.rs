//! Runs both phases on one cluster: first directly on one of its servers, then through Understudy with faults.

use std::time::Duration;

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use super::bank::{self, BankRows};
use super::faults::{self, Event};
use super::judge::{self, Finding, Kind, Lists};
use super::lists::{self, Level, elements};
use super::result::{Counts, Phase, Report};
use super::workload::{self, Done, Ports};
use super::{ConsistencyPlan, cycles, ids, register};
use crate::experiment::Place;
use crate::failover::case::Writers;
use crate::failover::front::{Front, free_address};
use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::failover::run::{look_around, names_of};
use crate::failover::understudy::Knobs;
use crate::load::session::Target;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use crate::stage::{ClusterKind, Stage, StageNode, StagePlan};

/// After the workload, every server must have everything within this.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Limit for reading a node's rows, with a pause after each error.
const ROWS_WITHIN: Duration = Duration::from_secs(60);
const ROWS_PAUSE: Duration = Duration::from_millis(500);

/// The tables, with which each phase begins anew.
const TABLES: &str = "lists_rr, lists_ser, accounts, transfers, registers, ids";

/// Starts a cluster, runs both phases, and ends the cluster.
///
/// # Errors
/// When the cluster or the workload cannot be started. A cluster that is not well again after a fault is part of the report.
pub async fn run(plan: &ConsistencyPlan, place: &Place<'_>) -> anyhow::Result<Report> {
    let progress = place.progress;
    let wanted = StagePlan {
        name: format!("co{}", std::process::id()),
        kind: plan.cluster.kind(),
        ..StagePlan::default()
    };
    let teller = progress.clone();
    let stage = Stage::up_telling(wanted, move |step| teller.now(step)).await?;
    let done = on(&stage, plan, place).await;
    progress.now("ending the cluster");
    let ended = stage.down().await;
    done.and_then(|done| ended.map(|()| done))
}

async fn on(stage: &Stage, plan: &ConsistencyPlan, place: &Place<'_>) -> anyhow::Result<Report> {
    let progress = place.progress;
    let mut report = Report {
        at: machine::now_utc(),
        cluster: stage.kind().name(),
        seed: plan.seed,
        split: plan.split,
        machine: Some(look_around(stage).await),
        ..Report::default()
    };
    report.direct = direct(stage, plan, progress).await.context("directly on one server")?;

    let knobs = Knobs { read: Some(free_address()?), split: plan.split, ..Knobs::default() };
    progress.now("starting Understudy");
    let nodes = names_of(stage);
    let mut front =
        Front::understudy(stage.kind(), &nodes, Writers::One, &knobs, &place.work.join("understudy")).await?;
    let read = knobs.read.map(|read| target(&read.to_string())).transpose()?;
    let ports = Ports { write: front.target.clone(), read, split: plan.split };
    create(&ports.write).await?;
    stage.settled(SETTLED_WITHIN).await?;
    progress.now(&format!("{} s of faults and moves, seed {}", plan.seconds, plan.seed));
    let running = workload::start(&ports, plan.seed, plan.pause_ms);
    let began = running.began;
    let until = began + Duration::from_secs(plan.seconds);
    let broke = faults::run(stage, &front, plan.seed, began, until, &mut report.events, progress).await;
    let seconds = began.elapsed().as_secs_f64();
    progress.now("ending the workload");
    let done = running.stop().await?;
    if let Err(error) = broke {
        report.broke = Some(format!("{error:#}{}", unfinished(&report.events)));
    } else if let Err(error) = front.still_runs() {
        report.broke = Some(format!("{error:#}"));
    }
    report.through.seconds = seconds;
    report.through.counts = Counts::of(&done);
    progress.now("judging");
    match judged(stage, &done).await {
        Ok(phase) => {
            report.through = Phase { seconds, ..phase };
            for (level, cycles) in &report.through.cycles {
                let direct = report.direct.cycles.get(level).cloned().unwrap_or_default();
                report.beyond.extend(cycles.beyond(&direct, level.name()));
            }
        }
        Err(error) => {
            let broke = report.broke.take().map_or_else(String::new, |broke| format!("{broke}; then "));
            report.broke = Some(format!("{broke}{error:#}"));
        }
    }
    progress.step();
    Ok(report)
}

fn unfinished(events: &[Event]) -> String {
    events
        .last()
        .filter(|event| event.well_s.is_none())
        .map_or_else(String::new, |event| format!(" (the last fault or move: {})", event.line()))
}

async fn direct(stage: &Stage, plan: &ConsistencyPlan, progress: &Progress) -> anyhow::Result<Phase> {
    // The first node is the primary of a replication stage.
    let first = stage.nodes().first().context("the stage has no nodes")?;
    let ports = Ports { write: target(&first.address.to_string())?, read: None, split: false };
    create(&ports.write).await?;
    progress.now(&format!("{} s directly on {}", plan.direct_seconds, first.name));
    let running = workload::start(&ports, plan.seed, plan.pause_ms);
    let began = running.began;
    let past = lists::write_past_a_read(&ports.write, || began.elapsed()).await;
    tokio::time::sleep(Duration::from_secs(plan.direct_seconds)).await;
    let seconds = began.elapsed().as_secs_f64();
    let mut done = running.stop().await?;
    let (level, past) = past.context("cannot log in beside the workload")?;
    for (_, history) in done.lists.iter_mut().filter(|(of, _)| *of == level) {
        history.extend(past.iter().cloned());
    }
    let phase = judged(stage, &done).await?;
    Ok(Phase { seconds, ..phase })
}

fn target(address: &str) -> anyhow::Result<Target> {
    Target::parse(address, APP_USER, APP_PASSWORD, APP_SCHEMA)
}

/// Creates all tables anew.
async fn create(target: &Target) -> anyhow::Result<()> {
    let mut statements = vec![format!("DROP TABLE IF EXISTS {TABLES}"), ids::DDL.to_owned()];
    statements.extend(Level::ALL.map(Level::ddl));
    statements.extend(bank::ddl());
    statements.extend(register::ddl(workload::REGISTERS));
    let mut conn = Conn::new(target.opts()).await.context("cannot log in to make the tables")?;
    for sql in statements {
        conn.query_drop(&sql).await.with_context(|| format!("cannot run {sql}"))?;
    }
    conn.disconnect().await?;
    Ok(())
}

/// The rows of one node.
#[derive(PartialEq, Eq)]
struct Rows {
    lists: Vec<(Level, Lists)>,
    bank: BankRows,
    registers: Vec<(u64, u64)>,
    ids: Vec<(u64, u64)>,
}

/// Judges a phase by the rows of all nodes.
async fn judged(stage: &Stage, done: &Done) -> anyhow::Result<Phase> {
    stage.settled(SETTLED_WITHIN).await?;
    let mut all = Vec::new();
    for node in stage.nodes() {
        all.push((node.name.clone(), read_rows(stage.kind(), node).await?));
    }
    let counts = Counts::of(done);
    let mut phase = Phase { counts, ..Phase::default() };
    phase.findings.extend(done.bank.findings.iter().chain(&done.register.findings).cloned());
    let Some((first_name, first)) = all.first() else { return Ok(phase) };
    for (name, rows) in &all {
        if rows != first {
            let text = format!("{name} has other rows than {first_name}");
            phase.findings.push(Finding::new(Kind::Differ, text));
        } else if name != first_name {
            continue;
        }
        phase.findings.extend(bank::judge(&done.bank.transfers, name, &rows.bank));
        phase.findings.extend(ids::judge(&done.inserts, name, &rows.ids));
        phase.findings.extend(register::judge(&done.known, name, &rows.registers));
        for (level, end) in &rows.lists {
            let history = done.lists.iter().find(|(of, _)| of == level).map(|(_, all)| all.as_slice());
            phase.findings.extend(judge::lists(history.unwrap_or_default(), end));
        }
    }
    for (level, end) in &first.lists {
        let history = done.lists.iter().find(|(of, _)| of == level).map(|(_, all)| all.clone());
        let (history, end) = (history.unwrap_or_default(), end.clone());
        let found = tokio::task::spawn_blocking(move || cycles::find(&history, &end));
        phase.cycles.insert(*level, found.await.context("the checker ended by itself")?);
    }
    Ok(phase)
}

/// Reads them directly, not through Understudy, after a causal read.
async fn read_rows(kind: ClusterKind, node: &StageNode) -> anyhow::Result<Rows> {
    let target = target(&node.address.to_string())?;
    let deadline = Instant::now() + ROWS_WITHIN;
    loop {
        let read = tokio::time::timeout_at(deadline, try_read_rows(kind, &target)).await;
        match read.with_context(|| format!("{} did not give its rows in time", node.name))? {
            Ok(rows) => return Ok(rows),
            // A causal read fails (1205) while the group agrees on a view. Reading again does not change the result.
            Err(_) if Instant::now() + ROWS_PAUSE < deadline => tokio::time::sleep(ROWS_PAUSE).await,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the rows of {}", node.name));
            }
        }
    }
}

async fn try_read_rows(kind: ClusterKind, target: &Target) -> mysql_async::Result<Rows> {
    let mut conn = Conn::new(target.opts()).await?;
    if let Some(causal) = kind.causal() {
        conn.query_drop(causal).await?;
    }
    let mut lists = Vec::new();
    for level in Level::ALL {
        let rows: Vec<(u32, String)> =
            conn.query(format!("SELECT k, elements FROM {}", level.table())).await?;
        lists.push((level, rows.into_iter().map(|(key, text)| (key, elements(&text))).collect()));
    }
    let rows = Rows {
        lists,
        bank: BankRows {
            accounts: conn.query("SELECT id, balance FROM accounts ORDER BY id").await?,
            transfers: conn.query("SELECT id, giver, taker, amount FROM transfers ORDER BY row_id").await?,
        },
        registers: conn.query("SELECT r, v FROM registers ORDER BY r").await?,
        ids: conn.query("SELECT id, token FROM ids ORDER BY id").await?,
    };
    conn.disconnect().await?;
    Ok(rows)
}
