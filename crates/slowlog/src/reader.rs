//! Parses a log: bytes in, items out.
//!
//! Invariant: the concatenated bytes of all items are the bytes that were fed; each item has the offset of its first byte.

use std::ops::Range;

use crate::event::{Command, Event, Schema};
use crate::head::{Head, administrator, unquoted};
use crate::join::Joined;
use crate::scan::{End, Scan, Shape, Step, Why};
use crate::time::LineTime;

/// The limits of what a reader keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of an entry; a longer one is [`Why::TooLong`]. This much memory is used while one is read.
    pub event_bytes_max: usize,
    /// The size of the head of an entry.
    pub head_bytes_max: usize,
    /// When a head appears inside quotes, the quotes must be closed within this many bytes.
    pub doubt_bytes_max: usize,
}

impl Default for Limits {
    /// 64 MiB, as MySQL's max_allowed_packet; 1 MiB; 64 KiB.
    fn default() -> Self {
        Self { event_bytes_max: 64 << 20, head_bytes_max: 1 << 20, doubt_bytes_max: 64 << 10 }
    }
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the beginning of a log, or of an entry.
    Whole,
    /// At any position. The first event is complete; what precedes it is [`Why::Before`]. If reading begins inside a string that quotes a
    /// log, a quoted entry may be taken for the first event; it is left out when its own quotes are open.
    Middle,
}

/// A part of a log.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // made on the stack for each entry, and mostly it is one
pub enum Item<'a> {
    /// A complete entry.
    Event(Event<'a>),
    /// Lines that a server writes when it opens the file.
    Banner {
        /// The offset of its first byte.
        offset: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Anything else. Several such items may follow one another for the same reason.
    Unparsed {
        /// The offset of its first byte.
        offset: u64,
        /// Its bytes.
        bytes: &'a [u8],
        /// Why it is not an entry.
        why: Why,
    },
}

impl<'a> Item<'a> {
    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Event(event) => event.bytes,
            Self::Banner { bytes, .. } | Self::Unparsed { bytes, .. } => bytes,
        }
    }

    /// The offset of its first byte.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Event(event) => event.offset,
            Self::Banner { offset, .. } | Self::Unparsed { offset, .. } => *offset,
        }
    }
}

/// Counts of the items that were returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries.
    pub events: u64,
    /// Entries that were cut off.
    pub cut: u64,
    /// Texts in the form of an entry that were taken for parts of strings.
    pub quoted: u64,
    /// Lines of banners.
    pub banner_lines: u64,
    /// Entries that were longer than the limit.
    pub too_long: u64,
    /// Entries of which the log has the head only.
    pub heads: u64,
    /// Places with unrecognised bytes.
    pub unparsed: u64,
    /// Bytes that are neither an entry nor a banner, for any reason.
    pub unparsed_bytes: u64,
    /// Those of them before the first entry, when reading began in the middle.
    pub before_bytes: u64,
}

/// A parser of slow logs.
#[derive(Clone, Debug)]
pub struct Reader {
    joined: Joined,
    buffer: Vec<u8>,
    /// The index of the first byte of `buffer` that was not returned yet.
    start: usize,
    /// The offset of that byte.
    offset: u64,
    end: End,
    /// The schema of the last `use`.
    schema: Option<Vec<u8>>,
    /// The last `# Time:` line without a zone: MySQL before 5.1 writes no other time, and each only once.
    local_us: Option<u64>,
    counts: Counts,
    /// The reason why the previous item was not parsed.
    unparsed: Option<Why>,
}

/// If a long entry made the buffer larger than this, the memory is released.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

impl Reader {
    /// A reader at the first byte of its input.
    pub fn new(limits: Limits, start: Start) -> Self {
        Self {
            joined: Joined::new(Scan::new(limits, start == Start::Middle), limits.doubt_bytes_max),
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            end: End::More,
            schema: None,
            local_us: None,
            counts: Counts::default(),
            unparsed: None,
        }
    }

