//! Accounts of other plugins than mysql_native_password: what a client is asked, what is remembered of it, and what a node is shown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use fixture::answers;
use fixture::packet::{read_packet, write_packet};
use fixture::scripted::{Act, ScriptedNode, Setup};
use fixture::tls::Certificate;
use harness::{Bench, SECOND, connect, connect_under, one, routes_of, settings, shows};
use link::{Link, LinkError, Login, Secret, ServerTls};
use protocol::auth::stored_sha2::Stored;
use protocol::auth::{caching_sha2, ed25519, native};
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::handshake::{AuthSwitch, Greeting, LoginRequest};
use protocol::ok::ErrPacket;
use proxy::Settings;
use tokio::net::TcpStream;
use topology::account::{Account, Accounts, Proof};
use topology::routes::{LaneState, Routes, ServerGreeting};

/// Of "secret", as MySQL 9.7.4 stores it.
const STORED: &str = "$A$00A$#:c=(Ww(|_sW\"K<3WM6\x01FcNcHaj8vWvQ1i5JCOrrdhEs.XWDztVV4P45b3bgLF0";
const REFUSED_AFTER: std::time::Duration = std::time::Duration::from_secs(2);

fn account(user: &str, proof: Proof) -> Account {
    Account { user: user.into(), host: "%".into(), proofs: vec![proof], ..Account::default() }
}

fn sha2(user: &str) -> Account {
    account(user, Proof::CachingSha2(Stored::parse(STORED).unwrap()))
}

fn native_account(user: &str) -> Account {
    account(user, Proof::Native(native::stage2(&native::stage1(b"secret"))))
}

/// A proxy with these accounts, whose clients may use TLS, before a node that lets everybody in while it remembers them.
struct Scene {
    bench: Bench,
    certificate: Certificate,
    forgets: Arc<AtomicBool>,
    _node: ScriptedNode,
}

impl Scene {
    async fn set(accounts: Vec<Account>) -> Self {
        let forgets = Arc::new(AtomicBool::new(false));
        let setup = Setup { forgets: forgets.clone(), ..Setup::default() };
        let node = ScriptedNode::with(setup, |heard| match heard.text() {
            Some("SELECT 1") => vec![Act::Say(heard.rows(&["1"], &[&["1"]]))],
            _ => vec![Act::Say(answers::ok())],
        })
        .await;
        let mut routes =
            Routes::clone(&routes_of(1, vec![harness::lane(0, node.address(), LaneState::Open, 1)]));
        routes.accounts = Arc::new(Accounts::new(accounts));
        let greeting = routes.greeting.as_deref().unwrap();
        let plugin = caching_sha2::PLUGIN.to_owned();
        routes.greeting = Some(Arc::new(ServerGreeting { plugin, ..ServerGreeting::clone(greeting) }));
        let certificate = Certificate::of("127.0.0.1");
        let tls = shows(&certificate, false);
        // Hash checks are slow in an unoptimised build.
        let settings = Settings { tls, login_timeout: 30 * SECOND, ..settings() };
        let bench = Bench::new(settings, Arc::new(routes));
        Self { bench, certificate, forgets, _node: node }
    }

    fn address(&self) -> SocketAddr {
        self.bench.proxy.local_addresses()[0]
    }

    async fn plain(&self) -> Result<Link, LinkError> {
        connect(&self.bench.address()).await
    }

    async fn under_tls(&self) -> Result<Link, LinkError> {
        let tls = ServerTls::trusting(self.certificate.pem().as_bytes()).unwrap();
        connect_under(&self.bench.address(), Some(tls)).await
    }

    async fn login(&self, user: &str, secret: Secret) -> Result<Link, LinkError> {
        let tls = Some(ServerTls::trusting(self.certificate.pem().as_bytes()).unwrap());
        let login =
            Login { tls, caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION, ..Login::new(user, secret) };
        Link::connect(&self.bench.address(), &login, 10 * SECOND).await
    }
}

fn errno(found: &Result<Link, LinkError>) -> u16 {
    match found {
        Err(LinkError::Rejected { errno, .. }) => *errno,
        other => panic!("an error was expected, not {other:?}"),
    }
}

