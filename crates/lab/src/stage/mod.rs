//! The stage: a real Galera cluster on this machine, started, watched and cleared away.
//!
//! ```text
//!   StagePlan --up--> directory + lock --> network --> copies of the template --> db1 alone --> db2 --> db3 --> Synced
//!                            |                                                                            |
//!                       stage.json  <---- attach (another process: fault, status, down)                 down / Drop
//! ```
//!
//! Invariants: a stage that is not kept leaves no process, namespace, device or file, however its owner ends (its servers die
//! with it even by SIGKILL; the rest is swept up by the next `up` or `down --all`). What is ended is ended by process identity
//! ([`process::Identity`]), never by name. stage.json is the truth about processes: two processes may work on one stage.

pub mod account;
mod config;
mod grastate;
mod guard;
mod network;
mod place;
pub mod process;
mod report;
mod sql;
mod sweep;
mod template;
pub(crate) mod tools;
mod watchdog;

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

pub use config::{ADVISED_EVS, SMALL_MACHINE};
pub use guard::{Interrupted, guard};
pub(crate) use report::word;
pub use report::{NodeReport, Word};
pub use sweep::{down, down_all};

use self::network::Network;
use self::place::{NodeRecord, Record};
use self::process::{Identity, Keeper, Owned};
use self::tools::Tools;
use self::watchdog::Watchdog;

/// How long a node may take to start and be Synced.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Between two looks at a condition.
const PACE: Duration = Duration::from_millis(20);
/// How long an answer may take from a node that should be well.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Where the nodes are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Namespaces when this process may make them, loopback addresses otherwise.
    #[default]
    Automatic,
    /// Loopback addresses: all that an ordinary user can have. `vanish` is impossible there.
    Loopback,
}

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// 1 to 20 of `a-z`, `0-9`, `-`.
    pub name: String,
    /// 1 to 5.
    pub nodes: u8,
    /// Galera provider options, `;` between them, beside our own `gcache.size=64M`.
    pub galera_options: String,
    /// Lines of `[mariadbd]`.
    pub server_options: Vec<String>,
    /// Nodes survive this process, until `lab down`.
    pub keep: bool,
    /// Namespaces or loopback.
    pub form: Form,
}

impl Default for StagePlan {
    fn default() -> Self {
        Self {
            name: "lab".to_owned(),
            nodes: 3,
            galera_options: String::new(),
            server_options: Vec::new(),
            keep: false,
            form: Form::Automatic,
        }
    }
}

/// A node, as far as it does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageNode {
    /// `db1`, `db2`, ...
    pub name: String,
    /// Where it speaks SQL.
    pub address: SocketAddr,
    /// Its network namespace; none on loopback.
    pub namespace: Option<String>,
    /// The server's data.
    pub datadir: PathBuf,
    /// Its unix socket, reachable even when its network is not.
    pub socket: PathBuf,
    /// Its log.
    pub error_log: PathBuf,
    number: u8,
    directory: PathBuf,
}

/// A running cluster.
#[derive(Debug)]
pub struct Stage {
    name: String,
    directory: PathBuf,
    network: Network,
    nodes: Vec<StageNode>,
    tools: Tools,
    /// Ours alone: the parent of the servers, absent when they are to outlive us.
    keeper: Option<Keeper>,
    /// With the keeper: ends what the servers started, should this process be killed.
    watchdog: Option<Watchdog>,
    /// Servers we are parent of, by node.
    children: Mutex<Vec<(u8, Child)>>,
    /// Drop clears the stage away.
    clear_on_drop: bool,
}

#[derive(Debug)]
enum Child {
    Owned(Owned),
    Detached(std::process::Child),
}

impl Stage {
    /// Starts a cluster; all nodes are Synced and reachable when it returns.
    pub async fn up(plan: StagePlan) -> anyhow::Result<Self> {
        Self::up_telling(plan, |_| ()).await
    }

