//! `understudy serve --check`: tries everything the configuration names and serves nothing.
//!
//! Each line is one thing tried: `ok`; `WARN`, which is allowed and hardly meant; or `WRONG`, with the line of the key and the way out. Exit
//! code 0 when nothing is wrong, 2 when the configuration or a file it names is, 1 when it is a node or a port that is not as it should be.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use topology::kind::Kind;

use super::signers::Found;
use super::warnings::NotMade;
use doctor::servers;

use super::{first_start, ports, signers, warm, warnings};
use cli::exit::CommandResult;
use doctor::judge::two_clusters;
use doctor::read::{self, MissingPrivilege};
use doctor::{asked, proof};
use link::{Link, LinkError, Login, ProxyHeader};
use settings::{Settings, table as t};

/// The longest that a node may take to answer a login that begins with a PROXY header: one that does not know it waits for more.
const HEADER_WAIT: Duration = Duration::from_secs(5);

/// What came of one thing.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// As it should be.
    Ok,
    /// Allowed, and hardly meant.
    Warning,
    /// `serve` would not start, or could not do its work.
    Wrong,
}

/// One thing that was tried.
#[derive(Serialize)]
struct Finding {
    level: Level,
    text: String,
}

/// What has been tried.
#[derive(Default)]
struct Tried {
    /// All results are printed at the end, for programs; otherwise each when it is known.
    is_json: bool,
    results: Vec<Finding>,
    file_wrong: bool,
    world_wrong: bool,
}

