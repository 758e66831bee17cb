//! Sessions that the lab opens to block commits on a node, each in a client process that ends after a time limit or with the stage.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::wait::PACE;
use super::{ClusterKind, Stage, StageNode, process, tools};
use crate::wait;

/// Marks these sessions in their SQL comments.
const MARK: &str = "understudy lab fault";
/// Their time limit, s.
const LIFE_S: u32 = 600;
/// Limit for taking or releasing a lock.
const LIMIT: Duration = Duration::from_secs(30);

impl Stage {
    /// Lets a session take FLUSH TABLES WITH READ LOCK; returns when it has it.
    pub(crate) async fn lock_writes(&self, node: &StageNode) -> anyhow::Result<Instant> {
        self.hold(node, &format!("FLUSH TABLES WITH READ LOCK; SELECT SLEEP({LIFE_S}) /* {MARK} */"))?;
        self.until(node, "COMMAND = 'Query' AND INFO LIKE 'SELECT SLEEP%'").await
    }

    /// Lets an ALTER wait for a table that a session has locked. In Galera everything ordered after it waits behind it on that node.
    pub(crate) async fn stick_ddl(&self, node: &StageNode) -> anyhow::Result<Instant> {
        if self.kind() != ClusterKind::Galera {
            bail!(
                "stuck-ddl is for Galera: elsewhere an ALTER that waits for a table keeps nobody from committing"
            );
        }
        let tables = "CREATE OR REPLACE TABLE sbtest.lab_stuck (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100)); \
                      CREATE OR REPLACE TABLE sbtest.lab_stuck_part (id INT PRIMARY KEY)";
        for statement in tables.split("; ") {
            self.run_in(&node.name, statement).await?;
        }
        self.hold(node, &format!("LOCK TABLES sbtest.lab_stuck READ; SELECT SLEEP({LIFE_S}) /* {MARK} */"))?;
        self.until(node, "COMMAND = 'Query' AND INFO LIKE 'SELECT SLEEP%'").await?;
        let alter = "ALTER TABLE sbtest.lab_stuck EXCHANGE PARTITION p0 WITH TABLE sbtest.lab_stuck_part";
        self.hold(node, &format!("{alter} /* {MARK} */"))?;
        self.until(node, "STATE LIKE 'Waiting for table metadata lock' AND INFO LIKE 'ALTER%'").await
    }

    /// Ends these sessions: those that hold locks first.
    pub(crate) async fn end_locks(&self, node: &StageNode) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let query = format!(
                "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{MARK} */%' AND ID <> CONNECTION_ID() ORDER BY INFO LIKE 'SELECT%' DESC"
            );
            // If the node does not respond to this query, it counts as having no such sessions.
            let Ok(sessions) = self.run_in(&node.name, &query).await else { return Ok(()) };
            let Some(id) = sessions.first().and_then(|row| row.first()) else { return Ok(()) };
            // The session may have ended by itself.
            let _ = self.run_in(&node.name, &format!("KILL {id}")).await;
            if begun.elapsed() > LIMIT {
                bail!("a session of the lab's that holds a lock on {} does not end", node.name);
            }
            tokio::time::sleep(PACE).await;
        }
    }

    fn hold(&self, node: &StageNode, sql: &str) -> anyhow::Result<()> {
        let client = match self.tools.usr {
            Some(_) => self.tools.client.clone(),
            None => tools::need("mariadb", "mariadb-client")?,
        };
        let mut command = std::process::Command::new(client);
        // The sessions are identified by their comments.
        command
            .args(["--no-defaults", "--comments", "-u", "root", "-S"])
            .arg(&node.socket)
            .arg("-e")
            .arg(sql);
        command.env(process::MARK, &self.directory);
        process::spawn_detached(&command, Some(&node.directory.join(super::wait::OUTPUT_LOG))).map(drop)
    }

    /// Waits until one of these sessions is in the required state.
    async fn until(&self, node: &StageNode, what: &str) -> anyhow::Result<Instant> {
        let query = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{MARK} */%' AND ID <> CONNECTION_ID() AND {what}"
        );
        let is_so = async || Ok(!self.run_in(&node.name, &query).await?.is_empty());
        if !wait::holds(LIMIT, PACE, is_so).await? {
            let log = super::wait::error_log_tail(&node.directory.join(super::wait::OUTPUT_LOG));
            bail!("{} was not locked: {log}", node.name);
        }
        Ok(Instant::now())
    }
}
