//! The servers of the experiment: an active node and a standby, and the operations on them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};

use super::plan::WarmPlan;
use super::playback::{WARM_PASSWORD, WARM_USER};
use crate::fault::Fault;
use crate::load::session::Target;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use crate::stage::process::Identity;
use crate::stage::{ClusterKind, STOP_LIMIT, Stage, StageNode, StagePlan};
use crate::wait;

/// The active node.
pub const ACTIVE: &str = "db1";
/// The standby that is warmed.
pub const STANDBY: &str = "db2";
/// Time limit for a server that was just started to respond.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a statement that fills the table.
const FILL_LIMIT: Duration = Duration::from_secs(300);
/// Time limit for a replica to apply everything, s.
const APPLY_LIMIT_S: u32 = 300;

/// Disk reads, as InnoDB counts them since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Innodb_buffer_pool_reads: pages for which a statement had to wait.
    pub pool: u64,
    /// Innodb_data_reads: read operations for any purpose.
    pub data: u64,
}

impl Reads {
    /// The increase since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { pool: self.pool.saturating_sub(before.pool), data: self.data.saturating_sub(before.data) }
    }
}

/// A stage with the experiment's table.
pub struct Ground {
    /// The servers.
    pub stage: Stage,
    /// Why the page cache may hide disk reads; None if it cannot.
    pub page_cache: Option<String>,
}

impl Ground {
    /// Starts the servers and fills the table on both.
    pub async fn lay(plan: &WarmPlan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        let stage = Stage::up_telling(
            StagePlan {
                name: format!("warm{}", std::process::id()),
                kind: ClusterKind::Replication { semi_sync: false },
                nodes: 2,
                server_options: server_options(plan.pool_mb, plan.speed),
                ..StagePlan::default()
            },
            &tell,
        )
        .await?;
        let mut ground = Self { stage, page_cache: None };
        ground.page_cache = ground.page_cache_in_the_way()?;
        ground.set_standby_pool(plan.standby_pool_mb())?;
        tell(&format!("filling a table of {} MiB", plan.data_mb));
        ground.fill(plan).await?;
        Ok(ground)
    }

    /// Sets the size of the standby's buffer pool from its next start on, MiB; each way begins with a start.
    pub fn set_standby_pool(&self, pool_mb: u32) -> anyhow::Result<()> {
        let path = self.directory_of(self.stage.node(STANDBY)?)?.join("my.cnf");
        // The last setting in the file is used.
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| write!(file, "[mariadbd]\ninnodb-buffer-pool-size = {pool_mb}M\n"))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    async fn fill(&self, plan: &WarmPlan) -> anyhow::Result<()> {
        let run = async |sql: &str| self.stage.run_in_within(ACTIVE, sql, FILL_LIMIT).await.map(drop);
        run(&format!("CREATE USER {WARM_USER}@'%' IDENTIFIED BY '{WARM_PASSWORD}'")).await?;
        run(&format!("GRANT SELECT ON {APP_SCHEMA}.* TO {WARM_USER}@'%'")).await?;
        let statements = plan.shape().fill();
        for statement in statements {
            // Statement-based: replicas generate the rows themselves instead of receiving them.
            run(&format!("SET SESSION binlog_format = STATEMENT; USE {APP_SCHEMA}; {statement}")).await?;
        }
        self.applied().await
    }

    /// Waits until the standby has applied everything.
    pub async fn applied(&self) -> anyhow::Result<()> {
        let position = self.one(ACTIVE, "SELECT @@gtid_current_pos").await?;
        let wait = format!("SELECT MASTER_GTID_WAIT('{position}', {APPLY_LIMIT_S})");
        let within = Duration::from_secs(u64::from(APPLY_LIMIT_S) + 5);
        let answer = self.stage.run_in_within(STANDBY, &wait, within).await?;
        if answer.first().and_then(|row| row.first()).is_none_or(|result| result != "0") {
            bail!("{STANDBY} has not applied what {ACTIVE} wrote after {APPLY_LIMIT_S} s");
        }
        Ok(())
    }

    /// Restarts the standby: its buffer pool is empty, and it does not replicate.
    pub async fn make_cold(&self) -> anyhow::Result<()> {
        self.stage.run_in(STANDBY, "STOP SLAVE").await?;
        self.restart(STANDBY).await
    }

    /// Restarts the active node: its buffer pool is empty. No server may replicate from it meanwhile.
    pub async fn make_active_cold(&self) -> anyhow::Result<()> {
        self.restart(ACTIVE).await?;
        // A server of such a stage starts read only.
        self.stage.run_in(ACTIVE, "SET GLOBAL read_only = OFF").await.map(drop)
    }

