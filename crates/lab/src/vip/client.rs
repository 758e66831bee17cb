//! A client that goes through each of the addresses: every 50 ms a new connection, one login, one question: which node are you?
//!
//! Open loop: an attempt begins when it is due, whether or not earlier ones have ended. A packet that went to the old holder
//! costs only the attempt that sent it, so the first answer comes as soon as there can be one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::{JoinHandle, JoinSet};

use crate::load::session::{Target, tell};
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};

/// From one attempt to the next.
pub const EVERY: Duration = Duration::from_millis(50);
/// What has no answer by then will not get one.
const PATIENCE: Duration = Duration::from_secs(2);

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Through which address.
    pub through: IpAddr,
    /// When it began.
    pub due: Instant,
    /// When it ended.
    pub done: Instant,
    /// The node's name, or the number or name of the error.
    pub said: Result<String, String>,
}

/// Attempts until it is dropped.
#[derive(Debug)]
pub struct Client {
    attempts: Arc<Mutex<Vec<Attempt>>>,
    task: JoinHandle<()>,
}

impl Client {
    /// Begins.
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
            // Dropped with the task, and every attempt in it.
            let mut open = JoinSet::new();
            let mut pace = tokio::time::interval(EVERY);
            loop {
                // When it was due, not when it was looked at.
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

    /// Everything that has ended so far, by its end.
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
        // The answer is in hand; how the goodbye goes does not matter.
        let _ = conn.disconnect().await;
        Ok(name)
    };
    match asked.await {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err("no row".into()),
        Err(error) => Err(tell(&error).0),
    }
}

/// The longest time without an answer through an address that ends after `from`; `until` ends what nothing else does.
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

/// How the attempts of a time went wrong.
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
