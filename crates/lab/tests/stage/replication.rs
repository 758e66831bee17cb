//! A replication stage on real servers: a primary, two replicas, semi-synchronous.
//!
//! As root in network namespaces; without the right to create those, the same on loopback addresses.

use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::replication::{REPLICATION_PASSWORD, REPLICATION_USER};
use lab::stage::{ClusterKind, Form, ReplicationWord, Stage, StagePlan, Word, account};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::ALONE;
use crate::clients::{application, client};
use crate::leftovers::{directory, network, nothing_left};

/// Time limit for everything the servers decide by themselves.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan(purpose: &str, semi_sync: bool) -> StagePlan {
    let name = format!("t{}-{purpose}", std::process::id());
    StagePlan { name, kind: ClusterKind::Replication { semi_sync }, ..StagePlan::default() }
}

async fn monitor(stage: &Stage, node: &str) -> Conn {
    client(stage, node, account::MONITOR_USER, account::MONITOR_PASSWORD).await
}

async fn write(stage: &Stage, node: &str, sql: &str) -> mysql_async::Result<()> {
    let mut connection = application(stage, node).await;
    let done =
        tokio::time::timeout(PATIENCE, connection.query_drop(sql)).await.expect("the write takes too long");
    connection.disconnect().await.unwrap();
    done
}

/// The rows on a replica once it has applied everything that `primary` has now.
async fn read(stage: &Stage, replica: &str, primary: &str) -> Vec<Vec<String>> {
    let position = stage.run_in(primary, "SELECT @@gtid_binlog_pos").await.unwrap()[0][0].clone();
    let waited = stage.run_in(replica, &format!("SELECT MASTER_GTID_WAIT('{position}', 20)")).await.unwrap();
    assert_eq!(waited, [["0"]], "{replica} has not reached {position}");
    stage.run_in(replica, "SELECT value FROM sbtest.word ORDER BY value").await.unwrap()
}

async fn word(stage: &Stage, node: &str) -> Option<ReplicationWord> {
    let report = stage.report().await.unwrap().into_iter().find(|report| report.name == node).unwrap();
    match report.word {
        Some(Word::Replication(word)) => Some(word),
        Some(Word::Galera(word)) => panic!("{node} says it is of Galera: {word}"),
        None => None,
    }
}

/// Waits until the server's status is as required.
async fn becomes(stage: &Stage, node: &str, wanted: &str, fits: impl Fn(&ReplicationWord) -> bool) {
    until_async(&format!("{node} is {wanted}"), async || {
        let word = word(stage, node).await;
        if word.as_ref().is_some_and(&fits) { Ok(()) } else { Err(word) }
    })
    .await;
}

