//! The health endpoint and the agent check of `serve` on a real cluster, and a real HAProxy that follows them.
//!
//! ```text
//!   all well ─> drain ─> switchover ─> the node's own words ─> kill -9 of the writer ─> SIGSTOP ─> SIGTERM of serve
//!      └───── each step: what /health says, what the agent says, what status says, where HAProxy sends clients
//! ```

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::fault::Fault;
use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use testbed::program::{self, Ended, Serving, directory, until};

const PATIENCE: Duration = Duration::from_secs(60);
/// Something that must not happen is watched for so long: many of HAProxy's checks.
const STAYS: Duration = Duration::from_secs(2);
/// An answer comes from memory; this is for a busy machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const SYNCED: &str = "Percona XtraDB Cluster Node is synced.\r\n";
const TAKES_CLIENTS: &str = "Understudy takes clients.\r\n";
const NOT_SYNCED: &str = "Percona XtraDB Cluster Node is not synced.\r\n";
const READ_ONLY: &str = "Percona XtraDB Cluster Node is read-only.\r\n";
const DISABLED: &str = "Percona XtraDB Cluster Node is manually disabled.\r\n";
const NODES: [&str; 3] = ["db1", "db2", "db3"];

/// Where everything is.
struct Scene {
    stage: Stage,
    health: SocketAddr,
    agent: SocketAddr,
    http: SocketAddr,
    mysql: SocketAddr,
}

fn say(address: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN).unwrap();
    stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
    stream.write_all(words).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Status and body.
fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(say(address, request.as_bytes())).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}

impl Scene {
    /// The whole of a node's answer.
    fn health(&self, target: &str) -> (u16, String) {
        get(self.health, target)
    }

    fn good(&self, target: &str) -> bool {
        match self.health(target).0 {
            200 => true,
            503 => false,
            other => panic!("{target}: {other}"),
        }
    }

    fn agent(&self, node: &str) -> String {
        String::from_utf8(say(self.agent, format!("{node}\n").as_bytes())).unwrap()
    }

    /// Waits until a node is good or not, by both doors.
    fn until_good(&self, node: &str, is_good: bool) -> Duration {
        let began = Instant::now();
        until(&format!("{node} good: {is_good}"), || {
            let agrees = self.good(&format!("/health/{node}")) == is_good
                && (self.agent(node) == "ready up\n") == is_good;
            agrees.then(|| began.elapsed())
        })
    }

    fn json(&self, target: &str) -> serde_json::Value {
        serde_json::from_str(&self.health(target).1).unwrap()
    }
}

/// A real HAProxy; killed with its value.
struct Haproxy {
    child: Child,
    socket: PathBuf,
    listen: SocketAddr,
    both: SocketAddr,
}

impl Haproxy {
    /// Three doors in front of the same nodes: one follows the agent, one asks for health, one does both as the docs advise.
    fn start(scene: &Scene, dir: &Path) -> Self {
        let host = scene.stage.host_address();
        let [listen, asks, both] = [7033, 7034, 7035].map(|port: u16| SocketAddr::from((host, port)));
        let socket = dir.join("haproxy.sock");
        let mut config = format!(
            "global\n    stats socket {} mode 600 level admin\n\
             defaults\n    mode tcp\n    timeout connect 2s\n    timeout client 1m\n    timeout server 1m\n\
             listen follows\n    bind {listen}\n    balance roundrobin\n    \
             default-server agent-check agent-addr {host} agent-port {} agent-inter 100ms on-marked-down shutdown-sessions\n",
            socket.display(),
            scene.agent.port(),
        );
        for node in scene.stage.nodes() {
            config += &format!("    server {0} {1} agent-send \"{0}\\n\"\n", node.name, node.address);
        }
        config += &format!(
            "listen asks\n    bind {asks}\n    balance roundrobin\n    option httpchk\n    \
             http-check send meth GET uri-lf /health/%[srv_name]\n    \
             default-server check addr {host} port {} inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions\n",
            scene.health.port(),
        );
        for node in scene.stage.nodes() {
            config += &format!("    server {} {}\n", node.name, node.address);
        }
        config += &format!(
            "listen both\n    bind {both}\n    balance roundrobin\n    option httpchk\n    \
             http-check send meth GET uri-lf /health/%[srv_name]?drained=1\n    \
             default-server check addr {host} port {} inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions\n    \
             default-server agent-check agent-addr {host} agent-port {} agent-inter 100ms\n",
            scene.health.port(),
            scene.agent.port(),
        );
        for node in scene.stage.nodes() {
            config += &format!("    server {0} {1} agent-send \"{0}\\n\"\n", node.name, node.address);
        }
        let file = dir.join("haproxy.cfg");
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(dir.join("haproxy.log")).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "haproxy", "-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut this = Self { child, socket, listen, both };
        until("HAProxy answers", || {
            let ended = this.child.try_wait().unwrap();
            let log = || std::fs::read_to_string(dir.join("haproxy.log")).unwrap();
            assert!(ended.is_none(), "HAProxy ended:\n{}", log());
            UnixStream::connect(&this.socket).ok()
        });
        this
    }

