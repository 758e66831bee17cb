//! One entry of a log, as it is given out: borrowed from the reader's buffer.

use protocol::statement::{Kind, Statement};

use crate::fields::Fields;
use crate::time::SECOND_US;

/// Whose way of writing an entry has. Told from the entry alone, so entries of several may stand in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// MariaDB, all versions: `Thread_id`, `Schema`, `QC_hit`.
    MariaDb,
    /// MySQL to 5.5: no connection id at all.
    MySql55,
    /// MySQL 5.6: `Id:` behind the host, time in whole seconds.
    MySql56,
    /// MySQL 5.7 and newer: ISO time in each entry.
    MySql57,
    /// Percona Server of any version: `Schema` and `Last_errno`.
    Percona,
}

/// How exact the times of an entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Microseconds.
    Exact,
    /// The end is known by the second it was in: it was up to a second later than `end_us` says, and so was the start.
    EndSecond,
    /// The start is known by the second it was in.
    StartSecond,
    /// The entry tells no time.
    None,
}

/// The default schema of a statement, and how that is known.
///
/// Servers write `use` only where the schema is not that of the entry before it, whatever connection that came from, and nothing for a session
/// without a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schema<'a> {
    /// The entry's own field says it; empty: the session has none.
    Own(&'a [u8]),
    /// The entry's own `use`.
    Used(&'a [u8]),
    /// That of the last `use` before it: the session has this one, or none at all.
    Carried(&'a [u8]),
    /// There was no `use` since the log was opened, or since reading began: mostly none at all.
    Unknown,
}

impl<'a> Schema<'a> {
    /// The name, where there is one.
    pub fn name(self) -> Option<&'a [u8]> {
        match self {
            Self::Own(name) | Self::Used(name) | Self::Carried(name) => {
                Some(name).filter(|name| !name.is_empty())
            }
            Self::Unknown => None,
        }
    }
}

/// What was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command<'a> {
    /// SQL, byte for byte as the server had it, without the `;` that servers write behind it.
    Statement(&'a [u8]),
    /// A command of the protocol without SQL, by the server's name for it: `Quit`, `Ping`, `Init DB`, `Change user`, ...
    Administrator(&'a [u8]),
    /// Nothing stands behind the head.
    Nothing,
}

/// Counts of rows; None where the entry does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rows {
    /// `Rows_sent`
    pub sent: Option<u64>,
    /// `Rows_examined`
    pub examined: Option<u64>,
    /// `Rows_affected`
    pub affected: Option<u64>,
}

/// By what entries were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateBy {
    /// One by one (`query`).
    Event,
    /// By connection (`session`).
    Session,
}

/// The entry stands for several, of which the others were left out (`Log_slow_rate_type`, `Log_slow_rate_limit`). MariaDB samples
/// without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// By what.
    pub by: RateBy,
    /// For how many it stands; 1 at the least.
    pub one_in: u64,
}

/// One whole entry.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Of its first byte, from where reading began or as [`crate::Reader::at`] was told.
    pub offset: u64,
    /// All of it, with its end of line.
    pub bytes: &'a [u8],
    /// How many of the bytes are its head: the SQL begins behind them.
    pub head_bytes: usize,
    /// Who wrote it.
    pub dialect: Dialect,
    /// When it began; microseconds since 1970. With [`Clock::EndSecond`], up to a second too early.
    pub start_us: u64,
    /// When it ended.
    pub end_us: u64,
    /// What the times are worth.
    pub clock: Clock,
    /// How long it took, with what it waited for locks.
    pub query_time_us: u64,
    /// How long it waited for locks.
    pub lock_time_us: u64,
    /// As it was said at login; `SQL_SLAVE` and the like for a server's own threads.
    pub user: &'a [u8],
    /// The account that it came to; empty for one without a name, and for a server's own threads.
    pub account: &'a [u8],
    /// The client's name; empty where it is not known.
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
    /// What LAST_INSERT_ID() gave in it.
    pub last_insert_id: Option<u64>,
    /// The first number that it gave to a row.
    pub insert_id: Option<u64>,
    /// For how many it stands.
    pub rate: Option<Rate>,
    /// It was cut off (a crash, the end of a file): the SQL is not all of it, and must not be run.
    pub is_cut: bool,
    /// Its borders could be others: the quotes in its text, or in that before it, were open where a head stood.
    pub is_doubtful: bool,
}

impl<'a> Event<'a> {
    /// All that the head says in pairs, in its order.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(&self.bytes[..self.head_bytes.min(self.bytes.len())])
    }

    /// One of them.
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

    /// What its SQL is, as the proxy sees it.
    pub fn statement(&self) -> Option<Statement> {
        self.sql().map(Statement::of)
    }

    /// What kind its SQL is.
    pub fn kind(&self) -> Option<Kind> {
        self.statement().map(|statement| statement.kind)
    }

    /// By what entries are put into the order of their starts. Where the clock has whole seconds, whole seconds: what took less than one keeps the
    /// log's order, which is that of the ends, rather than one that is made up.
    pub fn order_us(&self) -> u64 {
        match self.clock {
            Clock::Exact | Clock::None => self.start_us,
            Clock::EndSecond => self.end_us.saturating_sub(self.query_time_us / SECOND_US * SECOND_US),
            Clock::StartSecond => self.start_us,
        }
    }
}
