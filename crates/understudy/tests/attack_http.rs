//! Clients that ask the HTTP doors of `serve` and never read, clients that say nothing, and a crowd at the MySQL port, on two real Galera nodes and
//! with few file descriptors: everybody else goes on, nobody fails over, and everything is given back.
//!
//! ```text
//!   readers of /metrics that never read ┐
//!   silent sockets at API and health    ├─ from addresses of their own ──> serve (600 descriptors) <── good client, status, /health: each in time
//!   silent sockets at the MySQL port    ┘                                        └─ /proc/PID/fd: the same as before
//! ```
//!
//! Loopback only, and bounded: at most 1,100 sockets, some seconds each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod program;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lab::stage::account::{APP_PASSWORD, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use program::{LONG, Serving, directory, until};
use socket2::{Domain, Socket, Type};

/// What `serve` may open: far less than the attackers could hold.
const FILES_MAX: u64 = 600;
/// As many as in the attack that once went through.
const ATTACKERS: usize = 250;
/// As many of each kind stand at the health port, which has 75 places and 64 for who is in a hurry.
const AT_HEALTH: usize = ATTACKERS;
/// Requests that each of them sends at once; the answers do not fit into the sockets' buffers.
const REQUESTS: usize = 800;
/// For so long nothing may be disturbed while the attackers stay.
const STAYS: Duration = Duration::from_secs(3);
/// A good question is answered within this, also on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Descriptors by which two looks at an idle program may differ.
const FILES_SLACK: usize = 12;

/// A socket from an address of its own that takes little, so that answers soon wait on the server's side.
fn connect(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect_timeout(&to.into(), Duration::from_millis(500)).ok()?;
    Some(socket.into())
}

/// Clients that connect, say `words`, and do nothing more for as long as they are held.
fn crowd(from: Ipv4Addr, to: SocketAddr, count: usize, words: &[u8]) -> Vec<TcpStream> {
    let connected = (0..count).filter_map(|_| {
        let mut stream = connect(from, to)?;
        stream.set_nonblocking(true).unwrap();
        // Whoever is refused cannot say all of it.
        let _ = stream.write(words);
        Some(stream)
    });
    connected.collect()
}

/// Status of an answer, and how long it took.
fn get(to: SocketAddr, target: &str) -> (u16, Duration) {
    let began = Instant::now();
    let status = try_get(to, target);
    (
        status.unwrap_or_else(|| panic!("{target} of {to}: no answer in {:?}", began.elapsed())),
        began.elapsed(),
    )
}

/// Status of an answer; `None` when none comes in time.
fn try_get(to: SocketAddr, target: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&to, ANSWERED_WITHIN).ok()?;
    stream.set_read_timeout(Some(ANSWERED_WITHIN)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

struct Scene {
    serving: Serving,
    mysql: SocketAddr,
    http: SocketAddr,
    health: SocketAddr,
    /// Only here can descriptors be counted from outside.
    files_before: usize,
}

/// The slowest answers that good clients had.
#[derive(Debug, Default)]
struct Slowest {
    statement: Duration,
    health: Duration,
    metrics: Duration,
    status: Duration,
    /// Age of the latest counters of any node: the manager's probes.
    probe_ms: u64,
}

impl Scene {
    fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.serving.pid())).unwrap().count()
    }

    /// What good clients see for a while.
    async fn watch(&self, what: &str, has_statements: bool) -> Slowest {
        let mut slowest = Slowest::default();
        let began = Instant::now();
        while began.elapsed() < STAYS {
            if has_statements {
                let took = statement(self.mysql).await;
                slowest.statement = slowest.statement.max(took);
            }
            let (code, took) = get(self.health, "/health/db1");
            assert_eq!(code, 200, "{what}");
            slowest.health = slowest.health.max(took);
            let (code, took) = get(self.http, "/metrics");
            assert_eq!(code, 200, "{what}");
            slowest.metrics = slowest.metrics.max(took);
            let asked = Instant::now();
            let status = self.serving.status();
            slowest.status = slowest.status.max(asked.elapsed());
            assert_eq!(
                (status["term"].as_u64(), status["writer"].as_str()),
                (Some(1), Some("db1")),
                "{what}: {status:#}"
            );
            for node in status["nodes"].as_array().unwrap() {
                assert_eq!(node["state"], "synced", "{what}: {node:#}");
                slowest.probe_ms = slowest.probe_ms.max(node["sample_age_ms"].as_u64().unwrap());
            }
        }
        println!("{what}: {} descriptors of {FILES_MAX}, slowest {slowest:?}", self.files());
        assert!(slowest.probe_ms < 5_000, "{what}: the probes stood still: {slowest:?}");
        slowest
    }

    /// Everything is given back.
    fn given_back(&self, what: &str) {
        let mut last = 0;
        let began = Instant::now();
        until(&format!("{what}: the descriptors of before ({})", self.files_before), || {
            last = self.files();
            (last <= self.files_before + FILES_SLACK).then_some(())
        });
        println!("{what}: {last} descriptors after {:?}, {} before", began.elapsed(), self.files_before);
    }
}

