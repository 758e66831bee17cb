//! Parses a Galera node's error log: the lines that show the progress of a restart, as typed events.
//!
//! The wording is that of MariaDB 10.4 to 11 with Galera 26.4 (`logs/` has recordings of 10.11.19); other lines, and entries of several
//! lines, are skipped. No I/O; [`Lines`] takes pieces of any size.

use std::fmt;

/// Longer lines are skipped: no relevant line is nearly as long, and a file that is not a log may have no line ends at all.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// A position in a cluster's history: `uuid:seqno`. The seqno is -1 where it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The history.
    pub uuid: String,
    /// The last writeset.
    pub seqno: i64,
}

impl Position {
    fn read(text: &str) -> Option<Self> {
        let word = text.split_whitespace().next()?.trim_end_matches(',');
        let (uuid, seqno) = word.rsplit_once(':')?;
        Some(Self { uuid: uuid.to_owned(), seqno: seqno.parse().ok()? })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.uuid, self.seqno)
    }
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server process starts.
    Starting,
    /// The server was shut down normally.
    ShutDown,
    /// It is a member of the primary component.
    Member,
    /// It needs a state transfer: the group's position.
    GroupState(Position),
    /// The node's own position.
    LocalState(Position),
    /// The script for the state transfer was started for this joiner: `rsync`, `mariabackup`, ...
    Method(String),
    /// The group has chosen a donor.
    Donor {
        /// The node that requested the transfer.
        joiner: String,
        /// The chosen donor.
        donor: String,
    },
    /// The script of the state transfer was successful. It also runs, and copies nothing, before an incremental transfer.
    ScriptDone,
    /// InnoDB starts.
    InnodbStart,
    /// The storage engines run.
    InnodbReady,
    /// The position from which the node continues: its own old one, or that of a full copy.
    Installed(Position),
    /// An incremental transfer starts.
    IstFrom {
        /// The number of writesets.
        writesets: u64,
        /// The first one's number.
        first: u64,
        /// The last one's.
        last: u64,
    },
    /// All writesets of the incremental transfer are applied.
    IstDone,
    /// The node has its state; writesets that were queued in the meantime remain to be applied.
    Joined,
    /// It has everything.
    Synced,
    /// It accepts connections.
    Ready,
    /// The transfer failed, and the server ends.
    TransferFailed(String),
    /// The server has given up, and its process ends.
    Aborted,
}

/// The event of one line, if it concerns a restart.
pub fn event(line: &str) -> Option<Event> {
    let line = line.trim_end();
    // Lines of the script, and the second lines of entries, have no time.
    if let Some(state) = line.trim_start().strip_prefix("Group state: ") {
        return Position::read(state).map(Event::GroupState);
    }
    if let Some(state) = line.trim_start().strip_prefix("Local state: ") {
        return Position::read(state).map(Event::LocalState);
    }
    let (_, text) = line.split_once("] ")?;
    let Some(text) = text.strip_prefix("WSREP: ") else {
        return of_server(text);
    };
    if let Some(rest) = text.strip_prefix("Running: 'wsrep_sst_") {
        return rest
            .contains("--role 'joiner'")
            .then(|| Event::Method(rest.split_whitespace().next().unwrap_or_default().to_owned()));
    }
    if let Some(rest) = text.strip_prefix("Member ") {
        return donor(rest);
    }
    if let Some(rest) = text.strip_prefix("Installed new state from SST: ") {
        return Position::read(rest).map(Event::Installed);
    }
    if let Some(rest) = text.strip_prefix("Receiving IST: ") {
        return ist(rest);
    }
    if text.starts_with("IST received: ") {
        return Some(Event::IstDone);
    }
    if text.contains("State transfer to ") && text.contains(" failed: ")
        || text.contains("Will never receive state")
    {
        return Some(Event::TransferFailed(text.to_owned()));
    }
    if text.ends_with(": Terminated.") {
        return Some(Event::Aborted);
    }
    match text.split(" (TO: ").next().unwrap_or(text) {
        "Shifting OPEN -> PRIMARY" => Some(Event::Member),
        "Shifting JOINER -> JOINED" => Some(Event::Joined),
        "Shifting JOINED -> SYNCED" => Some(Event::Synced),
        "SST received" => Some(Event::ScriptDone),
        "Server initialized" => Some(Event::InnodbReady),
        _ => None,
    }
}

fn of_server(text: &str) -> Option<Event> {
    if text.starts_with("Starting MariaDB ")
        || text.contains("mariadbd (server ")
        || text.contains("mysqld (server ")
    {
        return Some(Event::Starting);
    }
    if text == "Aborting" {
        return Some(Event::Aborted);
    }
    if text.ends_with(": Shutdown complete") {
        return Some(Event::ShutDown);
    }
    // InnoDB's first message, in all versions.
    if text.starts_with("InnoDB: Compressed tables use ") {
        return Some(Event::InnodbStart);
    }
    text.ends_with(": ready for connections.").then_some(Event::Ready)
}

