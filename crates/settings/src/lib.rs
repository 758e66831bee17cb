//! The configuration: one file, one table of what may stand in it, and [`Settings`], from which each setting is read by its row.
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
mod value;
mod warm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use link::{Codec, Login, ProxyHeader, ServerTls};

use document::{Document, base, path_at};
use password::{Account, PasswordRows, PasswordSource};
use problem::{Problem, Problems};
use table::{self as t, Setting};
use topology::kind::Kind;
use topology::replication::{FailoverPolicy, Manager};
use topology::settings::{BootstrapPolicy, Writers};
use value::Read;
use warmup::access::Access;
use web::certificate::Pair;

use cli::foreground::is_filter;

/// Where the configuration is looked for when nobody says.
pub const PLACES: [&str; 2] = ["understudy.toml", "/etc/understudy/understudy.toml"];

/// A configuration that is right in itself. Whether the world agrees is what `serve --check` finds out. The fields are what several settings say
/// together, and what nearly everybody asks for; each other setting is read by its row, with [`Settings::get`].
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
    /// One writer, or all.
    pub writers: Writers,
    /// Who moves the primary.
    pub manager: Manager,
    /// The nodes, in the file's order.
    pub nodes: Vec<Node>,
    /// For probes and orders.
    pub monitor: Account,
    /// That replicas log in with at the primary; `None` with another kind, and where another manager moves the primary.
    pub replication: Option<Account>,
    /// That replays on the standbys; `None`: they are not warmed.
    pub warm: Option<Account>,
    /// Of the proxy's clients, those that sign; each with the line where it begins.
    pub clients: Vec<(Account, usize)>,
    /// The API's files.
    pub api: Api,
    /// A given certificate for clients of the database, and its key.
    pub client_certificate: Option<Pair>,
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

