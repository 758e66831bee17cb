//! The links of a lane: cuts them when the lane is shut, and knows when the last one is certainly gone.
//!
//! A link is registered for as long as it is used, and a handle to cut it is kept here. Once closed, the register accepts no more links and
//! cuts those it has. It is gone when these were cut *and* each was released by its owner.
//!
//! No I/O of its own: the type of the handle and the function that cuts are the caller's. `tests/lane_model.rs` runs this file under a model checker.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::sync::{Mutex, MutexGuard};

/// The register of links. `L`: the handle that cuts a link.
pub struct Links<L> {
    register: Mutex<Register<L>>,
}

struct Register<L> {
    state: State,
    /// The handles of the links in use.
    copies: HashMap<u64, L>,
    /// The number of links that were not released yet, whether cut or not.
    held: usize,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Accepts links.
    Open,
    /// Accepts none, and is cutting those it had.
    Cutting,
    /// All of its links are cut.
    Closed,
}

impl<L> Links<L> {
    /// A register without links.
    pub fn new() -> Self {
        let register = Register { state: State::Open, copies: HashMap::new(), held: 0, next: 0 };
        Self { register: Mutex::new(register) }
    }

    /// Registers a link; returns its number for [`Links::release`], which must follow. `None` when the register is closed, so that the link
    /// must not be used.
    pub fn register(&self, copy: L) -> Option<u64> {
        let mut register = self.lock();
        if register.state != State::Open {
            return None;
        }
        let number = register.next;
        register.next += 1;
        register.held += 1;
        register.copies.insert(number, copy);
        Some(number)
    }

    /// Releases a link; returns whether all are gone now. Called when nothing can be sent on the link any more.
    pub fn release(&self, number: u64) -> bool {
        let mut register = self.lock();
        register.copies.remove(&number);
        register.held -= 1;
        register.is_gone()
    }

    /// Cuts the present links; others may follow.
    pub fn cut(&self, cut: impl Fn(L)) {
        let copies = std::mem::take(&mut self.lock().copies);
        copies.into_values().for_each(cut);
    }

    /// Accepts no more links and cuts the present ones; returns whether all are gone now. Only the first call has an effect, and nothing
    /// else may be cut or closed before it has returned.
    pub fn close(&self, cut: impl Fn(L)) -> bool {
        let copies = {
            let mut register = self.lock();
            if register.state != State::Open {
                return false;
            }
            register.state = State::Cutting;
            std::mem::take(&mut register.copies)
        };
        // Not under the lock: there may be thousands of links, and an owner that releases one must not wait for the others.
        copies.into_values().for_each(cut);
        let mut register = self.lock();
        register.state = State::Closed;
        register.is_gone()
    }

    /// Whether it is closed, and every link was cut and released.
    pub fn is_gone(&self) -> bool {
        self.lock().is_gone()
    }

    fn lock(&self) -> MutexGuard<'_, Register<L>> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L> Register<L> {
    fn is_gone(&self) -> bool {
        self.state == State::Closed && self.held == 0
    }
}