/// A login and a statement through the proxy.
async fn statement(mysql: SocketAddr) -> Duration {
    let began = Instant::now();
    let options = OptsBuilder::default()
        .ip_or_hostname(mysql.ip().to_string())
        .tcp_port(mysql.port())
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD))
        .prefer_socket(false);
    let one = async {
        let mut conn = Conn::new(options).await.unwrap();
        let one: Option<u8> = conn.query_first("SELECT 1").await.unwrap();
        conn.disconnect().await.unwrap();
        one
    };
    let one = tokio::time::timeout(ANSWERED_WITHIN, one).await.expect("a good client is not answered");
    assert_eq!(one, Some(1));
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_read_and_whoever_does_not_speak_disturb_nobody() {
    let plan =
        StagePlan { name: format!("t{}-attack", std::process::id()), nodes: 2, ..StagePlan::default() };
    let stage = Stage::up(plan).await.unwrap();
    let [mysql, http, health] =
        [(); 3].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, fixture::free_port())));
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
         [listen]\nmysql = \"{mysql}\"\nhttp = \"{http}\"\nhealth = \"{health}\"\n[state]\ndir = \"state\"\n"
    );
    let directory = directory(&config);
    let serving = Serving::start_with_files(directory.path(), FILES_MAX);
    let mut scene = Scene { serving, mysql, http, health, files_before: 0 };
    until("both nodes are synced, and one writes", || {
        let status = scene.serving.status();
        let nodes = status["nodes"].as_array().unwrap();
        let well = |node: &serde_json::Value| node["state"] == "synced" && node["sample"].is_object();
        (nodes.iter().all(well) && status["writer"] == "db1").then_some(())
    });
    statement(scene.mysql).await;
    scene.files_before = scene.files();

    never_read(&scene).await;
    silent(&scene).await;
    crowd_at_the_mysql_port(&scene).await;

    let journal = scene.serving.ask(&["journal", "--json"]);
    assert!(!journal.out.contains("evict"), "{}", journal.said());
    drop(scene);
    stage.down().await.unwrap();
}

/// The attack that once held all descriptors.
async fn never_read(scene: &Scene) {
    let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(REQUESTS);
    let held = crowd(Ipv4Addr::new(127, 0, 0, 2), scene.http, ATTACKERS, ask.as_bytes());
    assert!(held.len() > ATTACKERS / 2, "only {} came in", held.len());
    scene.watch(&format!("{ATTACKERS} readers of /metrics that never read"), true).await;
    // They are cut while they stay.
    scene.given_back("readers that never read, still there");
    drop(held);

    // From the good client's own address: it has no share of its own there, and may have to ask again.
    let held = crowd(Ipv4Addr::LOCALHOST, scene.http, ATTACKERS, ask.as_bytes());
    let mut tries = 0;
    let began = Instant::now();
    until("an answer to a client of the same address", || {
        tries += 1;
        (try_get(scene.http, "/metrics")? == 200).then_some(())
    });
    println!(
        "a client of the attackers' own address was answered at try {tries}, after {:?}",
        began.elapsed()
    );
    scene.given_back("readers that never read, still there");
    drop(held);
}

/// Silent sockets at each HTTP door, and half a head.
async fn silent(scene: &Scene) {
    let from = Ipv4Addr::new(127, 0, 0, 3);
    let mut held = crowd(from, scene.http, ATTACKERS, b"");
    held.extend(crowd(Ipv4Addr::new(127, 0, 0, 4), scene.http, ATTACKERS, b"GET /metrics HTTP/1.1\r\nX-A: "));
    held.extend(crowd(from, scene.health, AT_HEALTH, b""));
    held.extend(crowd(from, scene.health, AT_HEALTH, b"GET /health/db1 HTTP/1.1\r\nX-A: "));
    scene.watch("silent sockets at the API and the health port", true).await;
    scene.given_back("silent sockets, still there");
    drop(held);
}

/// More clients than there are descriptors: API, health port and the probes have theirs.
async fn crowd_at_the_mysql_port(scene: &Scene) {
    let from = Ipv4Addr::new(127, 0, 0, 5);
    let held = crowd(from, scene.mysql, FILES_MAX as usize, b"");
    scene.watch("silent sockets at the MySQL port", false).await;
    drop(held);
    scene.given_back("silent sockets at the MySQL port, gone");
    let began = Instant::now();
    statement(scene.mysql).await;
    assert!(began.elapsed() < LONG);
    let log = scene.serving.log();
    assert!(log.lines().filter(|line| line.contains("be accepted")).count() <= 1, "the log was filled");
}