    /// The same, with one line told for each step.
    ///
    /// # Errors
    /// A missing package, a name in use, or a node that did not start (with the end of its log). Nothing is left behind.
    pub async fn up_telling(plan: StagePlan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        place::check_name(&plan.name)?;
        if !(1..=5).contains(&plan.nodes) {
            bail!("a stage has 1 to 5 nodes, not {}", plan.nodes);
        }
        let namespaced = plan.form == Form::Automatic && network::may_make_namespaces();
        let tools = Tools::find(namespaced)?;
        sweep::leftovers()?;
        let template = template::ready(&tools, &tell).await?;

        let mut stage = Self::claim(&plan, namespaced, tools)?;
        tell("laying the network and the data directories");
        stage.network.make().context("cannot lay the stage's network")?;
        stage.furnish(&plan, &template)?;
        for node in &stage.nodes {
            tell(&format!("starting {}", node.name));
            stage.launch(node, node.number == 1, None)?;
            stage.wait_synced(&node.name, START_LIMIT).await?;
            tokio::net::TcpStream::connect(node.address)
                .await
                .with_context(|| format!("{} is up but cannot be reached at {}", node.name, node.address))?;
        }
        if plan.keep {
            place::update(&stage.directory, |record| record.kept = true)?;
            stage.clear_on_drop = false;
        }
        Ok(stage)
    }

    /// Takes hold of a stage that another process started. Dropping this value leaves it as it is.
    ///
    /// # Errors
    /// When there is none of that name: the text lists those there are.
    pub fn attach(name: &str) -> anyhow::Result<Self> {
        place::check_name(name)?;
        let root = place::root()?;
        let directory = root.join(name);
        let Ok(record) = place::read(&directory) else {
            let names: Vec<String> =
                place::stages(&root)?.into_iter().filter_map(|(_, record)| Some(record?.name)).collect();
            place::tidy_root()?;
            let known = if names.is_empty() {
                "none is up".to_owned()
            } else {
                format!("there is {}", names.join(", "))
            };
            bail!("no stage named {name}: {known}; `understudy lab up galera --name {name}` starts one");
        };
        let tools = Tools::find(record.namespaced)?;
        Ok(Self::assemble(directory, &record, tools, None, false))
    }

    /// Makes the directory, the record and with them the claim on a name and a subnet.
    fn claim(plan: &StagePlan, namespaced: bool, tools: Tools) -> anyhow::Result<Self> {
        let (root, _held) = place::lock_root()?;
        let mut taken = BTreeSet::new();
        for (path, record) in place::stages(&root)? {
            if path.ends_with(&plan.name) {
                bail!("a stage named {0} is up already: `understudy lab down --name {0}` ends it", plan.name);
            }
            taken.extend(record.map(|record| record.subnet));
        }
        let record = Record {
            name: plan.name.clone(),
            owner: Identity::own()?,
            kept: false,
            subnet: network::free_subnet(&taken, namespaced)?,
            namespaced,
            galera_options: plan.galera_options.clone(),
            server_options: plan.server_options.clone(),
            nodes: vec![NodeRecord::default(); usize::from(plan.nodes)],
        };
        let keeper = if plan.keep { None } else { Some(Keeper::new()?) };
        let directory = root.join(&plan.name);
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut stage = Self::assemble(directory, &record, tools, keeper, true);
        if !plan.keep {
            stage.watchdog = Some(Watchdog::start(&stage.directory)?);
        }
        let longest = stage.nodes.iter().map(|node| node.socket.as_os_str().len()).max();
        if longest.is_some_and(|length| length > 107) {
            bail!(
                "{} is too long a path for unix sockets: set TMPDIR to a shorter one",
                stage.directory.display()
            );
        }
        place::write(&stage.directory, &record)?;
        Ok(stage)
    }

