//! Clients that mean harm, or are broken: noise, half packets, lengths that lie, silence, results that nobody reads, ends in the
//! middle of everything. Each test checks the same four things: no task panicked, a well-behaved client was served all the time, the
//! node was never blamed, and afterwards nothing is left (file descriptors, tasks, sessions, leases, connections on the node).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::ALONE;
use fixture::Server;
use fixture::packet::read_packet;
use fixture::wait::until_async;
use harness::{Bench, SECOND, connect, one, routes, settings};
use link::{Link, LinkError, Login, Secret, Transport};
use protocol::auth::native;
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::handshake::{Greeting, LoginRequest};
use protocol::packet::{HEADER_LEN, Head, put_packet};
use proxy::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::MutexGuard;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use topology::fact::ProxyFact;
use topology::routes::LaneState;

/// Panics in any task since the hook was set.
static PANICS: AtomicUsize = AtomicUsize::new(0);
/// Anything that must come to an end does so within this.
const SOON: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

// ---- the four things

/// A proxy before one node, a good client at work, and the count of what there was before.
struct Scene {
    server: Server,
    bench: Bench,
    good: Option<Good>,
    before: Census,
    panics_before: usize,
    _alone: MutexGuard<'static, ()>,
}

/// What must be the same afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Census {
    descriptors: usize,
    tasks: usize,
    clients: u64,
    sessions: u32,
    leases: usize,
    pinned: u64,
    waiting: u64,
    node_connections: String,
}

impl Scene {
    async fn set(settings: Settings) -> Scene {
        let alone = ALONE.lock().await;
        if PANICS.load(SeqCst) == 0 {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |what| {
                PANICS.fetch_add(1, SeqCst);
                report(what);
            }));
        }
        let server = Server::start(&[]);
        server.sql("CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGBLOB)");
        let bench = Bench::new(settings, routes(1, &[(&server, LaneState::Open, 1)]));
        // Whatever is opened once and kept is open now.
        assert_eq!(one(&mut bench.client().await, "SELECT 1").await, "1");
        until_async("the first client has left", async || {
            let stats = bench.proxy.stats().await;
            stats.clients == 0 && node_connections(&server) == "1"
        })
        .await;
        // The one that asked has perhaps not left yet.
        let before = Census { node_connections: "1".into(), ..census(&bench, &server).await };
        let good = Some(Good::start(bench.address()));
        Scene { server, bench, good, before, panics_before: PANICS.load(SeqCst), _alone: alone }
    }

    fn address(&self) -> SocketAddr {
        self.bench.proxy.local_addresses()[0]
    }

    async fn client(&self) -> Link {
        timeout(SOON, self.bench.client()).await.expect("a client that behaves is let in")
    }

    /// Ends the good client's work, and waits until no more connections, sessions or held statements exist than before the attack.
    async fn assert_nothing_left(mut self) {
        let answered = self.good.take().unwrap().stop().await;
        assert!(answered > 0, "the good client was never answered");
        nothing_left(&self.bench, &self.server, &self.before).await;
        assert_eq!(PANICS.load(SeqCst), self.panics_before, "a task panicked");
        while let Ok(fact) = self.bench.facts.try_recv() {
            assert!(
                // Noise may be a statement that is not understood, which may have made a table.
                matches!(fact, ProxyFact::UnknownAccount { .. } | ProxyFact::TablesChanged),
                "a client's doing is blamed on the node: {fact:?}"
            );
        }
        assert!(self.bench.proxy.stats().await.hold.lawful);
    }
}

async fn census(bench: &Bench, server: &Server) -> Census {
    let stats = bench.proxy.stats().await;
    Census {
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        clients: stats.clients,
        sessions: stats.lanes[0].sessions,
        leases: stats.lanes[0].running,
        pinned: stats.sessions_pinned,
        waiting: stats.hold.waiting,
        node_connections: node_connections(server),
    }
}

