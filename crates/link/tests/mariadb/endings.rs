//! How a real MariaDB ends connections. What the manager concludes from an ending rests on what is checked here.
//!
//! Recorded from MariaDB 10.11.19 on Debian 12, without Galera and with Galera 26.4.23 as a cluster of one. (A member of a
//! larger cluster that gets SIGTERM may accept for up to a second more without ever greeting.)
//!
//! ```text
//!                          idle link / open transaction          statement running       a new connection
//!   SIGTERM, SHUTDOWN      closed, no goodbye (Galera: 40 ms)    closed, no goodbye      refused at once; the process
//!                                                                                        lives on for 80 (Galera: 280) ms
//!   SIGKILL                closed, no goodbye, in 5 to 10 ms     closed, no goodbye      reset if very early, then refused
//!   KILL [CONNECTION] n    closed, no goodbye                    closed or 1927          accepted
//!   KILL QUERY n           lives on                              1317, lives on          accepted
//!   wait_timeout           reset or closed                       -                       accepted
//! ```
//!
//! So neither the ending of a link nor a refused connection tells an orderly stop from kill -9; only "the next connection
//! is accepted" tells an operator's KILL from both. The goodbye in words (1927) reaches the connection that gave the order.

use std::time::Duration;

use crate::server::{LONG, Server, address, app, link_to};
use fixture::scripted::{Event, ScriptedNode};
use fixture::signal;
use fixture::wait::until_async;
use link::{Ended, Link, LinkError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

async fn end_of(mut link: Link) -> Ended {
    timeout(LONG, link.ended()).await.expect("the server ends the connection")
}

/// Runs a long statement on its own link, and returns once the server is at it.
async fn busy(server: &Server) -> (u32, JoinHandle<LinkError>) {
    let mut link = link_to(server).await;
    let id = link.greeting.connection_id;
    let task = tokio::spawn(async move {
        // On KILL QUERY the first SLEEP gives 1 and the second is not reached.
        let sql = "SELECT SLEEP(600) FROM information_schema.tables";
        link.query(sql, LONG).await.expect_err("ten minutes are longer than this test")
    });
    until_at_it(server, id).await;
    (id, task)
}

/// Returns once the connection with this id runs a SLEEP.
async fn until_at_it(server: &Server, id: u32) {
    let mut watcher = link_to(server).await;
    let asked = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND state = 'User sleep'"
    );
    until_async("the statement runs", async || {
        watcher.query(&asked, LONG).await.expect("an answer").text(0, 0) == Some("1")
    })
    .await;
}

#[tokio::test]
async fn a_server_that_goes_says_no_goodbye() {
    for (name, number) in [("SIGTERM", signal::TERM), ("SIGKILL", signal::KILL)] {
        let server = Server::start(&[]);
        let [idle, idle_by_socket] = links(&server).await;
        let mut in_transaction = link_to(&server).await;
        in_transaction.query("CREATE TABLE shop.t (a INT PRIMARY KEY)", LONG).await.unwrap();
        in_transaction.query("BEGIN", LONG).await.unwrap();
        in_transaction.query("INSERT INTO shop.t VALUES (1)", LONG).await.unwrap();
        assert_eq!(in_transaction.status & protocol::ok::status::IN_TRANS, 1);
        let (_, running) = busy(&server).await;

        server.signal(number);
        for link in [idle, idle_by_socket, in_transaction] {
            let ended = end_of(link).await;
            assert!(matches!(ended, Ended::Closed | Ended::Reset), "{name}: {ended:?}");
        }
        let ended = running.await.unwrap();
        assert!(matches!(ended, LinkError::Closed | LinkError::Reset), "{name}: {ended:?}");
        let refused = async {
            loop {
                match Link::connect(&address(&server), &app(), LONG).await {
                    Err(LinkError::Refused) => return,
                    Err(LinkError::Reset | LinkError::Closed) => {} // still on its way down
                    other => panic!("{name}: {other:?}"),
                }
            }
        };
        timeout(LONG, refused).await.expect("nobody listens any more");
    }
}

