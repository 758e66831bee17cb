//! What runs on a lane, and whether more may start: one number, so that each change of it is a single step.
//!
//! ```text
//!            drain              quiet, when there is no lease and no saver
//!   Open ────────────> Draining ──────────────────────────────────────────> Quiet
//!    ▲                    │                                                   │
//!    └────── reopen ──────┴───────────────────────────────────────────────────┘        shut, from any of them: Shut, for good
//!
//!   a lease may start in   Open
//!   a saver may start in   Open, Draining
//! ```
//!
//! The door alone drains, reopens, shuts and says that the lane is quiet; sessions start and end leases and savers. Since the phase and
//! the counts are the same number, a lease cannot start between the door's look at the counts and its word: that look *is* the step to
//! Quiet. Whoever ends the last of a draining lane is told so, and tells the door to look again.
//!
//! No I/O. `tests/lane_model.rs` runs this file under a model checker.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::sync::AtomicU64;

/// The lowest two bits are the phase, the next 31 count savers, the others leases.
const PHASE: u64 = 0b11;
const OPEN: u64 = 0;
const DRAINING: u64 = 1;
const QUIET: u64 = 2;
const SHUT: u64 = 3;
const SAVER: u64 = 1 << 2;
const LEASE: u64 = 1 << 33;

/// What a lane is for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Leases may start.
    Open,
    /// No lease may start; what runs may end, and savers may still start.
    Draining,
    /// Nothing runs, and nothing starts.
    Quiet,
    /// Never to be used again.
    Shut,
}

/// See the head of this file.
pub struct Occupancy {
    word: AtomicU64,
}

impl Occupancy {
    /// Open, with nothing on it.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(OPEN) }
    }

    /// What the lane is for now.
    pub fn phase(&self) -> Phase {
        match self.word.load(Acquire) & PHASE {
            OPEN => Phase::Open,
            DRAINING => Phase::Draining,
            QUIET => Phase::Quiet,
            _ => Phase::Shut,
        }
    }

    /// Leases held now.
    pub fn leases(&self) -> usize {
        usize::try_from(self.word.load(Acquire) / LEASE).unwrap_or(usize::MAX)
    }

    /// Savers held now.
    pub fn savers(&self) -> usize {
        usize::try_from(self.word.load(Acquire) % LEASE / SAVER).unwrap_or(usize::MAX)
    }

    /// Starts a lease, if the lane takes one; then [`Occupancy::end_lease`] must follow.
    pub fn lease(&self) -> bool {
        self.change(|word| (word & PHASE == OPEN).then(|| word + LEASE))
    }

    /// Ends a lease; whether the door must look now, because nothing is left on a lane that drains.
    pub fn end_lease(&self) -> bool {
        self.end(LEASE)
    }

    /// Starts a saver, if the lane takes one; then [`Occupancy::end_saver`] must follow. Never refused to whoever holds a lease or
    /// another saver, unless the lane is shut.
    pub fn saver(&self) -> bool {
        self.change(|word| matches!(word & PHASE, OPEN | DRAINING).then(|| word + SAVER))
    }

    /// Ends a saver; whether the door must look now, as above.
    pub fn end_saver(&self) -> bool {
        self.end(SAVER)
    }

    /// Takes no more leases. Nothing happens to a lane that drains already, is quiet or shut.
    pub fn drain(&self) {
        self.change(|word| (word & PHASE == OPEN).then(|| word - OPEN + DRAINING));
    }

    /// Takes leases again. Nothing happens to a lane that is shut.
    pub fn reopen(&self) {
        self.change(|word| matches!(word & PHASE, DRAINING | QUIET).then(|| word - (word & PHASE) + OPEN));
    }

    /// Never takes anything again.
    pub fn shut(&self) {
        self.word.fetch_or(SHUT, AcqRel);
    }

    /// Whether nothing runs on a draining lane any more; from this yes on nothing starts, until it is reopened.
    pub fn quiet(&self) -> bool {
        // A draining lane with nothing on it is this very number.
        self.change(|word| (word == DRAINING).then_some(QUIET)) || self.phase() == Phase::Quiet
    }

    fn end(&self, unit: u64) -> bool {
        self.word.fetch_sub(unit, AcqRel) - unit == DRAINING
    }

    fn change(&self, next: impl Fn(u64) -> Option<u64>) -> bool {
        self.word.fetch_update(AcqRel, Acquire, next).is_ok()
    }
}
