//! A primary and two replicas whose slow logs are streamed, an account that reads, and what each node heard.

use std::path::PathBuf;

use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use lab::stage::{ClusterKind, Form, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use testbed::scene::Scene;

use super::{Streamer, until};

pub const NODES: [&str; 3] = ["db1", "db2", "db3"];

/// Every statement is in the slow log and in the general log.
pub async fn cluster(name: &str) -> Scene {
    cluster_with(name, &[]).await
}

/// The same, with further options of the servers.
pub async fn cluster_with(name: &str, further: &[&str]) -> Scene {
    let options = [
        "slow_query_log=1",
        "long_query_time=0",
        "slow_query_log_file=slow.log",
        "general_log=1",
        "general_log_file=general.log",
    ];
    let scene = Scene::on(StagePlan {
        kind: ClusterKind::Replication { semi_sync: false },
        name: format!("t{}-{name}", std::process::id()),
        form: Form::Loopback,
        server_options: options.iter().chain(further).map(|option| (*option).to_owned()).collect(),
        ..StagePlan::default()
    })
    .await;
    for sql in [
        "CREATE USER warm@'%' IDENTIFIED BY 'secret'".to_owned(),
        format!("GRANT SELECT ON {APP_SCHEMA}.* TO warm@'%'"),
    ] {
        scene.stage.run_in("db1", &sql).await.unwrap();
    }
    scene
}

pub fn slow_log(scene: &Scene, node: &str) -> PathBuf {
    scene.stage.directory().join(node).join("data/slow.log")
}

/// One at each node, at port 3307.
pub fn streamers(scene: &Scene) -> [Streamer; 3] {
    NODES.map(|node| {
        let host = scene.stage.node(node).unwrap().address.ip();
        Streamer::start(slow_log(scene, node).to_str().unwrap(), &format!("{host}:3307"), &[])
    })
}

pub fn general_log(scene: &Scene, node: &str) -> String {
    let log = std::fs::read(scene.stage.directory().join(node).join("data/general.log")).unwrap();
    String::from_utf8_lossy(&log).into_owned()
}

/// The numbers that a node was asked, by its general log.
fn heard(scene: &Scene, node: &str) -> Vec<u64> {
    general_log(scene, node)
        .lines()
        // Not what is run to learn how warm it is: ANALYZE FORMAT=JSON SELECT ...
        .filter_map(|line| {
            line.split_once("Query\tSELECT ")?.1.strip_suffix(" AS n FROM w LIMIT 1")?.parse().ok()
        })
        .collect()
}

/// Whether a node was asked each of these numbers, exactly once.
pub fn has_once(scene: &Scene, node: &str, numbers: std::ops::Range<u64>) -> bool {
    let mut asked = heard(scene, node);
    asked.retain(|number| numbers.contains(number));
    asked.sort_unstable();
    asked.into_iter().eq(numbers)
}

/// Whether a node was asked any of them.
pub fn has_any(scene: &Scene, node: &str, numbers: std::ops::Range<u64>) -> bool {
    heard(scene, node).iter().any(|number| numbers.contains(number))
}

/// So many reads of an application through Understudy, which the active node runs once and each of the standbys is replayed once.
pub async fn read_and_replay(
    scene: &Scene,
    numbers: std::ops::Range<u64>,
    (active, standbys): (&str, &[&str]),
) {
    let mut conn = application(&scene.through().to_string()).await;
    read(&mut conn, numbers.clone()).await;
    conn.disconnect().await.unwrap();
    for standby in standbys {
        until("a standby ran what the active node was asked", || has_once(scene, standby, numbers.clone()));
    }
    assert!(has_once(scene, active, numbers), "{active} heard {:?}", heard(scene, active));
}

/// A connection of the application.
pub async fn application(address: &str) -> Conn {
    let (host, port) = address.rsplit_once(':').unwrap();
    let options = OptsBuilder::default()
        .ip_or_hostname(host)
        // It would go past the proxy otherwise: to the socket that the server names.
        .prefer_socket(false)
        .tcp_port(port.parse().unwrap())
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD))
        .db_name(Some(APP_SCHEMA));
    Conn::new(options).await.unwrap()
}

/// Reads, each with a number of its own.
pub async fn read(conn: &mut Conn, numbers: std::ops::Range<u64>) {
    for number in numbers {
        conn.query_drop(format!("SELECT {number} AS n FROM w LIMIT 1")).await.unwrap();
    }
}
