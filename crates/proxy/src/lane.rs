//! The way to one node, as the sessions on it share it: a few atomics on the hot path, a registry of links to cut.
//!
//! A transaction (or a statement outside one) holds a [`Lease`] from its start to its end; a session that has something to read from the
//! node before it can go elsewhere holds a [`Saver`]. A lane that drains takes no new lease; when its last lease and saver have ended it
//! is quiet. A lane that is shut cuts its links; it never opens again (its node comes back as a new lane of a higher epoch).
//!
//! What may begin when, and when all links are gone, is counted in `occupancy` and `links`; here are the sockets and the door.

mod full;
mod links;
mod occupancy;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use link::Cutter;
use tokio::sync::{Notify, watch};
use topology::NodeId;
use topology::routes::{Cut, LaneState};

use self::full::FullPace;
use self::links::Links;
use self::occupancy::{Occupancy, State};

const NO_LIMIT: u32 = u32::MAX;

/// See the head of this file.
pub struct Lane {
    /// Which node.
    pub node: NodeId,
    /// Its name.
    pub name: Arc<str>,
    /// `host:port`.
    pub address: Arc<str>,
    /// See [`topology::routes::Lane::epoch`].
    pub epoch: u64,
    occupancy: Occupancy,
    /// Leases ever given, those of the node's earlier epochs too. Beside `occupancy`, which each lease changes as well.
    begun: AtomicU64,
    sessions: AtomicU32,
    sessions_max: AtomicU32,
    /// The number of the last alarm that a session raised here, and of the last that the manager has answered.
    alarms: AtomicU64,
    looked: AtomicU64,
    refused: AtomicU64,
    /// It was shut since its node is lost.
    lost: AtomicBool,
    /// How often its node is asked for a connection when it has none left.
    pub full: FullPace,
    links: Links<Cutter>,
    /// Links were cut while it drained.
    was_cut: AtomicBool,
    /// What sessions wait for; see [`Change`].
    change: watch::Sender<Change>,
    /// The door is to look: it may have become quiet, has room again, or its last link is gone.
    look: Arc<Notify>,
}

/// What a session may wait for. (The hot path reads atomics instead.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The lane's state.
    pub state: State,
    /// What is to be broken off.
    pub cut: Cut,
}

impl Lane {
    /// A lane in the state the routes give it.
    pub fn new(lane: &topology::routes::Lane, look: Arc<Notify>) -> Arc<Self> {
        let new = Self {
            node: lane.node,
            name: lane.name.clone(),
            address: lane.address.clone(),
            epoch: lane.epoch,
            occupancy: Occupancy::new(),
            begun: AtomicU64::new(0),
            sessions: AtomicU32::new(0),
            sessions_max: AtomicU32::new(NO_LIMIT),
            alarms: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            full: FullPace::default(),
            links: Links::new(),
            was_cut: AtomicBool::new(false),
            change: watch::Sender::new(Change { state: State::Open, cut: Cut::Nothing }),
            look,
        };
        new.set(lane);
        Arc::new(new)
    }

    /// Takes up what new routes say of it.
    pub fn set(&self, lane: &topology::routes::Lane) {
        self.sessions_max.store(lane.sessions_max.unwrap_or(NO_LIMIT), SeqCst);
        self.looked.fetch_max(lane.looked, SeqCst);
        self.refused.fetch_max(lane.refused, SeqCst);
        self.note_end(lane);
        match lane.state {
            LaneState::Open => self.occupancy.set(State::Open),
            LaneState::Draining => self.occupancy.set(State::Draining),
            LaneState::Shut => return self.shut(),
        }
        let cut = if lane.state == LaneState::Draining { lane.cut } else { Cut::Nothing };
        self.announce(cut);
        if cut == Cut::All {
            self.was_cut.store(true, SeqCst);
            self.links.cut(|link| link.cut());
        }
    }

    /// How it ends, or has ended, before anybody sees that it does.
    pub fn note_end(&self, newer: &topology::routes::Lane) {
        if newer.lost_epoch.is_some_and(|lost| lost >= self.epoch) {
            self.lost.store(true, SeqCst);
        }
    }

    /// It was shut since its node was lost, and not because another took over.
    pub fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Tells those who wait.
    fn announce(&self, cut: Cut) {
        let change = Change { state: self.occupancy.state(), cut };
        self.change.send_if_modified(|old| std::mem::replace(old, change) != change);
    }

    /// Cuts every link, now and for good.
    pub fn shut(&self) {
        self.occupancy.set(State::Shut);
        self.announce(Cut::All);
        if self.links.close(|link| link.cut()) {
            self.look.notify_one();
        }
    }

