//! Who is let in, who is not, and what each of them hears: the same for everyone who has proved nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::Server;
use fixture::client::{Client, ClientOptions};
use fixture::packet::{read_packet, write_packet};
use harness::{Bench, SECOND, connect, one, routes, settings};
use link::{Link, LinkError, Login, Secret};
use protocol::auth::native;
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::handshake::{AuthSwitch, Greeting, LoginRequest};
use protocol::ok::ErrPacket;
use protocol::ok::status::{ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES};
use protocol::packet::put_packet;
use proxy::Settings;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use topology::account::{Account, Accounts, Proof};
use topology::routes::{LaneState, Routes, ServerGreeting};

/// What the proxy waits for an account that may be new, before it says no.
const REFUSED_AFTER: Duration = Duration::from_secs(2);

fn with_accounts(routes: &Arc<Routes>, version: u64, accounts: Vec<Account>) -> Arc<Routes> {
    let mut routes = Routes::clone(routes);
    routes.version = version;
    routes.term = topology::Term(version);
    routes.accounts = Arc::new(Accounts::new(accounts));
    Arc::new(routes)
}

fn native(user: &str, password: &str) -> Account {
    let proof = Proof::Native(native::stage2(&native::stage1(password.as_bytes())));
    Account { user: user.into(), host: "%".into(), proofs: vec![proof], ..Account::default() }
}

pub async fn packet(stream: &mut (impl AsyncRead + Unpin)) -> (u8, Vec<u8>) {
    let (head, payload) = read_packet(stream).await.unwrap();
    (head.seq, payload)
}

pub async fn send(stream: &mut (impl AsyncWrite + Unpin), seq: u8, payload: &[u8]) {
    write_packet(stream, seq, payload).await.unwrap();
}

pub async fn greeted(address: SocketAddr) -> (TcpStream, Greeting) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let greeting = Greeting::parse(&packet(&mut stream).await.1).unwrap();
    (stream, greeting)
}

pub fn request(user: &str, password: &str, salt: &[u8; 20], plugin: &str) -> Vec<u8> {
    LoginRequest {
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH | Caps::TRANSACTIONS,
        max_packet: 1 << 24,
        charset: 45,
        user: user.into(),
        auth: native::reply(&native::stage1(password.as_bytes()), salt).to_vec(),
        database: Some(b"shop".to_vec()),
        plugin: Some(plugin.into()),
        attrs: vec![],
        zstd_level: 0,
    }
    .encode()
}

