//! Reads split off to a replica, on real servers: whatever a session is told through the proxy is what it would have been told by one server.
//!
//! ```text
//!   session ── proxy ── primary ──replication──> replica      the same, statement by statement, as
//!   twin ─────────────── a server of its own
//! ```
mod ended;
mod inherits;
mod late;
mod pair;
mod same;

use std::time::{Duration, Instant};

use fixture::client::{ClientOptions, Part};
use fixture::signal;
use fixture::wait::until_async;
use harness::SECOND;
use pair::{Pair, WAIT};

const TABLE: &str = "CREATE TABLE shop.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, x BIGINT)";

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_read_runs_on_the_replica_and_all_else_on_the_primary() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1), (2, 2)");
    pair.replicated();
    // What only the replica has shows who answers.
    pair.replica.sql("SET sql_log_bin = 0; UPDATE shop.t SET x = x + 100");
    let mut client = pair.client().await;
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1").await, "101");
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1 FOR UPDATE").await, "1");
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1 AND NOW() > 0").await, "1");
    client.run("BEGIN").await;
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1").await, "1");
    client.run("COMMIT").await;
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1").await, "101");
    client.run("SET autocommit = 0").await;
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1").await, "1");
    client.run("COMMIT").await;
    client.run("SET autocommit = 1").await;
    client.run("CREATE TEMPORARY TABLE t (x INT)").await;
    assert_eq!(client.one("SELECT COUNT(x) FROM t").await, "0");
    client.reset().await;
    assert_eq!(client.one("SELECT x FROM t WHERE id = 1").await, "101");
    let statement = client.prepare("SELECT x FROM t WHERE id = 1").await.unwrap();
    assert_eq!(client.execute(&statement, &[]).await.value().unwrap(), "1");
    let split = pair.split().await;
    println!("{split:?}");
    assert_eq!((split.replicas, split.primary_behind, split.primary_failed), (3, 0, 0), "{split:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_read_left_is_told_by_who_knows_it() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1), (2, 2), (3, 3)");
    pair.replicated();
    let apart = Pair::apart();
    apart.sql(TABLE);
    apart.sql("INSERT INTO shop.t VALUES (1, 1), (2, 2), (3, 3)");
    let mut twins = pair.twins(&apart, &ClientOptions::default()).await;
    for sql in [
        "SELECT 1",
        "SELECT CAST('x' AS INT) FROM t",
        "SHOW WARNINGS",
        "SELECT @@warning_count",
        "SELECT FOUND_ROWS()",
        "SELECT FOUND_ROWS(), ROW_COUNT()",
        "SELECT SQL_CALC_FOUND_ROWS x FROM t ORDER BY x LIMIT 1",
        "SELECT FOUND_ROWS()",
        "SELECT x FROM t ORDER BY x",
        "INSERT INTO t (x) VALUES (4)",
        "SELECT ROW_COUNT()",
        "SELECT LAST_INSERT_ID()",
        "SELECT x FROM t ORDER BY x LIMIT 2",
        "SELECT ROW_COUNT()",
        "SHOW COUNT(*) WARNINGS",
        "SELECT LAST_INSERT_ID(), @@identity",
        "SELECT nosuch FROM t",
        "SHOW WARNINGS",
        "SHOW ERRORS",
        "SELECT x FROM t ORDER BY x LIMIT 2",
        "SELECT x FROM nosuch",
        "SELECT @@error_count",
    ] {
        if let Some(wrong) = twins.say(sql).await.unequal(sql) {
            panic!("{wrong}");
        }
    }
    // What is on the replica cannot be had within a statement for the primary, nor behind one that may have changed it.
    for sql in [
        "INSERT INTO t (x) VALUES (FOUND_ROWS())",
        "SELECT FOUND_ROWS(), NOW()",
        "SELECT LAST_INSERT_ID(), FOUND_ROWS()",
    ] {
        twins.say("SELECT x FROM t ORDER BY x LIMIT 2").await;
        assert_eq!(twins.moved.query(sql).await.error(), Some(9110), "{sql}");
    }
    twins.say("SELECT x FROM t ORDER BY x LIMIT 2").await;
    twins.say("UPDATE t SET x = x + 1 WHERE id = 1").await;
    assert_eq!(twins.moved.query("SELECT FOUND_ROWS()").await.error(), Some(9110));
}

