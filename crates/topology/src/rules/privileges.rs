//! The privileges that the monitor account of a primary and its replicas needs globally, as MariaDB's SHOW GRANTS spells them.

use super::Severity::{self, Fails, Note, Slow};

/// Who needs a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Each account, also one that gives no orders, because another manager moves the primary.
    ToLook,
    /// One that moves the primary.
    ToOrder,
    /// The same, where the event scheduler runs: with these, events run on the primary only. See [`crate::replication::events`].
    ForEvents,
}

/// A privilege.
pub struct Privilege {
    pub name: &'static str,
    /// What it is needed for.
    pub why: &'static str,
    pub needed: Needed,
    /// Before a move, how grave it is that it is missing; `None`: a move goes without it.
    pub before_a_move: Option<Severity>,
}

/// Without it the new primary does not wait for acknowledgements: grave only where the old one does.
pub const SEMI_SYNC: &str = "REPLICATION MASTER ADMIN";

type Before = Option<Severity>;

const fn to_look(name: &'static str, before_a_move: Before, why: &'static str) -> Privilege {
    Privilege { name, why, needed: Needed::ToLook, before_a_move }
}

const fn to_order(name: &'static str, before_a_move: Before, why: &'static str) -> Privilege {
    Privilege { needed: Needed::ToOrder, ..to_look(name, before_a_move, why) }
}

const fn for_events(name: &'static str, why: &'static str) -> Privilege {
    Privilege { needed: Needed::ForEvents, ..to_look(name, Some(Note), why) }
}

/// All of them.
pub const ALL: &[Privilege] = &[
    to_order("REPLICATION SLAVE ADMIN", Some(Fails), "letting a replica follow another primary"),
    to_order(SEMI_SYNC, Some(Fails), "having a new primary wait for its replicas (semi-sync)"),
    to_order("READ_ONLY ADMIN", Some(Fails), "making a server read only, or writable"),
    to_order("RELOAD", Some(Fails), "letting a new primary forget its source"),
    to_order("BINLOG MONITOR", None, "knowing for how long a replica may be away"),
    // Commits that keep a server from becoming read only are found with the first, and ended with the second.
    to_order(
        "PROCESS",
        Some(Slow),
        "finding sessions that keep a server from becoming read only, or an old primary from applying",
    ),
    to_look(
        "CONNECTION ADMIN",
        Some(Slow),
        "ending them, and logging in where clients have used up max_connections",
    ),
    to_look("TRIGGER", None, "knowing which tables have no transactions"),
    to_look("EXECUTE", None, "knowing which stored functions may write"),
    for_events(
        "EVENT",
        "stopping events on an old primary, where they may write on, and running them on the new one",
    ),
    for_events("SET USER", "leaving events their definers"),
    for_events("BINLOG ADMIN", "stopping events without a transaction"),
];

/// An account of that name for any host, as GRANT takes it.
pub fn account(user: &str) -> String {
    format!("'{}'@'%'", user.replace('\'', "''"))
}

/// How grave it is before a move that this privilege is missing. `waits`: commits wait for replicas.
pub fn without(name: &str, waits: bool) -> Option<Severity> {
    let severity = ALL.iter().find(|privilege| privilege.name == name)?.before_a_move?;
    Some(if name == SEMI_SYNC && !waits { Note } else { severity })
}
