//! The lines of an entry: how servers write them, and by which of them an entry is known.
//!
//! ```text
//!   [# Time: ...]  # User@Host: ...  further lines of fields: `# Name: value  Name: value`  [use schema;]  [SET timestamp=N;]  SQL;
//! ```
//!
//! Fields are read by their names, in whatever order and line they stand ([`crate::Fields`]): servers and tools differ in that.

use memchr::memmem;

use crate::event::Dialect;
use crate::fields::Fields;
use crate::head::user_host;
use crate::time::{duration_us, parse_line};

pub(crate) const TIME: &[u8] = b"# Time: ";
pub(crate) const USER: &[u8] = b"# User@Host: ";
pub(crate) const QUERY: &[u8] = b"# Query_time: ";
pub(crate) const RATE: &[u8] = b"# Log_slow_rate_type: ";
pub(crate) const ADMINISTRATOR: &[u8] = b"# administrator command: ";

/// A line by which an entry is known: its beginning, and whether a line that begins so is one.
pub(crate) type Line = (&'static [u8], fn(&[u8]) -> bool);

const TIME_LINE: Line = (TIME, |line| line.strip_prefix(TIME).and_then(parse_line).is_some());
const USER_LINE: Line = (USER, |line| line.strip_prefix(USER).and_then(user_host).is_some());
const THREAD_LINE: Line = (b"# Thread_id: ", |line| memmem::find(line, b" Schema: ").is_some());
const QUERY_LINE: Line = (QUERY, |line| {
    let mut fields = Fields::new(line);
    [&b"Query_time"[..], b"Lock_time", b"Rows_sent", b"Rows_examined"]
        .iter()
        .all(|name| fields.next().is_some_and(|(key, value)| key == *name && duration_us(value).is_some()))
});

/// What stands behind the lines by which an entry is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The name of any field.
    Field,
    /// `# Query_time: `
    Query,
    Anything,
}

/// The lines with which an entry begins, and what follows. Those with a user stand first.
pub(crate) const BEGINS: [(&[Line], Next); 5] = [
    (&[USER_LINE], Next::Field),
    (&[TIME_LINE, USER_LINE], Next::Field),
    // Under --log-short-format.
    (&[QUERY_LINE], Next::Anything),
    (&[TIME_LINE, QUERY_LINE], Next::Anything),
    (&[THREAD_LINE], Next::Query),
];
/// So many of these have a user.
pub(crate) const BEGINS_WITH_USER: usize = 2;

/// What a server of this dialect writes behind `# Time: `, with the names of values in braces.
pub(crate) fn lines(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => {
            "\
# User@Host: {account}[{user}] @ {host} [{address}]
# Thread_id: {connection}  Schema: {schema}  QC_hit: No
# Query_time: {query_time}  Lock_time: {lock_time}  Rows_sent: {sent}  Rows_examined: {examined}
# Rows_affected: {affected}  Bytes_sent: 0
"
        }
        Dialect::Percona => {
            "\
# User@Host: {account}[{user}] @ {host} [{address}]  Id: {id}
# Schema: {schema}  Last_errno: 0  Killed: 0
# Query_time: {query_time}  Lock_time: {lock_time}  Rows_sent: {sent}  Rows_examined: {examined}  Rows_affected: {affected}  Bytes_sent: 0
"
        }
        Dialect::MySql55 => {
            "\
# User@Host: {account}[{user}] @ {host} [{address}]
# Query_time: {query_time}  Lock_time: {lock_time} Rows_sent: {sent}  Rows_examined: {examined}
"
        }
        Dialect::MySql56 | Dialect::MySql57 => {
            "\
# User@Host: {account}[{user}] @ {host} [{address}]  Id: {id}
# Query_time: {query_time}  Lock_time: {lock_time} Rows_sent: {sent}  Rows_examined: {examined}
"
        }
    }
}
