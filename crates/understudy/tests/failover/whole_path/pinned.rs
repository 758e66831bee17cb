//! `writers = "all"`: sessions that cannot move, four on each node, while one node dies: those of the other nodes notice a pause at the
//! most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::Serving;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::clients::{ClientConnection, errno};
use super::{PATIENCE, Scene, is_well, status_when};

const COUNT: usize = 12;
/// Between two statements of a session: a doubt lasts a few times as long.
const PACE: Duration = Duration::from_millis(5);
/// How long they are looked at after the death: until long after the group has agreed on who is left.
const AFTERMATH: Duration = Duration::from_secs(4);

/// A session at work: its node, the error that ended it, its longest statement.
struct SessionResult {
    node: String,
    ended: Option<u16>,
    longest: Duration,
}

/// Kills a node twice, another each time; in the end all nodes are back. Builds on the configuration that [`super::all_write`] left.
pub async fn all(scene: &Scene) {
    let mut serving = Serving::start(scene.dir.path());
    for victim in ["db3", "db1"] {
        // The sessions of the death before count as long as they close.
        status_when(&serving, "three open lanes without a session", |status| {
            let all = |of: &Value, is: fn(&Value) -> bool| of.as_array().unwrap().iter().all(is);
            is_well(status)
                && all(&status["nodes"], |node| node["lane"] == "open")
                && all(&status["proxy"]["lanes"], |lane| lane["sessions"] == 0)
        });
        one_death(scene, victim).await;
    }
    serving.terminate();
    assert_eq!(serving.ended().code(), Some(0));
}

async fn one_death(scene: &Scene, victim: &str) {
    let (stop, stopped) = watch::channel(false);
    let mut sessions = vec![];
    let mut places = BTreeMap::new();
    for number in 0..COUNT {
        let mut session = ClientConnection::open(scene).await;
        session.run("CREATE TEMPORARY TABLE own (x INT)").await.unwrap();
        session.run(&format!("INSERT INTO own VALUES ({number})")).await.unwrap();
        let node = session.place().await.unwrap();
        *places.entry(node.clone()).or_insert(0) += 1;
        sessions.push((session, node, number));
    }
    assert!(places.values().all(|count| *count == COUNT / 3), "the least busy first: {places:?}");
    // Only now: what runs counts more than who is there, and a session that opens meanwhile may go where nothing runs just then.
    let tasks: Vec<JoinHandle<SessionResult>> = sessions
        .into_iter()
        .map(|(session, node, number)| tokio::spawn(work(session, node, number, stopped.clone())))
        .collect();

    scene.stage.fault(victim, Fault::Kill).await.unwrap();
    scene.stage.wait_gone(victim, PATIENCE).await.unwrap();
    tokio::time::sleep(AFTERMATH).await;
    stop.send_replace(true);
    let (mut longest, mut elsewhere) = (Duration::ZERO, vec![]);
    for task in tasks {
        let told = tokio::time::timeout(PATIENCE, task).await.expect("it ends").unwrap();
        if told.node == victim {
            // What it had is gone with its node.
            assert!(
                matches!(told.ended, Some(9104 | 0)),
                "a session of {victim} ended with {:?}",
                told.ended
            );
        } else {
            longest = longest.max(told.longest);
            elsewhere.extend(told.ended.map(|errno| (told.node, errno)));
        }
    }
    println!(
        "          kill -9 of {victim}: sessions that cannot move, longest pause elsewhere {} ms",
        longest.as_millis()
    );
    assert!(elsewhere.is_empty(), "{victim} died, and sessions of healthy nodes ended: {elsewhere:?}");
    scene.stage.fault(victim, Fault::Heal).await.unwrap();
    scene.stage.wait_synced(victim, PATIENCE).await.unwrap();
}

async fn work(
    mut session: ClientConnection,
    node: String,
    number: usize,
    stopped: watch::Receiver<bool>,
) -> SessionResult {
    let mut told = SessionResult { node, ended: None, longest: Duration::ZERO };
    while !*stopped.borrow() {
        let began = Instant::now();
        match session.ask("SELECT CAST(SUM(x) AS CHAR) FROM own").await {
            Ok(sum) => assert_eq!(sum, number.to_string(), "another session's table"),
            Err(error) => {
                told.ended = Some(errno(&error));
                return told;
            }
        }
        told.longest = told.longest.max(began.elapsed());
        tokio::time::sleep(PACE).await;
    }
    told
}