/// Connections of clients on the node; the one that asks is one of them.
fn node_connections(server: &Server) -> String {
    server.sql("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon' AND user <> 'system user'")
}

/// A client that does nothing wrong, on a connection it keeps and on new ones.
struct Good {
    work: JoinHandle<u64>,
    stop: Arc<AtomicBool>,
}

impl Good {
    fn start(address: String) -> Good {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = tokio::spawn(async move {
            let mut kept = connect(&address).await.expect("the good client is let in");
            let mut answered = 0;
            loop {
                let wanted = answered.to_string();
                assert_eq!(one(&mut kept, &format!("SELECT {answered}")).await, wanted);
                if answered % 50 == 0 {
                    let mut new = connect(&address).await.expect("a new good client is let in");
                    assert_eq!(one(&mut new, &format!("SELECT {answered}")).await, wanted);
                }
                answered += 1;
                if stopped.load(SeqCst) {
                    return answered;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Good { work, stop }
    }

    async fn stop(self) -> u64 {
        self.stop.store(true, SeqCst);
        timeout(SOON, self.work)
            .await
            .expect("the good client is answered")
            .expect("the good client saw no error")
    }
}

/// Waits until there is no more of anything than before.
async fn nothing_left(bench: &Bench, server: &Server, before: &Census) {
    until_async(&format!("nothing left behind, but {before:?}"), async || {
        let now = census(bench, server).await;
        if now == *before { Ok(()) } else { Err(now) }
    })
    .await;
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

// ---- what bad clients are made of

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn bytes(&mut self, at_most: usize) -> Vec<u8> {
        let n = self.below(at_most + 1);
        (0..n).map(|_| self.next() as u8).collect()
    }
}

fn packed(seq: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    put_packet(&mut out, &mut { seq }, payload);
    out
}

fn com(command: Command, rest: &[u8]) -> Vec<u8> {
    packed(0, &[&[command.0][..], rest].concat())
}

async fn packet(stream: &mut Transport) -> std::io::Result<Vec<u8>> {
    Ok(read_packet(stream).await?.1)
}

/// A connection that has been greeted.
async fn greeted(address: SocketAddr) -> (Transport, Greeting) {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut stream = Transport::from(stream);
    let greeting = timeout(SOON, packet(&mut stream)).await.expect("a greeting comes").unwrap();
    (stream, Greeting::parse(&greeting).unwrap())
}

/// The right login for a greeting, as a packet.
fn login(greeting: &Greeting, plugin: &str) -> Vec<u8> {
    let auth = native::reply(&native::stage1(b"secret"), &greeting.salt).to_vec();
    let request = LoginRequest {
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH | Caps::TRANSACTIONS,
        max_packet: 1 << 24,
        charset: 45,
        user: b"app".to_vec(),
        auth,
        database: Some(b"shop".to_vec()),
        plugin: Some(plugin.into()),
        attrs: vec![],
        zstd_level: 0,
    };
    packed(1, &request.encode())
}

/// Goes away: with an orderly end, or as a process that was killed with bytes unread does.
fn leave(stream: Transport, with_reset: bool) {
    if with_reset {
        stream.reset_on_close();
    }
    drop(stream);
}

/// Reads to the end, which must come.
async fn ended(stream: &mut Transport, what: &str) -> Vec<u8> {
    let mut all = vec![];
    let end = timeout(SOON, stream.read_to_end(&mut all)).await;
    let _reset_is_an_end_too = end.unwrap_or_else(|_| panic!("{what}: the proxy leaves it open"));
    all
}

/// The code of the first packet of `bytes`, which must be an error.
fn error_code(bytes: &[u8]) -> u16 {
    let payload = bytes.get(HEADER_LEN..).unwrap_or_default();
    protocol::ok::ErrPacket::parse(payload).unwrap_or_else(|_| panic!("no error: {bytes:?}")).code
}

/// A client that behaves, and that offers to send files.
async fn with_files(address: SocketAddr) -> Link {
    let login = Login {
        caps: Login::PLAIN.without(Caps::DEPRECATE_EOF) | Caps::LOCAL_FILES,
        database: Some(b"shop".to_vec()),
        ..Login::new("app", Secret::Password("secret".into()))
    };
    Link::connect(&address.to_string(), &login, SOON).await.unwrap()
}

async fn say(link: &mut Link, bytes: &[u8]) {
    link.stream.write_all(bytes).await.unwrap();
}

/// Prepares a statement and gives its id.
async fn prepare(link: &mut Link, sql: &str) -> u32 {
    say(link, &com(Command::STMT_PREPARE, sql.as_bytes())).await;
    let head = packet(&mut link.stream).await.unwrap();
    let id = u32::from_le_bytes(head[1..5].try_into().unwrap());
    let (columns, params) = (head[5], head[7]);
    for count in [params, columns] {
        for _ in 0..count + u8::from(count > 0) {
            packet(&mut link.stream).await.unwrap();
        }
    }
    id
}

// ---- the tests

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_before_the_login() {
    // A damaged login may be a wrong password, of the account and the address of the good client.
    let scene = Scene::set(Settings { password_errors_max: 1000, ..settings() }).await;
    let address = scene.address();
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    // Bare noise, noise in a packet, a right login with one byte changed.
    for round in 0..300 {
        let (mut stream, greeting) = greeted(address).await;
        let bytes = match round % 3 {
            0 => numbers.bytes(600),
            1 => packed(numbers.next() as u8, &numbers.bytes(300)),
            _ => {
                let mut bytes = login(&greeting, native::PLUGIN);
                let at = numbers.below(bytes.len());
                bytes[at] ^= 1 << numbers.below(8);
                bytes
            }
        };
        let _ = stream.write_all(&bytes).await;
        if round % 2 == 0 {
            let _ = stream.shutdown().await;
            ended(&mut stream, "noise").await;
        } else {
            leave(stream, round % 4 == 1);
        }
    }
    // A right login, cut off behind each of its bytes.
    let whole = login(&greeted(address).await.1, native::PLUGIN).len();
    for len in 0..whole {
        let (mut stream, greeting) = greeted(address).await;
        stream.write_all(&login(&greeting, native::PLUGIN)[..len]).await.unwrap();
        if len % 2 == 0 {
            stream.shutdown().await.unwrap();
            let said = ended(&mut stream, "half a login").await;
            assert!(said.is_empty(), "{len} bytes of a login were answered: {said:?}");
        } else {
            leave(stream, len % 4 == 1);
        }
    }
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_behind_each_command_byte() {
    let scene = Scene::set(settings()).await;
    let mut numbers = Numbers(0x2545_F491_4F6C_DD1D);
    // The account may stop the server, and kill by number: those two are orders, not noise.
    let orders = [Command::SHUTDOWN.0, Command::PROCESS_KILL.0];
    for code in (0..=255).filter(|code| !orders.contains(code)) {
        let mut client = scene.client().await;
        let mut bytes = com(Command(code), &numbers.bytes(40));
        match code % 4 {
            0 => bytes.truncate(bytes.len() - bytes.len() / 3), // cut short
            1 => bytes[3] = numbers.next() as u8,               // numbered wrongly
            _ => {}
        }
        say(&mut client, &bytes).await;
        client.stream.shutdown().await.unwrap();
        ended(&mut client.stream, "a noisy command").await;
    }
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_command_is_the_clients_fault_and_answered_at_once() {
    let scene = Scene::set(settings()).await;
    let mut client = scene.client().await;
    for code in [99, 200, Command::SLEEP.0] {
        say(&mut client, &com(Command(code), b"")).await;
        let answer = timeout(SOON, packet(&mut client.stream)).await.expect("an answer comes").unwrap();
        assert_eq!(protocol::ok::ErrPacket::parse(&answer).unwrap().code, 1047, "command {code}");
    }
    assert_eq!(one(&mut client, "SELECT 5").await, "5", "the session goes on");
    drop(client);
    let again = scene.bench.proxy.stats().await.statements_again;
    assert_eq!(again, 0, "a command that no node knows was tried again");
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lengths_that_lie() {
    const LIARS: usize = 60;
    let mut roomy = settings();
    roomy.retain_bytes_max = 8 * MIB;
    let scene = Scene::set(roomy).await;
    let address = scene.address();
    // No login is that large: refused before it comes.
    for len in [0xFF_FFFF, 0x0F_FFFF, 16 * 1024 + 1] {
        let (mut stream, _) = greeted(address).await;
        stream.write_all(&Head { len, seq: 1 }.to_bytes()).await.unwrap();
        assert_eq!(error_code(&ended(&mut stream, "a huge login").await), 1835);
    }
    // Commands said to be just as large as is kept, and larger than any packet; nothing comes behind the first bytes.
    let mut liars = vec![];
    for _ in 0..LIARS {
        liars.push(scene.client().await);
    }
    let memory = resident();
    for (nth, liar) in liars.iter_mut().enumerate() {
        let len = if nth % 2 == 0 { 8 * MIB - 1 } else { 0xFF_FFFF };
        let mut bytes = Head { len, seq: 0 }.to_bytes().to_vec();
        bytes.push(Command::QUERY.0);
        say(liar, &bytes).await;
    }
    // The proxy has taken each of them in once it answers clients that came after.
    for _ in 0..20 {
        assert_eq!(one(&mut scene.client().await, "SELECT 1").await, "1");
    }
    let grown = resident().saturating_sub(memory);
    println!("{LIARS} lengths that lie: {} KiB more in memory", grown / 1024);
    assert!(grown < 16 * MIB, "{LIARS} lies took {grown} bytes");
    for (nth, liar) in liars.into_iter().enumerate() {
        leave(liar.stream, nth % 2 == 0);
    }
    // An empty packet is no command; the proxy says so, and goes on.
    let mut client = scene.client().await;
    say(&mut client, &packed(0, b"")).await;
    let answer = timeout(SOON, packet(&mut client.stream)).await.expect("an answer comes").unwrap();
    assert_eq!(answer[0], 0xFF);
    assert_eq!(one(&mut client, "SELECT 5").await, "5");
    // A command of five bytes with far more behind it than is kept.
    let id = prepare(&mut client, "SELECT 1").await;
    let mut padded = id.to_le_bytes().to_vec();
    padded.resize(9 * MIB, 0);
    for command in [Command::STMT_RESET, Command::STMT_CLOSE] {
        say(&mut client, &com(command, &padded)).await;
        if command.answers() {
            timeout(SOON, packet(&mut client.stream)).await.expect("an answer comes").unwrap();
        }
    }
    assert_eq!(one(&mut client, "SELECT 6").await, "6");
    drop(client);
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_ended_by_the_logins_deadline() {
    let quick = Settings { login_timeout: SECOND, ..settings() };
    // The login's own time, and that of an unknown account's second look.
    let deadline = quick.login_timeout + 2 * SECOND;
    let scene = Scene::set(quick).await;
    let address = scene.address();
    let began = Instant::now();
    let silent = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap().into();
        ended(&mut stream, "silence from the start").await;
    });
    let switched = tokio::spawn(async move {
        let (mut stream, greeting) = greeted(address).await;
        stream.write_all(&login(&greeting, "caching_sha2_password")).await.unwrap();
        assert_eq!(packet(&mut stream).await.unwrap()[0], 0xFE);
        ended(&mut stream, "silence when asked for another plugin's answer").await;
    });
    // Bytes come, but never the last: what counts is the login, not the last byte.
    let dripping = tokio::spawn(async move {
        let (mut stream, _) = greeted(address).await;
        stream.write_all(&Head { len: 12_000, seq: 1 }.to_bytes()).await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            assert!(began.elapsed() < SOON, "a login that never ends goes on for ever");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for task in [silent, switched, dripping] {
        task.await.unwrap();
    }
    let took = began.elapsed();
    assert!(took < deadline + 5 * SECOND, "it took {took:?}");
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_never_logs_in_is_let_go_and_others_come_in() {
    // So many from one address have the usual time: an eighth of all clients there may be.
    const PATIENT: usize = 125;
    const CROWD: usize = 400;
    let settings = Settings { login_timeout: 60 * SECOND, client_connections_max: 1000, ..settings() };
    let scene = Scene::set(settings).await;
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(TcpStream::connect(scene.address()).await.unwrap());
    }
    let mut good = scene.client().await;
    assert_eq!(one(&mut good, "SELECT 1").await, "1");
    let ended = |crowd: &[TcpStream]| {
        let is_ended = |stream: &&TcpStream| {
            // The greeting may come first.
            let mut part = [0; 1024];
            let mut read = || stream.try_read(&mut part);
            matches!(read(), Ok(0)) || matches!(read(), Ok(0))
        };
        crowd.iter().filter(is_ended).count()
    };
    until_async("those who came last are let go", async || match ended(&crowd) {
        count if count < CROWD - PATIENT => Err(count),
        _ => Ok(()),
    })
    .await;
    assert_eq!(ended(&crowd), CROWD - PATIENT, "those who came first have their time");
    assert_eq!(one(&mut scene.client().await, "SELECT 2").await, "2");
    drop((crowd, good));
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn byte_by_byte_is_slow_and_right() {
    let scene = Scene::set(Settings { login_timeout: SOON, ..settings() }).await;
    let (mut stream, greeting) = greeted(scene.address()).await;
    for byte in login(&greeting, native::PLUGIN) {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(timeout(SOON, packet(&mut stream)).await.unwrap().unwrap()[0], 0);
    for byte in com(Command::QUERY, b"SELECT 'byte by byte'") {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = vec![];
    for _ in 0..5 {
        answer.push(timeout(SOON, packet(&mut stream)).await.unwrap().unwrap());
    }
    assert_eq!(answer[3], b"\x0cbyte by byte");
    drop(stream);
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_nobody_reads_wait_on_the_node() {
    const RESULT: &str = "SELECT REPEAT('x', 1000000) FROM seq_1_to_500";
    let scene = Scene::set(settings()).await;
    let mut deaf = vec![];
    for _ in 0..4 {
        deaf.push(scene.client().await);
    }
    let memory = resident();
    for client in &mut deaf {
        say(client, &com(Command::QUERY, RESULT.as_bytes())).await;
    }
    // Half a gigabyte each: the node is done only if somebody kept it for them. It is stuck when it has sent nothing for long.
    let server = &scene.server;
    let stuck = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT REPEAT%' AND state = 'Writing to net'";
    let mut in_a_row = 0;
    let mut most = 0;
    until_async("the node waits for the clients", async || {
        most = most.max(resident());
        in_a_row = if server.sql(stuck) == "4" { in_a_row + 1 } else { 0 };
        in_a_row >= 20
    })
    .await;
    let grown = most.saturating_sub(memory);
    println!("4 x 500 MB that nobody reads: {} KiB more in memory", grown / 1024);
    assert!(grown < 16 * MIB, "the proxy keeps {grown} bytes of results that nobody reads");
    // And commands without end from a client that reads no answer: they wait in its own socket.
    let mut flood = scene.client().await;
    let pings: Vec<u8> = com(Command::PING, b"").repeat(10_000);
    let mut sent = 0;
    while timeout(2 * SECOND, flood.stream.write_all(&pings)).await.is_ok() {
        sent += pings.len();
        assert!(sent < 256 * MIB, "a client that reads nothing is read for ever");
    }
    let grown = resident().saturating_sub(memory);
    assert!(grown < 16 * MIB, "the proxy keeps {grown} bytes of a flood");
    leave(flood.stream, true);
    for (nth, client) in deaf.into_iter().enumerate() {
        leave(client.stream, nth % 2 == 0);
    }
    scene.assert_nothing_left().await;
}

/// Where a client may be when it ends.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Connected,
    Greeted,
    HalfLogin,
    LoginSent,
    SwitchAsked,
    Idle,
    HalfCommand,
    CommandSent,
    MiddleOfResult,
    InTransaction,
    HalfStreamedCommand,
    HalfLongData,
    FileAskedFor,
    HalfFile,
    UserChange,
    Sleeping,
}

const PHASES: [Phase; 16] = [
    Phase::Connected,
    Phase::Greeted,
    Phase::HalfLogin,
    Phase::LoginSent,
    Phase::SwitchAsked,
    Phase::Idle,
    Phase::HalfCommand,
    Phase::CommandSent,
    Phase::MiddleOfResult,
    Phase::InTransaction,
    Phase::HalfStreamedCommand,
    Phase::HalfLongData,
    Phase::FileAskedFor,
    Phase::HalfFile,
    Phase::UserChange,
    Phase::Sleeping,
];

/// A client that has come to `phase`.
async fn at(phase: Phase, scene: &Scene) -> Transport {
    let address = scene.address();
    match phase {
        Phase::Connected => return TcpStream::connect(address).await.unwrap().into(),
        Phase::Greeted => return greeted(address).await.0,
        Phase::HalfLogin | Phase::LoginSent | Phase::SwitchAsked => {
            let is_switch = matches!(phase, Phase::SwitchAsked);
            let plugin = if is_switch { "caching_sha2_password" } else { native::PLUGIN };
            let (mut stream, greeting) = greeted(address).await;
            let bytes = login(&greeting, plugin);
            let len = if matches!(phase, Phase::HalfLogin) { bytes.len() / 2 } else { bytes.len() };
            stream.write_all(&bytes[..len]).await.unwrap();
            if is_switch {
                packet(&mut stream).await.unwrap();
            }
            return stream;
        }
        _ => {}
    }
    let mut link = with_files(address).await;
    let insert = "INSERT INTO t VALUES (1, '";
    match phase {
        Phase::HalfCommand => say(&mut link, &com(Command::QUERY, b"SELECT 1")[..7]).await,
        Phase::CommandSent => say(&mut link, &com(Command::QUERY, b"SELECT 1")).await,
        Phase::MiddleOfResult => {
            say(&mut link, &com(Command::QUERY, b"SELECT REPEAT('y', 100000) FROM seq_1_to_1000")).await;
            for _ in 0..10 {
                packet(&mut link.stream).await.unwrap();
            }
        }
        Phase::InTransaction => {
            link.query("BEGIN", SOON).await.unwrap();
            link.query("INSERT INTO t VALUES (1, 'x')", SOON).await.unwrap();
        }
        Phase::HalfStreamedCommand => {
            let mut text = insert.as_bytes().to_vec();
            text.resize(3 * MIB, b'x');
            say(&mut link, &com(Command::QUERY, &text)[..2 * MIB]).await;
        }
        Phase::HalfLongData => {
            let id = prepare(&mut link, "INSERT INTO t VALUES (1, ?)").await;
            let mut data = [&id.to_le_bytes()[..], &[0, 0]].concat();
            data.resize(3 * MIB, b'x');
            say(&mut link, &com(Command::STMT_SEND_LONG_DATA, &data)[..2 * MIB]).await;
        }
        Phase::FileAskedFor | Phase::HalfFile => {
            say(&mut link, &com(Command::QUERY, b"LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id)")).await;
            assert_eq!(packet(&mut link.stream).await.unwrap()[0], 0xFB);
            if matches!(phase, Phase::HalfFile) {
                say(&mut link, &packed(2, b"2\n3\n")).await;
                say(&mut link, &packed(3, b"4\n5\n")[..6]).await;
            }
        }
        Phase::UserChange => {
            say(&mut link, &com(Command::CHANGE_USER, b"app\0\0shop\0\x2d\0mysql_native_password\0")).await;
            assert_eq!(packet(&mut link.stream).await.unwrap()[0], 0xFE);
        }
        Phase::Sleeping => say(&mut link, &com(Command::QUERY, b"DO SLEEP(2)")).await,
        _ => {}
    }
    link.stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_end_in_the_middle_of_anything() {
    let scene = Scene::set(settings()).await;
    for phase in PHASES {
        for with_reset in [false, true] {
            for _ in 0..3 {
                leave(at(phase, &scene).await, with_reset);
            }
        }
        // Half an end: it says that it has nothing more to say, and still listens.
        let mut stream = at(phase, &scene).await;
        stream.shutdown().await.unwrap();
        ended(&mut stream, &format!("{phase:?}, and then the end of what it says")).await;
    }
    until_async("every client has been let go", async || {
        // The good client's, and perhaps a new one of its.
        scene.bench.proxy.stats().await.lanes[0].sessions <= 2
    })
    .await;
    assert_eq!(scene.server.sql("SELECT COUNT(*) FROM shop.t"), "0", "a half-sent write was committed");
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_end_while_they_wait_for_a_node() {
    let scene = Scene::set(settings()).await;
    let Scene { server, mut bench, good, before, .. } = scene;
    assert!(good.unwrap().stop().await > 0);
    let mut waiting = vec![];
    for _ in 0..20 {
        waiting.push(bench.client().await);
    }
    bench.follow(routes(2, &[(&server, LaneState::Draining, 1)])).await;
    for client in &mut waiting {
        say(client, &com(Command::QUERY, b"SELECT 1")).await;
    }
    until_async("all of them wait", async || bench.proxy.stats().await.hold.waiting == 20).await;
    for (nth, client) in waiting.into_iter().enumerate() {
        leave(client.stream, nth % 2 == 0);
    }
    until_async("the hold has let them go", async || {
        let hold = bench.proxy.stats().await.hold;
        assert!(hold.lawful, "{hold:?}");
        hold.gone == 20 && hold.waiting == 0
    })
    .await;
    nothing_left(&bench, &server, &before).await;
    while let Ok(fact) = bench.facts.try_recv() {
        assert!(matches!(fact, ProxyFact::Quiesced { .. }), "{fact:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_opened_and_dropped() {
    let scene = Scene::set(Settings { client_connections_max: 2_000, ..settings() }).await;
    let address = scene.address();
    let memory = resident();
    for batch in 0..20 {
        let mut open = vec![];
        for nth in 0..50 {
            open.push(tokio::spawn(async move {
                let stream = match nth % 5 {
                    0 => TcpStream::connect(address).await.unwrap().into(),
                    1 => greeted(address).await.0,
                    2 | 3 => {
                        let (mut stream, greeting) = greeted(address).await;
                        stream.write_all(&login(&greeting, native::PLUGIN)).await.unwrap();
                        stream
                    }
                    _ => connect(&address.to_string()).await.expect("a right login is let in").stream,
                };
                leave(stream, (batch + nth) % 2 == 0);
            }));
        }
        for client in open {
            client.await.unwrap();
        }
    }
    let seen = scene.bench.proxy.stats().await.clients_total;
    assert!(seen >= 800, "only {seen} of 1000 were ever accepted");
    let grown = resident().saturating_sub(memory);
    println!("{seen} connections accepted of 1000: {} KiB more in memory", grown / 1024);
    assert!(grown < 16 * MIB, "a thousand connections left {grown} bytes");
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_clients_than_there_are_places() {
    let scene = Scene::set(Settings { client_connections_max: 20, ..settings() }).await;
    let mut many = vec![];
    let refused = loop {
        match connect(&scene.bench.address()).await {
            Ok(client) => many.push(client),
            Err(refused) => break refused,
        }
        assert!(many.len() <= 20, "there is no limit");
    };
    assert!(matches!(refused, LinkError::Rejected { errno: 1040, .. }), "{refused:?}");
    // A place given back is a place to be had.
    drop(many);
    until_async("there is room again", async || connect(&scene.bench.address()).await.is_ok()).await;
    scene.good.as_ref().unwrap().work.abort();
    let Scene { server, bench, before, .. } = scene;
    nothing_left(&bench, &server, &before).await;
}

/// Two nodes, the first of which is killed under a client that is in the middle of sending.
struct Loss {
    old: Server,
    new: Server,
    bench: Bench,
    _alone: MutexGuard<'static, ()>,
}

impl Loss {
    async fn set() -> Loss {
        let alone = ALONE.lock().await;
        let (old, new) = (Server::start(&[]), Server::start(&[]));
        for server in [&old, &new] {
            server.sql("CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGBLOB)");
        }
        let first = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
        let bench = Bench::new(settings(), first);
        Loss { old, new, bench, _alone: alone }
    }

    async fn fail_over(&mut self) {
        self.old.signal(9);
        self.old.wait_gone();
        self.bench
            .follow(routes(2, &[(&self.old, LaneState::Shut, 2), (&self.new, LaneState::Open, 1)]))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_lost_under_long_data_swallows_nothing() {
    let mut loss = Loss::set().await;
    let mut client = loss.bench.client().await;
    let id = prepare(&mut client, "SELECT LENGTH(?)").await;
    let mut data = [&id.to_le_bytes()[..], &[0, 0]].concat();
    data.resize(12 * MIB, b'x');
    let bytes = com(Command::STMT_SEND_LONG_DATA, &data);
    say(&mut client, &bytes[..2 * MIB]).await;
    loss.fail_over().await;
    say(&mut client, &bytes[2 * MIB..]).await;
    // Long data has no answer of its own: the next command is told.
    match client.query("SELECT 1", SOON).await {
        Err(LinkError::Rejected { errno: 9104, message, .. }) => {
            assert!(message.contains("prepared"), "{message}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_file_is_never_taken_for_commands() {
    let mut loss = Loss::set().await;
    let mut client = with_files(loss.bench.proxy.local_addresses()[0]).await;
    say(&mut client, &com(Command::QUERY, b"LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id)")).await;
    assert_eq!(packet(&mut client.stream).await.unwrap()[0], 0xFB);
    // Each packet of this file would be a command, were it not a file's.
    let line = |seq| packed(seq, b"\x03INSERT INTO t VALUES (99, 'x')");
    let half = line(3).len() / 2;
    say(&mut client, &[&line(2)[..], &line(3)[..half]].concat()).await;
    loss.fail_over().await;
    say(&mut client, &[&line(3)[half..], &line(4), &line(5), &packed(6, b"")].concat()).await;
    let (head, payload) = read_packet(&mut client.stream).await.unwrap();
    let told = protocol::ok::ErrPacket::parse(&payload).unwrap().code;
    assert_eq!((told, head.seq), (9101, 7), "{}", String::from_utf8_lossy(&payload));
    assert_eq!(one(&mut client, "SELECT COUNT(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_place_of_a_file_ends_the_connection_as_at_a_server() {
    let loss = Loss::set().await;
    let mut client = with_files(loss.bench.proxy.local_addresses()[0]).await;
    say(&mut client, &com(Command::QUERY, b"LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id)")).await;
    assert_eq!(packet(&mut client.stream).await.unwrap()[0], 0xFB);
    say(&mut client, &com(Command::QUERY, b"INSERT INTO t VALUES (99, 'x')")).await;
    let answer = tokio::time::timeout(SOON, read_packet(&mut client.stream));
    let (head, payload) = answer.await.expect("it waits for the rest of the file").unwrap();
    assert_eq!((protocol::ok::ErrPacket::parse(&payload).unwrap().code, head.seq), (1156, 2));
    assert!(read_packet(&mut client.stream).await.is_err(), "the connection goes on");
    let mut other = with_files(loss.bench.proxy.local_addresses()[0]).await;
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM t").await, "0");
}
