//! Clients that stopped reading, and planned moves: a result that nobody reads is cut when the budget ends, if that changes nothing;
//! everything is cut when an operator says so; and a lane that was shut is said to be cut when it certainly is.

use std::time::Duration;

use fixture::client::{Client, Part, Reply};
use fixture::wait::{until, until_async};
use harness::SECOND;
use harness::cluster::Cluster;
use protocol::command::Command;
use protocol::packet::put_packet;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::routes::Cut;

/// Half a gigabyte: more than all sockets on the way hold.
const LARGE: &str = "SELECT REPEAT('x', 1000000) FROM seq_1_to_500";

async fn say(client: &mut Client, sql: &str) {
    let payload = [&[Command::QUERY.0], sql.as_bytes()].concat();
    client.send(0, &payload).await.unwrap();
}

/// Reads packets as long as some come; the last one as a part of an answer.
async fn rest(client: &mut Client) -> (usize, Part) {
    let mut packets = 0;
    loop {
        match client.packet().await {
            Ok(packet) if packet.first() == Some(&0xFF) => {
                let code = u16::from_le_bytes([packet[1], packet[2]]);
                let message = String::from_utf8_lossy(&packet[9..]).into_owned();
                return (packets, Part::Error { code, state: String::new(), message });
            }
            Ok(packet) if packet.first() == Some(&0xFE) && packet.len() < 9 => {
                // Behind the columns, and behind the rows.
                if packets > 2 {
                    return (
                        packets,
                        Part::Done { affected: 0, insert_id: 0, warnings: 0, status: 0, info: String::new() },
                    );
                }
            }
            Ok(_) => packets += 1,
            Err(lost) => return (packets, lost),
        }
    }
}

/// Returns when the node has written for a while to somebody who does not read.
fn is_stuck(cluster: &Cluster) {
    let stuck = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Writing to net'";
    let mut in_a_row = 0;
    until("the node is stuck", || {
        in_a_row = if cluster.here().sql(stuck) == "1" { in_a_row + 1 } else { 0 };
        in_a_row >= 10
    });
}

