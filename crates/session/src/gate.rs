//! The hold: statements that wait for a node, in order, within limits.
//!
//! Enters: a statement that found no open lane, with its size. Leaves: one [`Verdict`] for each. The owner task in the proxy
//! feeds it the time; nothing here waits by itself.
//!
//! ```text
//!            enter        open, and a slot free, or its time is over
//!   ────────────────────> waiting ───────────────────────────> resumed (holds a slot until `finished`, SLOT_TIME_MAX at most)
//!       │                  │ │ └── closed, its time is over ─> expired
//!       │                  │ └──── the hold is full, oldest ─> evicted
//!       │                  └────── its client went away ─────> gone
//!       └── closed, larger than the whole hold ──────────────> evicted
//! ```
//!
//! The ramp (slots) keeps a new writer from being flooded; it must not become a second outage: slow statements give their slot
//! back after [`SLOT_TIME_MAX`], and nothing expires while a node takes statements.
//!
//! Law, true after every call: `held = resumed + evicted + expired + gone + waiting`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time since the program started, monotonic.
pub type Now = Duration;

/// The longest that a released statement keeps its slot in the ramp: what takes longer is slow by itself, and those behind it
/// must not wait for its end.
pub const SLOT_TIME_MAX: Duration = Duration::from_millis(250);

/// How much the hold may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest that one statement waits, counted from the first time it was held.
    pub time: Duration,
    /// Statements waiting at once.
    pub statements_max: usize,
    /// Bytes of waiting statements at once.
    pub bytes_max: usize,
    /// Released statements that may hold a slot at once before the next is released: a new writer is not flooded.
    pub release_at_once: usize,
}

/// Names one waiting statement. Grows with each entry, so its order is the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on. The slot is taken until [`Gate::finished`], or for [`SLOT_TIME_MAX`].
    Resumed,
    /// Thrown out: as the oldest, to make room, or because it is larger than the whole hold.
    Evicted,
    /// Waited its whole time.
    Expired,
}

/// What happened so far; the numbers of the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Entered.
    pub held: u64,
    /// Went on.
    pub resumed: u64,
    /// Thrown out to make room.
    pub evicted: u64,
    /// Waited their whole time.
    pub expired: u64,
    /// Their client went away.
    pub gone: u64,
    /// Waiting now.
    pub waiting: u64,
    /// Bytes waiting now.
    pub waiting_bytes: u64,
    /// The most that ever waited at once.
    pub waiting_max: u64,
}

impl Counters {
    /// The law of the hold.
    pub fn lawful(&self) -> bool {
        self.held == self.resumed + self.evicted + self.expired + self.gone + self.waiting
    }
}

struct Waiter {
    deadline: Now,
    bytes: usize,
}

/// The hold of one service.
pub struct Gate {
    limits: Limits,
    open: bool,
    next: u64,
    waiting: BTreeMap<Ticket, Waiter>,
    deadlines: BTreeSet<(Now, Ticket)>,
    bytes: usize,
    /// The slots in use, with their ends; and the same by their ends.
    slots: BTreeMap<Ticket, Now>,
    slot_ends: BTreeSet<(Now, Ticket)>,
    counters: Counters,
}

