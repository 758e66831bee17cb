//! Decides which reads may run on a replica while the session is on the primary, and which position the replica must have reached.
//!
//! Enters: a command, the session, the state of its link to the primary, and the lists of names. Leaves: [`RunsOn`], and [`Need`]. If
//! anything is uncertain, the command runs on the primary, which is always correct. The policy of reads as a whole is in `proxy/src/reads/mod.rs`.

use protocol::command::Command;
use protocol::statement::{
    Pins, Recalls, Sets, StatementKind, is_of_the_server, only_recalls, reads_rows_only,
};

use crate::command::InFlight;
use crate::names::{List, Lists};
use crate::session::Session;
use crate::standing::Standing;
use crate::wanted::Wanted;

/// What a read leaves for later statements, on the link on which it ran.
pub const LEFT: Recalls = Recalls::WARNINGS.union(Recalls::ROW_COUNT).union(Recalls::FOUND_ROWS);

/// Reasons that tie a session to the primary and are irrelevant for a read that uses none of them.
const WITHOUT_MEANING: Pins = Pins::USER_VARIABLE
    .union(Pins::GET_LOCK)
    .union(Pins::HANDLER)
    .union(Pins::TEXT_PREPARE)
    .union(Pins::LONG_DATA)
    .union(Pins::CURSOR)
    .union(Pins::LONG_STATEMENT);

/// If one of these was set, the data that the session reads or has written may exist on the primary only.
const ON_THE_PRIMARY: [&str; 5] =
    ["sql_log_bin", "skip_replication", "profiling", "sql_auto_is_null", "gtid_domain_id"];

/// The node that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// On the primary.
    Primary,
    /// A replica that has what the session needs.
    Replica,
    /// The replica that ran the last read: only it knows the answer.
    LastReplica,
}

/// Where `flight` with this text runs. `link`: the link to the primary.
pub fn runs_on(
    flight: &InFlight,
    text: &[u8],
    session: &Session,
    link: &Standing,
    names: Lists<'_>,
) -> RunsOn {
    let Some(scanned) = flight.scanned.filter(|_| flight.command == Command::QUERY) else {
        return RunsOn::Primary;
    };
    let changes_session =
        scanned.sets != Sets::NONE || !scanned.pins.is_empty() || !scanned.unpins.is_empty();
    if !scanned.alone
        || changes_session
        || flight.what.in_transaction
        || !flight.what.autocommit
        || link.in_transaction()
        || flight.calls
        || scanned.calls_stored
    {
        return RunsOn::Primary;
    }
    let status = session.flags();
    if !flight.recalls.is_empty() {
        // If it asks for several things, all must have been left on the same link.
        let is_elsewhere = LEFT.has(flight.recalls) && link.forgotten(flight.recalls) == flight.recalls;
        let is_pure = is_elsewhere && flight.leaves_no_trace && only_recalls(text, status);
        return if is_pure { RunsOn::LastReplica } else { RunsOn::Primary };
    }
    let is_plain = flight.kind() == StatementKind::Read
        && scanned.renews.has(Recalls::WARNINGS.union(Recalls::FOUND_ROWS))
        && !scanned.asks_connection_id
        && is_the_same_elsewhere(&session.wanted, link)
        && reads_rows_only(text, status)
        && !names(List::Views).any_in(text, status)
        && !names(List::Untransactional).any_in(text, status);
    if is_plain { RunsOn::Replica } else { RunsOn::Primary }
}

/// Whether all of the session's settings that affect a read can be set on a replica.
fn is_the_same_elsewhere(wanted: &Wanted, link: &Standing) -> bool {
    link.pins().without(WITHOUT_MEANING).is_empty()
        && !link.lacks_schema()
        && !link.must_ask_all()
        && !wanted.has_terms_of_its_own()
        && !wanted.schema().is_some_and(is_of_the_server)
        && ON_THE_PRIMARY.iter().all(|name| wanted.changed(name).is_none())
}

/// The position that a replica must have before the session may read there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// The primary's present position: the primary has to be asked.
    #[default]
    Unknown,
    /// This GTID, the session's last one.
    Gtid(Box<str>),
    /// The replica of the last read has everything.
    Nothing,
}

impl Need {
    /// After a command that ran on the primary. `gtid`: the GTID that the server reported for its write. `domain`: the only domain in the
    /// primary's last position. Where there are several domains, the session may have seen transactions of the others, which one GTID does
    /// not cover.
    pub fn after(&mut self, flight: &InFlight, gtid: Option<Box<str>>, domain: Option<u32>) {
        // If one of several statements failed, others may have committed without a report.
        let is_one = !flight.several && flight.scanned.is_none_or(|scanned| scanned.alone);
        let writes = matches!(flight.kind(), StatementKind::Write | StatementKind::Commit) && is_one;
        *self = match gtid {
            // It comes after everything that the session had seen on the primary by then.
            Some(gtid)
                if writes && domain.is_some() && Gtid::parse(&gtid).map(|gtid| gtid.domain) == domain =>
            {
                Need::Gtid(gtid)
            }
            None if is_of_the_session(flight) => return,
            // It may have read what others wrote, or written something without a report.
            _ => Need::Unknown,
        };
    }
}

/// Whether it neither reads nor writes anything except the session's settings.
fn is_of_the_session(flight: &InFlight) -> bool {
    let is_set = flight.scanned.is_none_or(|scanned| scanned.alone && !scanned.calls_stored);
    matches!(flight.kind(), StatementKind::SessionOnly)
        && is_set
        && !flight.what.may_commit
        && !flight.several
}

/// One GTID of MariaDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtid {
    /// Its domain.
    pub domain: u32,
    /// Its sequence number there.
    pub number: u64,
}

impl Gtid {
    /// `domain-server-number`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (domain, server, number) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if parts.next().is_some() || ![domain, server, number].into_iter().all(is_number) {
            return None;
        }
        Some(Self { domain: domain.parse().ok()?, number: number.parse().ok()? })
    }
}

/// The domain of a position that has only one.
pub fn only_domain(position: &str) -> Option<u32> {
    let mut domains = position.split(',').map(|gtid| Gtid::parse(gtid).map(|gtid| gtid.domain));
    let first = domains.next()??;
    domains.next().is_none().then_some(first)
}

/// Whether a position is a non-empty list of MariaDB GTIDs.
pub fn is_position(text: &str) -> bool {
    text.split(',').all(|gtid| Gtid::parse(gtid).is_some())
}

#[cfg(test)]
mod tests;
