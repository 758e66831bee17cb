//! Runs `lab capacity`: a cluster, writers, and `understudy capacity` on db3 as often as requested, each time with an observer.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;

use super::observe::{self, Truth};
use super::{CapacityPlan, DIFFERENCE_MAX};
use crate::experiment::{Place, Results};
use crate::load::paced::Paced;
use crate::load::session::Target;
use crate::program;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::process::ProcessParent;
use crate::stage::{ClusterKind, Stage, StagePlan};

/// The table. Its primary key is the row number; the second index makes applying a row as much work as an application's.
const DDL: &str = "CREATE TABLE capacity (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, k INT NOT NULL, pad CHAR(200) NOT NULL, KEY (k))";
/// Regularly changes some thousand rows in one transaction: db3 applies the transactions behind it only after a delay.
const BATCH: &str = "UPDATE capacity SET pad = MD5(RAND()) WHERE id <= 3000";
/// Batches a second.
const BATCHES_PER_S: f64 = 0.5;
/// gcache size: room for the writesets that arrive while db3 is held.
const GALERA_OPTIONS: &str = "gcache.size=256M";
/// The measured node.
const NODE: &str = "db3";
/// How long the writers run before the first measurement.
const WARM_UP: Duration = Duration::from_secs(2);
/// Upper bound from sending a row until it is on db3, also on a busy machine.
const ROW_TAKES: Duration = Duration::from_millis(100);

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The JSON of `understudy capacity`, without its readings.
    pub told: Value,
    /// The estimate of `--passive` just before; None if it was not run.
    pub passive: Option<Value>,
    /// The result computed from the rows.
    pub truth: Truth,
    /// Relative difference of the two, as a fraction of the latter.
    pub difference: f64,
    /// How long flow control stopped writes elsewhere, ms.
    pub flow_control_ms: f64,
}

/// Results of all measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// End of the run, UTC.
    pub at: String,
    /// `galera` or `replication`.
    pub kind: &'static str,
    /// gcs.fc_limit, where it is not the default.
    pub fc_limit: Option<u32>,
    /// Transactions a second.
    pub rate: f64,
    /// Connections that wrote.
    pub connections: u32,
    /// Settings that differ from the servers' defaults.
    pub settings: &'static str,
    /// The measurements, in order.
    pub runs: Vec<Measured>,
}

impl Results for Report {
    fn table(&self) -> String {
        super::table::draw(self)
    }

    /// Whether every figure is right, and flow control never stopped a write.
    fn is_good(&self) -> bool {
        let is_good = |run: &Measured| run.difference.abs() <= DIFFERENCE_MAX && run.flow_control_ms == 0.0;
        !self.runs.is_empty() && self.runs.iter().all(is_good)
    }
}

