//! The outer doors on a real cluster: three Galera nodes, `understudy serve` in front of them, clients that never retry, and
//! every order given as an operator would give it. One stage for all of it, because starting one takes its time; what a part
//! changes it puts back, or the next part says that it builds on it.
//!
//! ```text
//!   accounts ─> check ─> doctor ─> serve ─> orders ─> greetings ─> the seed's curl ─> restart ─> kill -9 ─> SIGTERM ─> all write ─> kill -9 twice ─> ledger, secrets
//!                                    └────────── clients write all along, and know each outcome ──────────┘
//! ```

mod all_write;
mod clients;
mod doctor;
mod end;
mod greeting;
mod loss;
mod orders;
mod pinned;
mod scalearc;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::stage::{Stage, StagePlan};
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{self, Serving, directory, with_config};
use testbed::scene::{is_well, status_when};

use clients::Ledger;

/// Whatever Galera decides by itself takes less, twice over.
const PATIENCE: Duration = Duration::from_secs(60);
/// The key of the seed's command.
const KEY: &str = "0c8aa9384ddf2a5756299a9e7650742a87bbb550";
/// Accounts of our own: each password is a word that can stand in no log by chance.
const MONITOR: (&str, &str) = ("watch", "Tintagel-monitor-4711");
const APPLICATION: (&str, &str) = ("app", "Camelot-application-0815");

/// What all parts work on.
struct Scene {
    stage: Stage,
    dir: TempDir,
    mysql: SocketAddr,
    /// Where the seed's curl goes: port 443 when this user may listen there.
    https: SocketAddr,
    ledger: Arc<Ledger>,
}

impl Scene {
    async fn set() -> Self {
        let plan = StagePlan { name: format!("t{}-doors", std::process::id()), ..StagePlan::default() };
        let stage = Stage::up(plan).await.unwrap();
        let host = stage.host_address();
        // Only root may have the seed's port. The stage's address is nobody else's, so fixed ports are free.
        let https_port = if stage.is_namespaced() { 443 } else { 6443 };
        let (mysql, https) = (SocketAddr::from((host, 6033)), SocketAddr::from((host, https_port)));
        let mut config = "[cluster]\nname = \"shop\"\nid = 5\n".to_owned();
        for node in stage.nodes() {
            config +=
                &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
        }
        config += &format!(
            "[cluster.monitor]\nuser = \"{}\"\npassword_file = \"monitor.password\"\n[listen]\nmysql = \"{mysql}\"\n\
             http = \"{host}:6080\"\nhttps = \"{https}\"\n[api]\nkey_file = \"api.key\"\n[state]\ndir = \"state\"\n",
            MONITOR.0
        );
        let dir = directory(&config);
        std::fs::write(dir.path().join("api.key"), format!("{KEY}\n")).unwrap();
        std::fs::write(dir.path().join("monitor.password"), "not yet\n").unwrap();
        for sql in [
            format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", MONITOR.0, MONITOR.1),
            format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", APPLICATION.0, APPLICATION.1),
            format!("GRANT ALL ON sbtest.* TO {}@'%'", APPLICATION.0),
            "USE sbtest".to_owned(),
            format!("CREATE TABLE sbtest.{}", lab::ledger::LEDGER_DDL.split_once("EXISTS ").unwrap().1),
        ] {
            stage.run_in("db1", &sql).await.unwrap();
        }
        Self { stage, dir, mysql, https, ledger: Arc::default() }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("understudy.toml")
    }

    /// `serve --check` with the password as it is in the file now.
    fn check(&self, code: i32) -> String {
        with_config(&self.config(), &["serve", "--check"]).with(code)
    }

    /// Every statement in one node.
    async fn sql(&self, node: &str, sql: &str) -> Vec<Vec<String>> {
        self.stage.run_in(node, sql).await.unwrap()
    }
}

fn writer(status: &Value) -> String {
    status["writer"].as_str().unwrap_or_else(|| panic!("no writer: {status:#}")).to_owned()
}

fn term(status: &Value) -> u64 {
    status["term"].as_u64().unwrap()
}

fn node<'a>(status: &'a Value, name: &str) -> &'a Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("no {name}: {status:#}"))
}

