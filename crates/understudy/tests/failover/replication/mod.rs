//! `understudy serve` before a primary and two replicas, on real servers that replicate semi-synchronously.
//!
//! ```text
//!   first start ─> switchover, one that is undone ─> kill -9, clean stop ─> events ─> vanished ─> frozen, most under writes
//!      └── what was acknowledged to a client is on every server, once
//! ```

mod accounts;
mod events;
mod left;
mod unread;

use std::process::Command;
use std::time::Instant;

use lab::fault::Fault;
use lab::stage::{ClusterKind, StagePlan};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::informed;
use testbed::program::{Serving, with_config};
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::{Writers, connect};

/// Enough that some statement is held in the middle of one.
const SWITCHOVERS: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_changed_and_lost_and_no_acknowledged_write_with_it() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::on(StagePlan {
        kind: ClusterKind::Replication { semi_sync: true },
        name: format!("t{}-repl", std::process::id()),
        server_options: vec!["event-scheduler = ON".to_owned()],
        ..StagePlan::default()
    })
    .await;
    told("a primary and two replicas are up");
    forbidden(&scene).await;
    told("an account without rights was told of, and touched nothing");
    headers(&scene).await;
    told("servers that take no PROXY headers were told of before any client met them");
    let directory = scene.directory("failover_gap_ms = 0");
    with_config(&directory.path().join("understudy.toml"), &["serve", "--check"]).with(0);
    let serving = Serving::start(directory.path());
    first(&scene, &serving);
    told("they are known");
    switched(&scene, &serving).await;
    told("db2 took over from db1, which follows it");
    unread::result(&scene, &serving).await;
    told("a client that did not read its result kept nobody waiting");
    accounts::changed(&scene, &serving).await;
    told("accounts changed under their sessions, and these were told why they could not be moved");
    again(&scene, &serving).await;
    told("they changed places again and again");
    undone(&scene, &serving).await;
    told("a switchover that could not be done was undone");
    for fault in [Fault::Kill, Fault::Stop] {
        lost(&scene, &serving, fault).await;
        told("a primary ended, another took over, and it came back as a replica");
    }
    events::move_with_the_primary(&scene, &serving).await;
    told("events ran on the primary, wherever that was");
    let serving = events::outlive_a_kill(&scene, serving).await;
    told("a program that was killed in the middle of a switchover had events run on the new primary");
    vanished(&scene, &serving).await;
    told("an idle primary vanished, another took over, and it came back as a replica");
    left::behind(&scene, &serving).await;
    left::waiting(&scene, &serving).await;
    told("a primary vanished with transactions open, and kept none of their sessions as a replica");
    frozen(&scene, &serving).await;
    told("a busy primary was frozen, another took over, and it came back read only");
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// An account that may not ask whom a server follows: what it needs is told, and nothing is done without it.
async fn forbidden(scene: &Scene) {
    scene.stage.run_in("db1", "CREATE USER few@'%' IDENTIFIED BY 'few'").await.unwrap();
    let directory = scene.directory("");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let of_few = config.replacen(
        "user = \"understudy\"\npassword = \"understudy\"",
        "user = \"few\"\npassword = \"few\"",
        1,
    );
    assert_ne!(config, of_few);
    std::fs::write(&file, of_few).unwrap();
    until_there(scene).await;
    let said = with_config(&file, &["serve", "--check"]).with(1);
    for lack in ["SLAVE MONITOR", "RELOAD", "SELECT ON mysql.global_priv", "GRANT SLAVE MONITOR, "] {
        assert!(said.contains(lack), "{lack}: {said}");
    }
    let serving = Serving::start(directory.path());
    let told =
        "does not tell \"few\" whom it follows (1227), so it is not used: run there: GRANT SLAVE MONITOR";
    let is_told = |node: &Value| node["advice"].to_string().replace('\\', "").contains(told);
    let all = |status: &Value| status["nodes"].as_array().unwrap().iter().all(is_told);
    let status = status_when(&serving, "what the account needs", all);
    assert_eq!(status["gate"], "held");
    assert_eq!(
        (scene.value("db1", "read_only").await, scene.value("db2", "read_only").await),
        ("0".into(), "1".into())
    );
}

