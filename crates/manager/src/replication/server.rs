//! A link to a server that is given an order, with the time that is left for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use link::{Link, Login, Rows};
use protocol::gtid::{Family, Position};
use tokio::time::{Instant, sleep};
use topology::Term;
use topology::replication::{Channel, sql};

use crate::act::Failed;
use crate::reading;

/// The server's own limit is exact to some milliseconds; the link gives up later, so that the server's word is heard.
const ANSWER_SLACK: Duration = Duration::from_millis(100);

/// Between two looks at what it does.
const LOOK: Duration = Duration::from_millis(20);
/// For putting back what was changed, when the time may be over.
const PUT_BACK: Duration = Duration::from_millis(100);

pub(super) struct Server {
    link: Link,
    until: Instant,
    /// The decision that the order belongs to, and the latest that any does.
    term: (Term, Arc<AtomicU64>),
}

/// Where a server stands.
pub(super) struct Standing {
    pub read_only: bool,
    pub position: Position,
}

impl Server {
    pub async fn connect(
        address: &str,
        login: &Login,
        term: (Term, Arc<AtomicU64>),
        within: Duration,
    ) -> Result<Self, Failed> {
        let until = Instant::now() + within;
        let mut link = Link::connect(address, login, within).await?;
        // Literals are written for this mode.
        link.query("SET SESSION sql_mode = ''", within).await?;
        let mut server = Self { link, until, term };
        server.until_alone().await?;
        Ok(server)
    }

    /// What is left of the time.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Asks.
    pub async fn ask(&mut self, statement: &str) -> Result<Rows, Failed> {
        let left = self.left();
        self.ask_within(statement, left).await
    }

    /// Asks, and waits so long for the answer.
    pub async fn ask_within(&mut self, statement: &str, within: Duration) -> Result<Rows, Failed> {
        Ok(self.link.query(statement, within + ANSWER_SLACK).await?)
    }

    /// Has it do something that may take its time; the server itself gives it up when the time is over.
    pub async fn order(&mut self, statement: &str) -> Result<(), Failed> {
        let left = self.left();
        self.order_within(statement, left).await
    }

    /// As above, with less time.
    pub async fn order_within(&mut self, statement: &str, left: Duration) -> Result<(), Failed> {
        if left.is_zero() {
            return Err(Failed::because("the time was over before all was done"));
        }
        let (term, newest) = &self.term;
        let newest = newest.load(SeqCst);
        if newest > term.0 {
            return Err(Failed::because(format!("overtaken by the decision of term {newest}")));
        }
        // Zero would be no limit.
        let limit = left.as_secs_f64().max(0.001);
        self.ask(&format!("SET SESSION max_statement_time = {limit:.3}")).await?;
        self.ask(statement).await.map(drop)
    }

    /// Has it stop threads that replicate; a source that is gone is waited for no longer than a second.
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

    /// How many seconds a replica that acknowledges waits when it tells its source, by a connection of its own, that it stops; `None` when
    /// that is one at the most, or it knows nothing of it.
    pub async fn goodbye_limit(&mut self) -> Result<Option<u64>, Failed> {
        let limit = self.ask(super::sql::GOODBYE).await?;
        let limit = limit.value_of(super::sql::GOODBYE_LIMIT).and_then(|value| value.parse::<u64>().ok());
        Ok(limit.filter(|seconds| *seconds != 1))
    }

    /// Waits until no earlier order is carried out any more: the server does not end a statement whose sender is gone.
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

    pub async fn standing(&mut self) -> Result<Standing, Failed> {
        let rows = self.ask(sql::STANDING).await?;
        let text = rows.text(0, 1).unwrap_or_default();
        let position = Position::parse(Family::MariaDb, text)
            .map_err(|error| Failed::because(format!("its gtid_current_pos cannot be read: {error}")))?;
        Ok(Standing { read_only: rows.text(0, 0) != Some("0"), position })
    }

    /// The sources that it follows.
    pub async fn channels(&mut self) -> Result<Vec<Channel>, Failed> {
        let left = self.left() + ANSWER_SLACK;
        let rows = reading::channel_rows(&mut self.link, left).await?;
        Ok(reading::channels(&rows))
    }

    /// The values of its semi-synchronous settings: whether it acknowledges as a replica, and waits as a primary.
    pub async fn semi_sync(&mut self) -> Result<(bool, bool), Failed> {
        let rows = self.ask(super::sql::SEMI_SYNC).await?;
        let on = |name| rows.value_of(name).is_some_and(|value| value.eq_ignore_ascii_case("ON"));
        Ok((on("rpl_semi_sync_slave_enabled"), on("rpl_semi_sync_master_enabled")))
    }

    pub fn quit(self) {
        self.link.quit();
    }
}