    fn assemble(
        directory: PathBuf,
        record: &Record,
        tools: Tools,
        keeper: Option<Keeper>,
        clear_on_drop: bool,
    ) -> Self {
        let network = Network {
            stage: record.name.clone(),
            subnet: record.subnet,
            namespaced: record.namespaced,
            nodes: u8::try_from(record.nodes.len()).unwrap_or(u8::MAX),
        };
        let nodes = (1..=network.nodes)
            .map(|number| {
                let name = format!("db{number}");
                let directory = directory.join(&name);
                StageNode {
                    address: SocketAddr::new(network.address(number), 3306),
                    namespace: network.namespace(number),
                    datadir: directory.join("data"),
                    socket: directory.join("mysqld.sock"),
                    error_log: directory.join("error.log"),
                    number,
                    directory,
                    name,
                }
            })
            .collect();
        Self {
            name: record.name.clone(),
            directory,
            network,
            nodes,
            tools,
            keeper,
            watchdog: None,
            children: Mutex::default(),
            clear_on_drop,
        }
    }

    /// Fills the nodes' directories.
    fn furnish(&self, plan: &StagePlan, template: &Path) -> anyhow::Result<()> {
        let members: Vec<IpAddr> = self.nodes.iter().map(|node| node.address.ip()).collect();
        for node in &self.nodes {
            fs::create_dir_all(node.directory.join("tmp"))?;
            template::copy(template, &node.datadir)?;
            let text = config::Node {
                name: &node.name,
                stage: &self.name,
                address: node.address.ip(),
                members: &members,
                directory: &node.directory,
                namespaced: self.network.namespaced,
                galera_options: &plan.galera_options,
                server_options: &plan.server_options,
            }
            .text(&self.tools);
            fs::write(node.directory.join("my.cnf"), text)?;
        }
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its nodes, db1 first.
    pub fn nodes(&self) -> &[StageNode] {
        &self.nodes
    }

    /// One of them.
    ///
    /// # Errors
    /// The text lists those there are.
    pub fn node(&self, name: &str) -> anyhow::Result<&StageNode> {
        self.nodes.iter().find(|node| node.name == name).with_context(|| {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            format!("stage {} has no node {name}: there is {}", self.name, names.join(", "))
        })
    }

    /// This side's address on the stage's network: a proxy listens here.
    pub fn host_address(&self) -> IpAddr {
        self.network.host_address()
    }

    /// Namespaces, so that a node can vanish.
    pub fn is_namespaced(&self) -> bool {
        self.network.namespaced
    }

    /// The evidence of one node's process, as recorded.
    pub(crate) fn recorded(&self, node: &StageNode) -> anyhow::Result<NodeRecord> {
        let record = place::read(&self.directory)?;
        record
            .nodes
            .into_iter()
            .nth(index(node))
            .with_context(|| format!("{} is not in stage.json", node.name))
    }

    pub(crate) fn record(
        &self,
        node: &StageNode,
        change: impl FnOnce(&mut NodeRecord),
    ) -> anyhow::Result<()> {
        place::update(&self.directory, |record| {
            if let Some(entry) = record.nodes.get_mut(index(node)) {
                change(entry);
            }
        })
    }

    pub(crate) fn alive(&self, node: &StageNode) -> anyhow::Result<Option<Identity>> {
        self.reap(node);
        Ok(self.recorded(node)?.process.filter(|process| process.is_alive()))
    }

    /// Collects a child that has ended, so that its number is free.
    fn reap(&self, node: &StageNode) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain_mut(|(number, child)| {
            let running = match child {
                Child::Owned(child) => matches!(child.try_wait(), Ok(None)),
                Child::Detached(child) => matches!(child.try_wait(), Ok(None)),
            };
            *number != node.number || running
        });
    }