/// `cluster.proxy_header` before servers that take none, and after what the finding says was done.
async fn headers(scene: &Scene) {
    let directory = scene.directory("");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replacen("[cluster]\n", "[cluster]\nproxy_header = \"v2\"\n", 1)).unwrap();
    let said = with_config(&file, &["serve", "--check"]).with(1);
    for node in ["db1", "db2", "db3"] {
        let told = format!("{node} ({}) takes no PROXY header from here", scene.address(node));
        assert!(said.contains(&told) && said.contains("set proxy_protocol_networks there"), "{said}");
        let ours = format!("SET GLOBAL proxy_protocol_networks = '{}'", scene.stage.host_address());
        scene.stage.run_in(node, &ours).await.unwrap();
    }
    let said = with_config(&file, &["serve", "--check"]).with(0);
    assert_eq!(said.matches("takes PROXY headers from here").count(), 3, "{said}");
    for node in ["db1", "db2", "db3"] {
        scene.stage.run_in(node, "SET GLOBAL proxy_protocol_networks = ''").await.unwrap();
    }
}

/// Waits until the replicas have that account.
async fn until_there(scene: &Scene) {
    for node in ["db2", "db3"] {
        let there = "SELECT COUNT(*) FROM mysql.global_priv WHERE User = 'few'";
        scene.until(node, there, |count| count == "1").await;
    }
}

/// Whoever is writable is the primary, and stays it.
fn first(scene: &Scene, serving: &Serving) {
    let status = status_when(serving, "all are well", is_well);
    assert_eq!(writer(&status), "db1");
    let screen = serving.ask(&["status"]).with(0);
    for line in ["a primary and its replicas", "primary db1", "replica of db1, acknowledges"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    assert_eq!(scene.follows(&status, "db2"), scene.address("db1"));
}

/// `understudy switchover` while clients write: nobody sees an error, and the old primary follows.
async fn switched(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = Instant::now();
    let said = serving.ask(&["switchover", "--to", "db2"]).with(0);
    println!("          {} after {:.3} s", said.trim(), began.elapsed().as_secs_f64());
    writers.more(50).await;
    let follows_db2 =
        |status: &Value| is_well(status) && scene.follows(status, "db1") == scene.address("db2");
    let status = status_when(serving, "db1 follows db2", follows_db2);
    assert_eq!(writer(&status), "db2");
    assert_eq!(scene.follows(&status, "db3"), scene.address("db2"));
    let told = writers.stop().await;
    println!("          switchover: longest time without a commit {:?}", told.gap(began));
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    for (node, read_only) in [("db1", "1"), ("db2", "0"), ("db3", "1")] {
        assert_eq!(scene.value(node, "read_only").await, read_only, "{node}");
        assert_eq!(
            scene.value(node, "rpl_semi_sync_master_enabled").await,
            if read_only == "0" { "1" } else { "0" },
            "{node}"
        );
    }
}

/// A session of somebody else's keeps the primary from becoming read only: the primary stays, and nobody sees an error.
async fn undone(scene: &Scene, serving: &Serving) {
    let table = "CREATE TABLE IF NOT EXISTS sbtest.locked (id INT PRIMARY KEY)";
    scene.stage.run_in("db2", table).await.unwrap();
    let mut beside = connect(scene.stage.node("db2").unwrap().address).await.unwrap();
    beside.query_drop("LOCK TABLES locked WRITE").await.unwrap();
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let said = serving.ask(&["switchover", "--to", "db3", "--budget-ms", "2000"]).with(1);
    println!("          {}", said.trim());
    writers.more(20).await;
    assert_eq!(writer(&serving.status()), "db2");
    drop(beside);
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    status_when(serving, "all are well", is_well);
}

/// The primary's host is gone without a word, while nobody writes.
async fn vanished(scene: &Scene, serving: &Serving) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let mut told = writers.stop().await;
    let fault = scene.stage.fault(&before, Fault::Vanish).await.unwrap();
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    println!("          vanished: first commits after {:?}", fault.elapsed());
    let after = writer(&serving.status());
    assert_ne!(after, before);
    told.add(writers.stop().await);
    assert_eq!(told.errors, Vec::<String>::new());

    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    let follows = |status: &Value| is_well(status) && scene.follows(status, &before) == scene.address(&after);
    status_when(serving, "the old primary follows", follows);
    assert_eq!(scene.value(&before, "read_only").await, "1");
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
}

