//! `understudy errant` on real servers that replicate asynchronously: what a primary committed alone is listed exactly, exported and undone. And
//! what `understudy doctor` says of such servers.
//!
//! ```text
//!   primary cut off ─> writes there that nobody has ─> a replica takes over ─> it comes back, held back
//!      rows only: list ─> export ─> dry run ─> flashback ─> it follows, all tables equal ─> the export run on the primary
//!      DDL among them: list ─> flashback refused, nothing changed
//! ```
//!
//! All of it with positions of 260 KB, which no question may cut off.

mod doctor;

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::{ClusterKind, Stage, StagePlan};
use serde_json::Value;
use testbed::program::{LONG, Serving, mode, understudy, with_config};
use testbed::scene::{Scene, is_well, status_when, writer};

/// Tables of all kinds that rows can have: with and without a primary key, wide rows, foreign keys, generated columns.
const TABLES: [&str; 8] = [
    "CREATE TABLE sbtest.t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(50), b BLOB, c DECIMAL(10,2), d DATETIME(6))",
    "CREATE TABLE sbtest.bare (id INT, t INT)",
    "CREATE TABLE sbtest.wide (id INT PRIMARY KEY, v TEXT, e ENUM('a','b'), g INT AS (id + 1) STORED, UNIQUE (g))",
    "CREATE TABLE sbtest.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES sbtest.wide (id))",
    "CREATE TABLE sbtest.aria (id INT) ENGINE = Aria",
    "CREATE TABLE sbtest.parent (id INT PRIMARY KEY)",
    "CREATE TABLE sbtest.kid (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES sbtest.parent (id) ON DELETE CASCADE)",
    "CREATE TABLE sbtest.versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
];
const ROWS: [&str; 4] = [
    "INSERT INTO sbtest.t (a, b, c, d) VALUES ('one', x'00ff27', 1.5, NOW(6)), ('two', NULL, 2, NULL), ('three', 'x', 3, NOW(6))",
    "INSERT INTO sbtest.bare VALUES (1, 1), (1, 1), (2, NULL)",
    "INSERT INTO sbtest.wide (id, v, e) SELECT seq, REPEAT('x', 1000), 'b' FROM sbtest.seq_1_to_60",
    "INSERT INTO sbtest.child VALUES (1, 1), (2, 2)",
];
/// One transaction each; FLUSH is none.
const ERRANT: [&str; 7] = [
    "INSERT INTO sbtest.t (a) VALUES ('errant; -- ''it'''), ('zwei')",
    "UPDATE sbtest.t SET a = CONCAT(a, '!'), b = x'0001' WHERE id <= 2",
    "BEGIN NOT ATOMIC START TRANSACTION; DELETE FROM sbtest.t WHERE id = 3; SAVEPOINT s; INSERT INTO sbtest.bare VALUES (9, 9); ROLLBACK TO s; \
     INSERT INTO sbtest.wide (id, v) VALUES (1000, 'new'); INSERT INTO sbtest.child VALUES (3, 1000); COMMIT; END",
    "FLUSH BINARY LOGS",
    "INSERT INTO sbtest.wide (id, v, e) SELECT 100 + seq, REPEAT('y', 1000), 'a' FROM sbtest.seq_1_to_100",
    "DELETE FROM sbtest.bare WHERE id = 1 LIMIT 1",
    "UPDATE sbtest.wide w JOIN sbtest.child c ON c.id = 1 SET w.v = 'm', c.p = 2 WHERE w.id < 50",
];
const TRANSACTIONS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_primary_committed_alone_is_listed_exported_and_undone() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = set().await;
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    told("they are known");
    usage(&serving);
    doctor::looks(&scene, &serving).await;
    told("the doctor has looked at them");
    let primary = alone(&scene, &serving, &ERRANT).await;
    told("db1 is held back");
    listed(&serving, &primary);
    told("listed");
    exported(&serving);
    tried(&scene, &serving).await;
    told("exported, and undone for a try");
    flashed_back(&scene, &serving).await;
    told("undone, and it follows");
    replayed(&scene, &serving, &primary).await;
    told("what it had committed alone was written on the primary");
    refused(&scene, &serving).await;
    told("DDL was refused");
    drop(serving);
    scene.stage.down().await.unwrap();
}

