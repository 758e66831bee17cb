//! One port for reads and writes (`listen.split`) before a primary and two replicas, on real servers: sessions write and read what they wrote,
//! others only read, while replicas die and the primary moves; nobody sees an error, a wrong answer, or less than before.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lab::fault::Fault;
use mysql_async::Error;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{self, Serving};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::{Writers, connect};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::readers::Readers;

fn directory(scene: &Scene) -> TempDir {
    let directory = scene.directory("failover_gap_ms = 0");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let config = config.replacen("[listen]\n", "[listen]\nsplit = true\n", 1) + "[read]\nlag_max_ms = 1500\n";
    std::fs::write(&file, config).unwrap();
    directory
}

/// Exactly these take reads.
fn read_by<'a>(nodes: &'a [&str]) -> impl Fn(&Value) -> bool + use<'a> {
    move |status| {
        let all = status["nodes"].as_array().unwrap();
        let open = all.iter().filter(|node| node["reads"]["lane"] == "open");
        open.map(|node| node["name"].as_str().unwrap()).eq(nodes.iter().copied())
    }
}

fn split_off(status: &Value) -> u64 {
    status["proxy"]["split"]["replicas"].as_u64().unwrap()
}

/// Sessions that write a row and read it at once.
struct Careful {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<(u64, Vec<String>)>>,
}

impl Careful {
    fn at(address: SocketAddr) -> Self {
        let (stop, stopped) = watch::channel(false);
        let tasks = (0..4u64).map(|at| tokio::spawn(write_and_read(address, 1000 + at, stopped.clone())));
        Self { stop, tasks: tasks.collect() }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            let (reads, wrong) = timeout(program::LONG, task).await.unwrap().unwrap();
            println!("          {reads} reads of one's own");
            assert_eq!(wrong, Vec::<String>::new());
            assert!(reads > 50);
        }
    }
}

async fn write_and_read(
    address: SocketAddr,
    session: u64,
    stopped: watch::Receiver<bool>,
) -> (u64, Vec<String>) {
    let mut conn = connect(address).await.unwrap();
    let (mut reads, mut number, mut wrong) = (0, 0u64, vec![]);
    let question = format!("SELECT MAX(number) FROM w WHERE writer = {session}");
    while !*stopped.borrow() {
        number += 1;
        let insert = format!("INSERT INTO w VALUES ({session}, {number})");
        let written = timeout(program::LONG, conn.query_drop(insert)).await.unwrap();
        match timeout(program::LONG, conn.query_first::<Option<u64>, _>(&question)).await.unwrap() {
            Ok(found) => {
                let found = found.flatten().unwrap_or(0);
                reads += 1;
                // A write whose outcome nobody knows may be there.
                if found != number && !(written.is_err() && found + 1 == number) {
                    wrong.push(format!("session {session} reads {found} after it wrote {number}"));
                }
            }
            Err(error) => wrong.push(format!("a read: {error}")),
        }
        if let Err(error) = written {
            match error {
                Error::Server(error) if matches!(error.code, 1213 | 9101) => {}
                error => wrong.push(format!("a write: {error}")),
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
    (reads, wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_read_what_they_wrote_whatever_becomes_of_the_servers() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::of("split", true).await;
    let directory = directory(&scene);
    let serving = Serving::start(directory.path());
    status_when(&serving, "both replicas take reads", read_by(&["db2", "db3"]));
    let writing = Writers::at(scene.through());
    writing.more(20).await;
    let readers = Readers::at(scene.through(), writing.first(), "0").await;
    let careful = Careful::at(scene.through());
    let spread =
        |least: u64| status_when(&serving, "reads are split off", |status| split_off(status) > least);
    let status = spread(500);
    readers.since().is_right("spread");
    told(&format!("reads are split off: {}", status["proxy"]["split"]));

    for fault in [Fault::Kill, Fault::Freeze] {
        scene.stage.fault("db3", fault).await.unwrap();
        status_when(&serving, "db2 takes reads alone", read_by(&["db2"]));
        spread(split_off(&serving.status()) + 200);
        readers.since().is_right(&format!("{fault} of a replica"));
        let heal = if fault == Fault::Freeze { Fault::Thaw } else { Fault::Heal };
        scene.stage.fault("db3", heal).await.unwrap();
        status_when(&serving, "db3 takes reads again", read_by(&["db2", "db3"]));
    }
    told("a replica was killed, and one was frozen");

    scene.break_applying("db1", &["db2", "db3"]).await;
    status_when(&serving, "the primary takes the reads", |status| {
        ["db2", "db3"].iter().all(|node| scene.node(status, node)["reads"]["lane"] != "open")
    });
    sleep(Duration::from_secs(1)).await;
    scene.mend_applying(&["db2", "db3"]).await;
    status_when(&serving, "both take reads again", read_by(&["db2", "db3"]));
    readers.since().is_right("no replica applies");
    told("no replica applied for a second");

    status_when(&serving, "all are well", is_well);
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    status_when(&serving, "the others take reads", read_by(&["db1", "db3"]));
    spread(split_off(&serving.status()) + 200);
    readers.since().is_right("switchover");
    told("a switchover");

    status_when(&serving, "all are well", is_well);
    readers.may_lack_one();
    scene.stage.fault("db2", Fault::Kill).await.unwrap();
    let status = status_when(&serving, "another is the primary", |status| {
        status["gate"] == "open" && writer(status) != "db2"
    });
    let other = if writer(&status) == "db1" { "db3" } else { "db1" };
    status_when(&serving, "the other takes reads", read_by(&[other]));
    let status = spread(split_off(&serving.status()) + 200);
    readers.since().is_right("failover");
    told(&format!("a failover: {}", status["proxy"]["split"]));

    readers.stop().await.is_right("the end");
    careful.stop().await;
    let shown = serving.ask(&["status"]).with(0);
    assert!(shown.contains("split   to replicas "), "{shown}");
    let _ = writing.stop().await;
    drop(serving);
    scene.stage.down().await.unwrap();
}
