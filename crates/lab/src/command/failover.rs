//! `lab failover` and `lab demo`: measure the cells of the seed's table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::failover::case::{Case, Scope};
use crate::failover::front::External;
use crate::failover::progress::Progress;
use crate::failover::result::Report;
use crate::failover::run::{self, Ground};
use crate::failover::understudy::Knobs;
use crate::failover::{Baseline, Driver, FailoverPlan, table};
use crate::load::arrivals::Arrivals;
use crate::load::session::Protocol;
use crate::stage::process::Identity;
use crate::stage::{ADVISED_EVS, ClusterKind, Stage, StagePlan};

/// The kinds of cluster
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Cluster {
    /// Three MariaDB Galera nodes
    Galera,
    /// A MariaDB primary with two replicas
    Replication,
}

/// Which nodes are evicted
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Evict {
    /// Nodes that refused or reset connections
    Proven,
    /// Silent nodes too
    Silent,
    /// None
    Never,
}

/// What is done while the group waits for a silent node
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Silent {
    /// Shorten the wait of the other nodes
    Hurry,
    /// Nothing
    Wait,
}

/// Measures on a real cluster: graceful, semi-graceful, non-graceful (the seed's nine cells), frozen, vanished x active, passive, all
#[derive(Debug, clap::Args)]
pub struct FailoverArgs {
    /// Which kind of cluster
    #[arg(long, value_enum, default_value = "galera")]
    pub cluster: Cluster,
    /// Replication: a commit returns before a replica has it [default: semi-synchronous]
    #[arg(long)]
    pub asynchronous: bool,
    /// Only these rows [default: all five]
    #[arg(long = "case", value_enum, value_delimiter = ',')]
    pub cases: Vec<Case>,
    /// Only these columns [default: all three; of replication, active (the primary) and passive (a replica)]
    #[arg(long = "scope", value_enum, value_delimiter = ',')]
    pub scopes: Vec<Scope>,
    /// How often to measure each cell
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Transactions a second of each client
    #[arg(long, default_value_t = 30.0, value_parser = super::output::positive)]
    pub rate: f64,
    /// Threads of each client
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: u32,
    /// How transactions arrive
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// How statements are sent
    #[arg(long, value_enum, default_value = "prepared")]
    pub protocol: Protocol,
    /// What generates the load
    #[arg(long, value_enum, default_value = "builtin")]
    pub driver: Driver,
    /// Seconds without a fault before the fault
    #[arg(long, default_value_t = 5.0, value_parser = super::output::positive)]
    pub warm_s: f64,
    /// Seconds observed from the fault on [default: 8, and 16 for freeze and vanish]
    #[arg(long, value_parser = super::output::positive)]
    pub after_s: Option<f64>,
    /// The same seed gives the same load [default: from the clock; the report names it]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print sysbench's lines, one a second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1), value_name = "1")]
    pub report_interval: Option<u32>,
    /// Measure the proxy at this address instead of Understudy; needs --stage
    #[arg(long, value_name = "HOST:PORT", requires = "stage", conflicts_with = "baseline")]
    pub through: Option<String>,
    /// Command that takes a node out of the proxy of --through; run by sh with NODE and ADDRESS set
    #[arg(long, value_name = "CMD", requires = "through")]
    pub graceful_command: Option<String>,
    /// Command that lets the node take traffic again
    #[arg(long, value_name = "CMD", requires = "through")]
    pub restore_command: Option<String>,
    /// Also measure this, in the same run; several separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    pub baseline: Vec<Baseline>,
    /// How often to measure each cell of a baseline [default: as often as the others]
    #[arg(long, requires = "baseline", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub baseline_repetitions: Option<u32>,
    /// Measure only the baseline
    #[arg(long, requires = "baseline")]
    pub baseline_only: bool,
    /// A fresh cluster for each cell, not only for each proxy and writers setting
    #[arg(long, conflicts_with = "stage")]
    pub fresh_cells: bool,
    /// Understudy: detect failures only by missed checks, as a load balancer does
    #[arg(long)]
    pub checks_only: bool,
    /// Understudy: which nodes to evict [default: Understudy's own]
    #[arg(long, value_enum)]
    pub evict: Option<Evict>,
    /// Understudy: what to do while the group waits for a silent node [default: Understudy's own]
    #[arg(long, value_enum)]
    pub silent: Option<Silent>,
    /// Understudy: ms between two probes [default: Understudy's own]
    #[arg(long)]
    pub probe_interval_ms: Option<u64>,
    /// Understudy: missed probes until a node is dead [default: Understudy's own]
    #[arg(long)]
    pub misses_max: Option<u32>,
    /// Run the nodes with the recommended evs settings
    #[arg(long, conflicts_with = "stage")]
    pub advised: bool,
    /// One more wsrep_provider_option for the nodes, such as evs.suspect_timeout=PT2S; may be repeated
    #[arg(long = "galera-option", value_name = "NAME=VALUE", conflicts_with = "stage")]
    pub galera_options: Vec<String>,
    /// Use this running stage (lab up) instead of starting one
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write result.json, report.html, table.txt and the proxies' logs here
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Three nodes, Understudy in front, both clients, the active node killed: the table and the plot, in about half a minute
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// File for the report
    #[arg(long, value_name = "FILE", default_value = "demo.html")]
    pub html: PathBuf,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also measure this baseline, in the same run
    #[arg(long, value_enum, value_delimiter = ',')]
    pub baseline: Vec<Baseline>,
}

