//! Where heads stand in a log: the state of a reader between two pieces.
//!
//! Enters: the bytes from the first of the current item on, again with each new piece, and whether more will come. Leaves: a [`Step`]. An
//! entry ends here at the first head behind its text, whether that stands within a string or not: [`crate::join::Joined`] decides about that.
//! Invariants: what is found does not depend on how the log was cut into pieces (only the borders of what is unparsed do); no byte is
//! looked at again when a piece comes, except a line of a head, and up to [`BEGIN_BYTES_MAX`] where a head may begin.
//!
//! ```text
//!             head                     SET timestamp=N;                   a head
//!   Between ---------> Head(lines) ----------------------> Body(SQL) -----------> event, Between
//!      |                                                      |  longer than it may be: dropped
//!      +--> banner, unparsed                                  +--------------------- a head --> Head, Between
//! ```

use memchr::memchr;

use crate::begin::{
    BEGIN_BYTES_MAX, Begins, LINE_BYTES_MAX, banner_goes_on, banner_in, entry, is_banner_line, long_form,
    prefix,
};
use crate::grammar::{ADMINISTRATOR, TIME};
use crate::head::{administrator, set_line, use_line, user_in};
use crate::quotes::Quotes;
use crate::reader::Limits;

/// What comes behind the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Perhaps more of the same entry.
    More,
    /// Nothing for a while: a server writes an entry at once, so the last one is whole if it looks so.
    Settled,
    /// Nothing at all.
    Ended,
}

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Reading began within an entry.
    Before,
    /// No entry begins here, and none goes on.
    Stray,
    /// A part of an entry that is longer than [`Limits::event_bytes_max`], or whose head is longer than [`Limits::head_bytes_max`].
    TooLong,
    /// The log ends within the head of an entry.
    Cut,
}

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Not decided yet.
    More,
    Event(Shape),
    /// So many bytes are a server's banner, or a part of it.
    Banner(usize),
    /// So many bytes are nothing that is known.
    Unparsed(usize, Why),
}

impl Step {
    /// In bytes.
    pub(crate) fn length(self) -> usize {
        match self {
            Self::More => 0,
            Self::Event(shape) => shape.end,
            Self::Banner(length) | Self::Unparsed(length, _) => length,
        }
    }
}

/// An entry, in bytes from its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The SQL's first byte.
    pub(crate) body: usize,
    /// Behind the entry's last byte.
    pub(crate) end: usize,
    /// Its text does not end with `;`.
    pub(crate) is_cut: bool,
    /// What is open behind its text.
    pub(crate) quotes: Quotes,
    /// Behind the first line of its text that ends with `;`, if others follow.
    pub(crate) inner_end: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Between,
    Head(HeadLines),
    /// The SET line ends here.
    BehindSet(usize),
    Body(Body),
}

/// What the lines of a head were so far.
#[derive(Clone, Copy, Debug, Default)]
struct HeadLines {
    /// The next line's first byte.
    at: usize,
    /// `# User@Host:` was among them.
    user: bool,
    /// The first that is no line of a head.
    plain: Option<usize>,
    /// The last of those ends with `;`.
    is_ended: bool,
}

/// The text of a statement, as far as it was looked at.
#[derive(Clone, Copy, Debug)]
struct Body {
    begin: usize,
    /// The current line's first byte.
    line: usize,
    /// Before it all is looked at for ends of lines.
    at: usize,
    /// The last line that is not blank ends with `;`.
    is_ended: bool,
    /// Behind the first line that does.
    first_end: Option<usize>,
    /// The entry is longer than it may be: its bytes are given out as they come.
    is_too_long: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Scan {
    limits: Limits,
    phase: Phase,
    /// No entry was seen since reading began in the middle of a log.
    is_lost: bool,
    /// Entries that were too long.
    pub(crate) too_long: u64,
}

impl Scan {
    pub(crate) fn new(limits: Limits, is_lost: bool) -> Self {
        Self { limits, phase: Phase::Between, is_lost, too_long: 0 }
    }

