//! Who stands between the clients and the cluster while a cell is measured: Understudy, HAProxy, or somebody else's proxy.
//!
//! Only one of them lives at a time: two managers on one cluster would taint each other's figures.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use super::case::{Scope, Writers};
use super::clustercheck::Responder;
use super::haproxy::{self, Runtime};
use super::result::Who;
use super::understudy::{Api, Knobs, Ordered, Place, program};
use crate::figures::ms;
use crate::load::session::Target;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::process::{Keeper, Owned};

/// How long a proxy may take until it serves.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What HAProxy gives sessions to leave before they are cut.
const HAPROXY_GRACE: Duration = Duration::from_secs(2);

/// How to order somebody else's proxy about.
#[derive(Clone, Debug, Default)]
pub struct External {
    /// `host:port`.
    pub address: String,
    /// Run by `sh -c` with NODE and ADDRESS set, to take a node out gracefully.
    pub graceful: Option<String>,
    /// The same, to let it take traffic again.
    pub restore: Option<String>,
}

enum Kind {
    Understudy(Api),
    Haproxy(Runtime),
    External(External),
}

/// A proxy that serves. Dropping it ends its process, if it is ours.
pub struct Front {
    /// Where clients go.
    pub target: Target,
    nodes: Vec<(String, String)>,
    writers: Writers,
    kind: Kind,
    log: Option<PathBuf>,
    // What HAProxy's checks ask; they answer as long as it lives.
    checks: Vec<Responder>,
    // In this order: the process ends before its keeper does.
    process: Option<Owned>,
    keeper: Option<Keeper>,
}

impl Front {
    /// Understudy on `nodes`, its files in `dir`.
    pub async fn understudy(
        nodes: &[(String, String)],
        writers: Writers,
        knobs: &Knobs,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let (mysql, http) = (free_address()?, free_address()?);
        let place = Place { nodes, writers, mysql: &mysql, http: &http, dir, monitor_user: MONITOR_USER };
        let (config, key) = place.write(knobs, MONITOR_PASSWORD)?;
        let log = dir.join("understudy.log");
        let args = ["serve".to_owned(), "--config".into(), config.display().to_string()];
        let kind = Kind::Understudy(Api { address: http, key });
        let front = Self::of(&mysql, nodes, writers, kind)?.with_process(&program()?, &args, log)?;
        front.wait_ready("Understudy").await?;
        Ok(front)
    }

    /// HAProxy on `nodes`, its files in `dir`.
    pub async fn haproxy(nodes: &[(String, String)], writers: Writers, dir: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let listen = free_address()?;
        let socket = dir.join("haproxy.sock");
        let config = dir.join("haproxy.cfg");
        let (mut checks, mut checked) = (Vec::new(), Vec::new());
        for (name, address) in nodes {
            let check = Responder::start(Target::parse(address, haproxy::CHECK_USER, "", "")?).await?;
            checked.push((name.clone(), address.clone(), check.port));
            checks.push(check);
        }
        std::fs::write(&config, haproxy::config(&checked, writers, &listen, &socket))
            .with_context(|| format!("cannot write {}", config.display()))?;
        let log = dir.join("haproxy.log");
        let args = ["-db".to_owned(), "-f".into(), config.display().to_string()];
        let mut front = Self::of(&listen, nodes, writers, Kind::Haproxy(Runtime { socket }))?
            .with_process(Path::new("haproxy"), &args, log)
            .context("cannot start HAProxy: is the package haproxy installed?")?;
        front.checks = checks;
        front.wait_ready("HAProxy").await?;
        Ok(front)
    }

    /// Somebody else's proxy; whether it writes to one node or to all is found out by looking.
    pub async fn external(nodes: &[(String, String)], external: External) -> anyhow::Result<Self> {
        let address = external.address.clone();
        let mut front = Self::of(&address, nodes, Writers::One, Kind::External(external))?;
        front.wait_ready(&address).await?;
        let mut seen = std::collections::BTreeSet::new();
        let mut open = Vec::new();
        for _ in 0..nodes.len() * 2 {
            let mut conn = Conn::new(front.target.opts()).await?;
            seen.insert(writing_node(&mut conn, nodes).await?);
            open.push(conn);
        }
        front.writers = if seen.len() > 1 { Writers::All } else { Writers::One };
        Ok(front)
    }

    fn of(address: &str, nodes: &[(String, String)], writers: Writers, kind: Kind) -> anyhow::Result<Self> {
        let target = Target::parse(address, APP_USER, APP_PASSWORD, APP_SCHEMA)?;
        Ok(Self {
            target,
            nodes: nodes.to_vec(),
            writers,
            kind,
            log: None,
            checks: Vec::new(),
            process: None,
            keeper: None,
        })
    }

