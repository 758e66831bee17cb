//! A client that stops while it sends keeps no node busy: the statement that it has not sent to its end has not run, and what is left of it
//! is read when it comes, and never taken for commands.

use fixture::client::{Client, ClientOptions};
use fixture::wait::until_async;
use harness::SECOND;
use harness::cluster::Cluster;
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::ErrPacket;
use protocol::packet::put_packet;
use tokio::io::AsyncWriteExt;
use topology::fact::ProxyFact;
use topology::routes::Cut;

/// A statement of 4 MiB as one packet: more than is kept.
fn large() -> Vec<u8> {
    let sql = format!("INSERT INTO t VALUES ('{}')", "x".repeat(4 << 20));
    packet(0, &[&[Command::QUERY.0][..], sql.as_bytes()].concat())
}

fn packet(mut seq: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    put_packet(&mut out, &mut seq, payload);
    out
}

fn cluster() -> Cluster {
    let cluster = Cluster::with(2, harness::settings(), &["--max-allowed-packet=16M", "--local-infile=ON"]);
    cluster.everywhere("CREATE TABLE shop.t (x LONGTEXT)");
    cluster
}

/// A client that has sent the first half of a large statement.
async fn half_sent(cluster: &Cluster, before: &[&str]) -> (Client, Vec<u8>) {
    let mut client = cluster.client().await;
    for sql in before {
        client.run(sql).await;
    }
    let statement = large();
    let (half, rest) = statement.split_at(statement.len() / 2);
    client.stream.write_all(half).await.unwrap();
    is_named(cluster, client.id()).await;
    (client, rest.to_vec())
}

/// Waits until it is said of the session that the rest of what it sends is awaited.
async fn is_named(cluster: &Cluster, id: u32) {
    until_async("it has not sent the rest", async || {
        let busy = cluster.bench.proxy.stats().await.busy;
        let is_it =
            busy.iter().any(|session| session.id == id && session.what.contains("has not sent the rest"));
        if is_it { Ok(()) } else { Err(busy) }
    })
    .await;
}

/// Sends the rest; the code of the error that answers it.
async fn told(client: &mut Client, rest: &[u8], seq: u8) -> u16 {
    client.stream.write_all(rest).await.unwrap();
    client.expect(seq);
    ErrPacket::parse(&client.packet().await.unwrap()).unwrap().code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_sent_statement_is_given_up_for_a_planned_move() {
    let mut cluster = cluster();
    let (mut client, rest) = half_sent(&cluster, &["SET @kept = 7"]).await;
    cluster.drain().await;
    assert!(!cluster.quiet(SECOND / 2).await, "given up before the budget is nearly over");
    cluster.cut(Cut::Stalled).await;
    assert!(cluster.quiet(SECOND * 5).await, "it keeps its node busy");
    cluster.open_next().await;
    assert_eq!(told(&mut client, &rest, 1).await, 9107);
    assert_eq!(client.one("SELECT COUNT(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_transaction_it_is_given_up_by_force_only() {
    let mut cluster = cluster();
    let (mut client, rest) = half_sent(&cluster, &["BEGIN", "INSERT INTO t VALUES ('a')"]).await;
    cluster.drain().await;
    cluster.cut(Cut::Stalled).await;
    assert!(!cluster.quiet(SECOND / 2).await, "a transaction was cut");
    cluster.cut(Cut::All).await;
    assert!(cluster.quiet(SECOND * 5).await, "it keeps its node busy");
    cluster.open_next().await;
    assert_eq!(told(&mut client, &rest, 1).await, 1213);
    assert_eq!(client.one("SELECT COUNT(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_stops_is_given_up_by_force() {
    let mut cluster = cluster();
    let options =
        ClientOptions { caps: ClientOptions::default().caps | Caps::LOCAL_FILES, ..ClientOptions::default() };
    let mut client = cluster.client_as(&options).await;
    client
        .send(0, &[&[Command::QUERY.0][..], b"LOAD DATA LOCAL INFILE 'f' INTO TABLE t"].concat())
        .await
        .unwrap();
    assert_eq!(client.packet().await.unwrap()[0], 0xFB, "the node asks for the file");
    // Each line would be a command, were it not a file's.
    let line = |seq| packet(seq, b"\x03INSERT INTO t VALUES ('b')\n");
    let half = line(3).len() / 2;
    client.stream.write_all(&[&line(2)[..], &line(3)[..half]].concat()).await.unwrap();
    is_named(&cluster, client.id()).await;
    cluster.drain().await;
    cluster.cut(Cut::All).await;
    assert!(cluster.quiet(SECOND * 5).await, "it keeps its node busy");
    cluster.open_next().await;
    let rest = [&line(3)[half..], &line(4), &packet(5, b"")].concat();
    assert_eq!(told(&mut client, &rest, 6).await, 9101);
    assert_eq!(client.one("SELECT COUNT(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_under_a_client_that_stopped_is_let_go() {
    let mut cluster = cluster();
    let (mut client, rest) = half_sent(&cluster, &[]).await;
    let (node, epoch) = (cluster.routes().lanes[0].node, cluster.routes().lanes[0].epoch);
    cluster.kill_here().await;
    let cut = async {
        loop {
            match cluster.facts.recv().await {
                Some(ProxyFact::Cut { node: told, epoch: ended }) if (told, ended) == (node, epoch) => return,
                Some(_) => {}
                None => panic!("the proxy has ended"),
            }
        }
    };
    tokio::time::timeout(5 * SECOND, cut).await.expect("a link of the dead node is never let go");
    assert_eq!(told(&mut client, &rest, 1).await, 9107);
    assert_eq!(client.one("SELECT COUNT(*) FROM t").await, "0");
}
