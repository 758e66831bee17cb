//! An error that would come again wherever the statement is sent is told as the server tells it, at once, and nothing is sent again.

use std::time::{Duration, Instant};

use fixture::Server;
use fixture::client::{Client, ClientOptions, Param, Part, Reply};
use harness::cluster::{Cluster, Move};
use harness::fact_answerer::Kept;
use harness::settings;
use proxy::Settings;

/// The servers' limit.
const PACKET_MAX: usize = 1 << 20;
/// What is told at once takes less than this, also on a busy machine; a hold lasts 10 s.
const AT_ONCE: Duration = Duration::from_secs(5);

fn kept(nodes: &[&Server], retain_bytes_max: usize) -> Kept {
    let addresses: Vec<_> = nodes.iter().map(|node| node.address()).collect();
    Kept::start(Settings { retain_bytes_max, ..settings() }, &addresses, false)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_beyond_the_nodes_limit_is_told_so() {
    let server = Server::start(&[&format!("--max-allowed-packet={PACKET_MAX}")]);
    server.sql("CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGBLOB)");
    // Kept in memory, and streamed.
    for retain_bytes_max in [64 << 20, 64 << 10] {
        let kept = kept(&[&server], retain_bytes_max);
        for size in [PACKET_MAX + 1000, 3 * PACKET_MAX, 20 * PACKET_MAX] {
            let case = format!("{size} bytes, of which {retain_bytes_max} are kept");
            let text = "x".repeat(size);
            let began = Instant::now();
            let mut client = kept.client().await;
            let told = client.query(format!("INSERT INTO t (v) VALUES ('{text}')")).await;
            assert_eq!(told.error(), Some(1153), "{case}: {told:?}");
            let mut client = kept.client().await;
            client.run("BEGIN").await;
            client.run("INSERT INTO t (v) VALUES ('before')").await;
            let told = client.query(format!("INSERT INTO t (v) VALUES ('{text}')")).await;
            assert_eq!(told.error(), Some(1153), "{case}, in a transaction: {told:?}");
            let mut client = kept.client().await;
            let statement = client.prepare("INSERT INTO t (v) VALUES (?)").await.unwrap();
            let told = client.execute(&statement, &[Param::from(text.as_str())]).await;
            assert_eq!(told.error(), Some(1153), "{case}, prepared: {told:?}");
            assert!(began.elapsed() < AT_ONCE, "{case}: {:?}", began.elapsed());
        }
        let stats = kept.proxy.stats().await;
        assert_eq!(stats.statements_again, 0, "{stats:?}");
        assert_eq!(server.sql("SELECT COUNT(*) FROM shop.t"), "0");
    }
}

/// What is said of an execution whose long data came in pieces of this size, so many of them; and of the statement behind it.
async fn long(client: &mut Client, piece_bytes: usize, pieces: usize) -> (Reply, Reply) {
    let statement = client.prepare("SELECT LENGTH(?)").await.unwrap();
    for _ in 0..pieces {
        // A server that ends the connection at a piece may do so before the next.
        let _ = client.long_data(&statement, 0, &vec![b'x'; piece_bytes]).await;
    }
    let told = client.execute(&statement, &[Param::Long]).await;
    (told, client.query("SELECT 1").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_data_beyond_the_nodes_limit_is_told_as_the_node_tells_it() {
    let server = Server::start(&[&format!("--max-allowed-packet={PACKET_MAX}")]);
    let mut refused = 0;
    for retain_bytes_max in [64 << 20, 64 << 10] {
        let kept = kept(&[&server], retain_bytes_max);
        // Within; in all, or in one piece, beyond.
        for (piece_bytes, pieces) in [(PACKET_MAX / 4, 2), (PACKET_MAX / 2, 3), (PACKET_MAX + 1000, 1)] {
            let case = format!("{pieces} pieces of {piece_bytes} bytes, and {retain_bytes_max} are kept");
            let began = Instant::now();
            let direct = long(&mut Client::connect(server.address()).await, piece_bytes, pieces).await;
            let through = long(&mut kept.client().await, piece_bytes, pieces).await;
            let both = format!("{case}: {through:?} {direct:?}");
            if piece_bytes > PACKET_MAX {
                // The server ends the connection at the piece; what it says before may be lost with it.
                let is_end = |told: &Reply| told.is_lost() || matches!(told.error(), Some(1153 | 9104));
                assert!(is_end(&direct.0) && is_end(&through.0), "{both}");
            } else {
                assert_eq!(
                    (through.0.error(), through.0.value()),
                    (direct.0.error(), direct.0.value()),
                    "{both}"
                );
                assert_eq!(through.1.value(), direct.1.value(), "{both}");
            }
            assert!(began.elapsed() < AT_ONCE, "{case}: {:?}", began.elapsed());
            refused += usize::from(piece_bytes < PACKET_MAX && direct.0.error().is_some());
        }
        assert_eq!(kept.proxy.stats().await.statements_again, 0);
    }
    assert_eq!(refused, 2, "the server takes as much as it likes in pieces");
}

/// What one node takes and the other does not is told as the one that is asked tells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_different_limits_are_believed_each_for_itself() {
    for retain_bytes_max in [64 << 20, 64 << 10] {
        let servers =
            [16 * PACKET_MAX, PACKET_MAX].map(|max| Server::start(&[&format!("--max-allowed-packet={max}")]));
        let settings = Settings { retain_bytes_max, hold_bytes_max: 64 << 20, ..settings() };
        let mut cluster = Cluster::over(servers.into(), settings);
        let text = format!("SELECT LENGTH('{}')", "x".repeat(2 * PACKET_MAX));
        let taken = (2 * PACKET_MAX).to_string();
        let (mut client, mut idle) = (cluster.client().await, cluster.client().await);
        assert_eq!(client.one(&text).await, taken);
        assert_eq!(idle.one(&text).await, taken);
        // Held while the traffic moves to the node that takes less.
        cluster.drain().await;
        let held = tokio::spawn({
            let text = text.clone();
            async move { client.query(text).await }
        });
        cluster.bench.shows(|stats| usize::try_from(stats.hold.waiting).unwrap(), 1).await;
        assert!(cluster.quiet(AT_ONCE).await);
        cluster.open_next().await;
        let began = Instant::now();
        assert_eq!(held.await.unwrap().error(), Some(1153));
        assert_eq!(idle.one("SELECT 1").await, "1");
        assert_eq!(idle.query(&text).await.error(), Some(1153));
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        let mut back = cluster.client().await;
        assert_eq!(back.one("SELECT @@max_allowed_packet").await, PACKET_MAX.to_string());
        cluster.move_on(Move::HandedOver).await;
        assert_eq!(back.one(&text).await, taken, "it has the limit of the node that it is on");
        assert_eq!(cluster.bench.proxy.stats().await.statements_again, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_init_connect_is_told_at_the_login() {
    let server = Server::start(&["--init-connect=SELECT nosuch"]);
    // It is not run for an administrator.
    server.sql("REVOKE SUPER, CONNECTION ADMIN ON *.* FROM app@'%'");
    let kept = kept(&[&server], 1 << 20);
    let logins = || {
        let sql =
            "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'connections'";
        server.sql(sql).parse::<u32>().unwrap()
    };
    let (began, before) = (Instant::now(), logins());
    // The server lets the client in, and ends the connection at the first statement; here a statement has been tried already.
    let mut direct = Client::connect(server.address()).await;
    let told = direct.query("SELECT 1").await;
    assert_eq!(told.error(), Some(1184), "{told:?}");
    let refused = Client::connect_as(kept.address(), &ClientOptions::default()).await.err();
    let Some(Part::Error { code, state, message }) = refused else { panic!("{refused:?}") };
    assert_eq!((code, &*state), (1184, "08S01"));
    assert!(message.ends_with("(init_connect command failed)"), "{message}");
    // A session that was reset, and needs a new link.
    server.sql("SET GLOBAL init_connect = ''");
    let mut client = kept.client().await;
    assert!(client.reset().await.error().is_none());
    let id = client.one("SELECT CONNECTION_ID()").await;
    server.sql(&format!("SET GLOBAL init_connect = 'SELECT nosuch'; KILL {id}"));
    let link = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    server.until(&link, |count| count == "0");
    let told = client.query("SELECT 1").await;
    assert_eq!(told.error(), Some(1184), "{told:?}");
    assert!(began.elapsed() < AT_ONCE && logins() - before < 20, "{:?}", began.elapsed());
    assert_eq!(kept.proxy.stats().await.statements_again, 0);
}
