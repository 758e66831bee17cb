//! The servers of an MHA configuration, and what executes the orders for them: a running `understudy serve`, or a manager of the command's
//! own.
//!
//! A running one is found by `--understudy=FILE`, else by UNDERSTUDY_CONFIG in the environment, else where `understudy` itself looks for
//! its configuration. It must serve all servers of MHA's file, and decide by itself. The command's own manager is used only when none can be
//! running for any of them: two would move the primary against each other.

use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::Status;
use link::{Link, LinkError, Login, ask_once};
use protocol::errno;
use serde_json::Value;
use tokio::task::JoinSet;
use topology::kind::Kind;
use topology::preflight::{Report, Severity};
use topology::replication::{Channel, Manager};
use topology::view::{NodeState, NodeView};

use super::log::Log;
use super::options::Options;
use super::own::{Own, Purpose};
use cli::exit::Failure;
use client::node::escaped;
use client::{self, Client, body};
use import::mha::conf::{Conf, Server};
use settings::{self, Settings};

/// The interval of reading the status of a running server, whose API does not report changes by itself.
const LOOK: Duration = Duration::from_millis(50);
/// The time limit of one statement, and of connecting.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long a server may take to answer a login that is only tried. One that does not answer is dealt with later.
const TRIED_WITHIN: Duration = Duration::from_millis(800);
/// Errors at a login by which the server refuses the account, as in MHA's list of errors of a server that lives; and the two that newer servers
/// have for the same.
const REFUSED: [u16; 8] = [
    1043,
    errno::DBACCESS_DENIED_ERROR,
    errno::ACCESS_DENIED_ERROR,
    1129, // the host is blocked
    1130, // the host is not allowed
    1251, // another way to authenticate is needed
    1275, // the same, of very old passwords
    1698, // the account has no password: it is for the system's own user
];

pub struct Site {
    by: By,
    /// Pairs of the block in MHA's file and the node's name.
    names: Vec<(String, String)>,
}

/// What the site is used for.
#[derive(Clone, Copy)]
pub enum For<'a> {
    /// To read the state; nothing is changed.
    Look,
    /// To move the primary.
    Move,
    /// This primary is lost already.
    Replace(&'a Server),
}

enum By {
    Serve(Client),
    Own(Box<Own>),
}

impl Site {
    /// Finds the running server, or starts a manager.
    pub fn find(conf: &Conf, options: &Options, log: &Log, whatfor: For<'_>) -> Result<Self, String> {
        if let Some((file, is_named)) = configuration(options) {
            match serving(conf, &file) {
                Ok((client, names)) => {
                    log.info(&format!(
                        "Orders are given through the running Understudy of {}.",
                        file.display()
                    ));
                    return Ok(Self { by: By::Serve(client), names });
                }
                Err(NotThrough::Nobody(why)) if !is_named => log.info(&format!("{why}.")),
                Err(NotThrough::Nobody(why)) => return Err(why),
                Err(NotThrough::Unknown(why)) => {
                    return Err(format!(
                        "{why}. Whether it moves the primary of these servers is not known, and there must not be two that do: mend that, or end it \
                         (--understudy=none gives the orders from here all the same)"
                    ));
                }
            }
        }
        log.info("No running Understudy serves these servers (--understudy=FILE names one by its configuration): the orders are given from here.");
        let names: Vec<(String, String)> = conf
            .servers
            .iter()
            .map(|server| (server.block.clone(), import::masterha::node_name(conf, server)))
            .collect();
        let called = |server: &Server| names.iter().find(|(block, _)| *block == server.block);
        let purpose = match whatfor {
            For::Look => Purpose::Look,
            For::Move => Purpose::Move,
            For::Replace(lost) => called(lost).map_or(Purpose::Move, |(_, name)| Purpose::Replace(name)),
        };
        let own = Own::start(conf, purpose)?;
        Ok(Self { by: By::Own(Box::new(own)), names })
    }

    /// The same site after it was looked at, to move the primary.
    pub fn into_moving(self, conf: &Conf) -> Result<Self, String> {
        let by = match self.by {
            By::Own(looking) => {
                drop(looking);
                By::Own(Box::new(Own::start(conf, Purpose::Move)?))
            }
            serve @ By::Serve(_) => serve,
        };
        Ok(Self { by, names: self.names })
    }

    /// The current status.
    pub fn status(&self) -> Result<Status, String> {
        match &self.by {
            By::Serve(client) => client.status().map_err(message),
            By::Own(own) => Ok(own.status()),
        }
    }

