//! One entry of a log: what a reader finds, borrowed from its buffer, and what a writer writes.

use protocol::statement::{Statement, StatementKind};

use crate::fields::Fields;
use crate::time::SECOND_US;

/// The server whose format an entry has. It is determined for each entry, so that a file may contain entries of several servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// MariaDB, all versions: `Thread_id`, `Schema`, `QC_hit`.
    #[default]
    MariaDb,
    /// MySQL to 5.5: no connection id at all.
    MySql55,
    /// MySQL 5.6: `Id:` after the host, time in whole seconds.
    MySql56,
    /// MySQL 5.7 and newer: ISO time in each entry.
    MySql57,
    /// Percona Server of any version: `Schema` and `Last_errno`.
    Percona,
}

/// The precision of an entry's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Microseconds.
    Exact,
    /// The end is known to the second: the true end is up to a second later than `end_us`, and so is the start.
    EndSecond,
    /// The start is known to the second.
    StartSecond,
    /// The entry contains no time.
    #[default]
    None,
}

/// The default schema of a statement, and how it is known.
///
/// Servers write `use` only when the schema differs from that of the previous entry, whatever connection that came from, and write nothing
/// for a session without a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schema<'a> {
    /// From the entry's own field; empty when the session has no schema.
    Own(&'a [u8]),
    /// From the entry's own `use`.
    Used(&'a [u8]),
    /// From the last `use` before the entry: the session has this schema, or none.
    Carried(&'a [u8]),
    /// There was no `use` since the log was opened, or since reading began: the session usually has no schema.
    #[default]
    Unknown,
}

impl<'a> Schema<'a> {
    /// The schema's name, if it is known.
    pub fn name(self) -> Option<&'a [u8]> {
        match self {
            Self::Own(name) | Self::Used(name) | Self::Carried(name) => {
                Some(name).filter(|name| !name.is_empty())
            }
            Self::Unknown => None,
        }
    }
}

/// What was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Command<'a> {
    /// SQL, byte for byte as the server received it, without the `;` that servers append.
    Statement(&'a [u8]),
    /// A protocol command without SQL, with the server's name for it: `Quit`, `Ping`, `Init DB`, `Change user`, ...
    Administrator(&'a [u8]),
    /// Nothing follows the head.
    #[default]
    Nothing,
}

/// Row counts; `None` where the entry does not contain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rows {
    /// `Rows_sent`
    pub sent: Option<u64>,
    /// `Rows_examined`
    pub examined: Option<u64>,
    /// `Rows_affected`
    pub affected: Option<u64>,
}

/// The unit in which entries were sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateBy {
    /// Single statements (`query`).
    Event,
    /// Connections (`session`).
    Session,
}

/// The entry represents several, of which the others were left out by sampling (`Log_slow_rate_type`, `Log_slow_rate_limit`). MariaDB
/// samples without recording it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// The unit of sampling.
    pub by: RateBy,
    /// The number of entries that it represents, at least 1.
    pub one_in: u64,
}

/// One complete entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// The offset of its first byte, relative to the start of reading or to the offset passed to [`crate::Reader::at`].
    pub offset: u64,
    /// Its bytes, with the end of line.
    pub bytes: &'a [u8],
    /// The length of its head in bytes; the SQL begins after it.
    pub head_bytes: usize,
    /// The server whose format it has.
    pub dialect: Dialect,
    /// When it began; microseconds since 1970. With [`Clock::EndSecond`], up to a second too early.
    pub start_us: u64,
    /// When it ended.
    pub end_us: u64,
    /// The precision of the times.
    pub clock: Clock,
    /// How long the statement took, including lock waits.
    pub query_time_us: u64,
    /// How long it waited for locks.
    pub lock_time_us: u64,
    /// The user name given at login; `SQL_SLAVE` and similar names for the server's own threads.
    pub user: &'a [u8],
    /// The account that the login was matched to; empty for the anonymous account, and for the server's own threads.
    pub account: &'a [u8],
    /// The client's host name; empty when it is unknown.
    pub host: &'a [u8],
    /// The client's address; empty for a unix socket.
    pub address: &'a [u8],
    /// The connection's number on its server; None on MySQL 5.5.
    pub connection: Option<u64>,
    /// The default schema.
    pub schema: Schema<'a>,
    /// What was run.
    pub command: Command<'a>,
    /// Counts of rows.
    pub rows: Rows,
    /// The value of LAST_INSERT_ID() in the statement.
    pub last_insert_id: Option<u64>,
    /// The first AUTO_INCREMENT value that the statement generated.
    pub insert_id: Option<u64>,
    /// The number of entries that it represents.
    pub rate: Option<Rate>,
    /// The entry was cut off (by a crash or the end of the file): its SQL is incomplete and must not be run.
    pub is_cut: bool,
    /// So many texts in the form of an entry stand in its strings: some application stores logs, or its quotes are broken in a way that
    /// looks like that.
    pub quoted: usize,
}

impl<'a> Event<'a> {
    /// All key and value pairs of the head, in their order.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(&self.bytes[..self.head_bytes.min(self.bytes.len())])
    }

    /// The value of one key of the head.
    pub fn field(&self, key: &str) -> Option<&'a [u8]> {
        self.fields().find(|(name, _)| *name == key.as_bytes()).map(|(_, value)| value)
    }

    /// The SQL, if it has any.
    pub fn sql(&self) -> Option<&'a [u8]> {
        match self.command {
            Command::Statement(sql) => Some(sql),
            Command::Administrator(_) | Command::Nothing => None,
        }
    }

    /// The kind of its SQL statement, as in the proxy.
    pub fn kind(&self) -> Option<StatementKind> {
        self.sql().map(|sql| Statement::of(sql).kind)
    }

    /// The time by which entries are sorted by their start. If the clock has whole seconds, so has this: statements that took less than a
    /// second keep the log's order, which is the order of their ends, instead of an order that is not known.
    pub fn order_us(&self) -> u64 {
        match self.clock {
            Clock::EndSecond => self.end_us.saturating_sub(self.query_time_us / SECOND_US * SECOND_US),
            Clock::Exact | Clock::StartSecond | Clock::None => self.start_us,
        }
    }
}
