//! Starts Galera nodes: bootstraps the first, lets the others join, and starts a stopped one in its existing group.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use super::super::process::{self, ProcessParent};
use super::super::servers::START_LIMIT;
use super::super::state::{Stage, StageNode};
use super::super::tools;
use super::super::wait::error_log_tail;
use super::grastate;

/// The address of the one-node cluster while a template is created; its SQL port is never opened.
const WORKSHOP: &str = "127.77.255.254:4567";

/// my.cnf lines for the server that creates a template.
///
/// # Errors
/// When Galera is not installed.
pub fn template_lines(tools: &tools::Tools) -> anyhow::Result<Vec<String>> {
    Ok(vec![
        "binlog-format = ROW".to_owned(),
        "innodb-autoinc-lock-mode = 2".to_owned(),
        "wsrep-on = ON".to_owned(),
        format!("wsrep-provider = {}", tools.galera()?.provider.display()),
        "wsrep-cluster-address = gcomm://".to_owned(),
        format!("wsrep-node-address = {WORKSHOP}"),
        format!("wsrep-provider-options = \"gcache.size=1M; gmcast.listen_addr=tcp://{WORKSHOP}\""),
    ])
}

/// A copy of the template joins by an incremental transfer, which needs a position.
pub fn finish_template(data: &Path) -> anyhow::Result<()> {
    if grastate::seqno(data)?.is_none() {
        let log = data.with_file_name("error.log");
        bail!("the server left no Galera position behind:\n{}", error_log_tail(&log));
    }
    for leftover in ["galera.cache", "gvwstate.dat"] {
        let _ = fs::remove_file(data.join(leftover));
    }
    Ok(())
}

impl Stage {
    pub(in super::super) async fn begin_galera(&self, tell: &impl Fn(&str)) -> anyhow::Result<()> {
        for node in &self.nodes {
            tell(&format!("starting {}", node.name));
            self.launch_galera(node, node.number == 1, None)?;
            self.wait_synced(&node.name, START_LIMIT).await?;
            self.check_reachable(node).await?;
        }
        Ok(())
    }

    /// Starts a node that is not running. It joins the others; when none of them runs it bootstraps the cluster, unless another
    /// node has more writesets. Returns when the process has started: call [`Stage::wait_synced`] next.
    pub(in super::super) async fn start_in_group(&self, node: &StageNode) -> anyhow::Result<Instant> {
        let name = &node.name;
        let mut others_alive = false;
        for other in self.nodes.iter().filter(|other| other.number != node.number) {
            others_alive |= self.alive(other)?.is_some();
        }
        // Whoever removes the file wants a full copy.
        if others_alive && !grastate::is_there(&node.datadir) {
            return self.launch_galera(node, false, None);
        }
        let position = self.position(node).await?;
        if !others_alive {
            let others = self.nodes.iter().filter(|other| other.number != node.number);
            for other in others.filter(|other| grastate::is_there(&other.datadir)) {
                let ahead = self.position(other).await?.seqno - position.seqno;
                if ahead > 0 {
                    bail!(
                        "{name} cannot begin the cluster anew: {} knows {ahead} write sets more, start it first",
                        other.name
                    );
                }
            }
            grastate::allow_bootstrap(&node.datadir)?;
        }
        self.launch_galera(node, !others_alive, Some(&position))
    }

    /// Starts a stopped node as a cluster of its own, whether the others run or not, as somebody does who does not know of them.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn bootstrap_alone(&self, name: &str) -> anyhow::Result<()> {
        let node = self.node(name)?;
        let position = self.position(node).await?;
        grastate::allow_bootstrap(&node.datadir)?;
        self.launch_galera(node, true, Some(&position)).map(drop)
    }

    fn launch_galera(
        &self,
        node: &StageNode,
        first: bool,
        from: Option<&grastate::Position>,
    ) -> anyhow::Result<Instant> {
        let mut arguments: Vec<String> = Vec::new();
        arguments.extend(from.map(|position| format!("--wsrep-start-position={position}")));
        arguments.extend(first.then(|| "--wsrep-new-cluster".to_owned()));
        self.launch(node, &arguments)
    }

    /// The position of a stopped node; for a crashed one it is recovered with `--wsrep-recover`, as the packages' own start scripts do.
    async fn position(&self, node: &StageNode) -> anyhow::Result<grastate::Position> {
        if let Some(position) = grastate::position(&node.datadir)? {
            return Ok(position);
        }
        let log = node.directory.join("recover.log");
        let _ = fs::remove_file(&log);
        let mut command = Command::new(&self.tools.server);
        self.tools.prepare(&mut command);
        command
            .arg(format!("--defaults-file={}", node.directory.join("my.cnf").display()))
            .args(["--wsrep-recover", "--skip-networking"])
            .arg(format!("--log-error={}", log.display()))
            .env(process::MARK, &self.directory);
        // Owned even in a stage that is kept: no other process would wait for it.
        let process_parent = ProcessParent::new()?;
        let mut recovery = process_parent.spawn(&command, None)?;
        tokio::time::timeout(START_LIMIT, recovery.ended())
            .await
            .with_context(|| format!("{}: recovery of its position did not end", node.name))?
            .with_context(|| format!("cannot wait for {}", self.tools.server.display()))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        grastate::recovered(&text).with_context(|| format!("{} cannot say where it stands", node.name))
    }
}