    /// Waits until the status fits; an `Err` has the last status when it did not in time.
    pub fn wait(&self, within: Duration, fits: impl Fn(&Status) -> bool) -> Result<Status, Box<Status>> {
        let until = Instant::now() + within;
        loop {
            let status = self.status().unwrap_or_default();
            if fits(&status) {
                return Ok(status);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Box::new(status));
            }
            self.changed(left);
        }
    }

    /// Waits until the status may have changed, no longer than this.
    pub fn changed(&self, within: Duration) {
        match &self.by {
            By::Own(own) => own.changed(within),
            By::Serve(_) => std::thread::sleep(LOOK.min(within)),
        }
    }

    /// Moves the primary; returns a sentence in both cases.
    pub fn switchover(&self, to: Option<&Server>, budget: Duration, force: bool) -> Result<String, String> {
        let to = to.map(|server| self.name(server));
        match &self.by {
            By::Own(own) => own.switchover(to, budget, force),
            By::Serve(client) => {
                let body = body(&[
                    ("to", to.map(Value::from)),
                    ("budget_ms", u64::try_from(budget.as_millis()).ok().map(Value::from)),
                    ("force", force.then(|| Value::from(true))),
                ]);
                client.put("switchover", &body, Some(budget)).map(|answer| answer.message).map_err(message)
            }
        }
    }

    /// Why a switchover from a master that lives would be refused, as far as it is known without trying.
    pub fn refusal(&self, to: &Server, budget: Duration) -> Result<(), String> {
        let name = self.name(to);
        let report: Report = match &self.by {
            By::Own(own) => own.before_switchover(name, budget),
            By::Serve(client) => {
                let path = format!("preflight?to={}&budget_ms={}", escaped(name), budget.as_millis());
                client.get(&path).and_then(|answer| answer.read()).map_err(message)?
            }
        };
        let failing = report.rows.iter().filter(|row| row.verdict == Severity::Fails);
        let why: Vec<String> =
            failing.map(|row| format!("{} {} ({})", row.node, row.sentence, row.remedy)).collect();
        if why.is_empty() {
            Ok(())
        } else {
            Err(format!("{} can not be new master: {}", to.shown(), why.join("; ")))
        }
    }

    /// The running server that serves these servers and decides about them, if any; logs nothing.
    pub fn running(conf: &Conf, options: &Options) -> Option<(Self, Status)> {
        let (file, _) = configuration(options)?;
        let (client, names) = serving(conf, &file).ok()?;
        let site = Self { by: By::Serve(client), names };
        let status = site.status().ok()?;
        Some((site, status))
    }

    /// The node's name.
    pub fn name(&self, server: &Server) -> &str {
        self.names.iter().find(|(block, _)| *block == server.block).map_or("", |(_, name)| name)
    }

    /// The server with this node name.
    pub fn server<'a>(&self, conf: &'a Conf, name: &str) -> Option<&'a Server> {
        let (block, _) = self.names.iter().find(|(_, node)| node == name)?;
        conf.servers.iter().find(|server| server.block == *block)
    }

    /// A server's part of the status.
    pub fn node<'a>(&self, status: &'a Status, server: &Server) -> Option<&'a NodeView> {
        status.node(self.name(server)).map(|node| &node.view)
    }

    /// What a server is; unknown where the status has nothing of it.
    pub fn state(&self, status: &Status, server: &Server) -> NodeState {
        self.node(status, server).map_or(NodeState::Unknown, |node| node.state)
    }

    /// Why it is that; `unknown` where the status has nothing of it.
    pub fn reason(&self, status: &Status, server: &Server, unknown: &str) -> String {
        self.node(status, server).map_or(unknown, |node| &node.reason).to_owned()
    }

    /// What it replicates from.
    pub fn channels<'a>(&self, status: &'a Status, server: &Server) -> Option<&'a [Channel]> {
        Some(&self.node(status, server)?.facts.as_ref()?.replication()?.channels)
    }

    /// Whether it answers.
    pub fn is_alive(&self, status: &Status, server: &Server) -> bool {
        let is_lost = matches!(self.state(status, server), NodeState::Dead | NodeState::Silent);
        !is_lost && self.node(status, server).is_some_and(|node| node.linked && node.facts.is_some())
    }

    /// The primary.
    pub fn primary<'a>(&self, conf: &'a Conf, status: &Status) -> Option<&'a Server> {
        self.server(conf, status.writer.as_ref()?)
    }

    /// Whether that is where `primary` is.
    fn is_source(&self, status: &Status, channel: &Channel, primary: &Server) -> bool {
        self.node(status, primary).is_some_and(|node| node.address == channel.source)
    }

    /// Why it does not.
    pub fn not_following(&self, status: &Status, server: &Server, primary: &Server) -> String {
        let reason = self.reason(status, server, "it does not answer");
        match self.channels(status, server) {
            _ if !self.is_alive(status, server) => reason,
            Some([]) => "is alive, but does not work as a slave!".to_owned(),
            Some([one]) if !self.is_source(status, one, primary) => {
                format!("replicates from {}, but real master is {}!", one.source, primary.shown())
            }
            Some([one]) if !one.io_running => format!("Slave IO thread is not running: {reason}"),
            Some([one]) if !one.sql_running => format!("Slave SQL thread is not running: {reason}"),
            _ => reason,
        }
    }

    /// Whether it replicates from `primary` only, with both threads running.
    pub fn follows(&self, status: &Status, server: &Server, primary: &Server) -> bool {
        matches!(self.channels(status, server), Some([one])
            if one.io_running && one.sql_running && self.is_source(status, one, primary))
    }

    /// How far it is behind, in seconds, by its own report.
    pub fn lag_s(&self, status: &Status, server: &Server) -> Option<u64> {
        self.channels(status, server)?.first()?.lag_s
    }
}