    /// The state of each server behind one of its doors.
    fn servers(&self, door: &str) -> Vec<(String, String)> {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream.write_all(b"show stat\n").unwrap();
        let mut csv = String::new();
        stream.read_to_string(&mut csv).unwrap();
        let place = csv.lines().next().unwrap().split(',').position(|field| field == "status").unwrap();
        let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        rows.filter(|row| row[0] == door && row.get(1).is_some_and(|name| name.starts_with("db")))
            .map(|row| (row[1].to_owned(), row[place].to_owned()))
            .collect()
    }

    /// Waits until exactly these are UP, behind both doors.
    fn until_up(&self, good: &[&str]) -> Duration {
        let began = Instant::now();
        for door in ["follows", "asks"] {
            until(&format!("{door}: {good:?} are UP, and no other"), || {
                let servers = self.servers(door);
                // A server without checks of its own is "no check" as long as the agent has nothing to say against it.
                let up = |(_, status): &&(String, String)| matches!(status.as_str(), "UP" | "no check");
                let up: Vec<_> = servers.iter().filter(up).map(|(name, _)| name.as_str()).collect();
                (up == good).then_some(())
            });
        }
        began.elapsed()
    }

    /// Where twelve new clients land.
    async fn places(&self) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        for _ in 0..12 {
            let mut conn = connect(self.listen).await.unwrap();
            places.insert(conn.query_first::<String, _>("SELECT @@wsrep_node_name").await.unwrap().unwrap());
            conn.disconnect().await.unwrap();
        }
        places
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(address: SocketAddr) -> mysql_async::Result<Conn> {
    let opts = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD))
        .db_name(Some(APP_SCHEMA))
        .prefer_socket(false);
    Conn::new(opts).await
}

async fn name_of(session: &mut Conn) -> String {
    session.query_first("SELECT @@wsrep_node_name").await.unwrap().unwrap()
}

fn names(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|&name| name.to_owned()).collect()
}

fn node_of(status: &serde_json::Value, name: &str) -> serde_json::Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap().clone()
}

fn others(out: &str) -> Vec<&'static str> {
    NODES.into_iter().filter(|name| *name != out).collect()
}

async fn set() -> (Scene, tempfile::TempDir) {
    let plan = StagePlan { name: format!("t{}-health", std::process::id()), ..StagePlan::default() };
    let stage = Stage::up(plan).await.unwrap();
    let host = stage.host_address();
    // The stage's address is nobody else's, so fixed ports are free.
    let [mysql, http, health, agent] =
        [6033, 6080, 9200, 9201].map(|port: u16| SocketAddr::from((host, port)));
    let mut config = "[cluster]\nname = \"shop\"\nid = 5\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n[listen]\nmysql = \"{mysql}\"\n\
         http = \"{http}\"\nhealth = \"{health}\"\nagent = \"{agent}\"\n[state]\ndir = \"state\"\n"
    );
    (Scene { stage, health, agent, http, mysql }, directory(&config))
}

