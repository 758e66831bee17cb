//! What a server holds: the newest transaction of every server in every domain, as `gtid_binlog_state` says.
//!
//! With `gtid_strict_mode` a server that holds one transaction of another server holds every earlier one of that server in that
//! domain. So these numbers are an upper bound for each server, and comparing two states tells which transactions only one has.
//!
//! The order within a domain is not relied upon: a server means its newest transaction to come last, but the sort before printing
//! mixes the servers of a domain as soon as there are more than some ten GTIDs (seen on 10.11.19 with 12).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::super::scan::ParseError;
use super::{Gtid, Position, each, list};

/// A server's binlog state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    newest: BTreeMap<(u32, u32), u64>,
}

impl State {
    /// The newest transaction of each server in each domain: by domain, then by number.
    pub fn gtids(&self) -> impl Iterator<Item = Gtid> + '_ {
        let gtid = |(&(domain, server), &sequence): (&(u32, u32), &u64)| Gtid { domain, server, sequence };
        let mut gtids: Vec<Gtid> = self.newest.iter().map(gtid).collect();
        gtids.sort_unstable_by_key(|gtid| (gtid.domain, gtid.sequence, gtid.server));
        gtids.into_iter()
    }

    /// Nothing was written, or nothing is known.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Whether it is certain that this server has the transaction.
    pub fn contains_gtid(&self, gtid: Gtid) -> bool {
        self.newest.get(&(gtid.domain, gtid.server)).is_some_and(|newest| gtid.sequence <= *newest)
    }

    /// The highest number of a transaction of this domain that is in both. With `gtid_strict_mode` each has what the other has up to there.
    fn common(&self, other: &Self, domain: u32) -> Option<u64> {
        let mine = self.newest.range((domain, 0)..=(domain, u32::MAX));
        mine.filter_map(|(key, last)| Some(*other.newest.get(key)?.min(last))).max()
    }

    /// Whether this, of which the transaction is not known by its server, has it all the same: it comes before a later one that is both here
    /// and in `line`, which has it.
    pub fn reaches_along(&self, gtid: Gtid, line: &Self) -> bool {
        line.contains_gtid(gtid)
            && self.common(line, gtid.domain).is_some_and(|common| gtid.sequence < common)
    }

    /// With what this has of the other without showing it: a server that was made from a copy of another has rows of servers that its binlog
    /// does not name, since that begins with the copy. Added is what the other has of a server that is not named here at all, if it comes
    /// before a later transaction that both have, and `is_of_line` says that it was replicated: with `gtid_strict_mode` off, a server may
    /// write a transaction of its own, and go on with what it receives.
    #[must_use]
    pub fn along(&self, other: &Self, is_of_line: impl Fn(&Run) -> bool) -> Self {
        let mut all = self.clone();
        for run in other.minus(self).iter().filter(|run| run.after == 0) {
            let last = Gtid { domain: run.domain, server: run.server, sequence: run.last };
            if self.reaches_along(last, other) && is_of_line(run) {
                all.add(last);
            }
        }
        all
    }

    /// As much of it as lies at or before the position, by number.
    #[must_use]
    pub fn up_to(&self, position: &Position) -> Self {
        let reached = self.newest.iter().filter_map(|(&(domain, server), &last)| {
            let reached = position.in_domain(domain)?.sequence.min(last);
            Some(((domain, server), reached))
        });
        Self { newest: reached.collect() }
    }

    /// Without what this server wrote first.
    #[must_use]
    pub fn without(&self, server: u32) -> Self {
        let others = self.newest.iter().filter(|((_, other), _)| *other != server);
        Self { newest: others.map(|(key, last)| (*key, *last)).collect() }
    }

    /// Whether `line` has a transaction which this has not, although its number is not after the last one here: this left the line before, or
    /// does not name all servers whose transactions it has.
    pub fn lacks_before_its_last(&self, line: &Self) -> bool {
        let position = self.position();
        let is_before =
            |run: &Run| position.in_domain(run.domain).is_some_and(|last| run.last <= last.sequence);
        line.minus(self).iter().any(is_before)
    }

    /// Whether it is certain that this server has all that the other has.
    pub fn contains(&self, other: &Self) -> bool {
        other.minus(self).is_empty()
    }

    /// The highest number of each domain, which with `gtid_strict_mode` is the server's `gtid_binlog_pos`.
    pub fn position(&self) -> Position {
        let mut newest = BTreeMap::new();
        // In the order of numbers, so that the highest stays.
        for gtid in self.gtids() {
            newest.insert(gtid.domain, (gtid.sequence, gtid.server));
        }
        Position { newest }
    }

    /// Adds what a server executed as a replica. A server cloned from a backup has an empty state and a `gtid_slave_pos`.
    pub fn add_position(&mut self, position: &Position) {
        for gtid in position.gtids() {
            self.add(gtid);
        }
    }

    /// What either has.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (&(domain, server), &sequence) in &other.newest {
            all.add(Gtid { domain, server, sequence });
        }
        all
    }

    /// Adds one transaction, and with it every earlier one of its server and domain.
    pub fn add(&mut self, gtid: Gtid) {
        let newest = self.newest.entry((gtid.domain, gtid.server)).or_insert(gtid.sequence);
        *newest = gtid.sequence.max(*newest);
    }

    /// What this has and the other does not show: errant transactions, when the other is the primary's state.
    ///
    /// Never too little while both ran with `gtid_strict_mode`. It is too much when the other forgot a server (RESET MASTER, a
    /// clone from a backup of a former replica): give it its `gtid_slave_pos` before, and have a person look at what is left.
    pub fn minus(&self, other: &Self) -> Runs {
        let left = self.newest.iter().filter_map(|(&(domain, server), &last)| {
            let after = other.newest.get(&(domain, server)).copied().unwrap_or(0);
            (last > after).then_some(Run { domain, server, after, last })
        });
        Runs(left.collect())
    }
}

