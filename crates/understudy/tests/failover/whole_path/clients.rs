//! Clients that never retry and never reconnect, and the ledger of what they were told.
//!
//! Each write carries a key of its own; what the client was told of it is written down as it was told: acknowledged, surely not
//! done, or unknown. At the end the lab's checker holds that against every node.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::checker::{LedgerCheck, check};
use lab::ledger::{Client, CommitResult, NodeRows, Op};
use lab::stage::Stage;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{APPLICATION, PATIENCE, Scene};

/// Errors after which a write may or may not be there.
const OUTCOME_UNKNOWN: u16 = 9101;
/// Between two writes of the traffic: a rate, so that two cores have room for the servers.
const RHYTHM: Duration = Duration::from_millis(10);

/// What all clients were told.
#[derive(Default)]
pub struct Ledger {
    next: AtomicU64,
    told: Mutex<Vec<Op>>,
}

impl Ledger {
    fn new_key(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, id: u64, outcome: CommitResult) {
        let zero = Duration::ZERO;
        let op = Op {
            id,
            client: Client::Naive,
            due: zero,
            sent: zero,
            done: zero,
            outcome,
            attempts: 1,
            troubles: vec![],
        };
        self.told.lock().unwrap().push(op);
    }

    /// What the nodes have against what the clients were told.
    pub async fn verdict(&self, stage: &Stage) -> LedgerCheck {
        let mut nodes = Vec::new();
        for node in stage.nodes() {
            let sql = "SET STATEMENT wsrep_sync_wait=1 FOR SELECT op FROM sbtest.ledger ORDER BY op";
            let rows = stage.run_in(&node.name, sql).await.unwrap();
            let ops = rows.iter().map(|row| row[0].parse().unwrap()).collect();
            let sum = stage.run_in(&node.name, "CHECKSUM TABLE sbtest.ledger").await.unwrap();
            nodes.push(NodeRows { node: node.name.clone(), ops, checksum: sum[0][1].clone() });
        }
        let told = self.told.lock().unwrap();
        assert!(!told.is_empty());
        check(&told, &nodes)
    }
}

/// A connection that is never made again.
pub struct ClientConnection {
    connection: Conn,
    ledger: Arc<Ledger>,
}

impl ClientConnection {
    /// Through the proxy, as the application.
    pub async fn open(scene: &Scene) -> Self {
        let connection = connect(scene.mysql).await.unwrap();
        Self { connection, ledger: scene.ledger.clone() }
    }

    /// One statement, its answer thrown away.
    pub async fn run(&mut self, sql: &str) -> Result<(), Error> {
        timeout(PATIENCE, self.connection.query_drop(sql)).await.expect("an answer")
    }

    /// One value.
    pub async fn ask(&mut self, sql: &str) -> Result<String, Error> {
        let value =
            timeout(PATIENCE, self.connection.query_first::<String, _>(sql)).await.expect("an answer");
        value.map(|value| value.expect("a row"))
    }

    /// Inserts a row of a new key, outside of a transaction.
    pub async fn write(&mut self) -> Result<u64, Error> {
        let key = self.ledger.new_key();
        let done = self.insert(key).await;
        self.ledger.note(key, outcome(done.as_ref().err()));
        done.map(|()| key)
    }

    /// Inserts a row inside of a transaction whose end the caller decides; the caller notes the outcome.
    pub async fn insert(&mut self, key: u64) -> Result<(), Error> {
        self.run(&format!("INSERT INTO sbtest.ledger (op, client, attempt) VALUES ({key}, 'naive', 1)")).await
    }

    /// BEGIN and one row, not yet committed; its key.
    pub async fn begin(&mut self) -> Result<u64, Error> {
        let key = self.ledger.new_key();
        self.run("BEGIN").await?;
        self.insert(key).await?;
        Ok(key)
    }

    /// COMMIT of what [`ClientConnection::begin`] began.
    pub async fn commit(&mut self, key: u64) -> Result<(), Error> {
        let done = self.run("COMMIT").await;
        self.ledger.note(key, outcome(done.as_ref().err()));
        done
    }

    /// A transaction that was begun and is known to be rolled back.
    pub fn rolled_back(&self, key: u64) {
        self.ledger.note(key, CommitResult::Failed);
    }

