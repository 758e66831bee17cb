//! `writers = "all"`: every node takes sessions, one is emptied by a limit of no connections, and takes sessions again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::Serving;

use super::clients::{ClientConnection, Traffic, connect};
use super::{APPLICATION, PATIENCE, Scene, is_well, node, status_when};
use crate::unread_result::Unread;

/// The budget of a drain would be 5 s.
const DRAINED_IN_MAX: Duration = Duration::from_secs(3);

/// Starts the program anew over the same nodes; it is stopped in the end.
pub async fn all(scene: &Scene) -> String {
    let config = std::fs::read_to_string(scene.config()).unwrap();
    let config = config
        .replace("id = 5\n", "id = 5\nwriters = \"all\"\n")
        .replace("dir = \"state\"", "dir = \"state-all\"");
    assert!(config.contains("writers = \"all\"") && config.contains("state-all"), "{config}");
    std::fs::write(scene.config(), config).unwrap();
    let mut serving = Serving::start(scene.dir.path());
    let arguments = super::arguments(serving.pid());
    let all_open = |status: &Value| {
        is_well(status) && status["nodes"].as_array().unwrap().iter().all(|node| node["lane"] == "open")
    };
    let status = status_when(&serving, "three open lanes", all_open);
    assert!(status["writer"].is_null(), "{status:#}");

    let mut sessions = Vec::new();
    let mut places = BTreeMap::new();
    for _ in 0..7 {
        let mut session = ClientConnection::open(scene).await;
        // With its first statement a session has a node.
        *places.entry(session.place().await.unwrap()).or_insert(0) += 1;
        sessions.push(session);
    }
    // While nothing runs anywhere, the one with the fewest sessions is the least busy.
    assert_eq!(places.len(), 3, "the least busy first: {places:?}");
    let traffic = Traffic::start(scene).await;

    // What runs on it may end; the session that runs it moves afterwards, like the idle ones.
    let mut busy = None;
    for session in &mut sessions {
        if session.place().await.unwrap() == "db2" {
            busy = Some((session.begin().await.unwrap(), session));
            break;
        }
    }
    let (key, session) = busy.expect("a session on db2");
    let dir = serving.dir().to_owned();
    let order = tokio::task::spawn_blocking(move || {
        testbed::program::with_config(&dir.join("understudy.toml"), &["set-max-connections", "db2", "0"])
    });
    status_when(&serving, "db2 takes nothing new", |status| node(status, "db2")["lane"] != "open");
    session.commit(key).await.expect("a running transaction may end");
    assert!(session.sees(key).await.unwrap(), "and is seen from the session's next node");
    assert_ne!(session.place().await.unwrap(), "db2");
    let said = order.await.unwrap().with(0);
    assert!(said.contains("db2"), "{said}");
    let count =
        format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{}'", APPLICATION.0);
    let gone = async {
        while scene.sql("db2", &count).await != [["0"]] {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the application left db2");
    for session in &mut sessions {
        assert_ne!(session.place().await.unwrap(), "db2");
    }

    serving.ask(&["set-max-connections", "db2", "none"]).with(0);
    status_when(&serving, "db2 back", all_open);
    let tally = traffic.stop().await;
    println!("          all write: {tally}");
    assert!(tally.writes > 0 && tally.errors.is_empty() && tally.unseen == 0, "{tally}");
    let mut newcomer = ClientConnection::open(scene).await;
    assert_eq!(newcomer.place().await.unwrap(), "db2", "the least busy");
    unread(scene, &serving).await;
    status_when(&serving, "all back", all_open);
    serving.terminate();
    assert_eq!(serving.ended().code(), Some(0));
    arguments
}

/// A client that has stopped reading its result is cut as soon as its node is to be emptied; nobody waits for it.
async fn unread(scene: &Scene, serving: &Serving) {
    let mut client = connect(scene.mysql).await.unwrap();
    let place: String = client.query_first("SELECT @@wsrep_node_name").await.unwrap().unwrap();
    let unread = Unread::begin(&mut client).await;
    let began = Instant::now();
    let said = serving.ask(&["drain", &place]).with(0);
    println!("          all write: {} after {:.3} s", said.trim(), began.elapsed().as_secs_f64());
    assert!(began.elapsed() < DRAINED_IN_MAX, "{:?}", began.elapsed());
    let end = unread.cut().await;
    assert!(end.to_string().contains("9105"), "{end}");
    assert!(client.query_first::<u8, _>("SELECT 1").await.unwrap() == Some(1));
    serving.ask(&["undrain", &place]).with(0);
}