async fn stalled(cluster: &Cluster, before: &[&str], sql: &str) -> Client {
    let mut client = cluster.client().await;
    for sql in before {
        client.run(sql).await;
    }
    say(&mut client, sql).await;
    is_stuck(cluster);
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_nobody_reads_does_not_stand_in_the_way_of_a_planned_move() {
    let mut cluster = Cluster::start(2);
    let mut client = stalled(&cluster, &[], LARGE).await;
    cluster.drain().await;
    assert!(!cluster.quiet(SECOND / 2).await, "it is told too early that nothing runs");
    cluster.cut(Cut::Stalled).await;
    assert!(cluster.quiet(SECOND * 5).await, "a result that nobody reads still runs");
    cluster.open_next().await;
    // What had been sent may be read; then it says so, or ends.
    let (packets, end) = rest(&mut client).await;
    println!("{packets} packets were on their way, then {end:?}");
    match end {
        Part::Error { code, .. } => {
            assert_eq!(code, 9105);
            assert_eq!(client.one("SELECT @@port").await, cluster.here().address().port().to_string());
        }
        Part::Lost(_) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(cluster.client().await.one("SELECT 1").await, "1");
}

/// One that has stopped is cut at once; one that reads is left, however slowly it does, and one in a transaction too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_stopped_is_cut_at_once_and_one_that_reads_slowly_is_not() {
    let mut cluster = Cluster::start(2);
    let mut stopped = stalled(&cluster, &[], LARGE).await;
    cluster.drain().await;
    let since = std::time::Instant::now();
    cluster.cut(Cut::Stopped).await;
    assert!(cluster.quiet(SECOND / 2).await, "a client that has stopped still keeps the node");
    println!("quiet {} ms after the order", since.elapsed().as_millis());
    cluster.undrain().await;
    let (_, end) = rest(&mut stopped).await;
    assert!(matches!(end, Part::Error { code: 9105, .. } | Part::Lost(_)), "{end:?}");

    // Some megabytes a second, so that the node's answer takes longer than the test looks on.
    let mut slow = stalled(&cluster, &[], LARGE).await;
    let (read, mut has_read) = tokio::sync::watch::channel(0);
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let reader = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                _ = &mut stopped => return slow,
                _ = pace.tick() => {}
            }
            let packet = slow.packet().await.unwrap();
            assert_ne!(packet.first(), Some(&0xFF), "cut after {} packets", *read.borrow());
            read.send_modify(|packets| *packets += 1);
        }
    });
    tokio::time::timeout(SECOND * 10, has_read.wait_for(|packets| *packets > 20)).await.unwrap().unwrap();
    cluster.drain().await;
    cluster.cut(Cut::Stopped).await;
    assert!(!cluster.quiet(SECOND * 2).await, "a client that reads was cut");
    stop.send(()).unwrap();
    let slow = reader.await.unwrap();
    let packets = *has_read.borrow();
    let since = std::time::Instant::now();
    assert!(cluster.quiet(SECOND * 5).await, "it has stopped, and still keeps the node");
    println!("{packets} packets were read; quiet {} ms after the last", since.elapsed().as_millis());
    drop(slow);
    cluster.undrain().await;

    let in_transaction = stalled(&cluster, &["BEGIN"], LARGE).await;
    cluster.drain().await;
    cluster.cut(Cut::Stopped).await;
    assert!(!cluster.quiet(SECOND).await, "a transaction was cut");
    drop(in_transaction);
    assert!(cluster.quiet(SECOND * 5).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_a_lane_busy_is_shown_by_name() {
    let mut cluster = Cluster::start(2);
    let stalled = stalled(&cluster, &[], LARGE).await;
    let running = asked(&cluster, "SELECT SLEEP(30)", &[]).await;
    let mut open = cluster.client().await;
    open.run("BEGIN").await;
    open.run("SELECT 1").await;
    let idle = cluster.client().await;
    cluster.drain().await;
    let wanted = [
        (stalled.id(), "its client has not read for "),
        (open.id(), "its transaction is open, and its client has sent nothing for "),
    ];
    let busy = until_async(&format!("{wanted:?}"), async || {
        let busy = cluster.bench.proxy.stats().await.busy;
        let shows = |(id, what): &(u32, &str)| {
            busy.iter().any(|session| {
                session.id == *id
                    && session.what.starts_with(what)
                    && (session.user.as_str(), session.node.as_str()) == ("app", "db1")
                    && session.client.starts_with("127.0.0.1:")
            })
        };
        if wanted.iter().all(shows) && busy.len() == 3 { Ok(busy) } else { Err(busy) }
    })
    .await;
    assert!(busy.iter().all(|session| session.id != idle.id()), "an idle one keeps nothing busy: {busy:?}");
    assert!(busy.iter().any(|session| session.what.starts_with("its statement has run for ")), "{busy:?}");
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_be_changed_by_it_is_not_cut() {
    let mut cluster = Cluster::start(2);
    cluster.everywhere("CREATE TABLE shop.t (id INT)");
    let running = {
        let mut client = cluster.client().await;
        tokio::spawn(async move { client.query("SELECT 'answered', SLEEP(3)").await })
    };
    let mut in_transaction = stalled(&cluster, &["BEGIN", "INSERT INTO t VALUES (1)"], LARGE).await;
    cluster.drain().await;
    cluster.cut(Cut::Stalled).await;
    assert!(!cluster.quiet(SECOND * 2).await, "a transaction was cut");
    assert_eq!(running.await.unwrap().value().as_deref(), Some("answered"));
    let (packets, end) = rest(&mut in_transaction).await;
    assert!(matches!(end, Part::Done { .. }) && packets == 502, "{packets}, {end:?}");
    in_transaction.run("COMMIT").await;
    assert!(cluster.quiet(SECOND * 5).await);
    assert_eq!(cluster.here().sql("SELECT COUNT(*) FROM shop.t"), "1");
    // Undone, everything is as it was.
    cluster.undrain().await;
    assert_eq!(in_transaction.one("SELECT 1").await, "1");
}

/// A statement under way: its answer, and its client.
async fn asked(cluster: &Cluster, sql: &'static str, before: &[&str]) -> JoinHandle<(Reply, Client)> {
    let mut client = cluster.client().await;
    for sql in before {
        client.run(sql).await;
    }
    let number = client.one("SELECT CONNECTION_ID()").await;
    let asking = tokio::spawn(async move {
        let reply = client.query(sql).await;
        (reply, client)
    });
    let running = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number} AND command <> 'Sleep'"
    );
    until("the node runs it", || cluster.here().sql(&running) == "1");
    asking
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_can_have_everything_cut() {
    let mut cluster = Cluster::start(2);
    cluster.everywhere("CREATE TABLE shop.t (id INT)");
    let writing = asked(&cluster, "INSERT INTO t SELECT SLEEP(20)", &[]).await;
    let reading =
        asked(&cluster, "SELECT SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b", &[]).await;
    let in_transaction = asked(&cluster, "SELECT SLEEP(20)", &["BEGIN", "INSERT INTO t VALUES (1)"]).await;
    let mut idle = cluster.client().await;
    for sql in ["BEGIN", "INSERT INTO t VALUES (2)"] {
        idle.run(sql).await;
    }
    let stalled = stalled(&cluster, &["BEGIN"], LARGE).await;
    cluster.drain().await;
    assert!(!cluster.quiet(SECOND / 2).await);
    cluster.cut(Cut::All).await;
    assert!(
        cluster.quiet(SECOND * 5).await,
        "something still runs: {:?}",
        cluster.bench.proxy.stats().await.lanes
    );
    cluster.open_next().await;
    let (reply, mut client) = writing.await.unwrap();
    assert_eq!(reply.error(), Some(9101), "{reply:?}");
    assert_eq!(client.one("SELECT 1").await, "1");
    // A read goes on where the session stands now. (It would take for ever.)
    let goes_on = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SUM%'";
    cluster.here().until(goes_on, |count| count == "1");
    reading.abort();
    let (reply, _) = in_transaction.await.unwrap();
    assert_eq!(reply.error(), Some(1213), "{reply:?}");
    assert_eq!(idle.query("COMMIT").await.error(), Some(1213));
    assert_eq!(idle.one("SELECT COUNT(*) FROM t").await, "0");
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_has_cut_is_not_taken_for_what_costs_nodes() {
    let mut cluster = Cluster::start(2);
    for _ in 0..2 {
        let waiting = asked(&cluster, "SELECT SLEEP(20)", &[]).await;
        let runs = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
        cluster.here().until(runs, |count| count == "1");
        cluster.drain().await;
        cluster.cut(Cut::All).await;
        assert!(cluster.quiet(SECOND * 5).await);
        cluster.open_next().await;
        let (reply, _) = waiting.await.unwrap();
        assert_eq!(reply.error(), Some(9105), "{reply:?}");
    }
    let mut client = cluster.client().await;
    assert_eq!(client.one("SELECT SLEEP(0)").await, "0", "no node was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_under_a_result_that_nobody_reads_is_noticed() {
    let mut cluster = Cluster::start(2);
    let _client = stalled(&cluster, &[], LARGE).await;
    cluster.here().signal(fixture::signal::KILL);
    let told = async {
        loop {
            if let ProxyFact::TrafficLost { node, .. } = cluster.facts.recv().await.unwrap() {
                return node;
            }
        }
    };
    // The node is looked at ever more rarely, each 30 s at last: how often it was already, depends on when the client stopped.
    let told = tokio::time::timeout(SECOND * 40, told).await;
    assert_eq!(told.ok(), Some(NodeId(0)), "nobody looked at the node while its client did not read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shut_lane_is_said_to_be_cut_once_whatever_its_clients_do() {
    let mut cluster = Cluster::start(2);
    let mut idle = cluster.client().await;
    idle.run("SELECT 1").await;
    let stalled = stalled(&cluster, &[], LARGE).await;
    let running = {
        let mut client = cluster.client().await;
        tokio::spawn(async move { client.query("SELECT SLEEP(20), SLEEP(20)").await })
    };
    cluster.bench.shows(|stats| stats.lanes[0].running, 2).await;
    // The head and the first piece of a command that is refused, of which no more comes.
    let mut half = cluster.client().await;
    half.run("SELECT 1").await;
    let begun = [&[0, 0, 32, 0, Command::BINLOG_DUMP.0][..], &[0; 16 * 1024]].concat();
    half.stream.write_all(&begun).await.unwrap();
    // Commands that the proxy answers itself, from one that reads no answer.
    let mut deaf = cluster.client().await;
    deaf.run("SELECT 1").await;
    let unknown = [&[Command::STMT_EXECUTE.0][..], &77u32.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
    let mut many = vec![];
    (0..10_000).for_each(|_| put_packet(&mut many, &mut 0, &unknown));
    while let Ok(written) = tokio::time::timeout(SECOND, deaf.stream.write(&many)).await {
        written.unwrap();
    }
    cluster.open_next().await;
    let within = Duration::from_secs(2);
    let mut cuts = 0;
    let deadline = tokio::time::Instant::now() + within;
    while let Ok(Some(fact)) = tokio::time::timeout_at(deadline, cluster.facts.recv()).await {
        if let ProxyFact::Cut { node, epoch } = fact {
            assert_eq!((node, epoch), (NodeId(0), 1));
            cuts += 1;
        }
    }
    assert_eq!(cuts, 1, "said once, within {within:?}");
    drop((stalled, idle, running, half, deaf));
}

/// A client that asks for so many rows of a kilobyte and reads none, and whether it has stopped the answer so. No other runs anything.
async fn asks_for(cluster: &Cluster, rows: usize) -> (Client, bool) {
    let mut client = cluster.client().await;
    say(&mut client, &format!("SELECT REPEAT('x', 1000) FROM seq_1_to_{rows}")).await;
    // Its first bytes are there.
    client.stream.peek(&mut [0]).await.unwrap();
    let proxy = &cluster.bench.proxy;
    let is_stopped = until_async(&format!("an answer of {rows} rows ends or stops"), async || {
        let is_stopped = proxy.stats_reader().unread().iter().any(|(busy, _)| busy.id == client.id());
        (is_stopped || proxy.stats().await.lanes[0].running == 0).then_some(is_stopped)
    })
    .await;
    (client, is_stopped)
}

/// An answer of which only the proxy has the rest is delivered whole, although its client is one that has stopped: nothing follows its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_has_ended_at_its_node_is_not_cut() {
    let mut cluster = Cluster::start(2);
    let port = cluster.here().address().port().to_string();
    // More rows when the sockets took the whole answer, fewer when the node had not sent it all: so it stays where the proxy alone has the
    // rest. How much the sockets take differs from one client to the next, by more than the proxy holds.
    let (mut rows, mut step, mut ended_at_node) = (8_000_usize, 4_000_usize, 0);
    let deadline = std::time::Instant::now() + SECOND * 100;
    while ended_at_node < 3 {
        assert!(
            std::time::Instant::now() < deadline,
            "no answer had ended at its node, the last of {rows} rows"
        );
        let (mut client, has_stopped) = asks_for(&cluster, rows).await;
        cluster.drain().await;
        cluster.cut(Cut::Stopped).await;
        assert!(cluster.quiet(SECOND * 5).await, "a client that has stopped still keeps the node");
        cluster.undrain().await;
        match rest(&mut client).await {
            // The number of columns, the column, the rows.
            (packets, Part::Done { .. }) => {
                assert_eq!(packets, rows + 2);
                assert_eq!(client.one("SELECT @@port").await, port, "{rows} rows");
                ended_at_node += usize::from(has_stopped);
                rows += step;
            }
            (packets, Part::Error { code: 9105, .. }) => {
                assert!(packets < rows + 2, "all of it came, then an error");
                rows = rows.saturating_sub(step).max(1);
            }
            other => panic!("{other:?}"),
        }
        // In the end smaller than what the proxy holds.
        step = (step / 2).max(24);
    }
}
