//! A client that goes away while its statement runs: the statement, the session and its locks go from the node as they would without
//! a proxy, or sooner; and what would be written without a proxy is written.

use std::time::{Duration, Instant};

use fixture::Server;
use fixture::client::Client;
use fixture::wait::{until_async, within_async};
use harness::SECOND;
use harness::cluster::Cluster;
use harness::twin::none_of;
use protocol::command::Command;

/// What the proxy can end, it ends within one second; the rest is this machine's.
const SOON: Duration = Duration::from_millis(1500);
/// A server looks for its client every 5 s in a wait of its own.
const BY_ITSELF: Duration = Duration::from_secs(7);

const TABLES: &str = "USE shop; CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0), (2, 0);
    CREATE TABLE u (x INT); CREATE TABLE big (x INT);
    DELIMITER //
    CREATE PROCEDURE slowly() BEGIN INSERT INTO u VALUES (1); DO SLEEP(1); INSERT INTO u VALUES (2); END//
    CREATE PROCEDURE cautiously() BEGIN START TRANSACTION; INSERT INTO u VALUES (1); DO SLEEP(1); COMMIT; END//
    DELIMITER ;";

/// Connections of clients on the server: by their schema, since within a routine they go by the name of who made it.
fn connections(server: &Server) -> u32 {
    let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'shop'";
    server.sql(count).parse().unwrap()
}

/// Waits until a condition holds; how long that took, or `None` when it did not come.
async fn when(within: Duration, holds: impl AsyncFnMut() -> bool) -> Option<Duration> {
    let began = Instant::now();
    within_async(within, holds).await.ok().map(|()| began.elapsed())
}

/// Says `sql` and returns when the node is at it.
async fn begins(client: &mut Client, server: &Server, sql: &str) {
    let payload = [&[Command::QUERY.0], sql.as_bytes()].concat();
    client.send(0, &payload).await.unwrap();
    is_at(server, sql).await;
}

/// Returns when a client's statement runs on the node, where no other does.
async fn is_at(server: &Server, sql: &str) {
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'shop' AND command IN ('Query', 'Execute')";
    until_async(&format!("it runs: {sql}"), async || server.sql(running) != "0").await;
}

/// What the client had done before, and what it is at when it goes.
struct Case {
    before: &'static [&'static str],
    at: &'static str,
}

/// How soon a statement must be gone from the node. In SLEEP and GET_LOCK a server looks for its client by itself, now and then; it
/// never does in the middle of a long read.
fn limit(case: &Case) -> Duration {
    let waits_by_itself = case.before.iter().all(|sql| sql.contains("GET_LOCK"))
        && (case.at.contains("SLEEP") || case.at.contains("GET_LOCK"));
    if waits_by_itself { BY_ITSELF } else { SOON }
}

