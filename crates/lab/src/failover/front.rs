//! The proxy between the clients and the cluster while a cell is measured: Understudy, HAProxy, MHA, or an external one.
//!
//! Only one of them runs at a time: two managers on one cluster would affect each other's figures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use super::case::{Case, Scope, Writers};
use super::haproxy::{self, Asked, Runtime};
use super::mha::{self, Mha};
use super::result::Who;
use super::understudy::{Api, ConfigInputs, Knobs, Ordered};
use crate::figures::ms;
use crate::load::session::Target;
use crate::peer;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::process::{Owned, ProcessParent};
use crate::stage::{ClusterKind, Stage};
use crate::wait;

/// How long a proxy may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long HAProxy lets sessions finish before it cuts them.
const HAPROXY_GRACE: Duration = Duration::from_secs(2);
/// How soon HAProxy must follow a drain that Understudy's agent check reports.
const FOLLOW_WITHIN: Duration = Duration::from_secs(2);
/// Port of each node's own check; every node has its own IP address.
const CHECK_PORT: u16 = 9200;

/// How to control an external proxy.
#[derive(Clone, Debug, Default)]
pub struct External {
    /// `host:port`.
    pub address: String,
    /// Command run by `sh -c` with NODE and ADDRESS set, to take a node out gracefully.
    pub graceful: Option<String>,
    /// The same, to let the node take traffic again.
    pub restore: Option<String>,
}

enum ProxyKind {
    Understudy(Api),
    /// With the API of the Understudy that it follows, if any.
    Haproxy(Runtime, Option<Api>),
    /// MHA; its scripts control HAProxy.
    Mha(Box<Mha>),
    External(External),
}

/// A running proxy. Dropping it ends its processes, if the lab started them.
pub struct Front {
    /// The address for clients.
    pub target: Target,
    cluster: ClusterKind,
    nodes: Vec<(String, String)>,
    writers: Writers,
    kind: ProxyKind,
    /// Configuration of the Understudy that manages the cluster.
    config: Option<PathBuf>,
    logs: Vec<PathBuf>,
    // The order matters: the processes end before their process parent does.
    processes: Vec<Owned>,
    process_parent: ProcessParent,
}

impl Front {
    /// Starts Understudy on `nodes`, with its files in `dir`.
    pub async fn understudy(
        cluster: ClusterKind,
        nodes: &[(String, String)],
        writers: Writers,
        knobs: &Knobs,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let mysql = free_address()?;
        let (api, config, command) = serve(cluster, nodes, writers, &mysql, None, knobs, dir)?;
        let mut front = Self::of(cluster, &mysql.to_string(), nodes, writers, ProxyKind::Understudy(api))?;
        front.config = Some(config);
        front.run(&command, &dir.join("understudy.log"))?;
        front.wait_ready("Understudy").await?;
        Ok(front)
    }

    /// Starts HAProxy on the nodes of `stage` with one check beside each node, files in `dir`.
    pub async fn haproxy(stage: &Stage, writers: Writers, dir: &Path) -> anyhow::Result<Self> {
        let nodes = stage.nodes();
        let named: Vec<_> = nodes.iter().map(|node| (node.name.clone(), node.address.to_string())).collect();
        let asked = Asked::EachNode(CHECK_PORT);
        let mut front = Self::in_front(stage.kind(), &named, writers, asked, None, dir)?;
        for node in nodes {
            let listen = SocketAddr::new(node.address.ip(), CHECK_PORT);
            let mut check = stage.command_in(&node.name, &crate::program::understudy()?)?;
            check.args(["check", "--listen", &listen.to_string(), "--user", haproxy::CHECK_USER]);
            // The check must not read this machine's option files or its password.
            check.args(["--defaults-file", "/dev/null"]).env_remove("UNDERSTUDY_CHECK_PASSWORD");
            check.arg("--mysql-socket").arg(&node.socket).env("UNDERSTUDY_RUN_DIR", dir);
            front.run(&check, &dir.join(format!("check-{}.log", node.name)))?;
        }
        front.wait_ready("HAProxy").await?;
        Ok(front)
    }

    /// Starts HAProxy on `nodes`, following an Understudy beside it, files in `dir`.
    pub async fn haproxy_agent(
        cluster: ClusterKind,
        nodes: &[(String, String)],
        writers: Writers,
        knobs: &Knobs,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let (health, agent) = (free_address()?, free_address()?);
        let (api, config, command) =
            serve(cluster, nodes, writers, &free_address()?, Some((health, agent)), knobs, dir)?;
        let asked = match cluster {
            ClusterKind::Galera => Asked::Understudy { health, agent },
            ClusterKind::Replication { .. } => Asked::Primary(health),
        };
        let mut front = Self::in_front(cluster, nodes, writers, asked, Some(api), dir)?;
        front.config = Some(config);
        front.run(&command, &dir.join("understudy.log"))?;
        front.wait_ready("HAProxy").await?;
        Ok(front)
    }

