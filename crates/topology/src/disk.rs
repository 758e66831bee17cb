//! What is on disk, and what is being written. The store writes in the order of the requests. Each request has a number that its answer
//! repeats: several may be in progress under one term, and an answer may arrive after its request was given up.
//!
//! Invariants: [`Disk::written`] only grows, and no term above it is published. A term has one writer: what is written again under it
//! (session limits, a write that failed) names the same one.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Now;
use crate::{NodeId, Term};

/// The number of a request to write, so that an order can wait for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub u64);

/// The state of such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Pending,
    Done,
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    waiting: VecDeque<(Ticket, Term, Now)>,
    next: u64,
    done: Option<Ticket>,
    failed: Option<(Ticket, String)>,
    /// The highest term known to be on disk.
    pub written: Term,
    /// The newest decision that a write was requested for; the next one gets the following term.
    pub choice: Choice,
}

/// A term, and the writer chosen for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub term: Term,
    pub writer: Option<NodeId>,
}

impl Disk {
    /// `choice` is on disk.
    pub fn new(choice: Choice) -> Self {
        let written = choice.term;
        Self { waiting: VecDeque::new(), next: 0, done: None, failed: None, written, choice }
    }

    /// Requests that the newest decision be written.
    pub fn ask(&mut self, now: Now) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.push_back((ticket, self.choice.term, now));
        ticket
    }

    pub fn done(&mut self, ticket: Ticket) {
        if let Some(term) = self.take(ticket) {
            self.done = self.done.max(Some(ticket));
            self.written = self.written.max(term);
        }
    }

    pub fn fail(&mut self, ticket: Ticket, why: &str) {
        if self.take(ticket).is_some() {
            self.failed = Some((ticket, why.to_owned()));
        }
    }

    /// Gives up the oldest request when it has taken too long. A late answer to it is ignored.
    pub fn expire(&mut self, now: Now, deadline: Duration) -> bool {
        let late = self.waiting.front().is_some_and(|(_, _, at)| now.saturating_sub(*at) > deadline);
        if late && let Some((ticket, _, _)) = self.waiting.pop_front() {
            self.failed = Some((ticket, format!("no answer in {} s", deadline.as_secs_f32())));
        }
        late
    }

    /// The state of the request, and why it failed.
    pub fn state(&self, ticket: Ticket) -> (Written, &str) {
        if self.waiting.iter().any(|(waiting, _, _)| *waiting == ticket) {
            return (Written::Pending, "");
        }
        match &self.failed {
            Some((failed, why)) if *failed == ticket => (Written::Failed, why),
            _ if self.done.is_some_and(|done| done >= ticket) => (Written::Done, ""),
            _ => (Written::Failed, "its answer was lost"),
        }
    }

    fn take(&mut self, ticket: Ticket) -> Option<Term> {
        let place = self.waiting.iter().position(|(waiting, _, _)| *waiting == ticket)?;
        self.waiting.remove(place).map(|(_, term, _)| term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_its_own_write_and_a_late_one_for_none() {
        let second = Duration::from_secs(1);
        let decided = |term| Choice { term: Term(term), writer: Some(NodeId(1)) };
        let mut disk = Disk::new(decided(4));
        disk.choice = decided(5);
        let one = disk.ask(Duration::ZERO);
        let two = disk.ask(second);
        disk.done(one);
        assert_eq!(
            (disk.state(one).0, disk.state(two).0, disk.written),
            (Written::Done, Written::Pending, Term(5))
        );
        assert!(disk.expire(7 * second, 5 * second));
        assert_eq!(disk.state(two).0, Written::Failed);
        disk.choice = decided(6);
        let three = disk.ask(7 * second);
        let four = disk.ask(7 * second);
        disk.done(two);
        assert_eq!((disk.state(three).0, disk.written), (Written::Pending, Term(5)));
        disk.fail(four, "full");
        assert_eq!((disk.state(three).0, disk.state(four)), (Written::Pending, (Written::Failed, "full")));
        disk.done(three);
        assert_eq!(
            (disk.state(three).0, disk.state(four).0, disk.written),
            (Written::Done, Written::Failed, Term(6))
        );
    }
}
