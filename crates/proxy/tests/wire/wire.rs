//! The proxy on the wire: prepared statements that move, and clients that do not follow the protocol.

use std::sync::Arc;

use fixture::packet::{read_packet, write_packet};
use fixture::scripted::{self, Act, Event, Heard, ScriptedNode};
use fixture::{Server, answers};
use harness::{Bench, SECOND, connect, lane, one, routes, routes_of, settings};
use link::{Link, LinkError, Login, Secret};
use protocol::auth::native;
use protocol::command::Command;
use protocol::ok::ERR;
use protocol::packet::{PAYLOAD_MAX, put_packet};
use protocol::response::{Answer, End, Need, Step};
use proxy::Stats;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use topology::account::{Account, Accounts, Proof};
use topology::fact::ProxyFact;
use topology::routes::{LaneState, Routes, ServerGreeting};

/// Sends a command and reads its whole answer, packet by packet.
async fn ask(link: &mut Link, payload: &[u8]) -> (Vec<Vec<u8>>, End) {
    write_packet(&mut link.stream, 0, payload).await.unwrap();
    let mut answer = Answer::new(Command(payload[0]), link.caps);
    let mut packets = vec![];
    loop {
        let packet = packet(&mut link.stream).await;
        assert!(matches!(answer.need(packet.len(), packet.first().copied()), Need::First | Need::Whole));
        let step = answer.step(packet.len(), &packet).unwrap();
        packets.push(packet);
        if let Step::End(end) = step {
            return (packets, end);
        }
    }
}

async fn packet(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    read_packet(stream).await.unwrap().1
}

fn prepare(sql: &str) -> Vec<u8> {
    [&[Command::STMT_PREPARE.0], sql.as_bytes()].concat()
}

