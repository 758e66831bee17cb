//! Reads a whole cluster log in pieces, checks it, and keeps its entries about restarts and checkpoints in the order of their times.

use crate::entry::{Entry, Lines, Writer};
use crate::event::{self, Event};
use crate::time::Moment;
use crate::wrong::{Note, Wrong};

/// How late a line may be, in microseconds, and still be sorted by its time: lines of different nodes overtake each other on their way to
/// the management server.
const LATE_US: i64 = 2_000_000;
/// The limit of the texts of the entries that are kept. A restart leaves some 20 KB of them; a cluster log is rotated at 1 MB.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How many characters of an input that is not a log are shown in the error.
const SHOWN_CHARS: usize = 60;

/// The part of a log that is used, and whether damage is accepted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Earlier entries are left out.
    pub since: Option<Moment>,
    /// Later entries are left out.
    pub until: Option<Moment>,
    /// Accept a log that ends within a line (without that line), and use only what follows the last jump backwards in time.
    pub allow_damaged: bool,
}

/// A log that is being read. Keeps the entries for which `of` returns a `T`.
#[derive(Debug)]
pub struct Log<T> {
    lines: Lines,
    window: Window,
    wanted: Writer,
    of: fn(&str) -> Option<T>,
    kept: Vec<(Moment, T)>,
    kept_bytes: usize,
    first_line: String,
    first: Option<Moment>,
    reached: Option<Moment>,
    outside: u64,
    others: u64,
    late: u64,
    headless: u64,
    continued: u64,
    lost: u64,
    is_timeless: bool,
    used_from: Option<u64>,
    wrong: Option<Wrong>,
}

/// The entries, in the order of their times.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub kept: Vec<(Moment, T)>,
    pub first: Moment,
    pub last: Moment,
    pub notes: Vec<Note>,
}

impl<T> Log<T> {
    pub(crate) fn new(wanted: Writer, of: fn(&str) -> Option<T>, window: Window) -> Self {
        Self {
            lines: Lines::default(),
            window,
            wanted,
            of,
            kept: Vec::new(),
            kept_bytes: 0,
            first_line: String::new(),
            first: None,
            reached: None,
            outside: 0,
            others: 0,
            late: 0,
            headless: 0,
            continued: 0,
            lost: 0,
            is_timeless: false,
            used_from: None,
            wrong: None,
        }
    }

    /// Reads the next piece; pieces may be cut anywhere. Returns whether it makes sense to read on: not where it is certain to be refused.
    pub fn feed(&mut self, piece: &[u8]) -> bool {
        let mut lines = std::mem::take(&mut self.lines);
        let is_log = lines.feed(piece, |at, line| self.line(at, line));
        self.lines = lines;
        is_log && self.wrong.is_none()
    }

    /// Returns whether the line is an entry.
    fn line(&mut self, at: u64, line: &str) -> bool {
        if self.first_line.is_empty() {
            self.first_line = line.chars().take(SHOWN_CHARS).collect();
        }
        let Some(entry) = Entry::of(line) else {
            self.untimed(line);
            return false;
        };
        if entry.writer != self.wanted {
            self.others += 1;
            return true;
        }
        let is_outside = self.window.since.is_some_and(|since| entry.time < since)
            || self.window.until.is_some_and(|until| entry.time > until);
        if is_outside {
            self.outside += 1;
            return true;
        }
        if let Some(before) = self.reached.filter(|reached| entry.time < *reached) {
            if before.since_us(entry.time) <= LATE_US {
                self.late += 1;
            } else if self.window.allow_damaged {
                self.kept.clear();
                self.kept_bytes = 0;
                self.used_from = Some(at);
                self.first = None;
                self.reached = None;
            } else {
                self.wrong.get_or_insert(Wrong::Backwards { line: at, before, after: entry.time });
            }
        }
        self.first = Some(self.first.map_or(entry.time, |first| first.min(entry.time)));
        self.reached = Some(self.reached.map_or(entry.time, |reached| reached.max(entry.time)));
        // `*** 5 MESSAGES LOST ***`: the management server could not write them all.
        let lost = entry.text.strip_prefix("*** ").and_then(|text| text.strip_suffix(" MESSAGES LOST ***"));
        self.lost = self.lost.saturating_add(lost.and_then(|count| count.parse().ok()).unwrap_or(0));
        self.keep(entry.time, entry.text);
        true
    }

