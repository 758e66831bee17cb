//! The configuration: one file, one table of what may stand in it, one typed value for the rest of the program.
//!
//! ```text
//!   understudy.toml ──> document (each key against the table) ──> Settings (what spans several keys) ──> wiring
//!                            └──────────── problems, all of them, with their lines ────────────┘
//! ```

pub mod descriptors;
pub mod difference;
pub mod document;
pub mod page;
pub mod password;
mod ports;
pub mod problem;
mod quotes;
pub mod table;
pub mod warm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use document::{Document, Value, node_path};
use password::PasswordSource;
use problem::{Problem, Problems};
use table as t;
use topology::kind::Kind;
use topology::replication::{FailoverPolicy, Manager};
use topology::settings::{BootstrapPolicy, EvictPolicy, SilencePolicy, Writers};
use warmup::access::Access;

use cli::foreground::is_filter;

/// Where the configuration is looked for when nobody says.
pub const PLACES: [&str; 2] = ["understudy.toml", "/etc/understudy/understudy.toml"];

/// A configuration that is right in itself. Whether the world agrees is what `serve --check` finds out.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file it came from.
    pub file: PathBuf,
    /// The cluster's name.
    pub name: String,
    /// Its number in the API.
    pub id: u32,
    /// What the nodes are.
    pub kind: Kind,
    /// What is done when nobody is in a Primary component any more.
    pub bootstrap: Bootstrap,
    /// One writer, or all.
    pub writers: Writers,
    /// Who moves the primary.
    pub manager: Manager,
    /// The nodes, in the file's order.
    pub nodes: Vec<Node>,
    /// The account and habits of the probes.
    pub monitor: Monitor,
    /// What concerns a primary with replicas; `None` with another kind, and where another manager moves the primary.
    pub replication: Option<Replication>,
    /// Where to listen.
    pub listen: Listen,
    /// How the port for reads chooses.
    pub reads: topology::reads::Settings,
    /// With [`Listen::split`]: how long a read waits on a replica.
    pub split_wait: Duration,
    /// What may wait.
    pub hold: Hold,
    /// Budget of orders that name none.
    pub budget: Duration,
    /// The proxy's limits.
    pub proxy: Proxy,
    /// The API's files.
    pub api: Api,
    /// How standbys are warmed; `None`: they are not.
    pub warm: Option<warm::Warm>,
    /// What is logged.
    pub log_level: String,
    /// Where state is kept.
    pub state_dir: PathBuf,
    lines: BTreeMap<&'static str, usize>,
    values: difference::Values,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// The higher is preferred as writer.
    pub priority: u32,
    /// The line where it begins.
    pub line: usize,
}

/// What is done when nobody is in a Primary component any more.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// Whether the nodes that are left go on by themselves.
    pub policy: BootstrapPolicy,
    /// Proves that the process of a node has ended.
    pub proof_command: Option<String>,
    /// How long that may take.
    pub proof_deadline: Duration,
}

/// The account and habits of the probes.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// The account.
    pub user: String,
    /// Where its password is.
    pub password: PasswordSource,
    /// Between two status queries.
    pub interval: Duration,
    /// Missed answers until a node is silent.
    pub misses_max: u32,
    /// Whether events count, or only missed answers.
    pub events: bool,
    /// Who is evicted.
    pub evict: EvictPolicy,
    /// What is done while the group waits for a silent node.
    pub silent: SilencePolicy,
    /// How long an orderly stop is left alone.
    pub stop_grace: Duration,
    /// Whether the writer commits.
    pub heartbeat: topology::heartbeat::Settings,
}

/// What concerns a primary with replicas.
#[derive(Clone, Debug)]
pub struct Replication {
    /// The account that replicas log in with at the primary.
    pub user: String,
    /// Where its password is.
    pub password: PasswordSource,
    /// How the loss of the primary is answered.
    pub loss: topology::replication::Settings,
}

/// Where to listen; `host:port` each.
#[derive(Clone, Debug)]
pub struct Listen {
    /// For applications.
    pub mysql: Vec<String>,
    /// For orders, plain.
    pub http: Vec<String>,
    /// For orders, TLS.
    pub https: Vec<String>,
    /// For health questions.
    pub health: Vec<String>,
    /// For HAProxy's agent check.
    pub agent: Vec<String>,
    /// For applications that only read.
    pub read: Vec<String>,
    /// On the first, reads outside transactions go to replicas.
    pub split: bool,
}

