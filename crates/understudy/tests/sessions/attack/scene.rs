//! `serve` before two real Galera nodes, crowds of clients that mean harm, and what good clients and the manager notice of them.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lab::stage::Stage;
use lab::stage::account::{APP_PASSWORD, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use socket2::{Domain, Socket, Type};
use testbed::program::{Serving, directory, until};

/// For so long nothing may be disturbed while the attackers stay.
const STAYS: Duration = Duration::from_secs(1);
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
pub fn crowd(from: Ipv4Addr, to: SocketAddr, count: usize, words: &[u8]) -> Vec<TcpStream> {
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
pub fn get(to: SocketAddr, target: &str) -> (u16, Duration) {
    let began = Instant::now();
    let status = try_get(to, target);
    (
        status.unwrap_or_else(|| panic!("{target} of {to}: no answer in {:?}", began.elapsed())),
        began.elapsed(),
    )
}

/// Status of an answer; `None` when none comes in time.
pub fn try_get(to: SocketAddr, target: &str) -> Option<u16> {
    str::from_utf8(try_answer(to, target)?.get(9..12)?).ok()?.parse().ok()
}

/// What is answered, head and all.
pub fn body(to: SocketAddr, target: &str) -> String {
    String::from_utf8(try_answer(to, target).unwrap()).unwrap()
}

fn try_answer(to: SocketAddr, target: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, ANSWERED_WITHIN).ok()?;
    stream.set_read_timeout(Some(ANSWERED_WITHIN)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(answer)
}

/// `serve` before the stage.
pub struct Scene {
    pub serving: Serving,
    pub mysql: SocketAddr,
    pub http: SocketAddr,
    pub health: SocketAddr,
    files_max: u64,
    dir: tempfile::TempDir,
    /// Only here can descriptors be counted from outside.
    files_before: usize,
}

/// The slowest answers that good clients had.
#[derive(Debug, Default)]
pub struct Slowest {
    pub statement: Duration,
    pub health: Duration,
    pub metrics: Duration,
    pub status: Duration,
    /// Age of the latest counters of any node: the manager's probes.
    pub probe_ms: u64,
}

impl Scene {
    /// Serves the stage, and may open no more than so many files.
    pub async fn set(stage: &Stage, files_max: u64) -> Self {
        let [mysql, http, health] =
            [(); 3].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, fixture::free_port())));
        let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
        for node in stage.nodes() {
            let _ = writeln!(
                config,
                "[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"",
                node.name, node.address
            );
        }
        let _ = write!(
            config,
            "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
             [listen]\nmysql = \"{mysql}\"\nhttp = \"{http}\"\nhealth = \"{health}\"\n[state]\ndir = \"state\"\n"
        );
        let dir = directory(&config);
        let serving = Serving::start_with_files(dir.path(), files_max);
        let mut scene = Self { serving, mysql, http, health, files_max, dir, files_before: 0 };
        until("both nodes are synced, and one writes", || {
            let status = scene.serving.status();
            let nodes = status["nodes"].as_array().unwrap();
            let well = |node: &serde_json::Value| node["state"] == "synced" && node["sample"].is_object();
            (nodes.iter().all(well) && status["writer"] == "db1").then_some(())
        });
        statement(scene.mysql).await;
        scene.files_before = scene.files();
        scene
    }

    /// What clients are shown.
    pub fn certificate(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("state/https.crt")).unwrap()
    }

    /// Nobody was taken for dead in all of it.
    pub fn nobody_failed_over(&self) {
        let journal = self.serving.ask(&["journal", "--json"]);
        assert!(!journal.out.contains("evict"), "{}", journal.said());
    }

    pub fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.serving.pid())).unwrap().count()
    }

    /// What good clients see for a while.
    pub async fn watch(&self, what: &str, has_statements: bool) -> Slowest {
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
        println!("{what}: {} descriptors of {}, slowest {slowest:?}", self.files(), self.files_max);
        assert!(slowest.probe_ms < 5_000, "{what}: the probes stood still: {slowest:?}");
        slowest
    }

    /// Everything is given back.
    pub fn given_back(&self, what: &str) {
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
pub async fn statement(mysql: SocketAddr) -> Duration {
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