    /// Starts a node that is not running. It joins the others; when none of them runs it begins the cluster anew, if no other
    /// node knows more. Returns when the process has started: [`Stage::wait_synced`] is next.
    ///
    /// # Errors
    /// When it runs already, or when another dead node is ahead of it and must be first.
    pub async fn start(&self, name: &str) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        if let Some(process) = self.alive(node)? {
            bail!("{name} is running already, as process {}", process.pid);
        }
        let mut others_alive = false;
        for other in self.nodes.iter().filter(|other| other.number != node.number) {
            others_alive |= self.alive(other)?.is_some();
        }
        let position = self.position(node).await?;
        if !others_alive {
            for other in self.nodes.iter().filter(|other| other.number != node.number) {
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
        self.launch(node, !others_alive, Some(&position))
    }

    /// Where a stopped node stands; a crashed one is asked with `--wsrep-recover`, as the packages' own start scripts do.
    async fn position(&self, node: &StageNode) -> anyhow::Result<grastate::Position> {
        if let Some(position) = grastate::position(&node.datadir)? {
            return Ok(position);
        }
        let log = node.directory.join("recover.log");
        let _ = fs::remove_file(&log);
        let mut command = std::process::Command::new(&self.tools.mariadbd);
        command
            .arg(format!("--defaults-file={}", node.directory.join("my.cnf").display()))
            .args(["--wsrep-recover", "--skip-networking"])
            .arg(format!("--log-error={}", log.display()))
            .env(process::MARK, &self.directory);
        // Ours even in a stage that is kept: nobody else would wait for it.
        let keeper = Keeper::new()?;
        let mut recovery = keeper.spawn(&command, None)?;
        tokio::time::timeout(START_LIMIT, recovery.ended())
            .await
            .with_context(|| format!("{}: recovery of its position did not end", node.name))?
            .with_context(|| format!("cannot wait for {}", self.tools.mariadbd.display()))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        grastate::recovered(&text).with_context(|| format!("{} cannot say where it stands", node.name))
    }

    fn launch(
        &self,
        node: &StageNode,
        first: bool,
        from: Option<&grastate::Position>,
    ) -> anyhow::Result<Instant> {
        let mut command = self.network.command_in(node.number, &self.tools.mariadbd);
        command.arg(format!("--defaults-file={}", node.directory.join("my.cnf").display()));
        if let Some(position) = from {
            command.arg(format!("--wsrep-start-position={position}"));
        }
        if first {
            command.arg("--wsrep-new-cluster");
        }
        command.env(process::MARK, &self.directory);
        let log = node.directory.join("output.log");
        let (child, pid) = match &self.keeper {
            Some(keeper) => {
                let child = keeper.spawn(&command, Some(&log))?;
                let pid = child.id();
                (Child::Owned(child), pid)
            }
            None => {
                let child = process::spawn_detached(&command, Some(&log))?;
                let pid = child.id();
                (Child::Detached(child), pid)
            }
        };
        let started = Instant::now();
        // `ip netns exec` and `setpriv` become the server: the number stays. A child that is gone already has no identity, and
        // whoever waits for it will say what its log says.
        let process = Identity::of(pid);
        self.children.lock().unwrap_or_else(PoisonError::into_inner).push((node.number, child));
        self.record(node, |entry| *entry = NodeRecord { process, leaving: false, ..entry.clone() })?;
        Ok(started)
    }

    /// Sends a signal to a node's server; when it was sent.
    pub(crate) fn signal(
        &self,
        node: &StageNode,
        signal: rustix::process::Signal,
    ) -> anyhow::Result<Instant> {
        let sent = self.alive(node)?.map(|process| process.signal(signal)).transpose()?.flatten();
        sent.with_context(|| format!("{0} is not running: `heal` starts it", node.name))
    }

    /// Cuts a node off or connects it again; when that was done.
    pub(crate) fn set_link(&self, node: &StageNode, up: bool) -> anyhow::Result<Instant> {
        self.network.set_link(node.number, up)?;
        let done = Instant::now();
        self.record(node, |entry| entry.vanished = !up)?;
        Ok(done)
    }

    /// Cuts a node off in a way that it cannot see (its link stays up), or connects it again; when that was done.
    ///
    /// # Errors
    /// On loopback.
    pub fn set_plugged(&self, name: &str, plugged: bool) -> anyhow::Result<Instant> {
        self.network.set_plugged(self.node(name)?.number, plugged)?;
        Ok(Instant::now())
    }

    /// Gives every node and this side an IPv6 address, too. The servers do not learn of it: they listen where they did.
    ///
    /// # Errors
    /// On loopback, and where the kernel has no IPv6.
    pub fn add_ipv6(&self) -> anyhow::Result<()> {
        self.network.add_ipv6()
    }

    /// One IPv6 address of the network, by its last number.
    pub fn address_v6(&self, number: u8) -> Ipv6Addr {
        self.network.address_v6(number)
    }

    /// A command that runs `program` where a node is, marked as part of the stage: whatever it becomes ends with the stage.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn command_in(&self, name: &str, program: &Path) -> anyhow::Result<std::process::Command> {
        let mut command = self.network.command_in(self.node(name)?.number, program);
        command.env(process::MARK, &self.directory);
        Ok(command)
    }

