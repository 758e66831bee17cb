//! A cluster that has lost its majority, on real servers: who may go on, and who may not.
//!
//! ```text
//!   db1 and db2 cut off, alive ─> not bootstrapped ─> both killed, with what db3 has not ─> not bootstrapped ─> begun anew on db1
//!     ─> db1 and db2 killed within 0.3 s under load ─> db3 goes on, nothing lost ─> they come back and join
//!     ─> the same by hand: refused, refused, shown, ordered ─> all three dead: which is to be started first
//!     ─> db3 is bootstrapped alone beside the others: refused, also when they die ─> the advice is followed ─> once more, and it is taken
//! ```

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{Ended, Serving, bin, directory, understudy, until, with_config};
use testbed::writers;

use crate::lost_member::scene::{
    self, PATIENCE, Scene, is_well, journal, journal_with, status_when, two_writers,
};

/// Between the deaths of two nodes: the first is evicted meanwhile, so that each of them dies in another view.
const BETWEEN: Duration = Duration::from_millis(300);
/// Silence is noticed sooner than by default, to save time.
const OPTIONS: &str = "evs.keepalive_period=PT0.2S;evs.inactive_check_period=PT0.1S;evs.suspect_timeout=PT0.6S;\
                       evs.inactive_timeout=PT2S;evs.install_timeout=PT1S;evs.join_retrans_period=PT0.2S";

/// What the group needs to say non-Primary, a second of calm, the proofs, and the new writer's barrier, on a busy machine.
const STANDSTILL_MAX: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_majority_goes_on_only_when_nobody_else_can() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = up().await;
    if !scene.stage.is_namespaced() {
        println!("left out: nodes can be cut off from one another as root only");
        return scene.stage.down().await.unwrap();
    }
    told("three nodes are up");
    let directory = config(&scene, "bootstrap = \"proven\"\n");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all well", is_well);
    cut_off(&scene, &serving, &directory).await;
    told(
        "two that were cut off lived, and then were ahead: the third was not bootstrapped, and nothing of theirs was lost",
    );
    killed(&scene, &serving).await;
    told("two were killed under load: the third went on, and they came back");
    drop(serving);
    by_hand(&scene, &config(&scene, "")).await;
    told("the same by hand, and all three dead");
    two_clusters(&scene, &config(&scene, "")).await;
    told(
        "a node that was bootstrapped alone was refused, with the others and without them, and taken by an operator's word",
    );
    scene.stage.down().await.unwrap();
}

/// A row that the test writes itself.
enum ByHand {
    CutOff,
    BesideIt,
    OfItsOwn,
    GivenUp,
}

/// Writers have numbers from 1.
fn row(by_hand: ByHand) -> String {
    format!("INSERT INTO {APP_SCHEMA}.w VALUES (0, {})", by_hand as u8)
}

async fn up() -> Scene {
    let name = format!("t{}-gone", std::process::id());
    let plan = StagePlan { name, galera_options: OPTIONS.into(), ..StagePlan::default() };
    let stage = Stage::up(plan).await.unwrap();
    writers::make_table(&stage).await;
    Scene { stage }
}

/// A configuration with `policy`, and the lab's own proof: the nodes' disks are this host's.
fn config(scene: &Scene, policy: &str) -> TempDir {
    let (host, stage) = (scene.stage.host_address(), scene.stage.directory().display());
    let proof = format!(
        "{} recovery position --datadir {stage}/$NODE/data --defaults-file {stage}/$NODE/my.cnf",
        bin()
    );
    let proof = if policy.is_empty() { String::new() } else { format!("proof_command = \"{proof}\"\n") };
    let mut config = format!("[cluster]\nname = \"shop\"\n{policy}{proof}");
    for node in scene.stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
         [listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
    );
    directory(&config)
}

/// The command, with what it is told of the stopped nodes.
fn bootstrap(directory: &TempDir, more: &[&str]) -> Ended {
    let arguments: Vec<&str> = ["recovery", "bootstrap"].into_iter().chain(more.iter().copied()).collect();
    with_config(&directory.path().join("understudy.toml"), &arguments)
}

/// `--datadir NODE=DIR` of these nodes, and an option file that loads Galera.
fn datadirs(scene: &Scene, nodes: &[&str]) -> Vec<String> {
    let directory = scene.stage.directory().display();
    let each = nodes.iter().map(|node| format!("--datadir={node}={directory}/{node}/data"));
    each.chain([format!("--defaults-file={directory}/db1/my.cnf")]).collect()
}