/// While the replica applies, and does not, in turns: each read has the session's own last write.
#[tokio::test(flavor = "multi_thread")]
async fn every_read_has_what_the_session_wrote() {
    const WRITERS: u64 = 4;
    const WAIT_MS: u64 = 150;
    let pair = Pair::lay(Duration::from_millis(WAIT_MS));
    pair.primary.sql(TABLE);
    pair.primary.sql(&format!("INSERT INTO shop.t SELECT seq, 0 FROM shop.seq_1_to_{WRITERS}"));
    pair.replicated();
    let until = Instant::now() + 6 * SECOND;
    let mut tasks = vec![];
    for writer in 1..=WRITERS {
        let mut client = pair.client().await;
        tasks.push(tokio::spawn(async move {
            let (mut number, mut longest) = (0u64, Duration::ZERO);
            while Instant::now() < until {
                number += 1;
                if number % 3 == 0 {
                    client.run("BEGIN").await;
                    client.run(&format!("UPDATE t SET x = {number} WHERE id = {writer}")).await;
                    client.run("COMMIT").await;
                } else {
                    client.run(&format!("UPDATE t SET x = {number} WHERE id = {writer}")).await;
                }
                let began = Instant::now();
                let read = client.one(&format!("SELECT x FROM t WHERE id = {writer}")).await;
                assert_eq!(read, number.to_string(), "writer {writer}");
                longest = longest.max(began.elapsed());
                // Others' rows never go back.
                client.one("SELECT SUM(x) FROM t").await;
            }
            (number, longest)
        }));
    }
    let replica = &pair.replica;
    while Instant::now() + SECOND < until {
        tokio::time::sleep(Duration::from_millis(700)).await;
        replica.sql("STOP SLAVE SQL_THREAD");
        tokio::time::sleep(Duration::from_millis(500)).await;
        replica.sql("START SLAVE SQL_THREAD");
    }
    for task in tasks {
        let (number, longest) = task.await.unwrap();
        println!("{number} writes, the longest read {longest:?}");
    }
    let split = pair.split().await;
    println!("{split:?}");
    assert!(split.replicas > 50 && split.primary_behind > 0, "{split:?}");
}

/// Nobody sees an error when the replica dies, or the primary's word is asked for when it does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_or_hangs_costs_no_answer() {
    let mut pair = Pair::lay(Duration::from_millis(300));
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1)");
    pair.replicated();
    let until = Instant::now() + 4 * SECOND;
    let mut tasks = vec![];
    for _ in 0..4 {
        let mut client = pair.client().await;
        tasks.push(tokio::spawn(async move {
            let mut reads = 0;
            while Instant::now() < until {
                assert_eq!(client.one("SELECT x FROM t WHERE id = 1").await, "1");
                reads += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            reads
        }));
    }
    tokio::time::sleep(SECOND).await;
    assert!(pair.split().await.replicas > 0);
    pair.replica.signal(signal::KILL);
    pair.replica.wait_gone();
    for task in tasks {
        assert!(task.await.unwrap() > 10);
    }
    let split = pair.split().await;
    println!("{split:?}");
    assert!(split.primary_failed > 0, "{split:?}");
}

/// A client that leaves while its read waits for the replica is gone at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_is_not_waited_for() {
    let pair = Pair::lay(60 * SECOND);
    pair.primary.sql(TABLE);
    pair.replicated();
    let mut client = pair.client().await;
    assert_eq!(client.one("SELECT COUNT(*) FROM t").await, "0");
    pair.replica.sql("STOP SLAVE SQL_THREAD");
    client.run("INSERT INTO t (x) VALUES (1)").await;
    let read = tokio::spawn(async move { client.query("SELECT COUNT(*) FROM t").await });
    pair.replica.until("SHOW FULL PROCESSLIST", |list| list.contains("MASTER_GTID_WAIT"));
    read.abort();
    pair.bench.shows(|stats| stats.clients, 0).await;
}

/// A session that comes to the replica as its primary has one link there, and not the one for its reads beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_becomes_the_primary_has_one_link_of_a_session() {
    const MINE: &str = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'";
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.replicated();
    let mut client = pair.client().await;
    assert_eq!(client.one("SELECT COUNT(*) FROM t").await, "0");
    assert_eq!(pair.split().await.replicas, 1);
    pair.bench.follow(pair.routes(2, 1)).await;
    // No read for a replica: what would look at the link there.
    until_async("it has one link", async || client.one(MINE).await == "1").await;
}

const LONG: &str = "SELECT COUNT(*) FROM t a JOIN t b JOIN t c WHERE a.x + b.x + c.x = -1";

/// A KILL of another client finds the read where it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_on_the_replica_can_be_killed() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t SELECT seq, seq FROM shop.seq_1_to_5000");
    pair.replicated();
    let mut other = pair.client().await;
    let by_greeting = [("QUERY", 1317, false), ("CONNECTION", 1927, false)];
    for (kill, wanted, by_node) in [by_greeting[0], by_greeting[1], ("QUERY", 1317, true)] {
        let mut client = pair.client().await;
        let on_primary = client.one("SELECT CONNECTION_ID()").await;
        let id = if by_node { on_primary } else { client.id().to_string() };
        let read = tokio::spawn(async move { client.query(LONG).await });
        pair.replica.until("SHOW FULL PROCESSLIST", |list| list.contains(LONG));
        other.run(&format!("KILL {kill} {id}")).await;
        let reply = read.await.unwrap();
        assert_eq!(reply.error(), Some(wanted), "{reply:?}");
        assert!(matches!(reply.parts.as_slice(), [Part::Error { .. }]));
        assert!(!pair.primary.sql("SHOW FULL PROCESSLIST").contains(LONG));
        // A killed connection is listed for a while, and the next read is looked for in the same list.
        pair.replica.until("SHOW FULL PROCESSLIST", |list| !list.contains(LONG));
    }
}
