//! Decides whether a head within open quotes is the next entry's, or a part of a string.
//!
//! Servers log statements with syntax errors, too: `SELECT 'O'Brien'` seems to open a string that goes on for hundreds of entries. And an
//! application may store a log in a table: then whole entries stand within a string. The entries behind show which of the two it is. A log
//! that was quoted has no quote of that kind in it that is not doubled or escaped, and it ends with a `;` and an end of line, so that the
//! quote that closes the string stands behind such a line. Where a quote closes the string elsewhere, or none does within
//! [`crate::Limits::doubt_bytes_max`], the text was broken and ends where it seemed to.
//!
//! A text that stops without `;` goes on to whatever closes its quotes: servers end each text with one.

use std::collections::VecDeque;

use crate::quotes::Quotes;
use crate::scan::{End, Scan, Shape, Step};

/// Entries as [`Scan`] finds them, those within a string joined.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) scan: Scan,
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
                    self.ahead_bytes += step.length();
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
        let is_in_line = first.is_cut && matches!(self.ahead.get(1), Some(Step::Event(_)));
        let mut doubt = self.doubt.unwrap_or(Doubt { quotes: first.quotes, steps: 1, bytes: first.end });
        while let Some(next) = self.ahead.get(doubt.steps) {
            let text = &bytes[doubt.bytes..doubt.bytes + next.length()];
            doubt.bytes += text.len();
            if doubt.bytes - first.end > self.doubt_bytes_max {
                return Verdict::Alone;
            }
            let inner_end = match next {
                // How much of it there is depends on the pieces.
                Step::Unparsed(..) => return Verdict::Alone,
                Step::Event(Shape { inner_end: Some(end), .. }) if !is_in_line => *end,
                _ if is_in_line => 0,
                _ => text.len(),
            };
            let closed = doubt.quotes.closed();
            doubt.quotes.pass(&text[..inner_end]);
            if doubt.quotes.closed() > closed {
                return Verdict::Alone;
            }
            doubt.quotes.pass(&text[inner_end..]);
            if !doubt.quotes.is_open() {
                return Verdict::With(doubt.steps);
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
        self.ahead_bytes -= given.length();
        for next in self.ahead.drain(..more) {
            self.ahead_bytes -= next.length();
            if let Step::Event(first) = &mut given {
                first.end += next.length();
                first.is_cut = matches!(next, Step::Event(last) if last.is_cut);
            }
        }
        given
    }
}

fn is_open(step: Step) -> bool {
    matches!(step, Step::Event(shape) if shape.quotes.is_open())
}