/// What may wait.
#[derive(Clone, Debug)]
pub struct Hold {
    /// How long.
    pub time: Duration,
    /// How many.
    pub statements_max: usize,
    /// How much.
    pub bytes_max: usize,
    /// How many are let go at once.
    pub release_at_once: usize,
}

/// The proxy's limits.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// To a node.
    pub connect_timeout: Duration,
    /// By a client.
    pub login_timeout: Duration,
    /// How long a client may send nothing; zero: for ever.
    pub client_idle_max: Duration,
    /// Largest statement kept for a retry.
    pub retain_bytes_max: usize,
    /// How often a statement that changes nothing is sent again after its node was lost.
    pub resends_max: u32,
    /// How long statements that have cost nodes are refused; zero: never.
    pub suspect_time: Duration,
    /// Wrong passwords that one address may give for one account at once; zero: any number.
    pub password_errors_max: u32,
    /// After so long it may give one more.
    pub password_error_pause: Duration,
    /// Clients at once.
    pub client_connections_max: usize,
    /// At the end.
    pub shutdown_grace: Duration,
}

/// The API's files.
#[derive(Clone, Debug)]
pub struct Api {
    /// The key.
    pub key_file: PathBuf,
    /// Whether the key may be made at first start: only when its place was not given.
    pub key_is_ours: bool,
    /// A given certificate and its key.
    pub certificate: Option<web::certificate::Pair>,
}

/// Finds the configuration: the one that was named, or the first that exists of [`PLACES`].
pub fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    PLACES.iter().map(PathBuf::from).find(|path| path.exists()).ok_or_else(|| {
        format!(
            "no configuration: neither ./{} nor {} exists; name one with --config FILE",
            PLACES[0], PLACES[1]
        )
    })
}

impl Settings {
    /// Reads and checks a file.
    pub fn load(file: &Path) -> Result<Self, Problems> {
        let text = infile::read_text(file).map_err(|e| {
            let text = format!("cannot be read: {e}");
            Problems(vec![Problem { file: file.to_owned(), line: None, text }])
        })?;
        Self::parse(file, &text)
    }

    /// Checks a file's text.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Problems> {
        let mut document = Document::parse(file, text);
        let is_toml = !document.problems.iter().any(|problem| problem.text.starts_with("not valid TOML"));
        if is_toml {
            document.require();
            together(&mut document);
        }
        if document.problems.is_empty()
            && let Some(settings) = build(file, &document)
        {
            return Ok(settings);
        }
        if document.problems.is_empty() {
            document.problem(
                None,
                "the table of settings and its reader disagree: this is a defect of Understudy",
            );
        }
        let mut problems = document.problems;
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        Err(Problems(problems))
    }

    /// Something found wrong later, with the line of the key that it is about.
    pub fn problem(&self, row: &t::Row, text: impl Into<String>) -> Problem {
        Problem { file: self.file.clone(), line: self.lines.get(row.path).copied(), text: text.into() }
    }

    /// The SQLite file with the decisions and the journal.
    pub fn store(&self) -> PathBuf {
        self.state_dir.join("state.sqlite")
    }

    /// The monitor's password, from wherever it is.
    pub fn password(&self) -> Result<String, Problem> {
        password::MONITOR.read(self, &self.monitor.password)
    }

    /// The password of the account that replays on standbys; `None` when none is warmed.
    pub fn warm_password(&self) -> Result<Option<String>, Problem> {
        let Some(warm) = &self.warm else { return Ok(None) };
        password::WARM.read(self, &warm.password).map(Some)
    }

    /// How the streamers are asked: by the files that `[warm]` names.
    pub fn stream_access(&self, warm: &warm::Warm) -> Result<Access, Problem> {
        let access = Access::of_files(warm.stream_key_file.as_deref(), warm.stream_ca_file.as_deref());
        let row = if warm.stream_key_file.is_some() { &t::WARM_STREAM_KEY_FILE } else { &t::WARM_STREAM_CA };
        access.map_err(|error| self.problem(row, error.to_string()))
    }

    /// The account that replicas log in with, and its password, from wherever it is.
    pub fn replication_account(&self) -> Result<Option<manager::Account>, Problem> {
        let Some(replication) = &self.replication else { return Ok(None) };
        let password = password::REPLICATION.read(self, &replication.password)?;
        Ok(Some(manager::Account { user: replication.user.clone(), password: manager::Password(password) }))
    }
}

