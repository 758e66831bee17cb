//! Sorts entries by the time at which their statements began.
//!
//! A log contains entries in the order in which statements ended. An entry that began earlier may still follow, so each entry is held back
//! until the log's own clock is `window_us` past its start: the window has to be as long as the longest statement. An entry of a longer
//! statement is late: it is passed on immediately.
//!
//! The clock is a [`LogClock`], because a single time may be wrong.

use std::collections::BTreeMap;

use crate::clock::{LogClock, Times};
use crate::event::Event;

/// The limits of what is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLimits {
    /// How far before the log's clock an entry may have begun and still be put into its place.
    pub window_us: u64,
    /// The number of entries that may be held back.
    pub events_max: usize,
    /// Their bytes.
    pub bytes_max: usize,
}

impl Default for OrderLimits {
    /// 10 s; 100,000; 64 MiB.
    fn default() -> Self {
        Self { window_us: 10_000_000, events_max: 100_000, bytes_max: 64 << 20 }
    }
}

/// An entry that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<T> {
    /// The item that was handed in.
    pub what: T,
    /// Its times; it was sorted by `order_us`.
    pub times: Times,
    /// An entry that began later was passed on before this one.
    pub is_late: bool,
}

/// Sorts items that belong to entries by the entries' start times.
#[derive(Debug)]
pub struct Order<T> {
    limits: OrderLimits,
    /// By their start times, and in the order of the log; each with its entry's size.
    held: BTreeMap<(u64, u64), (T, Times, usize)>,
    bytes: usize,
    number: u64,
    clock: LogClock,
    /// The log's time, also while it does not grow.
    now_us: u64,
    /// The latest start time that was passed on.
    given_us: u64,
    is_finished: bool,
}

impl<T> Order<T> {
    /// An empty queue.
    pub fn new(limits: OrderLimits) -> Self {
        Self {
            limits,
            held: BTreeMap::new(),
            bytes: 0,
            number: 0,
            clock: LogClock::default(),
            now_us: 0,
            given_us: 0,
            is_finished: false,
        }
    }

    /// Adds the item of an entry, in the order of the log. All items that [`Order::next`] returns should be taken before the next call.
    pub fn push(&mut self, event: &Event<'_>, what: T) {
        let times = self.clock.times(event);
        self.now_us = self.clock.now_us();
        self.bytes += event.bytes.len();
        self.held.insert((times.order_us, self.number), (what, times, event.bytes.len()));
        self.number += 1;
    }

    /// Reports that the log has not grown for so long.
    pub fn quiet(&mut self, for_us: u64) {
        self.now_us = self.clock.now_us().saturating_add(for_us);
    }

    /// The log's clock.
    pub fn clock(&self) -> &LogClock {
        &self.clock
    }

    /// Reports the end of the log.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// The next item, if no earlier one can still arrive or a limit is exceeded.
    #[allow(clippy::should_implement_trait)] // it ends, and goes on when more is handed in
    pub fn next(&mut self) -> Option<Ordered<T>> {
        let is_full = self.held.len() > self.limits.events_max || self.bytes > self.limits.bytes_max;
        let first = self.held.first_entry()?;
        let is_due = first.key().0.saturating_add(self.limits.window_us) <= self.now_us;
        if !is_due && !is_full && !self.is_finished {
            return None;
        }
        let (what, times, bytes) = first.remove();
        self.bytes -= bytes;
        let is_late = times.order_us < self.given_us;
        self.given_us = self.given_us.max(times.order_us);
        Some(Ordered { what, times, is_late })
    }

    /// The number of items held back, and their bytes.
    pub fn held(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }
}