/// The API's files.
#[derive(Clone, Debug)]
pub struct Api {
    /// The key.
    pub key_file: PathBuf,
    /// Whether the key may be made at first start: only when its place was not given.
    pub key_is_ours: bool,
    /// A given certificate and its key.
    pub certificate: Option<Pair>,
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
        if document.problems.is_empty() {
            return Ok(Self::of(file, &document));
        }
        let mut problems = document.problems;
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        Err(Problems(problems))
    }

    fn of(file: &Path, document: &Document) -> Self {
        let node = |(place, line): (usize, &usize)| Node {
            name: document.node_get(place, &t::NODE_NAME),
            address: document.node_get(place, &t::NODE_ADDRESS),
            priority: document.node_get(place, &t::NODE_PRIORITY),
            line: *line,
        };
        let account = |rows: &PasswordRows| rows.is_used(document).then(|| rows.account(document, None));
        let clients = document.entries(&t::PROXY_ACCOUNT_USER).iter().enumerate();
        let client =
            |(place, line): (usize, &usize)| (password::CLIENTS.account(document, Some(place)), *line);
        let state_dir = document.get(&t::STATE_DIR);
        let key_file = document.get(&t::API_KEY_FILE);
        let pair = |certificate: &Setting<Option<PathBuf>>, key: &Setting<Option<PathBuf>>| {
            let (certificate, key) = document.get(certificate).zip(document.get(key))?;
            Some(Pair { certificate, key })
        };
        Self {
            file: file.to_owned(),
            name: document.get(&t::CLUSTER_NAME),
            id: document.get(&t::CLUSTER_ID),
            kind: document.get(&t::CLUSTER_KIND),
            writers: document.get(&t::CLUSTER_WRITERS),
            manager: document.get(&t::CLUSTER_MANAGER),
            nodes: document.nodes().iter().enumerate().map(node).collect(),
            monitor: password::MONITOR.account(document, None),
            replication: account(&password::REPLICATION),
            warm: account(&password::WARM),
            clients: clients.map(client).collect(),
            api: Api {
                key_is_ours: key_file.is_none(),
                key_file: key_file.unwrap_or_else(|| state_dir.join("api.key")),
                certificate: pair(&t::API_CERTIFICATE, &t::API_CERTIFICATE_KEY),
            },
            client_certificate: pair(&t::LISTEN_TLS_CERTIFICATE, &t::LISTEN_TLS_KEY),
            state_dir,
            values: difference::Values::of(document),
            lines: t::TABLE.iter().filter_map(|row| Some((row.path, document.line(row.path)?))).collect(),
        }
    }

    /// What the file says of a setting, or its default. Those of nodes are in `nodes`.
    pub fn get<T: Read>(&self, setting: &Setting<T>) -> T {
        T::read(self.values.of_row(setting), base(&self.file))
    }

    /// How the loss of a primary is answered.
    pub fn loss(&self) -> topology::replication::Settings {
        let answer = self.get(&t::REPLICATION_FAILOVER);
        topology::replication::Settings {
            failover: if answer == "manual" { FailoverPolicy::Manual } else { FailoverPolicy::Automatic },
            failover_gap: self.get(&t::REPLICATION_GAP),
            dry_run: answer == "dry_run",
            manager: self.manager,
            ..topology::replication::Settings::default()
        }
    }

    /// How the port for reads, and the split of reads, choose.
    pub fn reads(&self) -> topology::reads::Settings {
        topology::reads::Settings {
            on: !self.get(&t::LISTEN_READ).is_empty() || self.get(&t::LISTEN_SPLIT),
            lag_max: self.get(&t::READ_LAG_MAX),
            fallback: self.get(&t::READ_FALLBACK) == "primary",
        }
    }

    /// Whether more than missed answers counts as a sign of a node's loss.
    pub fn follows_events(&self) -> bool {
        self.get(&t::MONITOR_DETECT) == "events"
    }

    /// Whether standbys are warmed with what the proxy's clients ask, and not from a slow log.
    pub fn warms_from_proxy(&self) -> bool {
        self.get(&t::WARM_SOURCE) == "proxy"
    }

    /// Something found wrong later, with the line of the key that it is about.
    pub fn problem(&self, row: &t::Row, text: impl Into<String>) -> Problem {
        Problem { file: self.file.clone(), line: self.lines.get(row.path).copied(), text: text.into() }
    }

    /// The SQLite file with the decisions and the journal.
    pub fn store(&self) -> PathBuf {
        self.state_dir.join("state.sqlite")
    }

    /// `listen.read_tls`, or what it is when it is not set.
    pub fn tls_for_reads(&self) -> String {
        self.get(&t::LISTEN_READ_TLS).unwrap_or_else(|| self.get(&t::LISTEN_TLS))
    }

    /// The environment's variables in which passwords are.
    pub fn password_variables(&self) -> Vec<String> {
        let own = [Some(&self.monitor), self.replication.as_ref(), self.warm.as_ref()];
        let all = own.into_iter().flatten().chain(self.clients.iter().map(|(account, _)| account));
        let variable = |account: &Account| match &account.password {
            PasswordSource::Env(name) => Some(name.clone()),
            PasswordSource::Given(_) | PasswordSource::File(_) => None,
        };
        all.filter_map(variable).collect()
    }

    fn read_password(&self, rows: &PasswordRows, source: &PasswordSource) -> Result<String, Problem> {
        rows.read(source).map_err(|(row, text)| self.problem(row, text))
    }

    /// How nodes are told of a client's address; `None`: they are not.
    pub fn node_proxy_header(&self) -> Option<ProxyHeader> {
        match &*self.get(&t::CLUSTER_PROXY_HEADER) {
            "v1" => Some(ProxyHeader::V1),
            "v2" => Some(ProxyHeader::V2),
            _ => None,
        }
    }

    /// How packets between the nodes and the clients' sessions are compressed; `None`: they are not.
    pub fn node_compression(&self) -> Option<Codec> {
        match &*self.get(&t::CLUSTER_COMPRESSION) {
            "zlib" => Some(Codec::Zlib),
            "zstd" => Some(Codec::Zstd { level: self.get(&t::CLUSTER_COMPRESSION_LEVEL) }),
            _ => None,
        }
    }

    /// How the nodes are connected to; `None`: plain.
    pub fn node_tls(&self) -> Result<Option<ServerTls>, Problem> {
        let tls = match &*self.get(&t::CLUSTER_TLS) {
            "required" => ServerTls::with_any_certificate()
                .map_err(|why| self.problem(&t::CLUSTER_TLS, format!("cluster.tls = \"required\" {why}"))),
            "verified" => {
                let path = self.get(&t::CLUSTER_TLS_CA).unwrap_or_default();
                let of_file = |why: String| {
                    self.problem(&t::CLUSTER_TLS_CA, format!("cluster.tls_ca_file {} {why}", path.display()))
                };
                let pem = infile::read(&path).map_err(|error| of_file(format!("cannot be read: {error}")))?;
                ServerTls::trusting(&pem).map_err(of_file)
            }
            _ => return Ok(None),
        }?;
        let (Some(chain), Some(key)) = (self.get(&t::CLUSTER_TLS_CERTIFICATE), self.get(&t::CLUSTER_TLS_KEY))
        else {
            return Ok(Some(tls));
        };
        let of_files = |why: String| {
            let text = format!(
                "cluster.tls_certificate_file {}, cluster.tls_key_file {}: {why}",
                chain.display(),
                key.display()
            );
            self.problem(&t::CLUSTER_TLS_CERTIFICATE, text)
        };
        let read = |path: &Path| {
            infile::read(path)
                .map_err(|error| of_files(format!("{} cannot be read: {error}", path.display())))
        };
        tls.showing(&read(&chain)?, &read(&key)?).map(Some).map_err(of_files)
    }

    fn node_account(&self, rows: &PasswordRows, account: &Account) -> Result<manager::Account, Problem> {
        let password = self.read_password(rows, &account.password)?.into();
        Ok(manager::Account { user: account.user.clone(), password, tls: self.node_tls()? })
    }

    /// The account for probes and orders, its password read from wherever it is.
    pub fn monitor_account(&self) -> Result<manager::Account, Problem> {
        self.node_account(&password::MONITOR, &self.monitor)
    }

    /// How it logs in at a node.
    pub fn monitor_login(&self) -> Result<Login, Problem> {
        self.monitor_account().map(|account| account.login())
    }

    /// The account that replays on standbys; `None` when none is warmed.
    pub fn warm_account(&self) -> Result<Option<manager::Account>, Problem> {
        self.warm.as_ref().map(|warm| self.node_account(&password::WARM, warm)).transpose()
    }

    /// The accounts of the proxy's clients that sign, in the file's order.
    pub fn client_accounts(&self) -> Result<Vec<manager::Account>, Problem> {
        let read = |(account, line): &(Account, usize)| {
            let account = self.node_account(&password::CLIENTS, account);
            account.map_err(|problem| Problem { line: problem.line.or(Some(*line)), ..problem })
        };
        self.clients.iter().map(read).collect()
    }

    /// How the streamers are asked: by the files that `[warm]` names.
    pub fn stream_access(&self) -> Result<Access, Problem> {
        let (key, authority) = (self.get(&t::WARM_STREAM_KEY_FILE), self.get(&t::WARM_STREAM_CA));
        let access = Access::of_files(key.as_deref(), authority.as_deref());
        let row = if key.is_some() { &t::WARM_STREAM_KEY_FILE } else { &t::WARM_STREAM_CA };
        access.map_err(|error| self.problem(row, error.to_string()))
    }

    /// The account that replicas log in with; `None` where Understudy does not move the primary.
    pub fn replication_account(&self) -> Result<Option<manager::Account>, Problem> {
        let account = self.replication.as_ref();
        account.map(|account| self.node_account(&password::REPLICATION, account)).transpose()
    }
}