/// Tries, and prints as it goes; with `is_json` at the end.
pub fn run(settings: &Settings, is_json: bool) -> CommandResult {
    let mut tried = Tried { is_json, ..Tried::default() };
    let count = settings.nodes.len();
    tried.ok(&format!("{}: cluster {}, {count} nodes", settings.file.display(), settings.name));
    files(settings, &mut tried);
    for (row, list, opened) in &ports::try_all(settings) {
        match opened {
            Ok(_) => tried.ok(&format!("{} {} can be listened on", row.path, list.join(" "))),
            Err(problem) => tried.wrong_world(&problem.to_string()),
        }
    }
    match settings.monitor_login() {
        Ok(monitor) => {
            tried.ok("the monitor's password can be read");
            match settings.replication_account() {
                Ok(None) if settings.kind == Kind::Galera => nodes(settings, &monitor, &mut tried)?,
                Ok(None) => servers(settings, &monitor, None, &mut tried)?,
                Ok(Some(account)) => {
                    tried.ok("the password that replicas log in with can be read");
                    servers(settings, &monitor, Some(&account), &mut tried)?;
                }
                Err(problem) => tried.wrong_file(&problem.to_string()),
            }
            proxy_headers(settings, &monitor, &mut tried)?;
            match cli::runtime::start()?.block_on(signers::all(settings, &monitor)) {
                Ok(found) => found.into_iter().for_each(|found| match found {
                    Found::Well(well) => tried.ok(&well),
                    Found::Needless(problem) => tried.warning(&problem.to_string()),
                    Found::Shut(problem) => tried.wrong_world(&problem.to_string()),
                }),
                Err(problem) => tried.wrong_file(&problem.to_string()),
            }
        }
        Err(problem) => tried.wrong_file(&problem.to_string()),
    }
    standbys(settings, &mut tried)?;
    for problem in warnings::exposed_secrets(settings).into_iter().chain(warnings::clear_api(settings)) {
        tried.warning(&problem.to_string());
    }
    if tried.is_json {
        println!("{:#}", serde_json::json!({ "file": settings.file, "results": tried.results }));
    }
    Ok(match (tried.file_wrong, tried.world_wrong) {
        (true, _) => ExitCode::from(2),
        (_, true) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

fn files(settings: &Settings, tried: &mut Tried) {
    let state = &settings.state_dir;
    if state.is_dir() {
        // Only a real file shows that one can be made: the mode bits do not know of read-only mounts and capabilities.
        let probe = state.join(format!(".check-{}", std::process::id()));
        match std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
            Ok(()) => tried.ok(&format!("state directory {} can be written", state.display())),
            Err(e) => {
                let text = format!("state.dir {} cannot be written: {e}", state.display());
                tried.wrong_file(&settings.problem(&t::STATE_DIR, text).to_string());
            }
        }
    } else {
        let told = |why| {
            let text = format!("state.dir {} cannot be made: {why}", state.display());
            settings.problem(&t::STATE_DIR, text).to_string()
        };
        match warnings::can_be_made(state) {
            Ok(()) => tried.ok(&format!("state directory {} will be made at first start", state.display())),
            Err(NotMade::Denied(why)) => tried.warning(&told(why)),
            Err(NotMade::Impossible(why)) => tried.wrong_file(&told(why)),
        }
    }
    if settings.api.key_is_ours && !settings.api.key_file.exists() {
        tried.ok(&format!("API key {} will be made at first start", settings.api.key_file.display()));
    } else {
        match first_start::key(settings) {
            Ok(key) => {
                tried.ok(&format!("API key {} can be read", settings.api.key_file.display()));
                if let Err(e) = first_start::reader_key(settings, &key) {
                    tried.wrong_file(&e.to_string());
                }
            }
            Err(e) => tried.wrong_file(&e.to_string()),
        }
    }
    for listener in [first_start::API, first_start::CLIENTS] {
        let Some(pair) = (listener.given)(settings) else { continue };
        match listener.with(settings, pair) {
            Ok(_) => tried.ok(&format!("certificate {} and its key fit", pair.certificate.display())),
            Err(problem) => tried.wrong_file(&problem.to_string()),
        }
    }
}

fn nodes(settings: &Settings, monitor: &Login, tried: &mut Tried) -> Result<(), cli::exit::Failure> {
    let runtime = cli::runtime::start()?;
    // Before the nodes are asked, which may have gone on since it was written.
    let known = manager::remembered(&settings.store());
    let facts = runtime.block_on(read::all(settings, monitor));
    let seen = facts.iter().filter_map(|node| node.said.as_ref().ok()?.cluster_size).max();
    if let Some(few) = warnings::few_members(settings, seen.map(|count| count as usize)) {
        tried.warning(&few);
    }
    if let Some(two) = two_clusters(&facts, known.as_ref()) {
        tried.wrong_world(&format!("{}: {}; {}", two.nodes.join(", "), two.what, two.because));
    }
    let answering = facts.iter().filter(|node| node.said.is_ok());
    let answering = answering.map(|node| (node.name.clone(), node.address.clone())).collect();
    for tried_on in runtime.block_on(proof::all(settings, answering)) {
        match tried_on.verdict {
            Ok(well) => tried.ok(&well),
            Err(why) => {
                let problem = settings.problem(&t::CLUSTER_PROOF_COMMAND, why);
                tried.wrong_world(&problem.to_string());
            }
        }
    }
    for (node, facts) in settings.nodes.iter().zip(facts) {
        let place =
            format!("{}:{}: node {} ({})", settings.file.display(), node.line, node.name, node.address);
        match facts.said {
            Err(why) => tried.wrong_world(&format!("{place}: {why}")),
            Ok(said) if !said.wsrep_on => tried.wrong_world(&format!(
                "{place}: it is reached and is no Galera node (wsrep_on is OFF): set wsrep_on=ON there, or take it out of the configuration, or set cluster.kind = \"replication\" for a primary and its replicas"
            )),
            Ok(said) => {
                tried.ok(&format!("node {} ({}) is reached: {}, {}", node.name, node.address, said.version, said.state));
                if !said.lacks.is_empty() {
                    let (lacks, why) = (MissingPrivilege::privileges(&said.lacks), MissingPrivilege::reasons(&said.lacks));
                    let grants = manager::grants_for(settings.kind, &settings.monitor.user);
                    tried.wrong_world(&format!(
                        "{place}: the monitor account lacks {lacks}; {why}; run on one node:\n{grants}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The same for a primary and its replicas.
fn servers(
    settings: &Settings,
    monitor: &Login,
    account: Option<&manager::Account>,
    tried: &mut Tried,
) -> Result<(), cli::exit::Failure> {
    if let Some(few) = warnings::few_members(settings, None) {
        tried.warning(&few);
    }
    let marks = manager::Marks::read(&settings.store());
    let all = cli::runtime::start()?.block_on(servers::all(settings, monitor, account, &marks));
    let without_primary = account.and_then(|_| servers::without_primary(settings, &marks, &all));
    for (node, server) in settings.nodes.iter().zip(all) {
        let place =
            format!("{}:{}: node {} ({})", settings.file.display(), node.line, node.name, node.address);
        match server {
            Err(why) => tried.wrong_world(&format!("{place}: {why}")),
            Ok(server) => {
                tried.ok(&format!(
                    "node {} ({}) is reached: {}, {}",
                    node.name, node.address, server.version, server.role
                ));
                for wrong in server.wrong {
                    tried.wrong_world(&format!("{place}: {wrong}"));
                }
            }
        }
    }
    if let Some(wrong) = without_primary {
        tried.wrong_world(&wrong);
    }
    Ok(())
}

/// Whether each node takes the header that `cluster.proxy_header` asks for. One that cannot be logged in to at all has been told of.
fn proxy_headers(settings: &Settings, monitor: &Login, tried: &mut Tried) -> Result<(), cli::exit::Failure> {
    let Some(header) = settings.node_proxy_header() else { return Ok(()) };
    let ask = async |address: &str| with_header(address, monitor, header).await;
    let answers = cli::runtime::start()?.block_on(asked::each(settings, ask));
    for (node, facts) in settings.nodes.iter().zip(answers) {
        match facts.said {
            Err(_) => {}
            Ok(Ok(())) => tried.ok(&format!("node {} takes PROXY headers from here", node.name)),
            Ok(Err(why)) => tried.wrong_world(&format!(
                "{}:{}: node {} ({}) takes no PROXY header from here ({why}), so that no client could be connected to it: set \
                 proxy_protocol_networks there (MariaDB), or cluster.proxy_header = \"off\"",
                settings.file.display(),
                node.line,
                node.name,
                node.address
            )),
        }
    }
    Ok(())
}

/// A login that says it is made for a client at our own address; the outer error: not even one without a header succeeds.
async fn with_header(
    address: &str,
    monitor: &Login,
    header: ProxyHeader,
) -> Result<Result<(), LinkError>, LinkError> {
    let link = Link::connect(address, monitor, HEADER_WAIT).await?;
    let us = link.stream.local_address();
    link.quit();
    let login = Login { proxied: us.map(|us| (header, us)), ..monitor.clone() };
    Ok(Link::connect(address, &login, HEADER_WAIT).await.map(|link| link.quit()))
}

/// What `[warm]` names: the account on each node, and each node's stream.
fn standbys(settings: &Settings, tried: &mut Tried) -> Result<(), cli::exit::Failure> {
    let warm = match settings.warm_account() {
        Ok(Some(warm)) => warm,
        Ok(None) => return Ok(()),
        Err(problem) => {
            tried.wrong_file(&problem.to_string());
            return Ok(());
        }
    };
    let access = match settings.stream_access() {
        Ok(access) => access,
        Err(problem) => {
            tried.wrong_file(&problem.to_string());
            return Ok(());
        }
    };
    tried.ok("the password of the account that warms standbys can be read");
    let all = cli::runtime::start()?.block_on(warm::all(settings, &warm, &access));
    for (node, found) in settings.nodes.iter().zip(all) {
        let place = format!("{}:{}: node {}", settings.file.display(), node.line, node.name);
        for found in found {
            match found {
                Ok(well) => tried.ok(&format!("node {}: {well}", node.name)),
                Err(why) => tried.wrong_world(&format!("{place}: {why}")),
            }
        }
    }
    Ok(())
}

impl Tried {
    fn ok(&mut self, what: &str) {
        self.note(Level::Ok, what);
    }

    fn warning(&mut self, what: &str) {
        self.note(Level::Warning, what);
    }

    fn wrong_file(&mut self, what: &str) {
        self.file_wrong = true;
        self.note(Level::Wrong, what);
    }

    fn wrong_world(&mut self, what: &str) {
        self.world_wrong = true;
        self.note(Level::Wrong, what);
    }

    fn note(&mut self, level: Level, what: &str) {
        if !self.is_json {
            let (word, below) = match level {
                Level::Ok => ("ok   ", "\n       "),
                Level::Warning => ("WARN ", "\n         "),
                Level::Wrong => ("WRONG", "\n         "),
            };
            println!("{word}  {}", what.replace('\n', below));
        }
        self.results.push(Finding { level, text: what.to_owned() });
    }
}