    /// What these bytes begin with. After anything but [`Step::More`] the next call begins behind what was found.
    pub(crate) fn step(&mut self, bytes: &[u8], end: End) -> Step {
        if bytes.is_empty() {
            return Step::More;
        }
        let step = loop {
            // None: on with the next phase.
            let step = match self.phase {
                Phase::Between => self.between(bytes, end),
                Phase::Head(seen) => self.head(bytes, end, seen),
                Phase::BehindSet(at) => self.behind_set_line(bytes, end, at),
                Phase::Body(body) => self.body(bytes, end, body),
            };
            if let Some(step) = step {
                break step;
            }
        };
        match step {
            // Entered within a string, most likely: what is found on the way is a part of that.
            Step::Event(shape) if self.is_lost && shape.quotes.is_open() => {
                return Step::Unparsed(shape.end, Why::Before);
            }
            Step::Event(_) | Step::Banner(_) => self.is_lost = false,
            Step::More | Step::Unparsed(..) => {}
        }
        step
    }

    fn between(&mut self, bytes: &[u8], end: End) -> Option<Step> {
        let begins = if self.is_lost { Begins::No } else { entry(bytes) };
        match begins {
            Begins::Yes => {
                self.phase = behind(true);
                None
            }
            Begins::No => Some(self.stray(bytes, end)),
            Begins::More if end == End::Ended => Some(Step::Unparsed(bytes.len(), Why::Cut)),
            Begins::More => Some(Step::More),
        }
    }

    /// Lines until one with which an entry begins. In the middle of a log that must stand behind the end of another statement.
    fn stray(&mut self, bytes: &[u8], end: End) -> Step {
        let why = if self.is_lost { Why::Before } else { Why::Stray };
        let mut at = 0;
        loop {
            let Some(length) = memchr(b'\n', &bytes[at..]) else {
                let is_long = bytes.len() - at > BEGIN_BYTES_MAX;
                return match at {
                    0 if end == End::Ended && is_banner_line(bytes) => Step::Banner(bytes.len()),
                    _ if is_long || end == End::Ended => Step::Unparsed(bytes.len(), why),
                    0 => Step::More,
                    _ => Step::Unparsed(at, why),
                };
            };
            let line = bytes[at..at + length].trim_ascii_end();
            if is_banner_line(line) {
                return if at == 0 { Step::Banner(length + 1) } else { Step::Unparsed(at, why) };
            }
            let next = at + length + 1;
            let begins = match self.is_lost && !line.ends_with(b";") {
                true => Begins::No,
                false => entry(&bytes[next..]),
            };
            match begins {
                Begins::Yes => {
                    self.phase = behind(true);
                    return Step::Unparsed(next, why);
                }
                // The end of the line before is asked for again.
                Begins::More if self.is_lost && end != End::Ended => {
                    return if at == 0 { Step::More } else { Step::Unparsed(at, why) };
                }
                Begins::More => return Step::Unparsed(next, why),
                Begins::No => at = next,
            }
        }
    }

    /// The lines up to `SET timestamp=N;`, which nearly each server writes. What a warning or a schema's name brings along may have ends of
    /// lines in it; so other lines are of the head, too, unless another entry begins before there is a SET line.
    fn head(&mut self, bytes: &[u8], end: End, mut seen: HeadLines) -> Option<Step> {
        loop {
            let left = &bytes[seen.at..];
            let length = memchr(b'\n', left);
            if seen.at + length.unwrap_or(left.len()) > self.limits.head_bytes_max {
                // A long text without a SET line, or a long head.
                let is_too_long = seen.plain.is_none();
                self.too_long += u64::from(is_too_long);
                self.phase = Phase::Body(Body { is_too_long, ..Body::from(seen.plain.unwrap_or(seen.at)) });
                return None;
            }
            let Some(length) = length else {
                return self.head_without_end(bytes, end, seen);
            };
            let line = left[..length].trim_ascii_end();
            if line.starts_with(b"#") {
                let has_user = user_in(line).is_some();
                let may_begin = seen.at > 0 && (has_user || line.starts_with(TIME));
                let begins = match seen {
                    HeadLines { is_ended: true, .. } => entry(left),
                    HeadLines { user: true, .. } | HeadLines { plain: Some(_), .. } if may_begin => {
                        long_form(left)
                    }
                    _ => Begins::No,
                };
                match begins {
                    Begins::Yes => return self.no_set_line(seen),
                    Begins::More => return self.head_without_end(bytes, end, seen),
                    Begins::No => {}
                }
                seen.user |= has_user;
                if let Some(step) = self.administrator(bytes, end, seen.at) {
                    return Some(step);
                }
            } else if set_line(line).is_some() {
                self.phase = Phase::BehindSet(seen.at + length + 1);
                return None;
            } else if use_line(line).is_none() && !line.is_empty() {
                seen.plain = seen.plain.or(Some(seen.at));
                seen.is_ended = line.ends_with(b";");
            }
            seen.at += length + 1;
            self.phase = Phase::Head(seen);
        }
    }

