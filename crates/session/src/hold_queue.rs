//! The hold queue: statements that wait for an open lane, in order, within limits.
//!
//! Enters: a statement that found no open lane, with its size. Leaves: one [`WaitEnd`] for each. The task in the proxy that owns the queue
//! passes the time with each call; nothing here waits by itself.
//!
//! ```text
//!            enter        open, and a slot free, or its time is over
//!   ────────────────────> waiting ───────────────────────────> resumed (holds a slot until `finished`, for at most SLOT_TIME_MAX)
//!       │                  │ │ └── closed, its time is over ─> expired
//!       │                  │ └──── queue full, it is oldest ─> evicted
//!       │                  └────── its client went away ─────> gone
//!       └── closed, larger than the whole queue ─────────────> evicted
//! ```
//!
//! Statements are released gradually (in slots), so that a new writer is not flooded. That must not itself become an outage: a slow
//! statement loses its slot after [`SLOT_TIME_MAX`], and no wait expires while a node takes statements.
//!
//! Invariant after every call: `held = resumed + evicted + expired + gone + waiting`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time since the program started, monotonic.
pub type Now = Duration;

/// The longest time for which a released statement keeps its slot. A statement that takes longer is slow by itself, and others must not
/// wait for its end.
pub const SLOT_TIME_MAX: Duration = Duration::from_millis(250);

/// The limits of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The longest that one statement waits, counted from the first time that it was held.
    pub time: Duration,
    /// Statements that wait at the same time.
    pub statements_max: usize,
    /// Bytes of the statements that wait at the same time.
    pub bytes_max: usize,
    /// Slots: released statements that may run at the same time before the next one is released.
    pub release_at_once: usize,
}

/// Identifies a waiting statement. Tickets grow, so their order is the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// It may continue. Its slot is taken until [`HoldQueue::finished`], or for [`SLOT_TIME_MAX`].
    Resumed,
    /// Removed: as the oldest, to make room, or because it is larger than the whole queue.
    Evicted,
    /// Its time is over.
    Expired,
}

/// The counters in the invariant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statements that entered.
    pub held: u64,
    /// Those that continued.
    pub resumed: u64,
    /// Those that were removed to make room.
    pub evicted: u64,
    /// Those whose time was over.
    pub expired: u64,
    /// Those whose client went away.
    pub gone: u64,
    /// Those that wait now.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// The most that ever waited at the same time.
    pub waiting_max: u64,
}

impl Counters {
    /// Whether the invariant holds.
    pub fn lawful(&self) -> bool {
        self.held == self.resumed + self.evicted + self.expired + self.gone + self.waiting
    }
}

struct Waiter {
    deadline: Now,
    bytes: usize,
}

/// The hold queue of one port.
pub struct HoldQueue {
    limits: QueueLimits,
    open: bool,
    next: u64,
    waiting: BTreeMap<Ticket, Waiter>,
    deadlines: BTreeSet<(Now, Ticket)>,
    bytes: usize,
    /// The slots in use by ticket, with the end of each; and the same ordered by end.
    slots: BTreeMap<Ticket, Now>,
    slot_ends: BTreeSet<(Now, Ticket)>,
    counters: Counters,
}

