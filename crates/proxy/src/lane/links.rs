//! The links that stand on a lane, to be cut when it is shut, and when the last of them is certainly gone.
//!
//! A link is registered while it stands, and a copy of it is kept here to cut it with. Once closed, the register takes no more links,
//! cuts those it has, and is gone when these have been cut *and* each has been let go of by whoever registered it.
//!
//! No I/O of its own: the copy's type and what cuts it are the caller's. `tests/lane_model.rs` runs this file under a model checker.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::sync::{Mutex, MutexGuard};

/// See the head of this file. `L`: what cuts a link.
pub struct Links<L> {
    register: Mutex<Register<L>>,
}

struct Register<L> {
    state: State,
    /// Of those that stand, what cuts them.
    copies: HashMap<u64, L>,
    /// Those that were not let go of yet, cut or not.
    held: usize,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Takes links.
    Open,
    /// Takes none, and is cutting those it had.
    Cutting,
    /// All it had are cut.
    Closed,
}

impl<L> Links<L> {
    /// Without any.
    pub fn new() -> Self {
        let register = Register { state: State::Open, copies: HashMap::new(), held: 0, next: 0 };
        Self { register: Mutex::new(register) }
    }

    /// Takes a link in; its number, for [`Links::release`], which must follow. `None` when the register is closed: the link must
    /// not be used.
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

    /// Lets go of a link; whether all are gone with it. To be called when nothing can be sent on the link any more.
    pub fn release(&self, number: u64) -> bool {
        let mut register = self.lock();
        register.copies.remove(&number);
        register.held -= 1;
        register.is_gone()
    }

    /// Cuts those that stand now; others may follow.
    pub fn cut(&self, cut: impl Fn(L)) {
        let copies = std::mem::take(&mut self.lock().copies);
        copies.into_values().for_each(cut);
    }

    /// Takes no more links and cuts those that stand; whether all are gone with it. Only the first call does anything, and it must have
    /// returned before anything else is cut here or closed.
    pub fn close(&self, cut: impl Fn(L)) -> bool {
        let copies = {
            let mut register = self.lock();
            if register.state != State::Open {
                return false;
            }
            register.state = State::Cutting;
            std::mem::take(&mut register.copies)
        };
        // Not under the lock: there may be thousands, and whoever lets go of one meanwhile must not wait for the others.
        copies.into_values().for_each(cut);
        let mut register = self.lock();
        register.state = State::Closed;
        register.is_gone()
    }

    /// Closed, and every link is cut and let go of.
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
