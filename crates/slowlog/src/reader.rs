//! A log's bytes in, items out.
//!
//! Invariant: the bytes of all items, one behind another, are those that were fed; each has the offset of its first.

use std::ops::Range;

use crate::event::{Clock, Command, Dialect, Event, Schema};
use crate::head::{Head, unquoted};
use crate::scan::{End, Runs, Scan, Shape, Step, Why};
use crate::time::{LineTime, SECOND_US};

/// What a reader keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// An entry; a longer one is [`Why::TooLong`]. As much is kept in memory while one is read.
    pub event_bytes_max: usize,
    /// The head of an entry.
    pub head_bytes_max: usize,
    /// Within so many bytes quotes must be closed in which a head stood.
    pub doubt_bytes_max: usize,
    /// A backslash escapes in strings; false for servers under NO_BACKSLASH_ESCAPES.
    pub backslash_escapes: bool,
}

impl Default for Limits {
    /// 64 MiB, as MySQL's max_allowed_packet; 1 MiB; 64 KiB.
    fn default() -> Self {
        Self {
            event_bytes_max: 64 << 20,
            head_bytes_max: 1 << 20,
            doubt_bytes_max: 64 << 10,
            backslash_escapes: true,
        }
    }
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the beginning of a log, or of an entry.
    Whole,
    /// Anywhere. The first item that is an event is whole: what stands before it is [`Why::Before`]. Within a string that quotes a log an entry of
    /// that may be taken for the first; it is left out when its own quotes are open.
    Middle,
}

/// A part of a log.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // made on the stack for each entry, and mostly it is one
pub enum Item<'a> {
    /// A whole entry.
    Event(Event<'a>),
    /// Lines that a server writes when it opens the file.
    Banner {
        /// Of its first byte.
        offset: u64,
        /// All of it.
        bytes: &'a [u8],
    },
    /// Anything else. Several may follow one another for one reason.
    Unparsed {
        /// Of its first byte.
        offset: u64,
        /// All of it.
        bytes: &'a [u8],
        /// Why it is no entry.
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

/// What was given out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries.
    pub events: u64,
    /// Of these, cut off.
    pub cut: u64,
    /// Of these, with borders that could be others.
    pub doubtful: u64,
    /// Lines of banners.
    pub banner_lines: u64,
    /// Entries that were too long.
    pub too_long: u64,
    /// Places where bytes stood that are nothing known, or half a head.
    pub unparsed: u64,
    /// Bytes that are no entry and no banner, for whatever reason.
    pub unparsed_bytes: u64,
    /// Of these, before the first entry, where reading began in the middle.
    pub before_bytes: u64,
}

/// Reads a log.
#[derive(Clone, Debug)]
pub struct Reader {
    scan: Scan,
    buffer: Vec<u8>,
    /// The first byte of `buffer` that was not given out.
    start: usize,
    /// The offset of that byte.
    offset: u64,
    end: End,
    /// The schema of the last `use`.
    schema: Option<Vec<u8>>,
    counts: Counts,
    /// Why the item before was not parsed.
    unparsed: Option<Why>,
}

/// A buffer that a long entry made larger than this is given back.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

impl Reader {
    /// Before the first byte.
    pub fn new(limits: Limits, start: Start) -> Self {
        Self {
            scan: Scan::new(limits, start == Start::Middle),
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            end: End::More,
            schema: None,
            counts: Counts::default(),
            unparsed: None,
        }
    }

    /// The same, where the first byte has this offset.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Takes more bytes. All items should have been asked for before: what they borrow is in the buffer that this fills.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.end = End::More;
        self.tidy();
        self.buffer.extend_from_slice(bytes);
    }

    /// Nothing came for a while (a second, say, by the caller's clock). A server writes an entry at once, so the last one is given out, if
    /// it looks whole, without waiting for the next. More may be fed afterwards.
    pub fn settle(&mut self) {
        if self.end == End::More {
            self.end = End::Settled;
        }
    }

    /// Nothing will follow: whatever is left is given out.
    pub fn finish(&mut self) {
        self.end = End::Ended;
    }

    /// What was given out.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The offset of the first byte that was not given out: a reader that begins there ([`Start::Whole`]) finds the next item. It does not know the
    /// schema that is carried.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes are kept.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The schema that an entry without its own is in; None before any `use`.
    pub fn carried_schema(&self) -> Option<&[u8]> {
        self.schema.as_deref()
    }

    /// The next item; None: more bytes are needed.
    #[allow(clippy::should_implement_trait)] // what it gives borrows from the reader, which no iterator can
    pub fn next(&mut self) -> Option<Item<'_>> {
        let step = self.scan.step(&self.buffer[self.start..], self.end);
        let length = match step {
            Step::More => return None,
            Step::Event(shape) => shape.end,
            Step::Banner(length) | Step::Unparsed(length, _) => length,
        };
        let range = self.start..self.start + length;
        let offset = self.offset;
        self.start = range.end;
        self.offset += length as u64;
        let why = match step {
            Step::Unparsed(_, why) => Some(why),
            _ => None,
        };
        let before = std::mem::replace(&mut self.unparsed, why);
        Some(match step {
            Step::Event(shape) => self.event(range, shape, offset),
            Step::Unparsed(_, why) => {
                self.count_unparsed(length as u64, why, before);
                Item::Unparsed { offset, bytes: &self.buffer[range], why }
            }
            _ => {
                self.counts.banner_lines += 1;
                // The server forgets which schema it wrote last.
                self.schema = None;
                Item::Banner { offset, bytes: &self.buffer[range] }
            }
        })
    }

    fn count_unparsed(&mut self, bytes: u64, why: Why, before: Option<Why>) {
        self.counts.unparsed_bytes += bytes;
        let is_new = u64::from(before != Some(why));
        match why {
            Why::Before => self.counts.before_bytes += bytes,
            Why::TooLong => self.counts.too_long += is_new,
            Why::Stray | Why::Cut => self.counts.unparsed += is_new,
        }
    }

    fn event(&mut self, range: Range<usize>, shape: Shape, offset: u64) -> Item<'_> {
        self.counts.events += 1;
        self.counts.cut += u64::from(shape.is_cut);
        self.counts.doubtful += u64::from(shape.is_doubtful);
        let bytes = &self.buffer[range];
        let head = Head::parse(&bytes[..shape.body]);
        if let Some(used) = head.used {
            let carried = self.schema.get_or_insert_default();
            carried.clear();
            unquoted(used, carried);
        }
        Item::Event(event(bytes, shape, &head, offset, self.schema.as_deref()))
    }

    /// Drops what was given out.
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

