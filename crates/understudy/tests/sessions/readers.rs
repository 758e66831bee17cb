//! Sessions on the port for reads that look again and again at what one writer writes, and at which server they do.
//!
//! The writer's rows are numbered from 1 on and committed one after another, so whatever a server shows is right when it is all rows up to
//! some number: as many as the highest says, less what was on its way when the primary died. A session never sees less than it saw before,
//! on whichever server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixture::wait::until_async;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use testbed::program::LONG;
use testbed::writers::connect;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const RHYTHM: Duration = Duration::from_millis(5);
const READERS: usize = 8;

/// What they saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Reads, by server.
    pub by_server: BTreeMap<u32, u64>,
    /// What must not be.
    pub wrong: Vec<String>,
    /// The longest that one read took.
    pub longest: Duration,
    /// Reads that another server answered than the one before.
    pub moves: u64,
}

/// Readers that run.
pub struct Readers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    seen: Arc<Mutex<Seen>>,
    /// Rows that the writer was told nothing of.
    lost: Arc<AtomicU64>,
}

impl Readers {
    /// Sessions that read what `writer` writes, each on one connection that must not end.
    /// `server` is the expression for a server's number.
    pub async fn at(address: SocketAddr, writer: u64, server: &'static str) -> Self {
        Self::several(READERS, address, writer, server).await
    }

    /// The same, so many that both replicas get some: each new session goes to the one that has fewest, and on one of them there may be all of the
    /// others, and all of those that have just ended.
    pub async fn on_both(address: SocketAddr, writer: u64, server: &'static str) -> Self {
        Self::several(2 * READERS + 4, address, writer, server).await
    }

    async fn several(count: usize, address: SocketAddr, writer: u64, server: &'static str) -> Self {
        let (stop, stopped) = watch::channel(false);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let lost = Arc::new(AtomicU64::new(0));
        let mut tasks = vec![];
        for _ in 0..count {
            let conn = connect(address).await.unwrap();
            tasks.push(tokio::spawn(read(
                conn,
                (writer, server),
                (Arc::clone(&seen), Arc::clone(&lost)),
                stopped.clone(),
            )));
        }
        Self { stop, tasks, seen, lost }
    }

    /// The primary is about to die: one row of the writer's may be on its way.
    pub fn may_lack_one(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// What was seen since the last time.
    pub fn since(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Waits until `servers`, and no others, have answered each of a number of reads one after another; what was seen until then.
    pub async fn settle_on(&self, servers: &[u32]) -> Seen {
        self.settle(servers, |now| now == servers).await
    }

    /// The same, until nobody reads from `server` any more.
    pub async fn settle_off(&self, server: u32) -> Seen {
        self.settle(&[server], |now| !now.is_empty() && !now.contains(&server)).await
    }

    async fn settle(&self, servers: &[u32], fits: impl Fn(&[u32]) -> bool) -> Seen {
        let mut all = Seen::default();
        until_async(&format!("those read that may, of {servers:?}"), async || {
            sleep(Duration::from_millis(200)).await;
            let seen = self.since();
            let now: Vec<u32> = seen.by_server.keys().copied().collect();
            all.add(seen);
            if fits(&now) || !all.wrong.is_empty() { Ok(()) } else { Err(now) }
        })
        .await;
        all
    }

    pub async fn stop(self) -> Seen {
        self.stop.send_replace(true);
        for task in self.tasks {
            timeout(LONG, task).await.expect("a reader ends").unwrap();
        }
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Seen {
    fn add(&mut self, more: Self) {
        for (server, count) in more.by_server {
            *self.by_server.entry(server).or_default() += count;
        }
        self.wrong.extend(more.wrong);
        self.longest = self.longest.max(more.longest);
        self.moves += more.moves;
    }

    /// Nothing was wrong.
    pub fn is_right(&self, what: &str) {
        println!(
            "          {what}: reads by server {:?}, {} moves, the longest read {:?}",
            self.by_server, self.moves, self.longest
        );
        assert_eq!(self.wrong, Vec::<String>::new(), "{what}");
    }
}

async fn read(
    mut conn: Conn,
    (writer, server): (u64, &str),
    (seen, lost): (Arc<Mutex<Seen>>, Arc<AtomicU64>),
    stopped: watch::Receiver<bool>,
) {
    let question =
        format!("SELECT {server}, COUNT(*), COALESCE(MAX(number), 0) FROM w WHERE writer = {writer}");
    let (mut before, mut last) = (0, None);
    while !*stopped.borrow() {
        let began = Instant::now();
        let answer = timeout(LONG, conn.query_first::<(u32, u64, u64), _>(&question)).await;
        let took = began.elapsed();
        {
            let mut seen = seen.lock().unwrap();
            match answer {
                Ok(Ok(Some((server, count, highest)))) => {
                    *seen.by_server.entry(server).or_default() += 1;
                    if count > highest || count + lost.load(Relaxed) < highest {
                        seen.wrong.push(format!("{count} rows up to {highest} on {server}"));
                    }
                    if highest < before {
                        seen.wrong.push(format!("{highest} after {before}, on {server} after {last:?}"));
                    }
                    seen.moves += u64::from(last.is_some_and(|last| last != server));
                    (before, last) = (highest, Some(server));
                }
                other => {
                    seen.wrong.push(format!("{other:?} after {took:?}"));
                    return;
                }
            }
            seen.longest = seen.longest.max(took);
        }
        sleep(RHYTHM).await;
    }
}
