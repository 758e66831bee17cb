//! What is told before anything is changed, on real servers: the table of `understudy switchover --check`, and clusters that are not what
//! their kind says.
//!
//! ```text
//!   a healthy stage: the table ─> what spoils it, one thing after another ─> an order that the table refuses, and the same with force
//!   each remedy of the table, followed to the letter: while the primary lives, and when it is gone
//!   the same for replicas that are set up in another way: several sources, filters, no binlog; and for a ring at a first start
//!   the same servers, set up wrongly, in turn: `serve --check` and `status` say it in one sentence ─> every server is as it was
//! ```

mod misfit;
mod operator;
mod remedies;
mod setups;

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::{Serving, until};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::connect;

/// Between two looks at the table: information_schema.INNODB_TRX shows the same as long as it is read more often than every 0.1 s.
const PACE: Duration = Duration::from_millis(200);

/// Without heartbeats, which would change what the servers say of themselves each second.
const QUIET: &str = "failover_gap_ms = 0\n[cluster.heartbeat]\ninterval_ms = 0";

#[tokio::test(flavor = "multi_thread")]
async fn what_speaks_against_a_switchover_or_a_setup_is_told_and_nothing_is_changed() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::of("table", true).await;
    told("a primary and two replicas are up");
    let directory = scene.directory(QUIET);
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    healthy(&scene, &serving).await;
    told("a healthy cluster has a clean table");
    operator::rights(&scene, &serving).await;
    told("rights that the monitor lacks are in the table, and keep an order from being begun");
    operator::replica_login(&scene, &serving).await;
    told("an account that replicas cannot log in with is in the table, and keeps an order from being begun");
    running(&scene, &serving).await;
    told("what runs on the primary is in the table");
    locked(&scene, &serving).await;
    told("a global read lock is in the table");
    broken(&scene, &serving).await;
    told("a replica that does not apply is in the table");
    refused(&scene, &serving).await;
    told("an order that the table forbids was refused, and another one done");
    forced(&scene, &serving).await;
    told("an order that the table forbids was done with force");
    operator::without_waiting(&scene, &serving).await;
    told("an order that waits for nobody was done on an idle primary, and undone on a busy one");
    operator::another_manager(&scene, &serving);
    told("another Understudy was told of, by both, and nobody when it was gone");
    operator::gone(&scene, &serving).await;
    told("what a lost node said before was not told any more");
    remedies::lead_where_they_say(&scene, &serving).await;
    told(
        "each remedy was followed to the letter, while the primary lived and after its death, and nothing was lost",
    );
    drop(serving);
    misfit::each_is_told_and_nothing_is_changed(&scene, &told).await;
    scene.stage.down().await.unwrap();
    misfit::galera_nodes_are_told(&told).await;
}

/// The rows that are not ok: check, node and verdict, in one line each.
fn found(table: &Value) -> Vec<String> {
    let rows = table["rows"].as_array().unwrap().iter().filter(|row| row["verdict"] != "ok");
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.map(|row| format!("{} {} {}", text(row, "check"), text(row, "node"), text(row, "verdict"))).collect()
}

