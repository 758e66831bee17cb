//! The proxy on the wire: prepared statements that move, and clients that do not follow the protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod bench;

use bench::{Bench, SECOND, connect, one, routes, settings};
use fixture::Server;
use link::Link;
use protocol::command::Command;
use protocol::packet::{HEADER_LEN, Head, put_packet};
use protocol::response::{Answer, End, Need, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use topology::routes::LaneState;

/// Sends a command and reads its whole answer, packet by packet.
async fn ask(link: &mut Link, payload: &[u8]) -> (Vec<Vec<u8>>, End) {
    let mut out = vec![];
    put_packet(&mut out, &mut 0, payload);
    link.stream.write_all(&out).await.unwrap();
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

async fn packet(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head).await.unwrap();
    let head = Head::peek(&head).unwrap();
    let mut payload = vec![0; head.len];
    stream.read_exact(&mut payload).await.unwrap();
    payload
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
    let bench = Bench::new(settings(), start).await;
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
    let bench = Bench::new(settings(), start).await;
    let mut client = bench.client().await;
    client.query("CREATE TEMPORARY TABLE t (a INT)", SECOND).await.unwrap();
    client.query("SET sql_mode = ''", SECOND).await.unwrap();
    assert_eq!(bench.proxy.stats().await.sessions_pinned, 1);
    assert!(matches!(ask(&mut client, &[Command::RESET_CONNECTION.0]).await.1, End::Ok { .. }));
    assert_eq!(bench.proxy.stats().await.sessions_pinned, 0);
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
    let bench = Bench::new(settings(), start).await;
    let mut client = bench.client().await;
    client.query("SET autocommit = 0", SECOND).await.unwrap();
    client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap();
    // An error inside a transaction ends nothing: the lane cannot be quiet.
    client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap_err();
    bench.follow(routes(2, &[(&old, LaneState::Draining, 1), (&new, LaneState::Shut, 1)])).await;
    client.query("INSERT INTO t VALUES (2)", SECOND).await.unwrap();
    assert_eq!(bench.proxy.stats().await.lanes[0].running, 1);
    client.query("COMMIT", SECOND).await.unwrap();
    assert_eq!(bench.proxy.stats().await.lanes[0].running, 0);
    bench.follow(routes(3, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    assert_eq!(
        one(&mut client, "SELECT CONCAT(@@port, ':', @@autocommit)").await,
        format!("{}:OFF", new.address().port())
    );
    assert_eq!(old.sql("SELECT COUNT(*) FROM shop.t"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_follow_the_protocol_harm_nobody() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)])).await;
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
    let gone = async {
        while bench.proxy.stats().await.clients != 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(10 * SECOND, gone).await.expect("every client is let go");
    assert_eq!(bench.proxy.stats().await.lanes[0].sessions, 0, "no link is left behind");
}