fn follow(stage: &Stage, source: &str) -> String {
    let address = stage.node(source).unwrap().address;
    format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{REPLICATION_USER}', \
         MASTER_PASSWORD = '{REPLICATION_PASSWORD}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        address.ip(),
        address.port()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_and_two_replicas_are_broken_mended_and_cleared_away() {
    let _alone = ALONE.lock().await;
    let begin = Instant::now();
    let stage = Stage::up(plan("repl", true)).await.unwrap();
    println!("a primary and two replicas up after {:.1} s", begin.elapsed().as_secs_f64());
    let (directory, network) = (directory(&stage), network(&stage));

    write(&stage, "db1", "CREATE TABLE sbtest.word (value INT PRIMARY KEY)").await.unwrap();
    write(&stage, "db1", "INSERT INTO sbtest.word VALUES (1)").await.unwrap();
    for replica in ["db2", "db3"] {
        assert_eq!(read(&stage, replica, "db1").await, [["1"]], "{replica}");
        let refused = write(&stage, replica, "INSERT INTO sbtest.word VALUES (9)").await.unwrap_err();
        assert!(refused.to_string().contains("--read-only"), "{refused}");
    }
    let primary = word(&stage, "db1").await.unwrap();
    assert!(primary.is_primary(), "{primary}");
    assert_eq!(primary.position, "0-1-2", "the accounts are in nobody's binlog");
    let semi_sync = primary.semi_sync.unwrap();
    assert!(semi_sync.waits && semi_sync.replicas == 2, "{semi_sync:?}");

    // Through a second `Stage` value, as `lab fault` does it.
    let other = Stage::attach(stage.name()).unwrap();
    assert_eq!(other.kind(), ClusterKind::Replication { semi_sync: true });
    other.fault("db1", Fault::Kill).await.unwrap();
    stage.wait_gone("db1", PATIENCE).await.unwrap();
    let dead = stage.report().await.unwrap().remove(0);
    assert_eq!((dead.pid, dead.word.is_none(), dead.state().as_str()), (None, true, "not running"));
    becomes(&stage, "db2", "without its primary", |word| !word.is_replicating()).await;

    stage.fault("db1", Fault::Heal).await.unwrap();
    drop(other);
    let back = word(&stage, "db1").await.unwrap();
    assert!(back.read_only && back.source.is_none(), "{back}");
    // The server may have removed the last commit from its binlog, although that was acknowledged.
    assert!(["0-1-1", "0-1-2"].contains(&back.position.as_str()), "{back}");
    let refused = write(&stage, "db1", "INSERT INTO sbtest.word VALUES (2)").await.unwrap_err();
    assert!(refused.to_string().contains("--read-only"), "{refused}");
    let well = stage.report().await.unwrap().remove(0).word.is_some_and(|word| word.is_well());
    assert!(!well, "a server that does nothing is not as it should be");

    // So a replica, which has all transactions, becomes the primary.
    for sql in [
        "STOP SLAVE",
        "RESET SLAVE ALL",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
        "SET GLOBAL read_only = OFF",
    ] {
        stage.run_in("db2", sql).await.unwrap();
    }
    stage.run_in("db1", "SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos").await.unwrap();
    for replica in ["db1", "db3"] {
        stage.run_in(replica, "STOP SLAVE").await.unwrap();
        stage.run_in(replica, &follow(&stage, "db2")).await.unwrap();
        stage.run_in(replica, "START SLAVE").await.unwrap();
        becomes(&stage, replica, "a replica of db2", ReplicationWord::is_replicating).await;
        assert_eq!(read(&stage, replica, "db2").await, [["1"]], "{replica}");
    }
    becomes(&stage, "db2", "acknowledged to by both", |word| {
        word.semi_sync.as_ref().is_some_and(|semi_sync| semi_sync.replicas == 2)
    })
    .await;
    write(&stage, "db2", "INSERT INTO sbtest.word VALUES (2)").await.unwrap();

    // A replica that was killed, stopped, frozen or lost replicates again, and has what it missed.
    let mut values = vec![vec!["1".to_owned()], vec!["2".to_owned()]];
    let faults = [Fault::Kill, Fault::Stop, Fault::Freeze, Fault::Vanish];
    for (fault, value) in
        faults.into_iter().filter(|fault| *fault != Fault::Vanish || stage.is_namespaced()).zip(3..)
    {
        stage.fault("db3", fault).await.unwrap();
        write(&stage, "db2", &format!("INSERT INTO sbtest.word VALUES ({value})")).await.unwrap();
        values.push(vec![value.to_string()]);
        let healed = Instant::now();
        stage.fault("db3", Fault::Heal).await.unwrap();
        println!("db3 back from {fault} after {:.1} s", healed.elapsed().as_secs_f64());
        let found = stage.run_in("db3", "SELECT value FROM sbtest.word ORDER BY value").await.unwrap();
        assert_eq!(found, values, "after {fault}");
    }
    assert!(stage.report().await.unwrap().iter().all(|node| node.word.as_ref().is_some_and(Word::is_well)));

    stage.down().await.unwrap();
    nothing_left(&directory, &network);
}

/// Runs the statements of a switchover and a manager's queries with the stage's grants: none of them needs SUPER.
#[tokio::test(flavor = "multi_thread")]
async fn the_monitor_account_may_do_all_that_a_switchover_needs() {
    let _alone = ALONE.lock().await;
    let stage =
        Stage::up(StagePlan { form: Form::Loopback, nodes: 2, ..plan("grants", true) }).await.unwrap();
    let directory = directory(&stage);
    write(&stage, "db1", "CREATE TABLE sbtest.word (value INT PRIMARY KEY)").await.unwrap();
    let mut idle = application(&stage, "db1").await;
    let session = idle.id();
    let (mut old, mut new) = (monitor(&stage, "db1").await, monitor(&stage, "db2").await);
    let grants: Vec<String> = old.query("SHOW GRANTS").await.unwrap();
    assert!(
        !grants.iter().any(|grant| grant.contains("SUPER") || grant.contains("ALL PRIVILEGES ON *.*")),
        "{grants:?}"
    );

    for sql in [
        "SHOW SLAVE HOSTS",
        "SHOW MASTER STATUS",
        "SHOW BINARY LOGS",
        "SHOW PROCESSLIST",
        "SELECT * FROM information_schema.innodb_trx",
        "SET GLOBAL read_only = ON",
        &format!("KILL CONNECTION {session}"),
        "FLUSH TABLES WITH READ LOCK",
        "UNLOCK TABLES",
        "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
    ] {
        old.query_drop(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert!(idle.query_drop("SELECT 1").await.is_err(), "its session was cut");

    let position: String = old.query_first("SELECT @@gtid_binlog_pos").await.unwrap().unwrap();
    let reached: Option<i64> =
        new.query_first(format!("SELECT MASTER_GTID_WAIT('{position}', 20)")).await.unwrap();
    assert_eq!(reached, Some(0));
    for sql in [
        "SHOW ALL SLAVES STATUS",
        "STOP ALL SLAVES",
        "RESET SLAVE ALL",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
        "SET GLOBAL rpl_semi_sync_master_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_slave_enabled = ON",
        "SET GLOBAL gtid_strict_mode = ON",
        "SET GLOBAL read_only = OFF",
        "SET SESSION sql_log_bin = 0",
        "SET SESSION sql_log_bin = 1",
        "SET SESSION gtid_domain_id = 7",
        "SET SESSION gtid_domain_id = 0",
    ] {
        new.query_drop(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for sql in
        [follow(&stage, "db2"), format!("SET GLOBAL gtid_slave_pos = '{position}'"), "START SLAVE".to_owned()]
    {
        old.query_drop(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let heartbeat = "CREATE TABLE understudy.heartbeat (id INT PRIMARY KEY, at TIMESTAMP(6))";
    tokio::time::timeout(PATIENCE, new.query_drop(heartbeat)).await.expect("acknowledged").unwrap();
    write(&stage, "db2", "INSERT INTO sbtest.word VALUES (1)").await.unwrap();
    assert_eq!(read(&stage, "db1", "db2").await, [["1"]], "the roles have changed");
    let (one, other) = (word(&stage, "db1").await.unwrap(), word(&stage, "db2").await.unwrap());
    assert!(one.is_replicating() && other.is_primary(), "{one}; {other}");
    for connection in [old, new] {
        connection.disconnect().await.unwrap();
    }
    stage.down().await.unwrap();
    nothing_left(&directory, &[]);
}
