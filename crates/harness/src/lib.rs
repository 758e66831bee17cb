//! The proxy with routes that the test gives it, and clients for it, in front of servers that may be real ones.
//!
//! Only the proxy's tests use this crate. A test that cannot get its bench must fail, so this crate panics on errors.
#![allow(missing_docs, clippy::missing_panics_doc)] // fields and helpers whose names say it
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod cluster;
pub mod fact_answerer;
pub mod twin;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::Server;
use fixture::tls::Certificate;
use fixture::wait::until_async;
use link::{Endpoint, Link, LinkError, Login, Secret, ServerTls};
use protocol::auth::native;
use protocol::capability::Caps;

use proxy::{ClientTls, Handle, Inputs, Settings, Split, Stats};
use tokio::sync::{mpsc, watch};
use topology::account::{Account, Accounts, Proof};
use topology::fact::ProxyFact;
use topology::routes::{Lane, LaneState, Routes, ServerGreeting};
use topology::{NodeId, Term};

pub const SECOND: Duration = Duration::from_secs(1);
const START_MAX: Duration = Duration::from_secs(60);

/// A proxy that shows this certificate to clients.
pub fn shows(certificate: &Certificate, is_required: bool) -> Option<ClientTls> {
    let (config, fingerprint) = (certificate.server(rustls::ALL_VERSIONS), certificate.fingerprint());
    Some(ClientTls { config, fingerprint, is_required })
}

/// Where `scripts/servers.sh` has unpacked another server and its clients.
pub fn unpacked(name: &str) -> PathBuf {
    let given = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache"))).unwrap();
    let home = cache.join("understudy/servers").join(name).join("usr");
    assert!(home.exists(), "{}: scripts/servers.sh {name} unpacks it", home.display());
    home
}

pub struct Bench {
    pub routes: Arc<watch::Sender<Arc<Routes>>>,
    pub facts: mpsc::Receiver<ProxyFact>,
    pub proxy: Handle,
}

pub fn settings() -> Settings {
    Settings {
        listen: vec!["127.0.0.1:0".into()],
        hold_time: 10 * SECOND,
        hold_statements_max: 100,
        hold_bytes_max: 1 << 20,
        release_at_once: 4,
        connect_timeout: SECOND,
        passwords: Arc::default(),
        tls: None,
        certificate_expires_unix_s: None,
        monitor: Login::with_password("monitor", ""),
        node_tls: None,
        proxy_header_from: [].into(),
        node_compression: None,
        node_proxy_header: None,
        login_timeout: 2 * SECOND,
        client_idle_max: Duration::ZERO,
        retain_bytes_max: 1 << 20,
        resends_max: 1,
        suspect_time: Duration::from_secs(60),
        password_errors_max: 20,
        password_error_pause: Duration::from_secs(60),
        client_connections_max: 100,
        writers_all: false,
    }
}

/// Routes over `servers`, the lane of each in the given state.
pub fn routes(version: u64, servers: &[(&Server, LaneState, u64)]) -> Arc<Routes> {
    let lanes = servers.iter().enumerate();
    let lanes = lanes.map(|(at, (server, state, epoch))| lane(at, server.address(), *state, *epoch));
    routes_of(version, lanes.collect())
}

/// The lane of the node of this number, from 0; it is called `db1` and so on. No lane is made anywhere else in these tests.
pub fn lane(number: usize, address: SocketAddr, state: LaneState, epoch: u64) -> Lane {
    let shut = Lane::shut(NodeId(number as u8), format!("db{}", number + 1), address.to_string());
    Lane { state, epoch, ..shut }
}

/// Routes over `lanes`. None are made anywhere else in these tests; a test that wants others changes these.
pub fn routes_of(version: u64, lanes: Vec<Lane>) -> Arc<Routes> {
    let stage2 = native::stage2(&native::stage1(b"secret"));
    let account = Account {
        user: "app".into(),
        host: "%".into(),
        proofs: vec![Proof::Native(stage2)],
        ..Account::default()
    };
    Arc::new(Routes {
        version,
        term: Term(version),
        lanes,
        hold_because: Some("the test says so".into()),
        greeting: Some(Arc::new(ServerGreeting {
            version: "5.5.5-10.11.19-MariaDB".into(),
            capabilities: 0x25_81FF_F7FE,
            charset: 45,
            status: 2,
            plugin: "mysql_native_password".into(),
        })),
        accounts: Arc::new(Accounts::new(vec![account])),
        catalogue: Some(Arc::default()),
    })
}

