//! The environment of a scenario: a cluster, its keepaliveds, the observer and the client that uses the address.
//!
//! ```text
//!   us-NAME-db1                 us-NAME-db2                 us-NAME-db3           this namespace
//!     mariadbd  keepalived        mariadbd  keepalived        mariadbd  keepalived    client, observer
//!        └─ clustercheck ─┘          └─ clustercheck ─┘                               10.77.S.254
//!     10.77.S.1                   10.77.S.2, 10.77.S.100      10.77.S.3                    and fd00:77:S::N the same
//! ```
//!
//! Each keepalived checks only its own node, by the drop-in with the original's name, as in the seed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::agent::{Agent, Programs};
use super::client::Client;
use super::observer::{Holders, Observer, What};
use super::plan::{Families, PRIORITIES, VipPlan};
use crate::failover::case::Writers;
use crate::failover::understudy::{ConfigInputs, Knobs};
use crate::peer;
use crate::stage::account::{MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::process::{Owned, ProcessParent};
use crate::stage::{ADVISED_EVS, ClusterKind, Stage, StagePlan, may_make_namespaces};
use crate::wait;

/// The node that has the address when a scenario begins, as in the seed.
pub const VICTIM: &str = "db2";
/// Who feeds a node that returns, while it is there. Left to themselves, nodes choose any, also the holder of the address, which a check
/// without donors then takes away from it for a moment.
const DONOR: &str = "db3,";
/// Last number of the addresses that move.
const VIP: u8 = 100;
/// Port of a proxy.
const PROXY_PORT: u16 = 6033;
/// Time limit for every state to wait for.
pub const LIMIT: Duration = Duration::from_secs(30);
/// Number of responses from the holder before a scenario begins.
const CALM_ANSWERS: usize = 10;
/// Interval between two checks of a condition.
const PACE: Duration = Duration::from_millis(5);
/// The seed's account with its original hash, only for the local host and without privileges.
const ACCOUNT: &str = "GRANT USAGE ON *.* TO 'clustercheck'@'localhost' IDENTIFIED BY PASSWORD \
                       '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'";

/// The setup of keepalived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// With the seed's configuration instead of the recommended one.
    pub like_the_seed: bool,
    /// clustercheck's third argument.
    pub donor: bool,
    /// On two proxies instead of three nodes.
    pub proxies: bool,
    /// Under a supervisor.
    pub supervised: bool,
    /// Whether the victim has the highest priority, so that it would take the address back if it could.
    pub victim_first: bool,
}

/// Everything that runs. Dropping it ends all of it; clients end before their servers.
pub struct Scene {
    client: Option<Client>,
    agents: BTreeMap<String, Agent>,
    proxies: BTreeMap<String, Owned>,
    /// Runs before the first keepalived starts.
    pub observer: Observer,
    process_parent: ProcessParent,
    programs: Programs,
    /// All addresses that can move, and those that move in this scenario.
    known: Vec<IpAddr>,
    vips: Vec<IpAddr>,
    /// The cluster.
    pub stage: Stage,
}