    /// Uses a shutdown that completes the purge first. Purge reads each row that was written, to reset its transaction ID (MariaDB from
    /// 10.3 on); otherwise it would continue after the start, with disk reads that no measured statement has caused.
    async fn restart(&self, name: &str) -> anyhow::Result<()> {
        self.stage.run_in(name, "SET GLOBAL innodb_fast_shutdown = 0").await?;
        self.stage.fault(name, Fault::Stop).await?;
        self.stage.wait_gone(name, STOP_LIMIT).await?;
        self.stage.start(name).await?;
        let asked = async || self.stage.run_in(name, "SELECT 1").await;
        let answered = wait::retried(START_LIMIT, Duration::from_millis(20), asked).await;
        answered.map(drop).with_context(|| format!("{name} was restarted and does not answer"))
    }

    /// The disk reads of a server since its start.
    pub async fn reads(&self, node: &str) -> anyhow::Result<Reads> {
        let rows = self
            .stage
            .run_in(
                node,
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_reads', 'Innodb_data_reads')",
            )
            .await?;
        let value = |name: &str| {
            let row =
                rows.iter().find(|row| row.first().is_some_and(|found| found.eq_ignore_ascii_case(name)));
            row.and_then(|row| row.get(1)?.parse().ok())
                .with_context(|| format!("{node} does not count {name}"))
        };
        Ok(Reads { pool: value("Innodb_buffer_pool_reads")?, data: value("Innodb_data_reads")? })
    }

    /// The single value of a statement's result.
    pub async fn one(&self, node: &str, sql: &str) -> anyhow::Result<String> {
        let rows = self.stage.run_in(node, sql).await?;
        rows.into_iter().flatten().next().with_context(|| format!("`{sql}` in {node} gave nothing"))
    }

    /// The process of a server.
    pub fn process(&self, node: &str) -> anyhow::Result<Identity> {
        let process = self.stage.alive(self.stage.node(node)?)?;
        process.with_context(|| format!("{node} does not run"))
    }

    /// The application's target when no proxy is in front.
    pub fn active(&self) -> anyhow::Result<Target> {
        let address = self.stage.node(ACTIVE)?.address.to_string();
        Target::parse(&address, APP_USER, APP_PASSWORD, APP_SCHEMA)
    }

    /// The active node's slow log.
    pub fn slow_log(&self) -> anyhow::Result<PathBuf> {
        Ok(self.stage.node(ACTIVE)?.datadir.join("slow.log"))
    }

    fn directory_of(&self, node: &StageNode) -> anyhow::Result<PathBuf> {
        let directory = node.datadir.parent().context("a data directory lies in the node's own")?;
        Ok(directory.to_owned())
    }

    /// A server that cannot use O_DIRECT logs that when it opens its files.
    fn page_cache_in_the_way(&self) -> anyhow::Result<Option<String>> {
        let log = &self.stage.node(STANDBY)?.error_log;
        let text = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.lines().find(|line| line.contains("O_DIRECT") && !line.contains("[Note]")).map(str::to_owned))
    }
}

/// Makes a cold server really cold: no buffer pool is dumped or loaded, and files are read past the page cache. Each statement is logged.
///
/// InnoDB does not treat a page as hot until innodb_old_blocks_time after its first read (1 s by default). Here recorded traffic runs
/// `speed` times as fast as recorded, so this time is divided by `speed`.
fn server_options(pool_mb: u32, speed: f64) -> Vec<String> {
    vec![
        format!("innodb-old-blocks-time = {:.0}", 1000.0 / speed.max(1.0)),
        format!("innodb-buffer-pool-size = {pool_mb}M"),
        "innodb-buffer-pool-chunk-size = 1M".to_owned(),
        // Number of pages kept free. The default, 1536, is more than all pages of a pool of 16 MiB.
        "innodb-lru-scan-depth = 100".to_owned(),
        // Dump and load the whole pool, as on a standby without other work; the default is a quarter.
        "innodb-buffer-pool-dump-pct = 100".to_owned(),
        "innodb-buffer-pool-dump-at-shutdown = OFF".to_owned(),
        "innodb-buffer-pool-load-at-startup = OFF".to_owned(),
        "innodb-flush-method = O_DIRECT".to_owned(),
        "innodb-flush-log-at-trx-commit = 2".to_owned(),
        "innodb-log-file-size = 64M".to_owned(),
        "slow-query-log = ON".to_owned(),
        "slow-query-log-file = slow.log".to_owned(),
        "long-query-time = 0".to_owned(),
        "log-slow-slave-statements = OFF".to_owned(),
    ]
}