/// EXECUTE with one BIGINT parameter; its type is told only if `with_type`, as libmariadb does.
fn execute(id: u32, value: i64, with_type: bool) -> Vec<u8> {
    let mut payload = vec![Command::STMT_EXECUTE.0];
    payload.extend_from_slice(&id.to_le_bytes());
    payload.extend_from_slice(&[0, 1, 0, 0, 0, 0]); // no cursor, one iteration, no NULL
    payload.push(u8::from(with_type));
    if with_type {
        payload.extend_from_slice(&[8, 0]);
    }
    payload.extend_from_slice(&value.to_le_bytes());
    payload
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_keep_their_ids_and_types_on_another_node() {
    let (old, new) = (Server::start(&[]), Server::start(&[]));
    // The new node has prepared other things meanwhile: its ids are not the old one's.
    let start = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
    let bench = Bench::new(settings(), start);
    let mut client = bench.client().await;
    let mut ids = vec![];
    for sql in ["SELECT @@port", "SELECT ? + 1", "SELECT ? * 2", "SELECT 'no parameter'"] {
        match ask(&mut client, &prepare(sql)).await.1 {
            End::Prepared { id, .. } => ids.push(id),
            other => panic!("{sql}: {other:?}"),
        }
    }
    let value = |packets: &[Vec<u8>]| {
        // columns: count, definition, EOF; then one row: 0x00, NULL bitmap, BIGINT
        let row = &packets[3];
        i64::from_le_bytes(row[2..10].try_into().unwrap())
    };
    assert_eq!(value(&ask(&mut client, &execute(ids[1], 41, true)).await.0), 42);
    assert_eq!(value(&ask(&mut client, &execute(ids[2], 21, true)).await.0), 42);
    bench.follow(routes(2, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    // In another order, and without telling the types again.
    assert_eq!(value(&ask(&mut client, &execute(ids[2], 50, false)).await.0), 100);
    assert_eq!(value(&ask(&mut client, &execute(ids[1], 50, false)).await.0), 51);
    assert_eq!(value(&ask(&mut client, &execute(ids[1], 51, false)).await.0), 52);
    match ask(&mut client, &prepare("SELECT ? - 1")).await.1 {
        End::Prepared { id, .. } => {
            assert!(!ids.contains(&id));
            assert_eq!(value(&ask(&mut client, &execute(id, 50, true)).await.0), 49);
        }
        other => panic!("{other:?}"),
    }
    let closed = [&[Command::STMT_CLOSE.0][..], &ids[1].to_le_bytes()].concat();
    let mut out = vec![];
    put_packet(&mut out, &mut 0, &closed);
    client.stream.write_all(&out).await.unwrap();
    match ask(&mut client, &execute(ids[1], 1, true)).await.1 {
        End::Err { code } => assert_eq!(code, 1243, "the statement is closed"),
        other => panic!("{other:?}"),
    }
    assert_eq!(one(&mut client, "SELECT @@port").await, new.address().port().to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_connection_makes_a_session_movable_again() {
    let (old, new) = (Server::start(&[]), Server::start(&[]));
    let start = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
    let bench = Bench::new(settings(), start);
    let mut client = bench.client().await;
    client.query("CREATE TEMPORARY TABLE t (a INT)", SECOND).await.unwrap();
    client.query("SET sql_mode = ''", SECOND).await.unwrap();
    bench.shows(|stats| stats.sessions_pinned, 1).await;
    assert!(matches!(ask(&mut client, &[Command::RESET_CONNECTION.0]).await.1, End::Ok { .. }));
    bench.shows(|stats| stats.sessions_pinned, 0).await;
    bench.follow(routes(2, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    let seen = one(&mut client, "SELECT CONCAT(@@port, @@sql_mode <> '', DATABASE())").await;
    assert_eq!(seen, format!("{}1shop", new.address().port()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn autocommit_off_and_errors_leave_no_transaction_behind_unnoticed() {
    let (old, new) = (Server::start(&[]), Server::start(&[]));
    for server in [&old, &new] {
        server.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    }
    let start = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
    let bench = Bench::new(settings(), start);
    let mut client = bench.client().await;
    client.query("SET autocommit = 0", SECOND).await.unwrap();
    client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap();
    // An error inside a transaction ends nothing: the lane cannot be quiet.
    client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap_err();
    bench.follow(routes(2, &[(&old, LaneState::Draining, 1), (&new, LaneState::Shut, 1)])).await;
    client.query("INSERT INTO t VALUES (2)", SECOND).await.unwrap();
    bench.shows(|stats| stats.lanes[0].running, 1).await;
    client.query("COMMIT", SECOND).await.unwrap();
    bench.shows(|stats| stats.lanes[0].running, 0).await;
    bench.follow(routes(3, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    assert_eq!(
        one(&mut client, "SELECT CONCAT(@@port, ':', @@autocommit)").await,
        format!("{}:OFF", new.address().port())
    );
    assert_eq!(old.sql("SELECT COUNT(*) FROM shop.t"), "2");
}

/// A session on the first of two nodes, which can move to the second.
struct Pair {
    old: Server,
    new: Server,
    bench: Bench,
    client: Link,
}

impl Pair {
    async fn start() -> Pair {
        let (old, new) = (Server::start(&[]), Server::start(&[]));
        let bench =
            Bench::new(settings(), routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]));
        let client = bench.client().await;
        Pair { old, new, bench, client }
    }

    fn both(&self, sql: &str) {
        self.old.sql(sql);
        self.new.sql(sql);
    }

    async fn run(&mut self, sql: &str) {
        self.client.query(sql, 5 * SECOND).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    async fn one(&mut self, sql: &str) -> String {
        one(&mut self.client, sql).await
    }

    async fn ask(&mut self, payload: &[u8]) -> End {
        ask(&mut self.client, payload).await.1
    }

    async fn prepare(&mut self, sql: &str) -> u32 {
        match self.ask(&prepare(sql)).await {
            End::Prepared { id, .. } => id,
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// To the other node.
    async fn move_on(&mut self) {
        let end = routes(2, &[(&self.old, LaneState::Shut, 2), (&self.new, LaneState::Open, 1)]);
        self.bench.follow(end).await;
        assert_eq!(self.one("SELECT @@port").await, self.new.address().port().to_string());
    }
}

fn errno(result: Result<link::Rows, LinkError>) -> u16 {
    match result {
        Err(LinkError::Rejected { errno, .. }) => errno,
        other => panic!("{other:?}"),
    }
}

const PING: [u8; 1] = [Command::PING.0];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_does_not_hide_a_lost_transaction() {
    let mut pair = Pair::start().await;
    pair.both("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    pair.run("BEGIN").await;
    pair.run("INSERT INTO t VALUES (1)").await;
    pair.old.signal(9);
    pair.old.wait_gone();
    let end = routes(2, &[(&pair.old, LaneState::Shut, 2), (&pair.new, LaneState::Open, 1)]);
    pair.bench.follow(end).await;
    // Not even an error, which some drivers take for well.
    pair.client.stream.write_all(&[1, 0, 0, 0, Command::PING.0]).await.unwrap();
    assert_eq!(timeout(5 * SECOND, pair.client.fill()).await.expect("it ends at once").unwrap_or(0), 0);
    assert_eq!(pair.new.sql("SELECT COUNT(*) FROM shop.t"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_opened_by_a_text_that_fails_is_seen() {
    let mut pair = Pair::start().await;
    pair.old.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    pair.run(
        "CREATE PROCEDURE p() BEGIN START TRANSACTION; INSERT INTO t VALUES (7); INSERT INTO t VALUES (7); END",
    )
    .await;
    for text in ["START TRANSACTION; INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)", "CALL p()"] {
        assert_eq!(errno(pair.client.query(text, 5 * SECOND).await), 1062, "{text}");
        // The lane is not quiet while the transaction is open.
        pair.bench.shows(|stats| stats.lanes[0].running, 1).await;
        pair.run("ROLLBACK").await;
        pair.bench.shows(|stats| stats.lanes[0].running, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_reset_nothing_leaks_and_what_is_set_then_comes_along() {
    let mut pair = Pair::start().await;
    pair.old.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    pair.run("SET autocommit = 0").await;
    pair.run("INSERT INTO t VALUES (1)").await;
    let id = pair.prepare("SELECT 1").await;
    assert!(matches!(pair.ask(&[Command::RESET_CONNECTION.0]).await, End::Ok { .. }));
    pair.bench.shows(|stats| stats.lanes[0].running, 0).await;
    assert_eq!(
        pair.ask(&[&[Command::STMT_RESET.0][..], &id.to_le_bytes()].concat()).await,
        End::Err { code: 1243 }
    );
    assert_eq!(
        pair.one("SELECT CONCAT(@@autocommit, (SELECT COUNT(*) FROM t), DATABASE())").await,
        "ON0shop"
    );
    pair.run("SET sql_mode = 'ANSI_QUOTES'").await;
    pair.move_on().await;
    assert_eq!(pair.one("SELECT CONCAT(@@sql_mode, @@autocommit)").await, "ANSI_QUOTESON");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_keeps_the_link_and_has_let_go_when_it_says_so() {
    let mut pair = Pair::start().await;
    let mut other = pair.bench.client().await;
    pair.old.sql("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT)");
    let seen = "SELECT CONCAT_WS(' ', CONNECTION_ID(), @@character_set_client, DATABASE(), LAST_INSERT_ID(), \
                IFNULL(@a, '-'), @@sql_mode <> '', @@autocommit)";
    let at_first = pair.one(seen).await;
    let links = pair.bench.proxy.stats().await.links_total;
    for round in 0..3 {
        assert_eq!(pair.one("SELECT GET_LOCK('pool', 0)").await, "1", "{round}");
        let id = pair.prepare("SELECT ? + 1").await;
        assert!(!matches!(pair.ask(&execute(id, 41, true)).await, End::Err { .. }));
        for sql in [
            "SET NAMES latin1",
            "SET @a = 1, sql_mode = '', autocommit = 0",
            "CREATE TEMPORARY TABLE tt (a INT)",
            "INSERT INTO t VALUES (NULL)",
        ] {
            pair.run(sql).await;
        }
        assert!(matches!(pair.ask(&[Command::RESET_CONNECTION.0]).await, End::Ok { .. }));
        let seen_now = |stats: &Stats| (stats.links_total, stats.sessions_pinned, stats.lanes[0].running);
        pair.bench.shows(seen_now, (links, 0, 0)).await;
        assert_eq!(one(&mut other, "SELECT GET_LOCK('pool', 0)").await, "1");
        assert_eq!(one(&mut other, "SELECT RELEASE_ALL_LOCKS()").await, "1");
        assert_eq!(one(&mut other, "SELECT COUNT(*) FROM t").await, "0");
        assert_eq!(pair.one(seen).await, at_first);
        assert_eq!(errno(pair.client.query("SELECT * FROM tt", SECOND).await), 1146);
        assert_eq!(pair.ask(&execute(id, 41, true)).await, End::Err { code: 1243 });
    }
    // What is prepared and set afterwards comes along.
    let id = pair.prepare("SELECT ? + 1").await;
    assert!(!matches!(pair.ask(&execute(id, 41, true)).await, End::Err { .. }));
    pair.run("SET time_zone = '+05:00'").await;
    pair.move_on().await;
    assert_eq!(pair.one("SELECT @@time_zone").await, "+05:00");
    assert!(!matches!(pair.ask(&execute(id, 41, false)).await, End::Err { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_takes_the_role_away() {
    let mut pair = Pair::start().await;
    pair.both("CREATE ROLE teller; GRANT teller TO app@'%'");
    pair.run("SET ROLE teller").await;
    assert!(matches!(pair.ask(&[Command::RESET_CONNECTION.0]).await, End::Ok { .. }));
    assert_eq!(pair.one("SELECT CURRENT_ROLE()").await, "NULL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sets_the_tracking_itself_comes_along() {
    let mut pair = Pair::start().await;
    for text in [
        "set sql_mode=CONCAT(@@sql_mode,',PIPES_AS_CONCAT'),session_track_system_variables=\
         CONCAT(@@global.session_track_system_variables,',tx_isolation')",
        "SET session_track_schema=OFF, session_track_state_change = OFF",
    ] {
        pair.run(text).await;
    }
    pair.run("SET time_zone = '+05:00'").await;
    pair.old.sql("CREATE DATABASE other");
    pair.new.sql("CREATE DATABASE other");
    pair.run("USE other").await;
    pair.bench.shows(|stats| stats.sessions_pinned, 0).await;
    pair.move_on().await;
    let seen =
        pair.one("SELECT CONCAT_WS(' ', @@time_zone, DATABASE(), @@sql_mode LIKE '%PIPES_AS_CONCAT%')").await;
    assert_eq!(seen, "+05:00 other 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_server_reports_comes_along() {
    let mut pair = Pair::start().await;
    pair.both("CREATE ROLE teller; GRANT teller TO app@'%'");
    pair.both("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, x INT)");
    // Multi-statements off, and on again: the next node is told the same.
    assert!(pair.ask(&[Command::SET_OPTION.0, 1, 0]).await.status().is_some());
    pair.run("SET ROLE teller").await;
    pair.run("SET last_insert_id = 41").await;
    pair.run("/* a */ SET TRANSACTION READ ONLY").await;
    pair.run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await;
    pair.bench.shows(|stats| stats.sessions_pinned, 0).await;
    let end = routes(2, &[(&pair.old, LaneState::Shut, 2), (&pair.new, LaneState::Open, 1)]);
    pair.bench.follow(end).await;
    pair.run("BEGIN").await;
    assert_eq!(errno(pair.client.query("INSERT INTO t (x) VALUES (1)", SECOND).await), 1792, "read only");
    pair.run("ROLLBACK").await;
    let port = pair.new.address().port();
    let seen = pair.one("SELECT CONCAT_WS(' ', CURRENT_ROLE(), LAST_INSERT_ID(), @@port)").await;
    assert_eq!(seen, format!("teller 41 {port}"));
    assert_eq!(errno(pair.client.query("SELECT 1; SELECT 2", SECOND).await), 1064);
    assert!(pair.ask(&[Command::SET_OPTION.0, 0, 0]).await.status().is_some());
    pair.run("SELECT 1; SELECT 2").await;
}

/// EXECUTE with one text parameter.
fn execute_text(id: u32, value: &str, with_type: bool) -> Vec<u8> {
    let mut payload = execute(id, 0, with_type);
    payload.truncate(payload.len() - 8);
    if with_type {
        let at = payload.len() - 2;
        payload[at] = 253;
    }
    protocol::packet::put::lenenc_bytes(&mut payload, value.as_bytes());
    payload
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_types_in_a_streamed_execute_are_known_on_the_next_node() {
    let mut pair = Pair::start().await;
    pair.both("SET GLOBAL max_allowed_packet = 64 * 1024 * 1024");
    let mut client = pair.bench.client().await;
    std::mem::swap(&mut client, &mut pair.client);
    let id = pair.prepare("SELECT LENGTH(?)").await;
    let long = "x".repeat(3 << 20);
    let length = |packets: &[Vec<u8>]| i64::from(i32::from_le_bytes(packets[3][2..6].try_into().unwrap()));
    // The first value follows a type of another, small one: told anew in a packet that is not kept.
    assert_eq!(length(&ask(&mut pair.client, &execute_text(id, "abc", true)).await.0), 3);
    assert_eq!(length(&ask(&mut pair.client, &execute_text(id, &long, true)).await.0), 3 << 20);
    assert_eq!(length(&ask(&mut pair.client, &execute_text(id, &long, false)).await.0), 3 << 20);
    pair.move_on().await;
    assert_eq!(length(&ask(&mut pair.client, &execute_text(id, "abcd", false)).await.0), 4);
    assert_eq!(length(&ask(&mut pair.client, &execute_text(id, &long, false)).await.0), 3 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_execute_that_leaves_out_its_types_is_refused_on_the_next_node() {
    let mut pair = Pair::start().await;
    let id = pair.prepare("SELECT LENGTH(?)").await;
    assert!(!matches!(pair.ask(&execute_text(id, "abc", true)).await, End::Err { .. }));
    pair.move_on().await;
    match pair.ask(&execute_text(id, &"x".repeat(3 << 20), false)).await {
        End::Err { code } => assert_eq!(code, 9104),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_the_next_node_refuses_is_told_in_its_words() {
    let mut pair = Pair::start().await;
    pair.old.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    let id = pair.prepare("SELECT id FROM t").await;
    pair.move_on().await;
    let run = [&[Command::STMT_EXECUTE.0][..], &id.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
    assert_eq!(pair.ask(&run).await, End::Err { code: 1146 });
    assert_eq!(pair.one("SELECT 1").await, "1");
    pair.new.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    assert!(!matches!(pair.ask(&run).await, End::Err { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_too_long_to_be_kept_pins() {
    let mut pair = Pair::start().await;
    let id = pair.prepare(&format!("SELECT LENGTH('{}')", "x".repeat(2 << 20))).await;
    assert_eq!(pair.one("SELECT 1").await, "1");
    pair.bench.shows(|stats| stats.sessions_pinned, 1).await;
    let closed = [&[Command::STMT_CLOSE.0][..], &id.to_le_bytes()].concat();
    let mut out = vec![];
    put_packet(&mut out, &mut 0, &closed);
    pair.client.stream.write_all(&out).await.unwrap();
    // A close is not answered.
    pair.bench.shows(|stats| stats.sessions_pinned, 0).await;
    pair.move_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_places_than_sessions_hold_nobody() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let mut clients = vec![];
    for _ in 0..3 {
        clients.push(bench.client().await);
    }
    let mut crowded = (*routes(2, &[(&server, LaneState::Open, 1)])).clone();
    crowded.lanes[0].sessions_max = Some(1);
    bench.follow(crowded.into()).await;
    for client in &mut clients {
        assert_eq!(one(client, "SELECT 1").await, "1");
    }
    assert_eq!(bench.proxy.stats().await.hold.held, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_read_is_not_sent_again() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let (mut victim, mut other) = (bench.client().await, bench.client().await);
    let id = victim.greeting.connection_id;
    let long = "SELECT SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b";
    let asked = tokio::spawn(async move { victim.query(long, 20 * SECOND).await });
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SUM(a%'";
    server.until(running, |count| count == "1");
    other.query(&format!("KILL {id}"), 5 * SECOND).await.unwrap();
    let ended = asked.await.unwrap();
    assert!(matches!(ended, Err(LinkError::Rejected { errno: 1317 | 1927, .. })), "{ended:?}");
    // Sent again, it would run for hours.
    server.until(running, |count| count == "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_idle_session_ends() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let (mut victim, mut other) = (bench.client().await, bench.client().await);
    victim.query("BEGIN", SECOND).await.unwrap();
    let id = victim.greeting.connection_id;
    other.query(&format!("KILL CONNECTION {id}"), 5 * SECOND).await.unwrap();
    let mut said = vec![];
    timeout(5 * SECOND, victim.stream.read_to_end(&mut said)).await.expect("the connection ends").unwrap();
    assert_eq!(said.get(5..7), Some(&1927u16.to_le_bytes()[..]), "{said:?}");
    assert_eq!(one(&mut other, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_that_was_refused_marks_nobody() {
    let server = Server::start(&[]);
    let mut first = Routes::clone(&routes(1, &[(&server, LaneState::Open, 1)]));
    let account = |user: &str, proof| Account {
        user: user.into(),
        host: "%".into(),
        proofs: vec![proof],
        ..Account::default()
    };
    let native = Proof::Native(native::stage2(&native::stage1(b"secret")));
    first.accounts = Arc::new(Accounts::new(vec![account("app", native), account("open", Proof::Empty)]));
    let bench = Bench::new(settings(), Arc::new(first));
    let (mut victim, mut other) = (bench.client().await, bench.client().await);
    let mut guest =
        Link::connect(&bench.address(), &Login::new("open", Secret::None), 5 * SECOND).await.unwrap();
    let id = victim.greeting.connection_id;
    let on_node = one(&mut victim, "SELECT CONNECTION_ID()").await;
    for _ in 0..3 {
        assert_eq!(errno(guest.query(&format!("KILL {id}"), 5 * SECOND).await), 1094);
    }
    // In the servers' own words, which some programs look for.
    match guest.query("KILL 4294967290", 5 * SECOND).await {
        Err(LinkError::Rejected { errno: 1094, message, .. }) => {
            assert_eq!(message, "Unknown thread id: 4294967290");
        }
        other => panic!("{other:?}"),
    }
    // Its link ends for a reason of the node's own: the session goes on.
    let sessions = bench.proxy.stats().await.lanes[0].sessions;
    server.sql(&format!("KILL {on_node}"));
    while bench.proxy.stats().await.lanes[0].sessions == sessions {
        tokio::task::yield_now().await;
    }
    assert_ne!(one(&mut victim, "SELECT CONNECTION_ID()").await, on_node);
    // Who may is not undone by who may not.
    other.query(&format!("KILL {id}"), 5 * SECOND).await.unwrap();
    let _refused = guest.query(&format!("KILL {id}"), 5 * SECOND).await.unwrap_err();
    let mut said = vec![];
    timeout(5 * SECOND, victim.stream.read_to_end(&mut said)).await.expect("the connection ends").unwrap();
    assert_eq!(said.get(5..7), Some(&1927u16.to_le_bytes()[..]), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_procedure_that_changes_the_session_pins_it() {
    let mut pair = Pair::start().await;
    pair.run("CREATE PROCEDURE p() BEGIN SET sql_mode = ''; CREATE TEMPORARY TABLE tt (a INT); END").await;
    pair.run("CALL p()").await;
    assert_eq!(pair.one("SELECT 1").await, "1");
    pair.bench.shows(|stats| stats.sessions_pinned, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dead_nodes_that_are_called_open_are_not_asked_in_a_frenzy() {
    let (mut first, mut second) = (Server::start(&[]), Server::start(&[]));
    let mut short = settings();
    short.hold_time = SECOND;
    let open = routes(1, &[(&first, LaneState::Open, 1), (&second, LaneState::Open, 1)]);
    let bench = Bench::new(short, open);
    let mut client = bench.client().await;
    for server in [&mut first, &mut second] {
        server.signal(9);
        server.wait_gone();
    }
    assert_eq!(errno(client.query("SELECT 1", 10 * SECOND).await), 9102);
    let again = bench.proxy.stats().await.statements_again;
    assert!((2..60).contains(&again), "{again} tries in a second");
}

/// A client with a prepared statement whose parameter is sent as long data; statements are held for a short time only.
struct LongData {
    server: Server,
    bench: Bench,
    client: Link,
    /// The packet with the data.
    piece: Vec<u8>,
    /// The execution's payload, without the value.
    run: Vec<u8>,
}

impl LongData {
    async fn begin() -> Self {
        let server = Server::start(&[]);
        let mut short = settings();
        short.hold_time = SECOND / 4;
        let bench = Bench::new(short, routes(1, &[(&server, LaneState::Open, 1)]));
        let mut client = bench.client().await;
        let End::Prepared { id, .. } = ask(&mut client, &prepare("SELECT LENGTH(?)")).await.1 else {
            panic!()
        };
        let mut piece = vec![];
        let data = [&[Command::STMT_SEND_LONG_DATA.0][..], &id.to_le_bytes(), &[0, 0], b"seven.."].concat();
        put_packet(&mut piece, &mut 0, &data);
        let mut run = execute_text(id, "", true);
        run.pop();
        Self { server, bench, client, piece, run }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_data_for_an_execute_that_was_not_run_is_not_found_by_the_next() {
    let LongData { server, bench, mut client, piece, run } = LongData::begin().await;
    for held in [true, false] {
        client.stream.write_all(&piece).await.unwrap();
        assert!(matches!(ask(&mut client, &PING).await.1, End::Ok { .. }), "the piece is on the node");
        if held {
            bench.follow(routes(2, &[(&server, LaneState::Draining, 1)])).await;
            assert_eq!(ask(&mut client, &run).await.1, End::Err { code: 9102 });
            bench.follow(routes(3, &[(&server, LaneState::Open, 1)])).await;
            continue;
        }
        let packets = ask(&mut client, &run).await.0;
        assert_eq!(i32::from_le_bytes(packets[3][2..6].try_into().unwrap()), 7);
    }
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
}

/// Long data has no answer, so the execution that it was for has the error, once; and nothing of the data is found by the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execute_whose_long_data_was_not_taken_is_not_run() {
    let LongData { server, bench, mut client, piece, run } = LongData::begin().await;
    let mut version = 1;
    for pieces_before in [0, 1] {
        for _ in 0..pieces_before {
            client.stream.write_all(&piece).await.unwrap();
            assert!(matches!(ask(&mut client, &PING).await.1, End::Ok { .. }), "the piece is on the node");
        }
        version += 1;
        bench.follow(routes(version, &[(&server, LaneState::Draining, 1)])).await;
        client.stream.write_all(&piece).await.unwrap();
        for waiting in [1, 0] {
            bench.shows(|stats| stats.hold.waiting, waiting).await;
        }
        version += 1;
        bench.follow(routes(version, &[(&server, LaneState::Open, 1)])).await;
        assert_eq!(ask(&mut client, &run).await.1, End::Err { code: 9102 });
        assert_eq!(one(&mut client, "SELECT 1").await, "1");
        client.stream.write_all(&piece).await.unwrap();
        let packets = ask(&mut client, &run).await.0;
        assert_eq!(i32::from_le_bytes(packets[3][2..6].try_into().unwrap()), 7);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statement_prepared_last_is_never_an_older_one() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let mut client = bench.client().await;
    let run = [&[Command::STMT_EXECUTE.0][..], &u32::MAX.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
    assert!(matches!(ask(&mut client, &prepare("SELECT 'older'")).await.1, End::Prepared { .. }));
    assert!(!matches!(ask(&mut client, &run).await.1, End::Err { .. }));
    assert_eq!(ask(&mut client, &prepare("SELEKT")).await.1, End::Err { code: 1064 });
    assert_eq!(ask(&mut client, &run).await.1, End::Err { code: 1243 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_own_flags_count_from_the_login_on() {
    use protocol::ok::status::AUTOCOMMIT;
    let server = Server::start(&["--autocommit=0"]);
    server.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let mut client = bench.client().await;
    assert_eq!(client.status & AUTOCOMMIT, 0);
    client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap();
    assert_eq!(errno(client.query("INSERT INTO t VALUES (1)", SECOND).await), 1062);
    bench.shows(|stats| stats.lanes[0].running, 1).await;
    client.query("COMMIT", SECOND).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_holds_for_a_session_whose_statement_waits() {
    let (old, new) = (Server::start(&[]), Server::start(&[]));
    let start = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
    let bench = Bench::new(settings(), start);
    let (mut victim, mut other) = (bench.client().await, bench.client().await);
    let id = victim.greeting.connection_id;
    bench.follow(routes(2, &[(&old, LaneState::Draining, 1), (&new, LaneState::Shut, 1)])).await;
    let asked = tokio::spawn(async move { victim.query("SELECT 1", 20 * SECOND).await });
    while bench.proxy.stats().await.hold.waiting == 0 {
        tokio::task::yield_now().await;
    }
    other.query(&format!("KILL {id}"), 5 * SECOND).await.unwrap();
    bench.follow(routes(3, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    assert_eq!(errno(asked.await.unwrap()), 1927);
    assert_eq!(one(&mut other, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_follow_the_protocol_harm_nobody() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let address = bench.address();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // Before the login: noise, lengths that lie, silence.
    for round in 0..200 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let greeting = packet(&mut stream).await;
        assert_eq!(greeting[0], 10);
        let noise: Vec<u8> = (0..random() % 600).map(|_| random() as u8).collect();
        stream.write_all(&noise).await.unwrap();
        if round % 2 == 0 {
            stream.shutdown().await.unwrap();
        }
        drop(stream);
    }
    // After it: commands that are none, cut short, or numbered wrongly.
    for round in 0..200 {
        let Ok(mut client) = connect(&address).await else {
            panic!("round {round}: a well-behaved client is refused")
        };
        let mut out = vec![];
        let noise: Vec<u8> = (0..=random() % 60).map(|_| random() as u8).collect();
        put_packet(&mut out, &mut (random() as u8), &noise);
        if round % 3 == 0 {
            out.truncate(out.len() / 2);
        }
        let _ = client.stream.write_all(&out).await;
        let _ = client.stream.shutdown().await;
        let mut sink = vec![];
        timeout(10 * SECOND, client.stream.read_to_end(&mut sink)).await.expect("the proxy ends it").ok();
    }
    // An oversized length, and then nothing: no memory is taken for it.
    let mut liar = connect(&address).await.unwrap();
    liar.stream.write_all(&[0xFF, 0xFF, 0xFF, 0, 3]).await.unwrap();
    // Silence before the login ends by the login's own deadline.
    let mut idle = TcpStream::connect(&address).await.unwrap();
    let mut sink = vec![];
    timeout(20 * SECOND, idle.read_to_end(&mut sink)).await.expect("the login has a deadline").unwrap();
    let mut client = bench.client().await;
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
    drop((client, liar));
    bench.shows(|stats| stats.clients, 0).await;
    bench.shows(|stats| stats.lanes[0].sessions, 0).await;
}

/// A scripted node behind the proxy.
struct Scripted {
    bench: Bench,
    node: ScriptedNode,
}

impl Scripted {
    async fn start(script: impl Fn(Heard<'_>) -> Vec<Act> + Send + Sync + 'static) -> Scripted {
        let node = ScriptedNode::start(script).await;
        let mut first = Routes::clone(&routes_of(1, vec![lane(0, node.address(), LaneState::Open, 1)]));
        first.greeting = first.greeting.map(|greeting| {
            Arc::new(ServerGreeting { capabilities: scripted::CAPS.0, ..ServerGreeting::clone(&greeting) })
        });
        Scripted { bench: Bench::new(settings(), Arc::new(first)), node }
    }

    async fn client(&self) -> Link {
        let login = Login::new("app", Secret::Password("secret".into()));
        Link::connect(&self.bench.address(), &login, 5 * SECOND).await.unwrap()
    }

    /// The commands that came until a link ended.
    async fn until_ended(&mut self) -> Vec<Vec<u8>> {
        let mut commands = vec![];
        loop {
            match self.node.event().await {
                Event::Command { payload, .. } => commands.push(payload),
                Event::Ended { .. } => return commands,
                Event::Linked { .. } => {}
            }
        }
    }
}

fn ok() -> Vec<Act> {
    vec![Act::Say(answers::ok())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_last_column_is_passed_in_pieces_is_prepared() {
    let fake = Scripted::start(|heard| {
        if heard.command()[0] != Command::STMT_PREPARE.0 {
            return ok();
        }
        let (mut out, mut seq) = (vec![], 1);
        put_packet(&mut out, &mut seq, &[0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        put_packet(&mut out, &mut seq, &vec![3; 70_000]); // with DEPRECATE_EOF the last one
        vec![Act::Say(out)]
    })
    .await;
    let mut client = fake.client().await;
    let asked = async {
        let (packets, end) = ask(&mut client, &prepare("SELECT x")).await;
        assert!(matches!(end, End::Prepared { id: 1, columns: 1, .. }), "{end:?}");
        assert!(packets[1] == vec![3; 70_000]);
        assert!(matches!(ask(&mut client, &PING).await.1, End::Ok { .. }));
    };
    timeout(10 * SECOND, asked).await.expect("the answer ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_was_sent_in_part_is_never_made_whole_by_a_goodbye() {
    let mut fake = Scripted::start(|_| ok()).await;
    let mut client = fake.client().await;
    assert!(matches!(ask(&mut client, &PING).await.1, End::Ok { .. }));
    let mut out = vec![];
    put_packet(&mut out, &mut 0, &[&[Command::QUERY.0], &b"x".repeat(3 << 20)[..]].concat());
    out.truncate(out.len() - 5); // a goodbye is as long
    client.stream.write_all(&out).await.unwrap();
    drop(client);
    for command in fake.until_ended().await {
        assert!(command.len() < 1 << 20, "a statement that nobody said was run");
    }
    // A client that leaves in good order says goodbye on its link, too.
    let mut client = fake.client().await;
    assert!(matches!(ask(&mut client, &PING).await.1, End::Ok { .. }));
    drop(client);
    assert_eq!(fake.until_ended().await.last(), Some(&vec![Command::QUIT.0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_behind_an_answer_counts_on_from_the_answer() {
    let fake = Scripted::start(|heard| {
        if heard.command().len() < PAYLOAD_MAX {
            return ok();
        }
        // One column, then rows until the numbers begin anew, then nothing more.
        let (mut out, mut seq) = (vec![], 2);
        put_packet(&mut out, &mut seq, &[1]);
        put_packet(&mut out, &mut seq, &[3; 30]);
        while seq != 1 {
            put_packet(&mut out, &mut seq, &[1, b'x']);
        }
        vec![Act::Say(out), Act::Close]
    })
    .await;
    let mut client = fake.client().await;
    let mut out = vec![];
    put_packet(&mut out, &mut 0, &[&[Command::QUERY.0], &b"x".repeat(PAYLOAD_MAX)[..]].concat());
    client.stream.write_all(&out).await.unwrap();
    let mut wanted = 2u8;
    loop {
        let read = timeout(10 * SECOND, read_packet(&mut client.stream)).await;
        let (head, payload) = read.expect("the answer ends").unwrap();
        assert_eq!(head.seq, wanted, "{payload:?}");
        wanted = wanted.wrapping_add(1);
        if payload[0] == ERR {
            assert_eq!((head.seq, &payload[1..3]), (1, &9101u16.to_le_bytes()[..]));
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_was_idle_for_too_long_is_not_taken_for_a_killed_one() {
    // On each link the second statement is not answered.
    let mut fake = Scripted::start(|heard| {
        let is_answered = heard.commands.len() < 2 || heard.command()[0] == Command::QUIT.0;
        if is_answered { ok() } else { vec![Act::Close] }
    })
    .await;
    let mut clients = vec![];
    for _ in 0..5 {
        clients.push(fake.client().await);
    }
    let mut asked = vec![];
    for mut client in clients {
        client.query("SELECT 1", 5 * SECOND).await.unwrap();
        asked.push(tokio::spawn(async move {
            // The shortest time after which a node ends an idle link by itself.
            tokio::time::sleep(SECOND + SECOND / 20).await;
            client.query("SELECT 2", 10 * SECOND).await
        }));
    }
    let mut went_on = 0;
    for asked in asked {
        match asked.await.unwrap() {
            Ok(_) => went_on += 1,
            // This host was too busy to tell.
            Err(LinkError::Rejected { errno: 1927, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(went_on > 0, "each was taken for a killed one");
    let mut client = fake.client().await;
    client.query("SELECT 1", 5 * SECOND).await.unwrap();
    // What the manager says when it has asked the node after the alarm.
    while fake.bench.facts.try_recv().is_ok() {}
    let asked = tokio::spawn(async move { client.query("SELECT 2", 5 * SECOND).await });
    let alarm = loop {
        if let Some(ProxyFact::TrafficLost { alarm, .. }) = fake.bench.facts.recv().await {
            break alarm;
        }
    };
    let mut well = Routes::clone(&fake.bench.routes.borrow());
    well.lanes[0].looked = alarm;
    fake.bench.routes.send_replace(Arc::new(well));
    assert_eq!(errno(asked.await.unwrap()), 1927, "it was not idle");
}
