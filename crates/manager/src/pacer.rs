//! A task for each node that sets `evs.join_retrans_period` to the newest wish, and restores the node's own value.
//!
//! Enters: whether the node is to repeat its join messages every 0.1 s. Leaves: SET GLOBAL on the node, nothing else. Wishes that are
//! replaced by a newer one are skipped. Invariant: the node's own value is on disk before it is changed ([`crate::loans`]). After the last
//! wish, or when the wishes end, the node has it again, unless it cannot be reached; if this process is killed in between, its next start
//! restores it.

use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError, ask_once};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use topology::galera::sql;

use crate::loans::{FAST_JOIN_RETRANS, Loans};
use crate::means::{self, MeansNow};

/// The time limit of one try, the pause before the next, and the number of tries for restoring a value.
const DEADLINE: Duration = Duration::from_secs(2);
const GAP: Duration = Duration::from_millis(500);
const TRIES: u32 = 10;

pub(crate) struct Pacer {
    pub address: String,
    pub means: MeansNow,
    pub wish: watch::Receiver<bool>,
    pub loans: Arc<Loans>,
}

impl Pacer {
    /// Runs until its sender of wishes is gone.
    pub async fn run(mut self) {
        // The statement that restores the node's own value, while the period is shortened.
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
                self.loans.end(&self.address, &means::now(&self.means).login).await;
                return;
            }
        }
    }

    /// Shortens the period on the node. `None` when that failed, or there is nothing to restore.
    async fn quicken(&self) -> Option<String> {
        let mut own = None;
        let means = means::now(&self.means);
        let done = timeout(DEADLINE, async {
            let mut link = Link::connect(&self.address, &means.login, DEADLINE).await?;
            let view_state = link.query(sql::VIEW_STATE, DEADLINE).await?;
            let uuid = view_state.value_of("wsrep_gcomm_uuid").unwrap_or_default();
            let options = link.query(sql::PROVIDER_OPTIONS, DEADLINE).await?;
            let options = options.text(0, 0).unwrap_or_default();
            let period = self.loans.own(&self.address, uuid, options, FAST_JOIN_RETRANS).await;
            own = period.and_then(|period| sql::set_period(sql::JOIN_PERIOD, &period));
            if own.is_some() {
                link.query(sql::FAST_JOIN_RETRANS, DEADLINE).await?;
            }
            Ok::<(), LinkError>(())
        })
        .await;
        if !matches!(done, Ok(Ok(()))) {
            tracing::debug!(
                "{} could not be given the short join retransmission period: {done:?}",
                self.address
            );
        }
        own
    }

    /// Restores the node's own value, with repeated tries while there is no other wish. Returns `statement` when it must be run later.
    async fn put_back(&self, statement: String, ended: bool) -> Option<String> {
        for _ in 0..if ended { 1 } else { TRIES } {
            let means = means::now(&self.means);
            let done = timeout(DEADLINE, ask_once(&self.address, &means.login, &statement, DEADLINE)).await;
            if matches!(done, Ok(Ok(_))) {
                return None;
            }
            if !ended && self.wish.has_changed().unwrap_or(true) {
                return Some(statement);
            }
            sleep(GAP).await;
        }
        // A node that was restarted meanwhile has its own value by itself.
        tracing::warn!(
            "{} could not be given its own join period back; if it is up, run there: {statement}",
            self.address
        );
        None
    }
}
