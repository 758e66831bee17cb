//! Who uses a lane, and whether it may still be used: one number, so that each change of it is a single step.
//!
//! A lease may begin while the lane is open. A saver (something on the node that is to be read before the lane is quiet) may begin under a
//! lease. A lane that drains is quiet when there is neither: then nothing can begin until it is opened again, and whoever looks sees all of
//! it at once, not one count after the other. Whoever ends the last lease or saver of a draining lane is told so, and tells the door to
//! look; the door alone changes the state.
//!
//! Invariants: nothing begins on a lane from the moment it was seen draining and quiet until it is opened again; a lane that is shut never
//! opens again. `tests/lane_model.rs` runs this file under a model checker.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::sync::AtomicU64;

/// The lowest two bits are the state, the next 31 count savers, the others leases.
const STATE: u64 = 0b11;
const SAVER: u64 = 1 << 2;
const LEASE: u64 = 1 << 33;

/// What a lane lets happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// Transactions may begin.
    Open = 0,
    /// None may begin, those that run may end.
    Draining = 1,
    /// It is over.
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

/// See the head of this file.
pub struct Occupancy {
    word: AtomicU64,
}

impl Occupancy {
    /// Of an open lane that nobody uses.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(State::Open as u64) }
    }

    /// The state.
    pub fn state(&self) -> State {
        State::of(self.word.load(Acquire))
    }

    /// Changes the state; what is shut stays so.
    pub fn set(&self, state: State) {
        self.change(|word| (State::of(word) != State::Shut).then_some(word & !STATE | state as u64));
    }

    /// A transaction begins, unless none may. Whoever hears yes says [`Occupancy::end_lease`] when it has ended.
    pub fn begin_lease(&self) -> bool {
        self.change(|word| (State::of(word) == State::Open).then(|| word + LEASE))
    }

    /// It has ended; true when the lane has become quiet by it.
    pub fn end_lease(&self) -> bool {
        self.end(LEASE)
    }

    /// A session has something on the node that it wants to read before the lane is quiet. To be said while the session holds a lease or
    /// another saver, or the lane may be quiet already; [`Occupancy::end_saving`] must follow.
    pub fn begin_saving(&self) {
        self.word.fetch_add(SAVER, AcqRel);
    }

    /// It has read it, or has nothing there any more; true when the lane has become quiet by it.
    pub fn end_saving(&self) -> bool {
        self.end(SAVER)
    }

    /// Leases held now.
    pub fn leases(&self) -> usize {
        usize::try_from(self.word.load(Acquire) / LEASE).unwrap_or(usize::MAX)
    }

    /// Nothing runs, and nobody has anything to read. Final once the lane drains.
    pub fn is_quiet(&self) -> bool {
        self.word.load(Acquire) < SAVER
    }

    fn end(&self, unit: u64) -> bool {
        // A draining lane with nothing on it is this very number.
        self.word.fetch_sub(unit, AcqRel) - unit == State::Draining as u64
    }

    fn change(&self, next: impl Fn(u64) -> Option<u64>) -> bool {
        self.word.fetch_update(AcqRel, Acquire, next).is_ok()
    }
}
