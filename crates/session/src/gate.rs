//! The hold: statements that wait for a node, in order, within limits.
//!
//! Enters: a statement that found no open lane, with its size. Leaves: one [`Verdict`] for each. The owner task in the proxy
//! feeds it the time; nothing here waits by itself.
//!
//! ```text
//!            enter                      open, a slot free
//!   ────────────────────> waiting ───────────────────────────> resumed (holds a slot until `finished`)
//!                          │ │ └── its own deadline ─────────> expired
//!                          │ └──── the hold is full, oldest ─> evicted
//!                          └────── its client went away ─────> gone
//! ```
//!
//! Law, true after every call: `held = resumed + evicted + expired + gone + waiting`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time since the program started, monotonic.
pub type Now = Duration;

/// How much the hold may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest that one statement waits, counted from the first time it was held.
    pub time: Duration,
    /// Statements waiting at once.
    pub statements_max: usize,
    /// Bytes of waiting statements at once.
    pub bytes_max: usize,
    /// Released statements that may run at once before the next is released: a new writer is not flooded.
    pub release_at_once: usize,
}

/// Names one waiting statement. Grows with each entry, so its order is the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on. The slot is taken until [`Gate::finished`].
    Resumed,
    /// Thrown out, as the oldest, to make room.
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
    released: usize,
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
            released: 0,
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
        let deadline = since + self.limits.time;
        self.waiting.insert(ticket, Waiter { deadline, bytes });
        self.deadlines.insert((deadline, ticket));
        self.bytes += bytes;
        self.expire(now, out);
        while self.waiting.len() > self.limits.statements_max || self.bytes > self.limits.bytes_max {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            self.end(oldest, Verdict::Evicted, out);
        }
        self.counters.waiting_max = self.counters.waiting_max.max(self.waiting.len() as u64);
        self.release(out);
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

    /// A released statement has ended, whatever came of it: its slot is free.
    pub fn finished(&mut self, out: &mut Vec<(Ticket, Verdict)>) {
        self.released = self.released.saturating_sub(1);
        self.release(out);
    }

    /// Says whether a node takes statements now.
    pub fn set_open(&mut self, open: bool, out: &mut Vec<(Ticket, Verdict)>) {
        self.open = open;
        self.release(out);
    }

    /// Ends every wait whose time is over.
    pub fn expire(&mut self, now: Now, out: &mut Vec<(Ticket, Verdict)>) {
        while let Some(&(deadline, ticket)) = self.deadlines.first()
            && deadline <= now
        {
            self.end(ticket, Verdict::Expired, out);
        }
    }

    /// When [`Gate::expire`] has work next.
    pub fn next_deadline(&self) -> Option<Now> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    fn release(&mut self, out: &mut Vec<(Ticket, Verdict)>) {
        while self.open && self.released < self.limits.release_at_once {
            let Some((&oldest, _)) = self.waiting.first_key_value() else { break };
            self.released += 1;
            self.end(oldest, Verdict::Resumed, out);
        }
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
        gate.set_open(true, &mut out);
        assert_eq!(out, [(t[0], Verdict::Resumed), (t[1], Verdict::Resumed)]);
        out.clear();
        gate.finished(&mut out);
        assert_eq!(out, [(t[2], Verdict::Resumed)]);
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
        assert_eq!(out.last(), Some(&(alone, Verdict::Evicted)), "what can never fit is thrown out itself");
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
            let (mut released, mut now) = (0usize, s(0));
            for (what, n) in steps {
                out.clear();
                match what {
                    0 | 1 => tickets.push(gate.enter(now, now, n, &mut out)),
                    2 => { if let Some(&t) = tickets.get(n) { gate.gone(t); } }
                    3 => { if released > 0 { released -= 1; gate.finished(&mut out); } }
                    4 => gate.set_open(n % 2 == 0, &mut out),
                    _ => { now += s(n as u64 / 4); gate.expire(now, &mut out); }
                }
                released += out.iter().filter(|(_, v)| *v == Verdict::Resumed).count();
                let c = gate.counters();
                prop_assert!(c.lawful());
                prop_assert!(released <= LIMITS.release_at_once);
                prop_assert!(c.waiting as usize <= LIMITS.statements_max && c.waiting_bytes as usize <= LIMITS.bytes_max);
                prop_assert_eq!(gate.deadlines.len(), gate.waiting.len());
            }
        }
    }
}
