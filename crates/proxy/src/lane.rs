//! The way to one node, as the sessions on it share it: a few atomics on the hot path, a registry of links to cut.
//!
//! A transaction (or a statement outside one) holds a [`Lease`] from its start to its end. A lane that drains takes no new
//! lease; when its last one ends it is quiet. A lane that is shut cuts its links; it never opens again (its node comes back as
//! a new lane of a higher epoch).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::watch;
use topology::NodeId;
use topology::routes::LaneState;

use crate::door::DoorHandle;

const OPEN: u8 = 0;
const DRAINING: u8 = 1;
const SHUT: u8 = 2;
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
    state: AtomicU8,
    leases: AtomicUsize,
    sessions: AtomicU32,
    sessions_max: AtomicU32,
    links: Mutex<HashMap<u64, socket2::Socket>>,
    next_link: AtomicU64,
    shut: watch::Sender<bool>,
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
            state: AtomicU8::new(OPEN),
            leases: AtomicUsize::new(0),
            sessions: AtomicU32::new(0),
            sessions_max: AtomicU32::new(NO_LIMIT),
            links: Mutex::default(),
            next_link: AtomicU64::new(0),
            shut: watch::Sender::new(false),
            door,
        };
        new.set(lane.state, lane.sessions_max);
        Arc::new(new)
    }

    /// Takes up what new routes say of it.
    pub fn set(&self, state: LaneState, sessions_max: Option<u32>) {
        self.sessions_max.store(sessions_max.unwrap_or(NO_LIMIT), SeqCst);
        match state {
            LaneState::Open => self.state.store(OPEN, SeqCst),
            LaneState::Draining => self.state.store(DRAINING, SeqCst),
            LaneState::Shut => self.shut(),
        }
    }

    /// Cuts every link, now and for good.
    pub fn shut(&self) {
        self.state.store(SHUT, SeqCst);
        self.shut.send_replace(true);
        let links = std::mem::take(&mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
        for link in links.into_values() {
            // The session on it reads the end of the stream and sees that the lane is shut. A link that broke by itself
            // meanwhile refuses, and that is as good.
            let _ = link.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Its state by name.
    pub fn state_name(&self) -> &'static str {
        match self.state.load(SeqCst) {
            OPEN => "open",
            DRAINING => "draining",
            _ => "shut",
        }
    }

    /// Takes new transactions.
    pub fn is_open(&self) -> bool {
        self.state.load(SeqCst) == OPEN
    }

    /// Running transactions may end, none may start.
    pub fn is_draining(&self) -> bool {
        self.state.load(SeqCst) == DRAINING
    }

    /// Never to be used again.
    pub fn is_shut(&self) -> bool {
        self.state.load(SeqCst) == SHUT
    }

    /// Resolves when the lane is shut.
    pub async fn until_shut(&self) {
        let mut shut = self.shut.subscribe();
        // An error means that the sender, and so the lane, is gone: as good as shut.
        let _ = shut.wait_for(|shut| *shut).await;
    }

    /// Leases held now.
    pub fn leases(&self) -> usize {
        self.leases.load(SeqCst)
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

    /// Starts a transaction here, unless the lane takes none. The count goes up before the state is read, and the door sets
    /// the state before it reads the count: one of the two always sees the other.
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        self.leases.fetch_add(1, SeqCst);
        let lease = Lease { lane: self.clone() };
        (self.state.load(SeqCst) == OPEN).then_some(lease)
    }

    /// Registers a link, so that it is cut when the lane is shut. `None` when it is shut already.
    pub fn register(self: &Arc<Self>, stream: &TcpStream) -> std::io::Result<Option<Registration>> {
        let copy = socket2::SockRef::from(stream).try_clone()?;
        let number = self.next_link.fetch_add(1, SeqCst);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: `shut` sets the state first and takes the links after.
        if self.is_shut() {
            return Ok(None);
        }
        links.insert(number, copy);
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
        if self.lane.leases.fetch_sub(1, SeqCst) == 1 && self.lane.is_draining() {
            self.lane.door.quiet();
        }
    }
}

/// A link stands on a lane as long as this lives.
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
        self.lane.links.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
        let before = self.lane.sessions.fetch_sub(1, SeqCst);
        if before == self.lane.sessions_max.load(SeqCst) {
            self.lane.door.room();
        }
    }
}