#[tokio::test]
async fn an_operators_kill_takes_the_connection_and_not_the_server() {
    let server = Server::start(&[]);
    let mut operator = link_to(&server).await;

    for how in ["KILL", "KILL SOFT", "KILL HARD CONNECTION"] {
        let link = link_to(&server).await;
        operator.query(&format!("{how} {}", link.greeting.connection_id), LONG).await.unwrap();
        let ended = end_of(link).await;
        assert!(matches!(ended, Ended::Closed | Ended::Reset), "{how}: {ended:?}");
    }

    let (id, running) = busy(&server).await;
    operator.query(&format!("KILL {id}"), LONG).await.unwrap();
    let ended = running.await.unwrap();
    println!("KILL of a running statement's connection: {ended:?}");
    assert!(
        matches!(ended, LinkError::Closed | LinkError::Reset | LinkError::Rejected { errno: 1927, .. }),
        "{ended:?}"
    );

    let (id, running) = busy(&server).await;
    operator.query(&format!("KILL QUERY {id}"), LONG).await.unwrap();
    let ended = running.await.unwrap();
    assert!(matches!(ended, LinkError::Rejected { errno: 1317, .. }), "{ended:?}");

    // KILL QUERY on an idle connection is nothing to it; waiting for its end can be given up and resumed.
    let mut link = link_to(&server).await;
    operator.query(&format!("KILL QUERY {}", link.greeting.connection_id), LONG).await.unwrap();
    assert!(timeout(Duration::from_millis(50), link.ended()).await.is_err());
    assert_eq!(link.query("SELECT 1", LONG).await.unwrap().text(0, 0), Some("1"));

    link.query("SET wait_timeout = 1", LONG).await.unwrap();
    let ended = end_of(link).await;
    println!("wait_timeout: {ended:?}");
    assert!(matches!(ended, Ended::Closed | Ended::Reset), "{ended:?}");

    // The one that gives the order is told.
    operator.query("SHUTDOWN", LONG).await.unwrap();
    let ended = end_of(operator).await;
    assert!(matches!(ended, Ended::Goodbye { errno: 1927, .. } | Ended::Closed), "{ended:?}");
}

#[tokio::test]
async fn answers_are_small_and_links_are_not_used_when_broken() {
    let server = Server::start(&[]);
    let mut link = link_to(&server).await;

    let rows = link.query("SELECT 'a' AS x, NULL, '' UNION ALL SELECT 'b', 1, 'ä'", LONG).await.unwrap();
    assert_eq!(rows.columns, ["x", "NULL", ""]);
    assert_eq!(
        (rows.len(), rows.text(0, 1), rows.text(0, 2), rows.text(1, 2)),
        (2, None, Some(""), Some("ä"))
    );
    let rows = link.query("SHOW VARIABLES LIKE 'port'", LONG).await.unwrap();
    assert_eq!(rows.value_of("PORT"), Some(server.address().port().to_string().as_str()));
    link.query("CREATE TABLE shop.t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)", LONG).await.unwrap();
    let rows = link.query("INSERT INTO shop.t (b) VALUES (1), (2), (3)", LONG).await.unwrap();
    assert_eq!((rows.affected, rows.last_insert_id, rows.is_empty()), (3, 1, true));

    // The server's refusal leaves the link as it was.
    let refused = link.query("SELEC 1", LONG).await.unwrap_err();
    assert!(matches!(refused, LinkError::Rejected { errno: 1064, state: [b'4', b'2', ..], .. }), "{refused}");
    link.query("SELECT 1", LONG).await.unwrap();

    // Several results: the first with columns is kept, and the last one's end is waited for.
    link.query("CREATE PROCEDURE shop.p() BEGIN SELECT 1 AS a; SELECT 2 AS b, 3 AS c; END", LONG)
        .await
        .unwrap();
    let rows = link.query("CALL shop.p()", LONG).await.unwrap();
    assert_eq!((rows.columns.as_slice(), rows.text(0, 0), rows.len()), (&["a".to_owned()][..], Some("1"), 1));
    link.query("SELECT 1", LONG).await.unwrap();

    // A value longer than one packet: 16 MiB is the most there is.
    let mut large = Link::connect(&address(&server), &app(), LONG).await.unwrap();
    let rows = large.query("SELECT REPEAT('x', 16777216 - 100)", LONG).await;
    println!("a value of 16 MiB less 100: {:?}", rows.as_ref().map(link::Rows::len));

    // Too much, or too late: the rest of the answer is still to come, so nothing else is asked on this link.
    for (sql, deadline) in [
        ("SELECT seq FROM seq_1_to_10001", LONG),
        ("SELECT REPEAT('x', 1000000) FROM seq_1_to_20", LONG),
        ("SELECT SLEEP(60)", Duration::from_millis(50)),
    ] {
        let mut link = Link::connect(
            &address(&server),
            &link::Login { database: Some(b"shop".to_vec()), ..app() },
            LONG,
        )
        .await
        .unwrap();
        let broken = link.query(sql, deadline).await.unwrap_err();
        assert!(matches!(broken, LinkError::Protocol(_) | LinkError::TimedOut { .. }), "{sql}: {broken}");
        let after = link.query("SELECT 1", LONG).await.unwrap_err();
        assert!(matches!(&after, LinkError::Protocol(why) if why.contains("given up")), "{after}");
    }
}

