//! Which connections a replay has on its server, so that whoever breaks it off can end there what they were running: a server does not notice
//! that the client of a long SELECT has gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections that are open, by the server's numbers for them.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<u32, Instant>>);

impl Running {
    pub(crate) fn opened(&self, connection_id: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(connection_id, Instant::now());
    }

    pub(crate) fn closed(&self, connection_id: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection_id);
    }

    /// The numbers, which are forgotten with that, and the age of the oldest connection. A server that was started later than that means others by
    /// these numbers.
    pub fn take(&self) -> (Vec<u32>, Duration) {
        let open = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let age = open.values().min().map_or(Duration::ZERO, Instant::elapsed);
        (open.into_keys().collect(), age)
    }
}
