//! The way to one node, as the sessions on it share it: a few atomics on the hot path, a registry of links to cut.
//!
//! A transaction (or a statement outside one) holds a [`Lease`] from its start to its end. A session that has something left to read
//! from the node before it can go elsewhere holds a [`Saver`]. A lane that drains takes no new lease; when its last lease and its last
//! saver have ended, the door may say that it is quiet. A lane that is shut cuts its links, and is cut when each session has let go of
//! its own; it never opens again (its node comes back as a new lane of a higher epoch).
//!
//! What may start when, and when all links are gone, is counted in `occupancy` and `links`; here are the sockets and the door.

mod links;
mod occupancy;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use tokio::net::TcpStream;
use tokio::sync::watch;
use topology::NodeId;
use topology::routes::LaneState;

use self::links::Links;
use self::occupancy::{Occupancy, Phase};
use crate::door::DoorHandle;

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
    links: Links<socket2::Socket>,
    sessions: AtomicU32,
    sessions_max: AtomicU32,
    alarms: AtomicU64,
    /// For whoever waits for a change of it.
    state: watch::Sender<LaneState>,
    door: DoorHandle,
}

impl Lane {
    /// A lane in the state the routes give it.
    pub fn new(lane: &topology::routes::Lane, door: DoorHandle) -> Arc<Self> {
        let new = Self {
            node: lane.node,
            name: lane.name.clone(),
            address: lane.address.clone(),
            epoch: lane.epoch,
            occupancy: Occupancy::new(),
            links: Links::new(),
            sessions: AtomicU32::new(0),
            sessions_max: AtomicU32::new(NO_LIMIT),
            alarms: AtomicU64::new(0),
            state: watch::Sender::new(LaneState::Open),
            door,
        };
        new.set(lane.state, lane.sessions_max);
        Arc::new(new)
    }

    /// Takes up what new routes say of it. A lane that was shut stays so, and one that is quiet stays quiet when it is told to drain
    /// again. Only the door calls this.
    pub fn set(&self, state: LaneState, sessions_max: Option<u32>) {
        self.sessions_max.store(sessions_max.unwrap_or(NO_LIMIT), SeqCst);
        match state {
            LaneState::Open => self.occupancy.reopen(),
            LaneState::Draining => self.occupancy.drain(),
            LaneState::Shut => return self.shut(),
        }
        self.tell(state);
    }

    /// Cuts every link, now and for good. The door is told to look when the last session has let go of its own. Only the door calls
    /// this.
    pub fn shut(&self) {
        self.occupancy.shut();
        self.tell(LaneState::Shut);
        // The session on it reads the end of the stream and sees that the lane is shut. A link that broke by itself meanwhile
        // refuses, and that is as good.
        let is_cut = self.links.close(|link| _ = link.shutdown(std::net::Shutdown::Both));
        if is_cut {
            self.door.quiet();
        }
    }

    /// Whether nothing runs here any more, nor is left to be read. From this yes on nothing starts, until the lane is opened again.
    /// `false` while it is open or shut. Only the door calls this; it is told to look when the answer may have become yes.
    #[allow(dead_code)] // the door still looks at the leases alone
    pub fn quiet(&self) -> bool {
        self.occupancy.quiet()
    }

    /// The lane is shut, every link is cut, and every session on it has let go of its own: nothing can be sent on any of them.
    #[allow(dead_code)] // the door does not say it yet
    pub fn is_cut(&self) -> bool {
        self.links.is_gone()
    }

    fn tell(&self, state: LaneState) {
        self.state.send_if_modified(|told| {
            // Shut is the end.
            let is_new = *told != state && *told != LaneState::Shut;
            if is_new {
                *told = state;
            }
            is_new
        });
    }

    /// Its state by name.
    pub fn state_name(&self) -> &'static str {
        match self.occupancy.phase() {
            Phase::Open => "open",
            Phase::Draining | Phase::Quiet => "draining",
            Phase::Shut => "shut",
        }
    }

    /// Takes new transactions.
    pub fn is_open(&self) -> bool {
        self.occupancy.phase() == Phase::Open
    }

    /// Running transactions may end, none may start.
    pub fn is_draining(&self) -> bool {
        matches!(self.occupancy.phase(), Phase::Draining | Phase::Quiet)
    }

    /// Never to be used again.
    pub fn is_shut(&self) -> bool {
        self.occupancy.phase() == Phase::Shut
    }

    /// Resolves when the lane is shut.
    pub async fn until_shut(&self) {
        self.until(|state| state == LaneState::Shut).await;
    }

    /// Resolves when the lane takes no new transactions: it drains, or is shut.
    #[allow(dead_code)] // for sessions that have something to save
    pub async fn until_not_open(&self) {
        self.until(|state| state != LaneState::Open).await;
    }

    async fn until(&self, is: impl Fn(LaneState) -> bool) {
        let mut state = self.state.subscribe();
        // An error means that the sender, and so the lane, is gone: as good as shut.
        let _ = state.wait_for(|state| is(*state)).await;
    }

    /// A number for an alarm about this node, from 1 on and growing ([`topology::routes::Lane::looked`] answers it).
    #[allow(dead_code)] // alarms have no number yet
    pub fn alarm(&self) -> u64 {
        self.alarms.fetch_add(1, SeqCst) + 1
    }

    /// Leases held now.
    pub fn leases(&self) -> usize {
        self.occupancy.leases()
    }

    /// Savers held now.
    #[allow(dead_code)] // there is none yet
    pub fn savers(&self) -> usize {
        self.occupancy.savers()
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
        self.occupancy.lease().then(|| Lease { lane: self.clone() })
    }

    /// Keeps the lane from being said to be quiet, for something that is to be read from the node first. Also while it drains; `None`
    /// when it was said to be quiet, or is shut. Never refused to whoever holds a lease or another saver of a lane that is not shut: a
    /// session that will have to read something takes this before it gives its lease back.
    #[allow(dead_code)] // for sessions that have something to save
    pub fn saver(self: &Arc<Self>) -> Option<Saver> {
        self.occupancy.saver().then(|| Saver { lane: self.clone() })
    }

    /// Registers a link, so that it is cut when the lane is shut. `None` when it is shut already.
    pub fn register(self: &Arc<Self>, stream: &TcpStream) -> std::io::Result<Option<Registration>> {
        let copy = socket2::SockRef::from(stream).try_clone()?;
        let Some(number) = self.links.register(copy) else { return Ok(None) };
        self.sessions.fetch_add(1, SeqCst);
        Ok(Some(Registration { lane: self.clone(), number }))
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
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.lane.occupancy.end_lease() {
            self.lane.door.quiet();
        }
    }
}

/// Something is to be read from a lane's node as long as this lives.
#[allow(dead_code)] // for sessions that have something to save
pub struct Saver {
    lane: Arc<Lane>,
}

#[allow(dead_code)] // as above
impl Saver {
    /// Which lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        if self.lane.occupancy.end_saver() {
            self.lane.door.quiet();
        }
    }
}

/// A link stands on a lane as long as this lives. To be dropped after the link itself: once it is, the lane may be said to be cut.
pub struct Registration {
    lane: Arc<Lane>,
    number: u64,
}

impl Registration {
    /// Which lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.lane.links.release(self.number) {
            self.lane.door.quiet();
        }
        let before = self.lane.sessions.fetch_sub(1, SeqCst);
        if before == self.lane.sessions_max.load(SeqCst) {
            self.lane.door.room();
        }
    }
}

#[cfg(test)]
mod tests;