    /// Its directory, which is removed with it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until a stop (or continue) signal has reached the process.
    pub(crate) async fn wait_frozen(&self, node: &StageNode, frozen: bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.alive(node)?.is_some_and(|process| process.is_frozen() != frozen) {
            if Instant::now() > deadline {
                bail!("{} does not react to the signal", node.name);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Waits until the node itself says that it is Synced and ready.
    ///
    /// # Errors
    /// When it dies or the time is over, with its last state and the end of its log.
    pub async fn wait_synced(&self, name: &str, within: Duration) -> anyhow::Result<()> {
        let node = self.node(name)?;
        let deadline = Instant::now() + within;
        loop {
            let word = report::word(node).await;
            if word.as_ref().is_ok_and(report::Word::is_synced) {
                return Ok(());
            }
            if self.alive(node)?.is_none() {
                bail!("{name} is not running. The end of its log:\n{}", error_log_tail(&node.error_log));
            }
            if Instant::now() > deadline {
                let last = word.map_or_else(|error| format!("{error:#}"), |word| word.to_string());
                let tail = error_log_tail(&node.error_log);
                bail!(
                    "{name} is not Synced after {:.0} s ({last}). The end of its log:\n{tail}",
                    within.as_secs_f64()
                );
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// Waits until the node's process has ended and its files are free.
    pub async fn wait_gone(&self, name: &str, within: Duration) -> anyhow::Result<()> {
        let node = self.node(name)?;
        let deadline = Instant::now() + within;
        while let Some(process) = self.alive(node)? {
            if Instant::now() > deadline {
                bail!("{name} (process {}) has not ended after {:.0} s", process.pid, within.as_secs_f64());
            }
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }

    /// Runs SQL in a node as root, over its unix socket: a vanished node answers too.
    pub async fn run_in(&self, name: &str, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
        sql::run(&self.node(name)?.socket, sql, ANSWER_LIMIT).await.with_context(|| format!("in {name}"))
    }

    /// How each node is.
    pub async fn report(&self) -> anyhow::Result<Vec<NodeReport>> {
        let mut reports = Vec::new();
        for node in &self.nodes {
            self.reap(node);
            reports.push(NodeReport::of(node, &self.recorded(node)?).await);
        }
        Ok(reports)
    }

    /// Ends every server and takes everything away.
    pub async fn down(mut self) -> anyhow::Result<()> {
        self.clear_on_drop = false;
        tokio::task::spawn_blocking(move || {
            let cleared = self.clear();
            drop(self);
            cleared
        })
        .await?
    }

    fn clear(&mut self) -> anyhow::Result<()> {
        let cleared = sweep::clear(&self.directory, Some(&self.network));
        // Ended by now: this only collects them.
        self.children.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.keeper = None;
        self.watchdog = None;
        cleared
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.clear_on_drop
            && let Err(error) = self.clear()
        {
            tracing::error!(
                "stage {} could not be cleared away: {error:#}; `understudy lab down --all` tries again",
                self.name
            );
        }
    }
}

fn index(node: &StageNode) -> usize {
    usize::from(node.number) - 1
}

/// The end of a log, for an error text: what went wrong, and the few lines before it.
pub(crate) fn error_log_tail(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let errors = lines.iter().filter(|line| line.contains("[ERROR]"));
    let mut tail: Vec<&str> = errors.copied().rev().take(5).collect();
    tail.reverse();
    tail.extend(&lines[lines.len().saturating_sub(5)..]);
    if tail.is_empty() { format!("({} is empty)", path.display()) } else { tail.join("\n") }
}
