//! What an operator is told where nothing is wrong with the servers: missing rights, a node that is gone, another Understudy beside this one, and
//! an order that waits for nobody.

use std::time::{Duration, Instant};

use lab::fault::Fault;
use lab::stage::account::MONITOR_USER;
use serde_json::Value;
use testbed::program::{LONG, Serving, until};
use testbed::scene::{Scene, is_well, journal, status_when, writer};

use super::{found, sentence, until_clean, until_found};

/// The monitor may not make servers read only: a row with the GRANT to run, and an order that is refused before anything is begun.
pub async fn rights(scene: &Scene, serving: &Serving) {
    let change = |how: &str, to: &str| format!("{how} READ_ONLY ADMIN ON *.* {to} '{MONITOR_USER}'@'%'");
    scene.stage.run_in("db1", &change("REVOKE", "FROM")).await.unwrap();
    let table = until_found(serving, "rights db2 fails", 1);
    assert!(sentence(&table, "rights").contains("READ_ONLY ADMIN (making a server read only, or writable)"));
    let said = serving.ask(&["switchover", "--to", "db2"]).with(1);
    let grant = format!("GRANT READ_ONLY ADMIN ON *.* TO `{MONITOR_USER}`@`%` on the primary");
    assert!(said.contains("refused (preflight): db1 does not grant") && said.contains(&grant), "{said}");
    assert_eq!(writer(&serving.status()), "db1");
    scene.stage.run_in("db1", &change("GRANT", "TO")).await.unwrap();
    until_clean(serving);
}

/// The account that replicas log in with has another password than the configuration, then is for other hosts than this one: the first is refused
/// before anything is begun, also where the writer is drained; the second is only told. Replicas that are connected stay so.
pub async fn replica_login(scene: &Scene, serving: &Serving) {
    let password = |of: &str| format!("ALTER USER 'replication'@'%' IDENTIFIED BY '{of}'");
    scene.stage.run_in("db1", &password("another")).await.unwrap();
    let table = until_found(serving, "replica_login db2 fails", 1);
    assert!(sentence(&table, "replica_login").contains("1045"), "{table:#}");
    for order in [&["switchover", "--to", "db2"][..], &["drain", "db1"]] {
        let said = serving.ask(order).with(1);
        assert!(
            said.contains("refused (preflight): db2 does not let in replication, which replicas log in with"),
            "{said}"
        );
    }
    assert_eq!(writer(&serving.status()), "db1");
    refused_and_stopped(scene, "db3").await;
    scene.stage.run_in("db1", &password("replication")).await.unwrap();
    until_clean(serving);
    status_when(serving, "the stopped one follows again", is_well);
    let rename = |from: &str, to: &str| format!("RENAME USER 'replication'@'{from}' TO 'replication'@'{to}'");
    scene.stage.run_in("db1", &rename("%", "192.0.2.%")).await.unwrap();
    until_found(serving, "replica_login db2 note", 0);
    scene.stage.run_in("db1", &rename("192.0.2.%", "%")).await.unwrap();
    until_clean(serving);
    refused_from_one_host(scene, serving).await;
}

/// The account is well from Understudy's host, and has another password for the old primary's: it cannot follow, and the switchover is undone. With
/// force it is carried out, and the old primary follows once it is let in.
async fn refused_from_one_host(scene: &Scene, serving: &Serving) {
    let address = scene.address("db1");
    let (host, _) = address.rsplit_once(':').unwrap();
    let create = format!("CREATE USER 'replication'@'{host}' IDENTIFIED BY 'another'");
    scene.stage.run_in("db1", &create).await.unwrap();
    until_clean(serving);
    let followed = || journal(serving).matches("db2 follows db1").count();
    let before = followed();
    let said = serving.ask(&["switchover", "--to", "db2"]).with(1);
    assert!(
        said.contains("refused (not_followed): db1 could not follow db2: ") && said.contains("Access denied"),
        "{said}"
    );
    until("db2 follows db1 again", || (followed() > before).then_some(()));
    status_when(serving, "db1 goes on", |status| writer(status) == "db1" && is_well(status));
    serving.ask(&["switchover", "--to", "db2", "--force"]).with(0);
    scene.stage.run_in("db2", &format!("DROP USER 'replication'@'{host}'")).await.unwrap();
    status_when(serving, "db1 follows", is_well);
    serving.ask(&["switchover", "--to", "db1"]).with(0);
    status_when(serving, "db1 writes again", is_well);
    until_clean(serving);
}

