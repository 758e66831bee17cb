//! Results of procedures and compound statements in which a cursor of the server's own is open: told as without the proxy, on a node
//! that is not blamed, in a session that goes on and can move.

use fixture::client::{Client, ClientOptions, Cursor, Part, Reply};
use harness::cluster::Cluster;
use harness::twin::none_of;
use protocol::capability::Caps;
use topology::fact::ProxyFact;

const ROUTINES: &str = "\
    USE shop; CREATE TABLE t (x INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3); CREATE TABLE u (x INT);
    DELIMITER //
    CREATE PROCEDURE selects() BEGIN DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT 1; CLOSE c; END//
    CREATE PROCEDURE leaves_open() BEGIN DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT 1; SELECT 2, 3; END//
    CREATE PROCEDURE handles() BEGIN DECLARE v INT; DECLARE c CURSOR FOR SELECT x FROM t;
        DECLARE CONTINUE HANDLER FOR NOT FOUND SELECT 'the end'; OPEN c; FETCH c INTO v; FETCH c INTO v; FETCH c INTO v; FETCH c INTO v;
        SELECT v; CLOSE c; END//
    CREATE PROCEDURE loops() BEGIN FOR rec IN (SELECT x FROM t) DO SELECT rec.x, rec.x * 2; END FOR; END//
    CREATE PROCEDURE writes() BEGIN FOR rec IN (SELECT x FROM t) DO INSERT INTO u VALUES (rec.x); SELECT ROW_COUNT(); END FOR; END//
    CREATE PROCEDURE calls() BEGIN DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; CALL selects(); SELECT 4; CLOSE c; END//
    CREATE PROCEDURE fails() BEGIN DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT 1; SELECT * FROM nosuch; END//
    CREATE PROCEDURE gives_out(OUT o INT) BEGIN DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT 1; SET o = 7; CLOSE c; END//
    CREATE PROCEDURE many() BEGIN FOR rec IN (SELECT x FROM t) DO SELECT REPEAT('x', 70000) FROM t; END FOR; END//
    CREATE PROCEDURE none() BEGIN DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT x FROM t WHERE x > 9; CLOSE c; END//
    DELIMITER ;";

const FORMS: &[&str] = &[
    "CALL selects()",
    "CALL leaves_open()",
    "CALL handles()",
    "CALL loops()",
    "CALL writes()",
    "CALL calls()",
    "CALL fails()",
    "CALL gives_out(@o)",
    "CALL many()",
    "CALL none()",
    "FOR rec IN (SELECT x FROM t) DO SELECT rec.x; END FOR",
    "BEGIN NOT ATOMIC FOR rec IN (SELECT x FROM t) DO SELECT rec.x; END FOR; END",
    "BEGIN NOT ATOMIC DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT 5; END",
    "SELECT 1; CALL selects(); SELECT 2",
];

fn forms_of_answers() -> [ClientOptions; 2] {
    let old = ClientOptions { patience: harness::SECOND * 5, ..ClientOptions::default() };
    let new = ClientOptions { caps: old.caps | Caps::DEPRECATE_EOF, ..old.clone() };
    [old, new]
}

async fn prepared(client: &mut Client, sql: &str, cursor: Cursor) -> Reply {
    match client.prepare(sql).await {
        Ok(statement) => client.execute_with(&statement, &[], cursor, true).await,
        Err(part) => Reply { parts: vec![part] },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_beside_an_open_cursor_is_told_as_without_the_proxy() {
    let mut cluster = Cluster::start(2);
    cluster.everywhere(ROUTINES);
    let mut wrong = vec![];
    for options in forms_of_answers() {
        for sql in FORMS {
            let is_new = options.caps.has(Caps::DEPRECATE_EOF);
            // In the older form nobody can tell the procedure's cursor from the client's own, without a proxy neither.
            for how in
                ["as text", "prepared", "prepared, with a cursor"].iter().take(if is_new { 3 } else { 2 })
            {
                let mut direct = Client::connect_as(cluster.here().address(), &options).await.unwrap();
                let mut client = cluster.client_as(&options).await;
                let mut replies = vec![];
                for client in [&mut direct, &mut client] {
                    replies.push(match *how {
                        "as text" => client.query(sql).await,
                        "prepared" => prepared(client, sql, Cursor::None).await,
                        _ => prepared(client, sql, Cursor::ReadOnly).await,
                    });
                }
                let case = format!("{sql}, {how}, {:?}", options.caps & Caps::DEPRECATE_EOF);
                if let Some(difference) = replies[1].difference(&replies[0]) {
                    wrong.push(format!("{case}: {difference}"));
                    continue;
                }
                if client.query("SELECT 'on'").await.value().as_deref() != Some("on") {
                    wrong.push(format!("{case}: the session does not go on"));
                }
            }
        }
    }
    while let Ok(fact) = cluster.facts.try_recv() {
        if !matches!(fact, ProxyFact::Quiesced { .. } | ProxyFact::TablesChanged) {
            wrong.push(format!("the node is blamed: {fact:?}"));
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_called_a_cursor_can_be_handed_over() {
    let mut cluster = Cluster::start(2);
    cluster.everywhere(ROUTINES);
    let mut client = cluster.client().await;
    client.query("CALL selects()").await;
    cluster.bench.shows(|stats| stats.lanes[0].running, 0).await;
    cluster.drain().await;
    assert!(cluster.quiet(harness::SECOND * 3).await, "an answer that was misread keeps the lane busy");
    cluster.open_next().await;
    assert_eq!(client.one("SELECT @@port").await, cluster.here().address().port().to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_the_client_asked_for_is_its_own() {
    let cluster = Cluster::start(1);
    cluster.everywhere(ROUTINES);
    for options in forms_of_answers() {
        let mut client = cluster.client_as(&options).await;
        let statement = client.prepare("SELECT x FROM t ORDER BY x").await.unwrap();
        let opened = client.execute_with(&statement, &[], Cursor::ReadOnly, true).await;
        let [Part::Rows { columns, rows, .. }] = &opened.parts[..] else { panic!("{opened:?}") };
        assert!(rows.is_empty(), "{rows:?}");
        let few = client.fetch(&statement, columns, 2).await;
        assert_eq!(few.rows().iter().map(|row| row[0].text()).collect::<Vec<_>>(), ["1", "2"]);
        cluster.bench.shows(|stats| stats.sessions_pinned, 1).await;
        let rest = client.fetch(&statement, columns, 2).await;
        assert_eq!(rest.rows().iter().map(|row| row[0].text()).collect::<Vec<_>>(), ["3"]);
        cluster.bench.shows(|stats| stats.sessions_pinned, 0).await;
        client.leave(false);
        cluster.bench.shows(|stats| stats.clients, 0).await;
    }
}
