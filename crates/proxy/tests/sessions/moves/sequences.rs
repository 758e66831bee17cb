//! The last value of a sequence, after a move: that of one drawn from since, or error 9110.

use harness::cluster::Cluster;
use harness::twin::{FORGOTTEN, MOVES};

/// What is said after both sequences were drawn from before the move, and whether each is answered (else: 9110).
const SAID: &[(&str, bool)] = &[
    ("SELECT LASTVAL(s)", false),
    ("DO NEXTVAL(s)", true),
    ("SELECT LASTVAL(s)", true),
    ("SELECT PREVIOUS VALUE FOR shop.s", true),
    ("SELECT LASTVAL(r)", false),
    ("SELECT LASTVAL(s), LASTVAL(r)", false),
    ("SELECT IF(0, NEXTVAL(r), 1)", true),
    ("SELECT NEXTVAL(r) FROM nothing", true),
    ("SELECT LASTVAL(r)", false),
    ("USE other", true),
    ("SELECT LASTVAL(s)", false),
    ("SELECT LASTVAL(shop.s)", true),
    ("INSERT INTO shop.nothing VALUES (NEXTVAL(shop.r))", true),
    ("SELECT LASTVAL(shop.r), LASTVAL(shop.s)", true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_was_drawn_since_is_told() {
    let mut cluster = Cluster::start(2);
    cluster.everywhere(
        "CREATE DATABASE other; CREATE SEQUENCE other.s; USE shop; CREATE TABLE nothing (x INT); CREATE SEQUENCE s; CREATE SEQUENCE r",
    );
    for how in MOVES {
        cluster.everywhere("DELETE FROM shop.nothing");
        let mut client = cluster.client().await;
        client.run("DO NEXTVAL(s), NEXTVAL(r), NEXTVAL(other.s)").await;
        client.run("SELECT LASTVAL(s), LASTVAL(r), LASTVAL(other.s)").await;
        cluster.move_on(how).await;
        for (sql, is_told) in SAID {
            let expected = if *is_told { None } else { Some(FORGOTTEN) };
            let reply = client.query(sql).await;
            assert_eq!(reply.error(), expected, "{how:?}, {sql}: {reply:?}");
            assert_ne!(reply.value().as_deref(), Some("NULL"), "{how:?}, {sql}");
        }
    }
}