fn message(failure: Failure) -> String {
    failure.text().to_owned()
}

/// The configuration of an Understudy that may be running, and whether it was named; `None`: there is none, or it is to be left out.
fn configuration(options: &Options) -> Option<(PathBuf, bool)> {
    let named =
        options.path("understudy").or_else(|| std::env::var_os("UNDERSTUDY_CONFIG").map(PathBuf::from));
    if named.as_deref() == Some(Path::new("none")) {
        return None;
    }
    Some((settings::find(named.as_deref()).ok()?, named.is_some()))
}

/// Why orders are not given through the server of a configuration.
enum NotThrough {
    /// It moves the primary of none of these servers.
    Nobody(String),
    /// It may.
    Unknown(String),
}

/// The running server of that configuration, if it serves these servers.
fn serving(conf: &Conf, file: &Path) -> Result<(Client, Vec<(String, String)>), NotThrough> {
    use NotThrough::{Nobody, Unknown};
    let shown = file.display();
    let settings = Settings::load(file).map_err(|e| Unknown(e.to_string()))?;
    if settings.kind != Kind::Replication {
        return Err(Nobody(format!("{shown} is about a Galera cluster")));
    }
    if settings.manager == Manager::External {
        return Err(Nobody(format!(
            "{shown} says that another manager moves the primary (cluster.manager), and it is followed"
        )));
    }
    let mut names = Vec::new();
    let mut missing = None;
    for server in &conf.servers {
        let address = server.address();
        match settings.nodes.iter().find(|node| is_same(&node.address, &address)) {
            Some(node) => names.push((server.block.clone(), node.name.clone())),
            None => missing = Some(format!("{shown} has no node at {address} ([{}])", server.block)),
        }
    }
    if let (true, Some(why)) = (names.is_empty(), &missing) {
        return Err(Nobody(why.clone()));
    }
    let not_through = |failure| match failure {
        Failure::NotRunning(why) => Nobody(why),
        other => Unknown(message(other)),
    };
    let client = client::Server::of_config(Some(file.to_owned())).client().map_err(not_through)?;
    client.get_within("status", DEADLINE).map_err(not_through)?;
    missing.map_or(Ok((client, names)), |why| Err(Unknown(format!("{why}, and others of these servers"))))
}

/// Whether both are the same address, literally or as they resolve.
fn is_same(one: &str, other: &str) -> bool {
    let all = |text: &str| text.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    one == other || all(one).iter().any(|address| all(other).contains(address))
}

/// MHA's account on a server.
fn account(server: &Server) -> Login {
    Login::with_password(server.user(), server.password())
}

/// Tries MHA's account on all these servers at once, as MHA does before anything else.
///
/// # Errors
/// A server refuses it. One that does not answer is no error here.
pub fn log_in<'a>(conf: &Conf, servers: impl Iterator<Item = &'a Server>) -> Result<(), String> {
    let runtime = cli::runtime::start().map_err(message)?;
    let mut tasks = JoinSet::new();
    for server in servers {
        let (address, login, shown) = (server.address(), account(server), server.shown());
        let connect = async move {
            let link = Link::connect(&address, &login, TRIED_WITHIN).await?;
            link.quit();
            Ok(())
        };
        tasks.spawn_on(async move { (shown, connect.await) }, runtime.handle());
    }
    let refused = runtime.block_on(async {
        while let Some(done) = tasks.join_next().await {
            let Ok((shown, Err(error))) = done else { continue };
            match error {
                LinkError::Rejected { errno, message, .. } if REFUSED.contains(&errno) => {
                    return Some(format!("Got MySQL error when connecting {shown} :{errno}:{message}"));
                }
                LinkError::Unanswered(_) | LinkError::Tls(_) => return Some(format!("{shown}: {error}")),
                _ => {}
            }
        }
        None
    });
    runtime.shutdown_background();
    let file = conf.file.display();
    refused.map_or(Ok(()), |why| {
        Err(format!(
            "{why}, but this is not a MySQL crash: the account is refused. Look at user and password in {file}, and at the server's accounts"
        ))
    })
}

/// Runs one query on a server with MHA's account; returns the first column of each row.
pub fn ask(server: &Server, sql: &str) -> Result<Vec<String>, String> {
    let login = account(server);
    let runtime = cli::runtime::start().map_err(message)?;
    runtime.block_on(async {
        let asked = ask_once(&server.address(), &login, sql, DEADLINE).await;
        let rows = asked.map_err(|e| e.to_string())?;
        Ok((0..rows.len()).filter_map(|row| rows.text(row, 0).map(str::to_owned)).collect())
    })
}