impl Gate {
    /// A closed gate, nobody waiting.
    pub fn new(limits: Limits) -> Self {
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

    /// The numbers of the law, now.
    pub fn counters(&self) -> Counters {
        Counters { waiting: self.waiting.len() as u64, waiting_bytes: self.bytes as u64, ..self.counters }
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A statement of `bytes` wants to wait; `since` is when it was first held (`now` for a new one). Verdicts that follow at
    /// once, its own included, are pushed to `out`.
    pub fn enter(&mut self, now: Now, since: Now, bytes: usize, out: &mut Vec<(Ticket, Verdict)>) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.counters.held += 1;
        if bytes > self.limits.bytes_max {
            // Room for it cannot be made, and those who wait stay: it goes on now, or never.
            self.waiting.insert(ticket, Waiter { deadline: now, bytes: 0 });
            if self.open {
                self.resume(now, ticket, out);
            } else {
                self.end(ticket, Verdict::Evicted, out);
            }
            return ticket;
        }
        let deadline = since + self.limits.time;
        self.waiting.insert(ticket, Waiter { deadline, bytes });
        self.deadlines.insert((deadline, ticket));
        self.bytes += bytes;
        self.expire(now, out);
        self.release(now, out);
        while self.waiting.len() > self.limits.statements_max || self.bytes > self.limits.bytes_max {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            self.end(oldest, Verdict::Evicted, out);
        }
        self.counters.waiting_max = self.counters.waiting_max.max(self.waiting.len() as u64);
        ticket
    }

    /// The client of a waiting statement went away. False when it was not waiting any more (a verdict is on its way).
    pub fn gone(&mut self, ticket: Ticket) -> bool {
        let found = self.take(ticket);
        if found {
            self.counters.gone += 1;
        }
        found
    }

    /// A released statement has ended, whatever came of it: its slot is free, unless it was given on already.
    pub fn finished(&mut self, now: Now, ticket: Ticket, out: &mut Vec<(Ticket, Verdict)>) {
        if let Some(end) = self.slots.remove(&ticket) {
            self.slot_ends.remove(&(end, ticket));
        }
        self.release(now, out);
    }

    /// Says whether a node takes statements now.
    pub fn set_open(&mut self, now: Now, open: bool, out: &mut Vec<(Ticket, Verdict)>) {
        self.open = open;
        self.release(now, out);
    }

    /// Ends every wait whose time is over, and takes back every slot that was held too long. A wait whose time is over while a
    /// node takes statements goes on, over the ramp's limit if need be: an error would help nobody.
    pub fn expire(&mut self, now: Now, out: &mut Vec<(Ticket, Verdict)>) {
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
                self.end(ticket, Verdict::Expired, out);
            }
        }
        self.release(now, out);
    }

    /// When [`Gate::expire`] has work next. A slot's end is work only for somebody who waits.
    pub fn next_deadline(&self) -> Option<Now> {
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline)?;
        let slot_end = self.slot_ends.first().map(|&(end, _)| end);
        Some(slot_end.filter(|_| self.open).map_or(deadline, |end| end.min(deadline)))
    }

    fn release(&mut self, now: Now, out: &mut Vec<(Ticket, Verdict)>) {
        while self.open && self.slots.len() < self.limits.release_at_once {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            self.resume(now, oldest, out);
        }
    }

    fn resume(&mut self, now: Now, ticket: Ticket, out: &mut Vec<(Ticket, Verdict)>) {
        let end = now + SLOT_TIME_MAX;
        self.slots.insert(ticket, end);
        self.slot_ends.insert((end, ticket));
        self.end(ticket, Verdict::Resumed, out);
    }

    fn end(&mut self, ticket: Ticket, verdict: Verdict, out: &mut Vec<(Ticket, Verdict)>) {
        if self.take(ticket) {
            match verdict {
                Verdict::Resumed => self.counters.resumed += 1,
                Verdict::Evicted => self.counters.evicted += 1,
                Verdict::Expired => self.counters.expired += 1,
            }
            out.push((ticket, verdict));
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

    const LIMITS: Limits =
        Limits { time: Duration::from_secs(60), statements_max: 3, bytes_max: 100, release_at_once: 2 };

    fn s(n: u64) -> Now {
        Duration::from_secs(n)
    }

    #[test]
    fn first_in_first_out_and_never_more_than_the_ramp_allows() {
        let mut gate = Gate::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|i| gate.enter(s(i), s(i), 10, &mut out)).collect();
        assert_eq!(out, []);
        gate.set_open(s(3), true, &mut out);
        assert_eq!(out, [(t[0], Verdict::Resumed), (t[1], Verdict::Resumed)]);
        out.clear();
        gate.finished(s(3), t[1], &mut out);
        assert_eq!(out, [(t[2], Verdict::Resumed)]);
        // Given back twice is given back once.
        out.clear();
        let t: Vec<_> = (0..2).map(|_| gate.enter(s(3), s(3), 10, &mut out)).collect();
        gate.finished(s(3), t[1], &mut out);
        gate.finished(s(3), Ticket(1), &mut out);
        assert_eq!(out, []);
        assert!(gate.counters().lawful());
    }

    #[test]
    fn slow_statements_do_not_starve_those_behind_them() {
        let mut gate = Gate::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|_| gate.enter(s(0), s(0), 10, &mut out)).collect();
        gate.set_open(s(1), true, &mut out);
        assert_eq!(out.len(), 2, "two slots");
        out.clear();
        // Neither of the two ever ends.
        assert_eq!(gate.next_deadline(), Some(s(1) + SLOT_TIME_MAX));
        gate.expire(s(1) + SLOT_TIME_MAX, &mut out);
        assert_eq!(out, [(t[2], Verdict::Resumed)]);
        assert_eq!(gate.next_deadline(), None, "nobody waits");
        out.clear();
        let now = s(1) + SLOT_TIME_MAX;
        gate.finished(now, t[0], &mut out);
        gate.finished(now, t[1], &mut out);
        let more: Vec<_> = (0..2).map(|_| gate.enter(now, now, 10, &mut out)).collect();
        assert_eq!(out, [(more[0], Verdict::Resumed)], "a slot given on is not given back once more");
    }

    #[test]
    fn whose_time_is_over_goes_on_while_the_gate_is_open() {
        let mut gate = Gate::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..3).map(|_| gate.enter(s(0), s(0), 10, &mut out)).collect();
        gate.set_open(s(60), true, &mut out);
        out.clear();
        gate.expire(s(60), &mut out);
        assert_eq!(out, [(t[2], Verdict::Resumed)], "both slots are taken, and yet");
        out.clear();
        gate.set_open(s(61), false, &mut out);
        let late = gate.enter(s(61), s(0), 10, &mut out);
        assert_eq!(out, [(late, Verdict::Expired)]);
        assert!(gate.counters().lawful());
    }

    #[test]
    fn a_full_hold_evicts_the_oldest_by_number_and_by_bytes() {
        let mut gate = Gate::new(LIMITS);
        let mut out = vec![];
        let t: Vec<_> = (0..4).map(|i| gate.enter(s(i), s(i), 10, &mut out)).collect();
        assert_eq!(out, [(t[0], Verdict::Evicted)]);
        out.clear();
        gate.enter(s(5), s(5), 85, &mut out);
        assert_eq!(out, [(t[1], Verdict::Evicted), (t[2], Verdict::Evicted)]);
        out.clear();
        let alone = gate.enter(s(6), s(6), 1000, &mut out);
        assert_eq!(out, [(alone, Verdict::Evicted)], "what can never fit is refused, and nobody else");
        assert_eq!(gate.counters().waiting, 2);
        assert!(gate.counters().lawful());
        gate.set_open(s(7), true, &mut out);
        out.clear();
        let large = gate.enter(s(9), s(9), 1000, &mut out);
        assert_eq!(out, [(large, Verdict::Resumed)], "it need not wait when the gate is open");
        assert!(gate.counters().lawful());
    }

    #[test]
    fn time_counts_from_the_first_hold() {
        let mut gate = Gate::new(LIMITS);
        let mut out = vec![];
        gate.enter(s(10), s(10), 1, &mut out);
        let again = gate.enter(s(40), s(0), 1, &mut out);
        assert_eq!(gate.next_deadline(), Some(s(60)));
        gate.expire(s(60), &mut out);
        assert_eq!(out, [(again, Verdict::Expired)]);
    }

    proptest! {
        #[test]
        fn the_law_holds_whatever_happens(steps in prop::collection::vec((0u8..6, 0usize..120), 1..200)) {
            let mut gate = Gate::new(LIMITS);
            let mut out = vec![];
            let mut tickets = vec![];
            let mut now = s(0);
            for (what, n) in steps {
                out.clear();
                let over = gate.waiting.values().filter(|waiter| waiter.deadline <= now + s(n as u64 / 4)).count();
                let slots_before = gate.slots.len();
                match what {
                    0 | 1 => tickets.push(gate.enter(now, now, n, &mut out)),
                    2 => { if let Some(&t) = tickets.get(n) { gate.gone(t); } }
                    3 => { if let Some(&t) = tickets.get(n) { gate.finished(now, t, &mut out); } }
                    4 => gate.set_open(now, n % 2 == 0, &mut out),
                    _ => { now += s(n as u64 / 4); gate.expire(now, &mut out); }
                }
                let c = gate.counters();
                prop_assert!(c.lawful());
                // Over the ramp's limit go only those whose time is over, and what cannot be held.
                prop_assert!(gate.slots.len() <= LIMITS.release_at_once.max(slots_before) + over + usize::from(n > 100));
                prop_assert!(!gate.open || gate.slots.len() >= LIMITS.release_at_once || gate.waiting.is_empty());
                prop_assert!(gate.open || out.iter().all(|(_, v)| *v != Verdict::Resumed));
                prop_assert_eq!(gate.slots.len(), gate.slot_ends.len());
                prop_assert!(c.waiting as usize <= LIMITS.statements_max && c.waiting_bytes as usize <= LIMITS.bytes_max);
                prop_assert_eq!(gate.deadlines.len(), gate.waiting.len());
            }
        }
    }
}
