//! Runs all parts of a failover measurement: which proxy on which cluster, cell after cell; an error aborts only its own cell.
//!
//! Unless a running stage is given, each proxy and each `writers` setting has its own cluster (`fresh_cells`: each cell has): the state
//! that one manager leaves in a cluster (an evicted member that the group still remembers) must not affect the next.

use std::path::Path;

use anyhow::{Context, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::case::{Case, Scope, Writers};
use super::cell;
use super::front::{External, Front};
use super::plan::{FailoverPlan, Ground};
use super::progress::Progress;
use super::rejoin::SETTLED_WITHIN;
use super::result::{Cell, Conditions, Machine, Report, Who};
use super::rolling::{self, RollingRestart};
use super::{Baseline, Driver, ROWS, TABLES, haproxy, machine, mha, table};
use crate::experiment::{Experiment, Output, Place};
use crate::fault::Fault;
use crate::load::prepare;
use crate::load::session::Target;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use crate::stage::{ClusterKind, Stage, StagePlan};

/// The parameters of a proxy, so that it can be started again.
#[derive(Clone, Debug)]
enum Setup {
    Baseline(Baseline, Writers),
    Understudy(Writers),
    External(External),
}

/// Everything that is measured on one cluster.
struct Part {
    setup: Setup,
    cells: Vec<(Case, Scope)>,
}

impl Experiment for FailoverPlan {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn html(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    fn steps(&self) -> u64 {
        let ours = if self.baseline_only { 0 } else { self.repetitions };
        let theirs = u64::from(self.repetitions_of(&Who::Haproxy)) * self.baselines.len() as u64;
        self.cases().len() as u64 * self.scopes().len() as u64 * (u64::from(ours) + theirs)
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        self.check()?;
        run(&self.ground()?, self, place).await
    }
}

/// Restarts every node in turn, behind Understudy.
pub async fn rolling_restart(
    ground: &Ground,
    plan: &FailoverPlan,
    writers: Writers,
    place: &Place<'_>,
) -> anyhow::Result<RollingRestart> {
    let progress = place.progress;
    let on = async |stage: &Stage| {
        prepare_stage(stage, plan, &names_of(stage), progress).await?;
        let dir = place.work.join("understudy");
        let front = Front::understudy(stage.kind(), &names_of(stage), writers, &plan.knobs, &dir).await?;
        rolling::run(stage, &front, plan, conditions(ground, plan), progress).await
    };
    match ground {
        Ground::Attached(stage) => on(stage).await,
        Ground::Own(wanted) => {
            let teller = progress.clone();
            let stage = Stage::up_telling(wanted.clone(), move |step| teller.now(step)).await?;
            let done = on(&stage).await;
            progress.now("ending the cluster");
            let ended = stage.down().await;
            done.and_then(|done| ended.map(|()| done))
        }
    }
}

/// Runs all parts. If a cell cannot be measured or is aborted, the report contains the reason.
pub async fn run(ground: &Ground, plan: &FailoverPlan, place: &Place<'_>) -> anyhow::Result<Report> {
    let mut report = Report { conditions: conditions(ground, plan), ..Report::default() };
    let mut number = 0;
    for part in parts(plan) {
        let mut runner =
            Runner { plan, place, number: &mut number, cells: Vec::new(), machine: &mut report.machine };
        let done = match ground {
            Ground::Attached(stage) => runner.on(stage, &part).await,
            Ground::Own(wanted) => runner.on_a_fresh_stage(wanted, &part).await,
        };
        let mut cells = runner.cells;
        if let Err(error) = done {
            place.progress.line(&format!("broke off: {error:#}"));
            // The first cell without a figure carries the error; those after it were never started.
            let begun =
                |case, scope| cells.iter().any(|cell: &Cell| (cell.case, cell.scope) == (case, scope));
            let missing: Vec<_> = part.cells.iter().filter(|(case, scope)| !begun(*case, *scope)).collect();
            for (at, &&(case, scope)) in missing.iter().enumerate() {
                let broke = format!("{}, {}: {error:#}", case.title().to_lowercase(), scope.title());
                let (skipped, broke) = match at {
                    0 => (None, Some(broke)),
                    _ => (Some("never begun, see below".to_owned()), None),
                };
                let who = part.setup.who();
                cells.push(Cell { case, scope, who, repetitions: Vec::new(), skipped, broke });
            }
            if missing.is_empty() {
                return Err(error);
            }
        }
        report.cells.append(&mut cells);
    }
    Ok(report)
}

/// Baseline and Understudy alternate, so that both see the machine in the same state.
fn parts(plan: &FailoverPlan) -> Vec<Part> {
    let all = |scopes: &dyn Fn(Scope) -> bool| -> Vec<(Case, Scope)> {
        let scopes: Vec<Scope> = plan.scopes().iter().copied().filter(|scope| scopes(*scope)).collect();
        plan.cases().iter().flat_map(|&case| scopes.iter().map(move |&scope| (case, scope))).collect()
    };
    if let Some(external) = plan.external() {
        return vec![Part { setup: Setup::External(external), cells: all(&|_| true) }];
    }
    let mut parts = Vec::new();
    for writers in [Writers::One, Writers::All] {
        let cells = all(&|scope| scope.writers() == writers);
        let whole: Vec<Vec<(Case, Scope)>> = match (cells.is_empty(), plan.fresh_cells) {
            (true, _) => Vec::new(),
            (false, true) => cells.into_iter().map(|cell| vec![cell]).collect(),
            (false, false) => vec![cells],
        };
        for cells in whole {
            for &baseline in &plan.baselines {
                parts.push(Part { setup: Setup::Baseline(baseline, writers), cells: cells.clone() });
            }
            if plan.measures_understudy() {
                parts.push(Part { setup: Setup::Understudy(writers), cells });
            }
        }
    }
    parts
}

impl Setup {
    fn who(&self) -> Who {
        match self {
            Self::Baseline(Baseline::Haproxy, _) => Who::Haproxy,
            Self::Baseline(Baseline::HaproxyAgent, _) => Who::HaproxyAgent,
            Self::Baseline(Baseline::Mha, _) => Who::Mha,
            Self::Understudy(_) => Who::Understudy,
            Self::External(external) => Who::Through(external.address.clone()),
        }
    }

    async fn start(&self, stage: &Stage, plan: &FailoverPlan, dir: &Path) -> anyhow::Result<Front> {
        let nodes = &names_of(stage);
        match self {
            Self::Baseline(Baseline::Haproxy, writers) => Front::haproxy(stage, *writers, dir).await,
            Self::Baseline(Baseline::HaproxyAgent, writers) => {
                Front::haproxy_agent(stage.kind(), nodes, *writers, &plan.knobs, dir).await
            }
            Self::Baseline(Baseline::Mha, _) => Front::mha(stage, dir).await,
            Self::Understudy(writers) => {
                Front::understudy(stage.kind(), nodes, *writers, &plan.knobs, dir).await
            }
            Self::External(external) => Front::external(stage.kind(), nodes, external.clone()).await,
        }
    }
}

/// Name and address of each node.
pub(crate) fn names_of(stage: &Stage) -> Vec<(String, String)> {
    stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect()
}

/// State while one part of the run is measured.
struct Runner<'a> {
    plan: &'a FailoverPlan,
    place: &'a Place<'a>,
    /// Number of repetitions so far, over all parts.
    number: &'a mut u64,
    cells: Vec<Cell>,
    machine: &'a mut Machine,
}

impl Runner<'_> {
    async fn on_a_fresh_stage(&mut self, wanted: &StagePlan, part: &Part) -> anyhow::Result<()> {
        let teller = self.place.progress.clone();
        let stage = Stage::up_telling(wanted.clone(), move |step| teller.now(step)).await?;
        let done = self.on(&stage, part).await;
        self.place.progress.now("ending the cluster");
        let ended = stage.down().await;
        done.and(ended)
    }

    /// Measures every cell of the part. If one is aborted, the nodes are healed and the proxy is restarted for the next.
    async fn on(&mut self, stage: &Stage, part: &Part) -> anyhow::Result<()> {
        prepare_stage(stage, self.plan, &names_of(stage), self.place.progress).await?;
        if self.machine.versions.is_empty() {
            *self.machine = look_around(stage).await;
        }
        let name = table::name_of(&part.setup.who());
        let mut front: Option<Front> = None;
        for (at, &(case, scope)) in part.cells.iter().enumerate() {
            let open = match front.take() {
                Some(open) => open,
                None => {
                    self.place.progress.now(&format!("starting {name}"));
                    let dir = self.place.work.join(format!(
                        "{}-{}",
                        name.to_lowercase().replace(':', "-"),
                        *self.number + at as u64
                    ));
                    part.setup.start(stage, self.plan, &dir).await?
                }
            };
            let mut cell = self.one_cell(stage, &open, case, scope).await;
            front = match &mut cell.broke {
                None => Some(open),
                Some(broke) => {
                    let mut open = open;
                    if let Err(ended) = open.still_runs() {
                        *broke = format!("{broke}; {ended:#}");
                    }
                    self.place.progress.line(&format!("broke off: {broke}"));
                    drop(open);
                    None
                }
            };
            self.cells.push(cell);
            if front.is_none() {
                self.heal_all(stage).await?;
            }
        }
        Ok(())
    }

    async fn heal_all(&self, stage: &Stage) -> anyhow::Result<()> {
        for node in stage.nodes() {
            self.place.progress.now(&format!("healing {}", node.name));
            let healed = stage.fault(&node.name, Fault::Heal).await;
            healed.with_context(|| format!("cannot heal {} after a repetition broke off", node.name))?;
        }
        Ok(())
    }

    async fn one_cell(&mut self, stage: &Stage, front: &Front, case: Case, scope: Scope) -> Cell {
        let mut cell = Cell {
            case,
            scope,
            who: front.who(),
            repetitions: Vec::new(),
            skipped: cannot(stage, front, case, scope),
            broke: None,
        };
        if cell.skipped.is_some() {
            return cell;
        }
        let count = self.plan.repetitions_of(&cell.who);
        for repetition in 0..count {
            let of = format!("{}/{count}", repetition + 1);
            let name = table::name_of(&front.who());
            let what = format!("{name}, {}, {} {of}", case.title().to_lowercase(), scope.title());
            self.place.progress.now(&what);
            *self.number += 1;
            let at = cell::At { case, scope, repetition, number: *self.number };
            let measured = cell::measure(stage, front, self.plan, at, self.place.progress).await;
            self.place.progress.step();
            match measured {
                Ok(measured) => {
                    let once = Cell { repetitions: vec![measured.clone()], ..cell.clone() };
                    let lines = table::lines(&once);
                    let messages: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
                    self.place.progress.line(&format!("{what}: {}", messages.join(", ")));
                    cell.repetitions.push(measured);
                }
                Err(error) => {
                    cell.broke = Some(format!("{what}: {error:#}"));
                    return cell;
                }
            }
        }
        cell
    }
}

