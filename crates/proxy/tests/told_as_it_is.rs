//! An error that would come again wherever the statement is sent is told as the server tells it, at once, and nothing is sent again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod bench;

use std::time::{Duration, Instant};

use bench::fact_answerer::Kept;
use bench::settings;
use fixture::Server;
use fixture::client::{Client, ClientOptions, Param, Part};
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
    while server.sql(&format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}")) != "0" {
        assert!(began.elapsed() < AT_ONCE, "the link stands");
    }
    let told = client.query("SELECT 1").await;
    assert_eq!(told.error(), Some(1184), "{told:?}");
    assert!(began.elapsed() < AT_ONCE && logins() - before < 20, "{:?}", began.elapsed());
    assert_eq!(kept.proxy.stats().await.statements_again, 0);
}