    /// Starts MHA, and HAProxy, which MHA's scripts point at the master; files in `dir`.
    pub async fn mha(stage: &Stage, dir: &Path) -> anyhow::Result<Self> {
        let named: Vec<_> =
            stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect();
        let asked = Asked::Nobody(mha::primary(stage).await?);
        let mut front = Self::in_front(stage.kind(), &named, Writers::One, asked, None, dir)?;
        if let ProxyKind::Haproxy(runtime, None) = &front.kind {
            let mha = Mha::set(stage, dir, &runtime.socket)?;
            front.kind = ProxyKind::Mha(Box::new(mha));
        }
        front.logs.extend(["mha-manager.log", "mha-switch.log"].map(|log| dir.join(log)));
        front.wait_ready("HAProxy").await?;
        Ok(front)
    }

    /// Starts HAProxy.
    fn in_front(
        cluster: ClusterKind,
        nodes: &[(String, String)],
        writers: Writers,
        asked: Asked,
        follows: Option<Api>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let listen = free_address()?.to_string();
        let (socket, config) = (dir.join("haproxy.sock"), dir.join("haproxy.cfg"));
        std::fs::write(&config, haproxy::config(nodes, writers, &asked, &listen, &socket))
            .with_context(|| format!("cannot write {}", config.display()))?;
        let mut front =
            Self::of(cluster, &listen, nodes, writers, ProxyKind::Haproxy(Runtime { socket }, follows))?;
        let mut command = Command::new(peer::find("haproxy")?);
        command.args(["-db", "-f"]).arg(&config);
        front.run(&command, &dir.join("haproxy.log")).context("cannot start HAProxy")?;
        Ok(front)
    }

    /// An external proxy; whether it writes to one node or to all is determined by connecting to it.
    pub async fn external(
        cluster: ClusterKind,
        nodes: &[(String, String)],
        external: External,
    ) -> anyhow::Result<Self> {
        let address = external.address.clone();
        let mut front = Self::of(cluster, &address, nodes, Writers::One, ProxyKind::External(external))?;
        front.wait_ready(&address).await?;
        let mut seen = std::collections::BTreeSet::new();
        let mut open = Vec::new();
        for _ in 0..nodes.len() * 2 {
            let mut conn = Conn::new(front.target.opts()).await?;
            seen.insert(writing_node(cluster, &mut conn, nodes).await?);
            open.push(conn);
        }
        front.writers = if seen.len() > 1 { Writers::All } else { Writers::One };
        Ok(front)
    }