    /// A line without a head belongs to the entry before it; old data nodes also print such lines of their own.
    fn untimed(&mut self, line: &str) {
        self.is_timeless |= Entry::has_writer(line);
        if let Some(time) = self.reached {
            self.continued += 1;
            self.keep(time, line.trim());
        } else if !line.trim().is_empty() {
            self.headless += 1;
        }
    }

    fn keep(&mut self, time: Moment, text: &str) {
        let Some(what) = (self.of)(text) else { return };
        self.kept_bytes += text.len();
        if self.kept_bytes > KEPT_BYTES_MAX {
            self.wrong.get_or_insert(Wrong::TooMuch);
        } else {
            self.kept.push((time, what));
        }
    }

    /// Ends the input and returns the entries.
    ///
    /// # Errors
    /// Why it is not a log, or not a usable one.
    pub(crate) fn found(mut self) -> Result<Found<T>, Wrong> {
        let is_cut = self.lines.is_cut();
        if self.lines.is_empty() {
            return Err(Wrong::Empty);
        }
        if self.first_line.is_empty() {
            self.first_line = self.lines.unfinished().chars().take(SHOWN_CHARS).collect();
        }
        let (Some(first), Some(last)) = (self.first, self.reached) else { return Err(self.nothing()) };
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if is_cut && !self.window.allow_damaged {
            return Err(Wrong::Cut { line: self.lines.ended + 1 });
        }
        // The sort is stable: entries with the same time stay in the order of their lines.
        self.kept.sort_by_key(|(time, _)| *time);
        let mut notes = Vec::new();
        notes.extend(is_cut.then_some(Note::LastLineLeftOut));
        notes.extend(self.used_from.map(Note::UsedFromLine));
        notes.extend((self.late > 0).then_some(Note::LateLines(self.late)));
        notes.extend((self.headless > 0).then_some(Note::Headless(self.headless)));
        notes.extend((self.lost > 0).then_some(Note::Lost(self.lost)));
        notes.extend((self.continued > 0).then_some(Note::Continued(self.continued)));
        notes.extend((self.lines.long > 0).then_some(Note::LongLines(self.lines.long)));
        Ok(Found { kept: self.kept, first, last, notes })
    }

    /// The reason why no entry was found.
    fn nothing(&self) -> Wrong {
        if self.outside > 0 {
            return Wrong::NothingInWindow;
        }
        if self.others > 0 {
            return match self.wanted {
                Writer::Management => Wrong::IsNodeLog,
                Writer::DataNode => Wrong::IsClusterLog,
            };
        }
        let mut chars = self.first_line.chars();
        match (chars.next(), chars.next()) {
            // gzip begins with 1f 8b; 8b is not valid UTF-8.
            (Some('\u{1f}'), Some('\u{fffd}')) => Wrong::Compressed("gzip"),
            (Some('('), Some('\u{fffd}')) => Wrong::Compressed("zstd"),
            (Some('B'), Some('Z')) if self.first_line.starts_with("BZh") => Wrong::Compressed("bzip2"),
            _ if self.is_timeless => Wrong::NoTime(self.first_line.clone()),
            _ => Wrong::NoLog(self.first_line.clone()),
        }
    }
}

/// A cluster log that is being read.
#[derive(Debug)]
pub struct ClusterLog(Log<Event>);

impl ClusterLog {
    /// A new log, before its first piece.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self(Log::new(Writer::Management, event::of, window))
    }

    /// Reads the next piece; pieces may be cut anywhere. Returns whether it makes sense to read on.
    pub fn feed(&mut self, piece: &[u8]) -> bool {
        self.0.feed(piece)
    }

    /// Ends the input and returns its restarts and checkpoints.
    ///
    /// # Errors
    /// Why it is not a cluster log, or not a usable one.
    pub fn finish(self) -> Result<crate::restart::Story, Wrong> {
        crate::restart::Story::of(self.0.found()?)
    }
}
