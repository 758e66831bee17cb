//! A link to a server that carries out an order, with the time that is left for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use link::{Link, Login, Rows};
use protocol::errno::{KILL_DENIED_ERROR, NO_SUCH_THREAD, SPECIFIC_ACCESS_DENIED_ERROR};
use protocol::gtid::Position;
use tokio::time::{Instant, sleep};
use topology::Term;
use topology::flavor::Dialect;
use topology::replication::events::{Event, Listed};
use topology::replication::{Channel, sql};

use super::ready::{Ready, Taken};
use super::sql::{WITH_LOCKS, kill};
use crate::events::{self, Events};
use crate::failed::Failed;
use crate::reading;
use crate::settings::Account;

/// The server's own limit is exact to a few milliseconds; the link gives up later, so that the server's answer is read.
const ANSWER_SLACK: Duration = Duration::from_millis(100);

/// The least time limit that a server of this dialect accepts for a statement.
fn limit_min(dialect: Dialect) -> Duration {
    match dialect {
        Dialect::MariaDb => Duration::from_millis(1),
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => Duration::from_secs(1),
    }
}

/// The time between two checks.
const LOOK: Duration = Duration::from_millis(20);
/// The time limit for undoing a change when the order's time may be over.
const PUT_BACK: Duration = Duration::from_millis(100);

/// What is needed to carry out an order.
pub(crate) struct Means {
    /// The node's address.
    pub address: String,
    /// The account to give orders with.
    pub login: Login,
    /// The address of the source to follow.
    pub source: String,
    /// The account that replicas log in with there.
    pub account: Option<Account>,
    /// The highest term under which any server was given an order.
    pub newest: Arc<AtomicU64>,
    /// Which events the primary runs, or is to run.
    pub events: Arc<Events>,
    /// The links that stand ready.
    pub ready: Arc<Ready>,
}

pub(super) struct Server {
    link: Link,
    /// The link stood ready before this order.
    stood: bool,
    /// Its session has settings that the next order must not have, or lacks privileges that the next order may have.
    pub is_altered: bool,
    /// Its address, for sentences.
    pub address: String,
    /// Which statements it understands.
    pub dialect: Dialect,
    until: Instant,
    /// The decision that the order belongs to, and the highest term that any order does.
    term: (Term, Arc<AtomicU64>),
}

/// A server's settings of semi-synchronous replication.
pub(super) struct SemiSync {
    /// As a replica.
    pub acknowledges: bool,
    /// As a primary.
    pub waits: bool,
    /// The variable for that; `None` where the server has no such replication.
    switch: Option<&'static str>,
}

impl SemiSync {
    /// Whether it acknowledges but cannot wait: MySQL has a plugin for each.
    pub fn cannot_wait(&self) -> bool {
        self.acknowledges && self.switch.is_none()
    }
}

/// A server's position, and whether it is read only.
pub(super) struct ServerPosition {
    pub read_only: bool,
    pub position: Position,
}

impl Server {
    pub async fn connect(means: &Means, term: Term, within: Duration) -> Result<Self, Failed> {
        let until = Instant::now() + within;
        let Taken { link, stood } = means.ready.link(&means.address, &means.login, within).await?;
        let dialect = Dialect::of(&link.greeting.version);
        let term = (term, Arc::clone(&means.newest));
        let mut server =
            Self { link, stood, is_altered: false, address: means.address.clone(), dialect, until, term };
        server.until_alone().await?;
        Ok(server)
    }

    /// The same server on another link, for what is done while this one waits for an answer; for no longer than it.
    pub async fn beside(means: &Means, term: Term, within: Duration) -> Result<Self, Failed> {
        let until = Instant::now() + within;
        let link = Link::connect(&means.address, &means.login, within).await?;
        let dialect = Dialect::of(&link.greeting.version);
        let (stood, is_altered, address) = (false, true, means.address.clone());
        let term = (term, Arc::clone(&means.newest));
        Ok(Self { link, stood, is_altered, address, dialect, until, term })
    }

