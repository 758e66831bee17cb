//! The stage on real servers: tests starting, faults, healing and that nothing is left behind.
//!
//! As root in network namespaces; without the right to create those, the same on loopback addresses.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::process::{MARK, marked};
use lab::stage::{Form, Stage, StagePlan, account, guard};
use mysql_async::prelude::Queryable;

use crate::ALONE;
use crate::clients::{application, client};
use crate::leftovers::{directory, network, nothing_left};

/// Time limit for everything Galera decides by its own timeouts, doubled.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two checks of a condition.
const PACE: Duration = Duration::from_millis(20);
/// Set for the copy of this program in which [`victim`] runs.
const CHILD: &str = "UNDERSTUDY_STAGE_TEST_CHILD";

fn plan(purpose: &str) -> StagePlan {
    StagePlan { name: format!("t{}-{purpose}", std::process::id()), ..StagePlan::default() }
}

/// The write may wait until the group agrees on its members.
async fn write(stage: &Stage, node: &str, value: u32) {
    let mut connection = application(stage, node).await;
    let insert = connection.query_drop(format!("INSERT INTO sbtest.word VALUES ({value})"));
    tokio::time::timeout(PATIENCE, insert).await.expect("the write takes too long").unwrap();
    connection.disconnect().await.unwrap();
}