/// The primary stands still while clients write, and goes on later.
async fn frozen(scene: &Scene, serving: &Serving) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let others: Vec<&str> = ["db1", "db2", "db3"].into_iter().filter(|node| *node != before).collect();
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let fault = scene.stage.fault(&before, Fault::Freeze).await.unwrap();
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
    status_when(serving, "another is the primary", moved);
    writers.more(50).await;
    let told = writers.stop().await;
    println!(
        "          frozen: longest time without a commit {:?}, errors {:?}",
        told.gap(fault),
        told.errors
    );
    scene.has_all(&told, &others).await;

    scene.stage.fault(&before, Fault::Thaw).await.unwrap();
    // What it was committing when it stood still, nobody else has: that keeps it from following. It is never written again.
    let back = |status: &Value| {
        let node = scene.node(status, &before);
        is_well(status) || (node["problem"] == "errant" && node["facts"]["read_only"] == true)
    };
    let status = status_when(serving, "the old primary is back, read only", back);
    assert_eq!(scene.value(&before, "read_only").await, "1");
    println!("          {before}: {}", scene.node(&status, &before)["reason"]);
    println!("{}", journal(serving));
}

/// The primary's process ends, one way or another, while clients write; it comes back as a replica.
async fn lost(scene: &Scene, serving: &Serving, fault: Fault) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let others: Vec<&str> = ["db1", "db2", "db3"].into_iter().filter(|node| **node != before).collect();
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = scene.stage.fault(&before, fault).await.unwrap();
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
    let status = status_when(serving, "another is the primary", moved);
    let (primary, changed) = (writer(&status), Instant::now());
    // A site's script informs the balancer after a failover that nobody ordered.
    let key = std::fs::read_to_string(serving.state("api.key")).unwrap();
    let inform = informed::line(&format!("http://{}", serving.http), key.trim());
    let said = informed::answer(&mut Command::new("sh"), &inform);
    informed::nothing_was_moved(&said, serving, &primary, &status["term"]);
    writers.more(50).await;
    let replica = others.iter().find(|node| **node != primary).unwrap();
    let follows = |status: &Value| scene.follows(status, replica) == scene.address(&primary);
    status_when(serving, "the other replica follows it", follows);
    let told = writers.stop().await;
    println!(
        "          {fault}: longest time without a commit {:?}, errors {:?}",
        told.gap(began),
        told.errors
    );
    scene.has_all(&told, &others).await;

    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    let follows =
        |status: &Value| is_well(status) && scene.follows(status, &before) == scene.address(&primary);
    status_when(serving, "the old primary follows the new one", follows);
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    let more = writers.stop().await;
    assert_eq!(more.errors, Vec::<String>::new());
    scene.has_exactly(&more, &["db1", "db2", "db3"]).await;
    scene.has_all(&told, &[&before]).await;
    if fault == Fault::Kill {
        informed::moves_after_the_window(&inform, serving, changed);
    }
}

/// One switchover after another while clients write, some of whose statements wait for each of them: none is late, and nobody sees an error.
async fn again(scene: &Scene, serving: &Serving) {
    let writers = Writers::at(scene.through());
    for _ in 0..SWITCHOVERS {
        writers.more(5).await;
        let before = writer(&status_when(serving, "all are well", is_well));
        let to = if before == "db1" { "db2" } else { "db1" };
        serving.ask(&["switchover", "--to", to]).with(0);
    }
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    status_when(serving, "all are well", is_well);
}