    /// The decision that the order belongs to.
    pub fn term(&self) -> Term {
        self.term.0
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Asks a question.
    pub async fn ask(&mut self, statement: &str) -> Result<Rows, Failed> {
        let left = self.left();
        self.ask_within(statement, left).await
    }

    /// Asks a question with a time limit.
    pub async fn ask_within(&mut self, statement: &str, within: Duration) -> Result<Rows, Failed> {
        Ok(self.link.query(statement, within + ANSWER_SLACK).await?)
    }

    /// Runs a statement that may take long; the server itself ends it when the time is over.
    pub async fn order(&mut self, statement: &str) -> Result<(), Failed> {
        let left = self.left();
        self.order_within(statement, left).await
    }

    /// The same, with less time.
    pub async fn order_within(&mut self, statement: &str, left: Duration) -> Result<(), Failed> {
        if left.is_zero() {
            return Err(Failed::because("the time was over before all was done"));
        }
        let (term, newest) = &self.term;
        let newest = newest.load(SeqCst);
        if newest > term.0 {
            return Err(Failed::because(format!("overtaken by the decision of term {newest}")));
        }
        self.ask(&sql::limit(self.dialect, left.as_secs_f64())).await?;
        // The server's own answer is waited for.
        let left = left.max(limit_min(self.dialect));
        self.ask_within(statement, left).await.map(drop)
    }

    /// Gives the statements that follow all the time that is left.
    pub async fn unlimited(&mut self) -> Result<(), Failed> {
        let left = self.left().max(limit_min(self.dialect));
        self.ask(&sql::limit(self.dialect, left.as_secs_f64())).await.map(drop)
    }

    /// Whether a statement has ended because its time was over.
    pub fn is_late(&self, failed: &Failed) -> bool {
        sql::is_limit_error(self.dialect, failed.errno)
    }

    /// Stops replication threads; a source that is gone is waited for no longer than a second.
    pub async fn stop(&mut self, statement: &str) -> Result<(), Failed> {
        let own = self.goodbye_limit().await?;
        if own.is_some() {
            self.order(&super::sql::goodbye(1)).await?;
        }
        let stopped = self.order(statement).await;
        if let Some(seconds) = own {
            self.ask_within(&super::sql::goodbye(seconds), PUT_BACK).await?;
        }
        stopped
    }

    /// How many seconds an acknowledging replica waits when it tells its source, by a connection of its own, that it stops; `None` when
    /// that is one second at most, or it has no such setting.
    pub async fn goodbye_limit(&mut self) -> Result<Option<u64>, Failed> {
        let limit = self.ask(super::sql::GOODBYE).await?;
        let limit = limit.value_of(super::sql::GOODBYE_LIMIT).and_then(|value| value.parse::<u64>().ok());
        Ok(limit.filter(|seconds| *seconds != 1))
    }

    /// Waits until no earlier order is being carried out: the server does not end a statement when its sender is gone.
    async fn until_alone(&mut self) -> Result<(), Failed> {
        while self.ask(super::sql::OTHER_ORDERS).await?.text(0, 0) != Some("0") {
            if self.left().is_zero() {
                return Err(Failed::because(
                    "it still carries out an earlier order: see SHOW PROCESSLIST there",
                ));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    pub async fn standing(&mut self) -> Result<ServerPosition, Failed> {
        let rows = self.ask(sql::standing(self.dialect)).await?;
        let text = rows.text(0, 1).unwrap_or_default();
        let position = Position::parse(self.dialect.family(), text)
            .map_err(|error| Failed::because(format!("its position cannot be read: {error}")))?;
        Ok(ServerPosition { read_only: rows.text(0, 0) != Some("0"), position })
    }

    /// Its replication channels.
    pub async fn channels(&mut self) -> Result<Vec<Channel>, Failed> {
        let left = self.left() + ANSWER_SLACK;
        let rows = reading::channel_rows(&mut self.link, left).await?;
        Ok(reading::channels(&rows))
    }

    /// Its events, of which `known` may be some. The server itself ends the question after that time.
    pub async fn events(&mut self, known: &[Event], within: Duration) -> Result<Listed, Failed> {
        self.ask(&sql::limit(self.dialect, within.as_secs_f64())).await?;
        let listed = events::listed(&mut self.link, known, within + ANSWER_SLACK).await?;
        // A privilege counts for links that are opened after it was granted.
        self.is_altered |= !listed.hidden.is_empty();
        Ok(listed)
    }

    /// Its semi-synchronous settings.
    pub async fn semi_sync(&mut self) -> Result<SemiSync, Failed> {
        let rows = self.ask(sql::semi_sync(self.dialect)).await?;
        let on = |name| rows.value_of(name).is_some_and(|value| value.eq_ignore_ascii_case("ON"));
        let names = sql::SEMI_SYNC_NAMES;
        Ok(SemiSync {
            acknowledges: names.iter().any(|(acknowledges, _)| on(acknowledges)),
            waits: names.iter().any(|(_, waits)| on(waits)),
            switch: names.map(|(_, waits)| waits).into_iter().find(|name| rows.value_of(name).is_some()),
        })
    }

    /// Makes its commits wait for a replica from now on, or not wait. Needs REPLICATION MASTER ADMIN, MySQL's SYSTEM_VARIABLES_ADMIN. Never
    /// used on a replica: its applier would wait for acknowledgements that nobody sends.
    pub async fn wait_for_replicas(&mut self, semi_sync: &SemiSync, waits: bool) -> Result<(), Failed> {
        let Some(switch) = semi_sync.switch.filter(|_| semi_sync.waits != waits) else { return Ok(()) };
        self.order(&format!("SET GLOBAL {switch} = {}", if waits { "ON" } else { "OFF" })).await
    }

    /// The order has ended. A link that stood ready is there for the next.
    pub fn end(self, means: &Means) {
        if self.stood && !self.is_altered {
            means.ready.give_back(&means.address, &means.login, self.link);
        } else {
            self.link.quit();
        }
    }
}

/// Kills the sessions that `which` selects; returns how many there were.
///
/// # Errors
/// Also where one may not be killed; the others were, then.
pub(super) async fn end(server: &mut Server, which: &str) -> Result<usize, Failed> {
    end_by(server, which, kill).await
}

/// The same by another statement.
pub(super) async fn end_by(
    server: &mut Server,
    which: &str,
    by: impl Fn(u64) -> String,
) -> Result<usize, Failed> {
    let selected = selected(server, which).await?;
    let mut denied = Ok(selected.len());
    for id in selected {
        match server.order(&by(id)).await {
            // It has ended by itself.
            Err(failed) if failed.errno == NO_SUCH_THREAD => {}
            Err(failed) if failed.errno == KILL_DENIED_ERROR => {
                denied = Err(not_ended(server.dialect, id, failed))
            }
            done => done?,
        }
    }
    denied
}

/// Ends what a server that was the primary still runs for clients, if it holds locks on rows: replication would wait for those, and it
/// cannot be committed any more. Without CONNECTION ADMIN or PROCESS that is not done.
pub(super) async fn end_with_locks(server: &mut Server) -> Result<usize, Failed> {
    match end(server, WITH_LOCKS).await {
        // A server that follows late is better than one that does not. What the account lacks is told when the link is opened.
        Err(failed) if matches!(failed.errno, KILL_DENIED_ERROR | SPECIFIC_ACCESS_DENIED_ERROR) => Ok(0),
        done => done,
    }
}

/// The numbers of the sessions that `which` selects.
pub(super) async fn selected(server: &mut Server, which: &str) -> Result<Vec<u64>, Failed> {
    let rows = server.ask(which).await?;
    Ok((0..rows.len()).filter_map(|row| rows.text(row, 0)?.parse().ok()).collect())
}

/// MySQL: "Account Categories".
fn not_ended(dialect: Dialect, id: u64, denied: Failed) -> Failed {
    let why = match dialect {
        Dialect::MariaDb => denied.why,
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => format!(
            "session {id} keeps it from that, and the monitor account may not end it, as its account has SYSTEM_USER (root does): \
             run KILL {id} there, or grant the monitor account SYSTEM_USER"
        ),
    };
    Failed { why, ..denied }
}