/// Logs in in vain; the error's sequence number and sentence, and how long it took.
async fn refused(address: SocketAddr, user: &str, plugin: &str) -> (u8, String, Duration) {
    let (mut stream, greeting) = greeted(address).await;
    let began = Instant::now();
    send(&mut stream, 1, &request(user, "wrong", &greeting.salt, plugin)).await;
    let mut answer = packet(&mut stream).await;
    if answer.1[0] == 0xFE {
        let salt = AuthSwitch::parse(&answer.1).unwrap().salt().unwrap();
        send(&mut stream, 3, &native::reply(&native::stage1(b"wrong"), &salt)).await;
        answer = packet(&mut stream).await;
    }
    let err = ErrPacket::parse(&answer.1).unwrap();
    assert_eq!(err.code, 1045);
    (answer.0, String::from_utf8_lossy(err.message).replace(user, "USER"), began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_proved_nothing_learns_nothing() {
    let server = Server::start(&[]);
    let accounts = vec![
        native("app", "secret"),
        Account { locked: true, ..native("locked", "secret") },
        Account { proofs: vec![Proof::Other("ed25519".into())], ..native("other", "") },
        Account { proofs: vec![Proof::Empty], ..native("empty", "") },
    ];
    let first = with_accounts(&routes(1, &[(&server, LaneState::Open, 1)]), 1, accounts);
    let bench = Bench::new(settings(), first);
    let address = bench.proxy.local_addresses()[0];
    let tries = ["app", "locked", "other", "empty", "nobody"].map(|user| {
        tokio::spawn(async move {
            let at_once = refused(address, user, native::PLUGIN).await;
            let switched = refused(address, user, "caching_sha2_password").await;
            (at_once, switched)
        })
    });
    let mut sentences = vec![];
    for attempt in tries {
        let (at_once, switched) = attempt.await.unwrap();
        assert_eq!((at_once.0, switched.0), (2, 4), "numbered in turn");
        for (_, sentence, took) in [at_once, switched] {
            assert!((REFUSED_AFTER..REFUSED_AFTER + 3 * SECOND).contains(&took), "{took:?}");
            sentences.push(sentence);
        }
    }
    sentences.dedup();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].starts_with("Access denied for user 'USER'@'127.0.0.1' (using password: YES)"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_password_is_taken_as_soon_as_it_is_known() {
    let server = Server::start(&[]);
    let start = routes(1, &[(&server, LaneState::Open, 1)]);
    let bench = Bench::new(settings(), with_accounts(&start, 1, vec![native("app", "old")]));
    let address = bench.address();
    let client = tokio::spawn(async move { connect(&address).await });
    let mut facts = bench.facts;
    let wanted = facts.recv().await.unwrap();
    assert!(matches!(wanted, topology::fact::ProxyFact::UnknownAccount { .. }), "{wanted:?}");
    bench.routes.send_replace(with_accounts(&start, 2, vec![native("app", "secret")]));
    assert_eq!(one(&mut client.await.unwrap().unwrap(), "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_refused_for_accounts_that_were_never_read() {
    let server = Server::start(&[]);
    let start = routes(1, &[(&server, LaneState::Open, 1)]);
    let bench = Bench::new(settings(), with_accounts(&start, 1, vec![]));
    match connect(&bench.address()).await {
        Err(LinkError::Rejected { errno: 9112, message, .. }) => {
            assert!(message.contains("accounts"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let address = bench.address();
    let mut waiting = tokio::spawn(async move { connect(&address).await });
    let early = tokio::time::timeout(SECOND / 2, &mut waiting).await;
    assert!(early.is_err(), "let in or refused without accounts: {early:?}");
    bench.follow(start).await;
    assert_eq!(one(&mut waiting.await.unwrap().unwrap(), "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nodes_refusal_of_an_accepted_client_is_explained() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    // As when another row of the account table speaks for the proxy's address than for the client's.
    server.sql("ALTER USER app@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('another')");
    match connect(&bench.address()).await {
        Err(LinkError::Rejected { errno: 1045, message, .. }) => {
            assert!(message.contains("the node sees the proxy's address"), "{message}");
            assert!(message.contains("same password"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_user_asks_under_the_salt_of_the_login() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let (mut stream, greeting) = greeted(bench.proxy.local_addresses()[0]).await;
    assert!(!greeting.caps.has(Caps::CACHE_METADATA), "what a client keeps may be of another node");
    send(&mut stream, 1, &request("app", "secret", &greeting.salt, native::PLUGIN)).await;
    assert_eq!(packet(&mut stream).await.1[0], 0);
    for password in ["secret", "secret", "wrong"] {
        send(
            &mut stream,
            0,
            &[&[Command::CHANGE_USER.0][..], b"app\0\0shop\0\x2d\0mysql_native_password\0"].concat(),
        )
        .await;
        let (seq, asked) = packet(&mut stream).await;
        let salt = AuthSwitch::parse(&asked).unwrap().salt().unwrap();
        assert_eq!(seq, 1);
        assert_eq!(salt, greeting.salt, "libmariadb answers under that of the login");
        send(&mut stream, 2, &native::reply(&native::stage1(password.as_bytes()), &salt)).await;
        let (seq, answer) = packet(&mut stream).await;
        assert_eq!((seq, answer[0] == 0), (3, password == "secret"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ipv6_wildcard_takes_ipv4_clients_too() {
    let server = Server::start(&[]);
    let start = routes(1, &[(&server, LaneState::Open, 1)]);
    let port = fixture::free_port();
    let both = Settings { listen: vec![format!("[::]:{port}")], ..settings() };
    let here = Account { host: "127.0.0.1".into(), ..native("app", "secret") };
    let bench = Bench::new(both, with_accounts(&start, 1, vec![here]));
    let mut client = connect(&format!("127.0.0.1:{port}")).await.unwrap();
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
    // And both wildcards can stand side by side.
    let beside = vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")];
    drop(client);
    bench.proxy.shutdown(Duration::ZERO).await;
    let bench = Bench::new(Settings { listen: beside, ..settings() }, start);
    assert_eq!(bench.proxy.local_addresses().len(), 2);
    for host in ["127.0.0.1", "[::1]"] {
        let mut client = connect(&format!("{host}:{port}")).await.unwrap();
        assert_eq!(one(&mut client, "SELECT 1").await, "1", "{host}");
    }
}

/// The sequence number and the code of an error.
async fn error(link: &mut Link) -> (u8, u16) {
    let (seq, payload) = packet(&mut link.stream).await;
    (seq, ErrPacket::parse(&payload).unwrap_or_else(|_| panic!("no error: {payload:?}")).code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_to_a_command_of_several_packets_counts_on_from_its_last() {
    let server = Server::start(&[]);
    let brief = Settings { hold_time: SECOND / 5, ..settings() };
    let bench = Bench::new(brief, routes(1, &[(&server, LaneState::Draining, 1)]));
    let mut client = bench.client().await;
    let mut command = vec![b' '; 40 << 20];
    command[0] = Command::QUERY.0;
    let mut out = vec![];
    put_packet(&mut out, &mut 0, &command);
    client.stream.write_all(&out).await.unwrap();
    // 16 MiB and 16 MiB and 8 MiB: packets 0, 1 and 2. (Larger than all that may wait, too.)
    assert_eq!(error(&mut client).await, (3, 9103));
    send(&mut client.stream, 0, &[&[Command::QUERY.0][..], b"SELECT 1"].concat()).await;
    assert_eq!(error(&mut client).await, (1, 9102));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_lost_behind_a_file_is_told_with_the_right_number() {
    let (mut old, new) = (Server::start(&[]), Server::start(&[]));
    old.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    let bench = Bench::new(settings(), routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]));
    let mut blocker = bench.client().await;
    blocker.query("BEGIN", SECOND).await.unwrap();
    blocker.query("INSERT INTO t VALUES (2)", SECOND).await.unwrap();
    let login = Login {
        caps: Login::PLAIN | Caps::LOCAL_FILES,
        database: Some(b"shop".to_vec()),
        ..Login::new("app", Secret::Password("secret".into()))
    };
    let mut client = Link::connect(&bench.address(), &login, 5 * SECOND).await.unwrap();
    let load = [&[Command::QUERY.0][..], b"LOAD DATA LOCAL INFILE 'f' INTO TABLE t"].concat();
    send(&mut client.stream, 0, &load).await;
    assert_eq!(packet(&mut client.stream).await.1[0], 0xFB);
    for (seq, part) in [(2, &b"1\n"[..]), (3, b"2\n"), (4, b"3\n"), (5, b"")] {
        send(&mut client.stream, seq, part).await;
    }
    let waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    while old.sql(waits) != "1" {}
    old.signal(9);
    old.wait_gone();
    bench.follow(routes(2, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    assert_eq!(error(&mut client).await, (6, 9101));
}

/// A guess at the password of `app`: the code it is answered with.
async fn guess(address: SocketAddr, password: &str) -> u16 {
    let (mut stream, greeting) = greeted(address).await;
    send(&mut stream, 1, &request("app", password, &greeting.salt, native::PLUGIN)).await;
    let answer = packet(&mut stream).await.1;
    if answer[0] == 0 { 0 } else { ErrPacket::parse(&answer).unwrap().code }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_counted_also_when_they_come_at_once() {
    const GUESSES: usize = 60;
    const LOOKED_AT: u32 = 5;
    let server = Server::start(&[]);
    let few = Settings { password_errors_max: LOOKED_AT, ..settings() };
    let bench = Bench::new(few, routes(1, &[(&server, LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    assert_eq!(guess(address, "secret").await, 0);
    let guesses: Vec<_> =
        (0..GUESSES).map(|n| tokio::spawn(async move { guess(address, &n.to_string()).await })).collect();
    let mut looked_at = 0;
    for guess in guesses {
        match guess.await.unwrap() {
            1045 => looked_at += 1,
            code => assert_eq!(code, 9120),
        }
    }
    assert_eq!(looked_at, LOOKED_AT);
    assert_eq!(guess(address, "secret").await, 9120, "not even the right one is looked at");
    let errors = bench.proxy.stats().await.errors;
    let refused = errors.iter().find(|error| error.code == 9120).unwrap().count;
    assert_eq!(refused, u64::from(GUESSES as u32 - LOOKED_AT) + 1);
}

/// While no node takes statements, the login ends without one: the client is told what a login would begin with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_while_statements_are_held_tells_what_the_servers_would() {
    let server = Server::start(&[]);
    for status in [0, AUTOCOMMIT, AUTOCOMMIT | NO_BACKSLASH_ESCAPES, ANSI_QUOTES] {
        let mut routes = Routes::clone(&routes(1, &[(&server, LaneState::Draining, 1)]));
        let greeting = routes.greeting.take().unwrap();
        routes.greeting = Some(Arc::new(ServerGreeting { status, ..ServerGreeting::clone(&greeting) }));
        let bench = Bench::new(settings(), Arc::new(routes));
        let client = Client::connect(bench.proxy.local_addresses()[0]).await;
        assert_eq!(client.greeting.status, status);
        assert_eq!(client.welcome[3..5], status.to_le_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_known_in_the_character_set_of_the_login() {
    let server = Server::start(&[]);
    server.sql(
        "SET NAMES utf8mb4; CREATE USER `josé`@'%' IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO `josé`@'%'",
    );
    let first = routes(1, &[(&server, LaneState::Open, 1)]);
    let accounts = vec![native("josé", "secret"), native("app", "secret")];
    let bench = Bench::new(settings(), with_accounts(&first, 1, accounts));
    let proxy = bench.proxy.local_addresses()[0];
    for (charset, user) in [(8, &b"jos\xe9"[..]), (45, "josé".as_bytes()), (31, b"jos\xe9")] {
        let options = ClientOptions { user: user.to_vec(), charset, ..ClientOptions::default() };
        let question = "SELECT HEX(CONVERT(CURRENT_USER() USING utf8mb4)), @@collation_connection";
        for address in [server.address(), proxy] {
            let mut client = Client::connect_as(address, &options).await.unwrap();
            let told = client.query(question).await;
            assert_eq!(told.rows()[0][0].text(), "6A6F73C3A94025", "{charset} at {address}");
            // The same by a change of the user, under another character set than before.
            let mut client = Client::connect(address).await;
            client.change_user(&options).await.unwrap();
            assert_eq!(client.query(question).await, told, "{charset} at {address}");
        }
    }
}