/// What can only be seen by looking at several keys.
fn together(document: &mut Document) {
    let count = document.nodes().len();
    if count == 0 {
        document.problem(None, "there is no node: write [[cluster.node]] with name and address for each");
    }
    if count > 64 {
        document.problem(None, format!("there are {count} nodes; 64 are allowed"));
    }
    unique(document, &t::NODE_NAME);
    unique(document, &t::NODE_ADDRESS);

    password::MONITOR.check(document);
    warm::check(document);
    // A misspelled kind or manager is one mistake: what fits neither is not to be taken for a second one.
    if !document.is_wrong(&t::CLUSTER_KIND) && !document.is_wrong(&t::CLUSTER_MANAGER) {
        fits_kind(document);
    }
    ports::check(document);
    match (document.has(&t::API_CERTIFICATE), document.has(&t::API_CERTIFICATE_KEY)) {
        (true, false) => document.problem(
            document.line(t::API_CERTIFICATE.path),
            "api.certificate_file is set without api.certificate_key_file: set both, or neither",
        ),
        (false, true) => document.problem(
            document.line(t::API_CERTIFICATE_KEY.path),
            "api.certificate_key_file is set without api.certificate_file: set both, or neither",
        ),
        _ => {}
    }
    if let Some(Value::Text(level)) = document.value(&t::LOG_LEVEL)
        && !is_filter(&level)
    {
        let line = document.line(t::LOG_LEVEL.path);
        document.problem(
            line,
            format!("log.level {level:?} is none: it must be off, error, warn, info, debug or trace"),
        );
    }
    if document.value(&t::LISTEN_MYSQL) == Some(Value::List(Vec::new())) {
        let line = document.line(t::LISTEN_MYSQL.path);
        document.problem(line, "listen.mysql is an empty list: applications need at least one address");
    }
}

/// Settings of another kind of cluster would do nothing: whoever wrote them expects something of them.
fn fits_kind(document: &mut Document) {
    let is_replication = document.value(&t::CLUSTER_KIND) == Some(Value::Text("replication".into()));
    let is_external = is_external(document);
    if is_external && !is_replication {
        let text = "cluster.manager = \"external\" is for cluster.kind = \"replication\" only: take it out";
        document.problem(document.line(t::CLUSTER_MANAGER.path), text);
    }
    if !is_replication || is_external {
        let others = [&t::REPLICATION_USER, &t::REPLICATION_FAILOVER, &t::REPLICATION_GAP];
        let rows = password::REPLICATION.all().into_iter().chain(others);
        for row in rows.filter(|row| document.has(row)).collect::<Vec<_>>() {
            let with = if is_replication {
                "cluster.manager = \"understudy\""
            } else {
                "cluster.kind = \"replication\""
            };
            let text = format!("{} is for {with} only: take it out", row.path);
            document.problem(document.line(row.path), text);
        }
    }
    let is_split = document.value(&t::LISTEN_SPLIT) == Some(Value::Switch(true));
    if is_split && !is_replication {
        let text = "listen.split is for cluster.kind = \"replication\" only: with Galera no node can be told to wait for what this one \
                    session has written; use listen.read for what only reads, or take it out";
        document.problem(document.line(t::LISTEN_SPLIT.path), text);
    }
    if !is_split && document.has(&t::READ_SPLIT_WAIT) {
        let text =
            "read.split_wait_ms means something with listen.split = true only: set that, or take it out";
        document.problem(document.line(t::READ_SPLIT_WAIT.path), text);
    }
    if !is_replication {
        let is_proven = document.value(&t::CLUSTER_BOOTSTRAP) == Some(Value::Text("proven".into()));
        if is_proven && !document.has(&t::CLUSTER_PROOF_COMMAND) {
            let text = "cluster.bootstrap is \"proven\", and cluster.proof_command is missing: without it no death can be proven";
            document.problem(document.line(t::CLUSTER_BOOTSTRAP.path), text);
        }
        return;
    }
    for row in [
        &t::MONITOR_EVICT,
        &t::MONITOR_SILENT,
        &t::MONITOR_STOP_GRACE,
        &t::CLUSTER_BOOTSTRAP,
        &t::CLUSTER_PROOF_COMMAND,
        &t::CLUSTER_PROOF_DEADLINE,
    ] {
        if document.has(row) {
            let text =
                format!("{} is for Galera only, and cluster.kind is \"replication\": take it out", row.path);
            document.problem(document.line(row.path), text);
        }
    }
    if document.value(&t::CLUSTER_WRITERS) == Some(Value::Text("all".into())) {
        let text =
            "cluster.writers is \"all\", which is for Galera only: a primary with replicas has one writer";
        document.problem(document.line(t::CLUSTER_WRITERS.path), text);
    }
    if document.has(&t::REPLICATION_USER) {
        password::REPLICATION.check(document);
    } else if !is_external {
        let text = "cluster.replication.user is missing: with cluster.kind = \"replication\" the account that replicas log in with at \
                    the primary must be given";
        document.problem(document.line(t::CLUSTER_KIND.path), text);
    }
}

