//! MySQL's GTID sets: which transactions a server executed, `gtid_executed`.
//!
//! A transaction is the server's UUID, an optional tag (8.3 and later) and a number. A set is exact: subtraction gives the errant
//! transactions and counting gives transactions.
//!
//! Source: MySQL's manual, "GTID Format and Storage" and "Functions Used with GTIDs"; what a server accepts beyond the manual's
//! grammar (empty parts, spaces and line breaks anywhere, an interval whose end lies before its begin) is accepted here.

mod intervals;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use self::intervals::{Interval, Intervals, NUMBER_MAX};
pub use self::source::{Source, TAG_BYTES_MAX, Tag, Uuid};
use super::Order;
use super::scan::{ParseError, Scan};

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Who wrote it first.
    pub source: Source,
    /// Its number there, from 1.
    pub number: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.source, self.number)
    }
}

/// A set of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Set {
    /// None of the values is empty.
    of: BTreeMap<Source, Intervals>,
}

impl Set {
    /// The numbers of each source, in the order in which a server prints them.
    pub fn sources(&self) -> impl Iterator<Item = (Source, &Intervals)> {
        self.of.iter().map(|(source, intervals)| (*source, intervals))
    }

    /// No transaction.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// How many transactions.
    pub fn count(&self) -> u128 {
        self.of.values().map(Intervals::count).sum()
    }

    /// Whether the transaction is in it.
    pub fn contains_gtid(&self, gtid: Gtid) -> bool {
        self.of.get(&gtid.source).is_some_and(|intervals| intervals.contains_number(gtid.number))
    }

    /// Whether every transaction of the other is in this one: `GTID_SUBSET(other, self)`.
    pub fn contains(&self, other: &Self) -> bool {
        other.of.iter().all(|(source, theirs)| self.of.get(source).is_some_and(|ours| ours.contains(theirs)))
    }

    /// Where this set stands in relation to the other.
    pub fn order(&self, other: &Self) -> Order {
        Order::of(self.contains(other), other.contains(self))
    }

    /// What either has.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (source, theirs) in &other.of {
            let ours = all.of.entry(*source).or_default();
            *ours = ours.union(theirs);
        }
        all
    }

    /// What this has and the other has not: `GTID_SUBTRACT(self, other)`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let left = self.of.iter().filter_map(|(source, ours)| {
            let left = other.of.get(source).map_or_else(|| ours.clone(), |theirs| ours.minus(theirs));
            (!left.is_empty()).then_some((*source, left))
        });
        Self { of: left.collect() }
    }
}

impl Set {
    /// The transactions of the sources that `is_chosen` takes.
    #[must_use]
    pub fn chosen(&self, is_chosen: impl Fn(Source) -> bool) -> Self {
        let chosen = self.of.iter().filter(|(source, _)| is_chosen(**source));
        Self { of: chosen.map(|(source, intervals)| (*source, intervals.clone())).collect() }
    }
}

impl FromStr for Set {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut scan = Scan::new(text)?;
        let mut of: BTreeMap<Source, Vec<Interval>> = BTreeMap::new();
        loop {
            scan.skip_space();
            if scan.take(b',') {
                continue;
            }
            if scan.at_end() {
                break;
            }
            one_server(&mut scan, &mut of)?;
            if !scan.at_end() && scan.peek() != Some(b',') {
                return Err(scan.expected("',' or ':'"));
            }
        }
        let normal = of.into_iter().map(|(source, parts)| (source, Intervals::of(parts)));
        Ok(Self { of: normal.filter(|(_, intervals)| !intervals.is_empty()).collect() })
    }
}

/// `uuid[:[tag:]interval]...`: a tag holds for what stands behind it, up to the next one.
fn one_server(scan: &mut Scan<'_>, of: &mut BTreeMap<Source, Vec<Interval>>) -> Result<(), ParseError> {
    let mut source = Source { uuid: Uuid::scan(scan)?, tag: Tag::default() };
    scan.skip_space();
    while scan.take(b':') {
        scan.skip_space();
        if scan.peek().is_some_and(Tag::may_begin) {
            source.tag = Tag::scan(scan)?;
        } else if let Some(interval) = Interval::scan(scan)? {
            of.entry(source).or_default().push(interval);
        }
        scan.skip_space();
    }
    Ok(())
}

impl fmt::Display for Set {
    /// As a server prints `gtid_executed`, but on one line; with `{:#}` on a line for each UUID, too. Tags stand behind the untagged.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<Uuid> = None;
        for (source, intervals) in &self.of {
            if before != Some(source.uuid) {
                let separator = match (before.is_some(), formatter.alternate()) {
                    (false, _) => "",
                    (true, false) => ",",
                    (true, true) => ",\n",
                };
                write!(formatter, "{separator}{}", source.uuid)?;
            }
            before = Some(source.uuid);
            if !source.tag.is_empty() {
                write!(formatter, ":{}", source.tag)?;
            }
            for interval in intervals.iter() {
                write!(formatter, ":{interval}")?;
            }
        }
        Ok(())
    }
}
