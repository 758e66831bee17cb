//! Detects another Understudy that manages the same server, by a named lock that each manager holds, or waits for, on every server.
//!
//! ```text
//!   a link of its own ─> GET_LOCK, waiting for it ─┬─ got it: held as long as the link exists ─┬─> which sessions hold it, or wait?
//!                                                  └─ another has it: asked again ─────────────┘      └─> reported after a while
//! ```
//!
//! The same link reads once a second which events the server runs (`events.rs`).
//!
//! Another manager is only reported. The lock does not decide who may act: its holder may be alive and unable to act (its configuration,
//! its network), and if two managers hold it on one server each, neither could act. A failover that does not happen is worse than two
//! managers that an operator is told about.
//!
//! Where clients have used up max_connections, the account gets the one connection that is reserved above the limit. It is closed at once:
//! an administrator may need it, or this program's own orders.
//!
//! The server ends a session that vanished after `IDLE_S`. What is reported has been there for longer than that, so that no manager is told
//! of its own session from before a restart or a network failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError, Rows};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use topology::NodeId;
use topology::flavor::Flavor;

use crate::advice::{self, Topic};
use crate::events::{self, Events};
use crate::means::{self, MeansNow};
use crate::note::Note;

/// The server ends a session that has been idle for this long.
const IDLE_S: u64 = 10;
/// A manager that has been seen for this long is alive.
const SURE: Duration = Duration::from_secs(12);
/// How long the server waits for the lock; a waiting session is visible.
const WAIT_S: u64 = 2;
/// The pause between two questions for the lock's holders.
const GAP: Duration = Duration::from_secs(1);
/// The pause before a new connection: a server that is short of connections needs them for other purposes.
const RETRY: Duration = Duration::from_secs(5);
/// The time limit of a connection, or a question.
const STEP: Duration = Duration::from_secs(5);

/// The server's own time limit for statements must not end the wait for the lock.
fn session(flavor: Flavor) -> String {
    let limit = if flavor == Flavor::MySql { "max_execution_time" } else { "max_statement_time" };
    format!("SET SESSION wait_timeout = {IDLE_S}, {limit} = 0")
}

const CONNECTED: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected')";
const CONNECTED_MAX: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_connections')";

/// Whether all connections that clients can have are used, including this one.
///
/// # Errors
/// When the server does not answer.
pub async fn is_crowded(link: &mut Link) -> Result<bool, LinkError> {
    let connected = link.query(CONNECTED, STEP).await?;
    let most = link.query(CONNECTED_MAX, STEP).await?;
    let number = |rows: &Rows, name| rows.value_of(name).and_then(|value| value.parse::<u64>().ok());
    let numbers = number(&connected, "Threads_connected").zip(number(&most, "max_connections"));
    Ok(numbers.is_some_and(|(connected, most)| connected >= most))
}

/// 1 when it is held. The name does not depend on the cluster's name, since a server must be managed only once.
fn take() -> String {
    format!(
        "SELECT IF(IS_USED_LOCK('understudy.manager') <=> CONNECTION_ID(), 1, GET_LOCK('understudy.manager', {WAIT_S}))"
    )
}

/// Rows of id and host: all other sessions that hold the lock, or wait for it. Other accounts' sessions are shown only with PROCESS.
const OTHERS: &str = "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() \
    AND (ID = IS_USED_LOCK('understudy.manager') OR INFO LIKE '%GET_LOCK(''understudy.manager''%')";

/// The addresses, without port, of the managers of this server; normally one.
///
/// # Errors
/// When the server does not answer.
pub async fn managers(link: &mut Link, within: Duration) -> Result<Vec<String>, LinkError> {
    Ok(others(link, within).await?.into_values().collect())
}

async fn others(link: &mut Link, within: Duration) -> Result<BTreeMap<u64, String>, LinkError> {
    let rows = link.query(OTHERS, within).await?;
    let other = |row| Some((rows.text(row, 0)?.parse().ok()?, address(rows.text(row, 1)?).to_owned()));
    Ok((0..rows.len()).filter_map(other).collect())
}