/// From now on, or no longer, nothing that `node` sends to `address` leaves it.
fn block(scene: &Scene, node: &str, address: &str, blocked: bool) {
    let namespace = format!("us-{}-{node}", scene.stage.name());
    let what = if blocked { "add" } else { "del" };
    let status = Command::new("ip")
        .args(["netns", "exec", &namespace, "ip", "route", what, "blackhole", &format!("{address}/32")])
        .status()
        .unwrap();
    assert!(status.success(), "{node}: ip route {what} blackhole {address}");
}

/// db1 and db2 on one side; db3 and Understudy on the other.
fn part(scene: &Scene, blocked: bool) {
    let address = |node: &str| scene.stage.node(node).unwrap().address.ip().to_string();
    for node in ["db1", "db2"] {
        block(scene, node, &address("db3"), blocked);
        block(scene, "db3", &address(node), blocked);
        block(scene, node, &scene.stage.host_address().to_string(), blocked);
    }
}

async fn until_says(scene: &Scene, node: &str, name: &str, value: &str) {
    until_async(&format!("{node}: {name} is {value}"), async || {
        let word = scene.word(node, name).await;
        if word == value { Ok(()) } else { Err(word) }
    })
    .await;
}

/// What must never be: two nodes that say that they are in a Primary component, and are in different ones.
async fn cut_off(scene: &Scene, serving: &Serving, directory: &TempDir) {
    part(scene, true);
    until_says(scene, "db3", "wsrep_cluster_status", "non-Primary").await;
    until_says(scene, "db1", "wsrep_cluster_size", "2").await;
    assert_eq!(scene.word("db1", "wsrep_cluster_status").await, "Primary");
    // Both run, and are asked at the same time: the answer that comes first is told.
    let said = journal_with(serving, " is not proven to be dead: ");
    assert!(said.contains("and none is bootstrapped: db"), "{said}");
    assert!(said.contains("a server runs (process "), "{said}");
    let data = format!("{}/db1/data", scene.stage.directory().display());
    let refused = understudy(&["recovery", "position", "--datadir", &data]).with(1);
    assert!(refused.contains("a server runs"), "{refused}");
    // They go on without db3, and have what that has not.
    scene.stage.run_in("db1", &row(ByHand::CutOff)).await.unwrap();
    for node in ["db1", "db2"] {
        scene.stage.fault(node, Fault::Kill).await.unwrap();
    }
    let said = journal_with(serving, "is ahead of db3");
    assert!(!said.contains("bootstrapping it"), "{said}");
    // Somebody who is wrong about it is told.
    let dirs = datadirs(scene, &["db1", "db2"]);
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let refused = bootstrap(directory, &[&["--yes"], dirs.as_slice()].concat()).with(1);
    assert!(refused.contains("is ahead of db3"), "{refused}");
    assert_eq!(scene.word("db3", "wsrep_cluster_status").await, "non-Primary");

    // As it is told: db3 is stopped, so that Galera cannot go on with what that has.
    part(scene, false);
    scene.stage.fault("db3", Fault::Stop).await.unwrap();
    scene.stage.wait_gone("db3", PATIENCE).await.unwrap();
    for node in ["db1", "db2", "db3"] {
        scene.stage.fault(node, Fault::Heal).await.unwrap();
    }
    status_when(serving, "all well again", is_well);
    let rows = scene.stage.run_in("db3", &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w")).await.unwrap();
    assert_eq!(rows[0][0], "1", "what was written on the other side");
}

async fn killed(scene: &Scene, serving: &Serving) {
    let count = || async {
        let rows = scene.stage.run_in("db3", &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w")).await.unwrap();
        rows[0][0].parse::<usize>().unwrap()
    };
    let before = count().await;
    let writers = two_writers(SocketAddr::from((scene.stage.host_address(), 6033)));
    writers.more(100).await;
    let fault = scene.stage.fault("db1", Fault::Kill).await.unwrap();
    tokio::time::sleep(BETWEEN).await;
    scene.stage.fault("db2", Fault::Kill).await.unwrap();
    let said = journal_with(serving, "db3 is a Primary component again (pc.bootstrap)");
    assert!(
        said.contains("db1 and db2 are proven not to run, and nothing on their disks is newer"),
        "{said}"
    );
    writers.more(100).await;
    let told = writers.stop().await;
    let gap = told.gap(fault);
    println!(
        "          two killed: longest time without a commit {gap:?}, {} without an outcome",
        told.errors.len()
    );
    assert!(gap < STANDSTILL_MAX, "{gap:?}");
    let rows = count().await - before;
    let (acknowledged, errors) = (told.acknowledged.len(), told.errors.len());
    assert!(rows >= acknowledged, "lost: {acknowledged} acknowledged, {rows} there");
    assert!(rows <= acknowledged + errors, "doubled: {acknowledged} acknowledged, {rows} there");

    for node in ["db1", "db2"] {
        scene.stage.fault(node, Fault::Heal).await.unwrap();
    }
    status_when(serving, "all well again", is_well);
    assert_eq!(scene.word("db1", "wsrep_cluster_size").await, "3");
    assert_eq!(serving.status()["bootstraps"], Value::from(1));
    assert_eq!(journal(serving).matches("bootstrapping it").count(), 1);
}

async fn by_hand(scene: &Scene, directory: &TempDir) {
    for node in ["db1", "db2"] {
        scene.stage.fault(node, Fault::Kill).await.unwrap();
    }
    until_says(scene, "db3", "wsrep_cluster_status", "non-Primary").await;
    for (more, condition, lifted_by) in [
        (&[][..], "db1 does not answer (nothing listens there", "--dead db1 --position db1=UUID:SEQNO"),
        (
            &["--dead", "db1", "--dead", "db2", "--yes"],
            "it is not known what db1 has",
            "recovery position --datadir",
        ),
        (&["--lost", "db1", "--yes"], "db2 does not answer", "--dead db2"),
    ] {
        let said = bootstrap(directory, more).with(1);
        assert!(said.contains(condition) && said.contains(lifted_by), "{said}");
    }
    let dirs = datadirs(scene, &["db1", "db2", "db3"]);
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let shown = bootstrap(directory, &dirs).with(0);
    assert!(shown.contains("db3 is the most advanced, and every other node is down"), "{shown}");
    assert!(shown.contains("nothing was changed: --yes orders it"), "{shown}");
    // An order that is read too late does nothing; here its limit was never set, which is as late as can be.
    scene.stage.run_in("db3", topology::galera::sql::BOOTSTRAP).await.unwrap();
    for _ in 0..10 {
        assert_eq!(scene.word("db3", "wsrep_cluster_status").await, "non-Primary");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let tried = bootstrap(directory, &[&["--yes", "--dry-run"], dirs.as_slice()].concat()).with(0);
    assert!(tried.contains("nothing was changed"), "{tried}");
    let done = bootstrap(directory, &[&["--yes"], dirs.as_slice()].concat()).with(0);
    assert!(done.contains("db3 is in a Primary component again"), "{done}");
    assert_eq!(scene.word("db3", "wsrep_cluster_status").await, "Primary");
    let refused = bootstrap(directory, &dirs).with(1);
    assert!(refused.contains("there is nothing to bootstrap"), "{refused}");

    scene.stage.fault("db3", Fault::Kill).await.unwrap();
    until("db3 is gone", || {
        let said = bootstrap(directory, &[dirs.as_slice(), &["--json"]].concat());
        (said.code == 0).then(|| assert_eq!(said.json()["decision"]["first"], "db3"))
    });
    let said = bootstrap(directory, &dirs).with(0);
    assert!(said.contains("no node runs. db3 is the most advanced. In this order:"), "{said}");
    assert!(said.contains("on db3: galera_new_cluster\n    on db1: systemctl start mariadb"), "{said}");
}

/// db3 is bootstrapped alone while db1 and db2 go on without it.
async fn two_clusters(scene: &Scene, directory: &TempDir) {
    for node in ["db3", "db1", "db2"] {
        scene.stage.fault(node, Fault::Heal).await.unwrap();
    }
    let count = || async {
        let rows = scene.stage.run_in("db3", &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w")).await.unwrap();
        rows[0][0].parse::<usize>().unwrap()
    };
    let serving = Serving::start(directory.path());
    status_when(&serving, "all well", is_well);
    let before = count().await;
    if scene::writer(&serving.status()) == "db3" {
        serving.ask(&["switchover", "--to", "db1"]).with(0);
    }
    alone(scene, &serving).await;
    scene.stage.run_in("db1", &row(ByHand::BesideIt)).await.unwrap();
    // Past Understudy, as a person does who takes it for the cluster.
    scene.stage.run_in("db3", &row(ByHand::OfItsOwn)).await.unwrap();
    let refused = serving.ask(&["switchover", "--to", "db3"]).with(1);
    assert!(refused.contains("there are two clusters: it is Primary without db1, db2"), "{refused}");
    let refused = serving.ask(&["undrain", "db3"]).with(1);
    assert!(refused.contains("which is in the other cluster"), "{refused}");
    let config = directory.path().join("understudy.toml");
    let apart = "Primary, and not in one component";
    for command in [&["serve", "--check"][..], &["doctor"], &["recovery", "bootstrap"]] {
        let said = with_config(&config, command).with(1);
        assert!(said.contains(apart), "{said}");
    }
    // The others die.
    gone(scene, &serving).await;
    let refused = with_config(&config, &["recovery", "bootstrap"]).with(1);
    assert!(refused.contains("there are two clusters: db3 is Primary"), "{refused}");
    for command in [&["serve", "--check"][..], &["doctor"]] {
        let said = with_config(&config, command).with(1);
        assert!(said.contains("Primary without db1, db2, which had the last acknowledged writes"), "{said}");
    }
    // It is remembered on disk, too.
    drop(serving);
    let serving = Serving::start(directory.path());
    status_when(&serving, "it is refused after a restart", is_apart);
    journal_with(&serving, "no node can write");
    assert_eq!(count().await, before + 1, "nobody else wrote there");

    // As it is told: it is stopped, and takes a full copy of the others.
    assert!(refused.contains("remove their grastate.dat"), "{refused}");
    scene.stage.fault("db3", Fault::Stop).await.unwrap();
    scene.stage.wait_gone("db3", PATIENCE).await.unwrap();
    std::fs::remove_file(scene.stage.directory().join("db3/data/grastate.dat")).unwrap();
    for node in ["db1", "db2", "db3"] {
        scene.stage.fault(node, Fault::Heal).await.unwrap();
    }
    status_when(&serving, "all well again", is_well);
    let number = ByHand::OfItsOwn as u8;
    let own = format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w WHERE writer = 0 AND number = {number}");
    assert_eq!(scene.stage.run_in("db3", &own).await.unwrap()[0][0], "0");
    assert_eq!(count().await, before + 1, "what was written beside it");
    journal_with(&serving, "db3, which was in another cluster, is back");

    // Once more, and an operator gives up what the others have.
    alone(scene, &serving).await;
    scene.stage.run_in("db1", &row(ByHand::GivenUp)).await.unwrap();
    gone(scene, &serving).await;
    serving.ask(&["undrain", "db3"]).with(0);
    status_when(&serving, "it writes", |status| scene::writer(status) == "db3");
    assert_eq!(count().await, before + 1);
}

fn db3(status: &Value) -> &Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == "db3").unwrap()
}

fn is_apart(status: &Value) -> bool {
    db3(status)["reason"].as_str().is_some_and(|why| why.starts_with("there are two clusters"))
}

/// db3 is stopped, and somebody bootstraps it.
async fn alone(scene: &Scene, serving: &Serving) {
    scene.stage.fault("db3", Fault::Stop).await.unwrap();
    scene.stage.wait_gone("db3", PATIENCE).await.unwrap();
    scene.stage.bootstrap_alone("db3").await.unwrap();
    status_when(serving, "db3 is told to be another cluster", is_apart);
    assert_ne!(scene::writer(&serving.status()), "db3");
}

/// db1 and db2 die while db3 is alone.
async fn gone(scene: &Scene, serving: &Serving) {
    for node in ["db1", "db2"] {
        scene.stage.fault(node, Fault::Kill).await.unwrap();
    }
    // Not by the journal: it may have said before that no node can write.
    let are_dead = |status: &Value| {
        let dead = status["nodes"].as_array().unwrap().iter().filter(|node| node["state"] == "dead");
        dead.count() == 2 && status["gate"] == "held"
    };
    let status = status_when(serving, "db1 and db2 are dead", are_dead);
    assert!(is_apart(&status), "{status}");
    assert_eq!(db3(&status)["lane"], "shut", "{status}");
}
