//! Where items begin and end: the state of a reader between two pieces.
//!
//! Enters: the bytes from the first of the current item on, again with each new piece, and whether more will come. Leaves: a [`Step`]. Invariants:
//! what is found does not depend on how the log was cut into pieces (only the borders of what is unparsed do); no byte is looked at
//! again when a piece comes, except up to [`BEGIN_BYTES_MAX`] where a head may begin, and up to [`crate::Limits::doubt_bytes_max`] where it is doubtful whether an entry ends.
//!
//! ```text
//!             head                     SET timestamp=N;                   a head, quotes closed
//!   Between ---------> Head(lines) ----------------------> Body(SQL) -------------------------> event, Between
//!      |                                                      |  longer than it may be
//!      +--> banner, unparsed                                  +--> TooLong --- a head -------> Between
//! ```

use memchr::memchr;

use crate::begin::{
    ADMINISTRATOR, BEGIN_BYTES_MAX, Begins, LINE_BYTES_MAX, USER, banner_goes_on, banner_in, entry,
    is_banner_line, long_form, prefix,
};
use crate::head::{set_line, use_line};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    Statement,
    Administrator,
    Nothing,
}

/// An entry, in bytes from its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The SQL's first byte.
    pub(crate) body: usize,
    /// Behind the entry's last byte.
    pub(crate) end: usize,
    pub(crate) runs: Runs,
    pub(crate) is_cut: bool,
    pub(crate) is_doubtful: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Between,
    Head(HeadLines),
    BehindSet,
    Body(Body),
    TooLong(Body),
}

/// What the lines of a head were so far.
#[derive(Clone, Copy, Debug, Default)]
struct HeadLines {
    /// `# User@Host:` was among them.
    user: bool,
    /// The first that is no line of a head.
    plain: Option<usize>,
}

/// The text of a statement, as far as it was looked at.
#[derive(Clone, Debug)]
struct Body {
    begin: usize,
    /// The current line's first byte.
    line: usize,
    /// Before it all is looked at for ends of lines.
    at: usize,
    /// Before it all went through `quotes`.
    quoted: usize,
    quotes: Quotes,
    /// The first place within open quotes where it would end if they were closed.
    doubt: Option<Mark>,
    /// In `TooLong`: how many bytes were given out; `doubt` counts from before those.
    forgotten: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Scan {
    limits: Limits,
    phase: Phase,
    /// In `Head`: the next line's first byte.
    at: usize,
    /// An entry begins with the next byte: it was looked at already.
    is_begun: bool,
    /// No entry was seen since reading began in the middle of a log.
    is_lost: bool,
    /// Entries that begin before so many more bytes could be a part of the one before them.
    doubtful: usize,
}

impl Scan {
    pub(crate) fn new(limits: Limits, is_lost: bool) -> Self {
        Self { limits, phase: Phase::Between, at: 0, is_begun: false, is_lost, doubtful: 0 }
    }

    /// What these bytes begin with. After anything but [`Step::More`] the next call begins behind what was found.
    pub(crate) fn step(&mut self, bytes: &[u8], end: End) -> Step {
        if bytes.is_empty() {
            return Step::More;
        }
        let step = loop {
            match self.phase {
                Phase::Between => {
                    if let Some(step) = self.between(bytes, end) {
                        break step;
                    }
                }
                Phase::Head(seen) => {
                    if let Some(step) = self.head(bytes, end, seen) {
                        break step;
                    }
                }
                Phase::BehindSet => {
                    if let Some(step) = self.behind_set_line(bytes, end) {
                        break step;
                    }
                }
                Phase::Body(_) => {
                    if let Some(step) = self.body(bytes, end) {
                        break step;
                    }
                }
                Phase::TooLong(_) => {
                    if let Some(step) = self.too_long(bytes, end) {
                        break step;
                    }
                }
            }
        };
        self.given(step)
    }

