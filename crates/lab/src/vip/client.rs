//! A client that uses each of the addresses: every 50 ms a new connection, one login, and one query for the node's name.
//!
//! Open loop: an attempt begins when it is due, whether or not earlier ones have ended. A packet sent to the old holder delays only its
//! own attempt, so the first response comes as soon as one is possible.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::{JoinHandle, JoinSet};

use crate::load::session::{Target, tell};
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};

/// Interval between two attempts.
pub const EVERY: Duration = Duration::from_millis(50);
/// Timeout of an attempt.
const PATIENCE: Duration = Duration::from_secs(2);

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The address used.
    pub through: IpAddr,
    /// When it began.
    pub due: Instant,
    /// When it ended.
    pub done: Instant,
    /// The node's name, or the code of the error.
    pub said: Result<String, String>,
}

/// A running client; it makes attempts until it is dropped.
#[derive(Debug)]
pub struct Client {
    attempts: Arc<Mutex<Vec<Attempt>>>,
    task: JoinHandle<()>,
}

impl Client {
    /// Starts the client.
    pub fn start(addresses: &[SocketAddr]) -> Self {
        let target = |address: &SocketAddr| Target {
            host: address.ip().to_string(),
            port: address.port(),
            user: APP_USER.into(),
            password: APP_PASSWORD.into(),
            schema: APP_SCHEMA.into(),
        };
        let targets: Vec<_> = addresses.iter().map(|address| (address.ip(), target(address))).collect();
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let shared = attempts.clone();
        let task = tokio::spawn(async move {
            // Dropped with the task, and with it every attempt in progress.
            let mut open = JoinSet::new();
            let mut pace = tokio::time::interval(EVERY);
            loop {
                // The due time, not the time at which the task ran.
                let due = pace.tick().await.into_std();
                for (through, target) in targets.clone() {
                    let shared = shared.clone();
                    open.spawn(async move {
                        let asked = tokio::time::timeout(PATIENCE, ask(&target)).await;
                        let said = asked.unwrap_or_else(|_| Err("no answer".into()));
                        let attempt = Attempt { through, due, done: Instant::now(), said };
                        shared.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
                    });
                }
                while open.try_join_next().is_some() {}
            }
        });
        Self { attempts, task }
    }

    /// All attempts that have ended so far, ordered by their end.
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        attempts.sort_by_key(|attempt| attempt.done);
        attempts
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ask(target: &Target) -> Result<String, String> {
    let asked = async {
        let mut conn = Conn::new(target.opts()).await?;
        let name: Option<String> = conn.query_first("SELECT @@wsrep_node_name").await?;
        // The result is there; a failed disconnect does not matter.
        let _ = conn.disconnect().await;
        Ok(name)
    };
    match asked.await {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err("no row".into()),
        Err(error) => Err(tell(&error).0),
    }
}

/// The longest time without a response through an address that ends after `from`; `until` ends a gap that no response ends.
pub fn longest_gap(attempts: &[Attempt], through: IpAddr, from: Instant, until: Instant) -> Duration {
    let attempts: Vec<&Attempt> = attempts.iter().filter(|a| a.through == through).collect();
    let mut last = attempts.iter().rfind(|a| a.said.is_ok() && a.done < from).map_or(from, |a| a.done);
    let mut longest = Duration::ZERO;
    let answers = attempts.iter().filter(|a| a.said.is_ok() && a.done >= from && a.done < until);
    for at in answers.map(|a| a.done).chain([until]) {
        longest = longest.max(at.saturating_duration_since(last));
        last = at;
    }
    longest
}

/// The errors of attempts due in `from..until`, by code.
pub fn errors(attempts: &[Attempt], from: Instant, until: Instant) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for attempt in attempts.iter().filter(|a| a.due >= from && a.due < until) {
        if let Err(code) = &attempt.said {
            *counts.entry(code.clone()).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_between_answers_whoever_gives_them() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let (v4, v6): (IpAddr, IpAddr) = ([10, 77, 0, 100].into(), [0xfd00, 0x77, 0, 0, 0, 0, 0, 100].into());
        let attempt = |due, done, said: Result<&str, &str>| Attempt {
            through: v4,
            due: at(due),
            done: at(done),
            said: said.map(Into::into).map_err(Into::into),
        };
        let other = Attempt { through: v6, ..attempt(300, 310, Ok("db2")) };
        let attempts = [
            attempt(0, 10, Ok("db2")),
            attempt(50, 60, Ok("db2")),
            attempt(100, 110, Err("refused")),
            other,
            attempt(700, 710, Ok("db1")),
            attempt(150, 900, Err("no answer")),
        ];
        assert_eq!(longest_gap(&attempts, v4, at(80), at(1000)), Duration::from_millis(650));
        assert_eq!(longest_gap(&attempts, v4, at(80), at(5000)), Duration::from_millis(4290));
        assert_eq!(errors(&attempts, at(80), at(1000)).len(), 2);
    }
}