/// `10.0.0.7:51234` without the port; a session over the unix socket has none.
fn address(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(address, _)| address)
}

/// Looks for another manager of one server.
pub(crate) struct Rival {
    pub node: NodeId,
    pub name: Arc<str>,
    pub address: String,
    pub means: MeansNow,
    pub notes: mpsc::Sender<Note>,
    /// Which events the primary runs, or is to run.
    pub events: Arc<Events>,
    /// Ends when its sender is dropped.
    pub wanted: watch::Receiver<()>,
}

impl Rival {
    /// Runs until its sender is dropped.
    pub async fn run(self) {
        let mut wanted = self.wanted.clone();
        tokio::select! {
            () = async { while wanted.changed().await.is_ok() {} } => {}
            never = self.look() => match never {},
        }
    }

    async fn look(&self) -> std::convert::Infallible {
        let mut seen = Seen::default();
        let mut told = None;
        // Clears what a task before this one reported and could not take back.
        self.tell(None).await;
        loop {
            let login = means::now(&self.means).login.clone();
            tokio::select! {
                ended = self.on_one_link(&mut seen, &mut told) => {
                    if let Err(error) = ended {
                        tracing::debug!("{} is not asked for another manager: {error}", self.name);
                    }
                    sleep(RETRY).await;
                }
                () = means::changed(&self.means, |means| means.login != login) => {}
            }
        }
    }

    async fn on_one_link(&self, seen: &mut Seen, told: &mut Option<String>) -> Result<(), LinkError> {
        let mut link = Link::connect(&self.address, &means::now(&self.means).login, STEP).await?;
        if is_crowded(&mut link).await? {
            link.quit();
            return Ok(());
        }
        let flavor = Flavor::of(&link.greeting.version);
        link.query(&session(flavor), STEP).await?;
        let mut again = Instant::now();
        loop {
            let is_held = link.query(&take(), STEP).await?.text(0, 0) == Some("1");
            let sure = seen.note(others(&mut link, STEP).await?, Instant::now());
            let text = (!sure.is_empty()).then(|| advice::rival(&self.name, &sure));
            if text != *told {
                told.clone_from(&text);
                self.tell(text).await;
            }
            if flavor == Flavor::MariaDb {
                self.look_at_events(&mut link, &mut again).await?;
            }
            if is_held {
                sleep(GAP).await;
            }
        }
    }

    /// Reads which events the server runs; `again`: when a new link is tried for that next.
    async fn look_at_events(&self, link: &mut Link, again: &mut Instant) -> Result<(), LinkError> {
        let look = self.events.look();
        let mut listed = events::listed(link, &look.known, STEP).await?;
        let may_not_see = listed.is_empty() || !listed.hidden.is_empty();
        // It has none, or the account may not see them: a privilege counts for links that are opened after it was granted.
        if listed.scheduler && may_not_see && !listed.read_only && Instant::now() >= *again {
            *again = Instant::now() + RETRY;
            let mut anew = Link::connect(&self.address, &means::now(&self.means).login, STEP).await?;
            listed = events::listed(&mut anew, &look.known, STEP).await?;
            anew.quit();
        }
        self.events.note(&look, &self.address, &listed);
        Ok(())
    }

    async fn tell(&self, text: Option<String>) {
        // A closed queue means that the manager ends.
        let _ = self.notes.send(Note::Advice(self.node, Topic::Rival, text)).await;
    }
}

/// The other sessions, and since when each is there.
#[derive(Default)]
struct Seen(BTreeMap<u64, Instant>);