impl Bench {
    /// Waits until the figures show `want`. The proxy settles its books after the answer is with the client, so they may be a moment late.
    pub async fn shows<T: PartialEq + std::fmt::Debug>(&self, read: impl Fn(&Stats) -> T, want: T) {
        until_async(&format!("{want:?}"), async || {
            let got = read(&self.proxy.stats().await);
            if got == want { Ok(()) } else { Err(got) }
        })
        .await;
    }

    pub fn new(settings: Settings, first: Arc<Routes>) -> Self {
        let (sender, receiver) = watch::channel(first);
        let (facts, seen) = mpsc::channel(100);
        let proxy = proxy::start(settings, Inputs { routes: receiver, facts }).unwrap();
        Self { routes: Arc::new(sender), facts: seen, proxy }
    }

    /// With reads split off to the open lanes of `replicas`.
    pub fn split(settings: Settings, first: Arc<Routes>, replicas: Arc<Routes>, wait_max: Duration) -> Self {
        let (sender, receiver) = watch::channel(first);
        let (facts, seen) = mpsc::channel(100);
        let inputs = Inputs { routes: receiver, facts };
        // What is never changed needs nobody to change it; but its end would be taken for the manager's.
        let routes = Box::leak(Box::new(watch::channel(replicas))).1.clone();
        let proxy = proxy::start_split(settings, inputs, Split { routes, wait_max }).unwrap();
        Self { routes: Arc::new(sender), facts: seen, proxy }
    }

    /// Gives the proxy new routes, and returns when it has taken them up.
    pub async fn follow(&self, routes: Arc<Routes>) {
        let term = routes.term.0;
        self.routes.send_replace(routes);
        while self.proxy.stats().await.term != term {
            tokio::task::yield_now().await;
        }
    }

    pub fn address(&self) -> String {
        self.proxy.local_addresses()[0].to_string()
    }

    pub async fn client(&self) -> Link {
        connect(&self.address()).await.unwrap()
    }
}

pub async fn connect(address: &str) -> Result<Link, LinkError> {
    connect_under(address, None).await
}

/// The same under TLS, if it is given.
pub async fn connect_under(address: &str, tls: Option<ServerTls>) -> Result<Link, LinkError> {
    let login = Login {
        tls,
        user: "app".into(),
        secret: Secret::Password("secret".into()),
        database: Some(b"shop".to_vec()),
        caps: Caps::PROTOCOL_41
            | Caps::SECURE_CONNECTION
            | Caps::PLUGIN_AUTH
            | Caps::MULTI_STATEMENTS
            | Caps::MULTI_RESULTS
            | Caps::TRANSACTIONS,
        user_sent: None,
        charset: 45,
        attrs: vec![],
        max_packet: 1 << 24,
        compression: None,
        proxied: None,
    };
    Link::connect(address, &login, 5 * SECOND).await
}

pub async fn one(link: &mut Link, sql: &str) -> String {
    let rows = link.query(sql, 20 * SECOND).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.text(0, 0).unwrap_or("NULL").to_owned()
}

/// A server of another version, once it answers root at the socket `s` in its directory, where it writes `log`; with these statements done.
pub async fn run_as_root(directory: &Path, statements: &[&str]) -> Link {
    let (socket, login) = (Endpoint::Unix(directory.join("s")), Login::new("root", Secret::None));
    let began = Instant::now();
    let mut link = loop {
        match Link::connect_to(&socket, &login, START_MAX).await {
            Ok(link) => break link,
            Err(LinkError::NoSocket) if began.elapsed() < START_MAX => tokio::task::yield_now().await,
            Err(error) => panic!("{error}: {:?}", std::fs::read_to_string(directory.join("log"))),
        }
    };
    for statement in statements {
        link.query(statement, START_MAX).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    link
}

/// Runs the package's own client through the proxy.
pub fn cli(bench: &Bench, args: &[&str], input: &str) -> (bool, String) {
    use std::io::Write;
    let port = bench.proxy.local_addresses()[0].port();
    let mut child = Command::new("mariadb")
        .args(["--no-defaults", "-uapp", "-psecret", "-h127.0.0.1", "-N", "-B", "shop"])
        .arg(format!("-P{port}"))
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // What it prints is read meanwhile: its output may be larger than a pipe holds.
    let done = std::thread::scope(|scope| {
        // It may end before it has read all: it says why.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().unwrap()
    });
    let mut text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&done.stderr));
    (done.status.success(), text)
}