/// Runs the measurements.
///
/// # Errors
/// When the cluster, the writers or the command fails.
pub async fn run(plan: &CapacityPlan, place: &Place<'_>) -> anyhow::Result<Report> {
    let progress = place.progress;
    progress.now("starting three nodes");
    let fc_limit = plan.fc_limit.map_or_else(String::new, |limit| format!("; gcs.fc_limit={limit}"));
    let stage = Stage::up(StagePlan {
        kind: plan.kind(),
        name: format!("capacity-{}", std::process::id()),
        galera_options: if plan.kind() == ClusterKind::Galera {
            format!("{GALERA_OPTIONS}{fc_limit}")
        } else {
            String::new()
        },
        ..StagePlan::default()
    })
    .await?;
    stage.run_in("db1", &format!("USE {APP_SCHEMA}")).await?;
    stage.run_in("db1", &DDL.replace("TABLE capacity", &format!("TABLE {APP_SCHEMA}.capacity"))).await?;
    progress.step();
    let address = stage.node("db1")?.address.to_string();
    let target = Target::parse(&address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
    let writers = Paced::start(&target, plan.connections, plan.rate, |_| row).await?;
    tokio::time::sleep(WARM_UP).await;
    let mut runs = Vec::new();
    for number in 1..=plan.runs {
        progress.now(&format!("measurement {number} of {}", plan.runs));
        runs.push(
            measure(plan, &stage, (&writers, &target), place.out, number)
                .await
                .with_context(|| format!("measurement {number}"))?,
        );
        progress.step();
    }
    writers.stop().await?;
    stage.down().await.context("taking the stage away")?;
    Ok(Report {
        at: crate::failover::machine::now_utc(),
        kind: plan.kind().name(),
        fc_limit: plan.fc_limit,
        rate: plan.rate,
        connections: plan.connections,
        settings: plan.kind().settings(),
        runs,
    })
}

/// The statement that writes a row.
fn row(id: u64) -> String {
    // Spreads the rows over the second index, the same in each run.
    let k = id.wrapping_mul(2_654_435_761) % 1_000_000;
    format!("INSERT INTO capacity VALUES ({id}, {k}, REPEAT('{}', 190))", id % 10)
}

async fn measure(
    plan: &CapacityPlan,
    stage: &Stage,
    (writers, target): (&Paced, &Target),
    out_dir: &Path,
    number: u32,
) -> anyhow::Result<Measured> {
    let passive = match plan.passive_s {
        0 => None,
        _ => {
            let batches = Paced::start(target, 1, BATCHES_PER_S, |_| |_| BATCH.to_owned()).await?;
            let told = passive(plan, stage, out_dir, number).await?;
            batches.stop().await?;
            Some(told)
        }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let socket = stage.node(NODE)?.socket.clone();
    let (counts, over) = (writers.counts.clone(), is_over.clone());
    let observer = tokio::spawn(async move { observe::watch(&socket, counts, over).await });
    let told = tell(plan, stage, out_dir, number).await;
    is_over.store(true, Ordering::Relaxed);
    let seen = observer.await??;
    let mut told = told?;
    if told["hold_end"] != "time" {
        let why = told["hold_end"].as_str().unwrap_or("nothing known");
        bail!(
            "db3 was not held as long as planned, because of {why}: another node is too slow for this --rate on this machine"
        );
    }
    // Rows that may be sent but not yet on db3 although it is not behind: one for each connection, and those sent while a row reaches db3.
    let under_way = u64::from(plan.connections) + (plan.rate * ROW_TAKES.as_secs_f64()) as u64;
    let truth = observe::truth(&seen, Duration::from_secs(plan.hold_s) / 2, under_way)
        .context("the rows of db3 never stood still and caught up: nothing is known independently")?;
    let figure = told["apply_per_s"].as_f64().context("the command wrote no apply_per_s")?;
    if let Some(told) = told.as_object_mut() {
        told.remove("readings");
    }
    let flow_control_ms = told["others"]["flow_control_paused_ms"].as_f64().unwrap_or(f64::NAN);
    Ok(Measured { difference: figure / truth.per_s - 1.0, told, passive, truth, flow_control_ms })
}

/// Runs the passive estimate. Exit code 1 with JSON is valid too: then the estimate is unknown.
async fn passive(plan: &CapacityPlan, stage: &Stage, out_dir: &Path, number: u32) -> anyhow::Result<Value> {
    let (json, said) =
        (out_dir.join(format!("passive-{number}.json")), out_dir.join(format!("passive-{number}.txt")));
    let mut command = asking(stage)?;
    command.args(["--passive", "--for-s", &plan.passive_s.to_string(), "--json"]).arg(&json);
    let process_parent = ProcessParent::new()?;
    let status = process_parent.spawn(&command, Some(&said))?.ended().await?;
    if !matches!(status.code(), Some(0 | 1)) {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        bail!("`understudy capacity --passive` ended with {status}: {said}");
    }
    let text = std::fs::read_to_string(&json).with_context(|| format!("cannot read {}", json.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", json.display()))
}

/// The command line of `understudy capacity` for this node alone.
fn asking(stage: &Stage) -> anyhow::Result<Command> {
    let mut command = Command::new(program::understudy()?);
    command
        .args(["capacity", &stage.node(NODE)?.address.to_string(), "--standalone", "--user", MONITOR_USER])
        .env("UNDERSTUDY_PASSWORD", MONITOR_PASSWORD);
    Ok(command)
}

/// Runs `understudy capacity` and reads its JSON.
async fn tell(plan: &CapacityPlan, stage: &Stage, out_dir: &Path, number: u32) -> anyhow::Result<Value> {
    let (json, html) =
        (out_dir.join(format!("run-{number}.json")), out_dir.join(format!("run-{number}.html")));
    let said = out_dir.join(format!("run-{number}.txt"));
    let mut command = asking(stage)?;
    command
        .args(["--ignore-user", "root", "--baseline-s", &plan.baseline_s.to_string()])
        .args(["--hold-s", &plan.hold_s.to_string(), "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&html);
    let process_parent = ProcessParent::new()?;
    let status = process_parent.spawn(&command, Some(&said))?.ended().await?;
    // Exit code 4: there is a result, but flow control stopped writes; the table shows that.
    if !matches!(status.code(), Some(0 | 4)) {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        bail!("`understudy capacity` ended with {status}: {said}");
    }
    let text = std::fs::read_to_string(&json).with_context(|| format!("cannot read {}", json.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", json.display()))
}
