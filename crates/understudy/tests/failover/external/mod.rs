//! `manager = "external"` on real servers: plain SQL moves the primary, as an administrator or another manager does, and `understudy serve`
//! follows without an error.
//!
//! ```text
//!   first start ─> moved without a word ─> announced, then moved ─> announced in vain ─> two writable ─> killed, another promoted
//! ```

use std::process::Command;
use std::time::Instant;

use lab::fault::Fault;
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{Serving, run, with_config};
use testbed::scene::{self, Scene, status_when, writer};
use testbed::writers::Writers;

/// What the lab's replicas log in with, and its password.
const REPLICATION: &str = "replication";

#[tokio::test(flavor = "multi_thread")]
async fn another_hand_moves_the_primary_and_nobody_sees_an_error() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::of("moved", true).await;
    told("a primary and two replicas are up");
    let directory = directory(&scene);
    with_config(&directory.path().join("understudy.toml"), &["serve", "--check"]).with(0);
    let serving = Serving::start(directory.path());
    open(&serving, "db1");
    told("db1 is followed");
    unannounced(&scene, &serving).await;
    told("db2 was made the primary without a word");
    announced(&scene, &serving).await;
    told("db1 was announced, and made the primary");
    in_vain(&scene, &serving).await;
    told("what was announced did not come");
    two(&scene, &serving).await;
    told("two were writable for a while");
    killed(&scene, &serving).await;
    told("db1 was killed, and db2 promoted by hand");
    println!("{}", scene::journal(&serving));
    drop(serving);
    scene.stage.down().await.unwrap();
}

fn directory(scene: &Scene) -> TempDir {
    let directory = scene.directory("");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = config.split_once("[cluster.replication]").unwrap();
    let (_, after) = rest.split_once("[listen]").unwrap();
    let config = format!("{before}[listen]{after}").replacen(
        "kind = \"replication\"\n",
        "kind = \"replication\"\nmanager = \"external\"\n",
        1,
    );
    std::fs::write(&file, config).unwrap();
    directory
}

fn open(serving: &Serving, primary: &str) -> Value {
    let is_open = |status: &Value| status["gate"] == "open" && writer(status) == primary;
    status_when(serving, &format!("{primary} is followed"), is_open)
}

/// What a careful hand does.
async fn move_by_hand(scene: &Scene, from: &str, to: &str) {
    close(scene, from).await;
    scene.has_applied(to, from).await;
    open_by_hand(scene, to).await;
    for other in ["db1", "db2", "db3"].into_iter().filter(|other| *other != to) {
        follow_by_hand(scene, other, to).await;
    }
}

async fn close(scene: &Scene, node: &str) {
    scene.stage.run_in(node, "SET GLOBAL read_only = 1").await.unwrap();
    scene.stage.run_in(node, "SET GLOBAL rpl_semi_sync_master_enabled = 0").await.unwrap();
}

async fn open_by_hand(scene: &Scene, node: &str) {
    for statement in ["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"] {
        scene.stage.run_in(node, statement).await.unwrap();
    }
}

async fn follow_by_hand(scene: &Scene, node: &str, source: &str) {
    let address = scene.stage.node(source).unwrap().address;
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{REPLICATION}', \
         MASTER_PASSWORD = '{REPLICATION}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        address.ip(),
        address.port()
    );
    for statement in ["STOP SLAVE", &change, "START SLAVE"] {
        scene.stage.run_in(node, statement).await.unwrap();
    }
}

/// Nobody tells Understudy anything.
async fn unannounced(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = Instant::now();
    move_by_hand(scene, "db1", "db2").await;
    open(serving, "db2");
    writers.more(50).await;
    let told = writers.stop().await;
    println!("          longest time without a commit {:?}", told.gap(began));
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    // ScaleArc's call comes when it is over, and names nobody: twice, and it is the same.
    for _ in 0..2 {
        let said = manual_failover(serving, "{}");
        assert!(said.contains("\"success\":true") && said.contains("db2 is the writer already"), "{said}");
    }
    let said = serving.ask(&["switchover", "--to", "db9"]).with(1);
    assert!(said.contains("unknown_node"), "{said}");
}

fn manual_failover(serving: &Serving, body: &str) -> String {
    let key = std::fs::read_to_string(serving.state("api.key")).unwrap();
    let url = format!("http://{}/api/cluster/5/manual_failover", serving.http);
    let header = format!("X-Api-Key: {}", key.trim());
    let mut curl = Command::new("curl");
    run(curl.args(["--silent", "--request", "PUT", &url, "--header", &header, "--data", body])).with(0)
}

/// It is told first, and answers when it is so.
async fn announced(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = Instant::now();
    let file = serving.dir().join("understudy.toml");
    let order = tokio::task::spawn_blocking(move || {
        with_config(&file, &["switchover", "--to", "db1", "--budget-ms", "20000"])
    });
    status_when(serving, "statements wait", |status| status["gate"] == "held");
    move_by_hand(scene, "db2", "db1").await;
    let said = order.await.unwrap().with(0);
    assert!(said.contains("db1 writes, term "), "{said}");
    assert_eq!(writer(&serving.status()), "db1");
    writers.more(50).await;
    let told = writers.stop().await;
    println!("          longest time without a commit {:?}", told.gap(began));
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    let said = serving.ask(&["switchover", "--to", "db1"]).with(0);
    assert!(said.contains("db1 is the writer already"), "{said}");
    let said = serving.ask(&["drain", "db1"]).with(1);
    assert!(said.contains("external"), "{said}");
}

async fn in_vain(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let said = serving.ask(&["switchover", "--to", "db3", "--budget-ms", "1000"]).with(1);
    assert!(said.contains("over_budget") && said.contains("db1 is still the one that is writable"), "{said}");
    writers.more(20).await;
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
}

/// A replica is made writable: who is the primary cannot be told.
async fn two(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    scene.stage.run_in("db3", "SET GLOBAL read_only = 0").await.unwrap();
    let held = status_when(serving, "statements wait", |status| status["gate"] == "held");
    println!("          {}", held["hold_because"]);
    scene.stage.run_in("db3", "SET GLOBAL read_only = 1").await.unwrap();
    open(serving, "db1");
    writers.more(20).await;
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
}

/// Nobody is promoted until a hand does it.
async fn killed(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    let held = status_when(serving, "statements wait", |status| {
        status["gate"] == "held" && status.to_string().contains("no server is writable")
    });
    println!("          {}", held["hold_because"]);
    for node in ["db2", "db3"] {
        assert_eq!(scene.value(node, "read_only").await, "1", "{node} is left alone");
    }
    open_by_hand(scene, "db2").await;
    follow_by_hand(scene, "db3", "db2").await;
    open(serving, "db2");
    writers.more(20).await;
    let told = writers.stop().await;
    println!("          killed: errors {:?}", told.errors);
    // What db1 had acknowledged by db3 alone comes to db2 never: which of the two had more was not looked at by this hand.
    scene.stage.fault("db1", Fault::Heal).await.unwrap();
    let is_left =
        |status: &Value| scene.node(status, "db1")["facts"]["channels"].as_array().is_some_and(Vec::is_empty);
    status_when(serving, "db1 is back, and nobody told it to follow", is_left);
    assert_eq!(writer(&serving.status()), "db2");
}