impl DemoArgs {
    /// The demo is one cell of the table.
    fn as_failover(&self) -> FailoverArgs {
        FailoverArgs {
            cases: vec![Case::NonGraceful],
            scopes: vec![Scope::Active],
            baseline: self.baseline.clone(),
            json: self.json.clone(),
            html: Some(self.html.clone()),
            ..FailoverArgs::default()
        }
    }
}

impl Default for FailoverArgs {
    /// The values of the command line without any option.
    fn default() -> Self {
        Self {
            cluster: Cluster::Galera,
            asynchronous: false,
            cases: Vec::new(),
            scopes: Vec::new(),
            repetitions: 1,
            rate: 30.0,
            threads: 4,
            arrivals: Arrivals::Poisson,
            protocol: Protocol::Prepared,
            driver: Driver::Builtin,
            warm_s: 5.0,
            after_s: None,
            seed: None,
            report_interval: None,
            through: None,
            graceful_command: None,
            restore_command: None,
            baseline: Vec::new(),
            baseline_repetitions: None,
            baseline_only: false,
            fresh_cells: false,
            checks_only: false,
            evict: None,
            silent: None,
            probe_interval_ms: None,
            misses_max: None,
            advised: false,
            galera_options: Vec::new(),
            stage: None,
            json: None,
            html: None,
            out_dir: None,
        }
    }
}

/// A different load in each run.
fn seed_by_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

impl FailoverArgs {
    fn kind(&self) -> ClusterKind {
        match self.cluster {
            Cluster::Galera => ClusterKind::Galera,
            Cluster::Replication => ClusterKind::Replication { semi_sync: !self.asynchronous },
        }
    }

    /// Rejects options that contradict each other.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let is_galera = self.cluster == Cluster::Galera;
        if is_galera && self.asynchronous {
            bail!(
                "--asynchronous is for --cluster replication: a Galera commit is always certified by the group"
            );
        }
        if !is_galera
            && (self.advised
                || !self.galera_options.is_empty()
                || self.evict.is_some()
                || self.silent.is_some())
        {
            bail!("--advised, --galera-option, --evict and --silent are for --cluster galera");
        }
        if is_galera && self.baseline.contains(&Baseline::Mha) {
            bail!(
                "--baseline mha is for --cluster replication: MHA makes a replica the primary, and Galera has none"
            );
        }
        if !is_galera && self.baseline.contains(&Baseline::Haproxy) {
            bail!(
                "--baseline haproxy is for --cluster galera: a load balancer does not make a replica the primary. haproxy-agent follows \
                 an Understudy that does"
            );
        }
        Ok(())
    }

    fn galera_options(&self) -> anyhow::Result<String> {
        for option in &self.galera_options {
            if !option.contains('=') || option.contains(['"', '\n']) {
                bail!("--galera-option {option:?} is not NAME=VALUE, such as evs.suspect_timeout=PT2S");
            }
        }
        let advised = self.advised.then(|| ADVISED_EVS.to_owned());
        Ok(advised.into_iter().chain(self.galera_options.clone()).collect::<Vec<_>>().join("; "))
    }

    /// The given running stage, or fresh ones.
    pub(super) fn ground(&self, plan: &FailoverPlan) -> anyhow::Result<Ground> {
        let Some(name) = &self.stage else {
            return Ok(Ground::Own(StagePlan {
                name: format!("fo{}", std::process::id()),
                kind: plan.cluster,
                galera_options: plan.galera_options.clone(),
                ..StagePlan::default()
            }));
        };
        let stage = Stage::attach(name)?;
        if stage.kind().name() != plan.cluster.name() {
            bail!("stage {name} is of the kind {0}: say --cluster {0}", stage.kind().name());
        }
        Ok(Ground::Attached(Box::new(stage)))
    }

    pub(super) fn plan(&self, dir: &Path) -> anyhow::Result<FailoverPlan> {
        let or_all = |given: &[Case]| if given.is_empty() { Case::ALL.to_vec() } else { given.to_vec() };
        let evict = self.evict.map(|evict| format!("{evict:?}").to_lowercase());
        let cluster = self.kind();
        Ok(FailoverPlan {
            cluster,
            cases: or_all(&self.cases),
            scopes: if self.scopes.is_empty() { Scope::of(cluster).to_vec() } else { self.scopes.clone() },
            repetitions: self.repetitions,
            baseline_repetitions: self.baseline_repetitions.unwrap_or(self.repetitions),
            rate: self.rate,
            threads: self.threads,
            arrivals: self.arrivals,
            protocol: self.protocol,
            driver: self.driver,
            tables: 4,
            rows: 10_000,
            warm_s: self.warm_s,
            after_s: self.after_s,
            seed: self.seed.unwrap_or_else(seed_by_clock),
            print_seconds: self.report_interval.is_some(),
            knobs: Knobs {
                checks_only: self.checks_only,
                evict,
                silent: self.silent.map(|silent| format!("{silent:?}").to_lowercase()),
                probe_interval_ms: self.probe_interval_ms,
                misses_max: self.misses_max,
                ..Knobs::default()
            },
            fresh_cells: self.fresh_cells,
            understudy: !self.baseline_only && self.through.is_none(),
            baselines: self.baseline.clone(),
            through: self.through.as_ref().map(|address| External {
                address: address.clone(),
                graceful: self.graceful_command.clone(),
                restore: self.restore_command.clone(),
            }),
            galera_options: self.galera_options()?,
            dir: dir.to_owned(),
        })
    }
}

