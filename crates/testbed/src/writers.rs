//! Writers that commit one numbered row after another, and remember what they were told of each; and one statement that is repeated.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::stage::Stage;
use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use crate::program::LONG;

/// Between two rows of one writer.
const RHYTHM: Duration = Duration::from_millis(8);
/// Writers at once.
const WRITERS: u64 = 4;
/// Those of one run have other numbers than those of the next.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Makes the table that they write to.
pub async fn make_table(stage: &Stage) {
    let table =
        format!("CREATE TABLE {APP_SCHEMA}.w (writer BIGINT, number BIGINT, PRIMARY KEY (writer, number))");
    stage.run_in("db1", &table).await.unwrap();
}

/// What they came to.
#[derive(Debug, Default)]
pub struct WriterResult {
    commits: Vec<Instant>,
    /// Writer and number.
    pub acknowledged: BTreeSet<(u64, u64)>,
    /// What ended in an error, whether it was written or not.
    pub unknown: BTreeSet<(u64, u64)>,
    /// What they were told of those.
    pub errors: Vec<String>,
    writers: Vec<u64>,
}

/// Writers that run.
pub struct Writers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    told: Arc<Mutex<WriterResult>>,
}

impl Writers {
    /// They connect again when their connection ends, and write the next row.
    pub fn at(address: SocketAddr) -> Self {
        Self::start(WRITERS, address)
    }

    /// As many as that.
    pub fn start(count: u64, address: SocketAddr) -> Self {
        Self::paced(count, RHYTHM, address)
    }

    /// Each pauses for `rhythm` between two rows.
    pub fn paced(count: u64, rhythm: Duration, address: SocketAddr) -> Self {
        let (stop, stopped) = watch::channel(false);
        let first = NEXT.fetch_add(count, Ordering::Relaxed);
        let writers: Vec<u64> = (first..first + count).collect();
        let told = Arc::new(Mutex::new(WriterResult { writers: writers.clone(), ..WriterResult::default() }));
        let tasks = writers.into_iter();
        let tasks = tasks
            .map(|writer| tokio::spawn(write(writer, rhythm, address, Arc::clone(&told), stopped.clone())));
        Self { stop, tasks: tasks.collect(), told }
    }

    /// One of their numbers.
    pub fn first(&self) -> u64 {
        self.told.lock().unwrap().writers[0]
    }

    /// What went wrong until now.
    pub fn errors(&self) -> Vec<String> {
        self.told.lock().unwrap().errors.clone()
    }

    /// Waits for `count` more commits.
    pub async fn more(&self, count: usize) {
        let now = || self.told.lock().unwrap().commits.len();
        let wanted = now() + count;
        let grown = async {
            while now() < wanted {
                sleep(RHYTHM).await;
            }
        };
        let grown = timeout(LONG, grown).await;
        assert!(grown.is_ok(), "commits do not go on: {:?}", self.told.lock().unwrap().errors);
    }

    /// Ends them; what they came to.
    pub async fn stop(self) -> WriterResult {
        self.stop.send_replace(true);
        for task in self.tasks {
            timeout(LONG, task).await.expect("a writer ends").unwrap();
        }
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

impl WriterResult {
    /// The longest time between two commits, of those that end after `fault`.
    pub fn gap(&self, fault: Instant) -> Duration {
        let ends = self.commits.windows(2).filter(|pair| pair[1] > fault);
        ends.map(|pair| pair[1] - pair[0]).max().expect("commits after the fault")
    }

    /// How many commits were acknowledged from then on.
    pub fn commits_since(&self, moment: Instant) -> usize {
        self.commits.iter().filter(|at| **at >= moment).count()
    }

    /// What others came to, too.
    pub fn add(&mut self, more: Self) {
        self.commits.extend(more.commits);
        self.acknowledged.extend(more.acknowledged);
        self.unknown.extend(more.unknown);
        self.errors.extend(more.errors);
        self.writers.extend(more.writers);
    }

    fn note(&mut self, row: (u64, u64), done: Result<(), Error>) {
        match done {
            Ok(()) => {
                self.commits.push(Instant::now());
                self.acknowledged.insert(row);
            }
            Err(error) => {
                self.unknown.insert(row);
                self.errors.push(error.to_string());
            }
        }
    }

    /// For a list in SQL.
    pub fn writers(&self) -> String {
        self.writers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    }
}

async fn write(
    writer: u64,
    rhythm: Duration,
    address: SocketAddr,
    told: Arc<Mutex<WriterResult>>,
    stopped: watch::Receiver<bool>,
) {
    let mut connection: Option<Conn> = None;
    let mut number = 0;
    while !*stopped.borrow() {
        number += 1;
        let row = (writer, number);
        let done = timeout(LONG, insert(&mut connection, address, row)).await.expect("an answer");
        if done.as_ref().is_err_and(|error| !matches!(error, Error::Server(_))) {
            connection = None;
        }
        told.lock().unwrap().note(row, done);
        sleep(rhythm).await;
    }
}

async fn insert(
    connection: &mut Option<Conn>,
    address: SocketAddr,
    (writer, number): (u64, u64),
) -> Result<(), Error> {
    let conn = match connection {
        Some(conn) => conn,
        None => connection.insert(connect(address).await?),
    };
    conn.query_drop(format!("INSERT INTO w VALUES ({writer}, {number})")).await
}

/// One statement, run on db1 again and again.
pub struct Repeated {
    is_over: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Repeated {
    /// Once in `pace`, where it does not take longer.
    pub fn start(stage: &Arc<Stage>, pace: Duration, sql: String) -> Self {
        let (stage, is_over) = (Arc::clone(stage), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&is_over);
        let task = tokio::spawn(async move {
            let mut tick = interval(pace);
            while !ends.load(Ordering::Relaxed) {
                tick.tick().await;
                stage.run_in("db1", &sql).await.unwrap();
            }
        });
        Self { is_over, task }
    }

    /// After the statement that runs.
    pub async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

/// A client's connection.
pub async fn connect(address: SocketAddr) -> Result<Conn, Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD))
        .db_name(Some(APP_SCHEMA))
        .prefer_socket(false);
    Conn::new(options).await
}
