//! `understudy errant`: what a server has and the primary has not: listed, written as SQL, undone.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use api::Status;
use clap::{Args, Subcommand};
use topology::health::Problem;
use topology::view::NodeState;

use crate::errant::ask;
use crate::errant::gather::{self, Found};
use crate::errant::tool::BinlogLogin;
use crate::errant::work::{self, Work};
use crate::errant::{export, page, undo};
use cli::exit::{CommandResult, Failure};
use client::{Client, Server};
use report::table::span;
use settings::{self, Node, Settings, table as t};

/// After a flashback the server is to follow the primary by itself within this.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(30);
/// Between two looks at that.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Transactions that a server has and the primary has not. Needs a running `understudy serve`, the configuration with its accounts, and
/// mariadb-binlog.
#[derive(Subcommand)]
pub enum Errant {
    /// Show exactly which they are, and what they did
    List(List),
    /// Write them as SQL, to be read and to be run elsewhere
    Export(Export),
    /// Undo them on their server, so that it can follow the primary; an export is kept
    Flashback(Flashback),
}

/// Reads the server's binlogs, and changes nothing.
#[derive(Args)]
pub struct List {
    /// Which server
    node: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ClusterArgs,
}

/// The rows are also written out as comments.
#[derive(Args)]
pub struct Export {
    /// Which server
    node: String,
    /// Where to; it must not be there yet
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    place: ClusterArgs,
}

/// Refused when it cannot be exact: DDL, statements instead of rows, rows without all columns. All of it is done, or nothing. The binlogs of
/// that server are thrown away; it is read only before and after, and then follows the primary.
#[derive(Args)]
pub struct Flashback {
    /// Which server
    node: String,
    /// Show what would be run, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: ClusterArgs,
}

/// Which cluster.
#[derive(Args)]
struct ClusterArgs {
    /// The configuration of the running server [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Errant {
    /// Whether it may end in the middle when nobody reads on.
    pub fn only_prints(&self) -> bool {
        matches!(self, Self::List(_))
    }