    /// Whether the row of that key is there, as this session sees it.
    pub async fn sees(&mut self, key: u64) -> Result<bool, Error> {
        let count =
            self.ask(&format!("SELECT CAST(COUNT(*) AS CHAR) FROM sbtest.ledger WHERE op = {key}")).await?;
        Ok(count == "1")
    }

    /// The node that answers.
    pub async fn place(&mut self) -> Result<String, Error> {
        self.ask("SELECT @@wsrep_node_name").await
    }
}

/// Logs in once; an error is the system's or the server's own.
pub async fn connect(address: SocketAddr) -> Result<Conn, Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(APPLICATION.0))
        .pass(Some(APPLICATION.1))
        .db_name(Some("sbtest"))
        .prefer_socket(false);
    timeout(PATIENCE, Conn::new(options)).await.expect("a login takes too long")
}

/// The number of a server's error; 0 for a broken connection.
pub fn errno(error: &Error) -> u16 {
    if let Error::Server(error) = error { error.code } else { 0 }
}

fn outcome(error: Option<&Error>) -> CommitResult {
    match error.map(errno) {
        None => CommitResult::Ok,
        // A broken connection says as little as 9101 does.
        Some(OUTCOME_UNKNOWN | 0) => CommitResult::Unknown,
        Some(_) => CommitResult::Failed,
    }
}

/// What became of a client's work.
#[derive(Default)]
pub struct Tally {
    /// Acknowledged.
    pub writes: u32,
    /// By error number.
    pub errors: BTreeMap<u16, u32>,
    /// Not seen by the very session that had written it.
    pub unseen: u32,
    /// The longest write, or read of it.
    pub longest: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, unseen) = (self.longest.as_millis(), self.unseen);
        write!(f, "{} writes, errors {:?}, {unseen} unseen, longest {ms} ms", self.writes, self.errors)
    }
}

/// Two clients that write all along: one statement by statement, one in transactions.
pub struct Traffic {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<Tally>>,
}

impl Traffic {
    /// Starts them.
    pub async fn start(scene: &Scene) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        for in_transactions in [false, true] {
            let session = ClientConnection::open(scene).await;
            tasks.push(tokio::spawn(work(session, in_transactions, stopped.clone())));
        }
        Self { stop, tasks }
    }

    /// Ends them after what they are at.
    pub async fn stop(self) -> Tally {
        self.stop.send_replace(true);
        let mut sum = Tally::default();
        for task in self.tasks {
            let tally = timeout(PATIENCE, task).await.expect("the traffic ends").unwrap();
            sum.writes += tally.writes;
            sum.unseen += tally.unseen;
            sum.longest = sum.longest.max(tally.longest);
            for (errno, count) in tally.errors {
                *sum.errors.entry(errno).or_default() += count;
            }
        }
        sum
    }
}

/// The same connection to the end, whatever it is told.
async fn work(mut session: ClientConnection, in_transactions: bool, stopped: watch::Receiver<bool>) -> Tally {
    let mut tally = Tally::default();
    let mut rhythm = tokio::time::interval(RHYTHM);
    while !*stopped.borrow() {
        rhythm.tick().await;
        let began = Instant::now();
        let done = if in_transactions { transaction(&mut session).await } else { session.write().await };
        let seen = match done {
            Ok(key) => {
                tally.writes += 1;
                session.sees(key).await
            }
            Err(error) => Err(error),
        };
        tally.longest = tally.longest.max(began.elapsed());
        match seen {
            Ok(true) => {}
            Ok(false) => tally.unseen += 1,
            Err(error) => {
                *tally.errors.entry(errno(&error)).or_default() += 1;
                if errno(&error) == 0 {
                    return tally;
                }
            }
        }
    }
    tally
}

async fn transaction(session: &mut ClientConnection) -> Result<u64, Error> {
    let key = session.ledger.new_key();
    for step in ["BEGIN", ""] {
        let done = if step.is_empty() { session.insert(key).await } else { session.run(step).await };
        if let Err(error) = done {
            // COMMIT was not sent.
            session.ledger.note(key, CommitResult::Failed);
            return Err(error);
        }
    }
    session.commit(key).await.map(|()| key)
}