/// Everything in order: the bytes, the paths, the other door.
fn all_well(scene: &Scene) {
    for node in NODES {
        assert_eq!(scene.health(&format!("/health/{node}")), (200, SYNCED.to_owned()));
        assert_eq!(scene.agent(node), "ready up\n");
        let status = scene.json(&format!("/health/{node}/status"));
        assert_eq!(
            (status["good"].as_bool(), status["name"].as_str()),
            (Some(true), Some(node)),
            "{status:#}"
        );
        assert_eq!(
            (status["serves"].as_str(), status["facts"]["local_state"].as_u64()),
            (Some("well"), Some(4))
        );
        assert!(status["age_ms"].as_u64().unwrap() < 1000, "{status:#}");
        // The door of the API answers the same, and asks for no key.
        assert_eq!(get(scene.http, &format!("/health/{node}")), (200, SYNCED.to_owned()));
    }
    let head = b"HEAD /health/db1 HTTP/1.0\r\n\r\n";
    let text =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 40\r\n\r\n";
    assert_eq!(String::from_utf8(say(scene.health, head)).unwrap(), text);
    // Whoever does not speak HTTP gets an answer about this Understudy, in clustercheck's form.
    let text = text.replace("40", "27");
    assert_eq!(String::from_utf8(say(scene.health, b"\r\n")).unwrap(), format!("{text}{TAKES_CLIENTS}"));
    assert_eq!(scene.health("/"), (200, TAKES_CLIENTS.to_owned()), "it is no node that is synced");
    assert_eq!(get(scene.http, "/readyz"), (200, "statements flow\n".to_owned()));
    // Half a question might have been about any node.
    let mut half = TcpStream::connect(scene.health).unwrap();
    half.write_all(b"GET /health/db1").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with(NOT_SYNCED), "{answer}");
    for target in ["/", "/health", "/writer"] {
        assert!(scene.good(target), "{target}");
    }
    assert_eq!(scene.health("/health/db1/writer"), (200, "may take writes\r\n".to_owned()));
    assert_eq!(scene.health("/health/db2/writer"), (503, "is not the writer: db1 is\r\n".to_owned()));
    assert!(!scene.good("/health/db1/replica"), "nobody here has seen a replica");
    for target in ["/health/db9", "/health/db9/status", "/health/db9/writer"] {
        assert_eq!(scene.health(target).0, 404, "{target}");
        assert_eq!(get(scene.http, target).0, 404, "{target}");
    }
    assert!(scene.agent("db9").starts_with("fail"), "{}", scene.agent("db9"));
    assert!(scene.agent("").starts_with("fail"), "a balancer that names no node gets no node's answer");
    let whole = scene.json("/status");
    assert_eq!((whole["writer"].as_str(), whole["nodes"][2]["good"].as_bool()), (Some("db1"), Some(true)));
    let metrics = scene.health("/metrics").1;
    assert!(metrics.contains("understudy_node_good{node=\"db3\"} 1\n"), "{metrics}");
    assert!(metrics.contains("understudy_node_writable{node=\"db3\"} 0\n"), "{metrics}");
}

/// `understudy check --once` on this machine: it finds `serve` by its sockets. It has no account on the nodes, so a good answer can
/// only be serve's.
fn once(serving: &Serving, args: &[&str]) -> Ended {
    let mut command = Command::new(program::bin());
    command.args(["check", "--once"]).args(args).current_dir(serving.dir());
    program::run(command.env("UNDERSTUDY_RUN_DIR", serving.dir()).env_remove("UNDERSTUDY_CHECK_PASSWORD"))
}

fn by_command(scene: &Scene, serving: &Serving) {
    let ask = |node: &str, more: &[&str]| {
        let host = scene.stage.node(node).unwrap().address.ip().to_string();
        let mut args = vec!["--host", &host, "--defaults-file", "/dev/null", "--disabled-file", "/nowhere"];
        args.extend(more);
        once(serving, &args)
    };
    let good = ask("db1", &[]);
    assert!(good.with(0).ends_with(SYNCED), "{}", good.out);
    println!(
        "          check --once by serve's word: {} ms, the program's start included",
        good.took.as_millis()
    );
    assert_eq!((ask("db1", &["--role", "writer"]).code, ask("db2", &["--role", "writer"]).code), (0, 1));
    once(serving, &["--serve"]).with(0);
    // An edit that is not yet right moves no address: the one that runs has read its file.
    let file = serving.dir().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{config}[hold]\ntime_ms = \n")).unwrap();
    once(serving, &["--serve"]).with(0);
    std::fs::write(&file, config).unwrap();
    serving.ask(&["drain", "db3"]).with(0);
    let drained = ask("db3", &[]);
    assert!(drained.with(1).contains(DISABLED), "{}", drained.out);
    serving.ask(&["undrain", "db3"]).with(0);
    ask("db3", &[]).with(0);
}

