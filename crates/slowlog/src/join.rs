//! Decides whether a head within open quotes is the next entry's, or a part of a string.
//!
//! Servers log statements with syntax errors, too: `SELECT 'O'Brien'` seems to open a string that goes on for hundreds of entries. And an
//! application may store a log in a table: then entries stand within a string. Which of the two it is, the entries behind show. One that
//! is quoted ends with its `;` and end of line within the string, so that whatever closes the string stands on a further line. So a text
//! with open quotes goes on until they are closed within an entry that has a `;` at the end of an earlier line. It ends where it seemed to
//! if an entry comes first whose own quotes are open without such a line (a server has written it), or nothing that closes them within
//! [`crate::Limits::doubt_bytes_max`]. Servers end each text with `;`: one without it goes on to whatever closes its quotes.

use std::collections::VecDeque;

use crate::quotes::Quotes;
use crate::scan::{End, Scan, Shape, Step};

/// Entries as [`Scan`] finds them, those within a string joined.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    scan: Scan,
    doubt_bytes_max: usize,
    /// What was found and not given out.
    ahead: VecDeque<Step>,
    ahead_bytes: usize,
    /// What the quotes of the first of them have become.
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    quotes: Quotes,
    /// So many of the steps ahead were looked at, and so many bytes.
    steps: usize,
    bytes: usize,
}

/// Whether the first step ahead is whole.
enum Verdict {
    Undecided,
    Alone,
    /// With so many of the steps behind it.
    With(usize),
}

impl Joined {
    pub(crate) fn new(scan: Scan, doubt_bytes_max: usize) -> Self {
        Self { scan, doubt_bytes_max, ahead: VecDeque::new(), ahead_bytes: 0, doubt: None }
    }

    /// What these bytes begin with, and how many entries its strings seem to contain.
    pub(crate) fn step(&mut self, bytes: &[u8], end: End) -> (Step, usize) {
        loop {
            match self.verdict(bytes) {
                Verdict::Alone => return (self.give(0), 0),
                Verdict::With(more) => return (self.give(more), more),
                Verdict::Undecided => {}
            }
            match self.scan.step(&bytes[self.ahead_bytes..], end) {
                Step::More if end != End::More && !self.ahead.is_empty() => return (self.give(0), 0),
                Step::More => return (Step::More, 0),
                // The usual case, without the queue.
                step if self.ahead.is_empty() && !is_open(step) => return (step, 0),
                step => {
                    self.ahead.push_back(step);
                    self.ahead_bytes += length(step);
                }
            }
        }
    }

    fn verdict(&mut self, bytes: &[u8]) -> Verdict {
        let first = match self.ahead.front() {
            None => return Verdict::Undecided,
            Some(Step::Event(shape)) if shape.quotes.is_open() => shape,
            Some(_) => return Verdict::Alone,
        };
        let mut doubt = self.doubt.unwrap_or(Doubt { quotes: first.quotes, steps: 1, bytes: first.end });
        while let Some(next) = self.ahead.get(doubt.steps) {
            let Step::Event(shape) = next else { return Verdict::Alone };
            doubt.quotes.pass(&bytes[doubt.bytes..doubt.bytes + shape.end]);
            doubt.bytes += shape.end;
            if (shape.has_inner_end || first.is_cut) && !doubt.quotes.is_open() {
                return Verdict::With(doubt.steps);
            }
            let is_servers = shape.quotes.is_open() && !shape.has_inner_end;
            if is_servers || doubt.bytes - first.end > self.doubt_bytes_max {
                return Verdict::Alone;
            }
            doubt.steps += 1;
        }
        self.doubt = Some(doubt);
        Verdict::Undecided
    }

    /// The first step ahead, with so many behind it.
    fn give(&mut self, more: usize) -> Step {
        self.doubt = None;
        let mut given = self.ahead.pop_front().unwrap_or(Step::More);
        self.ahead_bytes -= length(given);
        for next in self.ahead.drain(..more) {
            self.ahead_bytes -= length(next);
            if let (Step::Event(first), Step::Event(last)) = (&mut given, next) {
                *first = Shape { end: first.end + last.end, is_cut: last.is_cut, ..*first };
            }
        }
        given
    }
}

fn is_open(step: Step) -> bool {
    matches!(step, Step::Event(shape) if shape.quotes.is_open())
}

fn length(step: Step) -> usize {
    match step {
        Step::More => 0,
        Step::Event(shape) => shape.end,
        Step::Banner(length) | Step::Unparsed(length, _) => length,
    }
}