    fn head_without_end(&mut self, bytes: &[u8], end: End, mut seen: HeadLines) -> Option<Step> {
        let last = bytes[seen.at..].trim_ascii_end();
        if end == End::Settled && seen.is_ended && last.is_empty() {
            return self.no_set_line(seen);
        }
        if end != End::Ended {
            return Some(Step::More);
        }
        if let Some(step) = self.administrator(bytes, end, seen.at) {
            return Some(step);
        }
        // The lines before a SET line are of the head, and the text is not there.
        let has_set_line = set_line(last).is_some();
        let is_of_head = has_set_line || last.starts_with(b"#") || use_line(last).is_some();
        if seen.plain.is_none() && last.ends_with(b";") && !is_of_head {
            // The last line of a log without an end of line.
            seen.plain = Some(seen.at);
        }
        if seen.plain.is_some() && !has_set_line {
            return self.no_set_line(seen);
        }
        self.phase = Phase::Between;
        Some(Step::Unparsed(bytes.len(), Why::Cut))
    }

    /// The next entry begins behind these lines, or nothing is there.
    fn no_set_line(&mut self, seen: HeadLines) -> Option<Step> {
        let Some(plain) = seen.plain else {
            return Some(self.without_text(seen.at, seen.at, true, true));
        };
        self.phase = Phase::Body(Body::from(plain));
        None
    }

    fn without_text(&mut self, body: usize, end: usize, is_cut: bool, is_next: bool) -> Step {
        self.phase = behind(is_next);
        Step::Event(Shape { body, end, is_cut, quotes: Quotes::default(), inner_end: None })
    }

    /// A whole `# administrator command: X;` at this place.
    fn administrator(&mut self, bytes: &[u8], end: End, at: usize) -> Option<Step> {
        let left = bytes[at..].strip_prefix(ADMINISTRATOR).map(|_| &bytes[at..])?;
        let length = memchr(b'\n', left).or((end == End::Ended).then_some(left.len()))?;
        administrator(&left[..length])?;
        Some(self.without_text(at, bytes.len().min(at + length + 1), false, false))
    }

    fn behind_set_line(&mut self, bytes: &[u8], end: End, at: usize) -> Option<Step> {
        if let Some(step) = self.administrator(bytes, end, at) {
            return Some(step);
        }
        let left = &bytes[at..];
        let begins = entry(left);
        if begins == Begins::Yes {
            return Some(self.without_text(at, at, false, true));
        }
        let is_undecided = begins == Begins::More
            || prefix(left, ADMINISTRATOR) == Begins::More
            || (left.starts_with(ADMINISTRATOR)
                && left.len() < BEGIN_BYTES_MAX
                && memchr(b'\n', left).is_none());
        let is_blank = left.len() < BEGIN_BYTES_MAX && left.trim_ascii().is_empty();
        if (is_undecided || is_blank) && end != End::Ended {
            return Some(Step::More);
        }
        if is_blank {
            return Some(self.without_text(at, bytes.len(), true, false));
        }
        self.phase = Phase::Body(Body::from(at));
        None
    }