async fn drained(scene: &Scene, serving: &Serving, haproxy: &Haproxy) {
    let mut session = loop {
        let mut session = connect(haproxy.both).await.unwrap();
        if name_of(&mut session).await == "db3" {
            break session;
        }
        session.disconnect().await.unwrap();
    };
    serving.ask(&["drain", "db3"]).with(0);
    // An order is answered when the view shows it.
    assert_eq!(scene.health("/health/db3"), (503, DISABLED.to_owned()));
    assert_eq!(
        scene.health("/health/db3?donor=1&readonly=1"),
        (503, DISABLED.to_owned()),
        "nobody is forgiven a drain"
    );
    assert!(scene.good("/health/db3?drained=1"), "unless that is what is asked");
    assert_eq!(scene.agent("db3"), "drain # drained by an operator\n");
    haproxy.until_up(&["db1", "db2"]);
    let agents = haproxy.servers("follows");
    assert!(agents[2].1.starts_with("DRAIN"), "{agents:?}");
    assert_eq!(haproxy.places().await, names(&["db1", "db2"]));
    // A session that is there may stay for as long as it likes, though HTTP alone calls the node down after two checks.
    let began = Instant::now();
    while began.elapsed() < STAYS {
        let servers = haproxy.servers("both");
        assert!(servers[2].1.starts_with("DRAIN"), "{servers:?}");
        assert_eq!(name_of(&mut session).await, "db3");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    session.disconnect().await.unwrap();
    serving.ask(&["undrain", "db3"]).with(0);
    assert_eq!(scene.agent("db3"), "ready up\n");
    haproxy.until_up(&NODES);
    assert_eq!(haproxy.places().await, names(&NODES));
}

fn switched_over(scene: &Scene, serving: &Serving) {
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    let writers = NODES.map(|node| scene.good(&format!("/health/{node}/writer")));
    assert_eq!(writers, [false, true, false]);
    assert!(scene.good("/writer") && NODES.iter().all(|node| scene.good(&format!("/health/{node}"))));
}

/// What the rules forgive when they are asked to.
async fn own_words(scene: &Scene, haproxy: &Haproxy) {
    scene.stage.run_in("db3", "SET GLOBAL read_only = ON").await.unwrap();
    // On a busy machine it may be refused for something else first.
    until("db3 is refused for being read-only", || {
        (scene.health("/health/db3") == (503, READ_ONLY.to_owned())).then_some(())
    });
    scene.until_good("db3", false);
    assert!(scene.good("/health/db3?readonly=1"));
    haproxy.until_up(&["db1", "db2"]);
    scene.stage.run_in("db3", "SET GLOBAL read_only = OFF").await.unwrap();
    scene.stage.run_in("db3", "SET GLOBAL wsrep_desync = ON").await.unwrap();
    until("the desync is seen", || {
        scene.json("/health/db3/status")["facts"]["desync"].as_bool().filter(|is| *is)
    });
    assert_eq!(scene.health("/health/db3"), (503, NOT_SYNCED.to_owned()));
    assert!(scene.good("/health/db3?donor=1"));
    scene.stage.run_in("db3", "SET GLOBAL wsrep_desync = OFF").await.unwrap();
    scene.until_good("db3", true);
    haproxy.until_up(&NODES);
}

/// What `status` shows between two equal answers is what they said.
fn agrees(scene: &Scene, serving: &Serving, node: &str) {
    until("the same answer twice", || {
        let before = scene.good(&format!("/health/{node}"));
        let shown = node_of(&serving.status(), node);
        let after = scene.good(&format!("/health/{node}"));
        let is_well = shown["serves"] == "well" && shown["doubt"].is_null();
        (before == after).then(|| assert_eq!(is_well, before, "{shown:#}"))
    });
}

/// kill -9 of the writer: both doors and `status` say the same at the same moment, and HAProxy goes elsewhere.
async fn killed(scene: &Scene, serving: &Serving, haproxy: &Haproxy) {
    scene.stage.fault("db2", Fault::Kill).await.unwrap();
    let seen = scene.until_good("db2", false);
    for node in NODES {
        agrees(scene, serving, node);
    }
    let reason = scene.json("/health/db2/status");
    println!(
        "          kill -9: not good {} ms after the signal was sent: {}",
        seen.as_millis(),
        reason["reason"]
    );
    assert!(seen < Duration::from_secs(1), "{seen:?}");
    assert!(scene.agent("db2").starts_with("ready down # "), "{}", scene.agent("db2"));
    let status = node_of(&serving.status(), "db2");
    assert_ne!(status["serves"], "well", "{status:#}");
    let moved = until("another writer", || {
        let writer = NODES.into_iter().find(|node| scene.good(&format!("/health/{node}/writer")))?;
        scene.good("/writer").then_some(writer)
    });
    assert_eq!(serving.status()["writer"], moved);
    assert_ne!(moved, "db2");
    let followed = haproxy.until_up(&others("db2"));
    println!("          HAProxy followed {} ms later, behind both doors", followed.as_millis());
    assert_eq!(haproxy.places().await, names(&others("db2")));
    scene.stage.fault("db2", Fault::Heal).await.unwrap();
    scene.until_good("db2", true);
    haproxy.until_up(&NODES);
}

/// A server that hangs says nothing, and what it said last does not count.
async fn frozen(scene: &Scene, serving: &Serving, haproxy: &Haproxy) {
    let began = Instant::now();
    scene.stage.fault("db3", Fault::Freeze).await.unwrap();
    scene.until_good("db3", false);
    println!("          SIGSTOP: not good after {} ms", began.elapsed().as_millis());
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    haproxy.until_up(&others("db3"));
    // The last word of the node was a good one.
    until("silent", || (node_of(&serving.status(), "db3")["state"] == "silent").then_some(()));
    let status = scene.json("/health/db3/status");
    assert_eq!(
        (status["good"].as_bool(), status["facts"]["local_state"].as_u64()),
        (Some(false), Some(4)),
        "{status:#}"
    );
    scene.stage.fault("db3", Fault::Heal).await.unwrap();
    scene.stage.wait_synced("db3", PATIENCE).await.unwrap();
    scene.until_good("db3", true);
    haproxy.until_up(&NODES);
}

/// On the way out: no clients for this one any more, while a transaction still ends; the nodes are as good as before.
async fn stopping(scene: &Scene, serving: &mut Serving) {
    let mut busy = connect(scene.mysql).await.unwrap();
    busy.query_drop("BEGIN").await.unwrap();
    busy.query_drop("SELECT 1").await.unwrap();
    assert!(scene.good("/"));
    serving.terminate();
    let said = until("it says that it stops", || {
        let (status, _) = scene.health("/");
        (status == 503).then(|| scene.json("/status"))
    });
    assert_eq!(said["reason"], "takes no clients: it is stopping", "{said:#}");
    assert!(scene.good("/health/db1"));
    once(serving, &["--serve"]).with(1);
    busy.query_drop("COMMIT").await.unwrap();
    assert_eq!(serving.ended().code(), Some(0));
    once(serving, &["--serve"]).with(1);
    let left = std::fs::read_dir(serving.dir()).unwrap().filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(".sock"))
    });
    // HAProxy's own.
    assert_eq!(left.count(), 1, "serve removes its sockets");
    assert!(TcpStream::connect(scene.health).is_err() && TcpStream::connect(scene.agent).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn balancers_follow_what_the_proxy_believes() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let (scene, dir) = set().await;
    told("three nodes are up");
    let mut serving = Serving::start(dir.path());
    for node in NODES {
        scene.until_good(node, true);
    }
    until("a writer", || scene.good("/writer").then_some(()));
    all_well(&scene);
    by_command(&scene, &serving);
    told("all well, and by command");
    let haproxy = Haproxy::start(&scene, dir.path());
    haproxy.until_up(&NODES);
    drained(&scene, &serving, &haproxy).await;
    told("drained and back");
    switched_over(&scene, &serving);
    own_words(&scene, &haproxy).await;
    told("switched over; read only and desynchronised");
    killed(&scene, &serving, &haproxy).await;
    told("kill -9 of the writer");
    frozen(&scene, &serving, &haproxy).await;
    told("SIGSTOP");
    stopping(&scene, &mut serving).await;
    told("SIGTERM");
    drop(haproxy);
    scene.stage.down().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(90), "this file is to stay under a minute and a half");
}
