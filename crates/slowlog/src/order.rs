//! Entries in the order in which their statements began.
//!
//! A log has entries in the order in which statements ended. One that began earlier may still follow, so each entry is held back until the log's
//! own clock is `window_us` past its start: the window has to be as long as the longest statement. The entry of one that took longer is late: it
//! is given out at once, and counted.
//!
//! The clock is the median of the last few ends, because a single time may be wrong: a session that sets its own `timestamp` is logged under that. An
//! entry that ended a window before the clock, or an hour after it, is taken to have run when it was written.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::event::{Clock, Event};

/// What is held at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLimits {
    /// How far before the log's clock an entry may have begun and still be put into its place.
    pub window_us: u64,
    /// Entries that are held.
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

/// One that is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<T> {
    /// What was handed in.
    pub what: T,
    /// When it began, as it was ordered; microseconds since 1970.
    pub order_us: u64,
    /// One that began later was given out before.
    pub is_late: bool,
}

/// How many ends the clock is made of; two that lie do not move it.
const ENDS: usize = 5;
/// How long a log may be quiet: an end so far ahead is believed, for the clock lags behind by two entries.
const QUIET_US_MAX: u64 = 3_600_000_000;

/// Puts what belongs to entries into the order of their starts.
#[derive(Debug)]
pub struct Order<T> {
    limits: OrderLimits,
    held: BinaryHeap<Held<T>>,
    bytes: usize,
    number: u64,
    ends: [u64; ENDS],
    /// The log's clock.
    now_us: u64,
    /// The latest end that was near the clock.
    latest_us: u64,
    /// The latest start that was given out.
    given_us: u64,
    is_finished: bool,
    late: u64,
    hurried: u64,
}

#[derive(Debug)]
struct Held<T> {
    order_us: u64,
    number: u64,
    bytes: usize,
    what: T,
}

impl<T> Held<T> {
    fn key(&self) -> (u64, u64) {
        (self.order_us, self.number)
    }
}

impl<T> Ord for Held<T> {
    /// The earliest is the greatest, for the heap gives out that.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Held<T> {}

impl<T> Order<T> {
    /// Nothing is held.
    pub fn new(limits: OrderLimits) -> Self {
        Self {
            limits,
            held: BinaryHeap::new(),
            bytes: 0,
            number: 0,
            ends: [0; ENDS],
            now_us: 0,
            latest_us: 0,
            given_us: 0,
            is_finished: false,
            late: 0,
            hurried: 0,
        }
    }

    /// Takes what belongs to an entry, in the order of the log. All that [`Order::next`] gives should be taken before the next comes.
    pub fn push(&mut self, event: &Event<'_>, what: T) {
        let is_timed = event.clock != Clock::None;
        if is_timed {
            self.ended(event.end_us);
        }
        let near =
            self.now_us.saturating_sub(self.limits.window_us)..=self.now_us.saturating_add(QUIET_US_MAX);
        let is_plausible = is_timed && near.contains(&event.end_us);
        if self.latest_us > self.now_us.saturating_add(QUIET_US_MAX) {
            // The server's clock was put back.
            self.latest_us = self.now_us;
        }
        let order_us = if is_plausible { event.order_us() } else { self.latest_us };
        if is_plausible {
            self.latest_us = self.latest_us.max(event.end_us);
        }
        let bytes = event.bytes.len();
        self.bytes += bytes;
        self.held.push(Held { order_us, number: self.number, bytes, what });
        self.number += 1;
    }

    fn ended(&mut self, end_us: u64) {
        if self.ends[0] == 0 {
            self.ends = [end_us; ENDS];
        }
        self.ends.rotate_left(1);
        self.ends[ENDS - 1] = end_us;
        let mut sorted = self.ends;
        sorted.sort_unstable();
        self.now_us = sorted[ENDS / 2];
    }

    /// The log was quiet, and the time is at least this (microseconds since 1970, by the clock of the server that writes it).
    pub fn passed(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// Nothing will follow.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// The next, if nothing that began earlier can still come, or more is held than may be.
    #[allow(clippy::should_implement_trait)] // it ends, and goes on when more is handed in
    pub fn next(&mut self) -> Option<Ordered<T>> {
        let first = self.held.peek()?;
        let is_due = self.is_finished || first.order_us.saturating_add(self.limits.window_us) <= self.now_us;
        let is_full = self.held.len() > self.limits.events_max || self.bytes > self.limits.bytes_max;
        if !is_due && !is_full {
            return None;
        }
        let Held { order_us, bytes, what, .. } = self.held.pop()?;
        self.bytes -= bytes;
        let is_late = order_us < self.given_us;
        self.late += u64::from(is_late);
        self.hurried += u64::from(!is_due);
        // When the server's clock was put back, what follows is not late for ever.
        let is_put_back = self.given_us > self.now_us.saturating_add(QUIET_US_MAX);
        self.given_us = if is_put_back { order_us } else { self.given_us.max(order_us) };
        Some(Ordered { what, order_us, is_late })
    }

    /// How many are held, and their bytes.
    pub fn held(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }

    /// How many were given out after one that began later.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// How many were given out early, because more was held than may be.
    pub fn hurried(&self) -> u64 {
        self.hurried
    }
}
