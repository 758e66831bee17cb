//! One node's pace: a task that brings `evs.join_retrans_period` in line with the newest wish, and puts the node's own value back.
//!
//! Enters: whether the node is to send its join messages again every 0.1 s. Leaves: SET GLOBAL on the node, nothing else. Wishes that are overtaken are skipped.
//! Invariant: the node's own value is on disk before it is changed ([`crate::loans`]). After the last wish, or when the wishes end, the node
//! has it again, unless it cannot be reached; should this process be killed in between, its next start puts it back.

use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError, Login};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use topology::galera::sql;

use crate::loans::{BRISK, Loans};

/// How long one try may take, how long to wait before the next, and how many there are for putting a value back.
const DEADLINE: Duration = Duration::from_secs(2);
const GAP: Duration = Duration::from_millis(500);
const TRIES: u32 = 10;

pub(crate) struct Pacer {
    pub address: String,
    pub login: Login,
    pub wish: watch::Receiver<bool>,
    pub loans: Arc<Loans>,
}

impl Pacer {
    /// Runs until nobody wishes any more.
    pub async fn run(mut self) {
        // What puts the node's own value back; there while the period is the shortened one.
        let mut own: Option<String> = None;
        loop {
            let ended = self.wish.changed().await.is_err();
            let fast_join_retrans = !ended && *self.wish.borrow_and_update();
            match (fast_join_retrans, own.take()) {
                (true, None) => own = self.quicken().await,
                (false, Some(statement)) => own = self.put_back(statement, ended).await,
                (_, before) => own = before,
            }
            if ended {
                self.loans.end(&self.address, &self.login).await;
                return;
            }
        }
    }

    /// Shortens the period on the node. `None` when it could not be done, or there is nothing to put back: the node is as fast as Galera makes it.
    async fn quicken(&self) -> Option<String> {
        let mut own = None;
        let done = timeout(DEADLINE, async {
            let mut link = Link::connect(&self.address, &self.login, DEADLINE).await?;
            let talk = link.query(sql::TALK, DEADLINE).await?;
            let uuid = talk.value_of("wsrep_gcomm_uuid").unwrap_or_default();
            let options = link.query(sql::PROVIDER_OPTIONS, DEADLINE).await?;
            let options = options.text(0, 0).unwrap_or_default();
            let period = self.loans.own(&self.address, uuid, options, BRISK).await;
            own = period.and_then(|period| sql::set_period(sql::JOIN_PERIOD, &period));
            if own.is_some() {
                link.query(sql::BRISK, DEADLINE).await?;
            }
            Ok::<(), LinkError>(())
        })
        .await;
        if !matches!(done, Ok(Ok(()))) {
            tracing::debug!("{} could not be made brisk: {done:?}", self.address);
        }
        own
    }

    /// Puts the node's own value back, trying again while nobody wishes otherwise. Gives `statement` back when it must be
    /// done later.
    async fn put_back(&self, statement: String, ended: bool) -> Option<String> {
        for _ in 0..if ended { 1 } else { TRIES } {
            let done = timeout(DEADLINE, async {
                Link::connect(&self.address, &self.login, DEADLINE).await?.query(&statement, DEADLINE).await
            })
            .await;
            if matches!(done, Ok(Ok(_))) {
                return None;
            }
            if !ended && self.wish.has_changed().unwrap_or(true) {
                return Some(statement);
            }
            sleep(GAP).await;
        }
        // A node that was restarted meanwhile has its own value again by itself.
        tracing::warn!(
            "{} could not be given its own join period back; if it is up, run there: {statement}",
            self.address
        );
        None
    }
}
