//! Writers that commit one row after another, and how long the group let none of them commit.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::scene::PATIENCE;

/// Between two rows of one writer.
const RHYTHM: Duration = Duration::from_millis(8);

#[derive(Default)]
struct Seen {
    commits: Vec<Instant>,
    errors: Vec<String>,
}

/// Writers that run.
pub struct Writers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    seen: Arc<Mutex<Seen>>,
}

/// What they came to.
#[derive(Debug)]
pub struct WriterResult {
    commits: Vec<Instant>,
    pub errors: Vec<String>,
}

impl Writers {
    /// Two at each of these addresses. They connect again when their connection ends: only commits count here.
    pub fn at(addresses: &[SocketAddr]) -> Self {
        let (stop, stopped) = watch::channel(false);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let each = addresses.iter().flat_map(|address| [*address, *address]);
        let tasks = each.map(|address| tokio::spawn(write(address, Arc::clone(&seen), stopped.clone())));
        let tasks = tasks.collect();
        Self { stop, tasks, seen }
    }

    /// Waits for `count` more commits.
    pub async fn more(&self, count: usize) {
        let now = || self.seen.lock().unwrap().commits.len();
        let wanted = now() + count;
        let grown = async {
            while now() < wanted {
                sleep(RHYTHM).await;
            }
        };
        timeout(PATIENCE, grown).await.expect("commits go on");
    }

    pub async fn stop(self) -> WriterResult {
        self.stop.send_replace(true);
        for task in self.tasks {
            timeout(PATIENCE, task).await.expect("a writer ends").unwrap();
        }
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        WriterResult { commits: seen.commits, errors: seen.errors }
    }
}

impl WriterResult {
    pub fn count(&self) -> usize {
        self.commits.len()
    }

    /// The longest time between two commits, of those that end after `fault`.
    pub fn gap(&self, fault: Instant) -> Duration {
        let ends = self.commits.windows(2).filter(|pair| pair[1] > fault);
        ends.map(|pair| pair[1] - pair[0]).max().expect("commits after the fault")
    }
}

async fn write(address: SocketAddr, seen: Arc<Mutex<Seen>>, stopped: watch::Receiver<bool>) {
    let mut connection: Option<Conn> = None;
    while !*stopped.borrow() {
        let done = timeout(PATIENCE, one(&mut connection, address)).await.expect("an answer");
        if done.as_ref().is_err_and(|error| !matches!(error, Error::Server(_))) {
            connection = None;
        }
        note(&seen, done);
        sleep(RHYTHM).await;
    }
}

async fn one(connection: &mut Option<Conn>, address: SocketAddr) -> Result<(), Error> {
    let conn = match connection {
        Some(conn) => conn,
        None => {
            let options = OptsBuilder::default()
                .ip_or_hostname(address.ip().to_string())
                .tcp_port(address.port())
                .user(Some(APP_USER))
                .pass(Some(APP_PASSWORD))
                .db_name(Some(APP_SCHEMA))
                .prefer_socket(false);
            connection.insert(Conn::new(options).await?)
        }
    };
    conn.query_drop("INSERT INTO w (node) VALUES (@@wsrep_node_name)").await
}

fn note(seen: &Mutex<Seen>, done: Result<(), Error>) {
    let mut seen = seen.lock().unwrap();
    match done {
        Ok(()) => seen.commits.push(Instant::now()),
        Err(error) => seen.errors.push(error.to_string()),
    }
}
