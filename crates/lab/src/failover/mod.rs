//! The seed's table, measured: each way a node can leave, for each thing it was doing, through Understudy and, in the same
//! run on the same cluster, through HAProxy.
//!
//! ```text
//!   stage (real nodes) ─┬─ writers one ─┬─ HAProxy ──── cells ── repetitions ─┐
//!                       │               └─ Understudy ─ cells ── repetitions ─┤──> Report ──> table, JSON, HTML
//!                       └─ writers all ─┴─ ...                                ┘
//!   repetition: load ── quiet phase ── fault ── after ── drain ── heal ── every node's ledger against the history
//! ```

pub mod case;
pub mod cell;
pub mod front;
pub mod haproxy;
pub mod http;
pub mod machine;
pub mod progress;
pub mod result;
pub mod table;
pub mod understudy;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use self::case::{Case, Scope, Writers};
use self::front::{External, Front};
use self::progress::Progress;
use self::result::{Cell, Conditions, Report};
use self::understudy::Knobs;
use crate::fault::Fault;
use crate::load::arrivals::Arrivals;
use crate::load::prepare;
use crate::load::second::Tell;
use crate::load::session::{Protocol, Target};
use crate::stage::Stage;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};

/// What makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// The lab's own clients, naive and retrying.
    Builtin,
    /// The real sysbench in the seed's restart loop as the naive client; the retrying one is the lab's.
    Sysbench,
}

/// A run, as asked for.
#[derive(Clone, Debug)]
pub struct FailoverPlan {
    /// Rows.
    pub cases: Vec<Case>,
    /// Columns.
    pub scopes: Vec<Scope>,
    /// Of each cell.
    pub repetitions: u32,
    /// Transactions a second of each client.
    pub rate: f64,
    /// Threads of each client.
    pub threads: u32,
    /// How transactions arrive.
    pub arrivals: Arrivals,
    /// Text or prepared.
    pub protocol: Protocol,
    /// Who makes the load.
    pub driver: Driver,
    /// Tables of the load.
    pub tables: u32,
    /// Rows of each.
    pub rows: u32,
    /// Quiet phase, s.
    pub warm_s: f64,
    /// From the fault on, s; `None`: 8 for faults with a proof, 16 for silent ones.
    pub after_s: Option<f64>,
    /// The same seed draws the same load.
    pub seed: u64,
    /// Print sysbench's lines.
    pub print_seconds: bool,
    /// Understudy's settings.
    pub knobs: Knobs,
    /// Measure Understudy.
    pub understudy: bool,
    /// Measure HAProxy too.
    pub haproxy: bool,
    /// Measure this instead of Understudy.
    pub through: Option<External>,
    /// Galera options of the stage, for the report.
    pub galera_options: String,
    /// Configurations, logs and state of the proxies.
    pub dir: PathBuf,
}

impl FailoverPlan {
    /// How long a repetition is watched from the fault on, s.
    pub fn after_s(&self, case: Case) -> f64 {
        self.after_s.unwrap_or(match case {
            Case::Graceful | Case::SemiGraceful | Case::NonGraceful => 8.0,
            Case::Freeze | Case::Vanish => 16.0,
        })
    }

    fn tell(&self, progress: &Progress) -> Option<Tell> {
        let progress = progress.clone();
        self.print_seconds.then(|| Arc::new(move |line: &str| progress.line(line)) as Tell)
    }

    /// Steps of the whole run, for the bar.
    pub fn steps(&self) -> u64 {
        let fronts = u64::from(self.understudy || self.through.is_some()) + u64::from(self.haproxy);
        self.cases.len() as u64 * self.scopes.len() as u64 * u64::from(self.repetitions) * fronts
    }
}