/// What a row of the table says.
fn sentence(table: &Value, check: &str) -> String {
    let rows = table["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["check"] == check).unwrap_or_else(|| panic!("{check}: {table:#}"));
    row["sentence"].as_str().unwrap().to_owned()
}

/// Waits until the table has that row among those that are not ok.
fn until_found(serving: &Serving, row: &str, code: i32) -> Value {
    until(row, || {
        std::thread::sleep(PACE);
        let ended = serving.ask(&["switchover", "--to", "db2", "--check", "--json", "-"]);
        Some(ended.json()).filter(|table| ended.code == code && found(table).iter().any(|found| found == row))
    })
}

/// Waits until every row is ok.
fn until_clean(serving: &Serving) -> Value {
    until("every row is ok", || {
        std::thread::sleep(PACE);
        let ended = serving.ask(&["switchover", "--to", "db2", "--check", "--json", "-"]);
        let table = ended.json();
        if ended.code == 0 && found(&table).is_empty() { Ok(table) } else { Err(table) }
    })
}

async fn healthy(scene: &Scene, serving: &Serving) {
    let before = misfit::state(scene, &["db1", "db2", "db3"]).await;
    let clean = until_clean(serving);
    for check in
        ["lag", "not_by_gtid", "version", "binlogs", "semi_sync", "connections", "transactions", "sessions"]
    {
        sentence(&clean, check);
    }
    let ended = serving.ask(&["switchover", "--check"]);
    let said = ended.with(0);
    assert!(said.contains("from db1 to db2: nothing speaks against it"), "{said}");
    println!("{said}          the whole command took {:?}", ended.took);
    serving.ask(&["switchover", "--check", "--to", "db9"]).with(1);
    assert_eq!(misfit::state(scene, &["db1", "db2", "db3"]).await, before);
}

/// A transaction that stays open, and a session that cannot move.
async fn running(scene: &Scene, serving: &Serving) {
    let mut beside = connect(scene.stage.node("db1").unwrap().address).await.unwrap();
    beside.query_drop("BEGIN; INSERT INTO w VALUES (999, 1)").await.unwrap();
    let table = until_found(serving, "transactions db1 slow", 0);
    let said = sentence(&table, "transactions");
    assert!(said.contains("(sbtest from ") && said.contains("open for"), "{said}");
    beside.query_drop("ROLLBACK").await.unwrap();

    let mut tied = connect(scene.through()).await.unwrap();
    tied.query_drop("CREATE TEMPORARY TABLE mine (id INT)").await.unwrap();
    let table = until_found(serving, "sessions db1 note", 0);
    let said = sentence(&table, "sessions");
    assert!(said.contains("1 session that cannot move") && said.contains("temporary table"), "{said}");
    tied.disconnect().await.unwrap();
    beside.disconnect().await.unwrap();
    until_clean(serving);
}

/// FLUSH TABLES WITH READ LOCK, and a statement that waits for its end.
async fn locked(scene: &Scene, serving: &Serving) {
    let address = scene.stage.node("db1").unwrap().address;
    let root = scene.stage.run_in("db1", "CREATE USER locker@'%'; GRANT RELOAD ON *.* TO locker@'%'");
    root.await.unwrap();
    let options =
        mysql_async::OptsBuilder::default().ip_or_hostname(address.ip().to_string()).user(Some("locker"));
    let mut locker = mysql_async::Conn::new(options.tcp_port(address.port())).await.unwrap();
    locker.query_drop("FLUSH TABLES WITH READ LOCK").await.unwrap();
    let waits = tokio::spawn(async move {
        let mut writer = connect(address).await.unwrap();
        writer.query_drop("INSERT INTO w VALUES (999, 2)").await
    });
    let table = until_found(serving, "locks db1 fails", 1);
    assert!(sentence(&table, "locks").contains("INSERT INTO w VALUES (999, 2)"), "{table:#}");
    let said = serving.ask(&["switchover", "--to", "db2"]).with(1);
    assert!(said.contains("refused (preflight): db1 holds up every write"), "{said}");
    locker.query_drop("UNLOCK TABLES").await.unwrap();
    waits.await.unwrap().unwrap();
    until_clean(serving);
}

async fn broken(scene: &Scene, serving: &Serving) {
    scene.break_applying("db1", &["db2"]).await;
    scene.stage.run_in("db2", "SET GLOBAL event_scheduler = OFF").await.unwrap();
    let table = until_found(serving, "not_applying db2 fails", 1);
    let said = serving.ask(&["switchover", "--check", "--to", "db2"]).with(1);
    assert!(said.contains("from db1 to db2: it would be refused: "), "{said}");
    assert!(sentence(&table, "not_applying").contains("Duplicate entry"), "{table:#}");
    scene.mend_applying(&["db2"]).await;
    until_clean(serving);
}

/// Nobody would acknowledge to db2: its first commit would wait for an hour.
async fn refused(scene: &Scene, serving: &Serving) {
    for node in ["db1", "db3"] {
        scene.stage.run_in(node, "SET GLOBAL rpl_semi_sync_slave_enabled = OFF").await.unwrap();
    }
    let before = misfit::state(scene, &["db1", "db2", "db3"]).await;
    let began = Instant::now();
    let said = serving.ask(&["switchover", "--to", "db2"]).with(1);
    println!("          {} after {:?}", said.trim(), began.elapsed());
    assert!(
        said.contains("refused (preflight): db2 would wait for acknowledgements that nobody gives"),
        "{said}"
    );
    assert_eq!(misfit::state(scene, &["db1", "db2", "db3"]).await, before);
    assert_eq!(writer(&serving.status()), "db1");
    for node in ["db1", "db3"] {
        scene.stage.run_in(node, "SET GLOBAL rpl_semi_sync_slave_enabled = ON").await.unwrap();
    }
    // What is only different afterwards does not keep an order from being carried out.
    scene.stage.run_in("db1", "SET GLOBAL event_scheduler = ON").await.unwrap();
    until_found(serving, "events db2 note", 0);
    let said = serving.ask(&["switchover", "--to", "db2", "--budget-ms", "20000"]);
    println!("          {} in {:?}", said.with(0).trim(), said.took);
    status_when(serving, "db2 is the primary", |status| is_well(status) && writer(status) == "db2");
    scene.stage.run_in("db1", "SET GLOBAL event_scheduler = OFF").await.unwrap();
}

/// db1 has too few connections for what db2 carries: refused, and done with force.
async fn forced(scene: &Scene, serving: &Serving) {
    scene.stage.run_in("db1", "SET GLOBAL max_connections = 10").await.unwrap();
    let mut beside = Vec::new();
    for _ in 0..10 {
        beside.push(connect(scene.stage.node("db2").unwrap().address).await.unwrap());
    }
    let refused =
        |said: &str| said.contains("refused (preflight): db1 takes 10 connections, and the writer carries ");
    until("the order is refused", || {
        let ended = serving.ask(&["switchover", "--to", "db1", "--check"]);
        (ended.code == 1).then_some(())
    });
    let said = serving.ask(&["switchover", "--to", "db1"]).with(1);
    assert!(refused(&said), "{said}");
    assert_eq!(writer(&serving.status()), "db2");
    serving.ask(&["switchover", "--to", "db1", "--force"]).with(0);
    status_when(serving, "db1 is the primary again", |status| is_well(status) && writer(status) == "db1");
    scene.stage.run_in("db1", "SET GLOBAL max_connections = 151").await.unwrap();
}
