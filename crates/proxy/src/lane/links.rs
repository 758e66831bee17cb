//! The links of a lane: cuts them when the lane is shut, and knows when nothing more can be sent on any.
//!
//! A link is registered for as long as it is used, and a handle to cut it is kept here. Once closed, the register accepts no more links and
//! cuts those it has. They are gone then, whatever their owners do: an owner may be waiting for its client, for as long as that likes.
//!
//! No I/O of its own: the type of the handle and the function that cuts are the caller's. `tests/model/lane_model.rs` runs this file under a model checker.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::sync::{Mutex, MutexGuard};

/// The register of links. `L`: the handle that cuts a link.
pub struct Links<L> {
    register: Mutex<Register<L>>,
}

struct Register<L> {
    is_closed: bool,
    /// The handles of the links in use.
    copies: HashMap<u64, L>,
    next: u64,
}

impl<L> Links<L> {
    /// A register without links.
    pub fn new() -> Self {
        Self { register: Mutex::new(Register { is_closed: false, copies: HashMap::new(), next: 0 }) }
    }

    /// Registers a link; returns its number for [`Links::release`], which must follow. `None` when the register is closed, so that the link
    /// must not be used.
    pub fn register(&self, copy: L) -> Option<u64> {
        let mut register = self.lock();
        if register.is_closed {
            return None;
        }
        let number = register.next;
        register.next += 1;
        register.copies.insert(number, copy);
        Some(number)
    }

    /// Forgets a link that is not used any more.
    pub fn release(&self, number: u64) {
        self.lock().copies.remove(&number);
    }

    /// Cuts the present links; others may follow.
    pub fn cut(&self, cut: impl Fn(L)) {
        let copies = std::mem::take(&mut self.lock().copies);
        // Not under the lock: there may be thousands of links, and an owner that releases one must not wait for the others.
        copies.into_values().for_each(cut);
    }

    /// Accepts no more links, and cuts the present ones.
    pub fn close(&self, cut: impl Fn(L)) {
        self.lock().is_closed = true;
        self.cut(cut);
    }

    fn lock(&self) -> MutexGuard<'_, Register<L>> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
