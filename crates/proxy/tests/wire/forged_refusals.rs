//! A statement that makes its server say what a node says that refuses (1047, 1290, 1836, ...): it runs once, and its client hears the
//! server. Only when the manager's own look agrees is a statement sent again, and never one that is known to have run.

use std::time::{Duration, Instant};

use fixture::client::Reply;
use fixture::scripted::{Act, ScriptedNode};
use fixture::{Server, answers};
use harness::fact_answerer::Kept;
use harness::twin::none_of;
use harness::{SECOND, settings};

/// What nodes say that refuse, go down, or are full: each with the words that go with it.
const WORDS: &[(u16, &str)] = &[
    (1047, "WSREP has not yet prepared node for application use"),
    (1047, "WSREP off"),
    (1290, "The MariaDB server is running with the --read-only option so it cannot execute this statement"),
    (1836, "Running in read-only mode"),
    (1053, "Server shutdown in progress"),
    (1077, "Normal shutdown"),
    (1079, "Shutdown complete"),
    (1080, "Forcing close of thread"),
    (1152, "Aborted connection"),
    (1927, "Connection was killed"),
    (3169, "Session was killed"),
    (1040, "Too many connections"),
    (1129, "Host is blocked"),
    (3032, "offline mode"),
    (3100, "Error on observer while running replication hook"),
    (1213, "Deadlock found when trying to get lock; try restarting transaction"),
    (1205, "Lock wait timeout exceeded"),
];

/// Within this the client must have its answer: the manager's look takes a round trip.
const SOON: Duration = Duration::from_secs(4);

fn lay(server: &Server, code: u16, words: &str) {
    let signal = format!("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = '{words}'");
    server.sql(&format!(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop;
         CREATE TABLE audit (x INT) ENGINE = Aria; CREATE TABLE t (x INT); INSERT INTO t VALUES (1), (2);
         CREATE TABLE plain (x INT);
         DELIMITER //
         CREATE TRIGGER slander BEFORE INSERT ON t FOR EACH ROW BEGIN INSERT INTO audit VALUES (1); {signal}; END//
         CREATE FUNCTION slanders() RETURNS INT BEGIN INSERT INTO audit VALUES (1); {signal}; RETURN 1; END//
         CREATE FUNCTION tells() RETURNS INT READS SQL DATA BEGIN {signal}; RETURN 1; END//
         CREATE PROCEDURE slander_too() BEGIN INSERT INTO audit VALUES (1); {signal}; END//
         DELIMITER ;"
    ));
}

/// A statement; whether it writes one audit row.
const SAID: &[(&[&str], &str, bool)] = &[
    (&[], "INSERT INTO t VALUES (5)", true),
    (&[], "SELECT slanders()", true),
    (&[], "CALL slander_too()", true),
    (&[], "SELECT tells()", false),
    (&["BEGIN", "INSERT INTO plain VALUES (1)"], "INSERT INTO t VALUES (5)", true),
    (&["BEGIN", "INSERT INTO plain VALUES (1)"], "SELECT tells()", false),
    (&["SET autocommit = 0"], "INSERT INTO t VALUES (5)", true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_about_the_node_that_the_client_made_it_say_runs_once_and_is_told() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let kept = Kept::start(settings(), &servers.each_ref().map(Server::address), false);
    let mut wrong = vec![];
    for &(code, words) in WORDS {
        for server in &servers {
            lay(server, code, words);
        }
        for &(before, sql, audits) in SAID {
            servers[0].sql("DELETE FROM shop.audit");
            let mut client = kept.client().await;
            for sql in before {
                client.run(sql).await;
            }
            let began = Instant::now();
            let reply = client.query(sql).await;
            let case = format!("{code} {words}: {}; {sql}", before.join("; "));
            if reply.error() != Some(code) || reply.message() != words {
                wrong.push(format!("{case}: {reply:?}"));
            }
            if began.elapsed() > SOON {
                wrong.push(format!("{case}: told after {:?}", began.elapsed()));
            }
            let rows: u32 = servers[0].sql("SELECT COUNT(*) FROM shop.audit").parse().unwrap();
            if rows != u32::from(audits) {
                wrong.push(format!("{case}: {rows} audit rows"));
            }
            // What a node may also say that refuses a statement for a while is no end: the transaction is where the server has left it.
            if matches!(code, 1047 | 1290 | 1836 | 1213 | 1205) && before.first() == Some(&"BEGIN") {
                let counted = client.query("SELECT COUNT(*) FROM plain").await;
                if counted.value().as_deref() != Some("1") {
                    wrong.push(format!("{case}: the transaction is lost: {counted:?}"));
                }
            }
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_slander_do_not_hold_those_that_do_not() {
    let server = Server::start(&[]);
    lay(&server, 1047, "WSREP off");
    let kept = Kept::start(settings(), &[server.address()], false);
    let mut slanderers = vec![];
    for _ in 0..4 {
        let mut client = kept.client().await;
        slanderers.push(tokio::spawn(async move {
            for _ in 0..10 {
                assert_eq!(client.query("SELECT tells()").await.error(), Some(1047));
            }
        }));
    }
    let mut honest = kept.client().await;
    let (mut worst, mut asked) = (Duration::ZERO, 0);
    while !slanderers.iter().all(tokio::task::JoinHandle::is_finished) || asked < 10 {
        let began = Instant::now();
        assert_eq!(honest.one("SELECT 1").await, "1");
        worst = worst.max(began.elapsed());
        asked += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for slanderer in slanderers {
        slanderer.await.unwrap();
    }
    println!("{asked} honest statements, the slowest took {worst:?}");
    assert!(worst < SECOND, "an honest statement took {worst:?}");
}

/// A node that refuses until it is asked how it is by the manager, and says that it is not well, either.
async fn refusing(code: u16, words: &'static str) -> ScriptedNode {
    ScriptedNode::start(move |heard| match heard.text() {
        Some(_) => vec![Act::Say(answers::error(code, "HY000", words))],
        None => vec![Act::Say(answers::ok())],
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_refuses_that_the_manager_gives_up_goes_to_the_next() {
    let mut wrong = vec![];
    for (code, words) in
        [(1047, "WSREP has not yet prepared node for application use"), (1836, "Running in read-only mode")]
    {
        for sql in ["SELECT 5", "INSERT INTO t VALUES (5)"] {
            let mut node = refusing(code, words).await;
            let server = Server::start(&[]);
            server.sql("CREATE TABLE shop.t (x INT)");
            let kept = Kept::start(settings(), &[node.address(), server.address()], false);
            let mut client = kept.client().await;
            let reply: Reply = client.query(sql).await;
            if reply.error().is_some() || reply.is_lost() {
                wrong.push(format!("{code}: {sql}: {reply:?}"));
            }
            let times = node.texts().iter().filter(|text| *text == sql).count();
            if times != 1 {
                wrong.push(format!("{code}: {sql}: {times} times on the node that refused"));
            }
            let rows = server.sql("SELECT COUNT(*) FROM shop.t");
            if sql.starts_with("INSERT") && rows != "1" {
                wrong.push(format!("{code}: {sql}: {rows} rows"));
            }
        }
    }
    none_of(&wrong);
}