/// Why a cell cannot be measured, if so.
fn cannot(stage: &Stage, front: &Front, case: Case, scope: Scope) -> Option<String> {
    match (case, front.writers()) {
        _ if !Scope::of(stage.kind()).contains(&scope) => Some("only one server is written".to_owned()),
        (_, Writers::One) if scope.writers() == Writers::All => Some("it writes to one node".to_owned()),
        (_, Writers::All) if scope.writers() == Writers::One => Some("it writes to all nodes".to_owned()),
        (Case::Graceful, _) => front.cannot_remove(),
        (Case::Vanish, _) if !stage.is_namespaced() => {
            Some("nodes have no network of their own here (needs root)".to_owned())
        }
        _ => None,
    }
}

/// Creates the tables, and the accounts that the baselines need.
async fn prepare_stage(
    stage: &Stage,
    plan: &FailoverPlan,
    nodes: &[(String, String)],
    progress: &Progress,
) -> anyhow::Result<()> {
    let Some((first, address)) = nodes.first() else { bail!("the stage has no nodes") };
    progress.now("making the load's tables");
    let target = Target::parse(address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
    let own = plan.driver == Driver::Builtin;
    prepare::tables(&target, TABLES, ROWS, own).await?;
    if !own {
        let sysbench = cell::sysbench_plan(&target, plan);
        sysbench.prepare().await?;
    }
    if plan.baselines.contains(&Baseline::Haproxy) {
        let sql = format!("CREATE USER IF NOT EXISTS '{}'@'localhost'", haproxy::CHECK_USER);
        stage.run_in(first, &sql).await.context("cannot make the account of the nodes' checks")?;
    }
    if plan.baselines.contains(&Baseline::Mha) {
        mha::account(stage).await.context("cannot make MHA's account")?;
    }
    stage.settled(SETTLED_WITHIN).await?;
    // Every node must have applied all of it before the first connection prepares its statements there.
    for (name, address) in nodes {
        let target = Target::parse(address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
        let mut conn = Conn::new(target.opts()).await.with_context(|| format!("cannot log in to {name}"))?;
        if let Some(causal) = stage.kind().causal() {
            conn.query_drop(causal).await?;
        }
        let _: Option<u64> = conn.query_first("SELECT COUNT(*) FROM ledger").await?;
        conn.disconnect().await?;
    }
    Ok(())
}

/// The machine, and the versions of what is measured on it.
pub(crate) async fn look_around(stage: &Stage) -> Machine {
    let mut machine = machine::look(&[
        ("HAProxy", "haproxy", &["-v"]),
        ("MHA", "masterha_manager", &["--version"]),
        ("sysbench", "sysbench", &["--version"]),
    ])
    .await;
    if let Some(node) = stage.nodes().first() {
        if let Ok(rows) = stage.run_in(&node.name, "SELECT @@version").await
            && let Some([server]) = rows.first().map(Vec::as_slice)
        {
            machine.versions.insert(stage.product().name().into(), server.clone());
        }
        let sql = "SELECT variable_value FROM information_schema.global_status \
                   WHERE variable_name = 'wsrep_provider_version'";
        if stage.kind() == ClusterKind::Galera
            && let Ok(rows) = stage.run_in(&node.name, sql).await
            && let Some([galera]) = rows.first().map(Vec::as_slice)
        {
            machine.versions.insert("Galera".into(), galera.clone());
        }
    }
    machine.versions.insert("Understudy".into(), env!("CARGO_PKG_VERSION").into());
    machine
}

fn conditions(ground: &Ground, plan: &FailoverPlan) -> Conditions {
    let common = match plan.cluster.kind() {
        ClusterKind::Galera => {
            "sessions of a server marked down are cut; one writer: the other servers as backup; all: leastconn"
        }
        ClusterKind::Replication { .. } => "sessions of a server marked down are cut",
    };
    let said = |baseline, how: &str| plan.baselines.contains(&baseline).then(|| format!("{how}; {common}"));
    let haproxy = said(
        Baseline::Haproxy,
        "each node's own `understudy check` by HTTP every 1 s, down after 3 failures, up after 2 good ones; graceful: drain, 2 s \
         for sessions to leave, then those left are cut, then maint",
    );
    let follows = match plan.cluster.kind() {
        ClusterKind::Galera => {
            "the agent check of one `understudy serve` every 100 ms and its health endpoint every 200 ms, down after 2 failures, up \
             after 1 good one; graceful: drained by Understudy, 2 s for sessions to leave, then those left are cut"
        }
        ClusterKind::Replication { .. } => {
            "one `understudy serve` makes another server the primary; its health endpoint is asked every 200 ms which one is, down \
             after 2 failures, up after 1 good one; graceful: `understudy switchover`"
        }
    };
    let haproxy_agent = said(Baseline::HaproxyAgent, follows);
    let cluster = match ground {
        Ground::Attached(_) => "one running cluster for all of it",
        Ground::Own(_) if plan.fresh_cells => "a fresh cluster for each cell of each proxy",
        Ground::Own(_) => "a fresh cluster for each proxy and writers setting",
    };
    Conditions {
        kind: plan.cluster.kind(),
        cluster: cluster.into(),
        seed: plan.seed,
        rate: plan.rate,
        threads: plan.threads,
        arrivals: format!("{:?}", plan.arrivals).to_lowercase(),
        protocol: format!("{:?}", plan.protocol).to_lowercase(),
        driver: format!("{:?}", plan.driver).to_lowercase(),
        warm_s: plan.warm_s,
        after_s: plan.after_s(Case::NonGraceful),
        galera_options: plan.galera_options(),
        knobs: plan.knobs.clone(),
        haproxy,
        haproxy_agent,
        mha: plan.baselines.contains(&Baseline::Mha).then(|| mha::SET_UP.to_owned()),
        at: machine::now_utc(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_goes_first_on_a_cluster_of_its_own() {
        let parts = parts(&FailoverPlan { baselines: vec![Baseline::Haproxy], ..FailoverPlan::default() });
        let names: Vec<String> =
            parts.iter().map(|part| format!("{:?} {}", part.setup, part.cells.len())).collect();
        let haproxy = |writers, cells| format!("Baseline(Haproxy, {writers}) {cells}");
        let expect =
            [haproxy("One", 10), "Understudy(One) 10".into(), haproxy("All", 5), "Understudy(All) 5".into()];
        assert_eq!(names, expect);
    }

    #[test]
    fn fresh_cells_are_one_each_and_what_was_not_asked_for_is_left_out() {
        let asked =
            FailoverPlan { fresh_cells: true, only_scopes: vec![Scope::Active], ..FailoverPlan::default() };
        let parts = parts(&asked);
        assert_eq!((parts.len(), parts.iter().all(|part| part.cells.len() == 1)), (5, true));
    }
}
