//! Three Galera nodes.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use serde_json::Value;

use crate::program::{Serving, house};
use crate::scene::{Scene, is_well, journal, status_when, writer};
use crate::writers::Writers;

const ALL: [&str; 3] = ["db1", "db2", "db3"];
/// Rows that the slow ALTER has to fill.
const SLOW_ROWS: usize = 200;
/// How long that takes on a node that has a processor to itself.
const SLOW_S: f64 = 8.0;
/// Below max_allowed_packet.
const BYTES_MAX: f64 = 15e6;

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_answers_and_cannot_commit_is_relieved() {
    let plan = StagePlan { name: format!("t{}-greyg", std::process::id()), ..StagePlan::default() };
    let scene = Scene::on(plan).await;
    forbidden(&scene).await;
    altered(&scene).await;
    for (fault, problem) in [(Fault::WriteLock, "donor"), (Fault::StuckDdl, "Synced")] {
        // Each with a program that has not moved anything yet.
        let house = house(&config(&scene.stage, MONITOR_USER));
        let serving = Serving::start(house.path());
        stuck(&scene, &serving, fault).await;
        println!("{problem}: {}", journal(&serving));
    }
    scene.stage.down().await.unwrap();
}

/// An account that may not make the heartbeat's table: that is said once, with what to grant, and all else goes on.
async fn forbidden(scene: &Scene) {
    for statement in [
        "CREATE USER few@'%' IDENTIFIED BY 'understudy'",
        "GRANT SUPER, CONNECTION ADMIN, TRIGGER, EXECUTE ON *.* TO few@'%'",
        "GRANT SELECT ON mysql.global_priv TO few@'%'",
    ] {
        scene.stage.run_in("db1", statement).await.unwrap();
    }
    let house = house(&config(&scene.stage, "few"));
    let serving = Serving::start(house.path());
    let grant = "GRANT CREATE, SELECT, INSERT, UPDATE, LOCK TABLES ON `understudy`.* TO 'few'@'%'";
    let told = |status: &Value| scene.node(status, &writer(status))["advice"].to_string().contains(grant);
    let writes = |status: &Value| is_well(status) && !writer(status).is_empty();
    status_when(&serving, "what the account needs", |status| writes(status) && told(status));
}

/// A long ALTER stops the commits of all members: nobody takes over.
async fn altered(scene: &Scene) {
    let house = house(&config(&scene.stage, MONITOR_USER));
    let serving = Serving::start(house.path());
    let before = writer(&status_when(&serving, "all are well", is_well));
    for statement in [
        "CREATE TABLE sbtest.slow (id INT AUTO_INCREMENT PRIMARY KEY, text INT NOT NULL DEFAULT 7)"
            .to_owned(),
        format!("INSERT INTO sbtest.slow VALUES {}", ["()"; SLOW_ROWS].join(", ")),
    ] {
        scene.stage.run_in(&before, &statement).await.unwrap();
    }
    let began = Instant::now();
    scene.stage.run_in(&before, "SELECT SHA2(REPEAT('7', 10000000), 512)").await.unwrap();
    let bytes_a_second = 1e7 / began.elapsed().as_secs_f64();
    let bytes = (bytes_a_second * SLOW_S / SLOW_ROWS as f64).min(BYTES_MAX);
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let altering = async {
        let alter = format!(
            "ALTER TABLE sbtest.slow ADD COLUMN sum VARCHAR(128) AS (SHA2(REPEAT(text, {bytes:.0}), 512)) PERSISTENT"
        );
        let altered = scene.stage.run_in(&before, &alter).await;
        is_over.store(true, SeqCst);
        altered
    };
    let watching = async {
        let mut reasons = Vec::new();
        while !is_over.load(SeqCst) {
            let status = serving.status();
            assert_eq!(writer(&status), before, "{}", journal(&serving));
            reasons.push(scene.node(&status, &before)["reason"].as_str().unwrap_or_default().to_owned());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        reasons
    };
    let (altered, reasons) = tokio::join!(altering, watching);
    altered.unwrap();
    println!("          an ALTER of {:?}: {:?}", began.elapsed(), reasons.last());
    assert!(reasons.iter().any(|reason| reason.starts_with("answers and does not commit")), "{reasons:?}");
    status_when(&serving, "all are well", |status| is_well(status) && writer(status) == before);
}

fn config(stage: &Stage, user: &str) -> String {
    let host = stage.host_address();
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config
        + &format!(
            "[cluster.monitor]\nuser = \"{user}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
             [listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
        )
}

async fn stuck(scene: &Scene, serving: &Serving, fault: Fault) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let others: Vec<&str> = ALL.into_iter().filter(|node| **node != before).collect();
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = scene.stage.fault(&before, fault).await.unwrap();
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
    status_when(serving, "another is the writer", moved);
    let took = began.elapsed();
    writers.more(200).await;
    let told = writers.stop().await;
    println!(
        "          {fault}: status shows another writer after {took:?}, longest time without a commit {:?}, errors {:?}",
        told.gap(began),
        told.errors
    );
    let said = journal(serving);
    assert!(said.contains(&format!("{before} answers and does not commit")), "{said}");
    assert!(told.gap(began) < Duration::from_secs(12), "{:?}", told.gap(began));
    let deadline = Instant::now();
    scene.has_all(&told, &others).await;
    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    status_when(serving, "all are well again", is_well);
    scene.has_all(&told, &[&before]).await;
    assert!(deadline.elapsed() < crate::program::LONG);
    let rows = scene.stage.run_in(&before, &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w")).await.unwrap();
    assert!(rows[0][0].parse::<usize>().unwrap() >= told.acknowledged.len());
}
