//! Runs `lab recovery`: a cluster with the data, `understudy recovery measure` for each cell, and a comparison of the rows after each.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};

use super::RecoveryPlan;
use super::cell::{Absence, Cell};
use super::data::{self, Holds};
use crate::experiment::Results;
use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::failover::result::Machine;
use crate::load::session::Target;
use crate::program;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::process::ProcessParent;
use crate::stage::{ClusterKind, Stage, StagePlan};

/// The restarted node.
const NODE: &str = "db3";
/// The preferred donor, so that the copy does not block db1, which is written; the trailing comma allows any other when db2 cannot.
const DONOR: &str = "db2,";
/// Time limit: a restart of the quick size takes seconds, of the full one a few minutes.
const WITHIN: &str = "10m";
/// Number of nodes in the cluster.
const NODES: u64 = 3;
/// Memory of a server besides its buffer pool, MiB.
const MIB_BESIDE_POOL: u64 = 250;
/// How long the updates run before the node is stopped.
const WARM_UP: Duration = Duration::from_secs(2);

/// One cell's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The cell.
    pub cell: Cell,
    /// The JSON of `understudy recovery measure`, without its readings.
    pub told: Value,
    /// The content of the returned node, which the others have, too.
    pub holds: Holds,
    /// Whether the node rejoined by the expected transfer, and the forecast made just before its start was right.
    pub is_good: bool,
}

/// The conditions of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// End of the run, UTC.
    pub at: String,
    /// The parameters.
    pub plan: RecoveryPlan,
    /// Settings that differ from the servers' defaults.
    pub settings: String,
}

/// Results of all cells.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The conditions.
    pub conditions: Conditions,
    /// The machine.
    pub machine: Machine,
    /// The cells, in order.
    pub cells: Vec<Measured>,
}

impl Results for Report {
    fn table(&self) -> String {
        super::page::document(self).text()
    }

    fn page(&self) -> Option<String> {
        Some(super::page::document(self).html())
    }

    /// Whether every cell had the expected result.
    fn is_good(&self) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(|cell| cell.is_good)
    }
}

/// Runs the measurements. `out_dir`: where the JSON and the page of each cell are written.
///
/// # Errors
/// When the cluster, the updates or the command fails, or the returned node lacks a row.
pub async fn run(
    plan: &RecoveryPlan,
    cells: &[Cell],
    out_dir: &Path,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let wanted_mib = NODES * (plan.pool_mb + MIB_BESIDE_POOL);
    if let Some(available_mib) = machine::memory_available_mib().filter(|available| *available < wanted_mib) {
        bail!(
            "three nodes with a buffer pool of {} MiB each need about {wanted_mib} MiB of memory, and {available_mib} MiB are available: \
             choose a smaller --pool-mb, or fewer --rows",
            plan.pool_mb
        );
    }
    let mut measured = Vec::new();
    for is_small in [false, true] {
        let cells: Vec<Cell> = cells
            .iter()
            .filter(|cell| (cell.absence == Absence::ShortForSmall) == is_small)
            .copied()
            .collect();
        if cells.is_empty() {
            continue;
        }
        let gcache_mb = if is_small { plan.gcache_small_mb } else { plan.gcache_mb };
        let mut ground = Ground::lay(plan, gcache_mb, progress).await?;
        for cell in cells {
            progress.now(cell.title);
            measured.push(ground.measure(&cell, out_dir).await.with_context(|| cell.name.to_owned())?);
            progress.step();
        }
        ground.stage.down().await.context("taking the stage away")?;
    }
    let machine = machine::look(&[
        ("MariaDB", "mariadbd", &["--version"]),
        ("rsync", "rsync", &["--version"]),
        ("mariadb-backup", "mariadb-backup", &["--version"]),
    ])
    .await;
    let settings = format!(
        "{}; gcache.size {}M; innodb_buffer_pool_size {}M, innodb_log_file_size {}M",
        ClusterKind::Galera.settings(),
        plan.gcache_mb,
        plan.pool_mb,
        plan.redo_log_mb()
    );
    Ok(Report {
        conditions: Conditions { at: machine::now_utc(), plan: plan.clone(), settings },
        machine,
        cells: measured,
    })
}

/// A cluster with the data.
struct Ground<'a> {
    plan: &'a RecoveryPlan,
    stage: Stage,
    target: Target,
    /// Updates so far.
    acknowledged: u64,
    /// The lab's rsync wrapper, and the program that it replaces.
    rsync: Option<(PathBuf, PathBuf)>,
}