    /// As above, where the first byte has this offset.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Adds bytes. All items should have been taken before, because items borrow from the buffer that this fills.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.end = End::More;
        self.tidy();
        self.buffer.extend_from_slice(bytes);
    }

    /// Reports that no bytes arrived for a while (for example a second, by the caller's clock). A server writes an entry at once, so the
    /// last entry is returned, if it looks complete, without waiting for the next one. More bytes may be fed afterwards.
    pub fn settle(&mut self) {
        if self.end == End::More {
            self.end = End::Settled;
        }
    }

    /// Reports the end of the input: whatever is left is returned.
    pub fn finish(&mut self) {
        self.end = End::Ended;
    }

    /// What was given out.
    pub fn counts(&self) -> Counts {
        Counts { too_long: self.joined.scan.too_long, ..self.counts }
    }

    /// The offset of the first byte that was not returned: a reader that begins there ([`Start::Whole`]) finds the next item. It does not
    /// know the schema of the last `use`.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes in the buffer.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next item; `None` when more bytes are needed.
    #[allow(clippy::should_implement_trait)] // what it gives borrows from the reader, which no iterator can
    pub fn next(&mut self) -> Option<Item<'_>> {
        let (step, quoted) = self.joined.step(&self.buffer[self.start..], self.end);
        if step == Step::More {
            return None;
        }
        let range = self.start..self.start + step.length();
        let offset = self.offset;
        self.start = range.end;
        self.offset += range.len() as u64;
        let before = self.unparsed.take();
        Some(match step {
            Step::Event(shape) => self.event(range, shape, quoted, offset),
            Step::Unparsed(_, why) => {
                let bytes = &self.buffer[range];
                let count = if bytes.trim_ascii().is_empty() { 0 } else { bytes.len() as u64 };
                let is_new = u64::from(before != Some(why) && count > 0);
                self.unparsed = Some(why);
                self.counts.unparsed_bytes += count;
                match why {
                    Why::Before => self.counts.before_bytes += count,
                    Why::TooLong => {}
                    Why::Cut => self.counts.heads += is_new,
                    Why::Stray => self.counts.unparsed += is_new,
                }
                Item::Unparsed { offset, bytes, why }
            }
            _ => {
                self.counts.banner_lines += 1;
                // After opening a log, the server writes `use` again for the first entry.
                self.schema = None;
                Item::Banner { offset, bytes: &self.buffer[range] }
            }
        })
    }

    fn event(&mut self, range: Range<usize>, shape: Shape, quoted: usize, offset: u64) -> Item<'_> {
        self.counts.events += 1;
        self.counts.cut += u64::from(shape.is_cut);
        self.counts.quoted += quoted as u64;
        let bytes = &self.buffer[range];
        let head = Head::parse(&bytes[..shape.body]);
        if let Some(used) = head.used {
            let carried = self.schema.get_or_insert_default();
            carried.clear();
            unquoted(used, carried);
        }
        if let Some(LineTime::Local(us)) = head.time {
            self.local_us = Some(us);
        }
        let (start_us, end_us, clock) = head.times(self.local_us);
        let body = &bytes[shape.body..];
        let text = body.trim_ascii_end();
        let command = match administrator(text) {
            Some(word) => Command::Administrator(word),
            None if text.is_empty() => Command::Nothing,
            None => Command::Statement(text.strip_suffix(b";").unwrap_or(body)),
        };
        let schema = match (head.event.schema, head.used, self.schema.as_deref()) {
            (own @ Schema::Own(_), ..) => own,
            (_, Some(_), Some(used)) => Schema::Used(used),
            (_, _, Some(carried)) => Schema::Carried(carried),
            (.., None) => Schema::Unknown,
        };
        let is_cut = shape.is_cut;
        let (head, head_bytes) = (head.event, shape.body);
        Item::Event(Event {
            offset,
            bytes,
            head_bytes,
            start_us,
            end_us,
            clock,
            schema,
            command,
            is_cut,
            quoted,
            ..head
        })
    }

    /// Removes the bytes that were returned.
    fn tidy(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT && self.buffer.len() < BUFFER_BYTES_KEPT / 4 {
            self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        }
    }
}
