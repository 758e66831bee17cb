//! `understudy warm` beside a running cluster: the standbys are warmed, the active node never is, also behind a switchover.

use std::path::PathBuf;
use std::process::Stdio;

use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use lab::stage::{Form, Kind, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};

use super::program::Serving;
use super::scene::{Scene, is_well, status_when, writer};
use super::{Ends, Streamer, called, until};

const NODES: [&str; 3] = ["db1", "db2", "db3"];

/// What a node was asked, by its general log.
fn heard(scene: &Scene, node: &str) -> Vec<u64> {
    let log = std::fs::read(data(scene, node).join("general.log")).unwrap();
    let text = String::from_utf8_lossy(&log);
    text.lines()
        .filter_map(|line| line.split_once("SELECT ")?.1.strip_suffix(" AS n FROM w LIMIT 1")?.parse().ok())
        .collect()
}

fn data(scene: &Scene, node: &str) -> PathBuf {
    scene.stage.directory().join(node).join("data")
}

/// So many reads of an application, each with a number of its own.
async fn read(scene: &Scene, numbers: std::ops::Range<u64>) {
    let to = scene.through();
    let options = OptsBuilder::default()
        .ip_or_hostname(to.ip().to_string())
        .tcp_port(to.port())
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD))
        .db_name(Some(APP_SCHEMA));
    let mut conn = Conn::new(options).await.unwrap();
    for number in numbers {
        conn.query_drop(format!("SELECT {number} AS n FROM w LIMIT 1")).await.unwrap();
    }
    conn.disconnect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn standbys_are_warmed_and_the_active_node_never_is() {
    let options = [
        "slow_query_log=1",
        "long_query_time=0",
        "slow_query_log_file=slow.log",
        "general_log=1",
        "general_log_file=general.log",
    ];
    let scene = Scene::on(StagePlan {
        kind: Kind::Replication { semi_sync: false },
        name: format!("t{}-warm", std::process::id()),
        form: Form::Loopback,
        server_options: options.map(str::to_owned).to_vec(),
        ..StagePlan::default()
    })
    .await;
    for sql in [
        "CREATE USER warm@'%' IDENTIFIED BY 'secret'".to_owned(),
        format!("GRANT SELECT ON {APP_SCHEMA}.* TO warm@'%'"),
    ] {
        scene.stage.run_in("db1", &sql).await.unwrap();
    }
    let house = scene.house("");
    let serving = Serving::start(house.path());
    status_when(&serving, "all are well", is_well);
    let streamers = NODES.map(|node| {
        let host = scene.stage.node(node).unwrap().address.ip();
        Streamer::start(data(&scene, node).join("slow.log").to_str().unwrap(), &format!("{host}:3307"))
    });
    let told = house.path().join("warm.log");
    let warming = called("understudy")
        .args(["warm", "--user", "warm", "--skip-user", "understudy", "--config"])
        .arg(house.path().join("understudy.toml"))
        .env("UNDERSTUDY_PASSWORD", "secret")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&told).unwrap())
        .spawn()
        .unwrap();
    let _warming = Ends(warming);
    let both_read = |streamer: &Streamer| streamer.metric("readers") == 2;
    until("both standbys are warmed", || both_read(&streamers[0]));
    read(&scene, 0..200).await;
    let expected: Vec<u64> = (0..200).collect();
    let has = |node: &str, expected: &[u64]| {
        let mut numbers = heard(&scene, node);
        numbers.retain(|number| expected.contains(number));
        numbers.sort_unstable();
        numbers == expected
    };
    for node in ["db2", "db3"] {
        let begin = std::time::Instant::now();
        while !has(node, &expected) {
            let said = std::fs::read_to_string(&told).unwrap();
            assert!(
                begin.elapsed() < super::DEADLINE,
                "{node} heard {:?}; {said}; {} events",
                heard(&scene, node),
                streamers[0].metric("events_total")
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    assert!(has("db1", &expected), "{:?}", heard(&scene, "db1"));

    serving.ask(&["switchover", "--to", "db2"]).said();
    let status =
        status_when(&serving, "db2 is the primary", |status| writer(status) == "db2" && is_well(status));
    assert_eq!(writer(&status), "db2");
    until("the others are warmed from it", || {
        both_read(&streamers[1]) && streamers[0].metric("readers") == 0
    });
    read(&scene, 1000..1200).await;
    let expected: Vec<u64> = (1000..1200).collect();
    for node in ["db1", "db3"] {
        until("a standby ran what the new primary was asked", || has(node, &expected));
    }
    assert!(has("db2", &expected), "{:?}", heard(&scene, "db2"));
}