impl Scene {
    /// Starts the cluster and the observer.
    ///
    /// # Errors
    /// Without root (no namespaces), or without keepalived.
    pub async fn up(plan: &VipPlan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        if !may_make_namespaces() {
            bail!(
                "an address that moves needs network namespaces: run `understudy lab vip` as root (in a container, one that may add network namespaces)"
            );
        }
        let keepalived = peer::find("keepalived")?;
        let stage = Stage::up_telling(
            StagePlan {
                name: format!("vip{}", std::process::id()),
                galera_options: if plan.plain_evs { String::new() } else { ADVISED_EVS.to_owned() },
                server_options: vec![
                    // Listen on the moving address, too; each node is alone in its namespace.
                    "bind-address = *".to_owned(),
                    format!("wsrep-sst-donor = {DONOR}"),
                ],
                ..StagePlan::default()
            },
            tell,
        )
        .await?;
        let IpAddr::V4(host) = stage.host_address() else { bail!("the stage has no IPv4 address") };
        let [a, b, c, _] = host.octets();
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::new(a, b, c, VIP)), IpAddr::V6(stage.address_v6(VIP)));
        if plan.ip != Families::Ipv4 {
            stage.add_ipv6()?;
        }
        stage.run_in("db1", ACCOUNT).await.context("cannot make the check's account")?;
        let programs = programs(&stage, keepalived)?;
        let process_parent = ProcessParent::new()?;
        let observer = Observer::start(&stage, &process_parent, &[v4, v6]).await?;
        Ok(Self {
            client: None,
            agents: BTreeMap::new(),
            proxies: BTreeMap::new(),
            observer,
            process_parent,
            programs,
            known: vec![v4, v6],
            vips: Vec::new(),
            stage,
        })
    }

    /// Starts keepalived on each machine, the victim's first, so that it has the address; then the client. Returns when the client gets
    /// responses through every address.
    pub async fn raise(&mut self, plan: &VipPlan, wanted: Wanted) -> anyhow::Result<()> {
        let moves = |address: &IpAddr| match plan.ip {
            // The seed uses only IPv4.
            _ if wanted.like_the_seed => address.is_ipv4(),
            Families::Ipv4 => address.is_ipv4(),
            Families::Ipv6 => address.is_ipv6(),
            Families::Both => true,
        };
        self.vips = self.known.iter().copied().filter(moves).collect();
        let names: Vec<String> = self.stage.nodes().iter().map(|node| node.name.clone()).collect();
        let mut order = vec![VICTIM.to_owned()];
        order.extend(names.into_iter().filter(|name| name != VICTIM).take(if wanted.proxies {
            1
        } else {
            2
        }));
        if wanted.proxies {
            for name in &order {
                self.start_proxy(name)?;
            }
        }
        for name in &order {
            let config = self.config(plan, wanted, name)?;
            let env = self.environment(name)?;
            let supervised = wanted.supervised;
            let agent = Agent::start(
                &self.stage,
                &self.process_parent,
                &self.programs,
                name,
                &config,
                &env,
                supervised,
            )
            .await?;
            self.agents.insert(name.clone(), agent);
            let state = if name == VICTIM { "now master" } else { "now backup" };
            let reached = self.until(LIMIT, |scene| scene.state(name) == state).await;
            reached.with_context(|| self.why(name, state))?;
        }
        let mut victims = Holders::default();
        for address in &self.vips {
            victims.add(*address, VICTIM);
        }
        self.until(LIMIT, |scene| scene.observer.holders() == victims).await.with_context(|| {
            format!("{VICTIM} must have the address, and it is so: {:?}", self.observer.holders())
        })?;
        let port = if wanted.proxies { PROXY_PORT } else { 3306 };
        let targets: Vec<_> = self.vips.iter().map(|address| SocketAddr::new(*address, port)).collect();
        self.client = Some(Client::start(&targets));
        let calm = |scene: &Self| {
            let attempts = scene.attempts();
            let answers = |through: &IpAddr| {
                attempts.iter().filter(|a| a.through == *through && a.said.is_ok()).count()
            };
            scene.vips.iter().all(|through| answers(through) >= CALM_ANSWERS)
        };
        self.until(LIMIT, calm).await.context("the client gets no answer through the address")
    }

    /// Stops keepaliveds, proxies and client.
    pub async fn lower(&mut self) -> anyhow::Result<()> {
        self.client = None;
        for (_, agent) in std::mem::take(&mut self.agents) {
            agent.end().await?;
        }
        self.proxies.clear();
        // Remove the addresses that a killed keepalived left, so that they do not affect the next scenario.
        for (address, node) in self.observer.holders().iter() {
            let mut command = self.stage.command_in(node, Path::new("ip"))?;
            command.args(["address", "del", &with_prefix(address), "dev", "eth0"]);
            command.output().context("cannot run `ip`")?;
        }
        self.until(LIMIT, |scene| scene.observer.holders() == Holders::default())
            .await
            .context("the address stays where it was")
    }

    /// Stops everything and removes it.
    pub async fn down(self) -> anyhow::Result<()> {
        let Self { observer, process_parent, stage, .. } = self;
        drop(observer);
        drop(process_parent);
        stage.down().await
    }

    /// Waits for a condition.
    ///
    /// # Errors
    /// When it does not hold `within`, or when the observer has ended.
    pub async fn until(&self, within: Duration, is_so: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let holds = async || {
            let is_so = is_so(self);
            if !is_so {
                self.observer.events()?;
            }
            Ok(is_so)
        };
        ensure!(wait::holds(within, PACE, holds).await?, "not within {} s", within.as_secs());
        Ok(())
    }

    /// The last state that keepalived on a node recorded.
    pub fn state(&self, node: &str) -> String {
        self.agents.get(node).map(Agent::state).unwrap_or_default()
    }

    /// The last recorded state of every node.
    pub fn states(&self) -> BTreeMap<String, String> {
        self.agents.iter().map(|(name, agent)| (name.clone(), agent.state())).collect()
    }

    /// The keepalived of a node.
    pub fn agent(&self, node: &str) -> anyhow::Result<&Agent> {
        self.agents.get(node).with_context(|| format!("no keepalived runs in {node}"))
    }

    /// The client's attempts.
    pub fn attempts(&self) -> Vec<super::client::Attempt> {
        self.client.as_ref().map(Client::attempts).unwrap_or_default()
    }

    /// The proxy of a node.
    pub fn proxy(&mut self, node: &str) -> anyhow::Result<&mut Owned> {
        self.proxies.get_mut(node).with_context(|| format!("no proxy runs in {node}"))
    }

    /// Kills the proxy of a node.
    pub fn kill_proxy(&mut self, node: &str) -> anyhow::Result<Instant> {
        let proxy = self.proxies.remove(node).with_context(|| format!("no proxy runs in {node}"))?;
        let at = Instant::now();
        drop(proxy);
        Ok(at)
    }

    /// Records for the observer that the caller cuts a node off or connects it again.
    pub fn note(&self, node: &str, what: What) {
        self.observer.note(node, what);
    }

    /// The addresses that move.
    pub fn vips(&self) -> &[IpAddr] {
        &self.vips
    }

    /// The current holders by the kernel's own list; the observer must have the same.
    pub fn look(&self) -> anyhow::Result<Holders> {
        let mut holders = Holders::default();
        for node in self.stage.nodes() {
            for address in &self.known {
                let mut command = self.stage.command_in(&node.name, Path::new("ip"))?;
                let output = command
                    .args(["-oneline", "address", "show", "to", &address.to_string()])
                    .output()
                    .context("cannot run `ip`")?;
                if !output.stdout.is_empty() {
                    holders.add(*address, &node.name);
                }
            }
        }
        Ok(holders)
    }

    /// Whether each address is on another machine, and `from` no longer has any.
    pub fn has_left(&self, from: &str) -> bool {
        self.has_moved(from) && !self.observer.holders().nodes().contains(from)
    }

    /// Whether another machine has each address; `from` may still have it, too.
    pub fn has_moved(&self, from: &str) -> bool {
        let holders = self.observer.holders();
        self.vips.iter().all(|address| holders.of(*address).iter().any(|node| *node != from))
    }

    /// Runs one of the project's commands in a node's namespace; returns its exit code and its standard output.
    pub fn run_in(
        &self,
        node: &str,
        program: &Path,
        words: &[&str],
    ) -> anyhow::Result<(Option<i32>, String)> {
        let mut command = self.stage.command_in(node, program)?;
        command.args(words).envs(self.environment(node)?);
        let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// The programs of this scene.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    fn why(&self, node: &str, state: &str) -> String {
        let words = self.agents.get(node).map(Agent::last_words).unwrap_or_default();
        format!("keepalived of {node} does not say {state:?} but {:?}:\n{words}", self.state(node))
    }

    /// The command line of `understudy vip config`.
    fn config(&self, plan: &VipPlan, wanted: Wanted, node: &str) -> anyhow::Result<Vec<String>> {
        let at = self.stage.nodes().iter().position(|known| known.name == node).unwrap_or(0);
        let mut words: Vec<String> =
            self.vips.iter().map(|address| format!("--address={}", with_prefix(*address))).collect();
        words
            .extend(["--interface=eth0".into(), format!("--advert-interval-ms={}", plan.advert_interval_ms)]);
        if wanted.like_the_seed {
            words.push("--like-the-seed".into());
        } else {
            let mut priorities = PRIORITIES;
            if wanted.victim_first {
                priorities.swap(0, 1);
            }
            let priority = priorities.get(at).context("there are more nodes than priorities")?;
            words.push(format!("--priority={priority}"));
        }
        if wanted.proxies {
            words.push("--for=proxy".into());
            let conf = self.proxy_dir(node).join("understudy.toml");
            words.push(format!(
                "--check-command={} check --once --serve --config {}",
                self.programs.understudy.display(),
                conf.display()
            ));
        } else {
            let check = self.programs.clustercheck.display();
            words.push(format!("--check-command={check} clustercheck password {}", u8::from(wanted.donor)));
        }
        Ok(words)
    }

    /// Environment of keepalived and its checks: this node's server, and a separate directory for sockets.
    fn environment(&self, node: &str) -> anyhow::Result<Vec<(String, String)>> {
        let dir = self.stage.directory().join("vip").join(node);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let file = dir.join("check.cnf");
        let socket = &self.stage.node(node)?.socket;
        std::fs::write(&file, format!("[client]\nsocket={}\n", socket.display()))
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(vec![
            ("DEFAULTS_EXTRA_FILE".into(), file.display().to_string()),
            ("UNDERSTUDY_RUN_DIR".into(), dir.join("run").display().to_string()),
        ])
    }

    fn proxy_dir(&self, node: &str) -> PathBuf {
        self.stage.directory().join("vip").join(node).join("proxy")
    }

    fn start_proxy(&mut self, node: &str) -> anyhow::Result<()> {
        let dir = self.proxy_dir(node);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let nodes: Vec<(String, String)> =
            self.stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect();
        let place = ConfigInputs {
            kind: ClusterKind::Galera,
            nodes: &nodes,
            writers: Writers::One,
            mysql: &format!(
                "{}:{PROXY_PORT}",
                if self.vips.iter().any(IpAddr::is_ipv6) { "[::]" } else { "0.0.0.0" }
            ),
            http: "127.0.0.1:6080",
            health: None,
            dir: &dir,
            monitor_user: MONITOR_USER,
        };
        let (config, _) = place.write(&Knobs::default(), MONITOR_PASSWORD)?;
        let mut command = self.stage.command_in(node, &self.programs.understudy)?;
        command.args(["serve", "--config"]).arg(config).envs(self.environment(node)?);
        let proxy = self.process_parent.spawn(&command, Some(&dir.join("understudy.log")))?;
        self.proxies.insert(node.to_owned(), proxy);
        Ok(())
    }
}

/// The address with its prefix length, for `ip` and keepalived.
fn with_prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 24 } else { 64 })
}

/// Finds the programs, and also links Understudy under the name of the original check.
fn programs(stage: &Stage, keepalived: PathBuf) -> anyhow::Result<Programs> {
    let understudy = crate::program::understudy()?;
    let understudy =
        understudy.canonicalize().with_context(|| format!("cannot find {}", understudy.display()))?;
    let dir = stage.directory().join("vip");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let clustercheck = dir.join("clustercheck");
    // Not a symbolic link: keepalived resolves those, and runs the program under the name of the target.
    if std::fs::hard_link(&understudy, &clustercheck).is_err() {
        // The link fails on another file system.
        std::fs::copy(&understudy, &clustercheck)
            .with_context(|| format!("cannot make {}", clustercheck.display()))?;
    }
    Ok(Programs { keepalived, understudy, clustercheck })
}