/// Runs all of it on a stage that stands. A cell that cannot be measured, or breaks off, says why in the
/// report; only a stage that cannot be mended, or a proxy that does not start, ends the run.
pub async fn run(stage: &Stage, plan: &FailoverPlan, progress: &Progress) -> anyhow::Result<Report> {
    let nodes: Vec<(String, String)> =
        stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect();
    prepare_stage(stage, plan, &nodes, progress).await?;

    let mut run = Runner { stage, plan, nodes, progress, number: 0, cells: Vec::new() };
    if let Some(external) = &plan.through {
        run.all_of(&Setup::External(external.clone())).await?;
    } else {
        for writers in [Writers::One, Writers::All] {
            if !plan.scopes.iter().any(|scope| scope.writers() == writers) {
                continue;
            }
            if plan.haproxy {
                run.all_of(&Setup::Haproxy(writers)).await?;
            }
            if plan.understudy {
                run.all_of(&Setup::Understudy(writers)).await?;
            }
        }
    }
    Ok(Report { cells: run.cells, machine: look_around(stage).await, conditions: conditions(plan) })
}

struct Runner<'a> {
    stage: &'a Stage,
    plan: &'a FailoverPlan,
    nodes: Vec<(String, String)>,
    progress: &'a Progress,
    number: u64,
    cells: Vec<Cell>,
}

/// What a front is made from, so that it can be made again.
enum Setup {
    Haproxy(Writers),
    Understudy(Writers),
    External(External),
}

impl Runner<'_> {
    async fn start(&self, setup: &Setup) -> anyhow::Result<Front> {
        let plan = self.plan;
        match setup {
            Setup::Haproxy(writers) => {
                self.progress.now(&format!("starting HAProxy, writers {writers}"));
                Front::haproxy(&self.nodes, *writers, &plan.dir.join(format!("haproxy-{writers}"))).await
            }
            Setup::Understudy(writers) => {
                self.progress.now(&format!("starting Understudy, writers {writers}"));
                let dir = plan.dir.join(format!("understudy-{writers}"));
                Front::understudy(&self.nodes, *writers, &plan.knobs, &dir).await
            }
            Setup::External(external) => Front::external(&self.nodes, external.clone()).await,
        }
    }

    /// Every cell that this front can show. One that breaks off does not cost the others: the nodes are healed and the front
    /// is made anew.
    async fn all_of(&mut self, setup: &Setup) -> anyhow::Result<()> {
        let mut front = self.start(setup).await?;
        let scopes: Vec<Scope> = front.writers().scopes().filter(|s| self.plan.scopes.contains(s)).collect();
        for &case in &self.plan.cases {
            for &scope in &scopes {
                let mut cell = self.one_cell(&front, case, scope).await;
                if let Some(broke) = &mut cell.broke {
                    if let Err(ended) = front.still_runs() {
                        *broke = format!("{broke}; {ended:#}");
                    }
                    self.progress.line(&format!("broke off: {broke}"));
                    self.cells.push(cell);
                    drop(front);
                    self.heal_all().await?;
                    front = self.start(setup).await?;
                } else {
                    self.cells.push(cell);
                }
            }
        }
        if let Setup::External(_) = setup {
            self.skip_rest(&front);
        }
        Ok(())
    }

    async fn heal_all(&self) -> anyhow::Result<()> {
        for (node, _) in &self.nodes {
            self.progress.now(&format!("healing {node}"));
            let healed = self.stage.fault(node, Fault::Heal).await;
            healed.with_context(|| format!("cannot heal {node} after a repetition broke off"))?;
        }
        Ok(())
    }

    async fn one_cell(&mut self, front: &Front, case: Case, scope: Scope) -> Cell {
        let mut cell = Cell {
            case,
            scope,
            who: front.who(),
            repetitions: Vec::new(),
            skipped: self.cannot(front, case),
            broke: None,
        };
        if cell.skipped.is_some() {
            return cell;
        }
        for repetition in 0..self.plan.repetitions {
            let of = format!("{}/{}", repetition + 1, self.plan.repetitions);
            let name = table::name_of(&front.who());
            let what = format!("{name}, {}, {} {of}", case.title().to_lowercase(), scope.title());
            self.progress.now(&what);
            self.number += 1;
            let at = cell::At { case, scope, repetition, number: self.number };
            let measured = cell::measure(self.stage, front, self.plan, at, self.progress).await;
            self.progress.step();
            match measured {
                Ok(measured) => cell.repetitions.push(measured),
                Err(error) => {
                    cell.broke = Some(format!("{what}: {error:#}"));
                    return cell;
                }
            }
            let said = table::lines(&cell);
            self.progress.line(&format!("{what}: {}, {}", said[0], said[1].trim_start()));
        }
        cell
    }

    fn cannot(&self, front: &Front, case: Case) -> Option<String> {
        match case {
            Case::Graceful => front.cannot_remove(),
            Case::Vanish if !self.stage.is_namespaced() => {
                Some("nodes have no network of their own here (needs root)".to_owned())
            }
            _ => None,
        }
    }

    /// The scopes that somebody else's proxy, as it is set up, does not show.
    fn skip_rest(&mut self, front: &Front) {
        let other = match front.writers() {
            Writers::One => (Writers::All, "it writes to one node"),
            Writers::All => (Writers::One, "it writes to all nodes"),
        };
        for &case in &self.plan.cases {
            for scope in other.0.scopes().filter(|scope| self.plan.scopes.contains(scope)) {
                let skipped = Some(other.1.to_owned());
                let who = front.who();
                self.cells.push(Cell { case, scope, who, repetitions: Vec::new(), skipped, broke: None });
            }
        }
    }
}