/// Runs the measurements, prints the table, writes the requested files. Exit code 1 when a ledger contradicts the outcomes that clients
/// received, when a client did not read its own write, or when a cell was aborted.
pub async fn run(args: &FailoverArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    let work = WorkDir::new()?;
    let plan = args.plan(&work.path)?;
    let progress = Progress::new(plan.steps());
    let ground = args.ground(&plan)?;
    let report = run::run(&ground, &plan, &progress).await;
    progress.end();
    if let Some(dir) = &args.out_dir {
        work.keep_logs(dir)?;
    }
    let report = report?;

    let drawn = table::draw(&report);
    println!("{drawn}");
    write_all(args, &report, &drawn)?;
    if !report.broken().is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if report.understudy_broke_its_word() {
        eprintln!(
            "what clients were told does not hold: see lost, doubled, phantom, differing nodes, stale reads and sessions ended elsewhere above"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the demo.
pub async fn demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    run(&args.as_failover()).await
}

fn write_all(args: &FailoverArgs, report: &Report, drawn: &str) -> anyhow::Result<()> {
    let json = report.json();
    let page = || crate::failover::page::page(report);
    if let Some(path) = &args.json {
        report::file::write_json(path, &json)?;
    }
    if let Some(path) = &args.html {
        report::file::write_text(path, &page())?;
        println!("the picture: {}", path.display());
    }
    if let Some(dir) = &args.out_dir {
        report::file::write_json(&dir.join("result.json"), &json)?;
        report::file::write_text(&dir.join("report.html"), &page())?;
        report::file::write_text(&dir.join("table.txt"), drawn)?;
        println!("everything: {}", dir.display());
    }
    Ok(())
}

/// Prefix of the work directory's name; the process ID follows.
const WORK_DIR: &str = "understudy-failover-";

/// Directory for configurations, keys and state during the run; removed when it ends, however it ends.
pub(super) struct WorkDir {
    pub path: PathBuf,
}

impl WorkDir {
    pub fn new() -> anyhow::Result<Self> {
        Self::sweep();
        let path = std::env::temp_dir().join(format!("{WORK_DIR}{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self { path })
    }

    /// Removes what killed runs left: directories of this user whose process has ended. What cannot be removed stays.
    fn sweep() {
        use std::os::unix::fs::MetadataExt;
        let own = rustix::process::geteuid().as_raw();
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(WORK_DIR)?.parse::<u32>().ok());
            let ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == own);
            if let Some(pid) = pid.filter(|_| ours)
                && Identity::of(pid).is_none_or(|process| !process.is_alive())
            {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Copies the log files of the proxies, and no secrets, to `to`/logs.
    pub(super) fn keep_logs(&self, to: &Path) -> anyhow::Result<()> {
        let entries =
            std::fs::read_dir(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        for entry in entries.flatten() {
            let Ok(files) = std::fs::read_dir(entry.path()) else { continue };
            for file in
                files.flatten().filter(|file| file.path().extension().is_some_and(|kind| kind == "log"))
            {
                if let Ok(text) = std::fs::read_to_string(file.path()) {
                    let [of, name] = [&entry, &file].map(|it| it.file_name().to_string_lossy().into_owned());
                    report::file::write_text(&to.join("logs").join(format!("{of}-{name}")), &text)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}