fn event<'a>(
    bytes: &'a [u8],
    shape: Shape,
    head: &Head<'a>,
    offset: u64,
    carried: Option<&'a [u8]>,
) -> Event<'a> {
    let text = &bytes[shape.body..];
    let text = text.strip_suffix(b";\n").unwrap_or(text);
    let command = match shape.runs {
        Runs::Statement => Command::Statement(text),
        Runs::Administrator => {
            Command::Administrator(text.get(crate::begin::ADMINISTRATOR.len()..).unwrap_or_default())
        }
        Runs::Nothing => Command::Nothing,
    };
    let schema = match (head.schema, head.used, carried) {
        (Some(own), ..) => Schema::Own(own),
        (None, Some(_), Some(used)) => Schema::Used(used),
        (None, None, Some(carried)) => Schema::Carried(carried),
        (None, _, None) => Schema::Unknown,
    };
    let dialect = dialect(head);
    let (start_us, end_us, clock) = times(head, dialect);
    Event {
        offset,
        bytes,
        head_bytes: shape.body,
        dialect,
        start_us,
        end_us,
        clock,
        query_time_us: head.query_us,
        lock_time_us: head.lock_us,
        user: head.from.user,
        account: head.from.account,
        host: head.from.host,
        address: head.from.address,
        connection: head.thread.or(head.from.id),
        schema,
        command,
        rows: head.rows,
        last_insert_id: head.set.and_then(|set| set.last_insert_id),
        insert_id: head.set.and_then(|set| set.insert_id),
        rate: head.rate,
        is_cut: shape.is_cut,
        is_doubtful: shape.is_doubtful,
    }
}

fn dialect(head: &Head<'_>) -> Dialect {
    if head.is_percona {
        Dialect::Percona
    } else if head.is_mariadb {
        Dialect::MariaDb
    } else if matches!(head.time, Some(LineTime::Utc(_))) {
        Dialect::MySql57
    } else if head.from.id.is_some() {
        Dialect::MySql56
    } else {
        Dialect::MySql55
    }
}

/// Start, end, and what they are worth. `SET timestamp` is the end with MariaDB and MySQL to 5.6, and the start with Percona Server and
/// MySQL 8; where the time line tells the end in UTC, that is used.
fn times(head: &Head<'_>, dialect: Dialect) -> (u64, u64, Clock) {
    if let (Some(start), Some(end)) = (head.start_us, head.end_us) {
        return (start, end, Clock::Exact);
    }
    if let Some(LineTime::Utc(end)) = head.time {
        return (end.saturating_sub(head.query_us), end, Clock::Exact);
    }
    let Some(set) = head.set else { return (0, 0, Clock::None) };
    let said = set.timestamp_us;
    if dialect == Dialect::Percona {
        return (said, said.saturating_add(head.query_us), Clock::StartSecond);
    }
    let clock = if said.is_multiple_of(SECOND_US) { Clock::EndSecond } else { Clock::Exact };
    (said.saturating_sub(head.query_us), said, clock)
}