/// A causal read fails with 1205 or 1047 while the group agrees on a view, which may happen again after a silent node has come back: then
/// it is repeated.
async fn read(stage: &Stage, node: &str) -> Vec<u32> {
    until_async(&format!("{node} is read"), async || {
        let mut connection = application(stage, node).await;
        connection.query_drop("SET SESSION wsrep_sync_wait = 1").await.unwrap();
        match connection.query("SELECT value FROM sbtest.word ORDER BY value").await {
            Ok(values) => {
                connection.disconnect().await.unwrap();
                Ok(values)
            }
            Err(mysql_async::Error::Server(error)) if matches!(error.code, 1047 | 1205) => {
                println!("{node} is asked again: {error}");
                tokio::time::sleep(PACE).await;
                Err(error)
            }
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_are_broken_mended_and_cleared_away() {
    let _alone = ALONE.lock().await;
    let begin = Instant::now();
    let stage = Stage::up(plan("all")).await.unwrap();
    println!("three nodes up after {:.1} s", begin.elapsed().as_secs_f64());
    let (directory, network) = (directory(&stage), network(&stage));
    assert_eq!(stage.nodes().len(), 3);

    let mut connection = application(&stage, "db1").await;
    connection.query_drop("CREATE TABLE sbtest.word (value INT PRIMARY KEY)").await.unwrap();
    connection.disconnect().await.unwrap();
    write(&stage, "db1", 1).await;
    assert_eq!(read(&stage, "db2").await, [1]);

    let mut monitor = client(&stage, "db3", account::MONITOR_USER, account::MONITOR_PASSWORD).await;
    monitor.query_drop("SET GLOBAL wsrep_provider_options = 'evs.send_window=4'").await.unwrap();
    let accounts: Option<u32> =
        monitor.query_first("SELECT COUNT(*) FROM mysql.global_priv WHERE User = 'sbtest'").await.unwrap();
    assert_eq!(accounts, Some(1));
    monitor.disconnect().await.unwrap();

    // Through a second `Stage` value, as `lab fault` does it.
    let other = Stage::attach(stage.name()).unwrap();
    other.fault("db3", Fault::Kill).await.unwrap();
    stage.wait_gone("db3", PATIENCE).await.unwrap();
    assert_eq!(stage.report().await.unwrap()[2].pid, None);
    write(&stage, "db1", 2).await;
    stage.fault("db3", Fault::Heal).await.unwrap();
    drop(other);
    assert_eq!(read(&stage, "db3").await, [1, 2]);
    let log = std::fs::read_to_string(&stage.node("db3").unwrap().error_log).unwrap();
    assert!(log.contains("IST received"), "a killed node comes back by an incremental transfer");
    let transfers = || log.lines().filter(|line| line.contains("IST") || line.contains("SST"));
    assert!(
        !log.contains("Proceeding with SST"),
        "a killed node needs no full transfer:\n{}",
        transfers().collect::<Vec<_>>().join("\n")
    );

    stage.fault("db3", Fault::Freeze).await.unwrap();
    assert!(stage.report().await.unwrap()[2].frozen);
    write(&stage, "db2", 3).await;
    stage.fault("db3", Fault::Thaw).await.unwrap();
    stage.fault("db3", Fault::Heal).await.unwrap();
    assert_eq!(read(&stage, "db3").await, [1, 2, 3]);

    if stage.is_namespaced() {
        stage.fault("db2", Fault::Vanish).await.unwrap();
        let address = stage.node("db2").unwrap().address;
        let reached =
            tokio::time::timeout(Duration::from_secs(1), tokio::net::TcpStream::connect(address)).await;
        assert!(!matches!(reached, Ok(Ok(_))), "a vanished node was reached");
        stage.run_in("db2", "SELECT 1").await.unwrap();
        write(&stage, "db1", 4).await;
        stage.fault("db2", Fault::Heal).await.unwrap();
        assert_eq!(read(&stage, "db2").await, [1, 2, 3, 4]);
    }

    stage.fault("db1", Fault::Stop).await.unwrap();
    stage.fault("db1", Fault::Heal).await.unwrap();
    assert!(
        stage
            .report()
            .await
            .unwrap()
            .iter()
            .all(|node| node.word.as_ref().is_some_and(lab::stage::Word::is_well))
    );

    let error = stage.fault("db9", Fault::Kill).await.unwrap_err().to_string();
    assert!(error.ends_with("there is db1, db2, db3"), "{error}");
    let again =
        Stage::up(StagePlan { name: stage.name().to_owned(), ..StagePlan::default() }).await.unwrap_err();
    assert!(again.to_string().contains("is up already"), "{again}");

    stage.down().await.unwrap();
    nothing_left(&directory, &network);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_dead_nodes_begin_anew_from_the_one_that_knows_most() {
    let _alone = ALONE.lock().await;
    let stage = Stage::up(StagePlan { nodes: 2, ..plan("anew") }).await.unwrap();
    let mut connection = application(&stage, "db1").await;
    connection.query_drop("CREATE TABLE sbtest.word (value INT PRIMARY KEY)").await.unwrap();
    connection.disconnect().await.unwrap();
    stage.fault("db2", Fault::Stop).await.unwrap();
    stage.wait_gone("db2", PATIENCE).await.unwrap();
    write(&stage, "db1", 1).await;
    stage.fault("db1", Fault::Kill).await.unwrap();
    stage.wait_gone("db1", PATIENCE).await.unwrap();

    let error = stage.start("db2").await.unwrap_err().to_string();
    assert!(error.contains("db1 knows") && error.contains("start it first"), "{error}");
    stage.fault("db1", Fault::Heal).await.unwrap();
    stage.fault("db2", Fault::Heal).await.unwrap();
    assert_eq!(read(&stage, "db2").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_loopback_a_node_cannot_vanish_and_drop_clears_away() {
    let _alone = ALONE.lock().await;
    let stage = Stage::up(StagePlan { nodes: 2, form: Form::Loopback, ..plan("loop") }).await.unwrap();
    let directory = directory(&stage);
    assert!(stage.host_address().is_loopback());
    let mut connection = application(&stage, "db2").await;
    connection.query_drop("CREATE TABLE sbtest.word (value INT PRIMARY KEY)").await.unwrap();
    connection.disconnect().await.unwrap();
    write(&stage, "db2", 7).await;
    assert_eq!(read(&stage, "db1").await, [7]);
    let error = stage.fault("db2", Fault::Vanish).await.unwrap_err().to_string();
    assert!(error.starts_with("db2 cannot vanish: "), "{error}");
    drop(stage);
    nothing_left(&directory, &[]);
}

/// Not a separate test: the body of the process that the next two tests end.
#[tokio::test(flavor = "multi_thread")]
async fn victim() {
    let Ok(name) = std::env::var(CHILD) else { return };
    let ended = guard(async {
        let stage = Stage::up(StagePlan { name, nodes: 1, ..StagePlan::default() }).await?;
        let network: Vec<String> = network(&stage).iter().map(|path| path.display().to_string()).collect();
        println!("up at {} with {}", directory(&stage).display(), network.join(" "));
        tokio::time::sleep(PATIENCE).await;
        stage.down().await
    });
    assert!(ended.await.is_err_and(|error| error.is::<lab::stage::Interrupted>()));
}

/// Starts [`victim`] in its own process; returns once its stage is up.
fn start_victim(purpose: &str) -> (std::process::Child, PathBuf, Vec<PathBuf>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "galera::victim", "--nocapture"])
        .env(CHILD, format!("t{}-{purpose}", std::process::id()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let up = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.contains("up at "))
        .expect("the victim's stage");
    // Its last output must not go to a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let (path, network) = up.split_once("up at ").unwrap().1.split_once(" with ").unwrap();
    (child, PathBuf::from(path), network.split_whitespace().map(PathBuf::from).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigkill_of_the_owner_leaves_no_server_and_the_next_stage_sweeps_the_rest() {
    let _alone = ALONE.lock().await;
    let (mut child, directory, network) = start_victim("shot");
    assert!(!marked(&directory).is_empty());
    // In place of a state transfer's script: it carries the mark, and is not a child of the victim's process parent.
    let mut script = Command::new("sleep").arg("300").env(MARK, &directory).spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    until_async("no server survives its owner", async || {
        let left = marked(&directory);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    assert!(!script.wait().unwrap().success(), "ended by the watchdog");
    Stage::up(StagePlan { nodes: 1, ..plan("next") }).await.unwrap().down().await.unwrap();
    nothing_left(&directory, &network);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_of_the_owner_clears_everything_away() {
    let _alone = ALONE.lock().await;
    let (mut child, directory, network) = start_victim("asked");
    let asked = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert!(child.wait().unwrap().success());
    nothing_left(&directory, &network);
}
