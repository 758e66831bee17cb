//! What a server holds, and what one holds that another does not: the errant transactions.

use std::fmt;

use super::{Family, Incomparable, ParseError, Position, mariadb, mysql};

/// A server, as its GTIDs name whoever wrote a transaction first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// `server_id`.
    MariaDb(u32),
    /// `server_uuid`; its tags do not matter.
    MySql(mysql::Uuid),
}

/// What a server holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum History {
    /// The newest transaction of each server in each domain.
    MariaDb(mariadb::State),
    /// All that it executed.
    MySql(mysql::Set),
}

impl History {
    /// Reads `gtid_binlog_state` or `gtid_executed`.
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

    /// Nothing.
    pub fn empty(family: Family) -> Self {
        match family {
            Family::MariaDb => Self::MariaDb(mariadb::State::default()),
            Family::MySql => Self::MySql(mysql::Set::default()),
        }
    }

    /// With all of the position, too. One of the other family adds nothing.
    pub fn add(&mut self, position: &Position) {
        match (self, position) {
            (Self::MariaDb(state), Position::MariaDb(position)) => state.add_position(position),
            (Self::MySql(set), Position::MySql(position)) => *set = set.union(position),
            _ => {}
        }
    }

    /// Whether it has each transaction of the position: of whichever server they are, not by their numbers alone.
    pub fn holds(&self, position: &Position) -> bool {
        match (self, position) {
            (Self::MariaDb(state), Position::MariaDb(position)) => {
                position.gtids().all(|gtid| state.contains_gtid(gtid))
            }
            (Self::MySql(set), Position::MySql(position)) => set.contains(position),
            _ => false,
        }
    }

    /// The same, also where this does not name the server of a transaction that `line`, of which this is a part, has.
    pub fn holds_along(&self, position: &Position, line: &Self) -> bool {
        match (self, position, line) {
            (Self::MariaDb(state), Position::MariaDb(position), Self::MariaDb(line)) => {
                position.gtids().all(|gtid| state.contains_gtid(gtid) || state.reaches_along(gtid, line))
            }
            _ => self.holds(position),
        }
    }

    /// With what this has of the other without showing it; see [`mariadb::State::along`]. MySQL shows all.
    #[must_use]
    pub fn along(&self, other: &Self, is_of_line: impl Fn(&mariadb::Run) -> bool) -> Self {
        match (self, other) {
            (Self::MariaDb(one), Self::MariaDb(other)) => Self::MariaDb(one.along(other, is_of_line)),
            _ => self.clone(),
        }
    }

    /// See [`mariadb::State::lacks_before_its_last`]; of MySQL's transactions each is named, so that nothing depends on their order.
    pub fn lacks_before_its_last(&self, line: &Self) -> bool {
        match (self, line) {
            (Self::MariaDb(one), Self::MariaDb(line)) => one.lacks_before_its_last(line),
            _ => false,
        }
    }

    /// What either has. One of the other family adds nothing.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::MariaDb(one), Self::MariaDb(other)) => Self::MariaDb(one.union(other)),
            (Self::MySql(one), Self::MySql(other)) => Self::MySql(one.union(other)),
            _ => self.clone(),
        }
    }

    /// The transactions that this has and the other has not: the errant ones, when the other is the primary's.
    ///
    /// # Errors
    /// When they are of two families.
    pub fn minus(&self, other: &Self) -> Result<Errant, Incomparable> {
        match (self, other) {
            (Self::MariaDb(one), Self::MariaDb(other)) => Ok(Errant::MariaDb(one.minus(other))),
            (Self::MySql(one), Self::MySql(other)) => Ok(Errant::MySql(one.minus(other))),
            _ => Err(Incomparable::Families(self.family(), other.family())),
        }
    }
}

impl fmt::Display for History {
    /// The server's own form.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MariaDb(state) => state.fmt(formatter),
            Self::MySql(set) => set.fmt(formatter),
        }
    }
}

/// Transactions that one history has and another has not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Errant {
    /// Runs of numbers, each of one server: the last of a run exists, those before it may.
    MariaDb(mariadb::Runs),
    /// Exactly these.
    MySql(mysql::Set),
}

impl Errant {
    /// None.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::MariaDb(runs) => runs.is_empty(),
            Self::MySql(set) => set.is_empty(),
        }
    }

    /// Those of them that this server wrote first.
    #[must_use]
    pub fn of(&self, origin: Origin) -> Self {
        match self {
            Self::MariaDb(runs) => Self::MariaDb(runs.chosen(|run| Origin::MariaDb(run.server) == origin)),
            Self::MySql(set) => Self::MySql(set.chosen(|source| Origin::MySql(source.uuid) == origin)),
        }
    }

    /// Those that a server of this origin may be about to commit are left out: a primary of MySQL counts a transaction when it has committed it, and
    /// a replica may have received it before (semi-synchronous, AFTER_SYNC). MariaDB counts it when it is written, before it is sent.
    #[must_use]
    pub fn without_underway(self, origin: Origin) -> Self {
        match self {
            Self::MariaDb(_) => self,
            Self::MySql(set) => Self::MySql(set.chosen(|source| Origin::MySql(source.uuid) != origin)),
        }
    }

    /// Whether the server that lacks them has others of the same origin, with lower numbers: it knew them, or numbers anew. One that lacks
    /// all of an origin may have left that out (FLUSH BINARY LOGS DELETE_DOMAIN_ID).
    pub fn continues(&self) -> bool {
        match self {
            Self::MariaDb(runs) => runs.iter().any(|run| run.after > 0),
            Self::MySql(set) => set.count() > 0,
        }
    }

    /// Whether one of them is in the history; for MariaDB, the last of a run.
    pub fn is_any_in(&self, history: &History) -> bool {
        match (self, history) {
            (Self::MariaDb(runs), History::MariaDb(state)) => runs.iter().any(|run| {
                let last = mariadb::Gtid { domain: run.domain, server: run.server, sequence: run.last };
                state.contains_gtid(last)
            }),
            (Self::MySql(set), History::MySql(history)) => set.minus(history).count() < set.count(),
            _ => false,
        }
    }

    /// Whether each of them exists for certain; of a run of MariaDB's only the last does.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::MariaDb(runs) => runs.iter().all(|run| run.numbers() <= 1),
            Self::MySql(_) => true,
        }
    }

    /// So many transactions: exactly for MySQL, at most for MariaDB.
    pub fn count_max(&self) -> u128 {
        match self {
            Self::MariaDb(runs) => runs.numbers(),
            Self::MySql(set) => set.count(),
        }
    }
}

impl fmt::Display for Errant {
    /// `0-1-101..105,0-3-7` or MySQL's form.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MariaDb(runs) => runs.fmt(formatter),
            Self::MySql(set) => set.fmt(formatter),
        }
    }
}