    fn of(
        cluster: ClusterKind,
        address: &str,
        nodes: &[(String, String)],
        writers: Writers,
        kind: ProxyKind,
    ) -> anyhow::Result<Self> {
        let target = Target::parse(address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
        Ok(Self {
            target,
            cluster,
            nodes: nodes.to_vec(),
            writers,
            kind,
            config: None,
            logs: Vec::new(),
            processes: Vec::new(),
            process_parent: ProcessParent::new()?,
        })
    }

    /// Starts a process, which ends when this value is dropped and when this program ends, however it ends.
    fn run(&mut self, command: &Command, log: &Path) -> anyhow::Result<()> {
        self.processes.push(self.process_parent.spawn(command, Some(log))?);
        self.logs.push(log.to_owned());
        Ok(())
    }

    /// Which proxy this is.
    pub fn who(&self) -> Who {
        match &self.kind {
            ProxyKind::Understudy(_) => Who::Understudy,
            ProxyKind::Haproxy(_, None) => Who::Haproxy,
            ProxyKind::Haproxy(_, Some(_)) => Who::HaproxyAgent,
            ProxyKind::Mha(..) => Who::Mha,
            ProxyKind::External(external) => Who::Through(external.address.clone()),
        }
    }

    /// How many nodes receive traffic.
    pub fn writers(&self) -> Writers {
        self.writers
    }

    /// The API of the Understudy that manages the cluster, even if it only serves HAProxy.
    pub fn api(&self) -> Option<&Api> {
        match &self.kind {
            ProxyKind::Understudy(api) | ProxyKind::Haproxy(_, Some(api)) => Some(api),
            ProxyKind::Haproxy(_, None) | ProxyKind::Mha(..) | ProxyKind::External(_) => None,
        }
    }

    /// Before a repetition: starts MHA's manager, except in the graceful case: there an operator moves the master, which MHA refuses while
    /// its manager runs.
    pub async fn begin(&self, case: Case) -> anyhow::Result<()> {
        match &self.kind {
            ProxyKind::Mha(mha) if case != Case::Graceful => mha.watch(&self.process_parent).await,
            _ => Ok(()),
        }
    }

    /// After the load, before the node is healed: waits for MHA's manager to end or terminates it.
    pub async fn end(&self, case: Case, scope: Scope) -> anyhow::Result<()> {
        match &self.kind {
            ProxyKind::Mha(mha) => mha.end(case != Case::Graceful && scope == Scope::Active).await,
            _ => Ok(()),
        }
    }

    /// Whether an operator must repair what it leaves after a failover.
    pub(super) fn leaves_the_rest(&self) -> bool {
        matches!(self.kind, ProxyKind::Mha(..))
    }

    /// The Understudy that manages the cluster, and its configuration.
    pub(super) fn decider(&self) -> Option<(&Api, &Path)> {
        self.api().zip(self.config.as_deref())
    }

    /// Waits until it reports the nodes it needs as up and a transaction through it succeeds.
    pub async fn wait_ready(&self, name: &str) -> anyhow::Result<()> {
        let ready = wait::retried(READY_WITHIN, Duration::from_millis(100), async || self.look().await).await;
        ready.map_err(|why| {
            anyhow!("{name} is not ready after {} s: {why:#}{}", READY_WITHIN.as_secs(), self.last_words())
        })
    }

    async fn look(&self) -> anyhow::Result<()> {
        if let Some(api) = self.api() {
            api.ready().await?;
        }
        match &self.kind {
            ProxyKind::Understudy(_) => {}
            ProxyKind::Haproxy(runtime, _) => {
                let servers = runtime.servers().await?;
                let is_up = |server: &haproxy::Server| server.status == "UP" && server.is_checked;
                let up = servers.iter().filter(|server| is_up(server)).count();
                let wanted = match self.cluster {
                    ClusterKind::Galera => servers.len(),
                    ClusterKind::Replication { .. } => 1,
                };
                if up != wanted {
                    let each = servers.iter().map(|server| {
                        let checked = if server.is_checked { "" } else { ", its check is not good" };
                        format!("{} as {}{checked}", server.name, server.status)
                    });
                    bail!("it has {}", each.collect::<Vec<_>>().join("; "));
                }
            }
            ProxyKind::Mha(..) | ProxyKind::External(_) => {}
        }
        self.active().await.map(drop)
    }

    /// The node that runs a transaction sent through the proxy, by the name that this node itself reports.
    pub async fn active(&self) -> anyhow::Result<String> {
        let ask = async {
            let mut conn = Conn::new(self.target.opts()).await?;
            let name = writing_node(self.cluster, &mut conn, &self.nodes).await?;
            conn.disconnect().await?;
            Ok(name)
        };
        tokio::time::timeout(Duration::from_secs(5), ask)
            .await
            .context("a transaction through it takes more than 5 s")?
    }

    /// The node that the fault of this scope hits in this repetition.
    pub async fn victim(&self, scope: Scope, repetition: u32) -> anyhow::Result<String> {
        let names: Vec<&String> = self.nodes.iter().map(|(name, _)| name).collect();
        if scope == Scope::All {
            return Ok(names[repetition as usize % names.len()].clone());
        }
        let active = self.active().await?;
        if scope == Scope::Active {
            return Ok(active);
        }
        let others: Vec<&String> = names.into_iter().filter(|name| **name != active).collect();
        let other = others.get(repetition as usize % others.len().max(1));
        other.map(|name| (*name).clone()).context("a passive node needs at least two nodes")
    }

    /// Why a graceful removal is not possible, if so.
    pub fn cannot_remove(&self) -> Option<String> {
        match &self.kind {
            ProxyKind::External(External { graceful: None, .. }) => {
                Some("no way to tell it (--graceful-command)".to_owned())
            }
            _ => None,
        }
    }

    /// Takes the traffic off `node`, as an operator of this proxy would before stopping it.
    pub async fn remove(&self, node: &str, scope: Scope) -> anyhow::Result<Ordered> {
        let began = Instant::now();
        match &self.kind {
            ProxyKind::Understudy(api) if scope == Scope::Active => api.switchover(None).await,
            ProxyKind::Understudy(api) => api.drain(node).await,
            ProxyKind::Haproxy(runtime, Some(api)) => {
                let (said, status) = match self.cluster {
                    ClusterKind::Galera => (api.drain(node).await?.message, "DRAIN"),
                    ClusterKind::Replication { .. } if scope == Scope::Active => {
                        (api.switchover(None).await?.message, "DOWN")
                    }
                    ClusterKind::Replication { .. } => (api.drain(node).await?.message, "DOWN"),
                };
                runtime.follows(node, status, FOLLOW_WITHIN).await?;
                let cut = runtime.empty(node, HAPROXY_GRACE).await?;
                let message = format!("{said}; HAProxy followed, then {cut} sessions cut");
                Ok(Ordered { took_ms: ms(began.elapsed()), message })
            }
            ProxyKind::Mha(mha) if scope == Scope::Active => mha.switch(node).await,
            ProxyKind::Mha(..) => Ok(Ordered { took_ms: 0.0, message: "it takes no traffic".to_owned() }),
            ProxyKind::Haproxy(runtime, None) => {
                let cut = runtime.take_out(node, HAPROXY_GRACE).await?;
                let message = format!("drain, then {cut} sessions cut, then maint");
                Ok(Ordered { took_ms: ms(began.elapsed()), message })
            }
            ProxyKind::External(external) => {
                let command = external.graceful.as_deref().unwrap_or_default();
                self.shell(command, node).await?;
                Ok(Ordered { took_ms: ms(began.elapsed()), message: command.to_owned() })
            }
        }
    }

    /// Lets `node` take traffic again, after it was healed.
    pub async fn restore(&self, node: &str) -> anyhow::Result<()> {
        match &self.kind {
            ProxyKind::Understudy(api) | ProxyKind::Haproxy(_, Some(api)) => {
                api.undrain(node).await.map(drop)
            }
            ProxyKind::Haproxy(runtime, None) => runtime.take_in(node).await,
            ProxyKind::External(External { restore: Some(command), .. }) => self.shell(command, node).await,
            ProxyKind::Mha(..) | ProxyKind::External(_) => Ok(()),
        }
    }

    async fn shell(&self, command: &str, node: &str) -> anyhow::Result<()> {
        let address =
            self.nodes.iter().find(|(name, _)| name == node).map_or("", |(_, address)| address.as_str());
        let run = tokio::process::Command::new("sh")
            .args(["-c", command])
            .env("NODE", node)
            .env("ADDRESS", address)
            .kill_on_drop(true)
            .status();
        let status =
            tokio::time::timeout(Duration::from_secs(60), run).await.context("took more than 60 s")??;
        if !status.success() {
            bail!("the command {command:?} ended with {status}");
        }
        Ok(())
    }

    /// The last log lines of its processes, for an error message.
    pub fn last_words(&self) -> String {
        self.logs.iter().map(|log| last_lines(log)).collect()
    }

    /// Fails when one of its processes has exited by itself.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.try_wait()? {
                bail!("the proxy, or a check, ended by itself ({status}){}", self.last_words());
            }
        }
        Ok(())
    }
}