/// A certificate is of no use without its key, nor a key without its certificate.
fn both(document: &mut Document, certificate: &t::Row, key: &t::Row) {
    let (set, missing) = match (document.has(certificate), document.has(key)) {
        (true, false) => (certificate, key),
        (false, true) => (key, certificate),
        _ => return,
    };
    document.problem(
        document.line(set.path),
        format!("{} is set without {}: set both, or neither", set.path, missing.path),
    );
}

/// Certificates of nodes are looked at with "verified" only, and then there must be something that they are held against.
fn node_tls(document: &mut Document) {
    if document.is_wrong(&t::CLUSTER_TLS) {
        return;
    }
    let is_verified = document.get(&t::CLUSTER_TLS) == "verified";
    if is_verified && !document.has(&t::CLUSTER_TLS_CA) {
        let text = "cluster.tls is \"verified\", and cluster.tls_ca_file is missing: name the file of the authority that signed the \
                    nodes' certificates";
        document.problem(document.line(t::CLUSTER_TLS.path), text);
    } else if !is_verified && document.has(&t::CLUSTER_TLS_CA) {
        let text = "cluster.tls_ca_file means something with cluster.tls = \"verified\" only: set that, or take it out";
        document.problem(document.line(t::CLUSTER_TLS_CA.path), text);
    }
    if document.get(&t::CLUSTER_TLS) == "off" && document.has(&t::CLUSTER_TLS_CERTIFICATE) {
        let text = "cluster.tls_certificate_file is shown under TLS only, and cluster.tls is \"off\": set that, or take it out";
        document.problem(document.line(t::CLUSTER_TLS_CERTIFICATE.path), text);
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

    password::MONITOR.check(document, None);
    for place in 0..document.entries(&t::PROXY_ACCOUNT_USER).len() {
        password::CLIENTS.check(document, Some(place));
    }
    warm::check(document);
    // A misspelled kind or manager is one mistake: what fits neither is not to be taken for a second one.
    if !document.is_wrong(&t::CLUSTER_KIND) && !document.is_wrong(&t::CLUSTER_MANAGER) {
        fits_kind(document);
    }
    ports::check(document);
    both(document, &t::API_CERTIFICATE, &t::API_CERTIFICATE_KEY);
    both(document, &t::LISTEN_TLS_CERTIFICATE, &t::LISTEN_TLS_KEY);
    both(document, &t::CLUSTER_TLS_CERTIFICATE, &t::CLUSTER_TLS_KEY);
    node_tls(document);
    if document.get(&t::CLUSTER_COMPRESSION) != "zstd" && document.has(&t::CLUSTER_COMPRESSION_LEVEL) {
        let text = "cluster.compression_level means something with cluster.compression = \"zstd\" only: set that, or take it out";
        document.problem(document.line(t::CLUSTER_COMPRESSION_LEVEL.path), text);
    }
    let level = document.get(&t::LOG_LEVEL);
    if !is_filter(&level) {
        let line = document.line(t::LOG_LEVEL.path);
        document.problem(
            line,
            format!("log.level {level:?} is none: it must be off, error, warn, info, debug or trace"),
        );
    }
    if document.get(&t::LISTEN_MYSQL).is_empty() {
        let line = document.line(t::LISTEN_MYSQL.path);
        document.problem(line, "listen.mysql is an empty list: applications need at least one address");
    }
}

/// Settings of another kind of cluster would do nothing: whoever wrote them expects something of them.
fn fits_kind(document: &mut Document) {
    let is_replication = document.get(&t::CLUSTER_KIND) == Kind::Replication;
    let is_external = document.get(&t::CLUSTER_MANAGER) == Manager::External;
    if is_external && !is_replication {
        let text = "cluster.manager = \"external\" is for cluster.kind = \"replication\" only: take it out";
        document.problem(document.line(t::CLUSTER_MANAGER.path), text);
    }
    if !is_replication || is_external {
        let others = [&t::REPLICATION_USER.row, &t::REPLICATION_FAILOVER.row, &t::REPLICATION_GAP.row];
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
    let is_split = document.get(&t::LISTEN_SPLIT);
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
        let is_proven = document.get(&t::CLUSTER_BOOTSTRAP) == BootstrapPolicy::Proven;
        if is_proven && !document.has(&t::CLUSTER_PROOF_COMMAND) {
            let text = "cluster.bootstrap is \"proven\", and cluster.proof_command is missing: without it no death can be proven";
            document.problem(document.line(t::CLUSTER_BOOTSTRAP.path), text);
        }
        return;
    }
    for row in [
        &t::MONITOR_EVICT.row,
        &t::MONITOR_SILENT.row,
        &t::MONITOR_STOP_GRACE.row,
        &t::CLUSTER_BOOTSTRAP.row,
        &t::CLUSTER_PROOF_COMMAND.row,
        &t::CLUSTER_PROOF_DEADLINE.row,
    ] {
        if document.has(row) {
            let text =
                format!("{} is for Galera only, and cluster.kind is \"replication\": take it out", row.path);
            document.problem(document.line(row.path), text);
        }
    }
    if document.get(&t::CLUSTER_WRITERS) == Writers::All {
        let text =
            "cluster.writers is \"all\", which is for Galera only: a primary with replicas has one writer";
        document.problem(document.line(t::CLUSTER_WRITERS.path), text);
    }
    if document.has(&t::REPLICATION_USER) {
        password::REPLICATION.check(document, None);
    } else if !is_external {
        let text = "cluster.replication.user is missing: with cluster.kind = \"replication\" the account that replicas log in with at \
                    the primary must be given";
        document.problem(document.line(t::CLUSTER_KIND.path), text);
    }
}

fn unique(document: &mut Document, row: &Setting<String>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for node in 0..document.nodes().len() {
        let Some(line) = document.line(&path_at(Some(node), row)) else { continue };
        let text = document.node_get(node, row);
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

#[cfg(test)]
mod tests;
