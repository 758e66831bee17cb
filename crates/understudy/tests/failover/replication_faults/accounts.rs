//! The first commit on a new primary is a statement about accounts. It waits for a replica, and nobody can log in while it waits, no replica
//! either: the new primary must not be opened before one has attached to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::fault::Fault;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use serde_json::Value;
use testbed::program::{LONG, Serving};
use testbed::scene::{Scene, journal, status_when, writer};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::settled;

/// A client that creates and drops an account, again and again, and nothing else.
struct Accounts {
    done: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Accounts {
    fn at(address: SocketAddr) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(change(address, Arc::clone(&done)));
        Self { done, task }
    }

    /// Waits for some more of its statements; returns how long that took.
    async fn more(&self) -> Duration {
        let (begin, wanted) = (Instant::now(), self.done.load(Ordering::Relaxed) + 10);
        let grown = async {
            while self.done.load(Ordering::Relaxed) < wanted {
                sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(LONG, grown).await.is_ok(), "statements about accounts do not go on");
        begin.elapsed()
    }
}

/// It connects again when its connection ends.
async fn change(address: SocketAddr, done: Arc<AtomicU64>) {
    let run = async |conn: &mut Conn| -> Result<(), Error> {
        loop {
            for sql in ["CREATE OR REPLACE USER passing@'%' IDENTIFIED BY 'by'", "DROP USER passing@'%'"] {
                conn.query_drop(sql).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    loop {
        let options = OptsBuilder::default()
            .ip_or_hostname(address.ip().to_string())
            .tcp_port(address.port())
            .user(Some("keeper"))
            .pass(Some("keeper"))
            .prefer_socket(false);
        if let Ok(mut conn) = Conn::new(options).await {
            // What was sent when its server was lost may have been done: the next one is another.
            let _ = run(&mut conn).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_about_accounts_hangs_on_no_new_primary() {
    let scene = Scene::of("accounts", true).await;
    scene.stage.run_in("db1", "CREATE USER keeper@'%' IDENTIFIED BY 'keeper'").await.unwrap();
    scene.stage.run_in("db1", "GRANT CREATE USER, RELOAD ON *.* TO keeper@'%'").await.unwrap();
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    assert_eq!(settled(&scene, &serving).await, "db1");
    let accounts = Accounts::at(scene.through());
    accounts.more().await;

    for to in ["db2", "db3", "db1"] {
        let said = serving.ask(&["switchover", "--to", to, "--force"]).with(0);
        println!("{}; statements go on after {:?}", said.trim(), accounts.more().await);
        assert_eq!(settled(&scene, &serving).await, to);
    }
    for fault in [Fault::Stop, Fault::Kill] {
        let before = settled(&scene, &serving).await;
        scene.stage.fault(&before, fault).await.unwrap();
        let moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
        let primary = writer(&status_when(&serving, "another is the primary", moved));
        println!("{before} {fault}: {primary}; statements go on after {:?}", accounts.more().await);
        let follows = |status: &Value| {
            let others = ["db1", "db2", "db3"].into_iter().filter(|node| *node != before && *node != primary);
            others.into_iter().all(|node| scene.follows(status, node) == scene.address(&primary))
        };
        status_when(&serving, "the other replica follows", follows);
        // One that is killed may not start again: MariaDB removes nothing from its binlog before a statement about accounts.
        if fault == Fault::Stop {
            scene.stage.fault(&before, Fault::Heal).await.unwrap();
            assert_eq!(settled(&scene, &serving).await, primary);
        }
        accounts.more().await;
    }
    accounts.task.abort();
    println!("{}", journal(&serving));
    drop(serving);
    scene.stage.down().await.unwrap();
}