    /// Takes note of what is given out.
    fn given(&mut self, step: Step) -> Step {
        let (length, step) = match step {
            Step::More => return Step::More,
            // Entered within a string, most likely: what is found on the way is a part of that.
            Step::Event(shape) if self.is_lost && shape.is_doubtful => {
                self.doubtful = 0;
                (shape.end, Step::Unparsed(shape.end, Why::Before))
            }
            Step::Event(mut shape) => {
                self.is_lost = false;
                shape.is_doubtful |= self.doubtful > 0;
                (shape.end, Step::Event(shape))
            }
            Step::Banner(length) => {
                self.is_lost = false;
                (length, step)
            }
            Step::Unparsed(length, _) => (length, step),
        };
        self.doubtful = self.doubtful.saturating_sub(length);
        step
    }

    /// None: on with the next phase.
    fn between(&mut self, bytes: &[u8], end: End) -> Option<Step> {
        let is_begun = std::mem::take(&mut self.is_begun);
        let begins = match self.is_lost {
            true if !is_begun => return Some(self.stray(bytes, end)),
            _ if is_begun => Begins::Yes,
            _ => entry(bytes),
        };
        match begins {
            Begins::Yes => {
                self.phase = Phase::Head(HeadLines::default());
                self.at = 0;
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
                    _ if is_long || end == End::Ended => Step::Unparsed(bytes.len(), why),
                    0 => Step::More,
                    _ => Step::Unparsed(at, why),
                };
            };
            let line = &bytes[at..at + length];
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
                    self.is_begun = true;
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

    /// The lines up to `SET timestamp=N;`, which each server writes. What a warning or a schema's name brings along may have ends of lines in
    /// it; so other lines are of the head, too, unless another entry begins before there is a SET line.
    fn head(&mut self, bytes: &[u8], end: End, mut seen: HeadLines) -> Option<Step> {
        loop {
            let left = &bytes[self.at..];
            let length = memchr(b'\n', left);
            if self.at + length.unwrap_or(left.len()) > self.limits.head_bytes_max {
                self.phase = Phase::TooLong(self.body_from(self.at));
                return None;
            }
            let Some(length) = length else {
                return self.head_without_end(bytes, end, seen);
            };
            let line = &left[..length];
            if line.starts_with(b"#") {
                let may_be_next = (seen.user || seen.plain.is_some()) && self.at > 0;
                match if may_be_next { long_form(left) } else { Begins::No } {
                    Begins::Yes => return self.no_set_line(seen),
                    Begins::More => return self.head_without_end(bytes, end, seen),
                    Begins::No => {}
                }
                seen.user |= line.starts_with(USER);
                if let Some(step) = self.administrator(bytes) {
                    return Some(step);
                }
            } else if set_line(line).is_some() {
                self.at += length + 1;
                self.phase = Phase::BehindSet;
                return None;
            } else if use_line(line).is_none() {
                seen.plain = seen.plain.or(Some(self.at));
            }
            self.at += length + 1;
            self.phase = Phase::Head(seen);
        }
    }

    fn head_without_end(&mut self, bytes: &[u8], end: End, seen: HeadLines) -> Option<Step> {
        if end != End::Ended {
            return Some(Step::More);
        }
        if seen.plain.is_some() {
            return self.no_set_line(seen);
        }
        self.phase = Phase::Between;
        Some(Step::Unparsed(bytes.len(), Why::Cut))
    }

    /// The next entry begins at `self.at`, or nothing is there.
    fn no_set_line(&mut self, seen: HeadLines) -> Option<Step> {
        match seen.plain {
            Some(plain) => {
                self.phase = Phase::Body(self.body_from(plain));
                None
            }
            None => {
                self.is_begun = true;
                Some(self.nothing_behind_head(self.at, true))
            }
        }
    }

    fn nothing_behind_head(&mut self, end: usize, is_cut: bool) -> Step {
        self.phase = Phase::Between;
        Step::Event(Shape { body: end, end, runs: Runs::Nothing, is_cut, is_doubtful: false })
    }

    fn body_from(&self, begin: usize) -> Body {
        let quotes = Quotes::new(self.limits.backslash_escapes);
        Body { begin, line: begin, at: begin, quoted: begin, quotes, doubt: None, forgotten: 0 }
    }

    /// A whole `# administrator command: X;` at `self.at`.
    fn administrator(&mut self, bytes: &[u8]) -> Option<Step> {
        let name = bytes[self.at..].strip_prefix(ADMINISTRATOR)?;
        let length = memchr(b'\n', name)?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-".contains(byte);
        let word = name[..length].strip_suffix(b";")?;
        if !word.iter().all(is_name) {
            return None;
        }
        let end = self.at + ADMINISTRATOR.len() + length + 1;
        let shape =
            Shape { body: self.at, end, runs: Runs::Administrator, is_cut: false, is_doubtful: false };
        self.phase = Phase::Between;
        Some(Step::Event(shape))
    }

    /// None: SQL stands there.
    fn behind_set_line(&mut self, bytes: &[u8], end: End) -> Option<Step> {
        if let Some(step) = self.administrator(bytes) {
            return Some(step);
        }
        let left = &bytes[self.at..];
        let is_undecided = entry(left) == Begins::More
            || prefix(left, ADMINISTRATOR) == Begins::More
            || (left.starts_with(ADMINISTRATOR)
                && left.len() < BEGIN_BYTES_MAX
                && memchr(b'\n', left).is_none());
        if entry(left) == Begins::Yes {
            self.is_begun = true;
            return Some(self.nothing_behind_head(self.at, false));
        }
        if is_undecided && end != End::Ended {
            return Some(Step::More);
        }
        if left.is_empty() {
            return Some(self.nothing_behind_head(self.at, true));
        }
        self.phase = Phase::Body(self.body_from(self.at));
        None
    }

    fn body(&mut self, bytes: &[u8], end: End) -> Option<Step> {
        let Phase::Body(body) = &mut self.phase else { return None };
        let rest = Mark { at: bytes.len(), next: bytes.len(), is_entry: false };
        let found = match (body.look(bytes, &self.limits, end), body.doubt, end) {
            (Some(found), ..) => Some(found),
            (None, _, End::More) | (None, None, End::Settled) => None,
            (None, Some(doubt), _) => Some(Found::Event(doubt)),
            (None, None, End::Ended) => Some(Found::Event(rest)),
        };
        match found {
            Some(Found::Event(mark)) => {
                let shape = body.shape(bytes, mark);
                if body.doubt == Some(mark) {
                    self.doubtful = mark.at + self.limits.doubt_bytes_max;
                }
                self.is_begun = mark.is_entry;
                self.phase = Phase::Between;
                Some(Step::Event(shape))
            }
            Some(Found::TooLong) => {
                self.phase = Phase::TooLong(body.clone());
                None
            }
            None => Some(Step::More),
        }
    }

    /// The rest of an entry that is too long, in pieces as they come. None: all of it was given out before.
    fn too_long(&mut self, bytes: &[u8], end: End) -> Option<Step> {
        let Phase::TooLong(body) = &mut self.phase else { return None };
        if let Some(mark) = body.look_too_long(bytes, &self.limits, end) {
            self.is_begun = mark.is_entry;
            self.phase = Phase::Between;
            return (mark.at > 0).then_some(Step::Unparsed(mark.at, Why::TooLong));
        }
        if end == End::Ended {
            self.phase = Phase::Between;
            return Some(Step::Unparsed(bytes.len(), Why::TooLong));
        }
        // The last line is needed, should it be the first of a banner.
        let given = body.line.max(body.at.saturating_sub(BEGIN_BYTES_MAX));
        if given == 0 {
            return Some(Step::More);
        }
        body.forget(bytes, given);
        Some(Step::Unparsed(given, Why::TooLong))
    }
}

/// A place where a text may end: a head or a banner begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at: usize,
    /// The first byte of the next line that is to be looked at.
    next: usize,
    /// An entry begins there, for sure.
    is_entry: bool,
}

enum Found {
    /// The text ends there.
    Event(Mark),
    TooLong,
}

impl Body {
    /// The end of the text; None while it is not there.
    fn look(&mut self, bytes: &[u8], limits: &Limits, end: End) -> Option<Found> {
        loop {
            let mark = self.mark(bytes, end);
            // The line so far may turn out to be a banner's.
            let undecided = self.line.max(self.at.saturating_sub(LINE_BYTES_MAX));
            let place = mark.map_or(undecided, |mark| mark.at);
            let is_too_long = place > limits.event_bytes_max;
            match self.doubt {
                Some(doubt) if is_too_long || place > doubt.at + limits.doubt_bytes_max => {
                    return Some(Found::Event(doubt));
                }
                None if is_too_long => return Some(Found::TooLong),
                _ => {}
            }
            let mark = mark?;
            if !self.is_open(bytes, mark) {
                return Some(Found::Event(mark));
            }
            self.doubt = self.doubt.or(Some(mark));
            self.pass(mark);
        }
    }

