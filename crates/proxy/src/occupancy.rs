//! Who uses a lane, and whether it may still be used: the two counters and the state that decide when a lane is quiet.
//!
//! A counter goes up before the state is read, and the door sets the state before it reads the counters: one of the two always sees the
//! other. So once the door has drained a lane and then seen nobody on it, nobody will come.
//!
//! Invariants: no lease that began after the lane was seen quiet is ever given out; a lane that is shut never opens again.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};

/// What a lane lets happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Transactions may begin.
    Open = 0,
    /// None may begin, those that run may end.
    Draining = 1,
    /// It is over.
    Shut = 2,
}

impl State {
    fn of(state: u8) -> Self {
        match state {
            0 => Self::Open,
            1 => Self::Draining,
            _ => Self::Shut,
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Occupancy {
    state: AtomicU8,
    leases: AtomicUsize,
    savers: AtomicUsize,
}

impl Occupancy {
    /// Of an open lane that nobody uses.
    pub fn new() -> Self {
        Self {
            state: AtomicU8::new(State::Open as u8),
            leases: AtomicUsize::new(0),
            savers: AtomicUsize::new(0),
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        State::of(self.state.load(SeqCst))
    }

    /// Changes the state; what is shut stays so.
    pub fn set(&self, state: State) {
        // Only the door sets it, so nothing comes between these two.
        if self.state() != State::Shut {
            self.state.store(state as u8, SeqCst);
        }
    }

    /// A transaction begins, unless none may. Whoever hears yes says [`Occupancy::end_lease`] when it has ended; whoever hears no, too,
    /// since the count is up either way.
    pub fn begin_lease(&self) -> bool {
        self.leases.fetch_add(1, SeqCst);
        self.state() == State::Open
    }

    /// It has ended; true when the lane may have become quiet by it.
    pub fn end_lease(&self) -> bool {
        self.leases.fetch_sub(1, SeqCst) == 1 && self.state() == State::Draining
    }

    /// A session has something on the node that it wants to read before the lane is quiet. To be said while the session holds a lease, or the
    /// lane may be quiet already.
    pub fn begin_saving(&self) {
        self.savers.fetch_add(1, SeqCst);
    }

    /// It has read it, or has nothing there any more; true when the lane may have become quiet by it.
    pub fn end_saving(&self) -> bool {
        self.savers.fetch_sub(1, SeqCst) == 1 && self.state() == State::Draining
    }

    /// Leases held now.
    pub fn leases(&self) -> usize {
        self.leases.load(SeqCst)
    }

    /// Nothing runs, and nobody has anything to read. Final once the lane drains.
    pub fn is_quiet(&self) -> bool {
        // Savers last: one begins under a lease.
        self.leases.load(SeqCst) == 0 && self.savers.load(SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draining_lane_is_quiet_when_the_last_has_left() {
        let lane = Occupancy::new();
        assert!(lane.begin_lease());
        lane.begin_saving();
        lane.set(State::Draining);
        assert!(!lane.begin_lease());
        assert!(!lane.end_lease());
        assert!(lane.end_lease());
        assert!(!lane.is_quiet(), "somebody has yet to read");
        assert!(lane.end_saving() && lane.is_quiet());
        lane.set(State::Shut);
        lane.set(State::Open);
        assert_eq!(lane.state(), State::Shut);
    }
}
