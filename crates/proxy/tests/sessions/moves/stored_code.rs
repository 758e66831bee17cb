//! What stored code does to a session, and a move of that session: never a silently wrong answer, whether the client reads EOF packets (which
//! tell nothing of the session) or OK packets in their place.

use fixture::client::{Client, ClientOptions};
use harness::cluster::Move;
use harness::twin::{Comparison, Ground, MOVES, none_of};
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::status;
use protocol::packet::Head;
use protocol::response::{Answer, Step};
use tokio::io::AsyncReadExt;

fn lay_schemas(ground: &Ground) {
    ground.everywhere(
        "USE shop; CREATE TABLE shadow (x INT); CREATE TABLE plain (x INT); INSERT INTO plain VALUES (1), (2);
         DELIMITER //
         CREATE FUNCTION sets() RETURNS INT BEGIN SET @a = 'set'; RETURN 1; END//
         CREATE FUNCTION zones() RETURNS INT BEGIN SET time_zone = '+09:00'; RETURN 1; END//
         CREATE FUNCTION shadows() RETURNS INT BEGIN
             CREATE TEMPORARY TABLE IF NOT EXISTS shadow (x INT); INSERT INTO shadow VALUES (1); RETURN 1; END//
         CREATE FUNCTION twice() RETURNS INT BEGIN SET time_zone = '+09:00'; SET @a = 'set'; RETURN 1; END//
         CREATE PROCEDURE lists() BEGIN SET @a = 'set'; SELECT x FROM plain; SET time_zone = '+09:00'; SELECT 5; END//
         CREATE PROCEDURE quiet() BEGIN SET @@sort_buffer_size = 77824; END//
         CREATE PROCEDURE into_variable() BEGIN SELECT 5 INTO @a; END//
         CREATE FUNCTION still() RETURNS INT BEGIN SET @@sort_buffer_size = 77824; RETURN 1; END//
         CREATE PROCEDURE gives(OUT x INT) BEGIN SELECT x FROM plain; SET x = 7; END//
         DELIMITER ;
         CREATE VIEW seen AS SELECT sets() AS x; CREATE VIEW shadowing AS SELECT shadows() AS x;
         CREATE VIEW zoned AS SELECT zones() AS x",
    );
}

/// What no server reports: a planned move reads it back, a lost node takes it along (docs/in-front-of-an-application.md).
const QUIET: [&str; 5] = [
    "CALL quiet()",
    "CALL into_variable()",
    "SELECT still()",
    "BEGIN NOT ATOMIC SET @@sort_buffer_size = 77824; END",
    "EXECUTE IMMEDIATE 'SET @@sort_buffer_size = 77824'",
];

/// What was done, and what is asked then.
const DONE: &[(&[&str], &[&str])] = &[
    (&["SELECT sets()"], &["SELECT @a"]),
    (&["SELECT zones()"], &["SELECT @@time_zone, HOUR(FROM_UNIXTIME(0))"]),
    (&["SELECT shadows()"], &["SELECT COUNT(*) FROM shadow"]),
    (&["SELECT shadows()"], &["INSERT INTO shadow VALUES (99)", "SELECT COUNT(*) FROM shadow"]),
    (&["SELECT shadows() FROM plain"], &["SELECT COUNT(*) FROM shadow"]),
    (&["SELECT x FROM seen"], &["SELECT @a"]),
    (&["SELECT x FROM zoned"], &["SELECT @@time_zone"]),
    (&["SELECT x FROM shadowing"], &["SELECT COUNT(*) FROM shadow"]),
    (
        &["SELECT x FROM shadowing", "DO 0"],
        &["INSERT INTO shadow VALUES (99)", "SELECT COUNT(*) FROM shadow"],
    ),
    (&["SELECT x FROM seen; SELECT 1"], &["SELECT @a"]),
    (&["SELECT 1; SELECT x FROM seen"], &["SELECT @a"]),
    (&["CALL lists()"], &["SELECT @a, @@time_zone"]),
    (&["SHOW TABLES WHERE sets() = 1"], &["SELECT @a"]),
    (&["(SELECT x FROM seen) UNION SELECT 1"], &["SELECT @a"]),
    (&["SELECT twice()"], &["SELECT @a, @@time_zone"]),
    (&["SET @b = twice()"], &["SELECT @a, @b, @@time_zone"]),
    (&["SET @b = shadows()"], &["SELECT COUNT(*) FROM shadow"]),
    (&["SELECT shadows() INTO @b"], &["SELECT COUNT(*) FROM shadow"]),
    (&["SET time_zone = '+03:00', sql_notes = shadows()"], &["SELECT COUNT(*) FROM shadow"]),
    (&["CALL quiet()"], &["SELECT @@sort_buffer_size"]),
    (&["CALL into_variable()"], &["SELECT @a"]),
    (&["SELECT still()"], &["SELECT @@sort_buffer_size"]),
    (&["BEGIN NOT ATOMIC SET @@sort_buffer_size = 77824; END"], &["SELECT @@sort_buffer_size"]),
    (&["EXECUTE IMMEDIATE 'SET @@sort_buffer_size = 77824'"], &["SELECT @@sort_buffer_size"]),
    (&["EXECUTE IMMEDIATE 'SELECT GET_LOCK(''k1'', 0)'"], &["SELECT IS_USED_LOCK('k1') = CONNECTION_ID()"]),
    (&["BEGIN NOT ATOMIC DO GET_LOCK('k2', 0); END"], &["SELECT IS_USED_LOCK('k2') = CONNECTION_ID()"]),
    (&["EXECUTE IMMEDIATE 'HANDLER plain OPEN'"], &["HANDLER plain READ FIRST"]),
    (&["DO RELEASE_ALL_LOCKS(), shadows()"], &["SELECT COUNT(*) FROM shadow"]),
];

