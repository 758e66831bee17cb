//! The lines of a head, as one table that the reader and the writer share.
//!
//! ```text
//!   [# Time: ...]  # User@Host: ...  further lines of fields: `# Name: value  Name: value`  [use schema;]  [SET timestamp=N;]
//! ```

use crate::event::Dialect;

pub(crate) const TIME: &[u8] = b"# Time: ";
pub(crate) const USER: &[u8] = b"# User@Host: ";
pub(crate) const ADMINISTRATOR: &[u8] = b"# administrator command: ";

/// A field whose value is used; others are only kept ([`crate::Fields`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Thread,
    Schema,
    QueryTime,
    LockTime,
    RowsSent,
    RowsExamined,
    RowsAffected,
    BytesSent,
    QcHit,
    LastErrno,
    Killed,
    Start,
    End,
    RateType,
    RateLimit,
}

/// Their names.
const NAMES: [(&[u8], Field); 15] = [
    (b"Thread_id", Field::Thread),
    (b"Schema", Field::Schema),
    (b"Query_time", Field::QueryTime),
    (b"Lock_time", Field::LockTime),
    (b"Rows_sent", Field::RowsSent),
    (b"Rows_examined", Field::RowsExamined),
    (b"Rows_affected", Field::RowsAffected),
    (b"Bytes_sent", Field::BytesSent),
    (b"QC_hit", Field::QcHit),
    (b"Last_errno", Field::LastErrno),
    (b"Killed", Field::Killed),
    (b"Start", Field::Start),
    (b"End", Field::End),
    (b"Log_slow_rate_type", Field::RateType),
    (b"Log_slow_rate_limit", Field::RateLimit),
];

impl Field {
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }
}

/// A line of fields as a server writes it: what stands before each value, and whose value it is.
pub(crate) type Line = &'static [(&'static [u8], Field)];

pub(crate) const THREAD: Line =
    &[(b"# Thread_id: ", Field::Thread), (b"  Schema: ", Field::Schema), (b"  QC_hit: ", Field::QcHit)];
pub(crate) const QUERY: Line = &[
    (b"# Query_time: ", Field::QueryTime),
    (b"  Lock_time: ", Field::LockTime),
    (b"  Rows_sent: ", Field::RowsSent),
    (b"  Rows_examined: ", Field::RowsExamined),
];
/// MySQL has one blank in the middle.
const QUERY_OF_MYSQL: Line = &[
    (b"# Query_time: ", Field::QueryTime),
    (b"  Lock_time: ", Field::LockTime),
    (b" Rows_sent: ", Field::RowsSent),
    (b"  Rows_examined: ", Field::RowsExamined),
];
const ROWS: Line = &[(b"# Rows_affected: ", Field::RowsAffected), (b"  Bytes_sent: ", Field::BytesSent)];
const SCHEMA_OF_PERCONA: Line =
    &[(b"# Schema: ", Field::Schema), (b"  Last_errno: ", Field::LastErrno), (b"  Killed: ", Field::Killed)];
const QUERY_OF_PERCONA: Line = &[
    (b"# Query_time: ", Field::QueryTime),
    (b"  Lock_time: ", Field::LockTime),
    (b"  Rows_sent: ", Field::RowsSent),
    (b"  Rows_examined: ", Field::RowsExamined),
    (b"  Rows_affected: ", Field::RowsAffected),
    (b"  Bytes_sent: ", Field::BytesSent),
];
pub(crate) const RATE: Line =
    &[(b"# Log_slow_rate_type: ", Field::RateType), (b"  Log_slow_rate_limit: ", Field::RateLimit)];

/// The lines that a server of this dialect writes behind `# User@Host: `.
pub(crate) fn lines(dialect: Dialect) -> &'static [Line] {
    match dialect {
        Dialect::MariaDb => &[THREAD, QUERY, ROWS],
        Dialect::Percona => &[SCHEMA_OF_PERCONA, QUERY_OF_PERCONA],
        Dialect::MySql55 | Dialect::MySql56 | Dialect::MySql57 => &[QUERY_OF_MYSQL],
    }
}

/// The forms that a line with this byte behind `# ` most likely has.
pub(crate) fn likely(first: u8) -> &'static [Line] {
    match first {
        b'Q' => &[QUERY, QUERY_OF_MYSQL, QUERY_OF_PERCONA],
        b'T' => &[THREAD],
        b'S' => &[SCHEMA_OF_PERCONA],
        b'R' => &[ROWS],
        _ => &[],
    }
}
