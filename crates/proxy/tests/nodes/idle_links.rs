//! A node ends a link that was idle for its `wait_timeout`. The client keeps its connection, which no server would let it; what its session has is on
//! the next link, and what only the old one had is told. With a limit of Understudy's own, its connection ends as at a server.

use std::time::{Duration, Instant};

use fixture::Server;
use fixture::client::{Client, Part, Reply};
use fixture::wait::until_async;
use harness::fact_answerer::Kept;
use harness::settings;
use proxy::Settings;

/// What a session has when its link ends, and a question; `Ok`: the answer, `Err`: the error, with which 9104 ends the connection.
const STATES: [(&[&str], &str, Result<&str, u16>); 9] = [
    (&[], "SELECT 1", Ok("1")),
    (&["SET @a = 5"], "SELECT @a", Ok("5")),
    (&["SET sql_mode = 'ANSI_QUOTES'"], "SELECT @@sql_mode", Ok("ANSI_QUOTES")),
    (&["USE other"], "SELECT DATABASE()", Ok("other")),
    (&["INSERT INTO t VALUES (NULL)"], "SELECT LAST_INSERT_ID() > 0", Ok("1")),
    (&["BEGIN", "INSERT INTO t VALUES (NULL)"], "COMMIT", Err(1213)),
    (&["CREATE TEMPORARY TABLE t (a INT)"], "SELECT COUNT(*) FROM t", Err(9104)),
    (&["DO GET_LOCK('own', 0)"], "SELECT IS_USED_LOCK('own')", Err(9104)),
    (&["LOCK TABLES t WRITE"], "SELECT COUNT(*) FROM t", Err(9104)),
];

async fn until_ended(root: &mut Client, id: &str) {
    let query = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    until_async("the node has ended the link", async || root.one(&query).await == "0").await;
}

/// The limit of the server, and of the proxy.
const LIMIT: Duration = Duration::from_secs(3);

/// Uses a connection for longer than the limit, and says nothing any more: how it ends, and how long that is behind the last command.
async fn idles(mut client: Client) -> (Part, Duration) {
    // Whoever waits for an answer is not idle, and each answer begins it anew.
    client.run("BEGIN").await;
    client.run("INSERT INTO t VALUES (NULL)").await;
    client.run("DO SLEEP(3.5)").await;
    for _ in 0..2 {
        tokio::time::sleep(LIMIT / 2).await;
        client.run("DO 1").await;
    }
    let began = Instant::now();
    client.run("DO 2").await;
    let part = client.packet().await.expect_err("nothing was asked");
    (part, began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_limit_an_idle_client_ends_as_by_a_servers_own() {
    let server = Server::start(&["--wait-timeout=3"]);
    server.sql("CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY)");
    let limited = Settings { client_idle_max: LIMIT, ..settings() };
    let kept = Kept::start(limited, &[server.address()], false);
    let (straight, mut through) = (Client::connect(server.address()).await, kept.client().await);
    // Its link is not what ends.
    through.run("SET SESSION wait_timeout = 60").await;
    let ((as_server, _), (as_proxy, idle)) = tokio::join!(idles(straight), idles(through));
    // In which of the two ways a connection ends does not matter.
    assert!(matches!((&as_proxy, &as_server), (Part::Lost(_), Part::Lost(_))), "{as_proxy:?}, {as_server:?}");
    assert!(idle >= LIMIT, "{idle:?}");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.t"), "0", "what was open is rolled back");
}

fn value(reply: &Reply) -> Result<String, u16> {
    reply.error().map_or_else(|| Ok(reply.value().unwrap_or_default()), Err)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_client_stays_and_is_told_what_its_link_took_along() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE other; CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY)");
    let kept = Kept::start(settings(), &[server.address()], false);
    let mut root = Client::connect(server.address()).await;
    let mut clients = vec![];
    for (state, question, told) in STATES {
        let mut client = kept.client().await;
        client.run("SET SESSION wait_timeout = 1").await;
        let id = client.one("SELECT CONNECTION_ID()").await;
        for sql in state {
            client.run(sql).await;
        }
        clients.push((client, id, question, told));
    }
    for (mut client, id, question, told) in clients {
        until_ended(&mut root, &id).await;
        let reply = client.query(question).await;
        assert_eq!(value(&reply), told.map(str::to_owned), "{question}: {reply:?}");
        let after = client.query("SELECT 2").await;
        assert_eq!(after.is_lost(), told == Err(9104), "{question}: {after:?}");
    }
    assert_eq!(
        server.sql("SELECT COUNT(*) FROM shop.t"),
        "1",
        "the transaction that was open is rolled back"
    );
}