async fn set() -> Scene {
    let plan = StagePlan {
        kind: ClusterKind::Replication { semi_sync: false },
        name: format!("t{}-errant", std::process::id()),
        ..StagePlan::default()
    };
    let scene = Scene { stage: Stage::up(plan).await.unwrap() };
    many_servers_have_written(&scene).await;
    for sql in TABLES.iter().chain(&ROWS) {
        scene.stage.run_in("db1", sql).await.unwrap();
    }
    scene
}

/// All three have the history of a cluster in which 20,000 server ids have written: 260 KB, where SHOW VARIABLES gives the first 4,096 bytes.
async fn many_servers_have_written(scene: &Scene) {
    for node in ["db2", "db3"] {
        scene.stage.run_in(node, "STOP ALL SLAVES").await.unwrap();
    }
    for node in ["db1", "db2", "db3"] {
        let state = "BEGIN NOT ATOMIC RESET MASTER; \
            SET @state = (SELECT GROUP_CONCAT('0-', seq, '-', seq - 1000 ORDER BY seq) FROM sbtest.seq_1001_to_21000); \
            SET GLOBAL gtid_binlog_state = @state; END";
        scene.stage.run_in(node, state).await.unwrap();
        assert!(scene.value(node, "gtid_binlog_state").await.len() > 250_000);
    }
    for node in ["db2", "db3"] {
        scene.stage.run_in(node, "SET GLOBAL gtid_slave_pos = '0-21000-20000'").await.unwrap();
        scene.stage.run_in(node, "START ALL SLAVES").await.unwrap();
    }
}

/// What makes no sense is refused in a sentence.
fn usage(serving: &Serving) {
    let said = serving.ask(&["errant", "list", "db9"]).with(2);
    assert!(said.contains("no node db9") && said.contains("db1, db2, db3"), "{said}");
    let said = serving.ask(&["errant", "flashback", "db1"]).with(1);
    assert!(said.contains("db1 is the primary"), "{said}");
    let said = serving.ask(&["errant", "flashback", "db2"]).with(1);
    assert!(said.contains("nothing was changed: db2 is not held back for errant transactions"), "{said}");
    let said = serving.ask(&["errant", "list", "db2"]).with(0);
    assert_eq!(said, "db2 has nothing that db1, the primary, has not\n");
    assert!(understudy(&["errant", "list", "db1"]).with(2).contains("no configuration"));
}