    /// The proxy's own process: it ends with this value, and with this program however that ends.
    fn with_process(mut self, program: &Path, args: &[String], log: PathBuf) -> anyhow::Result<Self> {
        let keeper = Keeper::new()?;
        let mut command = std::process::Command::new(program);
        command.args(args);
        self.process = Some(keeper.spawn(&command, Some(&log))?);
        (self.keeper, self.log) = (Some(keeper), Some(log));
        Ok(self)
    }

    /// Which one it is.
    pub fn who(&self) -> Who {
        match &self.kind {
            Kind::Understudy(_) => Who::Understudy,
            Kind::Haproxy(_) => Who::Haproxy,
            Kind::External(external) => Who::Through(external.address.clone()),
        }
    }

    /// How many nodes it gives traffic to.
    pub fn writers(&self) -> Writers {
        self.writers
    }

    /// Understudy's API.
    pub fn api(&self) -> Option<&Api> {
        match &self.kind {
            Kind::Understudy(api) => Some(api),
            Kind::Haproxy(_) | Kind::External(_) => None,
        }
    }

    /// Waits until it counts all nodes in and a transaction goes through it.
    pub async fn wait_ready(&self, name: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let why = match self.look().await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            if Instant::now() >= deadline {
                let log = self.log.as_deref().map(last_lines).unwrap_or_default();
                bail!("{name} is not ready after {} s: {why:#}{log}", READY_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn look(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Understudy(api) => api.ready().await?,
            Kind::Haproxy(runtime) => {
                for (name, status, _) in runtime.servers().await? {
                    if status != "UP" {
                        bail!("it has {name} as {status}");
                    }
                }
            }
            Kind::External(_) => {}
        }
        self.active().await.map(drop)
    }

    /// The node that a transaction through it lands on, by that node's own word.
    pub async fn active(&self) -> anyhow::Result<String> {
        let ask = async {
            let mut conn = Conn::new(self.target.opts()).await?;
            let name = writing_node(&mut conn, &self.nodes).await?;
            conn.disconnect().await?;
            Ok(name)
        };
        tokio::time::timeout(Duration::from_secs(5), ask)
            .await
            .context("a transaction through it takes more than 5 s")?
    }

    /// The node a fault of this scope is to hit in this repetition.
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

    /// Why a graceful removal cannot be ordered, if so.
    pub fn cannot_remove(&self) -> Option<String> {
        match &self.kind {
            Kind::External(External { graceful: None, .. }) => {
                Some("no way to tell it (--graceful-command)".to_owned())
            }
            _ => None,
        }
    }

    /// Takes the traffic off `node`, as an operator of this proxy would before stopping it.
    pub async fn remove(&self, node: &str, scope: Scope) -> anyhow::Result<Ordered> {
        let began = Instant::now();
        match &self.kind {
            Kind::Understudy(api) if scope == Scope::Active => api.switchover(None).await,
            Kind::Understudy(api) => api.drain(node).await,
            Kind::Haproxy(runtime) => {
                let cut = runtime.take_out(node, HAPROXY_GRACE).await?;
                let message = format!("drain, then {cut} sessions cut, then maint");
                Ok(Ordered { took_ms: ms(began.elapsed()), message })
            }
            Kind::External(external) => {
                let command = external.graceful.as_deref().unwrap_or_default();
                self.shell(command, node).await?;
                Ok(Ordered { took_ms: ms(began.elapsed()), message: command.to_owned() })
            }
        }
    }

    /// Lets `node` take traffic again, after it was healed.
    pub async fn restore(&self, node: &str) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Understudy(api) => api.undrain(node).await.map(drop),
            Kind::Haproxy(runtime) => runtime.take_in(node).await,
            Kind::External(External { restore: Some(command), .. }) => self.shell(command, node).await,
            Kind::External(_) => Ok(()),
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

    /// Its last words, for an error.
    pub fn last_words(&self) -> String {
        self.log.as_deref().map(last_lines).unwrap_or_default()
    }

    /// An error when its process, if it is ours, has ended by itself.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        let ended = match &mut self.process {
            Some(process) => process.try_wait()?,
            None => None,
        };
        match ended {
            Some(status) => bail!("the proxy ended by itself ({status}){}", self.last_words()),
            None => Ok(()),
        }
    }
}

/// Asks inside a transaction, so that a proxy that splits reads from writes answers for its writer.
async fn writing_node(conn: &mut Conn, nodes: &[(String, String)]) -> anyhow::Result<String> {
    conn.query_drop("BEGIN").await?;
    let name: Option<String> = conn.query_first("SELECT @@wsrep_node_name").await?;
    conn.query_drop("ROLLBACK").await?;
    let name = name.unwrap_or_default();
    if nodes.iter().all(|(known, _)| *known != name) {
        bail!("the transaction landed on a node that calls itself {name:?}, which is none of this stage's");
    }
    Ok(name)
}

/// A port that was free a moment ago, on loopback.
fn free_address() -> anyhow::Result<String> {
    let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).context("no free port")?;
    Ok(listener.local_addr()?.to_string())
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
    if last.is_empty() { String::new() } else { format!("\nits last words:\n  {last}") }
}