impl FromStr for State {
    type Err = ParseError;

    /// Reads the server's form. The same server twice in a domain is refused.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut newest = BTreeMap::new();
        each(text, |gtid, at_byte| match newest.insert((gtid.domain, gtid.server), gtid.sequence) {
            None => Ok(()),
            Some(_) => {
                let what = format!("a second GTID of server {} in domain {}", gtid.server, gtid.domain);
                Err(ParseError { at_byte, what })
            }
        })?;
        Ok(Self { newest })
    }
}

impl fmt::Display for State {
    /// As `gtid_binlog_state` takes it: by domain, the highest number last.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(formatter, self.gtids())
    }
}

/// Transactions of one server in one domain: those with a number above `after`, up to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The domain.
    pub domain: u32,
    /// The server that wrote them.
    pub server: u32,
    /// The last number that is not of the run.
    pub after: u64,
    /// The last number of the run; that transaction exists.
    pub last: u64,
}

impl Run {
    /// How many numbers there are. Some may be other servers', or left out: at most so many transactions, at least one.
    pub fn numbers(&self) -> u64 {
        self.last.saturating_sub(self.after)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, server, last, .. } = self;
        match self.numbers() {
            0 | 1 => write!(formatter, "{domain}-{server}-{last}"),
            _ => write!(formatter, "{domain}-{server}-{}..{last}", self.after.saturating_add(1)),
        }
    }
}

/// What one state has and another does not: one run a server and domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// Each of them, by domain and server.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.iter()
    }

    /// Those that `is_chosen` takes.
    #[must_use]
    pub fn chosen(&self, is_chosen: impl Fn(&Run) -> bool) -> Self {
        Self(self.0.iter().filter(|run| is_chosen(run)).copied().collect())
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers they have together: at most so many transactions.
    pub fn numbers(&self) -> u128 {
        self.0.iter().map(|run| u128::from(run.numbers())).sum()
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, run) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(formatter, "{comma}{run}")?;
        }
        Ok(())
    }
}