    /// Its state by name.
    pub fn state_name(&self) -> &'static str {
        match self.occupancy.state() {
            State::Open => "open",
            State::Draining => "draining",
            State::Shut => "shut",
        }
    }

    /// Takes new transactions.
    pub fn is_open(&self) -> bool {
        self.occupancy.state() == State::Open
    }

    /// Running transactions may end, none may start.
    pub fn is_draining(&self) -> bool {
        self.occupancy.state() == State::Draining
    }

    /// Never to be used again.
    pub fn is_shut(&self) -> bool {
        self.occupancy.state() == State::Shut
    }

    /// Its links were cut, whether it is shut or an operator broke off what ran on it.
    pub fn is_cut(&self) -> bool {
        self.is_shut() || self.was_cut.load(SeqCst)
    }

    /// Nothing runs on it, and nobody has anything left to read from its node.
    pub fn is_quiet(&self) -> bool {
        self.occupancy.is_quiet()
    }

    /// It is shut and no link stands on it: each is cut, and its session has let go of it. The door is told to look when that is so.
    pub fn is_empty(&self) -> bool {
        self.links.is_gone()
    }

    /// To wait for changes of its state.
    pub fn watch(&self) -> watch::Receiver<Change> {
        self.change.subscribe()
    }

    /// Resolves when the lane is shut.
    pub async fn until_shut(&self) {
        self.until(|change| change.state == State::Shut).await;
    }

    /// Resolves when it no longer takes transactions.
    pub async fn until_not_open(&self) {
        self.until(|change| change.state != State::Open).await;
    }

    /// Resolves when at least `what` is to be broken off.
    pub async fn until_cut(&self, what: Cut) {
        self.until(|change| change.cut >= what).await;
    }

    async fn until(&self, fits: impl FnMut(&Change) -> bool) {
        // An error means that the sender, and so the lane, is gone: as good as shut.
        let _ = self.watch().wait_for(fits).await;
    }

    /// A number for an alarm that a session raises.
    pub fn next_alarm(&self) -> u64 {
        self.alarms.fetch_add(1, SeqCst) + 1
    }

    /// The node was asked after this alarm, and said that it is well.
    pub fn has_looked(&self, alarm: u64) -> bool {
        self.looked.load(SeqCst) >= alarm
    }

    /// The node was asked after this alarm, and said that it does not serve.
    pub fn has_refused(&self, alarm: u64) -> bool {
        self.refused.load(SeqCst) >= alarm
    }

    /// Leases held now.
    pub fn leases(&self) -> usize {
        self.occupancy.leases()
    }

    /// Sessions with a link on this lane now.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(SeqCst)
    }

    /// One more session may come.
    pub fn has_room(&self) -> bool {
        self.sessions.load(SeqCst) < self.sessions_max.load(SeqCst)
    }

    /// More sessions are here than may be: one of them should leave at its next boundary.
    pub fn is_crowded(&self) -> bool {
        self.sessions.load(SeqCst) > self.sessions_max.load(SeqCst)
    }

    /// Starts a transaction here, unless the lane takes none.
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        self.occupancy.begin_lease().then(|| {
            self.begun.fetch_add(1, Relaxed);
            Lease { lane: self.clone() }
        })
    }

    /// Transactions, and statements outside one, that were ever begun on the node.
    pub fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Goes on counting where the node's lane before this one ended.
    pub fn count_on(&self, before: &Self) {
        self.begun.store(before.begun(), Relaxed);
    }

    /// Registers a link, so that it is cut when the lane is shut. `None` when it is shut already.
    pub fn register(self: &Arc<Self>, link: Cutter) -> Option<Registration> {
        let number = self.links.register(link)?;
        self.sessions.fetch_add(1, SeqCst);
        Some(Registration { lane: self.clone(), number: Some(number) })
    }
}

/// A transaction runs on a lane as long as this lives.
pub struct Lease {
    lane: Arc<Lane>,
}

impl Lease {
    /// Which lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// A session has something on the node that is to be read before the lane is quiet.
    pub fn save_later(&self) -> Saver {
        self.lane.occupancy.begin_saving();
        Saver { lane: self.lane.clone() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.lane.occupancy.end_lease() {
            self.lane.look.notify_one();
        }
    }
}

/// A session has something to read from its node as long as this lives: the lane is not quiet.
pub struct Saver {
    lane: Arc<Lane>,
}

impl Drop for Saver {
    fn drop(&mut self) {
        if self.lane.occupancy.end_saving() {
            self.lane.look.notify_one();
        }
    }
}

/// A link stands on a lane as long as this lives. To be dropped after the link itself: then the lane may be without one.
pub struct Registration {
    lane: Arc<Lane>,
    /// `None` when it was given back before.
    number: Option<u64>,
}

impl Registration {
    /// Which lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// The link counts as gone from now on, though it was not dropped yet: it is cut, and nobody will use it any more.
    pub fn release(&mut self) {
        let Some(number) = self.number.take() else { return };
        let was_last = self.lane.links.release(number);
        let before = self.lane.sessions.fetch_sub(1, SeqCst);
        if was_last || before == self.lane.sessions_max.load(SeqCst) {
            self.lane.look.notify_one();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