impl<'a> Ground<'a> {
    async fn lay(plan: &'a RecoveryPlan, gcache_mb: u32, progress: &Progress) -> anyhow::Result<Self> {
        progress.now("starting three Galera nodes");
        let stage = Stage::up(StagePlan {
            kind: ClusterKind::Galera,
            name: format!("rec-{}", std::process::id()),
            galera_options: format!("gcache.size={gcache_mb}M; gcache.keep_pages_size=0"),
            server_options: vec![
                format!("wsrep-sst-donor = {DONOR}"),
                format!("innodb-buffer-pool-size = {}M", plan.pool_mb),
                format!("innodb-log-file-size = {}M", plan.redo_log_mb()),
            ],
            ..StagePlan::default()
        })
        .await?;
        let address = stage.node("db1")?.address.to_string();
        let target = Target::parse(&address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
        progress.now(&format!("loading two tables of {} rows", plan.rows));
        data::load(&target, plan.rows).await?;
        progress.step();
        let rsync = our_rsync(&stage)?;
        Ok(Self { plan, stage, target, acknowledged: 0, rsync })
    }

    async fn measure(&mut self, cell: &Cell, out_dir: &Path) -> anyhow::Result<Measured> {
        self.set_method(cell.method)?;
        let updater = if cell.is_loaded {
            let updater = data::update(&self.target, self.plan, self.acknowledged).await?;
            tokio::time::sleep(WARM_UP).await;
            Some(updater)
        } else {
            None
        };
        let told = self.tell(cell, &out_dir.join(cell.name)).await;
        if let Some(updater) = updater {
            self.acknowledged += updater.stop().await?;
        }
        let told = told?;
        let (back, other) = tokio::join!(data::holds(&self.stage, NODE), data::holds(&self.stage, "db1"));
        let (back, other) = (back?, other?);
        data::agree(&back, &other, self.plan.rows, self.acknowledged)?;
        // A gcache that has never been full is forecast before the stop from the write rate alone; just before the start the forecast is
        // certain.
        let is_good = told["kind"] == cell.expected && told["forecast"]["was_right_at_start"] == true;
        Ok(Measured { cell: *cell, told, holds: back, is_good })
    }

    /// Sets `wsrep_sst_method` of the returning node, which requests the transfer.
    fn set_method(&self, method: &str) -> anyhow::Result<()> {
        let file = self.stage.directory().join(NODE).join("my.cnf");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines: Vec<String> = text
            .lines()
            .map(|line| {
                if line.starts_with("wsrep-sst-method") {
                    format!("wsrep-sst-method = {method}")
                } else {
                    line.to_owned()
                }
            })
            .collect();
        std::fs::write(&file, lines.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Runs `understudy recovery measure` and reads its JSON.
    async fn tell(&self, cell: &Cell, dir: &Path) -> anyhow::Result<Value> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let config = self.config()?;
        let node = self.stage.node(NODE)?;
        let away = match cell.absence {
            Absence::Short | Absence::ShortForSmall => self.plan.away,
            Absence::Long => self.plan.away_long,
        };
        let rsync = self.rsync.as_ref().map(|(ours, theirs)| (ours.as_path(), theirs.as_path()));
        let mut command = Command::new(program::understudy()?);
        command
            .args(["recovery", "measure", NODE, "--within", WITHIN, "--window-s"])
            .arg(if self.plan.is_quick { "1" } else { "5" })
            .args(["--away", &format!("{}s", away.as_secs())])
            .args(["--stop-command", &self.stage.stop_line(node)])
            .args(["--start-command", &self.stage.start_line(node, rsync)])
            .arg("--config")
            .arg(&config)
            .arg("--error-log")
            .arg(&node.error_log)
            .arg("--datadir")
            .arg(&node.datadir)
            .arg("--out-dir")
            .arg(dir);
        if cell.is_forced {
            command.arg("--full");
        } else {
            command.arg("--allow-full-copy");
        }
        let said = dir.join("said.txt");
        let process_parent = ProcessParent::new()?;
        let status = process_parent.spawn(&command, Some(&said))?.ended().await?;
        if !status.success() {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            let rsync = if cell.method == "rsync" && self.rsync.is_none() {
                " (run by root, rsync's server gives up root's rights, so that it cannot write here; without namespaces that cannot be helped)"
            } else {
                ""
            };
            bail!("`understudy recovery measure` ended with {status}: {}{rsync}", said.trim());
        }
        let file = dir.join("result.json");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut told: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))?;
        if let Some(told) = told.as_object_mut() {
            told.remove("readings");
        }
        Ok(told)
    }

    /// Writes the configuration for Understudy to the stage's directory, which only its owner may enter.
    fn config(&self) -> anyhow::Result<PathBuf> {
        let mut text = "[cluster]\nname = \"recovery\"\n".to_owned();
        for node in self.stage.nodes() {
            text += &format!(
                "[[cluster.node]]\nname = {}\naddress = {}\n",
                json!(node.name),
                json!(node.address.to_string())
            );
        }
        text += &format!(
            "[cluster.monitor]\nuser = {}\npassword = {}\n",
            json!(MONITOR_USER),
            json!(MONITOR_PASSWORD)
        );
        let file = self.stage.directory().join("understudy.toml");
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

/// rsync's server drops root's privileges unless an option prevents it, and Galera's script does not set that option: it expects a server
/// that does not run as root. So a server that runs as root gets this wrapper in place of rsync, only in its own mount namespace.
fn our_rsync(stage: &Stage) -> anyhow::Result<Option<(PathBuf, PathBuf)>> {
    if !stage.is_namespaced() {
        return Ok(None);
    }
    let theirs = crate::stage::tools::need("rsync", "rsync")?;
    let (ours, copy) = (stage.directory().join("rsync"), stage.directory().join("rsync.copy"));
    std::fs::copy(&theirs, &copy).with_context(|| format!("cannot copy {}", theirs.display()))?;
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *\" --daemon \"*) exec '{0}' --dparam=uid=0 --dparam=gid=0 \"$@\" ;; esac\nexec '{0}' \"$@\"\n",
        copy.display()
    );
    std::fs::write(&ours, text).with_context(|| format!("cannot write {}", ours.display()))?;
    std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(0o755))?;
    Ok(Some((ours, theirs)))
}
