//! The proxy in front of real servers, with routes given by the test: what a client sees must be what it would see without it.

use std::io::Write as _;
use std::time::Duration;

use fixture::Server;
use harness::{Bench, SECOND, cli, one, routes, settings};
use link::{Link, LinkError, Login, Secret};
use protocol::capability::Caps;
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::routes::LaneState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_sees_what_it_would_see_without_the_proxy() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let mut client = bench.client().await;
    assert_eq!(one(&mut client, "SELECT 1 + 1").await, "2");
    assert_eq!(one(&mut client, "SELECT DATABASE()").await, "shop");
    client.query("CREATE TABLE t (id INT PRIMARY KEY, x LONGTEXT)", SECOND * 5).await.unwrap();
    let done = client.query("INSERT INTO t VALUES (1, 'a'), (2, 'b')", SECOND * 5).await.unwrap();
    assert_eq!(done.affected, 2);
    let error = client.query("SELECT nothing FROM nowhere", SECOND).await.unwrap_err();
    assert!(matches!(error, LinkError::Rejected { errno: 1146, .. }), "{error}");
    let duplicate = client.query("INSERT INTO t VALUES (1, 'a')", SECOND).await.unwrap_err();
    assert!(matches!(duplicate, LinkError::Rejected { errno: 1062, .. }), "{duplicate}");
    // Large results are streamed, large statements too.
    server.sql("SET GLOBAL max_allowed_packet=1073741824");
    let (ok, text) =
        cli(&bench, &[], "SELECT LENGTH(REPEAT('x', 20000000)); SELECT seq FROM seq_1_to_100000;");
    assert!(ok && text.starts_with("20000000\n1\n") && text.ends_with("\n100000\n"), "{} bytes", text.len());
    for size in [16 * 1024 * 1024 - 40, 16 * 1024 * 1024, 40 * 1024 * 1024] {
        let big = format!(
            "REPLACE INTO t VALUES (3, '{}'); SELECT LENGTH(x), MD5(x) FROM t WHERE id = 3;",
            "y".repeat(size)
        );
        let (ok, text) = cli(&bench, &["--max-allowed-packet=1G"], &big);
        assert!(ok && text.contains(&size.to_string()), "{size}: {}", &text[..text.len().min(300)]);
        let (ok, text) = cli(&bench, &["--max-allowed-packet=1G"], "SELECT x FROM t WHERE id = 3");
        assert!(ok && text.trim_end().len() == size, "{size}: got {} bytes", text.len());
    }
    // Several results, and an error in the middle of them.
    let (ok, text) = cli(
        &bench,
        &["--force"],
        "DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END//\nCALL p()//\nSELECT 5//",
    );
    assert!(ok && text == "1\n2\n5\n", "{text}");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"7\tseven\n8\teight\n").unwrap();
    let (ok, text) = cli(
        &bench,
        &["--local-infile=1"],
        &format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE t; SELECT COUNT(*) FROM t WHERE id IN (7, 8);",
            file.path().display()
        ),
    );
    assert!(ok && text.ends_with("2\n"), "{text}");
    assert!(bench.proxy.stats().await.hold.lawful);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_logins_hear_the_servers_own_words() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let login = |user: &str, password: &str, database: &[u8]| Login {
        tls: None,
        user: user.into(),
        secret: Secret::Password(password.into()),
        database: Some(database.to_vec()),
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH,
        user_sent: None,
        charset: 45,
        attrs: vec![],
        max_packet: 1 << 24,
        compression: None,
        proxied: None,
    };
    for (login, errno) in [
        (login("app", "wrong", b"shop"), 1045),
        (login("app", "secret", b"nosuch"), 1049),
        (login("nobody", "secret", b"shop"), 1045),
    ] {
        match Link::connect(&bench.address(), &login, 10 * SECOND).await {
            Err(LinkError::Rejected { errno: found, .. }) => assert_eq!(found, errno),
            other => panic!("{errno} expected: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_waits_for_a_node_and_the_session_comes_along() {
    let (old, new) = (Server::start(&[]), Server::start(&[]));
    let start = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
    let mut bench = Bench::new(settings(), start);
    let mut client = bench.client().await;
    for sql in [
        "SET sql_mode='ANSI_QUOTES'",
        "SET @answer = 42, @name = 'it''s'",
        "SET time_zone = '+05:00'",
        "SET NAMES latin1",
        "CREATE DATABASE other",
        "USE other",
    ] {
        client.query(sql, SECOND).await.unwrap();
    }
    new.sql("CREATE DATABASE other");
    // The old writer drains, the statement waits; the new one opens, the statement runs there.
    bench.follow(routes(2, &[(&old, LaneState::Draining, 1), (&new, LaneState::Shut, 1)])).await;
    let quiet = loop {
        if let ProxyFact::Quiesced { node, epoch, .. } = bench.facts.recv().await.unwrap() {
            break (node, epoch);
        }
    };
    assert_eq!(quiet, (NodeId(0), 1));
    let asked = tokio::spawn(async move {
        let seen = one(
            &mut client,
            "SELECT CONCAT_WS('|', @@port, @@sql_mode, @answer, @name, @@time_zone, @@character_set_client, DATABASE())",
        )
        .await;
        (client, seen)
    });
    while bench.proxy.stats().await.hold.waiting == 0 {
        tokio::task::yield_now().await;
    }
    bench.follow(routes(3, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    let (mut client, seen) = asked.await.unwrap();
    assert_eq!(seen, format!("{}|ANSI_QUOTES|42|it's|+05:00|latin1|other", new.address().port()));
    // A temporary table cannot come along: the session ends with a clear word.
    client.query("CREATE TEMPORARY TABLE tt (a INT)", SECOND).await.unwrap();
    bench.shows(|stats| stats.sessions_pinned, 1).await;
    bench.follow(routes(4, &[(&old, LaneState::Open, 3), (&new, LaneState::Shut, 2)])).await;
    match client.query("SELECT 1", 5 * SECOND).await {
        Err(LinkError::Rejected { errno: 9104, message, .. }) => {
            assert!(message.contains("temporary table"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let stats = bench.proxy.stats().await;
    assert!(stats.hold.lawful && stats.hold.held == 1 && stats.hold.resumed == 1, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_whose_node_dies_is_told_to_start_again() {
    let (mut old, new) = (Server::start(&[]), Server::start(&[]));
    let start = routes(1, &[(&old, LaneState::Open, 1), (&new, LaneState::Shut, 1)]);
    let mut bench = Bench::new(settings(), start);
    for server in [&old, &new] {
        server.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    }
    let (mut open, mut idle, mut sleeping) =
        (bench.client().await, bench.client().await, bench.client().await);
    open.query("BEGIN", SECOND).await.unwrap();
    open.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap();
    assert_eq!(one(&mut idle, "SELECT 1").await, "1");
    // A read in flight: it runs again elsewhere. (SLEEP is no harmless function: this one must be told.)
    let reading = tokio::spawn(async move {
        sleeping.query("UPDATE t SET id = 3 WHERE id = SLEEP(30) + 1", 20 * SECOND).await
    });
    let runs = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE t%'";
    old.until(runs, |count| count == "1");
    old.signal(9);
    old.wait_gone();
    let mut lost = bench.facts.recv().await.unwrap();
    if let ProxyFact::StatementLost { text, .. } = &lost {
        assert!(text.to_lowercase().starts_with("update"), "{text}");
        lost = bench.facts.recv().await.unwrap();
    }
    assert!(matches!(lost, ProxyFact::TrafficLost { node: NodeId(0), .. }), "{lost:?}");
    bench.follow(routes(2, &[(&old, LaneState::Shut, 2), (&new, LaneState::Open, 1)])).await;
    match open.query("INSERT INTO t VALUES (2)", 5 * SECOND).await {
        Err(LinkError::Rejected { errno: 1213, state, .. }) => assert_eq!(&state, b"40001"),
        other => panic!("{other:?}"),
    }
    match reading.await.unwrap() {
        Err(LinkError::Rejected { errno: 9101, state, .. }) => assert_eq!(&state, b"08007"),
        other => panic!("{other:?}"),
    }
    open.query("BEGIN", SECOND).await.unwrap();
    open.query("INSERT INTO t VALUES (2)", SECOND).await.unwrap();
    open.query("COMMIT", SECOND).await.unwrap();
    assert_eq!(one(&mut idle, "SELECT GROUP_CONCAT(id) FROM t").await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hold_has_limits_and_names_them() {
    let server = Server::start(&[]);
    let mut tight = settings();
    tight.hold_time = Duration::from_millis(300);
    tight.hold_statements_max = 1;
    let bench = Bench::new(tight, routes(1, &[(&server, LaneState::Shut, 1)]));
    let (mut first, mut second) = (bench.client().await, bench.client().await);
    let evicted = tokio::spawn(async move { first.query("SELECT 1", 5 * SECOND).await });
    while bench.proxy.stats().await.hold.waiting == 0 {
        tokio::task::yield_now().await;
    }
    match second.query("SELECT 2", 5 * SECOND).await {
        Err(LinkError::Rejected { errno: 9102, message, .. }) => {
            assert!(message.contains("the test says so"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    match evicted.await.unwrap() {
        Err(LinkError::Rejected { errno: 9103, .. }) => {}
        other => panic!("{other:?}"),
    }
    let hold = bench.proxy.stats().await.hold;
    assert_eq!((hold.held, hold.evicted, hold.expired, hold.waiting, hold.lawful), (2, 1, 1, 0, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_query_by_the_proxys_own_number() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let (mut victim, mut other) = (bench.client().await, bench.client().await);
    let id = victim.greeting.connection_id;
    let asked = tokio::spawn(async move {
        let first = victim.query("SELECT SLEEP(30)", 20 * SECOND).await;
        (first, victim.query("SELECT 7", SECOND).await)
    });
    let runs = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
    server.until(runs, |count| count == "1");
    other.query(&format!("KILL QUERY {id}"), 5 * SECOND).await.unwrap();
    let (first, then) = asked.await.unwrap();
    assert!(!matches!(first, Err(LinkError::TimedOut { .. })), "{first:?}");
    assert_eq!(then.unwrap().text(0, 0), Some("7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_lane_is_said_to_be_quiet_of_each_routes() {
    let server = Server::start(&[]);
    let mut bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let mut client = bench.client().await;
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
    // Doubt drains the lane, and a switchover then begins with the lane still draining: it must hear of the quiet too.
    for of in 2..5 {
        bench.follow(routes(of, &[(&server, LaneState::Draining, 1)])).await;
        match bench.facts.recv().await.unwrap() {
            ProxyFact::Quiesced { node: NodeId(0), epoch: 1, version, .. } => assert_eq!(version, of),
            other => panic!("{other:?}"),
        }
    }
    assert!(bench.facts.try_recv().is_err(), "said once of each");
    // A transaction that still runs keeps it from being quiet, whatever routes come.
    bench.follow(routes(5, &[(&server, LaneState::Open, 1)])).await;
    client.query("BEGIN", SECOND).await.unwrap();
    bench.follow(routes(6, &[(&server, LaneState::Draining, 1)])).await;
    bench.follow(routes(7, &[(&server, LaneState::Draining, 1)])).await;
    assert!(bench.facts.try_recv().is_err(), "not quiet yet");
    client.query("COMMIT", SECOND).await.unwrap();
    match bench.facts.recv().await.unwrap() {
        ProxyFact::Quiesced { version, .. } => assert_eq!(version, 7),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_statements_after_a_hold_do_not_keep_others_waiting() {
    let server = Server::start(&[]);
    let ramp = settings().release_at_once;
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Shut, 1)]));
    let mut slow = vec![];
    for nth in 0..ramp {
        let mut client = bench.client().await;
        slow.push(tokio::spawn(async move { client.query("SELECT SLEEP(6)", 20 * SECOND).await }));
        while bench.proxy.stats().await.hold.waiting != nth as u64 + 1 {
            tokio::task::yield_now().await;
        }
    }
    let mut quick = bench.client().await;
    let quick = tokio::spawn(async move { one(&mut quick, "SELECT 1").await });
    while bench.proxy.stats().await.hold.waiting != ramp as u64 + 1 {
        tokio::task::yield_now().await;
    }
    bench.follow(routes(2, &[(&server, LaneState::Open, 2)])).await;
    assert_eq!(quick.await.unwrap(), "1");
    assert!(slow.iter().all(|slow| !slow.is_finished()), "it waited for the slow ones to end");
    for slow in slow {
        slow.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_no_longer_follows_its_routes_says_so() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let mut client = bench.client().await;
    assert_eq!(one(&mut client, "SELECT 1").await, "1");
    let broken = bench.proxy.broken();
    let mut early = Box::pin(bench.proxy.broken());
    assert!(tokio::time::timeout(SECOND / 10, &mut early).await.is_err(), "it follows them still");
    // Nobody is left who could give routes: the task ends.
    drop(bench.routes);
    tokio::time::timeout(5 * SECOND, broken).await.expect("its end is told");
}
