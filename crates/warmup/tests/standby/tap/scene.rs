//! A proxy in front of one real server, and its twin with the same rows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fixture::Server;
use fixture::client::{Client, ClientOptions};
use link::{Endpoint, Login, Secret};
use protocol::auth::native;
use proxy::{Handle, Inputs, Settings};
use tokio::sync::{mpsc, watch};
use topology::account::{Account, Accounts, Proof};
use topology::fact::ProxyFact;
use topology::routes::{Lane, LaneState, Routes, ServerGreeting};
use topology::{NodeId, Term};
use warmup::replay::target::Target;

/// Both servers have this.
const DATA: &str = "\
CREATE TABLE shop.v (id INT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, d DECIMAL(20,4), g DOUBLE, dt DATE, ts DATETIME(6), tm TIME(6), \
  s VARCHAR(50) CHARACTER SET utf8mb4, b VARBINARY(50));
INSERT INTO shop.v VALUES
  (1, -128, 0, -12.5, -0.1, '2024-02-29', '2024-02-29 01:02:03.123456', '-26:03:04', 'it''s', 0x0027),
  (2, -9223372036854775808, 18446744073709551615, 0, 1e300, '0000-00-00', '0000-00-00 00:00:00', '838:59:59', '\u{e4}\u{f6}', 0xFF5C),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, 7, 7, 12345678901234.5678, 7, '1999-12-31', '1999-12-31 23:59:59', '00:00:00.000001', 'a\\\\b\\n\"c', '');
CREATE DATABASE other;
CREATE TABLE other.v (id INT PRIMARY KEY);
INSERT INTO other.v VALUES (100), (101), (102), (103), (104);
CREATE USER warm@'%' IDENTIFIED BY 'warm';
GRANT SELECT ON *.* TO warm@'%';
CREATE USER second@'%' IDENTIFIED BY 'secret';
GRANT ALL ON *.* TO second@'%';";

pub struct Scene {
    _active: Server,
    pub twin: Server,
    pub proxy: Handle,
    _routes: watch::Sender<Arc<Routes>>,
    _facts: mpsc::Receiver<ProxyFact>,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with(&[])
    }

    /// Both servers with these options.
    pub fn with(options: &[&str]) -> Scene {
        let (active, twin) = (Server::start(options), Server::start(options));
        for server in [&active, &twin] {
            server.sql(&format!("SET NAMES utf8mb4; SET sql_mode=''; {DATA}"));
        }
        let (sender, receiver) = watch::channel(routes(active.address()));
        let (facts, seen) = mpsc::channel(100);
        let proxy = proxy::start(settings(), Inputs { routes: receiver, facts }).unwrap();
        Scene { _active: active, twin, proxy, _routes: sender, _facts: seen }
    }

    pub fn through(&self) -> SocketAddr {
        self.proxy.local_addresses()[0]
    }

    pub async fn client(&self) -> Client {
        self.client_as(&ClientOptions::default()).await
    }

    pub async fn client_as(&self, options: &ClientOptions) -> Client {
        Client::connect_as(self.through(), options).await.unwrap_or_else(|part| panic!("{part:?}"))
    }

    /// The twin, with an account that can only read.
    pub fn target(&self) -> Arc<Target> {
        let login = Login { database: Some(b"shop".to_vec()), ..login("warm", "warm") };
        let place = Endpoint::Tcp(self.twin.address().to_string());
        Arc::new(Target { place, login, session_init: vec![] })
    }
}

pub fn login(user: &str, password: &str) -> Login {
    use protocol::capability::Caps;
    Login {
        tls: None,
        user: user.into(),
        secret: Secret::Password(password.into()),
        database: None,
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH | Caps::MULTI_RESULTS,
        user_sent: None,
        charset: 45,
        attrs: vec![],
        max_packet: 1 << 24,
        compression: None,
        proxied: None,
    }
}

fn settings() -> Settings {
    let second = Duration::from_secs(1);
    Settings {
        listen: vec!["127.0.0.1:0".into()],
        hold_time: 10 * second,
        hold_statements_max: 100,
        hold_bytes_max: 1 << 20,
        release_at_once: 4,
        connect_timeout: 5 * second,
        tls: None,
        certificate_expires_unix_s: None,
        monitor: Login::with_password("monitor", ""),
        node_tls: None,
        passwords: Arc::default(),
        proxy_header_from: [].into(),
        node_compression: None,
        node_proxy_header: None,
        login_timeout: 5 * second,
        client_idle_max: Duration::ZERO,
        retain_bytes_max: 1 << 20,
        resends_max: 1,
        suspect_time: 60 * second,
        password_errors_max: 20,
        password_error_pause: 60 * second,
        client_connections_max: 100,
        writers_all: false,
    }
}

fn routes(address: SocketAddr) -> Arc<Routes> {
    let lane = Lane { state: LaneState::Open, epoch: 1, ..Lane::shut(NodeId(0), "db1", address.to_string()) };
    let proof = Proof::Native(native::stage2(&native::stage1(b"secret")));
    let account = |user: &str| Account {
        user: user.into(),
        host: "%".into(),
        proofs: vec![proof.clone()],
        ..Account::default()
    };
    Arc::new(Routes {
        version: 1,
        term: Term(1),
        lanes: vec![lane],
        hold_because: None,
        greeting: Some(Arc::new(ServerGreeting {
            version: "5.5.5-10.11.19-MariaDB".into(),
            capabilities: 0x25_81FF_F7FE,
            charset: 45,
            status: 2,
            plugin: "mysql_native_password".into(),
        })),
        accounts: Arc::new(Accounts::new(vec![account("app"), account("second")])),
        catalogue: Some(Arc::default()),
    })
}
