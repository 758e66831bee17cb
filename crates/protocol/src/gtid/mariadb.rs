//! MariaDB's GTIDs: `domain-server-sequence`, and a position, which is one of them a domain.
//!
//! Within one domain there is one order of transactions. With `gtid_strict_mode` their sequence numbers grow along it, whichever
//! server wrote them; all comparisons here rest on that. A position names only the newest transaction of each domain, so two
//! positions can be told apart but not proven to be of one history: that needs the binlog [`State`].
//!
//! Source: MariaDB's manual, "Global Transaction ID"; printed forms and limits as a 10.11 server showed them.

mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::str::FromStr;

pub use self::state::{Run, Runs, State};
use super::Order;
use super::scan::{ParseError, Scan};

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// `gtid_domain_id`: an independent stream of transactions.
    pub domain: u32,
    /// `server_id` of the server that wrote it first.
    pub server: u32,
    /// Its number in the domain.
    pub sequence: u64,
}

impl Gtid {
    fn scan(scan: &mut Scan<'_>) -> Result<Self, ParseError> {
        let domain = scan.number("a domain id", u64::from(u32::MAX))?;
        scan.need(b'-')?;
        let server = scan.number("a server id", u64::from(u32::MAX))?;
        scan.need(b'-')?;
        let sequence = scan.number("a sequence number", u64::MAX)?;
        Ok(Self { domain: domain as u32, server: server as u32, sequence })
    }
}

impl FromStr for Gtid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut only = None;
        each(text, |gtid, at_byte| match only.replace(gtid) {
            None => Ok(()),
            Some(_) => Err(ParseError { at_byte, what: "more than one GTID".to_owned() }),
        })?;
        only.ok_or_else(|| ParseError { at_byte: 0, what: "expected a GTID, found nothing".to_owned() })
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

/// Gives each GTID of a list, with where it begins. An empty text is an empty list, as on the server.
fn each(text: &str, mut take: impl FnMut(Gtid, usize) -> Result<(), ParseError>) -> Result<(), ParseError> {
    let mut scan = Scan::new(text)?;
    scan.skip_space();
    if scan.at_end() {
        return Ok(());
    }
    loop {
        scan.skip_space();
        let at_byte = scan.at();
        take(Gtid::scan(&mut scan)?, at_byte)?;
        scan.skip_space();
        if scan.at_end() {
            return Ok(());
        }
        scan.need(b',')?;
    }
}

fn list(formatter: &mut fmt::Formatter<'_>, gtids: impl Iterator<Item = Gtid>) -> fmt::Result {
    for (nth, gtid) in gtids.enumerate() {
        let comma = if nth == 0 { "" } else { "," };
        write!(formatter, "{comma}{gtid}")?;
    }
    Ok(())
}

/// Where a server stands: the newest transaction of each domain. What `gtid_binlog_pos`, `gtid_slave_pos` and `gtid_current_pos`
/// hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    newest: BTreeMap<u32, (u64, u32)>,
}

/// Two positions have no maximum: in this domain each names another transaction with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{one} and {other} have the same number and are not the same transaction")]
pub struct Split {
    /// The one's transaction.
    pub one: Gtid,
    /// The other's.
    pub other: Gtid,
}

impl Position {
    /// The newest transaction of each domain, by domain.
    pub fn gtids(&self) -> impl Iterator<Item = Gtid> + '_ {
        self.newest.iter().map(|(&domain, &(sequence, server))| Gtid { domain, server, sequence })
    }

    /// The newest transaction of one domain.
    pub fn in_domain(&self, domain: u32) -> Option<Gtid> {
        self.newest.get(&domain).map(|&(sequence, server)| Gtid { domain, server, sequence })
    }

    /// Nothing was executed, or nothing is known.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Whether the transaction lies at or before this position. It is a matter of numbers: `false` is certain, `true` is so only
    /// if the transaction belongs to this server's history (see [`State::contains`]).
    pub fn reaches(&self, gtid: Gtid) -> bool {
        self.newest.get(&gtid.domain).is_some_and(|&(sequence, server)| {
            gtid.sequence < sequence || (gtid.sequence, gtid.server) == (sequence, server)
        })
    }

    /// Whether all of the other position lies at or before this one.
    pub fn contains(&self, other: &Self) -> bool {
        other.gtids().all(|gtid| self.reaches(gtid))
    }

    /// Where this position stands in relation to the other.
    pub fn order(&self, other: &Self) -> Order {
        Order::of(self.contains(other), other.contains(self))
    }

    /// By how many sequence numbers the other is ahead, for each domain where it is. Numbers may have been left out, so this is at
    /// least the number of transactions.
    pub fn behind_by(&self, other: &Self) -> BTreeMap<u32, u64> {
        let ahead = other.newest.iter().filter_map(|(domain, (theirs, _))| {
            let ours = self.newest.get(domain).map_or(0, |(sequence, _)| *sequence);
            Some((*domain, theirs.checked_sub(ours).filter(|numbers| *numbers > 0)?))
        });
        ahead.collect()
    }

    /// The later of both, domain by domain.
    ///
    /// # Errors
    /// When they have diverged in a domain.
    pub fn max(&self, other: &Self) -> Result<Self, Split> {
        let mut newest = self.newest.clone();
        for theirs in other.gtids() {
            let value = (theirs.sequence, theirs.server);
            match newest.entry(theirs.domain) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    let (sequence, server) = *entry.get();
                    if sequence == theirs.sequence && server != theirs.server {
                        return Err(Split { one: Gtid { server, ..theirs }, other: theirs });
                    }
                    if sequence < theirs.sequence {
                        entry.insert(value);
                    }
                }
            }
        }
        Ok(Self { newest })
    }
}

impl FromStr for Position {
    type Err = ParseError;

    /// Reads the server's form. More than one GTID of a domain is refused, as the server does (error 1943).
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut newest = BTreeMap::new();
        each(text, |gtid, at_byte| match newest.insert(gtid.domain, (gtid.sequence, gtid.server)) {
            None => Ok(()),
            Some(_) => Err(ParseError { at_byte, what: format!("a second GTID of domain {}", gtid.domain) }),
        })?;
        Ok(Self { newest })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(formatter, self.gtids())
    }
}
