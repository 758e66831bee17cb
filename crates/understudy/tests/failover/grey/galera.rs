//! Three Galera nodes.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::{Serving, directory};
use testbed::scene::{Scene, is_well, journal, status_when, writer};

use super::relieved;

/// Rows that the slow ALTER has to fill.
const SLOW_ROWS: usize = 200;
/// How long that takes on a node that has a processor to itself.
const SLOW_S: f64 = 6.0;
/// The longest that is tried where less was done sooner.
const SLOW_S_MAX: f64 = 24.0;
/// Rows of 60 kB of a large transaction: about 300 MB.
const LARGE_ROWS: usize = 5000;
/// Below max_allowed_packet.
const BYTES_MAX: f64 = 15e6;

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_answers_and_cannot_commit_is_relieved() {
    let plan = StagePlan { name: format!("t{}-greyg", std::process::id()), ..StagePlan::default() };
    let scene = Scene::on(plan).await;
    forbidden(&scene).await;
    own_row(&scene).await;
    refuses(&scene).await;
    large(&scene).await;
    altered(&scene).await;
    for (fault, problem) in [(Fault::WriteLock, "donor"), (Fault::StuckDdl, "Synced")] {
        // Each with a program that has not moved anything yet.
        let directory = directory(&config(&scene.stage, MONITOR_USER));
        let serving = Serving::start(directory.path());
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
    let directory = directory(&config(&scene.stage, "few"));
    let serving = Serving::start(directory.path());
    let grant = "GRANT CREATE, SELECT, INSERT, UPDATE, LOCK TABLES ON `understudy`.* TO 'few'@'%'";
    let told = |status: &Value| scene.node(status, &writer(status))["advice"].to_string().contains(grant);
    let writes = |status: &Value| is_well(status) && !writer(status).is_empty();
    status_when(&serving, "what the account needs", |status| writes(status) && told(status));
}

/// A writer that answers and refuses writes: another writes in its place, and an order goes on from there.
async fn refuses(scene: &Scene) {
    let directory = directory(&config(&scene.stage, MONITOR_USER));
    let serving = Serving::start(directory.path());
    for (refuse, take) in [
        ("SET GLOBAL wsrep_reject_queries = ALL", "SET GLOBAL wsrep_reject_queries = NONE"),
        ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
    ] {
        let before = writer(&status_when(&serving, "all are well", is_well));
        scene.stage.run_in(&before, refuse).await.unwrap();
        let other = |status: &Value| ![before.as_str(), ""].contains(&writer(status).as_str());
        let after = writer(&status_when(&serving, "another writes", other));
        let third = super::ALL.into_iter().find(|node| *node != before && *node != after).unwrap();
        serving.ask(&["switchover", "--to", third]).with(0);
        assert_eq!(writer(&serving.status()), third, "{}", journal(&serving));
        scene.stage.run_in(&before, take).await.unwrap();
    }
    status_when(&serving, "all are well again", is_well);
}

/// A long ALTER stops the commits of all members: nobody takes over.
async fn altered(scene: &Scene) {
    let directory = directory(&config(&scene.stage, MONITOR_USER));
    let serving = Serving::start(directory.path());
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
    // Longer ones, until one has stopped the commits for so long that it is said: how much of a processor it gets is not known before.
    let mut seconds = SLOW_S;
    loop {
        let bytes = (bytes_a_second * seconds / SLOW_ROWS as f64).min(BYTES_MAX);
        let alter = format!(
            "ALTER TABLE sbtest.slow ADD COLUMN sum_{seconds:.0} VARCHAR(128) AS (SHA2(REPEAT(text, {bytes:.0}), 512)) PERSISTENT"
        );
        let (took, reasons) = watched(scene, &serving, &before, &alter).await;
        println!("          an ALTER of {took:?}: {:?}", reasons.last());
        if reasons.iter().any(|reason| reason.starts_with(&before)) {
            break;
        }
        assert!(seconds < SLOW_S_MAX, "an ALTER of {took:?}, and nothing is said of {before}: {reasons:?}");
        seconds *= 2.0;
    }
    status_when(&serving, "all are well", |status| is_well(status) && writer(status) == before);
}

/// Runs a statement on the writer, which stays the writer; how long it took, and which nodes were said not to commit meanwhile.
async fn watched(scene: &Scene, serving: &Serving, before: &str, statement: &str) -> (Duration, Vec<String>) {
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let running = async {
        let ran = scene.stage.run_in(before, statement).await;
        is_over.store(true, SeqCst);
        ran
    };
    let watching = async {
        let mut reasons = Vec::new();
        while !is_over.load(SeqCst) {
            let status = serving.status();
            assert_eq!(writer(&status), before, "{}", journal(serving));
            for node in super::ALL {
                let reason = scene.node(&status, node)["reason"].as_str().unwrap_or_default();
                if reason.starts_with("answers and does not commit") {
                    reasons.push(format!("{node} {reason}"));
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        reasons
    };
    let (ran, reasons) = tokio::join!(running, watching);
    ran.unwrap();
    (began.elapsed(), reasons)
}

/// One transaction of hundreds of megabytes on the writer: it is written, sent and applied, and nobody takes over meanwhile.
async fn large(scene: &Scene) {
    let directory = directory(&config(&scene.stage, MONITOR_USER));
    let serving = Serving::start(directory.path());
    let before = writer(&status_when(&serving, "all are well", is_well));
    for statement in [
        "CREATE TABLE sbtest.large (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT NOT NULL)".to_owned(),
        format!("INSERT INTO sbtest.large (v) SELECT REPEAT('x', 60000) FROM sbtest.seq_1_to_{LARGE_ROWS}"),
        "UPDATE sbtest.large SET v = REPEAT('y', 60000) ORDER BY id LIMIT 2000".to_owned(),
    ] {
        let (took, reasons) = watched(scene, &serving, &before, &statement).await;
        println!("          a large transaction of {took:?}: {reasons:?}");
    }
    // The others apply it.
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        assert_eq!(writer(&serving.status()), before, "{}", journal(&serving));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    status_when(&serving, "all are well", |status| is_well(status) && writer(status) == before);
    scene.stage.run_in(&before, "DROP TABLE sbtest.large").await.unwrap();
    println!("{}", journal(&serving));
}

/// Somebody locks the heartbeat's rows on the writer, and nobody writes: no reason to move, though the others commit theirs.
async fn own_row(scene: &Scene) {
    let directory = directory(&config(&scene.stage, MONITOR_USER));
    let serving = Serving::start(directory.path());
    let before = writer(&status_when(&serving, "all are well", is_well));
    // Without its row, the gap would be locked, and the other members' first heartbeats would end the transaction that does so.
    let begun = format!("SELECT COUNT(*) FROM understudy.heartbeat WHERE node = '{before}'");
    until_async("it has its row", async || match scene.stage.run_in(&before, &begun).await {
        Ok(rows) if rows[0][0] == "1" => Ok(()),
        other => Err(other),
    })
    .await;
    let mut root = super::replication::root(scene, &before).await;
    root.query_drop("BEGIN").await.unwrap();
    let row = format!("SELECT * FROM understudy.heartbeat WHERE node = '{before}' FOR UPDATE");
    root.query_drop(row).await.unwrap();
    super::replication::stays(&serving, &before).await;
    root.query_drop("ROLLBACK").await.unwrap();
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
    let (before, _, told) = relieved(scene, serving, fault, 200).await;
    let deadline = Instant::now();
    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    status_when(serving, "all are well again", is_well);
    scene.has_all(&told, &[&before]).await;
    assert!(deadline.elapsed() < testbed::program::LONG);
    let rows = scene.stage.run_in(&before, &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w")).await.unwrap();
    assert!(rows[0][0].parse::<usize>().unwrap() >= told.acknowledged.len());
}