impl HoldQueue {
    /// A closed queue in which no statement waits.
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            open: false,
            next: 0,
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            bytes: 0,
            slots: BTreeMap::new(),
            slot_ends: BTreeSet::new(),
            counters: Counters::default(),
        }
    }

    /// The counters now.
    pub fn counters(&self) -> Counters {
        Counters { waiting: self.waiting.len() as u64, waiting_bytes: self.bytes as u64, ..self.counters }
    }

    /// The limits in force.
    pub fn limits(&self) -> QueueLimits {
        self.limits
    }

    /// A statement of `bytes` begins to wait; `since` is when it was first held (`now` for a new one). Waits that end at once, possibly its
    /// own, are pushed to `out`.
    pub fn enter(&mut self, now: Now, since: Now, bytes: usize, out: &mut Vec<(Ticket, WaitEnd)>) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.counters.held += 1;
        if bytes > self.limits.bytes_max {
            // No room can be made for it, and those that wait are not removed: it continues now, or is evicted.
            self.waiting.insert(ticket, Waiter { deadline: now, bytes: 0 });
            if self.open {
                self.resume(now, ticket, out);
            } else {
                self.end(ticket, WaitEnd::Evicted, out);
            }
            return ticket;
        }
        let deadline = since + self.limits.time;
        self.waiting.insert(ticket, Waiter { deadline, bytes });
        self.deadlines.insert((deadline, ticket));
        self.bytes += bytes;
        self.expire(now, out);
        self.release(now, out);
        self.make_room(out);
        self.counters.waiting_max = self.counters.waiting_max.max(self.waiting.len() as u64);
        ticket
    }

    /// Changes the limits. Statements that wait keep their deadlines; those for which there is no room any more are removed, the oldest first.
    pub fn set_limits(&mut self, now: Now, limits: QueueLimits, out: &mut Vec<(Ticket, WaitEnd)>) {
        self.limits = limits;
        self.release(now, out);
        self.make_room(out);
    }

    fn make_room(&mut self, out: &mut Vec<(Ticket, WaitEnd)>) {
        while self.waiting.len() > self.limits.statements_max || self.bytes > self.limits.bytes_max {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            self.end(oldest, WaitEnd::Evicted, out);
        }
    }

    /// The client of a waiting statement went away. False when it was not waiting any more (its wait has just ended).
    pub fn gone(&mut self, ticket: Ticket) -> bool {
        let found = self.take(ticket);
        if found {
            self.counters.gone += 1;
        }
        found
    }

    /// A released statement has ended, with whatever result: its slot is free.
    pub fn finished(&mut self, now: Now, ticket: Ticket, out: &mut Vec<(Ticket, WaitEnd)>) {
        if let Some(end) = self.slots.remove(&ticket) {
            self.slot_ends.remove(&(end, ticket));
        }
        self.release(now, out);
    }

    /// Sets whether a node takes statements now.
    pub fn set_open(&mut self, now: Now, open: bool, out: &mut Vec<(Ticket, WaitEnd)>) {
        self.open = open;
        self.release(now, out);
    }

    /// Ends every wait whose time is over, and frees every slot that was held too long. If a node takes statements, a wait whose time is
    /// over continues, even beyond the number of slots: an error would be of no use.
    pub fn expire(&mut self, now: Now, out: &mut Vec<(Ticket, WaitEnd)>) {
        while let Some(&(end, ticket)) = self.slot_ends.first()
            && end <= now
        {
            self.slot_ends.pop_first();
            self.slots.remove(&ticket);
        }
        while let Some(&(deadline, ticket)) = self.deadlines.first()
            && deadline <= now
        {
            if self.open {
                self.resume(now, ticket, out);
            } else {
                self.end(ticket, WaitEnd::Expired, out);
            }
        }
        self.release(now, out);
    }

    /// When [`HoldQueue::expire`] has to be called next. The end of a slot counts only if a statement waits.
    pub fn next_deadline(&self) -> Option<Now> {
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline)?;
        let slot_end = self.slot_ends.first().map(|&(end, _)| end);
        Some(slot_end.filter(|_| self.open).map_or(deadline, |end| end.min(deadline)))
    }

    fn release(&mut self, now: Now, out: &mut Vec<(Ticket, WaitEnd)>) {
        while self.open && self.slots.len() < self.limits.release_at_once {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            self.resume(now, oldest, out);
        }
    }

    fn resume(&mut self, now: Now, ticket: Ticket, out: &mut Vec<(Ticket, WaitEnd)>) {
        let end = now + SLOT_TIME_MAX;
        self.slots.insert(ticket, end);
        self.slot_ends.insert((end, ticket));
        self.end(ticket, WaitEnd::Resumed, out);
    }

    fn end(&mut self, ticket: Ticket, end: WaitEnd, out: &mut Vec<(Ticket, WaitEnd)>) {
        if self.take(ticket) {
            match end {
                WaitEnd::Resumed => self.counters.resumed += 1,
                WaitEnd::Evicted => self.counters.evicted += 1,
                WaitEnd::Expired => self.counters.expired += 1,
            }
            out.push((ticket, end));
        }
    }

    fn take(&mut self, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiting.remove(&ticket) else { return false };
        self.deadlines.remove(&(waiter.deadline, ticket));
        self.bytes -= waiter.bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: QueueLimits =
        QueueLimits { time: Duration::from_secs(60), statements_max: 3, bytes_max: 100, release_at_once: 2 };

    fn s(n: u64) -> Now {
        Duration::from_secs(n)
    }

    #[test]
    fn first_in_first_out_and_never_more_than_the_ramp_allows() {
        let mut hold_queue = HoldQueue::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|i| hold_queue.enter(s(i), s(i), 10, &mut out)).collect();
        assert_eq!(out, []);
        hold_queue.set_open(s(3), true, &mut out);
        assert_eq!(out, [(t[0], WaitEnd::Resumed), (t[1], WaitEnd::Resumed)]);
        out.clear();
        hold_queue.finished(s(3), t[1], &mut out);
        assert_eq!(out, [(t[2], WaitEnd::Resumed)]);
        // Given back twice is given back once.
        out.clear();
        let t: Vec<_> = (0..2).map(|_| hold_queue.enter(s(3), s(3), 10, &mut out)).collect();
        hold_queue.finished(s(3), t[1], &mut out);
        hold_queue.finished(s(3), Ticket(1), &mut out);
        assert_eq!(out, []);
        assert!(hold_queue.counters().lawful());
    }

    #[test]
    fn slow_statements_do_not_starve_those_behind_them() {
        let mut hold_queue = HoldQueue::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|_| hold_queue.enter(s(0), s(0), 10, &mut out)).collect();
        hold_queue.set_open(s(1), true, &mut out);
        assert_eq!(out.len(), 2, "two slots");
        out.clear();
        // Neither of the two ever ends.
        assert_eq!(hold_queue.next_deadline(), Some(s(1) + SLOT_TIME_MAX));
        hold_queue.expire(s(1) + SLOT_TIME_MAX, &mut out);
        assert_eq!(out, [(t[2], WaitEnd::Resumed)]);
        assert_eq!(hold_queue.next_deadline(), None, "nobody waits");
        out.clear();
        let now = s(1) + SLOT_TIME_MAX;
        hold_queue.finished(now, t[0], &mut out);
        hold_queue.finished(now, t[1], &mut out);
        let more: Vec<_> = (0..2).map(|_| hold_queue.enter(now, now, 10, &mut out)).collect();
        assert_eq!(out, [(more[0], WaitEnd::Resumed)], "a slot given on is not given back once more");
    }

    #[test]
    fn whose_time_is_over_goes_on_while_the_gate_is_open() {
        let mut hold_queue = HoldQueue::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|_| hold_queue.enter(s(0), s(0), 10, &mut out)).collect();
        hold_queue.set_open(s(60), true, &mut out);
        out.clear();
        hold_queue.expire(s(60), &mut out);
        assert_eq!(out, [(t[2], WaitEnd::Resumed)], "both slots are taken, and yet");
        out.clear();
        hold_queue.set_open(s(61), false, &mut out);
        let late = hold_queue.enter(s(61), s(0), 10, &mut out);
        assert_eq!(out, [(late, WaitEnd::Expired)]);
        assert!(hold_queue.counters().lawful());
    }

    #[test]
    fn smaller_limits_evict_and_larger_ones_release() {
        let mut hold_queue = HoldQueue::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|_| hold_queue.enter(s(0), s(0), 10, &mut out)).collect();
        hold_queue.set_limits(s(1), QueueLimits { statements_max: 2, ..LIMITS }, &mut out);
        assert_eq!(out, [(t[0], WaitEnd::Evicted)]);
        out.clear();
        hold_queue.set_limits(s(1), QueueLimits { release_at_once: 1, time: s(1), ..LIMITS }, &mut out);
        hold_queue.set_open(s(2), true, &mut out);
        assert_eq!(out, [(t[1], WaitEnd::Resumed)], "those that wait keep the time that they had");
        out.clear();
        hold_queue.set_limits(s(2), LIMITS, &mut out);
        assert_eq!(out, [(t[2], WaitEnd::Resumed)]);
        assert!(hold_queue.counters().lawful());
    }

    #[test]
    fn a_full_hold_evicts_the_oldest_by_number_and_by_bytes() {
        let mut hold_queue = HoldQueue::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..4).map(|i| hold_queue.enter(s(i), s(i), 10, &mut out)).collect();
        assert_eq!(out, [(t[0], WaitEnd::Evicted)]);
        out.clear();
        hold_queue.enter(s(5), s(5), 85, &mut out);
        assert_eq!(out, [(t[1], WaitEnd::Evicted), (t[2], WaitEnd::Evicted)]);
        out.clear();
        let alone = hold_queue.enter(s(6), s(6), 1000, &mut out);
        assert_eq!(out, [(alone, WaitEnd::Evicted)], "what can never fit is refused, and nobody else");
        assert_eq!(hold_queue.counters().waiting, 2);
        assert!(hold_queue.counters().lawful());
        hold_queue.set_open(s(7), true, &mut out);
        out.clear();
        let large = hold_queue.enter(s(9), s(9), 1000, &mut out);
        assert_eq!(out, [(large, WaitEnd::Resumed)], "it need not wait when the gate is open");
        assert!(hold_queue.counters().lawful());
    }

    #[test]
    fn time_counts_from_the_first_hold() {
        let mut hold_queue = HoldQueue::new(LIMITS);
        let mut out = vec![];
        hold_queue.enter(s(10), s(10), 1, &mut out);
        let again = hold_queue.enter(s(40), s(0), 1, &mut out);
        assert_eq!(hold_queue.next_deadline(), Some(s(60)));
        hold_queue.expire(s(60), &mut out);
        assert_eq!(out, [(again, WaitEnd::Expired)]);
    }

    proptest! {
        #[test]
        fn the_law_holds_whatever_happens(steps in prop::collection::vec((0u8..6, 0usize..120), 1..200)) {
            let mut hold_queue = HoldQueue::new(LIMITS);
            let mut out = vec![];
            let mut tickets = vec![];
            let mut now = s(0);
            for (what, n) in steps {
                out.clear();
                let over = hold_queue.waiting.values().filter(|waiter| waiter.deadline <= now + s(n as u64 / 4)).count();
                let slots_before = hold_queue.slots.len();
                match what {
                    0 | 1 => tickets.push(hold_queue.enter(now, now, n, &mut out)),
                    2 => { if let Some(&t) = tickets.get(n) { hold_queue.gone(t); } }
                    3 => { if let Some(&t) = tickets.get(n) { hold_queue.finished(now, t, &mut out); } }
                    4 => hold_queue.set_open(now, n % 2 == 0, &mut out),
                    _ => { now += s(n as u64 / 4); hold_queue.expire(now, &mut out); }
                }
                let c = hold_queue.counters();
                prop_assert!(c.lawful());
                // Over the ramp's limit go only those whose time is over, and what cannot be held.
                prop_assert!(hold_queue.slots.len() <= LIMITS.release_at_once.max(slots_before) + over + usize::from(n > 100));
                prop_assert!(!hold_queue.open || hold_queue.slots.len() >= LIMITS.release_at_once || hold_queue.waiting.is_empty());
                prop_assert!(hold_queue.open || out.iter().all(|(_, v)| *v != WaitEnd::Resumed));
                prop_assert_eq!(hold_queue.slots.len(), hold_queue.slot_ends.len());
                prop_assert!(c.waiting as usize <= LIMITS.statements_max && c.waiting_bytes as usize <= LIMITS.bytes_max);
                prop_assert_eq!(hold_queue.deadlines.len(), hold_queue.waiting.len());
            }
        }
    }
}