fn is_external(document: &Document) -> bool {
    document.value(&t::CLUSTER_MANAGER) == Some(Value::Text("external".into()))
}

fn unique(document: &mut Document, row: &t::Row) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for node in 0..document.nodes().len() {
        let (Some(Value::Text(text)), Some(line)) =
            (document.node_value(node, row), document.line(&node_path(node, row)))
        else {
            continue;
        };
        match seen.get(&text) {
            Some(first) => {
                let text = format!(
                    "{} \"{text}\" is already used on line {first}: each node needs its own",
                    row.path
                );
                document.problem(Some(line), text);
            }
            None => {
                seen.insert(text, line);
            }
        }
    }
}

/// The typed settings. `None` only when a row's kind and its use here disagree, which a test rules out.
fn build(file: &Path, document: &Document) -> Option<Settings> {
    let get = |row| Getter(document.value(row));
    let base = file.parent().unwrap_or(Path::new(""));
    let path = |row| Some(base.join(get(row).text()?));
    let optional = |row: &'static t::Row| if document.has(row) { path(row).map(Some) } else { Some(None) };

    let nodes = document.nodes().iter().enumerate().map(|(i, &line)| {
        let get = |row| Getter(document.node_value(i, row));
        Some(Node {
            name: get(&t::NODE_NAME).text()?,
            address: get(&t::NODE_ADDRESS).text()?,
            priority: get(&t::NODE_PRIORITY).number()?,
            line,
        })
    });
    let replication = if document.has(&t::REPLICATION_USER) {
        let answer = get(&t::REPLICATION_FAILOVER).text()?;
        Some(Replication {
            user: get(&t::REPLICATION_USER).text()?,
            password: password::REPLICATION.source(document, base)?,
            loss: topology::replication::Settings {
                failover: if answer == "manual" { FailoverPolicy::Manual } else { FailoverPolicy::Automatic },
                failover_gap: get(&t::REPLICATION_GAP).millis()?,
                dry_run: answer == "dry_run",
                ..topology::replication::Settings::default()
            },
        })
    } else {
        None
    };
    let state_dir = path(&t::STATE_DIR)?;
    let key_file = optional(&t::API_KEY_FILE)?;
    let certificate = match (optional(&t::API_CERTIFICATE)?, optional(&t::API_CERTIFICATE_KEY)?) {
        (Some(certificate), Some(key)) => Some(web::certificate::Pair { certificate, key }),
        _ => None,
    };
    Some(Settings {
        file: file.to_owned(),
        name: get(&t::CLUSTER_NAME).text()?,
        id: get(&t::CLUSTER_ID).number()?,
        kind: match get(&t::CLUSTER_KIND).text()?.as_str() {
            "galera" => Kind::Galera,
            "replication" => Kind::Replication,
            _ => return None,
        },
        bootstrap: Bootstrap {
            policy: match get(&t::CLUSTER_BOOTSTRAP).text()?.as_str() {
                "never" => BootstrapPolicy::Never,
                "proven" => BootstrapPolicy::Proven,
                _ => return None,
            },
            proof_command: match document.value(&t::CLUSTER_PROOF_COMMAND) {
                Some(Value::Text(command)) => Some(command),
                _ => None,
            },
            proof_deadline: get(&t::CLUSTER_PROOF_DEADLINE).millis()?,
        },
        writers: match get(&t::CLUSTER_WRITERS).text()?.as_str() {
            "one" => Writers::One,
            "all" => Writers::All,
            _ => return None,
        },
        manager: if is_external(document) { Manager::External } else { Manager::Understudy },
        nodes: nodes.collect::<Option<_>>()?,
        monitor: Monitor {
            user: get(&t::MONITOR_USER).text()?,
            password: password::MONITOR.source(document, base)?,
            interval: get(&t::MONITOR_INTERVAL).millis()?,
            misses_max: get(&t::MONITOR_MISSES).number()?,
            events: get(&t::MONITOR_DETECT).text()? == "events",
            evict: match get(&t::MONITOR_EVICT).text()?.as_str() {
                "proven" => EvictPolicy::Proven,
                "silent" => EvictPolicy::Silent,
                "never" => EvictPolicy::Never,
                _ => return None,
            },
            silent: match get(&t::MONITOR_SILENT).text()?.as_str() {
                "hurry" => SilencePolicy::Hurry,
                "wait" => SilencePolicy::Wait,
                _ => return None,
            },
            stop_grace: get(&t::MONITOR_STOP_GRACE).millis()?,
            heartbeat: topology::heartbeat::Settings {
                interval: get(&t::HEARTBEAT_INTERVAL).millis()?,
                schema: get(&t::HEARTBEAT_SCHEMA).text()?,
                stuck_max: get(&t::HEARTBEAT_STUCK).millis()?,
            },
        },
        replication,
        listen: Listen {
            mysql: get(&t::LISTEN_MYSQL).list()?,
            http: get(&t::LISTEN_HTTP).list()?,
            https: get(&t::LISTEN_HTTPS).list()?,
            health: get(&t::LISTEN_HEALTH).list()?,
            agent: get(&t::LISTEN_AGENT).list()?,
            read: get(&t::LISTEN_READ).list()?,
            split: get(&t::LISTEN_SPLIT).switch()?,
        },
        reads: topology::reads::Settings {
            on: get(&t::LISTEN_READ).list()? != Vec::<String>::new() || get(&t::LISTEN_SPLIT).switch()?,
            lag_max: get(&t::READ_LAG_MAX).millis()?,
            fallback: get(&t::READ_FALLBACK).text()? == "primary",
        },
        split_wait: get(&t::READ_SPLIT_WAIT).millis()?,
        hold: Hold {
            time: get(&t::HOLD_TIME).millis()?,
            statements_max: get(&t::HOLD_STATEMENTS).number()?,
            bytes_max: get(&t::HOLD_BYTES).number()?,
            release_at_once: get(&t::HOLD_RELEASE).number()?,
        },
        budget: get(&t::SWITCHOVER_BUDGET).millis()?,
        proxy: Proxy {
            connect_timeout: get(&t::PROXY_CONNECT_TIMEOUT).millis()?,
            login_timeout: get(&t::PROXY_LOGIN_TIMEOUT).millis()?,
            client_idle_max: get(&t::PROXY_CLIENT_IDLE).millis()?,
            retain_bytes_max: get(&t::PROXY_RETAIN).number()?,
            resends_max: get(&t::PROXY_RESENDS).number()?,
            suspect_time: get(&t::PROXY_SUSPECT).millis()?,
            password_errors_max: get(&t::PROXY_PASSWORD_ERRORS).number()?,
            password_error_pause: get(&t::PROXY_PASSWORD_PAUSE).millis()?,
            client_connections_max: get(&t::PROXY_CLIENTS).number()?,
            shutdown_grace: get(&t::PROXY_SHUTDOWN_GRACE).millis()?,
        },
        api: Api {
            key_is_ours: key_file.is_none(),
            key_file: key_file.unwrap_or_else(|| state_dir.join("api.key")),
            certificate,
        },
        warm: warm::build(document, base)?,
        log_level: get(&t::LOG_LEVEL).text()?,
        state_dir,
        values: difference::Values::of(document),
        lines: t::TABLE.iter().filter_map(|row| Some((row.path, document.line(row.path)?))).collect(),
    })
}

/// A value on its way to its type.
struct Getter(Option<Value>);

impl Getter {
    fn text(self) -> Option<String> {
        match self.0 {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn list(self) -> Option<Vec<String>> {
        match self.0 {
            Some(Value::List(list)) => Some(list),
            _ => None,
        }
    }

    fn switch(self) -> Option<bool> {
        match self.0 {
            Some(Value::Switch(is_on)) => Some(is_on),
            _ => None,
        }
    }

    fn number<T: TryFrom<u64>>(self) -> Option<T> {
        match self.0 {
            Some(Value::Number(number)) => T::try_from(number).ok(),
            _ => None,
        }
    }

    fn millis(self) -> Option<Duration> {
        self.number().map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests;