/// The monitor account, from nothing to all that it needs, by what the program itself says must be done.
async fn accounts(scene: &Scene) {
    let said = scene.check(1);
    assert!(
        said.contains("Access denied for user 'watch'") && said.contains("put its password right"),
        "{said}"
    );
    let password = scene.dir.path().join("monitor.password");
    std::fs::write(&password, format!("{}\n", MONITOR.1)).unwrap();
    let said = scene.check(1);
    let line = "the monitor account lacks SELECT ON mysql.global_priv and SUPER ON *.*";
    assert_eq!(said.matches(line).count(), 3, "{said}");
    assert!(said.contains("needed for evicting a dead node") && said.contains("run on one node:"), "{said}");
    doctor::lacks(scene);
    // What it says is done, to the letter.
    let grants = said.lines().find(|line| line.trim_start().starts_with("GRANT ")).expect("a GRANT to run");
    for grant in grants.trim().split(';').map(str::trim).filter(|grant| !grant.is_empty()) {
        scene.sql("db1", grant).await;
    }
    let said = scene.check(0);
    assert!(!said.contains("WRONG") && !said.contains(MONITOR.1), "{said}");
    for node in ["db1", "db2", "db3"] {
        assert!(said.contains(&format!("ok     node {node} (")), "{said}");
    }
}

/// Nothing that the program shows to the outside holds a secret: not its arguments, not its most talkative log, not its files
/// for everybody.
fn secrets(scene: &Scene, arguments: &[String]) {
    let log = std::fs::read_to_string(scene.dir.path().join("log")).unwrap();
    assert_eq!(log.matches("serving mysql on").count(), 4, "one log, of all starts");
    let hash = |password: &str| -> String {
        let stage2 = protocol::auth::native::stage2(&protocol::auth::native::stage1(password.as_bytes()));
        // As the account table has it.
        stage2.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    };
    let secrets = [KEY, MONITOR.1, APPLICATION.1].map(str::to_owned).into_iter();
    let secrets: Vec<_> = secrets.chain([hash(MONITOR.1), hash(APPLICATION.1)]).collect();
    for secret in &secrets {
        for argument in arguments {
            assert!(!argument.contains(secret.as_str()), "a secret in the arguments: {argument}");
        }
        let line = log.lines().find(|line| line.to_lowercase().contains(&secret.to_lowercase()));
        assert_eq!(line, None, "a secret in the log");
    }
    // The directory is closed, and each secret in it once more.
    let state = scene.dir.path().join("state");
    assert_eq!(program::mode(&state), 0o700);
    for file in ["https.key", "https.crt"] {
        assert_eq!(program::mode(&state.join(file)), 0o600, "{file}");
    }
}

fn arguments(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap()).replace('\0', " ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outer_doors_on_a_real_cluster() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::set().await;
    told("three nodes are up");
    accounts(&scene).await;
    told("the monitor account was made by what --check says");
    doctor::report(&scene);
    told("doctor has seen the nodes");

    let serving = Serving::start(scene.dir.path());
    let mut seen = vec![arguments(serving.pid())];
    status_when(&serving, "a writer and three synced nodes", is_well);
    let traffic = clients::Traffic::start(&scene).await;
    orders::all(&scene, &serving).await;
    told("orders by command");
    greeting::all(&scene, &serving).await;
    told("greetings that follow the servers'");
    scalearc::all(&scene, &serving).await;
    told("the seed's curl");
    let tally = traffic.stop().await;
    println!("          planned moves: {tally}");
    assert!(tally.writes > 100 && tally.errors.is_empty(), "{tally}");

    let mut serving = end::restart(serving);
    seen.push(arguments(serving.pid()));
    told("a restart kept term, writer and drains");
    loss::all(&scene, &serving).await;
    told("kill -9 of the writer");
    end::in_order(&scene, &mut serving).await;
    told("SIGTERM");
    drop(serving);
    seen.push(all_write::all(&scene).await);
    told("all nodes write, one is emptied");
    pinned::all(&scene).await;
    told("two nodes died in turn under sessions that cannot move");
    let verdict = scene.ledger.verdict(&scene.stage).await;
    println!("          ledger: {verdict:?}");
    assert!(verdict.is_good(), "{verdict:?}");
    secrets(&scene, &seen);
    told("no secret anywhere");
    assert!(begin.elapsed() < Duration::from_secs(120), "this file is to stay under two minutes");
    scene.stage.down().await.unwrap();
}