    /// Does it.
    pub fn run(self) -> CommandResult {
        let runtime = cli::runtime::start()?;
        runtime.block_on(async {
            match self {
                Self::List(list) => list.run().await,
                Self::Export(export) => export.run().await,
                Self::Flashback(flashback) => flashback.run().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> CommandResult {
        let mut scene = Scene::set(&self.place, &self.node).await?;
        let found = scene.look().await?;
        let obstacles = match found.errant.transactions.is_empty() {
            true => vec![],
            false => undo::obstacles(&found, &mut scene.node, &mut scene.primary, &scene.others).await?,
        };
        let (node, primary) = (&scene.node.name, &scene.primary.name);
        if self.json {
            println!("{:#}", page::json(node, primary, &found, &obstacles));
        } else {
            print!("{}", page::text(node, primary, &found, &obstacles));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Export {
    async fn run(self) -> CommandResult {
        let mut scene = Scene::set(&self.place, &self.node).await?;
        let found = scene.look().await?;
        if found.errant.transactions.is_empty() {
            return Err(Failure::Failed(page::text(&scene.node.name, &scene.primary.name, &found, &[])));
        }
        let text = export::text(&scene.work, &scene.node.name, &scene.primary.name, &found)?;
        work::write(&self.file, &text)?;
        println!("{}: {}", self.file.display(), found.errant.gtids());
        Ok(ExitCode::SUCCESS)
    }
}

impl Flashback {
    async fn run(self) -> CommandResult {
        let mut scene = Scene::set(&self.place, &self.node).await?;
        scene.must_be_quarantined()?;
        if !scene.node.lock().await? {
            let text =
                format!("somebody else works on the errant transactions of {} just now", scene.node.name);
            return Err(Failure::Failed(text));
        }
        let found = scene.look().await?;
        if found.errant.transactions.is_empty() {
            return Err(Failure::Failed(page::text(&scene.node.name, &scene.primary.name, &found, &[])));
        }
        let obstacles = undo::obstacles(&found, &mut scene.node, &mut scene.primary, &scene.others).await?;
        if !obstacles.is_empty() {
            return Err(undo::refused(&scene.node.name, &obstacles));
        }
        let script = undo::script(&scene.work, &found)?;
        if self.dry_run {
            println!("{}", String::from_utf8_lossy(&script.text));
            eprintln!("nothing was changed; this would undo {} on {}", found.errant.gtids(), scene.node.name);
            return Ok(ExitCode::SUCCESS);
        }
        scene.flash_back(&found, &script).await
    }
}

/// The servers, and what is known of them.
struct Scene {
    client: Client,
    status: Status,
    node: ask::Server,
    primary: ask::Server,
    others: undo::Others,
    binlog_login: BinlogLogin,
    work: Work,
}

impl Scene {
    async fn set(place: &ClusterArgs, name: &str) -> Result<Self, Failure> {
        let file = settings::find(place.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        let Some(account) = settings.replication_account().map_err(Failure::usage)? else {
            let text = "errant transactions are a matter of cluster.kind = \"replication\"";
            return Err(Failure::usage(settings.problem(&t::CLUSTER_KIND, text)));
        };
        let binlog_login = BinlogLogin { account, ca_file: settings.get(&t::CLUSTER_TLS_CA) };
        let login = settings.monitor_login().map_err(Failure::usage)?;
        let of_name = |name: &str| settings.nodes.iter().find(|node| node.name == name);
        let node = of_name(name).ok_or_else(|| unknown(&settings, name))?.clone();
        let client = Server::of_config(place.config.clone()).client()?;
        let status = client.status()?;
        let writer = status.writer.as_deref().and_then(of_name).cloned();
        let primary = writer.ok_or_else(|| {
            Failure::Failed("there is no primary to compare with just now: see `understudy status`".into())
        })?;
        if primary.name == node.name {
            return Err(Failure::Failed(format!("{name} is the primary: what it has is right")));
        }
        for asked in [&node, &primary] {
            must_answer(&status, &asked.name)?;
        }
        let others = others(&settings, &status, &node);
        let work = Work::begin(&settings.state_dir, name)?;
        let connect = |node: Node| {
            let (settings, login) = (&settings, &login);
            async move { ask::Server::connect(settings, &node, login).await }
        };
        let (node, primary) = (connect(node).await?, connect(primary).await?);
        Ok(Self { client, status, node, primary, others, binlog_login, work })
    }

    async fn look(&mut self) -> Result<Found, Failure> {
        gather::find(&self.work, &mut self.node, &mut self.primary, &self.binlog_login).await
    }

    fn must_be_quarantined(&self) -> Result<(), Failure> {
        let name = &self.node.name;
        let node = self.status.node(name);
        if node.is_some_and(|node| node.problem == Some(Problem::Errant)) {
            return Ok(());
        }
        let says = reason(node);
        Err(Failure::Failed(format!(
            "nothing was changed: {name} is not held back for errant transactions: {says}"
        )))
    }

    async fn flash_back(mut self, found: &Found, script: &undo::Script) -> CommandResult {
        let (node, primary) = (self.node.name.clone(), self.primary.name.clone());
        let exported = export::text(&self.work, &node, &primary, found)?;
        self.work.write("errant.sql", &exported)?;
        self.work.write("flashback.sql", &script.text)?;
        // From here on the files are the only record.
        self.work.keep();
        let dir = self.work.dir().display().to_string();
        let done = undo::run(&mut self.node, found, script, || {
            let text = format!("{} undone on {node}, and not forgotten there yet\n", found.errant.gtids());
            self.work.write("undone", text.as_bytes()).map(drop)
        })
        .await;
        if let Err(Failure::Failed(why)) = done {
            return Err(Failure::Failed(format!("{why}\nthe transactions are in {dir}")));
        }
        println!("{} undone on {node}; kept as SQL in {dir}", found.errant.gtids());
        let follows = self.until_it_follows(&node);
        let Self { node: link, primary: other, .. } = self;
        link.quit();
        other.quit();
        match follows? {
            None => {
                println!("{node} follows {primary}");
                Ok(ExitCode::SUCCESS)
            }
            Some(says) => {
                Err(Failure::Failed(format!("{node} does not follow yet: {says}: see `understudy status`")))
            }
        }
    }

    /// Waits; `Some` with what is said of it when it does not.
    fn until_it_follows(&self, name: &str) -> Result<Option<String>, Failure> {
        let give_up = Instant::now() + FOLLOW_TIME_MAX;
        loop {
            let status = self.client.status()?;
            let node = status.node(name);
            if node.is_some_and(|node| node.state == NodeState::Synced) {
                return Ok(None);
            }
            if Instant::now() > give_up {
                return Ok(Some(reason(node)));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Why it is what it is.
fn reason(node: Option<&api::Node>) -> String {
    node.map_or("nothing is known of it", |node| &node.reason).to_owned()
}

/// One that the running Understudy hears nothing from is not waited for.
fn must_answer(status: &Status, name: &str) -> Result<(), Failure> {
    let is_lost = |node: &&api::Node| matches!(node.state, NodeState::Dead | NodeState::Silent);
    let Some(node) = status.node(name).filter(is_lost) else { return Ok(()) };
    let why = &node.reason;
    let ago =
        node.answered_ms_ago.map_or_else(String::new, |ago| format!("; it last answered {} ago", span(ago)));
    Err(Failure::Failed(format!("{name} cannot be asked: it {why}{ago}")))
}

/// Where the others are, and which of them follow the server by their own word.
fn others(settings: &Settings, status: &Status, node: &Node) -> undo::Others {
    let others = || settings.nodes.iter().filter(|other| other.name != node.name);
    let follows = |other: &&Node| {
        let facts = status.node(&other.name).and_then(|other| other.facts.as_ref()?.replication());
        facts.is_some_and(|facts| facts.channels.iter().any(|channel| channel.source == node.address))
    };
    let hosts = others().filter_map(|other| other.address.to_socket_addrs().ok()).flatten();
    undo::Others {
        hosts: hosts.map(|address| address.ip()).collect(),
        followers: others().filter(follows).map(|other| other.name.clone()).collect(),
    }
}

fn unknown(settings: &Settings, name: &str) -> Failure {
    let names: Vec<&str> = settings.nodes.iter().map(|node| node.name.as_str()).collect();
    Failure::Usage(format!("no node {name} in {}; there are {}", settings.file.display(), names.join(", ")))
}
