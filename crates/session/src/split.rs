//! Reads that may run on a replica while the session stands on the primary: which they are, and up to where a replica must be for it.
//!
//! Enters: a command, the session, what stands on its link to the primary, and the lists of names. Leaves: [`RunsOn`], and [`Need`]. Whatever is
//! in doubt belongs to the primary, which is never wrong.

use protocol::command::Command;
use protocol::statement::{Kind, Pins, Recalls, Sets, is_of_the_server, only_recalls, reads_rows_only};

use crate::command::InFlight;
use crate::names::{List, Lists};
use crate::session::Session;
use crate::standing::Standing;
use crate::wanted::Wanted;

/// What a read leaves on the link that it ran on, and nowhere else.
pub const LEFT: Recalls = Recalls::WARNINGS.union(Recalls::ROW_COUNT).union(Recalls::FOUND_ROWS);

/// What ties a session to the primary and means nothing for a read that names none of it.
const WITHOUT_MEANING: Pins = Pins::USER_VARIABLE
    .union(Pins::GET_LOCK)
    .union(Pins::HANDLER)
    .union(Pins::TEXT_PREPARE)
    .union(Pins::LONG_DATA)
    .union(Pins::CURSOR)
    .union(Pins::LONG_STATEMENT);

/// Once one of these was set, what the session reads, or what it has written, may be on the primary alone.
const ON_THE_PRIMARY: [&str; 5] =
    ["sql_log_bin", "skip_replication", "profiling", "sql_auto_is_null", "gtid_domain_id"];

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// On the primary.
    Primary,
    /// On a replica that has what the session needs.
    Replica,
    /// On the replica that ran the last read: only that knows the answer.
    LastReplica,
}

/// Where `flight` with this text runs. `link`: to the primary.
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
        // Of several, all must have been left in the same place.
        let is_elsewhere = LEFT.has(flight.recalls) && link.forgotten(flight.recalls) == flight.recalls;
        let is_pure = is_elsewhere && flight.leaves_no_trace && only_recalls(text, status);
        return if is_pure { RunsOn::LastReplica } else { RunsOn::Primary };
    }
    let is_plain = flight.kind() == Kind::Read
        && scanned.renews.has(Recalls::WARNINGS.union(Recalls::FOUND_ROWS))
        && !scanned.asks_connection_id
        && is_the_same_elsewhere(&session.wanted, link)
        && reads_rows_only(text, status)
        && !names(List::Views).any_in(text, status)
        && !names(List::Untransactional).any_in(text, status);
    if is_plain { RunsOn::Replica } else { RunsOn::Primary }
}

/// Whether all that the session has set and that bears on a read can be said on a replica.
fn is_the_same_elsewhere(wanted: &Wanted, link: &Standing) -> bool {
    link.pins().without(WITHOUT_MEANING).is_empty()
        && !link.must_ask_all()
        && !wanted.has_terms_of_its_own()
        && !wanted.schema().is_some_and(is_of_the_server)
        && ON_THE_PRIMARY.iter().all(|name| wanted.changed(name).is_none())
}

/// Up to where a replica must be before the session may read there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// Up to where the primary is now: it has to be asked.
    #[default]
    Unknown,
    /// Up to this GTID, the session's last.
    Gtid(Box<str>),
    /// The replica that was read from last has all.
    Nothing,
}

impl Need {
    /// After a command that ran on the primary; `gtid`: what it wrote under, by the server's word; `domain`: the only one of all that the
    /// primary had when it was last asked. Where there are several, one GTID does not stand behind what was seen in the others.
    pub fn after(&mut self, flight: &InFlight, gtid: Option<Box<str>>, domain: Option<u32>) {
        // Of several statements, one that failed may have committed more than was told.
        let is_one = !flight.several && flight.scanned.is_none_or(|scanned| scanned.alone);
        let writes = matches!(flight.kind(), Kind::Write | Kind::Commit) && is_one;
        *self = match gtid {
            // It stands behind whatever the session had seen of the primary by then.
            Some(gtid)
                if writes && domain.is_some() && Gtid::parse(&gtid).map(|gtid| gtid.domain) == domain =>
            {
                Need::Gtid(gtid)
            }
            None if is_of_the_session(flight) => return,
            // It may have seen what others wrote, or written what nobody told.
            _ => Need::Unknown,
        };
    }
}

/// Neither reads nor writes anything but the session.
fn is_of_the_session(flight: &InFlight) -> bool {
    let is_set = flight.scanned.is_none_or(|scanned| scanned.alone && !scanned.calls_stored);
    matches!(flight.kind(), Kind::SessionOnly) && is_set && !flight.what.may_commit && !flight.several
}

/// One GTID of MariaDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtid {
    /// Its domain.
    pub domain: u32,
    /// Its number there.
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

/// The domain of a position that has but one.
pub fn only_domain(position: &str) -> Option<u32> {
    let mut domains = position.split(',').map(|gtid| Gtid::parse(gtid).map(|gtid| gtid.domain));
    let first = domains.next()??;
    domains.next().is_none().then_some(first)
}

/// Whether a position is a list of GTIDs of MariaDB's, and not empty.
pub fn is_position(text: &str) -> bool {
    text.split(',').all(|gtid| Gtid::parse(gtid).is_some())
}

#[cfg(test)]
mod tests;