fn clients() -> [ClientOptions; 4] {
    let old = ClientOptions::default();
    let with = |caps: Caps| ClientOptions { caps: old.caps | caps, ..old.clone() };
    let both = Caps::DEPRECATE_EOF | Caps::SESSION_TRACK;
    [old.clone(), with(Caps::DEPRECATE_EOF), with(Caps::SESSION_TRACK), with(both)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stored_code_set_comes_along_or_ends_the_session() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for client in clients() {
        for how in MOVES {
            for prepared in [false, true] {
                for (done, asked) in DONE {
                    if prepared && done[0].contains(';') {
                        continue;
                    }
                    ground.begin(&["DELETE FROM shadow"]).await;
                    let mut twins = ground.twins_as(&client).await;
                    let case =
                        format!("{:?}, {how:?}, prepared {prepared}, {}", client.caps, done.join("; "));
                    for sql in *done {
                        let told = match prepared {
                            false => twins.say(sql).await,
                            // Some cannot be prepared.
                            true => match twins.prepare_each(sql).await {
                                Ok(statement) => twins.execute(statement, &[]).await,
                                Err(told) => told,
                            },
                        };
                        wrong.extend(told.unequal(&format!("before the move: {case}")));
                    }
                    ground.cluster.move_on(how).await;
                    for sql in *asked {
                        let hidden = how == Move::Shut && QUIET.contains(&done[0]);
                        match twins.say(sql).await {
                            Comparison::Differs(_) if hidden => {}
                            Comparison::Same(_) | Comparison::Forgotten => {}
                            Comparison::Ended(_) => break,
                            Comparison::Differs(found) => wrong.push(format!("{case}: {found}")),
                        }
                    }
                }
            }
        }
    }
    none_of(&wrong);
}

/// What leaves no session behind its node, though a table of that name could be a view.
const PLAIN: &[&str] = &[
    "SELECT x FROM plain",
    "SELECT COUNT(*), MAX(x) FROM plain",
    "SHOW TABLES",
    "SELECT x FROM plain; SELECT 5",
    "SELECT p.x FROM plain p JOIN plain q ON p.x = q.x",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_stored_code_took_is_known_where_the_server_can_tell() {
    let mut ground = Ground::lay_with(&["--plugin-load-add=metadata_lock_info"]);
    ground.everywhere(
        "USE shop; CREATE PROCEDURE locks() SELECT GET_LOCK('hidden', 0);
         CREATE PROCEDURE unlocks() SELECT RELEASE_LOCK('hidden')",
    );
    for (done, is_held) in [
        (&["CALL locks()"][..], true),
        (&["CALL locks()", "CALL unlocks()"], false),
        (&["SELECT GET_LOCK('hidden', 0)"], true),
        (&["SELECT GET_LOCK('hidden', 0)", "SELECT RELEASE_LOCK('hidden')"], false),
        (&["CALL locks()", "DO RELEASE_ALL_LOCKS()"], false),
    ] {
        ground.begin(&[]).await;
        let mut client = ground.cluster.client().await;
        for sql in done {
            client.run(sql).await;
        }
        ground.cluster.move_on(Move::HandedOver).await;
        let told = client.query("SELECT 1").await.error();
        assert_eq!(told, is_held.then_some(9104), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_reads_tie_nobody() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for client in clients() {
        for how in MOVES {
            ground.begin(&[]).await;
            let mut twins = ground.twins_as(&client).await;
            for sql in PLAIN {
                twins.set(sql).await;
                let statement = twins.prepare(sql.split(';').next().unwrap()).await;
                wrong.extend(twins.execute(statement, &[]).await.unequal(sql));
            }
            ground.cluster.move_on(how).await;
            for sql in PLAIN {
                wrong.extend(twins.say(sql).await.unequal(&format!("{:?}, {how:?}", client.caps)));
            }
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_form_of_answer_is_the_servers_own() {
    let ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for client in clients() {
        let mut twins = ground.twins_as(&client).await;
        for sql in [
            "SELECT 1",
            "SELECT x FROM plain WHERE 0",
            "SELECT seq, REPEAT('x', 1000) FROM seq_1_to_1000",
            "SELECT REPEAT('x', 20000000), REPEAT('y', 16777215)",
            "SELECT seq FROM seq_1_to_300; DO 0; SELECT 2; INSERT INTO plain VALUES (3); SELECT x FROM plain",
            "CALL lists()",
            "CALL gives(@o)",
            "SELECT CAST('x' AS INT) FROM plain",
            "SELECT x, (SELECT 1 UNION SELECT 2) FROM plain",
            "SELECT nosuch; SELECT 1",
            "SELECT 1; SELECT nosuch",
            "SHOW WARNINGS",
            "INSERT INTO plain VALUES (9) RETURNING x",
            "BEGIN",
            "SELECT x FROM plain",
            "ROLLBACK",
            "SET autocommit = 0",
            "SELECT x FROM plain",
            "COMMIT",
            "USE mysql; SELECT 1; USE shop",
            "SELECT sets(); SET @c = 1; SELECT twice(); SET time_zone = '+01:00'",
            "ANALYZE TABLE plain",
            "EXPLAIN SELECT 1",
        ] {
            let case = format!("{:?}", client.caps);
            wrong.extend(twins.say(sql).await.unequal(&case));
            if !sql.contains(';')
                && let Ok(statement) = twins.prepare_each(sql).await
            {
                wrong.extend(twins.execute(statement, &[]).await.unequal(&format!("{case}, {sql}")));
            }
        }
        let statement = twins.prepare("CALL gives(?)").await;
        wrong.extend(twins.execute(statement, &[5.into()]).await.unequal("OUT parameters"));
        let statement = twins.prepare("SELECT ?, x FROM plain WHERE x > ?").await;
        wrong.extend(twins.execute(statement, &[5.into(), 0.into()]).await.unequal("parameters"));
    }
    none_of(&wrong);
}

/// Every packet of an answer.
async fn packets(client: &mut Client, payload: &[u8]) -> Vec<Vec<u8>> {
    client.send(0, payload).await.unwrap();
    let mut answer = Answer::new(Command(payload[0]), client.caps);
    let mut packets = vec![];
    loop {
        let mut header = [0; 4];
        client.stream.read_exact(&mut header).await.unwrap();
        let head = Head::peek(&header).unwrap();
        let mut payload = vec![0; head.len];
        client.stream.read_exact(&mut payload).await.unwrap();
        let step = answer.step(head.len, &payload).unwrap();
        if let [0xFE, _, _, low, high] = payload.as_mut_slice() {
            let kept = match step {
                // Of an EOF behind columns: what a client must know before the rows.
                Step::More => status::PS_OUT_PARAMS | status::MORE_RESULTS,
                // A server says "changed" to a client that cannot be told what.
                _ => !status::SESSION_STATE_CHANGED,
            };
            [*low, *high] = (u16::from_le_bytes([*low, *high]) & kept).to_le_bytes();
        }
        packets.push([&header, payload.as_slice()].concat());
        if let Step::End(_) = step {
            return packets;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_packet_to_an_old_client_is_the_servers_own() {
    let ground = Ground::lay();
    lay_schemas(&ground);
    let mut direct = Client::connect(ground.cluster.here().address()).await;
    let mut client = ground.cluster.client().await;
    for payload in [
        &b"\x03SELECT 1"[..],
        b"\x03SELECT x FROM plain",
        b"\x03SELECT 1; SELECT x FROM plain; DO 0",
        b"\x03CALL lists()",
        b"\x03SELECT x FROM plain WHERE x = (SELECT 1 UNION SELECT 2)",
        b"\x04plain\0",
        b"\x04nosuch\0",
        b"\x16SELECT ?, x FROM plain",
        b"\x16SELECT x FROM plain",
        b"\x16DO ?",
        b"\x16DO 0",
        b"\x16CALL gives(?)",
        // the one before: one parameter, NULL
        b"\x17\xff\xff\xff\xff\x00\x01\x00\x00\x00\x01\x01\x06\x00",
    ] {
        let (told, own) = (packets(&mut client, payload).await, packets(&mut direct, payload).await);
        assert_eq!(told, own, "{}", payload.escape_ascii());
    }
}
