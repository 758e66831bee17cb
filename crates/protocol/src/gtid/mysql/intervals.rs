//! The numbers of one source's transactions: intervals in order, none of which touches another.

use std::fmt;

use super::super::scan::{ParseError, Scan};

/// The highest number that a server takes: one less than a signed 64-bit number can say.
pub const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

/// Numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    first: u64,
    last: u64,
}

impl Interval {
    /// None unless `1 <= first <= last <= NUMBER_MAX`.
    pub fn new(first: u64, last: u64) -> Option<Self> {
        (first >= 1 && first <= last && last <= NUMBER_MAX).then_some(Self { first, last })
    }

    /// The lowest number.
    pub fn first(self) -> u64 {
        self.first
    }

    /// The highest number.
    pub fn last(self) -> u64 {
        self.last
    }

    /// `m[-n]`. None where n is below m: a server takes that for nothing.
    pub(super) fn scan(scan: &mut Scan<'_>) -> Result<Option<Self>, ParseError> {
        let at_byte = scan.at();
        let first = scan.number("a transaction number or a tag", NUMBER_MAX)?;
        if first == 0 {
            return Err(ParseError { at_byte, what: "transaction numbers begin with 1".to_owned() });
        }
        scan.skip_space();
        if !scan.take(b'-') {
            return Ok(Self::new(first, first));
        }
        scan.skip_space();
        let last = scan.number("a transaction number", NUMBER_MAX)?;
        Ok(Self::new(first, last))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(formatter, "{}", self.first),
            false => write!(formatter, "{}-{}", self.first, self.last),
        }
    }
}

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Intervals {
    /// In order; between two there is a number that is in neither.
    parts: Vec<Interval>,
}

impl Intervals {
    /// Of parts in any order, which may overlap.
    pub fn of(mut parts: Vec<Interval>) -> Self {
        parts.sort_unstable();
        let mut normal: Vec<Interval> = Vec::with_capacity(parts.len());
        for part in parts {
            match normal.last_mut() {
                // NUMBER_MAX is far from overflow.
                Some(before) if part.first <= before.last + 1 => before.last = before.last.max(part.last),
                _ => normal.push(part),
            }
        }
        Self { parts: normal }
    }

    /// Each interval, in order.
    pub fn iter(&self) -> impl Iterator<Item = Interval> + '_ {
        self.parts.iter().copied()
    }

    /// No number.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many numbers.
    pub fn count(&self) -> u128 {
        self.parts.iter().map(|part| u128::from(part.last - part.first) + 1).sum()
    }

    /// Whether the number is in it.
    pub fn contains_number(&self, number: u64) -> bool {
        let behind = self.parts.partition_point(|part| part.last < number);
        self.parts.get(behind).is_some_and(|part| part.first <= number)
    }

    /// Whether all numbers of the other are in it.
    pub fn contains(&self, other: &Self) -> bool {
        other.parts.iter().all(|theirs| {
            let behind = self.parts.partition_point(|part| part.last < theirs.last);
            self.parts.get(behind).is_some_and(|part| part.first <= theirs.first)
        })
    }

    /// What either has.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::of(self.iter().chain(other.iter()).collect())
    }

    /// What this has and the other has not.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut cuts = other.parts.iter().peekable();
        for part in &self.parts {
            let mut first = part.first;
            while let Some(cut) = cuts.peek().filter(|cut| cut.first <= part.last) {
                left.extend(Interval::new(first, cut.first - 1));
                first = first.max(cut.last + 1);
                if cut.last > part.last {
                    break; // it may reach into the next part
                }
                cuts.next();
            }
            left.extend(Interval::new(first, part.last));
        }
        Self { parts: left }
    }
}