impl Seen {
    /// Notes the present sessions; returns the addresses of those that are certainly alive, each once.
    fn note(&mut self, others: BTreeMap<u64, String>, now: Instant) -> Vec<String> {
        self.0.retain(|id, _| others.contains_key(id));
        let mut sure: Vec<String> = others
            .into_iter()
            .filter(|(id, _)| now.duration_since(*self.0.entry(*id).or_insert(now)) >= SURE)
            .map(|(_, address)| address)
            .collect();
        sure.sort();
        sure.dedup();
        sure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_of_a_session_that_the_server_is_about_to_end() {
        let others = |ids: &[u64]| ids.iter().map(|id| (*id, "10.0.0.7".to_owned())).collect();
        let (begin, s) = (Instant::now(), Duration::from_secs(1));
        let mut seen = Seen::default();
        assert_eq!(seen.note(others(&[5]), begin), Vec::<String>::new());
        assert_eq!(seen.note(others(&[5, 6]), begin + 11 * s), Vec::<String>::new());
        // The first has ended; the second has not been there for long.
        assert_eq!(seen.note(others(&[6]), begin + 20 * s), Vec::<String>::new());
        assert_eq!(seen.note(others(&[6]), begin + 23 * s), ["10.0.0.7"]);
        assert_eq!(seen.note(others(&[]), begin + 24 * s), Vec::<String>::new());
        assert_eq!(seen.note(others(&[6]), begin + 25 * s), Vec::<String>::new());
        assert!(SURE.as_secs() > IDLE_S);
        assert_eq!((address("10.0.0.7:51234"), address("localhost")), ("10.0.0.7", "localhost"));
    }

    #[tokio::test]
    async fn the_last_connections_are_left_to_others_and_no_limit_of_the_server_ends_the_wait() {
        let server = fixture::Server::start(&["--max-connections=10", "--max-statement-time=1"]);
        let login = link::Login::new("app", link::Secret::Password("secret".into()));
        let mut links = vec![];
        while links.len() < 9 {
            let mut link = Link::connect(&server.address().to_string(), &login, STEP).await.unwrap();
            assert!(!is_crowded(&mut link).await.unwrap(), "{} of 10", links.len() + 1);
            links.push(link);
        }
        let mut last = Link::connect(&server.address().to_string(), &login, STEP).await.unwrap();
        assert!(is_crowded(&mut last).await.unwrap());
        last.query(&session(Flavor::of(&last.greeting.version)), STEP).await.unwrap();
        let holder = &mut links[0];
        assert_eq!(holder.query(&take(), STEP).await.unwrap().text(0, 0), Some("1"));
        assert_eq!(last.query(&take(), STEP).await.unwrap().text(0, 0), Some("0"), "it waited to the end");
    }

    #[tokio::test]
    async fn whoever_holds_the_lock_sees_whoever_waits_and_the_other_way_round() {
        let server = fixture::Server::start(&[]);
        let address = server.address().to_string();
        let login = link::Login::new("app", link::Secret::Password("secret".into()));
        let mut one = Link::connect(&address, &login, STEP).await.unwrap();
        let mut other = Link::connect(&address, &login, STEP).await.unwrap();
        assert_eq!(one.query(&take(), STEP).await.unwrap().text(0, 0), Some("1"));
        assert_eq!(one.query(&take(), STEP).await.unwrap().text(0, 0), Some("1"), "it has it already");
        assert_eq!(managers(&mut one, STEP).await.unwrap(), Vec::<String>::new());
        assert_eq!(managers(&mut other, STEP).await.unwrap().len(), 1);
        let (id, waiting) = (other.greeting.connection_id, take());
        let waits = tokio::spawn(async move {
            let answer = other.query(&waiting, STEP).await.unwrap();
            answer.text(0, 0).map(str::to_owned)
        });
        let deadline = Instant::now() + STEP;
        while !others(&mut one, STEP).await.unwrap().contains_key(&u64::from(id)) {
            assert!(Instant::now() < deadline, "it was not seen while it waited");
        }
        one.quit();
        assert_eq!(waits.await.unwrap().as_deref(), Some("1"), "it is free when its holder is gone");
    }
}