/// What cannot have changed anything, or not yet.
const ENDED: &[Case] = &[
    Case { before: &[], at: "SELECT SLEEP(30)" },
    Case { before: &[], at: "DO SLEEP(30)" },
    Case { before: &["SELECT GET_LOCK('mine', 0)"], at: "SELECT SLEEP(30)" },
    Case { before: &[], at: "SELECT GET_LOCK('theirs', 30)" },
    Case { before: &[], at: "SELECT SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b" },
    Case {
        before: &["SELECT GET_LOCK('mine', 0)"],
        at: "SELECT SUM(a.seq + b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b",
    },
    Case { before: &["BEGIN", "UPDATE t SET x = 9 WHERE id = 2"], at: "SELECT SLEEP(30)" },
    Case {
        before: &["BEGIN", "UPDATE t SET x = 9 WHERE id = 2"],
        at: "SELECT SUM(a.seq + b.seq * 2) FROM seq_1_to_1000000 a, seq_1_to_1000000 b",
    },
    Case { before: &["BEGIN", "UPDATE t SET x = 9 WHERE id = 2"], at: "UPDATE t SET x = 9 WHERE id = 1" },
    Case {
        before: &["SET autocommit = 0", "UPDATE t SET x = 9 WHERE id = 2"],
        at: "DELETE FROM t WHERE id = 1",
    },
    Case { before: &[], at: "SELECT * FROM t WHERE id = 1 FOR UPDATE" },
    Case {
        before: &["START TRANSACTION READ ONLY"],
        at: "SELECT SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b",
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_have_committed_ends_with_its_client() {
    let cluster = Cluster::start(1);
    let server = cluster.here();
    cluster.everywhere(TABLES);
    // Somebody else, who has what some of them wait for.
    let mut other = Client::connect(server.address()).await;
    for sql in ["SELECT GET_LOCK('theirs', 0)", "BEGIN", "UPDATE t SET x = 1 WHERE id = 1"] {
        other.run(sql).await;
    }
    let others = connections(server);
    let mut wrong = vec![];
    for case in ENDED {
        for with_reset in [false, true] {
            let mut client = cluster.client().await;
            for sql in case.before {
                client.run(sql).await;
            }
            begins(&mut client, server, case.at).await;
            client.leave(with_reset);
            let told = format!(
                "{}; {}, {}",
                case.before.join("; "),
                case.at,
                if with_reset { "reset" } else { "closed" }
            );
            let idle = async || {
                let stats = cluster.bench.proxy.stats().await;
                (stats.clients, stats.lanes[0].running, stats.lanes[0].sessions) == (0, 0, 0)
            };
            if when(SOON, idle).await.is_none() {
                let lanes = cluster.bench.proxy.stats().await.lanes;
                wrong.push(format!("{told}: still counted after {SOON:?}: {lanes:?}"));
            }
            if when(limit(case), async || connections(server) == others).await.is_none() {
                wrong.push(format!("{told}: still on the node {:?} later", limit(case)));
            }
            if server.sql("SELECT IS_FREE_LOCK('mine')") != "1" {
                wrong.push(format!("{told}: its lock is still held"));
            }
            // The row that it had changed is as it was, and free.
            let row = server.sql("SELECT x FROM shop.t WHERE id = 2 FOR UPDATE SKIP LOCKED");
            if row != "0" {
                wrong.push(format!("{told}: its row is {row:?} (none: locked)"));
            }
            if connections(server) != others {
                // Not left to the next case.
                server.sql("KILL USER app");
                other = Client::connect(server.address()).await;
                for sql in ["SELECT GET_LOCK('theirs', 0)", "BEGIN", "UPDATE t SET x = 1 WHERE id = 1"] {
                    other.run(sql).await;
                }
                when(SECOND * 5, async || connections(server) == others).await;
            }
        }
    }
    drop(other);
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_ends_with_its_client() {
    let cluster = Cluster::start(1);
    let server = cluster.here();
    let mut wrong = vec![];
    for sql in
        ["SELECT SLEEP(?)", "SELECT SUM(a.seq * b.seq) + ? FROM seq_1_to_1000000 a, seq_1_to_1000000 b"]
    {
        let mut client = cluster.client().await;
        let statement = client.prepare(sql).await.unwrap();
        let mut payload = vec![Command::STMT_EXECUTE.0];
        payload.extend_from_slice(&statement.id.to_le_bytes());
        payload.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 8, 0]);
        payload.extend_from_slice(&30i64.to_le_bytes());
        client.send(0, &payload).await.unwrap();
        is_at(server, sql).await;
        client.leave(false);
        if when(SOON, async || connections(server) == 0).await.is_none() {
            wrong.push(format!("{sql}: still on the node after {SOON:?}"));
            server.sql("KILL USER app");
        }
    }
    none_of(&wrong);
}

/// What may commit, by itself: done, as without the proxy. In turn: what it waits for (`HELD`: a row that somebody else has), the
/// statement, and what is looked at in the end.
const DONE: &[(bool, &str, &str)] = &[
    (true, "UPDATE t SET x = x + 10 WHERE id = 1", "SELECT x FROM shop.t WHERE id = 1"),
    (true, "INSERT INTO u SELECT id FROM t WHERE id = 1 FOR UPDATE", "SELECT COUNT(*) FROM shop.u"),
    (
        true,
        "ALTER TABLE t ADD COLUMN y INT",
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_name = 't'",
    ),
    (false, "INSERT INTO big SELECT seq FROM seq_1_to_400000", "SELECT COUNT(*) FROM shop.big"),
    (false, "CREATE TABLE made AS SELECT seq FROM seq_1_to_400000", "SELECT COUNT(*) FROM shop.made"),
    (false, "CALL slowly()", "SELECT COUNT(*) FROM shop.u"),
    (false, "CALL cautiously()", "SELECT COUNT(*) FROM shop.u"),
    (false, "INSERT INTO u VALUES (SLEEP(1))", "SELECT COUNT(*) FROM shop.u"),
    (false, "INSERT INTO u VALUES (7); DO SLEEP(1); INSERT INTO u VALUES (8)", "SELECT COUNT(*) FROM shop.u"),
    (
        false,
        "BEGIN NOT ATOMIC INSERT INTO u VALUES (7); DO SLEEP(1); INSERT INTO u VALUES (8); END",
        "SELECT COUNT(*) FROM shop.u",
    ),
];

/// Runs it under a client that goes away; what is seen when its connection has ended.
async fn left(
    server: &Server,
    mut client: Client,
    is_held: bool,
    at: &str,
    look: &str,
    with_reset: bool,
) -> String {
    let mut other = Client::connect(server.address()).await;
    if is_held {
        for sql in ["BEGIN", "UPDATE t SET x = x + 1 WHERE id = 1"] {
            other.run(sql).await;
        }
    }
    let payload = [&[Command::QUERY.0], at.as_bytes()].concat();
    client.send(0, &payload).await.unwrap();
    is_at(server, at).await;
    client.leave(with_reset);
    // It must have been noticed by whoever notices it, and must not have mattered.
    tokio::time::sleep(SECOND / 2).await;
    other.run("COMMIT").await;
    other.leave(false);
    if when(BY_ITSELF * 3, async || connections(server) == 0).await.is_none() {
        server.sql("KILL USER app");
        return "never ended".into();
    }
    server.sql(look)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_commit_is_done_as_without_the_proxy() {
    let cluster = Cluster::start(1);
    let server = cluster.here();
    let mut wrong = vec![];
    for (nth, (is_held, at, look)) in DONE.iter().enumerate() {
        let mut seen = vec![];
        for through_proxy in [false, true] {
            server.sql(&format!("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; {TABLES}"));
            let client =
                if through_proxy { cluster.client().await } else { Client::connect(server.address()).await };
            seen.push(left(server, client, *is_held, at, look, nth % 2 == 0).await);
        }
        if seen[0] != seen[1] {
            wrong.push(format!("{at}: {} without the proxy, {} with it", seen[0], seen[1]));
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_whose_clients_are_gone_becomes_quiet() {
    let mut cluster = Cluster::start(2);
    let mut clients = vec![];
    for sql in ["SELECT SLEEP(30)", "SELECT SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b"] {
        let mut client = cluster.client().await;
        begins(&mut client, cluster.here(), sql).await;
        clients.push(client);
    }
    cluster.drain().await;
    assert!(!cluster.quiet(SECOND / 2).await, "statements run");
    for client in clients {
        client.leave(true);
    }
    assert!(cluster.quiet(SOON).await, "nobody is there any more");
}
