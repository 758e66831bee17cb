//! What can be wrong with an input. Each message says what to do.

use std::fmt;

use crate::time::{Moment, seconds};

/// Why an input cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is nothing in it.
    Empty,
    /// No line looks like an entry of NDB's logs; with the beginning of the first line.
    NoLog(String),
    /// Its entries have no time with a year, as in a system log; with the beginning of the first line.
    NoTime(String),
    /// It is compressed, with this program.
    Compressed(&'static str),
    /// It is a data node's own log, but the cluster log was expected.
    IsNodeLog,
    /// It is the cluster log, but a data node's own log was expected.
    IsClusterLog,
    /// It ends in the middle of a line.
    Cut {
        /// Counted from 1.
        line: u64,
    },
    /// Times go backwards further than lines are allowed to be late.
    Backwards {
        /// The line with the earlier time, counted from 1.
        line: u64,
        /// The latest time of the lines before.
        before: Moment,
        /// The time of this line.
        after: Moment,
    },
    /// More relevant entries than the limit.
    TooMuch,
    /// No entry is within the wanted window.
    NothingInWindow,
    /// The table lacks this column of `restart_info`.
    NoRestartInfo(&'static str),
    /// A row of the table cannot be parsed.
    Row {
        /// Counted from 1.
        line: u64,
        /// The column.
        column: String,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "is empty"),
            Self::NoLog(first) => write!(
                f,
                "is not a log of NDB Cluster: no line looks like `TIME [MgmtSrvr] LEVEL -- TEXT` ([MgmSrvr] in older ones; [ndbd] in a data node's own); it begins \
                 with {first:?}"
            ),
            Self::NoTime(first) => write!(
                f,
                "has entries of NDB Cluster, but not with the times of its own files, `2007-03-07 10:00:00`: a system log has no years, so no lengths can be \
                 computed. Give the management server's ndb_NODE_cluster.log, or the node's ndb_NODE_out.log; this begins with {first:?}"
            ),
            Self::Compressed(by) => write!(f, "is compressed by {by}: unpack it first"),
            Self::IsNodeLog => write!(
                f,
                "is a data node's own log ([ndbd]): give it with --node-log, and the management server's ndb_NODE_cluster.log with --log"
            ),
            Self::IsClusterLog => {
                write!(
                    f,
                    "is a cluster log (the management server's): give it with --log; --node-log takes a data node's ndb_NODE_out.log"
                )
            }
            Self::Cut { line } => write!(
                f,
                "ends in the middle of line {line}: it was cut off, or is still being copied; --allow-damaged reads the lines that are whole"
            ),
            Self::Backwards { line, before, after } => write!(
                f,
                "has times that go backwards: line {line} says {after}, {} s before the {before} that was reached: a clock was set back, or logs were put \
                 together in the wrong order. Choose a part with --since or --until; --allow-damaged takes what follows the last such line",
                seconds(before.since_us(*after))
            ),
            Self::TooMuch => write!(
                f,
                "has more entries than can be looked at in one go: give a part of it (--since and --until choose one of a log)"
            ),
            Self::NothingInWindow => write!(f, "has no entry between --since and --until"),
            Self::NoRestartInfo(column) => write!(
                f,
                "is not ndbinfo.restart_info with its header line, separated by tabs (mysql --batch prints it so): there is no column {column}"
            ),
            Self::Row { line, column } => write!(f, "has no number in line {line}, column {column}"),
        }
    }
}

impl std::error::Error for Wrong {}

/// An oddity of an input that was used nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Its unfinished last line was left out.
    LastLineLeftOut,
    /// Times went backwards; only what follows this line was used.
    UsedFromLine(u64),
    /// The number of lines with an earlier time than the line before, which were sorted by their time.
    LateLines(u64),
    /// The number of lines before the first entry: its first line is cut, or belongs to an entry before it.
    Headless(u64),
    /// The number of messages that the management server says it could not write.
    Lost(u64),
    /// The number of lines without a time: they belong to the entry before them.
    Continued(u64),
    /// The number of lines longer than the limit; the rest of each was left out.
    LongLines(u64),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastLineLeftOut => write!(f, "the last line is not whole and was left out"),
            Self::UsedFromLine(line) => {
                write!(f, "times go backwards; only what stands from line {line} on was used")
            }
            Self::LateLines(n) => {
                write!(f, "{n} lines stand after later ones and were put where their time says")
            }
            Self::Headless(n) => {
                write!(f, "{n} lines before the first whole entry were left out")
            }
            Self::Lost(n) => {
                write!(
                    f,
                    "{n} messages are missing: the management server says that they were lost; what they told is not known"
                )
            }
            Self::Continued(n) => {
                write!(f, "{n} lines have no time of their own: parts of an entry of several lines")
            }
            Self::LongLines(n) => {
                write!(f, "{n} lines are longer than any that matters; their ends were left out")
            }
        }
    }
}