    fn body(&mut self, bytes: &[u8], end: End, mut body: Body) -> Option<Step> {
        let found = body.mark(bytes, end);
        // The line so far may turn out to be a banner's.
        let undecided = body.line.max(body.at.saturating_sub(LINE_BYTES_MAX));
        if !body.is_too_long && found.map_or(undecided, |mark| mark.at) > self.limits.event_bytes_max {
            body.is_too_long = true;
            self.too_long += 1;
        }
        let ended = (end == End::Ended).then_some(Mark { at: bytes.len(), is_entry: false });
        if let Some(mark) = found.or(ended) {
            self.phase = behind(mark.is_entry);
            return match body.is_too_long {
                false => Some(Step::Event(body.shape(bytes, mark))),
                // All of it may have been given out before.
                true => (mark.at > 0).then_some(Step::Unparsed(mark.at, Why::TooLong)),
            };
        }
        // The last line is needed, should it be the first of a banner.
        let given = body.line.max(body.at.saturating_sub(BEGIN_BYTES_MAX));
        if !body.is_too_long || given == 0 {
            self.phase = Phase::Body(body);
            return Some(Step::More);
        }
        body.at -= given;
        body.line = body.line.saturating_sub(given);
        self.phase = Phase::Body(body);
        Some(Step::Unparsed(given, Why::TooLong))
    }
}

/// What follows on something: an entry for sure, or anything.
fn behind(is_entry: bool) -> Phase {
    if is_entry { Phase::Head(HeadLines::default()) } else { Phase::Between }
}

/// A place where a text ends: a head or a banner begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at: usize,
    /// An entry begins there, for sure.
    is_entry: bool,
}

impl Body {
    fn from(begin: usize) -> Self {
        Self { begin, line: begin, at: begin, is_ended: false, first_end: None, is_too_long: false }
    }

    /// Where the text ends; None while that is not there.
    fn mark(&mut self, bytes: &[u8], end: End) -> Option<Mark> {
        while let Some(length) = memchr(b'\n', &bytes[self.at..]) {
            let line_end = self.at + length;
            let next = line_end + 1;
            let (line, left) = (&bytes[self.line..line_end], &bytes[next..]);
            if let Some(before) = banner_in(line, self.is_ended) {
                match banner_goes_on(left) {
                    Begins::Yes => return Some(Mark { at: self.line + before, is_entry: false }),
                    Begins::More if end != End::Ended => return None,
                    _ => {}
                }
            }
            let text = line.trim_ascii_end();
            let is_ended = if text.is_empty() { self.is_ended } else { text.ends_with(b";") };
            self.first_end = self.first_end.or(is_ended.then_some(next));
            match if is_ended { entry(left) } else { long_form(left) } {
                Begins::Yes => return Some(Mark { at: next, is_entry: true }),
                Begins::More if end == End::More => return None,
                // Nothing more comes: what is there of the next head, or nothing.
                Begins::More if is_ended => {
                    let is_all = left.trim_ascii_start().is_empty();
                    return match end {
                        End::Ended if is_all => Some(Mark { at: bytes.len(), is_entry: false }),
                        End::Settled if !is_all => None,
                        _ => Some(Mark { at: next, is_entry: false }),
                    };
                }
                Begins::More if end == End::Settled => return None,
                _ => {}
            }
            self.is_ended = is_ended;
            (self.at, self.line) = (next, next);
        }
        self.at = bytes.len();
        None
    }

    fn shape(&self, bytes: &[u8], mark: Mark) -> Shape {
        let text = &bytes[self.begin..mark.at];
        let mut quotes = Quotes::default();
        quotes.pass(text);
        Shape {
            body: self.begin,
            end: mark.at,
            is_cut: !text.trim_ascii_end().ends_with(b";"),
            quotes,
            inner_end: self
                .first_end
                .filter(|end| !bytes[(*end).min(mark.at)..mark.at].trim_ascii().is_empty()),
        }
    }
}