/// The primary does not let a replica in, and then its threads are stopped: what is left is an error of its I/O thread, which is no reason to leave it
/// stopped.
async fn refused_and_stopped(scene: &Scene, name: &str) {
    for statement in ["STOP SLAVE", "START SLAVE"] {
        scene.stage.run_in(name, statement).await.unwrap();
    }
    let began = Instant::now();
    let is_refused = async || {
        let rows = scene.stage.run_in(name, "SHOW SLAVE STATUS").await.unwrap();
        rows.iter().flatten().any(|value| value == "1045")
    };
    while !is_refused().await {
        assert!(began.elapsed() < LONG, "{name} is let in");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    scene.stage.run_in(name, "STOP SLAVE").await.unwrap();
}

/// A budget of 0: an idle primary is left, one with an open transaction is not.
pub async fn without_waiting(scene: &Scene, serving: &Serving) {
    use mysql_async::prelude::Queryable;
    let goes = |to: &str| {
        until("nobody's transaction is in the way", || {
            let ended = serving.ask(&["switchover", "--to", to, "--budget-ms", "0"]);
            println!("          {}", ended.said().trim());
            (ended.code == 0).then_some(())
        });
        status_when(serving, "it is the primary", |status| is_well(status) && writer(status) == to);
    };
    goes("db2");
    goes("db1");
    let mut open = testbed::writers::connect(scene.through()).await.unwrap();
    open.query_drop("BEGIN; INSERT INTO w VALUES (998, 1)").await.unwrap();
    let said = serving.ask(&["switchover", "--to", "db2", "--budget-ms", "0"]).with(1);
    assert!(said.contains("refused (over_budget): transactions still ran on db1"), "{said}");
    open.query_drop("ROLLBACK").await.unwrap();
    open.disconnect().await.unwrap();
}

fn advice(serving: &Serving) -> Vec<String> {
    let status = serving.status();
    let nodes = status["nodes"].as_array().unwrap();
    let each = nodes.iter().flat_map(|node| node["advice"].as_array().cloned().unwrap_or_default());
    each.filter_map(|text| text.as_str().map(str::to_owned))
        .filter(|text| text.contains("another_manager"))
        .collect()
}

/// A second one over the same servers: both say so, and stop saying it when one is gone; after a kill the next one is no rival of the last.
pub fn another_manager(scene: &Scene, serving: &Serving) {
    assert_eq!(advice(serving), Vec::<String>::new());
    let directory = scene.directory(super::QUIET);
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap().replace(":6033", ":6034").replace(":6080", ":6081");
    std::fs::write(&file, config).unwrap();
    let second = Serving::start(directory.path());
    let host = scene.stage.host_address().to_string();
    for one in [serving, &second] {
        until("it is told of the other at every server", || (advice(one).len() == 3).then_some(()));
        assert!(advice(one).iter().all(|text| text.contains(&format!("connected from {host}:"))));
        let journal = one.ask(&["journal"]).with(0);
        assert!(journal.contains("db2 is managed by another Understudy, too"), "{journal}");
    }
    let said = serving.ask(&["doctor"]).said();
    assert!(said.contains("is managed by 2 Understudys, connected from"), "{said}");
    // It decides nothing that it was not asked for, nor does the first: the cluster is as it was.
    assert_eq!((writer(&serving.status()), writer(&second.status())), ("db1".into(), "db1".into()));
    // Killed, not stopped.
    drop(second);
    until("nobody is told of it any more", || advice(serving).is_empty().then_some(()));
    let said = serving.ask(&["doctor"]).said();
    assert!(!said.contains("is managed by 2 Understudys"), "{said}");
}

/// A node that is gone has no row, and no figure, of before.
pub async fn gone(scene: &Scene, serving: &Serving) {
    scene.stage.fault("db3", Fault::Kill).await.unwrap();
    status_when(serving, "db3 is dead", |status| scene.node(status, "db3")["state"] == "dead");
    let ended = serving.ask(&["switchover", "--check", "--to", "db3", "--json", "-"]);
    let (table, said) = (ended.json(), ended.with(1));
    assert!(sentence(&table, "node").contains(", and last answered "), "{said}");
    let rows = table["rows"].as_array().unwrap();
    let of_db3 = |row: &&Value| row["node"] == "db3";
    assert!(rows.iter().filter(of_db3).all(|row| row["verdict"] != "ok"), "{said}");
    assert!(found(&table).iter().any(|row| row == "lag db3 unknown"), "{said}");
    let screen = serving.ask(&["status"]).with(0);
    let line = screen.lines().find(|line| line.starts_with("db3 ")).unwrap();
    assert!(
        line.contains(" unknown  refused 2 connections in ") && line.contains("; last answered "),
        "{line}"
    );
    let ended = serving.ask(&["errant", "list", "db3"]);
    println!("          {} after {:?}", ended.said().trim(), ended.took);
    assert!(ended.said().contains("db3 cannot be asked: it refused 2 connections"), "{}", ended.with(1));
    scene.stage.fault("db3", Fault::Heal).await.unwrap();
    status_when(serving, "all are well", is_well);
}