/// Tables, and the account of HAProxy's check.
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
    prepare::tables(&target, plan.tables, plan.rows, own).await?;
    if !own {
        let sysbench = crate::load::sysbench::SysbenchPlan {
            target: target.clone(),
            tables: plan.tables,
            rows: plan.rows,
            threads: plan.threads,
            rate: plan.rate,
        };
        sysbench.prepare().await?;
    }
    if plan.haproxy {
        let sql = format!("CREATE USER IF NOT EXISTS '{}'@'%'", haproxy::CHECK_USER);
        stage.run_in(first, &sql).await.context("cannot make the account of HAProxy's check")?;
    }
    // Every node must have applied all of it before the first connection prepares its statements there.
    for (name, address) in nodes {
        let target = Target::parse(address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
        let mut conn = Conn::new(target.opts()).await.with_context(|| format!("cannot log in to {name}"))?;
        conn.query_drop("SET SESSION wsrep_sync_wait=15").await?;
        let _: Option<u64> = conn.query_first("SELECT COUNT(*) FROM ledger").await?;
        conn.disconnect().await?;
    }
    Ok(())
}

async fn look_around(stage: &Stage) -> result::Machine {
    let mut machine =
        machine::look(&[("HAProxy", "haproxy", &["-v"]), ("sysbench", "sysbench", &["--version"])]).await;
    if let Some(node) = stage.nodes().first() {
        let sql = "SELECT @@version, (SELECT variable_value FROM information_schema.global_status \
                   WHERE variable_name = 'wsrep_provider_version')";
        if let Ok(rows) = stage.run_in(&node.name, sql).await
            && let Some([server, galera]) = rows.first().map(Vec::as_slice)
        {
            machine.versions.insert("MariaDB".into(), server.clone());
            machine.versions.insert("Galera".into(), galera.clone());
        }
    }
    machine.versions.insert("Understudy".into(), env!("CARGO_PKG_VERSION").into());
    machine
}

fn conditions(plan: &FailoverPlan) -> Conditions {
    let haproxy = plan.haproxy.then(|| {
        "option mysql-check every 1 s, down after 3 failures, up after 2 good ones, sessions of a server marked down are cut; \
         one writer: the other servers as backup; all: leastconn; graceful: maint, 2 s for sessions to leave, then cut"
            .to_owned()
    });
    Conditions {
        rate: plan.rate,
        threads: plan.threads,
        arrivals: format!("{:?}", plan.arrivals).to_lowercase(),
        protocol: format!("{:?}", plan.protocol).to_lowercase(),
        driver: format!("{:?}", plan.driver).to_lowercase(),
        warm_s: plan.warm_s,
        after_s: plan.after_s(Case::NonGraceful),
        galera_options: plan.galera_options.clone(),
        knobs: plan.knobs.clone(),
        haproxy,
        at: machine::now_utc(),
    }
}
