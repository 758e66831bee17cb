//! Another Understudy that manages the same server: noticed by a lock by name that each manager holds, or waits for, on every server.
//!
//! ```text
//!   a link of its own ─> GET_LOCK, waiting for it ─┬─ had: held as long as the link stands ─┬─> who else holds it, or waits?
//!                                                  └─ another has it: asked again ──────────┘      └─> said after a while
//! ```
//!
//! It is only told. The lock is no leave to decide: whoever holds it may live and not be able to act (its configuration, its network), and of
//! two that hold it on one server each, none could; a failover that does not happen is worse than two managers that an operator is told of.
//!
//! Where clients have used up max_connections, the account gets the one connection above that is kept for such as it. That one is given back at
//! once: an administrator may need it, or this program's own orders.
//!
//! A session that is gone without a word is ended by the server after `IDLE_S`; what is told has been there for longer than that, so nobody
//! is told of his own session before a restart, or before the network failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError, Login, Rows};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use topology::NodeId;
use topology::flavor::Flavor;

use crate::advice::{self, Topic};
use crate::probe::Note;

/// The server ends a session that has said nothing for so long.
const IDLE_S: u64 = 10;
/// Whoever has been seen for so long lives.
const SURE: Duration = Duration::from_secs(12);
/// How long the server waits for the lock; whoever waits can be seen.
const WAIT_S: u64 = 2;
/// Between two looks of whoever has it.
const GAP: Duration = Duration::from_secs(1);
/// Before a new connection: what is short of connections has better uses for one.
const RETRY: Duration = Duration::from_secs(5);
/// For a connection, or a question.
const STEP: Duration = Duration::from_secs(5);

/// A limit of the server's own for statements must not end the wait for the lock.
fn session(flavor: Flavor) -> String {
    let limit = if flavor == Flavor::MySql { "max_execution_time" } else { "max_statement_time" };
    format!("SET SESSION wait_timeout = {IDLE_S}, {limit} = 0")
}

const CONNECTED: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected')";
const CONNECTED_MAX: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_connections')";

/// Whether with this one all connections are used that clients can have.
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

/// 1 when it is held. A server is managed once, whatever the cluster is called.
fn take() -> String {
    format!(
        "SELECT IF(IS_USED_LOCK('understudy.manager') <=> CONNECTION_ID(), 1, GET_LOCK('understudy.manager', {WAIT_S}))"
    )
}

/// Rows of id and host: all sessions but this one that hold it, or wait for it. Those of other accounts are shown only with PROCESS.
const OTHERS: &str = "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() \
    AND (ID = IS_USED_LOCK('understudy.manager') OR INFO LIKE '%GET_LOCK(''understudy.manager''%')";

/// From where this server is managed by an Understudy, each as an address without its port; ordinarily from one.
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
    pub login: Login,
    pub notes: mpsc::Sender<Note>,
    /// Ends with its sender.
    pub wanted: watch::Receiver<()>,
}

impl Rival {
    /// Runs until nobody wants it any more.
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
        // What a task before this one told, and could not take back.
        self.tell(None).await;
        loop {
            if let Err(error) = self.on_one_link(&mut seen, &mut told).await {
                tracing::debug!("{} is not asked for another manager: {error}", self.name);
            }
            sleep(RETRY).await;
        }
    }

    async fn on_one_link(&self, seen: &mut Seen, told: &mut Option<String>) -> Result<(), LinkError> {
        let mut link = Link::connect(&self.address, &self.login, STEP).await?;
        if is_crowded(&mut link).await? {
            link.quit();
            return Ok(());
        }
        let flavor = Flavor::of(&link.greeting.version);
        link.query(&session(flavor), STEP).await?;
        loop {
            let is_held = link.query(&take(), STEP).await?.text(0, 0) == Some("1");
            let sure = seen.note(others(&mut link, STEP).await?, Instant::now());
            let text = (!sure.is_empty()).then(|| advice::rival(&self.name, &sure));
            if text != *told {
                told.clone_from(&text);
                self.tell(text).await;
            }
            if is_held {
                sleep(GAP).await;
            }
        }
    }

    async fn tell(&self, text: Option<String>) {
        // A closed queue means that all of this ends.
        let _ = self.notes.send(Note::Advice(self.node, Topic::Rival, text)).await;
    }
}

/// The sessions of others, and since when each is there.
#[derive(Default)]
struct Seen(BTreeMap<u64, Instant>);

impl Seen {
    /// Who is there now; gives from where those come that certainly live, each once.
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
        let login = Login::new("app", link::Secret::Password("secret".into()));
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
        let login = Login::new("app", link::Secret::Password("secret".into()));
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
