//! A session on `listen.mysql` reads its own writes after every move, on real servers: the new primary is given traffic only when it has applied
//! them, within a limit; beyond that a switchover is undone, and a failover goes on trying while statements wait.
//!
//! The applier of a replica is kept from a table by a session there that has locked it.

use std::time::{Duration, Instant};

use lab::fault::Fault;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::{LONG, Serving};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::connect;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The longest that a new primary may take to apply all, as docs/replication.md says.
const APPLIES_WITHIN: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_session_reads_what_it_wrote_whoever_is_the_primary() {
    let scene = Scene::of("own", true).await;
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);

    // Within the limit the move waits.
    let mut session = TwoSessions::begin(&scene).await;
    let lock = lock(&scene, &["db2"], Duration::from_secs(1)).await;
    session.write().await;
    let (reader, began) = (session.read_soon(), Instant::now());
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    println!("switchover to a replica that applies late: {:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_millis(500), "it did not wait");
    session = reader.await.unwrap();
    assert_eq!(writer(&serving.status()), "db2");
    lock.await.unwrap();

    // Beyond it the old primary goes on.
    status_when(&serving, "all are well", is_well);
    let lock = self::lock(&scene, &["db1"], APPLIES_WITHIN * 2).await;
    session.write().await;
    let reader = session.read_soon();
    let said = serving.ask(&["switchover", "--to", "db1", "--budget-ms", "10000"]).with(1);
    println!("switchover beyond the limit: {}", said.trim());
    session = reader.await.unwrap();
    assert_eq!(writer(&serving.status()), "db2");
    lock.await.unwrap();

    // A failover is tried again, and the statements wait for it.
    status_when(&serving, "all are well", is_well);
    let lock = self::lock(&scene, &["db1", "db3"], APPLIES_WITHIN + Duration::from_secs(1)).await;
    session.write().await;
    let began = scene.stage.fault("db2", Fault::Kill).await.unwrap();
    session.read().await;
    println!("failover beyond the limit: the session read its write after {:?}", began.elapsed());
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != "db2";
    status_when(&serving, "another is the primary", moved);
    lock.await.unwrap();
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Sessions on `nodes` keep their appliers from the table for so long from now on.
async fn lock(scene: &Scene, nodes: &[&str], lasts: Duration) -> JoinHandle<()> {
    let mut sessions = vec![];
    for node in nodes {
        let mut session = connect(scene.stage.node(node).unwrap().address).await.unwrap();
        session.query_drop("LOCK TABLES w READ").await.unwrap();
        sessions.push(session);
    }
    tokio::spawn(async move {
        sleep(lasts).await;
        drop(sessions);
    })
}

/// One session that writes, and one that has waited meanwhile.
struct TwoSessions {
    writes: Conn,
    waits: Conn,
    rows: u64,
}

/// No other test's rows.
const WRITER: u64 = 1_000_000;

impl TwoSessions {
    async fn begin(scene: &Scene) -> Self {
        let (writes, waits) =
            (connect(scene.through()).await.unwrap(), connect(scene.through()).await.unwrap());
        Self { writes, waits, rows: 0 }
    }

    async fn write(&mut self) {
        self.rows += 1;
        let insert = format!("INSERT INTO w VALUES ({WRITER}, {})", self.rows);
        timeout(LONG, self.writes.query_drop(insert)).await.expect("it is answered").unwrap();
    }

    /// Both see all that was written: without an error, and at once when nothing is being moved.
    async fn read(&mut self) {
        let question = format!("SELECT COUNT(*) FROM w WHERE writer = {WRITER}");
        for session in [&mut self.writes, &mut self.waits] {
            let seen: Option<u64> =
                timeout(LONG, session.query_first(&question)).await.expect("it is answered").unwrap();
            assert_eq!(seen, Some(self.rows), "a session does not see what it wrote");
        }
    }

    /// Reads again and again, while the primary is being changed beside it.
    fn read_soon(mut self) -> JoinHandle<Self> {
        tokio::spawn(async move {
            let until = Instant::now() + APPLIES_WITHIN + Duration::from_secs(1);
            while Instant::now() < until {
                self.read().await;
            }
            self
        })
    }
}
