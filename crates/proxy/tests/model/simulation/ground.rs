//! What simulated sessions and links stand on, whichever kind of cluster it is: its servers ([`Nodes`]) and who is in charge ([`Control`]).

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sim::Dice;
use sim::clock::Clock;
use topology::fact::ProxyFact;
use topology::routes::Routes;

use super::ledger::Ledger;

/// What a server does, when it is done.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a node's process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Up,
    Frozen,
    /// Told to end, and on its way out.
    Stopping,
    Down,
}

/// Why a statement was not done by its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// Refused, or rolled back, with this error.
    Error(u16),
    /// The process ended, or the session was killed.
    Died,
}

/// The servers, as far as a client can tell them from real ones.
pub trait Nodes {
    fn life(&self, node: usize) -> Life;
    /// Grows with each start: a link knows by it whether its server is still the same.
    fn born(&self, node: usize) -> u64;
    /// The proxy and the manager can reach its host.
    fn is_reachable(&self, node: usize) -> bool;
    /// It takes statements; else the error that it gives.
    fn serves(&self, node: usize) -> Result<(), u16>;
    /// What a read sees, as [`Nodes::sees`] takes it.
    fn read(&self, node: usize) -> usize;
    /// Commits all of it or nothing; the transaction's GTID, where that is reported.
    fn commit<'a>(
        &'a self,
        node: usize,
        born: u64,
        rows: &'a [u32],
    ) -> Doing<'a, Result<Option<String>, NotDone>>;
    /// Waits until all is applied that the cluster had when this began.
    fn causal_read(&self, node: usize, born: u64) -> Doing<'_, Result<(), NotDone>>;
    /// The position of all that it has.
    fn position(&self, node: usize) -> String;
    /// Whether it has applied everything up to there.
    fn has_applied(&self, node: usize, position: &str) -> bool;

    // ---- what clients know

    /// Rows were acknowledged to a client.
    fn acknowledged(&self, client: usize, rows: &[u32]);
    /// What a client has to see in a read that begins now, as [`Nodes::sees`] takes it.
    fn must_see(&self, client: usize) -> usize;
    /// A client sees this: all that it must is in it.
    fn sees(&self, client: usize, must: usize, seen: usize);

    /// Its process does something.
    fn runs(&self, node: usize) -> bool {
        matches!(self.life(node), Life::Up | Life::Stopping)
    }

    /// Still the process that it was, frozen or not.
    fn is_same(&self, node: usize, born: u64) -> bool {
        self.born(node) == born && self.life(node) != Life::Down
    }
}

/// The manager's process.
pub trait Control {
    /// The routes of the lanes.
    fn routes(&self) -> Option<Arc<Routes>>;
    /// A fact of the proxy's. One that `may_be_dropped` is so now and then; whether it was told.
    fn tell(&self, fact: ProxyFact, may_be_dropped: bool) -> bool;
    /// Which process it is, if it runs: the proxy ends with it.
    fn process(&self) -> Option<u64>;
    /// A client's statement has ended: for whoever looks for the cause of a failure.
    fn note_statement(&self, text: String);
}

/// See the head of this file.
pub struct Ground {
    pub clock: Rc<Clock>,
    pub dice: Rc<Dice>,
    pub nodes: Rc<dyn Nodes>,
    pub ledger: Rc<Ledger>,
}

impl Ground {
    /// Takes so long, if the process runs.
    pub async fn work(&self, node: usize, born: u64, time: Duration) -> Result<(), NotDone> {
        self.clock.sleep(time).await;
        self.clock
            .until(|| match self.nodes.is_same(node, born) {
                false => Some(Err(NotDone::Died)),
                true => self.nodes.runs(node).then_some(Ok(())),
            })
            .await
    }
}
