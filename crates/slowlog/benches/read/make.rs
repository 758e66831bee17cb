//! Generates the slow logs: entries of a real server, drawn at random from a recorded log, with generated times, connections and durations.
//!
//! Input: the recorded log (`template.log`: sysbench's read-write load and an application's statements, of 5 to some 10,000 bytes, written
//! by MariaDB 10.11), a seed, and the size of the log. Output: the log's bytes, in pieces, and the sums that a reader must find in them.

use slowlog::{Command, Dialect, Event, Item, Limits, Reader, Start, Writer};

const TEMPLATE: &[u8] = include_bytes!("template.log");
/// Number of connections in a log.
const CONNECTIONS: u64 = 64;
/// End of the first statement, µs since 1970: 2026-11-22 12:00:00 UTC.
const BEGIN_US: u64 = 1_795_348_800_000_000;
const SECOND_US: u64 = 1_000_000;

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// MariaDB's entries as that server wrote them.
    MariaDb,
    /// Only sysbench's entries of these: headers are longer than statements, so more entries per megabyte than any application has.
    MariaDbShort,
    /// The same statements as another server would log them.
    Other(Dialect),
}

impl Form {
    /// All formats.
    pub const ALL: [Form; 6] = [
        Form::MariaDb,
        Form::MariaDbShort,
        Form::Other(Dialect::MySql55),
        Form::Other(Dialect::MySql56),
        Form::Other(Dialect::MySql57),
        Form::Other(Dialect::Percona),
    ];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Form::MariaDb | Form::Other(Dialect::MariaDb) => "MariaDB",
            Form::MariaDbShort => "MariaDB, sysbench alone",
            Form::Other(Dialect::MySql55) => "MySQL 5.5",
            Form::Other(Dialect::MySql56) => "MySQL 5.6",
            Form::Other(Dialect::MySql57) => "MySQL 5.7 and newer",
            Form::Other(Dialect::Percona) => "Percona Server",
        }
    }
}

/// Sums over the entries of a log: equal only if every entry was read as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of entries.
    pub events: u64,
    /// Total length of their statements, bytes.
    pub sql_bytes: u64,
    /// Total query time, µs.
    pub query_time_us: u64,
    /// Total rows sent.
    pub rows_sent: u64,
    /// Sum of the connection numbers; 0 where the format has none.
    pub connections: u64,
}

impl Sums {
    /// Adds one entry.
    pub fn add(&mut self, event: &Event<'_>) {
        self.events += 1;
        self.sql_bytes += event.sql().map_or(0, <[u8]>::len) as u64;
        self.query_time_us += event.query_time_us;
        self.rows_sent += event.rows.sent.unwrap_or(0);
        self.connections += event.connection.unwrap_or(0);
    }
}

/// Generates a log.
pub struct Maker {
    form: Form,
    writer: Writer,
    random: u64,
    end_us: u64,
    second: u64,
    /// Sums of the entries written so far.
    pub sums: Sums,
}

impl Maker {
    /// Starts at the first entry. The same form always gives the same log.
    pub fn new(form: Form) -> Maker {
        let dialect = if let Form::Other(dialect) = form { dialect } else { Dialect::MariaDb };
        Maker {
            form,
            writer: Writer::new(dialect),
            random: 1,
            end_us: BEGIN_US,
            second: 0,
            sums: Sums::default(),
        }
    }

    /// Appends whole entries to `out` until it has at least `bytes` bytes.
    pub fn fill(&mut self, out: &mut Vec<u8>, bytes: usize) {
        let mut reader = Reader::new(Limits::default(), Start::Whole);
        reader.feed(TEMPLATE);
        reader.finish();
        let mut drawn = Vec::new();
        let mut all = Vec::new();
        // Entries borrow from the reader, which moves on: so each is copied and parsed again alone.
        while let Some(item) = reader.next() {
            if let Item::Event(event) = item
                && (self.form != Form::MariaDbShort || event.address.is_empty())
            {
                all.push(event.bytes.to_vec());
            }
        }
        while out.len() < bytes && !all.is_empty() {
            drawn.clear();
            let index = self.below(all.len() as u64) as usize;
            let mut one = Reader::new(Limits::default(), Start::Whole);
            one.feed(&all[index]);
            one.finish();
            if let Some(Item::Event(event)) = one.next() {
                self.one(&event, &mut drawn);
                out.extend_from_slice(&drawn);
            }
        }
    }

    fn one(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.end_us += self.below(200);
        let magnitude = 4 + self.below(16);
        let query_time_us = 10 + self.below(1 << magnitude);
        let connection = 1 + self.below(CONNECTIONS);
        self.sums.events += 1;
        self.sums.sql_bytes += event.sql().map_or(0, <[u8]>::len) as u64;
        self.sums.query_time_us += query_time_us;
        self.sums.rows_sent += event.rows.sent.unwrap_or(0);
        if self.form != Form::Other(Dialect::MySql55) {
            self.sums.connections += connection;
        }
        if let Form::Other(_) = self.form {
            let entry = Event { end_us: self.end_us, query_time_us, connection: Some(connection), ..*event };
            self.writer.write(&entry, out);
        } else {
            self.as_it_was(event, query_time_us, connection, out);
        }
    }

    /// Copies the server's own lines with other numbers in them.
    fn as_it_was(&mut self, event: &Event<'_>, query_time_us: u64, connection: u64, out: &mut Vec<u8>) {
        let second = self.end_us / SECOND_US;
        if std::mem::replace(&mut self.second, second) != second {
            out.extend_from_slice(format!("# Time: {}\n", slowlog::time::short(self.end_us)).as_bytes());
        }
        let (head, body) = event.bytes.split_at(event.head_bytes);
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let number = if line.starts_with(b"# Time: ") {
                continue;
            } else if line.starts_with(b"# Thread_id: ") {
                (13, connection.to_string())
            } else if line.starts_with(b"# Query_time: ") {
                (14, format!("{}.{:06}", query_time_us / SECOND_US, query_time_us % SECOND_US))
            } else if line.starts_with(b"SET timestamp=") {
                (14, second.to_string())
            } else {
                out.extend_from_slice(line);
                continue;
            };
            let (begin, digits) = number;
            let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
            let rest = line[begin..].iter().position(|byte| !is_number(byte)).unwrap_or(0);
            out.extend_from_slice(&line[..begin]);
            out.extend_from_slice(digits.as_bytes());
            out.extend_from_slice(&line[begin + rest..]);
        }
        out.extend_from_slice(body);
        if matches!(event.command, Command::Nothing) && !out.ends_with(b"\n") {
            out.push(b'\n');
        }
    }

    /// A pseudo-random number from 0 to `end` - 1 (xorshift64*: the log is the same on every machine).
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end.max(1)
    }
}
