//! Who uses a lane, and whether it may still be used: in one number, so that each change of it is atomic.
//!
//! A lease may begin while the lane is open. A saver (state on the node that must be read before the lane is quiet) may begin under a
//! lease. A draining lane is quiet when it has neither: nothing can begin then until it is opened again, and a single load shows that, not
//! several counts one after the other. The one that ends the last lease or saver of a draining lane is told so, and wakes the door; only
//! the door changes the state.
//!
//! Invariants: once the lane was seen draining and quiet, nothing begins on it until it is opened again. A lane that is shut never opens
//! again. `tests/model/lane_model.rs` runs this file under a model checker.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::sync::AtomicU64;

/// The lowest two bits are the state, the next 31 count savers, the others leases.
const STATE: u64 = 0b11;
const SAVER: u64 = 1 << 2;
const LEASE: u64 = 1 << 33;

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// Transactions may begin.
    Open = 0,
    /// None may begin; those that run may end.
    Draining = 1,
    /// Final: nothing may run.
    Shut = 2,
}

impl State {
    fn of(word: u64) -> Self {
        match word & STATE {
            0 => Self::Open,
            1 => Self::Draining,
            _ => Self::Shut,
        }
    }
}

/// The state and the counts of one lane; at first it is open and without users.
#[derive(Default)]
pub struct Occupancy {
    word: AtomicU64,
}

impl Occupancy {
    /// The state.
    pub fn state(&self) -> State {
        State::of(self.word.load(Acquire))
    }

    /// Changes the state; a shut lane stays shut.
    pub fn set(&self, state: State) {
        self.change(|word| (State::of(word) != State::Shut).then_some(word & !STATE | state as u64));
    }

    /// Begins a transaction, unless none may begin. After `true`, the caller must call [`Occupancy::end_lease`] when it has ended.
    pub fn begin_lease(&self) -> bool {
        self.change(|word| (State::of(word) == State::Open).then(|| word + LEASE))
    }

    /// A transaction has ended; `true` when the lane has become quiet with it.
    pub fn end_lease(&self) -> bool {
        self.end(LEASE)
    }

    /// A session has state on the node that it wants to read before the lane is quiet. Called while the session holds a lease or another
    /// saver, since the lane might be quiet otherwise; [`Occupancy::end_saving`] must follow.
    pub fn begin_saving(&self) {
        self.word.fetch_add(SAVER, AcqRel);
    }

    /// It has read that state, or lost it; `true` when the lane has become quiet with it.
    pub fn end_saving(&self) -> bool {
        self.end(SAVER)
    }

    /// The leases held now.
    pub fn leases(&self) -> usize {
        usize::try_from(self.word.load(Acquire) / LEASE).unwrap_or(usize::MAX)
    }

    /// Whether nothing runs, and no session has state to read. Final once the lane drains.
    pub fn is_quiet(&self) -> bool {
        self.word.load(Acquire) < SAVER
    }

    fn end(&self, unit: u64) -> bool {
        // The number of a draining lane without leases and savers.
        self.word.fetch_sub(unit, AcqRel) - unit == State::Draining as u64
    }

    fn change(&self, next: impl Fn(u64) -> Option<u64>) -> bool {
        self.word.fetch_update(AcqRel, Acquire, next).is_ok()
    }
}