#[tokio::test]
async fn a_ping_is_answered_or_ends_the_use_of_the_link() {
    let server = Server::start(&[]);
    let mut link = link_to(&server).await;
    link.ping(LONG).await.unwrap();
    assert_eq!(link.query("SELECT 1", LONG).await.unwrap().text(0, 0), Some("1"));
    server.signal(signal::STOP);
    let late = link.ping(Duration::from_millis(100)).await.unwrap_err();
    server.signal(signal::CONT);
    assert!(matches!(late, LinkError::TimedOut { .. }), "{late}");
    let after = link.ping(LONG).await.unwrap_err();
    assert!(matches!(&after, LinkError::Protocol(why) if why.contains("given up")), "{after}");
}

#[tokio::test]
async fn who_asks_again_does_so_on_a_new_link() {
    let server = Server::start(&[]);
    let mut other = link_to(&server).await;
    let mut asker = link::Asker::new(address(&server), app(), LONG);
    let id = async |asker: &mut link::Asker| {
        let rows = asker.ask("SELECT CONNECTION_ID()", LONG).await.unwrap();
        rows.text(0, 0).unwrap().to_owned()
    };
    let first = id(&mut asker).await;
    // The server's refusal leaves the link as it was.
    let refused = asker.ask("SELEC 1", LONG).await.unwrap_err();
    assert!(matches!(refused, LinkError::Rejected { errno: 1064, .. }), "{refused}");
    assert_eq!(id(&mut asker).await, first);

    // The server has ended it while nothing was asked.
    other.query(&format!("KILL {first}"), LONG).await.unwrap();
    let second = id(&mut asker).await;
    assert_ne!(second, first);

    // The rest of an answer that was given up is still to come.
    let late = asker.ask("SELECT SLEEP(60)", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(late, LinkError::TimedOut { .. }), "{late}");
    let third = id(&mut asker).await;
    assert_ne!(third, second);
    assert_eq!(asker.opened().unwrap().greeting.connection_id.to_string(), third);
    asker.close();
    assert!(asker.opened().is_none(), "a link is opened by a question only");
    assert_ne!(id(&mut asker).await, third);
}

#[tokio::test]
async fn a_reset_does_not_take_back_what_has_arrived() {
    let server = Server::start(&[]);
    let mut watcher = link_to(&server).await;
    watcher.query("CREATE TABLE shop.t (a INT PRIMARY KEY)", LONG).await.unwrap();
    let mut link = link_to(&server).await;
    server.signal(signal::STOP);
    let late = link.query("INSERT INTO shop.t VALUES (1)", Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(late, LinkError::TimedOut { .. }), "{late}");
    link.reset();
    server.signal(signal::CONT);
    let rows = async {
        loop {
            let rows = watcher.query("SELECT COUNT(*) FROM shop.t", LONG).await.unwrap();
            if rows.text(0, 0) == Some("1") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, rows).await.expect("the statement that had arrived was run after all");
}

/// A server that lets anybody in, says `unasked` at once, and gives what it then reads, or its error.
async fn lets_in(listener: TcpListener, unasked: &'static [u8]) -> std::io::Result<usize> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let greeting = protocol::handshake::Greeting {
        version: "x".into(),
        connection_id: 1,
        salt: [1; 20],
        caps: link::Login::PLAIN,
        charset: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    };
    let mut out = Vec::new();
    protocol::packet::put_packet(&mut out, &mut 0, &greeting.encode());
    stream.write_all(&out).await.unwrap();
    assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    stream.write_all(&[7, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]).await.unwrap();
    if !unasked.is_empty() {
        stream.write_all(unasked).await.unwrap();
    }
    stream.read(&mut [0; 16]).await
}

#[tokio::test]
async fn a_reset_is_told_apart_from_a_close() {
    let mut peer = ScriptedNode::start(|_| vec![]).await;
    let login = async || Link::connect(&peer.address().to_string(), &app(), LONG).await.unwrap();
    let (reset, closed) = (login().await, login().await);
    reset.reset();
    drop(closed);
    let mut ends = vec![];
    while ends.len() < 2 {
        if let Event::Ended { link, by_reset } = peer.event().await {
            ends.push((link, by_reset));
        }
    }
    ends.sort_unstable();
    assert_eq!(ends, [(1, true), (2, false)]);
}

