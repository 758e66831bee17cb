//! A primary and two replicas, semi-synchronous.

use std::time::{Duration, Instant};

use lab::fault::Fault;
use lab::stage::{ClusterKind, StagePlan};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::{Writers, connect};

use super::{ALL, relieved};

/// Enough that some heartbeat is under way in the middle of one.
const SWITCHOVERS: u32 = 20;
/// Longer than a writer may take to commit.
const LONG_ENOUGH: Duration = Duration::from_secs(7);

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_answers_and_cannot_commit_is_relieved() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::on(StagePlan {
        kind: ClusterKind::Replication { semi_sync: true },
        name: format!("t{}-grey", std::process::id()),
        disk_mb: Some(300),
        ..StagePlan::default()
    })
    .await;
    beside_switchovers(&scene).await;
    told("heartbeats fifty times a second, and switchovers beside them");
    super::traffic::tells(&scene).await;
    told(
        "without heartbeats: clients that wait for a row or a backup changed nothing, commits that hung had another take over",
    );
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    let before = writer(&serving.status());
    altered(&scene, &serving).await;
    told("a long ALTER changed nothing");
    unacknowledged(&scene, &serving).await;
    told("replicas that do not acknowledge changed nothing, and were named");
    large(&scene, &serving).await;
    told("a large transaction changed nothing");
    own_table(&scene, &serving).await;
    told("a lock on the heartbeat's own table changed nothing");
    own_row(&scene, &serving).await;
    told("a lock on the heartbeat's own rows changed nothing");
    assert_eq!(writer(&serving.status()), before);
    for (fault, clause) in [
        (Fault::WriteLock, "a session holds a lock on everything (FLUSH TABLES WITH READ LOCK)"),
        (Fault::DiskFull, "its commits wait for space on a full disk"),
    ] {
        stuck(&scene, &serving, fault, clause).await;
        told(&format!("{fault}: another took over, and it came back as a replica"));
    }
    println!("{}", journal(&serving));
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// A heartbeat never writes behind a demotion: no server ever has what the primary has not.
async fn beside_switchovers(scene: &Scene) {
    let directory = scene.directory("[cluster.heartbeat]\ninterval_ms = 20");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    let writers = Writers::at(scene.through());
    for _ in 0..SWITCHOVERS {
        writers.more(5).await;
        let before = writer(&status_when(&serving, "all are well", is_well));
        let to = if before == "db1" { "db2" } else { "db1" };
        serving.ask(&["switchover", "--to", to]).with(0);
    }
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    let status = status_when(&serving, "all are well", is_well);
    scene.has_exactly(&told, &ALL).await;
    let primary = writer(&status);
    let rows =
        scene.stage.run_in(&primary, "SELECT node, beats FROM understudy.heartbeat ORDER BY node").await;
    let rows = rows.unwrap();
    println!("          heartbeats: {rows:?}");
    let beats =
        |node: &str| rows.iter().find(|row| row[0] == node).map_or(0, |row| row[1].parse::<u64>().unwrap());
    assert!(beats("db1") > 20 && beats("db2") > 20, "{rows:?}");
    let said = journal(&serving);
    assert!(!said.contains("has transactions that the primary has not"), "{said}");
    drop(serving);
    // With nobody who writes they come to the same GTIDs.
    let mut positions = Vec::new();
    for node in ALL {
        let asked = Instant::now();
        let of = |node: &'static str| scene.value(node, "gtid_current_pos");
        while of(node).await != scene.value(&primary, "gtid_current_pos").await {
            assert!(asked.elapsed() < testbed::program::LONG, "{node} does not come to what {primary} has");
        }
        positions.push(of(node).await);
    }
    assert!(positions.iter().all(|position| *position == positions[0]), "{positions:?}");
}

