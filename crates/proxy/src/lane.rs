//! A lane: the connections to one node, as all sessions share it. The hot path uses a few atomics; the links are registered, so that they can be cut.
//!
//! A transaction (or a statement outside one) holds a [`Lease`] from its start to its end. A session with state that must be read from the
//! node before it can go elsewhere holds a [`Saver`]. A lane that drains gives no new lease, and is quiet when its last lease and saver
//! have ended. A lane that is shut cuts its links, and never opens again: the node comes back as a new lane with a higher epoch.
//!
//! The counts are in `occupancy` and `links`; here are the sockets, and the notifications for the door (`door.rs`).

mod full;
mod links;
pub mod occupancy;
mod seen;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

use link::Cutter;
use tokio::sync::{Notify, watch};
use topology::NodeId;
use topology::routes::{Cut, LaneState};

use self::full::FullPace;
use self::links::Links;
use self::occupancy::{Occupancy, State};
use self::seen::SessionViewer;

/// The manager's check of a node is awaited for this long; it should take a few round trips.
pub const LOOK_WAIT: Duration = Duration::from_secs(2);

const NO_LIMIT: u32 = u32::MAX;

/// The lane of one node in one epoch. See the head of this file.
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
    /// Leases given so far, including those of the node's earlier epochs. A counter apart from `occupancy`, which changes with each lease, too.
    begun: AtomicU64,
    sessions: AtomicU32,
    sessions_max: AtomicU32,
    /// The number of the last alarm that a session raised here, and those of the last ones that the manager has answered.
    alarms: AtomicU64,
    looked: AtomicU64,
    refused: AtomicU64,
    /// See [`topology::routes::Lane::links_anew`].
    links_anew: AtomicU64,
    /// See [`topology::routes::Lane::shows_sessions`].
    shows_sessions: AtomicBool,
    session_viewer: SessionViewer,
    /// See [`topology::routes::Lane::is_removed`].
    pub is_removed: bool,
    /// It was shut because its node was lost.
    lost: AtomicBool,
    /// How often its node is asked for a connection while it has none.
    pub full: FullPace,
    links: Links<Cutter>,
    /// Links were cut while it drained.
    was_cut: AtomicBool,
    /// What sessions can wait for; see [`Change`].
    change: watch::Sender<Change>,
    /// Wakes the door: the lane may have become quiet, or has room again.
    look: Arc<Notify>,
}