    /// The end of a text of which no more than that is asked.
    fn look_too_long(&mut self, bytes: &[u8], limits: &Limits, end: End) -> Option<Mark> {
        loop {
            let mark = self.mark(bytes, end)?;
            let is_doubt_over =
                self.doubt.is_some_and(|doubt| mark.at + self.forgotten > doubt.at + limits.doubt_bytes_max);
            if !self.is_open(bytes, mark) || is_doubt_over {
                return Some(mark);
            }
            self.doubt = self.doubt.or(Some(Mark { at: mark.at + self.forgotten, ..mark }));
            self.pass(mark);
        }
    }

    /// The next place where the text may end; the same again until it is passed.
    fn mark(&mut self, bytes: &[u8], end: End) -> Option<Mark> {
        while let Some(length) = memchr(b'\n', &bytes[self.at..]) {
            self.at += length;
            let next = self.at + 1;
            let (line, left) = (&bytes[self.line..self.at], &bytes[next..]);
            if let Some(before) = banner_in(line) {
                match banner_goes_on(left) {
                    Begins::Yes => return Some(Mark { at: self.line + before, next, is_entry: false }),
                    Begins::More if end != End::Ended => return None,
                    _ => {}
                }
            }
            let begins = if line.ends_with(b";") { entry(left) } else { long_form(left) };
            match begins {
                Begins::Yes => return Some(Mark { at: next, next, is_entry: true }),
                Begins::More if end == End::More => return None,
                // Nothing more comes: what is there of the next head, or nothing.
                Begins::More if line.ends_with(b";") && (end == End::Ended || left.is_empty()) => {
                    return Some(Mark { at: next, next, is_entry: false });
                }
                Begins::More if end == End::Settled => return None,
                _ => self.at = next,
            }
            self.line = next;
        }
        self.at = bytes.len();
        None
    }

    fn pass(&mut self, mark: Mark) {
        self.at = mark.next;
        self.line = mark.next;
    }

    fn is_open(&mut self, bytes: &[u8], mark: Mark) -> bool {
        if let Some(text) = bytes.get(self.quoted..mark.at) {
            self.quotes.pass(text);
            self.quoted = mark.at;
        }
        self.quotes.is_open()
    }

    fn shape(&self, bytes: &[u8], mark: Mark) -> Shape {
        let runs = if mark.at == self.begin { Runs::Nothing } else { Runs::Statement };
        let is_cut = !bytes[self.begin..mark.at].ends_with(b";\n");
        Shape { body: self.begin, end: mark.at, runs, is_cut, is_doubtful: self.doubt.is_some() }
    }

    /// The first bytes will not be seen again.
    fn forget(&mut self, bytes: &[u8], given: usize) {
        if given > self.quoted {
            self.quotes.pass(&bytes[self.quoted..given]);
            self.quoted = given;
        }
        self.quoted -= given;
        self.at -= given;
        self.line = self.line.saturating_sub(given);
        self.forgotten += given;
    }
}