/// "2.0 (db3) requested state transfer from '*any*'. Selected 1.0 (db2)(SYNCED) as donor."
fn donor(text: &str) -> Option<Event> {
    let (joiner, rest) = text.split_once(" requested state transfer from ")?;
    let (_, chosen) = rest.split_once("Selected ")?;
    let name = |text: &str| Some(text.split_once('(')?.1.split_once(')')?.0.to_owned());
    Some(Event::Donor { joiner: name(joiner)?, donor: name(chosen)? })
}

/// "32 writesets, seqnos 57-88"
fn ist(text: &str) -> Option<Event> {
    let (writesets, rest) = text.split_once(" writesets, seqnos ")?;
    let (first, last) = rest.split_once('-')?;
    Some(Event::IstFrom {
        writesets: writesets.parse().ok()?,
        first: first.parse().ok()?,
        last: last.trim().parse().ok()?,
    })
}

/// Cuts the pieces read from a growing file into lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    is_passed_over: bool,
}

impl Lines {
    /// Returns the lines that `bytes` completes. Invalid UTF-8 is replaced.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + piece.len() > LINE_BYTES_MAX {
                self.rest.clear();
                self.is_passed_over = true;
            }
            if !self.is_passed_over {
                self.rest.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                if !std::mem::take(&mut self.is_passed_over) {
                    lines.push(String::from_utf8_lossy(&self.rest).trim_end().to_owned());
                }
                self.rest.clear();
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(log: &str) -> Vec<Event> {
        log.lines().filter_map(event).collect()
    }

    #[test]
    fn an_incremental_transfer() {
        let events = events(include_str!("logs/rsync-ist.log"));
        let names: Vec<String> = events
            .iter()
            .map(|event| format!("{event:?}").split([' ', '(']).next().unwrap().to_owned())
            .collect();
        assert_eq!(
            names.join(" "),
            "ShutDown Starting Member GroupState LocalState Method Donor ScriptDone InnodbStart InnodbReady Installed Ready IstFrom IstDone Joined Synced"
        );
        assert!(events.contains(&Event::IstFrom { writesets: 32, first: 57, last: 88 }));
        assert!(events.contains(&Event::Donor { joiner: "db3".into(), donor: "db2".into() }));
        assert!(events.contains(&Event::Method("rsync".into())));
    }

    #[test]
    fn a_full_copy_and_one_that_failed() {
        let position = |seqno| Position { uuid: "4d02cf61-e6ca-11f1-a31c-9aa338aa497e".into(), seqno };
        for (log, method) in [
            (include_str!("logs/rsync-full.log"), "rsync"),
            (include_str!("logs/mariabackup-full.log"), "mariabackup"),
        ] {
            let events = events(log);
            assert!(events.contains(&Event::Method(method.into())), "{events:?}");
            let local = events.iter().find_map(|event| match event {
                Event::LocalState(position) => Some(position.seqno),
                _ => None,
            });
            assert_eq!(local, Some(-1));
            let installed = events.iter().any(|event| matches!(event, Event::Installed(at) if at.seqno > 0));
            assert!(installed && events.contains(&Event::Synced), "{events:?}");
        }
        let failed = events(include_str!("logs/failed.log"));
        assert!(failed.iter().any(|event| matches!(event, Event::TransferFailed(_))), "{failed:?}");
        for end in [
            "2026-11-23 16:52:43 0 [Note] WSREP: /usr/sbin/mariadbd: Terminated.",
            "2026-11-23 16:52:43 0 [ERROR] Aborting",
        ] {
            assert_eq!(event(end), Some(Event::Aborted));
        }
        assert!(!failed.contains(&Event::Synced));
        assert_eq!(
            event("\tGroup state: 4d02cf61-e6ca-11f1-a31c-9aa338aa497e:88"),
            Some(Event::GroupState(position(88)))
        );
    }

    #[test]
    fn what_is_no_log_says_nothing() {
        for line in [
            "",
            "] ",
            "x] WSREP: ",
            "[Note] WSREP: Receiving IST: many",
            "Local state: 1",
            "\u{fffd}\0] WSREP: Member (",
        ] {
            assert_eq!(event(line), None, "{line:?}");
        }
    }

    #[test]
    fn lines_come_in_pieces() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"one\ntw"), ["one"]);
        assert_eq!(lines.feed(b"o\r\n\xff\n"), ["two", "\u{fffd}"]);
        assert_eq!(lines.feed(&vec![b'x'; 2 * LINE_BYTES_MAX]), Vec::<String>::new());
        assert_eq!(lines.feed(b"end of the long one\nthree\n"), ["three"]);
    }
}