/// Whatever an idle link says is its end, and can still be read; nothing is asked on it any more.
#[tokio::test]
async fn what_comes_unasked_is_the_end() {
    const GOODBYE: &[u8] = b"\x1c\0\0\0\xff\x87\x07#70100Connection was kill";
    for (said, wanted) in [
        (GOODBYE, Ended::Goodbye { errno: 1927, message: "Connection was kill".into() }),
        (&GOODBYE[..9], Ended::Unasked),
        (b"\x07\0\0\0\0\0\0\x02\0\0\0", Ended::Unasked),
        (b"x", Ended::Unasked),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = tokio::spawn(lets_in(listener, said));
        let mut link = Link::connect(&address, &app(), LONG).await.unwrap();
        // Given up and begun again, and asked again: always the same.
        for _ in 0..3 {
            let _ = timeout(Duration::from_millis(1), link.ended()).await;
        }
        for _ in 0..2 {
            assert_eq!(timeout(LONG, link.ended()).await.expect("it has come"), wanted);
            assert_eq!(link.buffer.bytes(), said);
        }
        assert_eq!(link.query("SELECT 1", LONG).await, Err(LinkError::Closed));
        drop(link);
        assert_eq!(peer.await.unwrap().unwrap(), 0, "nothing was asked");
    }
}

/// Over the network and over the unix socket alike.
async fn links(server: &Server) -> [Link; 2] {
    let unix = link::Endpoint::Unix(server.socket());
    let unix = Link::connect_to(&unix, &app(), LONG).await.expect("a login through the socket");
    [link_to(server).await, unix]
}

async fn locks(watcher: &mut Link) -> Option<String> {
    let rows = watcher.query("SELECT IS_USED_LOCK('x')", LONG).await.unwrap();
    rows.text(0, 0).map(str::to_owned)
}

/// A server watches its client in SLEEP and GET_LOCK: closed in one direction, the link ends there, long before its time.
#[tokio::test]
async fn a_server_sees_a_link_that_is_half_closed() {
    let server = Server::start(&[]);
    let mut watcher = link_to(&server).await;
    for mut link in links(&server).await {
        assert_eq!(link.query("SELECT GET_LOCK('x', 0)", LONG).await.unwrap().text(0, 0), Some("1"));
        assert!(locks(&mut watcher).await.is_some());
        let slow = link.query("SELECT SLEEP(600)", Duration::from_millis(100)).await.unwrap_err();
        assert!(matches!(slow, LinkError::TimedOut { .. }), "{slow}");
        link.half_close().await.unwrap();
        let rest = async { while link.fill().await.is_ok_and(|n| n > 0) {} };
        timeout(LONG, rest).await.expect("the server ends the link");
        timeout(LONG, link.stream.until_hung_up()).await.expect("and that is seen");
        let free = async {
            while locks(&mut watcher).await.is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, free).await.expect("its lock is free");
    }
}

#[tokio::test]
async fn a_link_is_cut_from_elsewhere() {
    let server = Server::start(&[]);
    for mut link in links(&server).await {
        let cutter = link.stream.cutter().unwrap();
        let id = link.greeting.connection_id;
        let running = tokio::spawn(async move {
            let answer = link.query("SELECT SLEEP(600)", LONG).await;
            (answer, link)
        });
        until_at_it(&server, id).await;
        cutter.cut();
        let (answer, mut link) = timeout(LONG, running).await.expect("whoever waits is woken").unwrap();
        assert!(matches!(answer, Err(LinkError::Closed | LinkError::Reset)), "{answer:?}");
        assert!(matches!(link.ended().await, Ended::Closed | Ended::Reset));
        assert!(link.stream.has_hung_up());
    }
    for mut link in links(&server).await {
        let cutter = link.stream.cutter().unwrap();
        let idle = tokio::spawn(async move { link.ended().await });
        cutter.cut();
        assert_eq!(timeout(LONG, idle).await.expect("whoever waits is woken").unwrap(), Ended::Closed);
    }
}

/// A goodbye in words is no aborted client.
#[tokio::test]
async fn a_link_that_quits_is_not_counted_as_aborted() {
    let server = Server::start(&[]);
    let mut watcher = link_to(&server).await;
    for (link, quits) in
        links(&server).await.into_iter().zip([true, true]).chain([(link_to(&server).await, false)])
    {
        let id = link.greeting.connection_id;
        let before = aborted(&mut watcher).await;
        if quits {
            link.quit();
        }
        drop(link);
        let asked = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
        let gone = async {
            while watcher.query(&asked, LONG).await.unwrap().text(0, 0) != Some("0") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, gone).await.expect("the server ends the connection");
        assert_eq!(aborted(&mut watcher).await - before, u64::from(!quits));
    }
}

async fn aborted(watcher: &mut Link) -> u64 {
    let rows = watcher.query("SHOW GLOBAL STATUS LIKE 'Aborted_clients'", LONG).await.unwrap();
    rows.text(0, 1).unwrap().parse().unwrap()
}