/// Cuts the primary, db1, off from the others when these have all that it has: what it does from then on it does alone.
async fn cut_off(scene: &Scene) {
    let begin = Instant::now();
    loop {
        while !have_the_same(scene).await {
            assert!(begin.elapsed() < LONG, "the replicas never have all that db1 has");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        scene.stage.fault("db1", Fault::Vanish).await.unwrap();
        if have_the_same(scene).await {
            return;
        }
        // It has written its heartbeat in between.
        scene.stage.fault("db1", Fault::Heal).await.unwrap();
    }
}

async fn have_the_same(scene: &Scene) -> bool {
    let mut positions = Vec::new();
    for node in ["db1", "db2", "db3"] {
        positions.push(scene.value(node, "gtid_binlog_pos").await);
    }
    positions.iter().all(|position| *position == positions[0])
}

/// The primary, db1, is cut off and does this alone; it comes back behind a new one, whose name is returned.
async fn alone(scene: &Scene, serving: &Serving, statements: &[&str]) -> String {
    cut_off(scene).await;
    for statement in statements {
        scene.stage.run_in("db1", statement).await.unwrap();
    }
    let moved = |status: &Value| status["gate"] == "open" && !["", "db1"].contains(&writer(status).as_str());
    let primary = writer(&status_when(serving, "another is the primary", moved));
    for number in 0..3 {
        let row = format!("INSERT INTO sbtest.bare VALUES (100, {number})");
        scene.stage.run_in(&primary, &row).await.unwrap();
    }
    scene.stage.fault("db1", Fault::Heal).await.unwrap();
    let other = if primary == "db2" { "db3" } else { "db2" };
    let held = |status: &Value| {
        scene.node(status, "db1")["problem"] == "errant"
            && scene.follows(status, other) == scene.address(&primary)
    };
    let status = status_when(serving, "db1 is held back, and the other replica follows", held);
    println!("          db1 {}", scene.node(&status, "db1")["reason"]);
    primary
}

/// Exactly these, with what they did, and nothing of the primary's.
fn listed(serving: &Serving, primary: &str) {
    let said = serving.ask(&["errant", "list", "db1"]).with(0);
    println!("{said}");
    assert!(
        said.starts_with(&format!(
            "db1 has {TRANSACTIONS} transactions that {primary}, the primary, has not\n"
        ))
    );
    for part in [
        "INSERT sbtest.t: INSERT INTO sbtest.t",
        "DELETE sbtest.t",
        "UPDATE sbtest.wide",
        "errant flashback db1 --dry-run",
    ] {
        assert!(said.contains(part), "{part}");
    }
    let json = serving.ask(&["errant", "list", "db1", "--json"]).json();
    let gtids: Vec<&str> =
        json["transactions"].as_array().unwrap().iter().map(|one| one["gtid"].as_str().unwrap()).collect();
    assert_eq!((gtids.len(), json["gtids"].as_str().unwrap()), (TRANSACTIONS, gtids.join(",").as_str()));
    let numbers: Vec<u64> =
        gtids.iter().map(|gtid| gtid.strip_prefix("0-1-").unwrap().parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{gtids:?}");
    assert_eq!(json["flashback_obstacles"], serde_json::json!([]));
}

/// A file with exactly these, which only its owner may read, and never over another.
fn exported(serving: &Serving) {
    let file = serving.dir().join("errant.sql");
    let name = file.to_str().unwrap();
    serving.ask(&["errant", "export", "db1", "--file", name]).with(0);
    assert_eq!(mode(&file), 0o600);
    let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
    assert_eq!(text.matches("\tGTID 0-").count(), TRANSACTIONS, "{text}");
    assert_eq!(text.matches("\tXid = ").count(), TRANSACTIONS, "{text}");
    for part in [
        "### DELETE FROM `sbtest`.`bare`",
        "#Q> DELETE FROM sbtest.bare",
        "-- /*M!100001 SET @@session.gtid_seq_no=",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("\n/*M!100001 SET @@session.gtid_seq_no="), "{text}");
    assert!(serving.ask(&["errant", "export", "db1", "--file", name]).with(1).contains("cannot be written"));
}

/// `--dry-run` shows the statements, and nothing is changed.
async fn tried(scene: &Scene, serving: &Serving) {
    let before = (sums(scene, "db1").await, scene.value("db1", "gtid_binlog_state").await);
    let said = serving.ask(&["errant", "flashback", "db1", "--dry-run"]).with(0);
    assert!(said.contains("BINLOG '") && said.contains("### INSERT INTO `sbtest`.`bare`"), "{said}");
    assert!(said.contains("nothing was changed; this would undo 0-1-"), "{said}");
    assert_eq!(before, (sums(scene, "db1").await, scene.value("db1", "gtid_binlog_state").await));
    assert_eq!(std::fs::read_dir(serving.state("errant")).unwrap().count(), 0, "nothing is left behind");
}

async fn flashed_back(scene: &Scene, serving: &Serving) {
    let primary = writer(&serving.status());
    assert_ne!(sums(scene, "db1").await, sums(scene, &primary).await);
    let said = serving.ask(&["errant", "flashback", "db1"]).with(0);
    println!("{said}");
    assert!(said.contains(&format!("db1 follows {primary}")), "{said}");
    let status = status_when(serving, "all are well", is_well);
    assert_eq!(scene.follows(&status, "db1"), scene.address(&primary));
    equal(scene, &primary).await;
    assert_eq!(
        (scene.value("db1", "gtid_strict_mode").await, scene.value("db1", "read_only").await),
        ("1".into(), "1".into())
    );
    let kept = std::fs::read_dir(serving.state("errant")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&kept), 0o700);
    for name in ["errant.sql", "flashback.sql"] {
        assert_eq!(mode(&kept.join(name)), 0o600);
    }
    let said = serving.ask(&["errant", "list", "db1"]).with(0);
    assert!(said.contains("db1 has nothing that"), "{said}");
}

/// The export, run on the primary: what was lost is there again, on every server.
async fn replayed(scene: &Scene, serving: &Serving, primary: &str) {
    let file = File::open(serving.dir().join("errant.sql")).unwrap();
    let socket = &scene.stage.node(primary).unwrap().socket;
    let ended = Command::new("mariadb")
        .args(["--no-defaults", "--binary-mode", "-u", "root", "-S"])
        .arg(socket)
        .stdin(file)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    equal(scene, primary).await;
    let count = "SELECT COUNT(*) FROM sbtest.wide WHERE id > 100";
    assert_eq!(scene.stage.run_in("db1", count).await.unwrap()[0][0], "101");
    status_when(serving, "all are well", is_well);
}

/// What cannot be undone exactly, and what is said of each.
const NOT_UNDONE: [(&str, &str); 8] = [
    ("INSERT INTO sbtest.bare VALUES (7, 7)", ""),
    ("ALTER TABLE sbtest.bare ADD COLUMN more INT", "changes tables themselves (DDL)"),
    (
        "SET STATEMENT binlog_row_image = MINIMAL FOR UPDATE sbtest.t SET a = 'less' WHERE id = 1",
        "has rows without all columns",
    ),
    (
        "BEGIN NOT ATOMIC SET SESSION binlog_format = STATEMENT; INSERT INTO sbtest.t (a) VALUES ('statement'); END",
        "is written as a statement, not as rows: INSERT INTO sbtest.t (a) VALUES ('statement')",
    ),
    ("INSERT INTO sbtest.aria VALUES (1)", "writes to a table without transactions"),
    ("INSERT INTO sbtest.parent VALUES (1), (2)", "sbtest.kid (kid_ibfk_1) changes rows that no binlog has"),
    ("INSERT INTO sbtest.versioned VALUES (1)", "sbtest.versioned is versioned"),
    (
        "BEGIN NOT ATOMIC XA START 'x'; INSERT INTO sbtest.t (a) VALUES ('xa'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'; END",
        "is part of a distributed transaction (XA)",
    ),
];

/// Nothing is undone when something cannot be. The numbers between are the primary's own: they are never called errant.
async fn refused(scene: &Scene, serving: &Serving) {
    serving.ask(&["switchover", "--to", "db1"]).with(0);
    let follow = |status: &Value| {
        is_well(status)
            && ["db2", "db3"].iter().all(|node| scene.follows(status, node) == scene.address("db1"))
    };
    status_when(serving, "all are well, and follow db1", follow);
    let primary = alone(scene, serving, &NOT_UNDONE.map(|(statement, _)| statement)).await;
    let status = serving.status();
    let reason = scene.node(&status, "db1")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains(" at most, see `understudy errant list db1`"), "{reason}");
    let json = serving.ask(&["errant", "list", "db1", "--json"]).json();
    // A distributed transaction is two: prepared, and committed.
    assert_eq!(json["transactions"].as_array().unwrap().len(), NOT_UNDONE.len() + 1, "{json:#}");
    let before = (sums(scene, "db1").await, scene.value("db1", "gtid_binlog_state").await);
    let said = serving.ask(&["errant", "flashback", "db1"]).with(1);
    println!("{said}");
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = ["nothing was changed", "understudy errant export db1 --file", "mariadb-backup"];
    for part in parts.into_iter().chain(NOT_UNDONE.map(|(_, why)| why)) {
        assert!(line.contains(part), "{part}: {said}");
    }
    assert_eq!(before, (sums(scene, "db1").await, scene.value("db1", "gtid_binlog_state").await));
    let file = serving.dir().join("ddl.sql");
    serving.ask(&["errant", "export", "db1", "--file", file.to_str().unwrap()]).with(0);
    let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
    assert!(text.contains("ALTER TABLE sbtest.bare ADD COLUMN more INT"), "{text}");
    assert_eq!(text.matches("\tGTID 0-").count(), NOT_UNDONE.len() + 1, "{text}");
    assert_eq!(writer(&serving.status()), primary);
    scene.stage.run_in("db1", "SET GLOBAL slave_exec_mode = IDEMPOTENT").await.unwrap();
    let said = serving.ask(&["errant", "list", "db1"]).with(0);
    assert!(said.contains("cannot be flashed back: slave_exec_mode is IDEMPOTENT there"), "{said}");
    let said = with_config(&serving.dir().join("understudy.toml"), &["errant", "list", "db1"]).with(0);
    assert!(said.contains("cannot be flashed back: 0-1-"), "{said}");
}

/// Checksums of all tables of the application.
async fn sums(scene: &Scene, node: &str) -> Vec<Vec<String>> {
    let names = "SELECT GROUP_CONCAT('sbtest.', TABLE_NAME ORDER BY 1) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'sbtest'";
    let names = scene.stage.run_in(node, names).await.unwrap()[0][0].clone();
    scene.stage.run_in(node, &format!("CHECKSUM TABLE {names}")).await.unwrap()
}

/// Waits until every server has the same rows in all tables.
async fn equal(scene: &Scene, primary: &str) {
    let wanted = sums(scene, primary).await;
    for node in ["db1", "db2", "db3"] {
        until_async(&format!("{node} has what {primary} has: {wanted:?}"), async || {
            let has = sums(scene, node).await;
            if has == wanted { Ok(()) } else { Err(has) }
        })
        .await;
    }
}
