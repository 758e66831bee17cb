//! Accounts of a real MySQL 9.7, whose default plugin is caching_sha2_password, through the proxy: with MySQL's own client as it comes, and from a
//! client of ours. `scripts/servers.sh mysql-9.7` unpacks both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fixture::free_port;
use fixture::tls::Certificate;
use harness::{Bench, SECOND, lane, one, routes_of, run_as_root, settings, shows, unpacked};
use link::{Codec, Endpoint, Link, LinkError, Login, Secret, ServerTls, Unanswered};
use protocol::auth::caching_sha2;
use protocol::auth::stored_sha2::Stored;
use proxy::Settings;
use topology::account::{Account, Accounts, Proof};
use topology::routes::{LaneState, Routes, ServerGreeting};

use crate::logins::{greeted, packet, request, send};

const LONG: std::time::Duration = std::time::Duration::from_secs(60);

fn home() -> PathBuf {
    unpacked("mysql-9.7")
}

/// A server on a free port, with the account `app` of password "secret"; ended by its process id when it is dropped.
struct MySql {
    dir: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl MySql {
    fn start() -> Self {
        let program = home().join("sbin/mysqld");
        let dir = tempfile::Builder::new().prefix("understudy-test-").tempdir().unwrap();
        let done = mysqld(&program, dir.path()).arg("--initialize-insecure").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let port = free_port();
        let child = mysqld(&program, dir.path())
            .args([
                "--bind-address=127.0.0.1",
                "--mysqlx=OFF",
                "--skip-log-bin",
                "--innodb-buffer-pool-size=32M",
            ])
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", dir.path().join("s").display()))
            .spawn()
            .unwrap();
        Self { dir, child, port }
    }

    fn socket(&self) -> Endpoint {
        Endpoint::Unix(self.dir.path().join("s"))
    }

    async fn run(&self, statements: &[&str]) -> Link {
        run_as_root(self.dir.path(), statements).await
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mysqld(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--no-defaults", "--user=root", "--secure-file-priv="])
        .arg(format!("--basedir={}", home().display()))
        .arg(format!("--datadir={}", dir.join("data").display()))
        .arg(format!("--log-error={}", dir.join("log").display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn proof(stored: &str) -> Proof {
    match Stored::parse_sha256(stored) {
        Some(stored) => Proof::Sha256(stored),
        None => Proof::CachingSha2(Stored::parse(stored).unwrap()),
    }
}

/// The account table, as the manager reads it.
async fn accounts(link: &mut Link) -> Accounts {
    let asked = "SELECT user, host, authentication_string FROM mysql.user WHERE user IN ('app', 'newer', 'third', 'older')";
    let rows = link.query(asked, LONG).await.unwrap();
    let row = |row| Account {
        user: rows.text(row, 0).unwrap().into(),
        host: rows.text(row, 1).unwrap().into(),
        proofs: vec![proof(rows.text(row, 2).unwrap())],
        ..Account::default()
    };
    Accounts::new((0..rows.len()).map(row).collect())
}

/// MySQL's own client, through the proxy.
fn mysql(bench: &Bench, user: &str, arguments: &[&str], statement: &str) -> (bool, String) {
    mysql_with(bench, user, "secret", arguments, statement)
}

fn mysql_with(
    bench: &Bench,
    user: &str,
    password: &str,
    arguments: &[&str],
    statement: &str,
) -> (bool, String) {
    let done = Command::new(home().join("bin/mysql"))
        .args(["--no-defaults", &format!("-u{user}"), &format!("-p{password}"), "-h127.0.0.1", "-N", "-B"])
        .arg(format!("-P{}", bench.proxy.local_addresses()[0].port()))
        .args(arguments)
        .args(["-e", statement])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.success(), said)
}

/// The proxy's RSA key, as a client of `third` is shown it.
async fn rsa_key(proxy: SocketAddr) -> Vec<u8> {
    let (mut stream, greeting) = greeted(proxy).await;
    send(&mut stream, 1, &request("third", "secret", &greeting.salt, caching_sha2::PLUGIN)).await;
    let (mut seq, mut answer) = packet(&mut stream).await;
    while answer != caching_sha2::FULL {
        // The proxy asks for this plugin's answer first: none is right as long as the account is not remembered.
        send(&mut stream, seq + 1, &[7; 32]).await;
        (seq, answer) = packet(&mut stream).await;
    }
    send(&mut stream, seq + 1, &caching_sha2::KEY_WANTED).await;
    packet(&mut stream).await.1[1..].to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysqls_default_accounts_work_with_mysqls_own_client() {
    let server = MySql::start();
    let mut root = server
        .run(&[
            "CREATE DATABASE shop",
            "CREATE USER app@'%' IDENTIFIED BY 'secret'",
            "GRANT ALL ON *.* TO app@'%'",
            "SET GLOBAL caching_sha2_password_storage_format = 'PBKDF2_SHA512'",
            "CREATE USER newer@'%' IDENTIFIED BY 'secret'",
            "CREATE USER third@'%' IDENTIFIED BY 'secret'",
            "CREATE USER older@'%' IDENTIFIED WITH sha256_password BY 'secret'",
        ])
        .await;
    let node = lane(0, ([127, 0, 0, 1], server.port).into(), LaneState::Open, 1);
    let mut routes = Routes::clone(&routes_of(1, vec![node]));
    routes.accounts = Arc::new(accounts(&mut root).await);
    let greeting = ServerGreeting {
        version: root.greeting.version.clone(),
        capabilities: root.greeting.caps.0,
        charset: root.greeting.charset,
        status: 2,
        plugin: root.greeting.plugin.clone(),
    };
    assert_eq!(greeting.plugin, caching_sha2::PLUGIN);
    routes.greeting = Some(Arc::new(greeting));
    let tls = shows(&Certificate::of("127.0.0.1"), false);
    let bench_settings = Settings { tls, ..settings() };
    let bench = Bench::new(bench_settings.clone(), Arc::new(routes));

    // Nobody remembers the account: a plain client encrypts its password with the proxy's key, if it may ask for one; that with the defaults uses TLS.
    let whoami = "SELECT 6 * 7, CURRENT_USER()";
    let (is_well, said) = mysql(&bench, "app", &["--ssl-mode=DISABLED"], whoami);
    assert!(!is_well && said.contains("requires secure connection"), "the client's own word: {said}");
    let with_key = ["--ssl-mode=DISABLED", "--get-server-public-key"];
    let (is_well, said) = mysql(&bench, "newer", &with_key, whoami);
    assert!(is_well && said.contains("42\tnewer@%"), "{said}");
    // A client that has the key already does not ask for it.
    let file = server.dir.path().join("proxy.pem");
    std::fs::write(&file, rsa_key(bench.proxy.local_addresses()[0]).await).unwrap();
    let has_key = ["--ssl-mode=DISABLED", &format!("--server-public-key-path={}", file.display())];
    let (is_well, said) = mysql(&bench, "third", &has_key, whoami);
    assert!(is_well && said.contains("42\tthird@%"), "{said}");
    let (is_well, said) = mysql(&bench, "app", &["--ssl-mode=REQUIRED"], whoami);
    assert!(is_well && said.contains("42\tapp@%"), "{said}");
    let (is_well, said) = mysql(&bench, "newer", &[], whoami);
    assert!(is_well && said.contains("42\tnewer@%"), "{said}");
    let (is_well, said) = mysql(&bench, "app", &["--ssl-mode=DISABLED"], whoami);
    assert!(is_well && said.contains("42\tapp@%"), "remembered: {said}");

    // The server forgets: a session by the digest is told so, and the next one that shows its password makes it known again.
    root.query("FLUSH PRIVILEGES", LONG).await.unwrap();
    let (is_well, said) = mysql(&bench, "app", &["--ssl-mode=DISABLED"], whoami);
    assert!(!is_well && said.contains("ERROR 9111") && said.contains("makes it known again"), "{said}");
    let (is_well, said) = mysql(&bench, "app", &[], whoami);
    assert!(is_well && said.contains("42\tapp@%"), "{said}");
    let (is_well, said) = mysql(&bench, "app", &["--ssl-mode=DISABLED"], whoami);
    assert!(is_well && said.contains("42\tapp@%"), "{said}");

    // Its client ends where none of the algorithms that it names is agreed on.
    for options in [
        vec!["--compression-algorithms=zlib"],
        vec!["--compression-algorithms=zstd", "--zstd-compression-level=7"],
        vec!["--compression-algorithms=zstd", "--ssl-mode=DISABLED"],
    ] {
        let (is_well, said) =
            mysql(&bench, "app", &options, "SELECT REPEAT('x', 3000000), RANDOM_BYTES(1) > ''");
        let is_whole = said.contains(&"x".repeat(3_000_000));
        assert!(is_well && is_whole, "{options:?}: {} bytes: {}", said.len(), &said[..said.len().min(500)]);
    }

    // To the node, too.
    for (codec, name) in [(Codec::Zlib, "zlib"), (Codec::Zstd { level: 7 }, "zstd")] {
        let settings = Settings { node_compression: Some(codec), ..bench_settings.clone() };
        bench.proxy.apply(settings, SECOND);
        let said = mysql(&bench, "app", &[], "SHOW SESSION STATUS LIKE 'Compression_a%'").1;
        assert!(said.contains(&format!("Compression_algorithm\t{name}")), "{said}");
        let long = "y".repeat(100_000);
        let statement = format!("SELECT REPEAT('x', 3000000), LENGTH('{long}'); SELECT 6 * 7");
        let (is_well, said) = mysql(&bench, "app", &["--compression-algorithms=zstd"], &statement);
        let is_whole = said.contains(&("x".repeat(3_000_000) + "\t100000\n42\n"));
        assert!(is_well && is_whole, "{name}: {} bytes: {}", said.len(), &said[..said.len().min(500)]);
    }
    bench.proxy.apply(bench_settings, SECOND);

    // sha256_password: the password each time, under TLS or our key, and no node remembers anything.
    for options in [
        &["--ssl-mode=REQUIRED"][..],
        &["--ssl-mode=DISABLED"],
        &["--default-auth=sha256_password"],
        &has_key,
    ] {
        let (is_well, said) = mysql(&bench, "older", options, whoami);
        assert!(is_well && said.contains("42\tolder@%"), "{options:?}: {said}");
    }
    let done = mysql_with(&bench, "older", "Secret", &[], whoami);
    assert!(!done.0 && done.1.contains("ERROR 1045"), "{}", done.1);

    let (is_well, said) = mysql(&bench, "nobody", &[], whoami);
    assert!(!is_well && said.contains("ERROR 1045"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_login_to_mysql() {
    let server = MySql::start();
    let mut root = server.run(&["CREATE USER app@'%' IDENTIFIED BY 'secret'"]).await;
    let address = format!("127.0.0.1:{}", server.port);
    let password = || Login::new("app", Secret::Password("secret".into()));
    let digest = Login::new("app", Secret::Sha256(caching_sha2::stage1(b"secret")));
    let forgotten = Link::connect(&address, &digest, LONG).await.unwrap_err();
    assert_eq!(forgotten, LinkError::Unanswered(Unanswered::Forgotten));
    let tls = Some(ServerTls::with_any_certificate().unwrap());
    let mut link = Link::connect(&address, &Login { tls: tls.clone(), ..password() }, LONG).await.unwrap();
    assert_eq!(one(&mut link, "SELECT 6 * 7").await, "42");
    // It remembers the account now: over a plain way, and by the digest.
    Link::connect(&address, &password(), LONG).await.unwrap();
    Link::connect(&address, &digest, LONG).await.unwrap();
    // Over a plain way it takes the password under its RSA key.
    root.query("FLUSH PRIVILEGES", LONG).await.unwrap();
    assert_eq!(Link::connect(&address, &digest, LONG).await.unwrap_err(), forgotten);
    Link::connect(&address, &password(), LONG).await.unwrap();
    Link::connect(&address, &digest, LONG).await.unwrap();
    root.query("FLUSH PRIVILEGES", LONG).await.unwrap();
    Link::connect_to(&server.socket(), &password(), LONG).await.unwrap();
    Link::connect(&address, &digest, LONG).await.unwrap();
    let wrong = Login { tls, ..Login::new("app", Secret::Password("Secret".into())) };
    let wrong = Link::connect(&address, &wrong, LONG).await;
    assert!(matches!(wrong, Err(LinkError::Rejected { errno: 1045, .. })), "{wrong:?}");
    // Logins that were not answered have not blocked the host (max_connect_errors).
    for _ in 0..120 {
        root.query("FLUSH PRIVILEGES", LONG).await.unwrap();
        assert!(Link::connect(&address, &digest, 5 * SECOND).await.is_err());
    }
    let found = Link::connect(&address, &digest, LONG).await.unwrap_err();
    assert_eq!(found, LinkError::Unanswered(Unanswered::Forgotten));
}
