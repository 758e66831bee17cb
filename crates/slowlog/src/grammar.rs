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

/// Their names, in the order of [`Field`].
const NAMES: [&[u8]; 15] = [
    b"Thread_id",
    b"Schema",
    b"Query_time",
    b"Lock_time",
    b"Rows_sent",
    b"Rows_examined",
    b"Rows_affected",
    b"Bytes_sent",
    b"QC_hit",
    b"Last_errno",
    b"Killed",
    b"Start",
    b"End",
    b"Log_slow_rate_type",
    b"Log_slow_rate_limit",
];

const ALL: [Field; 15] = [
    Field::Thread,
    Field::Schema,
    Field::QueryTime,
    Field::LockTime,
    Field::RowsSent,
    Field::RowsExamined,
    Field::RowsAffected,
    Field::BytesSent,
    Field::QcHit,
    Field::LastErrno,
    Field::Killed,
    Field::Start,
    Field::End,
    Field::RateType,
    Field::RateLimit,
];

impl Field {
    pub(crate) fn name(self) -> &'static [u8] {
        NAMES[self as usize]
    }

    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        ALL.into_iter().find(|field| field.name() == name)
    }
}

/// A line of fields: what stands before each name, and the field. `: ` stands behind a name.
pub(crate) type Line = &'static [(&'static [u8], Field)];

const THREAD: Line = &[(b"# ", Field::Thread), (b"  ", Field::Schema), (b"  ", Field::QcHit)];
const QUERY: Line = &[
    (b"# ", Field::QueryTime),
    (b"  ", Field::LockTime),
    (b"  ", Field::RowsSent),
    (b"  ", Field::RowsExamined),
];
/// MySQL has one blank in the middle.
const QUERY_OF_MYSQL: Line = &[
    (b"# ", Field::QueryTime),
    (b"  ", Field::LockTime),
    (b" ", Field::RowsSent),
    (b"  ", Field::RowsExamined),
];
const ROWS: Line = &[(b"# ", Field::RowsAffected), (b"  ", Field::BytesSent)];
const SCHEMA_OF_PERCONA: Line = &[(b"# ", Field::Schema), (b"  ", Field::LastErrno), (b"  ", Field::Killed)];
const QUERY_OF_PERCONA: Line = &[
    (b"# ", Field::QueryTime),
    (b"  ", Field::LockTime),
    (b"  ", Field::RowsSent),
    (b"  ", Field::RowsExamined),
    (b"  ", Field::RowsAffected),
    (b"  ", Field::BytesSent),
];
pub(crate) const RATE: Line = &[(b"# ", Field::RateType), (b"  ", Field::RateLimit)];

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
        b'Q' => &[QUERY, QUERY_OF_MYSQL],
        b'T' => &[THREAD],
        b'R' => &[ROWS],
        _ => &[],
    }
}
