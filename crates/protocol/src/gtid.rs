//! GTIDs: where a server stands, what it holds, and what one has that another has not.
//!
//! | question | MariaDB | MySQL |
//! |---|---|---|
//! | how far is it? ([`Position`]) | `gtid_binlog_pos`, `gtid_slave_pos`, `gtid_current_pos` | `gtid_executed` |
//! | what does it hold? ([`History`]) | `gtid_binlog_state`, with `gtid_slave_pos` added | `gtid_executed` |
//!
//! A position is enough to order servers that follow one primary. Whether an old primary may follow a new one needs the history:
//! MariaDB's positions have no room for it. The two families never compare: asked to, everything here refuses.
//!
//! Text in, facts out; texts are bounded ([`TEXT_BYTES_MAX`]) and every value that is printed is read back as itself.

mod history;
pub mod mariadb;
pub mod mysql;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use self::history::{Errant, History, Origin};
pub use self::scan::{ParseError, TEXT_BYTES_MAX};

/// Whose GTIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// `domain-server-sequence`.
    #[default]
    MariaDb,
    /// `uuid:numbers`.
    MySql,
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        })
    }
}

/// Why two values were not compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// One is MariaDB's and one is MySQL's.
    #[error("GTIDs of {0} cannot be compared with those of {1}")]
    Families(Family, Family),
    /// MariaDB positions that diverged have no maximum.
    #[error(transparent)]
    Split(#[from] mariadb::Split),
}

/// Where one stands in relation to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The same.
    Equal,
    /// The other has more.
    Behind,
    /// This has more.
    Ahead,
    /// Each has something that the other has not.
    Diverged,
}

impl Order {
    fn of(contains: bool, is_contained: bool) -> Self {
        match (contains, is_contained) {
            (true, true) => Self::Equal,
            (true, false) => Self::Ahead,
            (false, true) => Self::Behind,
            (false, false) => Self::Diverged,
        }
    }

    /// The other way round.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::Behind => Self::Ahead,
            Self::Ahead => Self::Behind,
            same => same,
        }
    }
}

/// How much one is behind another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// So many transactions, exactly.
    Transactions(u128),
    /// MariaDB: the difference of the sequence numbers in each domain where there is one. Numbers may have been left out, and a
    /// position says nothing of a diverged history.
    SequenceNumbers(BTreeMap<u32, u64>),
}

impl Gap {
    /// Not behind at all.
    pub fn is_zero(&self) -> bool {
        self.total() == 0
    }

    /// All domains together.
    pub fn total(&self) -> u128 {
        match self {
            Self::Transactions(transactions) => *transactions,
            Self::SequenceNumbers(domains) => domains.values().copied().map(u128::from).sum(),
        }
    }
}

impl fmt::Display for Gap {
    /// `12 transactions`, `12 sequence numbers`, `12 sequence numbers in domain 0, 1 in domain 7`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: u128| if count == 1 { "" } else { "s" };
        let total = self.total();
        match self {
            Self::Transactions(_) => write!(formatter, "{total} transaction{}", plural(total)),
            Self::SequenceNumbers(domains) if domains.len() < 2 => {
                write!(formatter, "{total} sequence number{}", plural(total))
            }
            Self::SequenceNumbers(domains) => {
                for (nth, (domain, numbers)) in domains.iter().enumerate() {
                    match nth {
                        0 => write!(
                            formatter,
                            "{numbers} sequence number{} in domain {domain}",
                            plural(u128::from(*numbers))
                        )?,
                        _ => write!(formatter, ", {numbers} in domain {domain}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// Where a server stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The newest transaction of each domain.
    MariaDb(mariadb::Position),
    /// All that it executed.
    MySql(mysql::Set),
}

impl Position {
    /// Reads a server's text. An empty one says nothing about the family, so that is told.
    ///
    /// # Errors
    /// What is wrong, and at which byte.
    pub fn parse(family: Family, text: &str) -> Result<Self, ParseError> {
        Ok(match family {
            Family::MariaDb => Self::MariaDb(text.parse()?),
            Family::MySql => Self::MySql(text.parse()?),
        })
    }

    /// Whose it is.
    pub fn family(&self) -> Family {
        match self {
            Self::MariaDb(_) => Family::MariaDb,
            Self::MySql(_) => Family::MySql,
        }
    }

    /// Nothing was executed.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::MariaDb(position) => position.is_empty(),
            Self::MySql(set) => set.is_empty(),
        }
    }

    /// Where this stands in relation to the other. For MariaDB, `Behind` and `Ahead` go by numbers: that both are of one history
    /// is for [`History::minus`] to say.
    ///
    /// # Errors
    /// When they are of two families.
    pub fn order(&self, other: &Self) -> Result<Order, Incomparable> {
        match (self, other) {
            (Self::MariaDb(one), Self::MariaDb(other)) => Ok(one.order(other)),
            (Self::MySql(one), Self::MySql(other)) => Ok(one.order(other)),
            _ => Err(Incomparable::Families(self.family(), other.family())),
        }
    }

    /// Whether all of the other lies at or before this.
    ///
    /// # Errors
    /// When they are of two families.
    pub fn contains(&self, other: &Self) -> Result<bool, Incomparable> {
        Ok(matches!(self.order(other)?, Order::Equal | Order::Ahead))
    }

    /// Whether the other has all that this has, and more.
    ///
    /// # Errors
    /// When they are of two families.
    pub fn is_behind(&self, other: &Self) -> Result<bool, Incomparable> {
        Ok(self.order(other)? == Order::Behind)
    }

    /// How much the other has that this has not.
    ///
    /// # Errors
    /// When they are of two families.
    pub fn behind_by(&self, other: &Self) -> Result<Gap, Incomparable> {
        match (self, other) {
            (Self::MariaDb(one), Self::MariaDb(other)) => Ok(Gap::SequenceNumbers(one.behind_by(other))),
            (Self::MySql(one), Self::MySql(other)) => Ok(Gap::Transactions(other.minus(one).count())),
            _ => Err(Incomparable::Families(self.family(), other.family())),
        }
    }

    /// The least position that contains both.
    ///
    /// # Errors
    /// When they are of two families, or MariaDB's and diverged.
    pub fn union(&self, other: &Self) -> Result<Self, Incomparable> {
        match (self, other) {
            (Self::MariaDb(one), Self::MariaDb(other)) => Ok(Self::MariaDb(one.max(other)?)),
            (Self::MySql(one), Self::MySql(other)) => Ok(Self::MySql(one.union(other))),
            _ => Err(Incomparable::Families(self.family(), other.family())),
        }
    }
}

impl fmt::Display for Position {
    /// The server's own form.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MariaDb(position) => position.fmt(formatter),
            Self::MySql(set) => set.fmt(formatter),
        }
    }
}