/// Queries inside a transaction, so that a proxy that splits reads from writes uses its writer.
async fn writing_node(
    cluster: ClusterKind,
    conn: &mut Conn,
    nodes: &[(String, String)],
) -> anyhow::Result<String> {
    conn.query_drop("BEGIN").await?;
    let name: Option<String> = conn.query_first(cluster.own_name()).await?;
    conn.query_drop("ROLLBACK").await?;
    let name = name.unwrap_or_default();
    if nodes.iter().all(|(known, _)| *known != name) {
        bail!("the transaction landed on a node that calls itself {name:?}, which is none of this stage's");
    }
    Ok(name)
}

/// Writes the files of an `understudy serve`; returns its API, its configuration, and the command that starts it.
fn serve(
    kind: ClusterKind,
    nodes: &[(String, String)],
    writers: Writers,
    mysql: &SocketAddr,
    health: Option<(SocketAddr, SocketAddr)>,
    knobs: &Knobs,
    dir: &Path,
) -> anyhow::Result<(Api, PathBuf, Command)> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let (mysql, http) = (mysql.to_string(), free_address()?.to_string());
    let place = ConfigInputs {
        kind,
        nodes,
        writers,
        mysql: &mysql,
        http: &http,
        health,
        dir,
        monitor_user: MONITOR_USER,
    };
    let (config, key) = place.write(knobs, MONITOR_PASSWORD)?;
    let mut command = Command::new(crate::program::understudy()?);
    command.args(["serve", "--config"]).arg(&config).env("UNDERSTUDY_RUN_DIR", dir);
    Ok((Api { address: http, key }, config, command))
}

/// A loopback address whose port was free a moment ago.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
    let name = log.file_name().unwrap_or_default().display();
    if last.is_empty() { String::new() } else { format!("\nlast words in {name}:\n  {last}") }
}
