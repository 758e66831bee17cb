//! `understudy serve` with `cluster.tls = "verified"`, before servers whose accounts must all use TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lab::fault::Fault;
use lab::stage::account::MONITOR_USER;
use lab::stage::replication::REPLICATION_USER;
use lab::stage::{ClusterKind, Stage, StagePlan};
use link::{Link, Login};
use testbed::program::{Serving, with_config};
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::{self, Writers};

use crate::lost_member::scene::{Scene as Galera, two_writers};

/// What a node of the stage shows.
const FILES: [&str; 2] = ["server.crt", "server.key"];

const LONG: Duration = Duration::from_secs(30);

/// Puts these lines into `[cluster]`.
fn secure(dir: &Path, lines: &str) {
    let file = dir.join("understudy.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = text.split_once("[[cluster.node]]").unwrap();
    let head = head.lines().filter(|line| !line.starts_with("tls")).collect::<Vec<_>>().join("\n");
    std::fs::write(&file, format!("{head}\n{lines}\n[[cluster.node]]{rest}")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_must_be_used_under_tls_is_replaced() {
    let scene = Scene::on(StagePlan {
        kind: ClusterKind::Replication { semi_sync: true },
        name: format!("t{}-tls", std::process::id()),
        tls: true,
        ..StagePlan::default()
    })
    .await;
    for user in [MONITOR_USER, REPLICATION_USER] {
        scene.stage.run_in("db1", &format!("ALTER USER {user}@'%' REQUIRE SSL")).await.unwrap();
    }
    // Its writers are plain, to Understudy.
    for node in ["db1", "db2", "db3"] {
        scene.stage.run_in(node, "SET GLOBAL require_secure_transport = ON").await.unwrap();
    }
    let signer = scene.signer("auth_ed25519", "ed25519").await;
    let directory = scene.directory(&format!("failover_gap_ms = 0\n{signer}"));
    let config = directory.path().join("understudy.toml");
    let plain = with_config(&config, &["serve", "--check"]).with(1);
    assert!(plain.contains("Access denied"), "{plain}");
    let authority = scene.stage.authority().unwrap();
    let verified = format!("tls = \"verified\"\ntls_ca_file = \"{}\"", authority.display());
    secure(directory.path(), &verified);
    let checked = with_config(&config, &["serve", "--check"]).with(0);
    assert!(checked.contains("a password of proxy.account fits 'signer'@'%'"), "{checked}");
    let right = std::fs::read_to_string(&config).unwrap();
    let (wrong, other) =
        (right.replace("\"signed\"", "\"Signed\""), right.replace("\"signer\"", "\"nobody\""));
    std::fs::write(&config, wrong).unwrap();
    let said = with_config(&config, &["serve", "--check"]).with(1);
    let line = 1 + right.lines().position(|line| line == "[[proxy.account]]").unwrap();
    let expected = format!("understudy.toml:{line}: clients of 'signer'@'%' cannot be let in: the password");
    assert!(said.contains(&expected), "{said}");
    std::fs::write(&config, other).unwrap();
    let said = with_config(&config, &["serve", "--check"]).with(0);
    assert!(said.contains("WARN   ") && said.contains("no account of this name"), "{said}");
    std::fs::write(&config, right).unwrap();
    let forecast = with_config(&config, &["recovery", "forecast"]).said();
    assert!(!forecast.contains("Access denied") && forecast.contains("db3"), "{forecast}");

    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");
    let other = directory.path().join("other.crt");
    std::fs::copy(serving.state("https.crt"), &other).unwrap();
    secure(directory.path(), &format!("tls = \"verified\"\ntls_ca_file = \"{}\"", other.display()));
    let refused = serving.ask(&["reload"]).with(1);
    assert!(refused.contains("certificate") && refused.contains("nothing was changed"), "{refused}");
    secure(directory.path(), &verified);
    serving.ask(&["reload"]).with(0);

    demands(&scene, directory.path(), &serving, &verified).await;
    let login = Login::with_password("signer", "signed");
    let mut signed = Link::connect(&scene.through().to_string(), &login, LONG).await.unwrap();
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    writers.more(20).await;
    let told = writers.stop().await;
    let moved = |status: &_| !writer(status).is_empty() && writer(status) != "db1";
    let primary = writer(&status_when(&serving, "another is the primary", moved));
    let on = signed.query("SELECT CONCAT('db', @@server_id)", LONG).await.unwrap();
    assert_eq!(on.text(0, 0), Some(&*primary), "the session of an account that signs has moved");
    scene.stage.start("db1").await.unwrap();
    let follows = |status: &_| is_well(status) && scene.follows(status, "db1") == scene.address(&primary);
    status_when(&serving, "the old primary follows the new one", follows);
    scene.has_all(&told, &["db1", "db2", "db3"]).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Accounts that demand TLS or a certificate: of the client by the proxy, and of the proxy by the node.
async fn demands(scene: &Scene, directory: &Path, serving: &Serving, verified: &str) {
    for (user, requires) in [("tls", "SSL"), ("shows", "X509"), ("certain", "SUBJECT '/CN=client'")] {
        let statement = format!("CREATE USER {user}@'%' IDENTIFIED BY 'secret' REQUIRE {requires}");
        scene.stage.run_in("db1", &statement).await.unwrap();
    }
    let files = ["ca.crt", "client.crt", "client.key"].map(|file| scene.stage.directory().join(file));
    let [ca, certificate, key] = files.map(|file| file.display().to_string());
    let shown = [format!("--ssl-cert={certificate}"), format!("--ssl-key={key}")];
    let client = |user: &str, arguments: &[&str]| {
        let done = std::process::Command::new("mariadb")
            .args(["--no-defaults", "-psecret", "-N", "-B", "-e", "SELECT CURRENT_USER()"])
            .args([format!("-u{user}"), format!("-h{}", scene.through().ip()), "-P6033".into()])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    };
    let with_certificate = [&*shown[0], &*shown[1]];
    assert!(client("tls", &["--skip-ssl"]).contains("ERROR 1045"), "not in the clear");
    assert!(client("tls", &["--ssl"]).contains("tls@%"));
    // Nobody is asked for a certificate yet, so that none is seen.
    assert!(client("shows", &with_certificate).contains("ERROR 1045"));
    secure(
        directory,
        &format!("{verified}\ntls_certificate_file = \"{certificate}\"\ntls_key_file = \"{key}\""),
    );
    let file = directory.join("understudy.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[listen]\n", &format!("[listen]\ntls_ca_file = \"{ca}\"\n")))
        .unwrap();
    serving.ask(&["reload"]).with(0);
    assert!(client("shows", &["--ssl"]).contains("ERROR 1045"), "it shows none");
    assert!(client("shows", &with_certificate).contains("shows@%"));
    assert!(client("tls", &["--ssl"]).contains("tls@%"), "and need not");
    let strange = [
        format!("--ssl-cert={}", serving.state("https.crt").display()),
        format!("--ssl-key={}", serving.state("https.key").display()),
    ];
    let said = client("shows", &[&strange[0], &strange[1]]);
    assert!(
        said.contains("ERROR 2026") || said.contains("ERROR 2013"),
        "of no authority that is known: {said}"
    );
    let said = client("certain", &with_certificate);
    assert!(said.contains("ERROR 9122") && said.contains("REQUIRE X509 or REQUIRE SSL"), "{said}");
}

/// A member whose new certificate nobody can trust, and one that has locked the monitor's account: both live, and their sessions go on elsewhere
/// without an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_refuses_new_logins_is_left_in_good_order() {
    let scene = Galera::of(StagePlan { tls: true, ..Galera::plan("tlsg") }).await;
    let (stage, through) = (&scene.stage, SocketAddr::from((scene.stage.host_address(), 6033)));
    let directory = scene.directory("", None);
    let authority = stage.authority().unwrap();
    secure(directory.path(), &format!("tls = \"verified\"\ntls_ca_file = \"{}\"", authority.display()));
    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");
    let clients = two_writers(through);
    clients.more(20).await;

    // Nobody is cut by that: the connections that stand go on, and new ones find a certificate of another address.
    let own = certificate(stage, "db1");
    show(stage, "db1", &certificate(stage, "db2")).await;
    let refused = writers::connect(through).await.err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|error| error.contains("certificate")), "{refused:?}");
    let status = status_when(&serving, "another writes", |status| !["", "db1"].contains(&&*writer(status)));
    assert!(status["nodes"][0]["reason"].to_string().contains("certificate"), "{status:#}");
    writers::connect(through).await.unwrap().disconnect().await.unwrap();
    show(stage, "db1", &own).await;
    let locked = writer(&status_when(&serving, "all are well again", is_well));
    clients.more(20).await;

    // Of this member alone: a statement about accounts would be replicated.
    let lock = |is: bool| {
        format!(
            "UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.account_locked', {is}) WHERE User = '{MONITOR_USER}'"
        )
    };
    for statement in [&lock(true), "FLUSH LOCAL PRIVILEGES", &format!("KILL USER {MONITOR_USER}")] {
        stage.run_in(&locked, statement).await.unwrap();
    }
    status_when(&serving, "another writes", |status| !["", &*locked].contains(&&*writer(status)));
    clients.more(20).await;
    for statement in [&lock(false), "FLUSH LOCAL PRIVILEGES"] {
        stage.run_in(&locked, statement).await.unwrap();
    }
    status_when(&serving, "all are well again", is_well);
    clients.more(20).await;
    let told = clients.stop().await;
    assert!(told.errors.is_empty(), "{:?}\n{}", told.errors, journal(&serving));
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// A node's certificate with its key.
fn certificate(stage: &Stage, node: &str) -> [Vec<u8>; 2] {
    FILES.map(|file| std::fs::read(stage.directory().join(node).join(file)).unwrap())
}

/// Has the node show that one to whoever connects from now on.
async fn show(stage: &Stage, node: &str, certificate: &[Vec<u8>; 2]) {
    for (file, bytes) in FILES.iter().zip(certificate) {
        std::fs::write(stage.directory().join(node).join(file), bytes).unwrap();
    }
    stage.run_in(node, "FLUSH SSL").await.unwrap();
}