/// Nothing is moved for so long, and writes go on afterwards.
pub async fn stays(serving: &Serving, primary: &str) {
    let until = Instant::now() + LONG_ENOUGH;
    while Instant::now() < until {
        let status = serving.status();
        assert_eq!(writer(&status), primary, "{}", journal(serving));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn goes_on(serving: &Serving, primary: &str) {
    let well = |status: &Value| is_well(status) && writer(status) == primary;
    status_when(serving, "all are well, with the same primary", well);
}

/// An ALTER that waits for a table of somebody else's.
async fn altered(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    let address = scene.stage.node(&primary).unwrap().address;
    let mut holder = connect(address).await.unwrap();
    holder.query_drop("CREATE TABLE IF NOT EXISTS altered (id INT PRIMARY KEY)").await.unwrap();
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM altered").await.unwrap();
    let altering = tokio::spawn(async move {
        let mut session = connect(address).await.unwrap();
        session.query_drop("ALTER TABLE altered ADD COLUMN more INT").await
    });
    let writers = Writers::at(scene.through());
    stays(serving, &primary).await;
    writers.more(20).await;
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    holder.query_drop("COMMIT").await.unwrap();
    altering.await.unwrap().unwrap();
    goes_on(serving, &primary);
}

/// No replica acknowledges: all commits wait, and it is not the primary's fault.
async fn unacknowledged(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    let replicas: Vec<&str> = ALL.into_iter().filter(|node| **node != primary).collect();
    acknowledge(scene, &replicas, "OFF").await;
    let named = |status: &Value| {
        let reason = scene.node(status, &primary)["reason"].as_str().unwrap_or_default();
        reason.starts_with("answers and does not commit")
            && reason.ends_with("wait for a replica to acknowledge")
    };
    status_when(serving, "who keeps it from committing", named);
    stays(serving, &primary).await;
    acknowledge(scene, &replicas, "ON").await;
    goes_on(serving, &primary);
}

async fn acknowledge(scene: &Scene, replicas: &[&str], value: &str) {
    for node in replicas {
        let set = format!("SET GLOBAL rpl_semi_sync_slave_enabled = {value}");
        for statement in [&set, "STOP SLAVE IO_THREAD", "START SLAVE IO_THREAD"] {
            scene.stage.run_in(node, statement).await.unwrap();
        }
    }
}

/// Its commit takes its time, and others wait for it.
async fn large(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    let mut session = connect(scene.stage.node(&primary).unwrap().address).await.unwrap();
    session.query_drop("CREATE TABLE IF NOT EXISTS large (id INT PRIMARY KEY, v LONGTEXT)").await.unwrap();
    session.query_drop("BEGIN").await.unwrap();
    session.query_drop("INSERT INTO large SELECT seq, REPEAT('x', 60000) FROM seq_1_to_600").await.unwrap();
    stays(serving, &primary).await;
    session.query_drop("COMMIT").await.unwrap();
    session.query_drop("DROP TABLE large").await.unwrap();
    goes_on(serving, &primary);
}

/// Somebody dumps or locks the heartbeat's table, and nothing else.
async fn own_table(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    // A backup locks table changes, LOCK TABLES among them, and lets rows be changed.
    let backup = ["BACKUP STAGE START", "BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL"];
    for (locks, unlocks) in
        [(&["LOCK TABLES understudy.heartbeat READ"][..], "UNLOCK TABLES"), (&backup, "BACKUP STAGE END")]
    {
        let mut root = root(scene, &primary).await;
        for lock in locks {
            root.query_drop(*lock).await.unwrap();
        }
        let named = |status: &Value| {
            let reason = scene.node(status, &primary)["reason"].as_str().unwrap_or_default();
            reason.ends_with("the table of the heartbeat cannot be locked")
        };
        status_when(serving, "what keeps the heartbeat", named);
        stays(serving, &primary).await;
        root.query_drop(unlocks).await.unwrap();
        goes_on(serving, &primary);
    }
}

/// Somebody locks the heartbeat's rows, and nothing else, and nobody writes: no reason to move.
async fn own_row(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    let mut root = root(scene, &primary).await;
    root.query_drop("BEGIN").await.unwrap();
    root.query_drop("SELECT * FROM understudy.heartbeat FOR UPDATE").await.unwrap();
    stays(serving, &primary).await;
    root.query_drop("ROLLBACK").await.unwrap();
    goes_on(serving, &primary);
}

pub async fn root(scene: &Scene, node: &str) -> mysql_async::Conn {
    let node = scene.stage.node(node).unwrap();
    let options = mysql_async::OptsBuilder::default()
        .socket(Some(node.socket.display().to_string()))
        .user(Some("root"))
        .prefer_socket(false);
    mysql_async::Conn::new(options).await.unwrap()
}

/// It answers and does not commit.
pub async fn stuck(scene: &Scene, serving: &Serving, fault: Fault, clause: &str) {
    let (before, others, told) = relieved(scene, serving, fault, 50).await;
    let said = journal(serving);
    assert!(said.contains(clause), "{said}");

    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    // On a full disk it counts a transaction that it had begun to write, and nobody was told of: that may keep it from following.
    let back = |status: &Value| {
        let node = scene.node(status, &before);
        is_well(status)
            || (fault == Fault::DiskFull && node["problem"] == "errant" && node["facts"]["read_only"] == true)
    };
    let status = status_when(serving, "the old primary is back", back);
    println!("          {before}: {}", scene.node(&status, &before)["reason"]);
    assert_eq!(scene.value(&before, "read_only").await, "1");
    let here = if is_well(&status) { ALL.to_vec() } else { others };
    scene.has_all(&told, &here).await;
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let more = writers.stop().await;
    assert_eq!(more.errors, Vec::<String>::new());
    scene.has_exactly(&more, &here).await;
}