/// What a session can wait for. (The hot path reads atomics instead.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The lane's state.
    pub state: State,
    /// Which running statements are to be aborted.
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
            occupancy: Occupancy::default(),
            begun: AtomicU64::new(0),
            sessions: AtomicU32::new(0),
            sessions_max: AtomicU32::new(NO_LIMIT),
            alarms: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            links_anew: AtomicU64::new(0),
            shows_sessions: AtomicBool::new(false),
            session_viewer: SessionViewer::default(),
            is_removed: lane.is_removed,
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

    /// Takes over what new routes say about it.
    pub fn set(&self, lane: &topology::routes::Lane) {
        self.sessions_max.store(lane.sessions_max.unwrap_or(NO_LIMIT), SeqCst);
        self.looked.fetch_max(lane.looked, SeqCst);
        self.refused.fetch_max(lane.refused, SeqCst);
        self.links_anew.store(lane.links_anew, Relaxed);
        self.shows_sessions.store(lane.shows_sessions, Relaxed);
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

    /// See [`topology::routes::Lane::links_anew`].
    pub fn links_anew(&self) -> u64 {
        self.links_anew.load(Relaxed)
    }

    /// See [`topology::routes::Lane::shows_sessions`].
    pub fn shows_sessions(&self) -> bool {
        self.shows_sessions.load(Relaxed)
    }

    /// Notes why it ends or has ended, before sessions can see that it does.
    pub fn note_end(&self, newer: &topology::routes::Lane) {
        if newer.lost_epoch.is_some_and(|lost| lost >= self.epoch) {
            self.lost.store(true, SeqCst);
        }
    }

    /// Whether it was shut because its node was lost, and not because another node took over.
    pub fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Wakes those who wait for a change.
    fn announce(&self, cut: Cut) {
        let change = Change { state: self.occupancy.state(), cut };
        self.change.send_if_modified(|old| std::mem::replace(old, change) != change);
    }

    /// Shuts it for good and cuts every link: nothing more can be sent to its node on any of them, nor what is still in their sockets here.
    pub fn shut(&self) {
        self.occupancy.set(State::Shut);
        self.announce(Cut::All);
        self.links.close(|link| link.discard());
    }

    /// Whether it takes statements.
    pub fn state(&self) -> LaneState {
        match self.occupancy.state() {
            State::Open => LaneState::Open,
            State::Draining => LaneState::Draining,
            State::Shut => LaneState::Shut,
        }
    }

    /// Whether it takes new transactions.
    pub fn is_open(&self) -> bool {
        self.occupancy.state() == State::Open
    }

    /// Whether running transactions may end, and none may start.
    pub fn is_draining(&self) -> bool {
        self.occupancy.state() == State::Draining
    }

    /// Whether it was shut.
    pub fn is_shut(&self) -> bool {
        self.occupancy.state() == State::Shut
    }

    /// Whether its links were cut, because it was shut or because an operator aborted what ran on it.
    pub fn is_cut(&self) -> bool {
        self.is_shut() || self.was_cut.load(SeqCst)
    }

    /// Whether nothing runs on it, and no session has to read anything from its node.
    pub fn is_quiet(&self) -> bool {
        self.occupancy.is_quiet()
    }

    /// A receiver for changes of its state.
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

    /// Resolves when at least `what` is to be aborted.
    pub async fn until_cut(&self, what: Cut) {
        self.until(|change| change.cut >= what).await;
    }

    async fn until(&self, fits: impl FnMut(&Change) -> bool) {
        // An error means that the sender, and with it the lane, is gone.
        let _ = self.watch().wait_for(fits).await;
    }

    /// The number of a new alarm.
    pub fn next_alarm(&self) -> u64 {
        self.alarms.fetch_add(1, SeqCst) + 1
    }

    /// Whether the node was asked after this alarm, and reported that it is well.
    pub fn has_looked(&self, alarm: u64) -> bool {
        self.looked.load(SeqCst) >= alarm
    }

    /// Whether the node was asked after this alarm, and reported that it does not serve.
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

    /// Whether one more session may come.
    pub fn has_room(&self) -> bool {
        self.sessions.load(SeqCst) < self.sessions_max.load(SeqCst)
    }

    /// Whether more sessions are here than the limit allows, so that some should leave after their present transaction.
    pub fn is_crowded(&self) -> bool {
        self.sessions.load(SeqCst) > self.sessions_max.load(SeqCst)
    }

    /// A lease for a transaction, unless the lane takes none.
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        self.occupancy.begin_lease().then(|| {
            self.begun.fetch_add(1, Relaxed);
            Lease { lane: self.clone() }
        })
    }

    /// Transactions, and statements outside one, that were begun on the node so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Continues the count of the node's lane before this one.
    pub fn count_on(&self, before: &Self) {
        self.begun.store(before.begun(), Relaxed);
    }

    /// Registers a link, which is cut when the lane is shut. `None` when it is shut already.
    pub fn register(self: &Arc<Self>, link: Cutter) -> Option<Registration> {
        let number = self.links.register(link)?;
        self.sessions.fetch_add(1, SeqCst);
        Some(Registration { lane: self.clone(), number })
    }
}

/// A transaction may run on a lane for as long as this exists.
pub struct Lease {
    lane: Arc<Lane>,
}

impl Lease {
    /// Its lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// A session has state on the node that must be read before the lane is quiet.
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

/// A session has state to read from its node for as long as this exists; the lane is not quiet.
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

/// A link on a lane for as long as this exists.
pub struct Registration {
    lane: Arc<Lane>,
    number: u64,
}

impl Registration {
    /// Its lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.lane.links.release(self.number);
        let before = self.lane.sessions.fetch_sub(1, SeqCst);
        if before == self.lane.sessions_max.load(SeqCst) {
            self.lane.look.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