fn digest() -> Secret {
    Secret::Sha256(caching_sha2::stage1(b"secret"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_shown_once_under_tls_and_its_digest_is_enough_from_then_on() {
    let scene = Scene::set(vec![sha2("app")]).await;
    let refused = raw(
        scene.address(),
        "app",
        |salt| caching_sha2::reply(&caching_sha2::stage1(b"secret"), salt).to_vec(),
        b"secret\0",
    )
    .await;
    assert_eq!(refused.0, 9121, "{refused:?}");
    assert!(refused.1.contains("connect with TLS"), "{refused:?}");
    assert!(scene.login("app", digest()).await.is_err(), "no password was shown yet");
    let mut client = scene.under_tls().await.unwrap();
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
    let mut client = scene.plain().await.unwrap();
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
    scene.login("app", digest()).await.unwrap();
    // Who is wrong by the digest is asked for the password, as whom nobody knows.
    let began = Instant::now();
    assert_eq!(errno(&scene.login("app", Secret::Password("Secret".into())).await), 1045);
    assert!(began.elapsed() >= REFUSED_AFTER);
    assert_eq!(errno(&scene.login("nobody", Secret::Password("secret".into())).await), 1045);
}

/// More at once than may be wrong: none of them is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_may_show_its_password_at_once() {
    let scene = Arc::new(Scene::set(vec![sha2("app")]).await);
    let mut pool = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let scene = scene.clone();
        pool.spawn(async move { scene.under_tls().await.map(drop) });
    }
    while let Some(found) = pool.join_next().await {
        found.unwrap().unwrap();
    }
    // Who is wrong is counted all the same, also where the digest alone says it.
    let wrong = async || errno(&scene.login("app", Secret::Password("Secret".into())).await);
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let scene = scene.clone();
        guesses.spawn(async move { errno(&scene.login("app", Secret::Password("Secret".into())).await) });
    }
    let told: Vec<u16> = guesses.join_all().await;
    assert!(told.iter().filter(|code| **code == 1045).count() <= 20, "{told:?}");
    assert_eq!(wrong().await, 9120);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_forgotten_is_told_and_the_next_client_shows_its_password() {
    let scene = Scene::set(vec![sha2("app")]).await;
    drop(scene.under_tls().await.unwrap());
    scene.forgets.store(true, Relaxed);
    let found = scene.plain().await;
    assert_eq!(errno(&found), 9111);
    assert!(found.unwrap_err().to_string().contains("makes it known again"));
    scene.forgets.store(false, Relaxed);
    // The digest alone would do, and is not enough this time.
    assert!(scene.login("app", digest()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_password_is_not_the_remembered_one() {
    let scene = Scene::set(vec![sha2("app")]).await;
    drop(scene.under_tls().await.unwrap());
    let mut routes = Routes::clone(&scene.bench.routes.borrow());
    (routes.version, routes.term) = (2, topology::Term(2));
    let other = Stored::parse(&STORED.replace("FcNcHaj8", "FcNcHaj9")).unwrap();
    routes.accounts = Arc::new(Accounts::new(vec![account("app", Proof::CachingSha2(other))]));
    scene.bench.follow(Arc::new(routes)).await;
    assert_eq!(errno(&scene.under_tls().await), 1045);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_signs_is_told_why_it_is_not_served() {
    let key = Proof::Ed25519(ed25519::public_key(b"secret"));
    let mut either = native_account("either");
    either.proofs.insert(0, key.clone());
    let locked = Account { locked: true, ..native_account("locked") };
    let scene = Scene::set(vec![account("app", key), either, locked]).await;
    let password = || Secret::Password("secret".into());
    let found = scene.login("app", password()).await;
    assert_eq!(errno(&found), 9122);
    let said = found.unwrap_err().to_string();
    assert!(said.contains("OR mysql_native_password") && said.contains("[[proxy.account]]"), "{said}");
    assert_eq!(errno(&scene.login("app", Secret::Password("Secret".into())).await), 1045);
    let stage1 = Secret::Stage1(native::stage1(b"secret"));
    scene.login("either", stage1).await.unwrap();
    let found = scene.login("locked", password()).await;
    assert_eq!(errno(&found), 9122);
    assert!(found.unwrap_err().to_string().contains("locked"));
    assert_eq!(errno(&scene.login("locked", Secret::Password("Secret".into())).await), 1045);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_changes_to_one_of_another_plugin() {
    let scene = Scene::set(vec![sha2("app"), native_account("other")]).await;
    drop(scene.under_tls().await.unwrap());
    let mut link = scene.plain().await.unwrap();
    for (user, plugin) in
        [("other", native::PLUGIN), ("app", caching_sha2::PLUGIN), ("other", native::PLUGIN)]
    {
        let command = [&[Command::CHANGE_USER.0], user.as_bytes(), b"\0\0shop\0\x2d\0what\0"].concat();
        write_packet(&mut link.stream, 0, &command).await.unwrap();
        let (head, payload) = read_packet(&mut link.stream).await.unwrap();
        let switch = AuthSwitch::parse(&payload).unwrap();
        assert_eq!(switch.plugin, plugin);
        let salt = switch.salt().unwrap();
        let answer = match plugin {
            native::PLUGIN => native::reply(&native::stage1(b"secret"), &salt).to_vec(),
            _ => caching_sha2::reply(&caching_sha2::stage1(b"secret"), &salt).to_vec(),
        };
        write_packet(&mut link.stream, head.seq + 1, &answer).await.unwrap();
        let mut said = read_packet(&mut link.stream).await.unwrap().1;
        if plugin == caching_sha2::PLUGIN {
            assert_eq!(said, caching_sha2::FAST);
            said = read_packet(&mut link.stream).await.unwrap().1;
        }
        assert_eq!(said[0], 0, "{said:?}");
        assert_eq!(one(&mut link, "SELECT 1").await, "1");
    }
}

/// A login over a plain connection that answers the challenge, and then the question for the password with `shown`: the error's number and sentence.
async fn raw(
    address: SocketAddr,
    user: &str,
    answer: impl Fn(&[u8; 20]) -> Vec<u8>,
    shown: &[u8],
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let greeting = Greeting::parse(&read_packet(&mut stream).await.unwrap().1).unwrap();
    assert_eq!(greeting.plugin, caching_sha2::PLUGIN);
    let request = LoginRequest {
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH | Caps::TRANSACTIONS,
        max_packet: 1 << 24,
        charset: 45,
        user: user.into(),
        auth: answer(&greeting.salt),
        database: None,
        plugin: Some(caching_sha2::PLUGIN.into()),
        attrs: vec![],
        zstd_level: 0,
    };
    write_packet(&mut stream, 1, &request.encode()).await.unwrap();
    let (head, payload) = read_packet(&mut stream).await.unwrap();
    assert_eq!(payload, caching_sha2::FULL);
    write_packet(&mut stream, head.seq + 1, shown).await.unwrap();
    let err = read_packet(&mut stream).await.unwrap().1;
    let err = ErrPacket::parse(&err).unwrap();
    (err.code, String::from_utf8_lossy(err.message).into_owned())
}
