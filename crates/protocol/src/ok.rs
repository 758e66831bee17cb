//! OK, EOF and ERR: how an answer begins or ends, and what the session became by it.
//!
//! Enters: such a packet's payload and the capabilities agreed on. Leaves: its fields, borrowed; or a new payload.
//! Invariant: a length within the payload never leads past its end.
//!
//! ```text
//!   OK   00|FE  affected(lenenc)  last_insert_id(lenenc)  status(u16)  warnings(u16)  [info(lenenc)  [track(lenenc)]]
//!   EOF  FE     warnings(u16)  status(u16)
//!   ERR  FF     code(u16)  ['#' state(5)]  message(rest)
//! ```
//!
//! The manuals say that `info` is the rest of the packet when session tracking is off; MariaDB and MySQL write its length
//! in front of it all the same, and their clients skip it.

use crate::capability::Caps;
use crate::packet::{Fields, Malformed, put};

/// An OK packet's first byte.
pub const OK: u8 = 0x00;
/// An EOF packet's first byte, and that of an OK packet in place of one.
pub const EOF: u8 = 0xFE;
/// An ERR packet's first byte.
pub const ERR: u8 = 0xFF;

/// SESSION_TRACK_SCHEMA: the type of a session change that tells the default schema.
const OF_SCHEMA: u8 = 1;
/// SESSION_TRACK_TRANSACTION_STATE: the same of the state of the transaction.
const OF_TRANSACTION_STATE: u8 = 5;

/// The server's status flags.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANS: u16 = 1;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub const MORE_RESULTS: u16 = 8;
    /// No good index was used.
    pub const NO_GOOD_INDEX_USED: u16 = 0x10;
    /// No index was used.
    pub const NO_INDEX_USED: u16 = 0x20;
    /// A cursor is open: the rows come when they are fetched.
    pub const CURSOR_EXISTS: u16 = 0x40;
    /// The cursor has no more rows.
    pub const LAST_ROW_SENT: u16 = 0x80;
    /// A database was dropped.
    pub const DB_DROPPED: u16 = 0x100;
    /// NO_BACKSLASH_ESCAPES is on.
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x200;
    /// A prepared statement was prepared anew and its columns changed.
    pub const METADATA_CHANGED: u16 = 0x400;
    /// The query was slow.
    pub const QUERY_WAS_SLOW: u16 = 0x800;
    /// This result holds the OUT parameters of a procedure.
    pub const PS_OUT_PARAMS: u16 = 0x1000;
    /// The open transaction is read-only.
    pub const IN_TRANS_READONLY: u16 = 0x2000;
    /// The packet carries session changes.
    pub const SESSION_STATE_CHANGED: u16 = 0x4000;
    /// MariaDB: ANSI_QUOTES is on.
    pub const ANSI_QUOTES: u16 = 0x8000;

    /// What a login begins with: the server's defaults, in its greeting and in the OK that ends a login.
    pub const OF_LOGIN: u16 = AUTOCOMMIT | NO_BACKSLASH_ESCAPES | ANSI_QUOTES;
    /// What lasts from one statement to the next; the others are of one answer only (the server's SERVER_STATUS_CLEAR_SET).
    pub const LASTING: u16 = OF_LOGIN | IN_TRANS | IN_TRANS_READONLY;
}

/// An OK packet, or the one that stands in place of an EOF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// Rows changed.
    pub affected: u64,
    /// The first AUTO_INCREMENT value made, or 0.
    pub last_insert_id: u64,
    /// Flags of [`status`].
    pub status: u16,
    /// How many warnings.
    pub warnings: u16,
    /// Text for a human, e.g. `Rows matched: 1 ...`.
    pub info: &'a [u8],
    /// The session changes as they came; read them with [`OkPacket::changes`].
    pub track: &'a [u8],
}

impl<'a> OkPacket<'a> {
    /// Reads a payload that begins with [`OK`] or [`EOF`] (in its long form).
    pub fn parse(payload: &'a [u8], caps: Caps) -> Result<Self, Malformed> {
        let mut fields = Fields::new(payload);
        if !matches!(fields.u8()?, OK | EOF) {
            return Err(Malformed::new("an OK packet begins with 0x00 or 0xFE"));
        }
        let affected = fields.lenenc_int()?;
        let last_insert_id = fields.lenenc_int()?;
        let status = fields.u16()?;
        let warnings = fields.u16()?;
        let (mut info, mut track): (&[u8], &[u8]) = (&[], &[]);
        if caps.has(Caps::SESSION_TRACK) {
            if !fields.is_empty() {
                info = fields.lenenc_bytes()?;
            }
            if status & status::SESSION_STATE_CHANGED != 0 && !fields.is_empty() {
                track = fields.lenenc_bytes()?;
            }
        } else if !fields.is_empty() {
            let mut prefixed = fields;
            info = match prefixed.lenenc_bytes() {
                Ok(text) if prefixed.is_empty() => text,
                _ => fields.rest(),
            };
        }
        Ok(OkPacket { affected, last_insert_id, status, warnings, info, track })
    }

    /// The transaction's state, if it is told.
    pub fn transaction_state(&self) -> Option<TransactionState> {
        self.changes().find_map(|change| match change {
            Ok(Change::TransactionState(letters)) => letters.try_into().ok().map(TransactionState),
            _ => None,
        })
    }

    /// What the session became by this statement, as far as the server was asked to say it.
    pub fn changes(&self) -> Changes<'a> {
        Changes { entries: Fields::new(self.track), variables: Fields::new(&[]) }
    }
}

/// One change of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A system variable has a new value.
    Variable {
        /// Its name, in lower case.
        name: &'a [u8],
        /// Its value as text.
        value: &'a [u8],
    },
    /// The default database; empty for none.
    Schema(&'a [u8]),
    /// Something of the session's state changed (or, `false`: is said not to have).
    StateChanged(bool),
    /// GTIDs of what was committed (MySQL).
    Gtid(&'a [u8]),
    /// The statements that would start the present transaction elsewhere.
    Characteristics(&'a [u8]),
    /// Eight letters that tell what the transaction has done so far.
    TransactionState(&'a [u8]),
    /// A kind we do not know.
    Other(u8),
}

/// The eight letters of [`Change::TransactionState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionState(pub [u8; 8]);

impl TransactionState {
    /// Appends it as an entry of session tracking.
    pub fn put(self, out: &mut Vec<u8>) {
        put_change(out, OF_TRANSACTION_STATE, &self.0);
    }
}

/// The changes in an OK packet, in the server's order. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    entries: Fields<'a>,
    /// What is left of the entry at hand, when it lists variables: MariaDB may put several pairs into one entry.
    variables: Fields<'a>,
}

impl<'a> Changes<'a> {
    fn one(&mut self) -> Result<Change<'a>, Malformed> {
        if !self.variables.is_empty() {
            return Self::variable(&mut self.variables);
        }
        let kind = self.entries.u8()?;
        let mut entry = Fields::new(self.entries.lenenc_bytes()?);
        Ok(match kind {
            0 => {
                let first = Self::variable(&mut entry)?;
                self.variables = entry;
                first
            }
            OF_SCHEMA => Change::Schema(entry.lenenc_nullable()?.unwrap_or_default()),
            // The only entry without a length of its own inside: `02 01 31`, as MariaDB 10.11 sends it.
            2 => Change::StateChanged(entry.rest() == b"1"),
            3 => {
                entry.u8()?; // how the set is encoded; 0, text, is the only way there is
                Change::Gtid(entry.lenenc_bytes()?)
            }
            4 => Change::Characteristics(entry.lenenc_bytes()?),
            OF_TRANSACTION_STATE => Change::TransactionState(entry.lenenc_bytes()?),
            other => Change::Other(other),
        })
    }

    fn variable(entry: &mut Fields<'a>) -> Result<Change<'a>, Malformed> {
        let name = entry.lenenc_bytes()?;
        let value = entry.lenenc_nullable()?.unwrap_or_default();
        Ok(Change::Variable { name, value })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.entries.is_empty() && self.variables.is_empty() {
            return None;
        }
        let change = self.one();
        if change.is_err() {
            *self = Changes { entries: Fields::new(&[]), variables: Fields::new(&[]) };
        }
        Some(change)
    }
}

/// Appends an OK packet's payload; `header` is [`OK`] or [`EOF`]. It carries no session changes: their status bit is
/// cleared.
pub fn put_ok(
    out: &mut Vec<u8>,
    header: u8,
    affected: u64,
    last_insert_id: u64,
    status: u16,
    warnings: u16,
    info: &[u8],
) {
    put_numbers(out, header, (affected, last_insert_id), status & !status::SESSION_STATE_CHANGED, warnings);
    if !info.is_empty() {
        put::lenenc_bytes(out, info);
    }
}

/// The session change that tells a new default schema, for [`with_track`].
pub fn schema_change(schema: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    put_change(&mut out, OF_SCHEMA, schema);
    out
}

/// Appends a session change of this type with one value.
fn put_change(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let mut entry = vec![];
    put::lenenc_bytes(&mut entry, value);
    out.push(kind);
    put::lenenc_bytes(out, &entry);
}

/// What every OK packet begins with; `counts`: the affected rows, and the last insert id.
fn put_numbers(out: &mut Vec<u8>, header: u8, counts: (u64, u64), status: u16, warnings: u16) {
    out.push(header);
    put::lenenc_int(out, counts.0);
    put::lenenc_int(out, counts.1);
    put::u16(out, status);
    put::u16(out, warnings);
}

/// Appends an EOF packet's payload.
pub fn put_eof(out: &mut Vec<u8>, warnings: u16, status: u16) {
    let [few, many] = warnings.to_le_bytes();
    let [low, high] = (status & !status::SESSION_STATE_CHANGED).to_le_bytes();
    out.extend_from_slice(&[EOF, few, many, low, high]);
}

/// The same OK packet without its session changes, for a client that did not ask for them.
/// `caps` are those under which `payload` came.
pub fn without_track(payload: &[u8], caps: Caps) -> Result<Vec<u8>, Malformed> {
    let ok = OkPacket::parse(payload, caps)?;
    let header = payload.first().copied().unwrap_or(OK);
    let mut out = Vec::with_capacity(payload.len());
    put_ok(&mut out, header, ok.affected, ok.last_insert_id, ok.status, ok.warnings, ok.info);
    Ok(out)
}

/// The same OK packet with these session changes before its own. `caps` are those under which `payload` came.
pub fn with_track(payload: &[u8], caps: Caps, before: &[u8]) -> Result<Vec<u8>, Malformed> {
    let ok = OkPacket::parse(payload, caps)?;
    let mut out = Vec::with_capacity(payload.len() + before.len() + 9);
    let header = payload.first().copied().unwrap_or(OK);
    let status = ok.status | status::SESSION_STATE_CHANGED;
    put_numbers(&mut out, header, (ok.affected, ok.last_insert_id), status, ok.warnings);
    put::lenenc_bytes(&mut out, ok.info);
    put::lenenc_bytes(&mut out, &[before, ok.track].concat());
    Ok(out)
}

/// An ERR packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    /// The error's number; see [`crate::errno`].
    pub code: u16,
    /// SQLSTATE, five bytes; empty when the server sent none, as it does before it knows the client.
    pub state: &'a [u8],
    /// The sentence.
    pub message: &'a [u8],
}

impl<'a> ErrPacket<'a> {
    /// Reads a payload that begins with [`ERR`]. Whatever stands behind the code is taken as it is.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(payload);
        if fields.u8()? != ERR {
            return Err(Malformed::new("an ERR packet begins with 0xFF"));
        }
        let code = fields.u16()?;
        let rest = fields.rest();
        let (state, message) = match rest.strip_prefix(b"#").and_then(|marked| marked.split_at_checked(5)) {
            Some(parts) => parts,
            None => (&rest[..0], rest),
        };
        Ok(ErrPacket { code, state, message })
    }
}

/// Appends an ERR packet's payload.
pub fn put_err(out: &mut Vec<u8>, code: u16, state: &[u8; 5], message: &str) {
    out.push(ERR);
    put::u16(out, code);
    out.push(b'#');
    out.extend_from_slice(state);
    out.extend_from_slice(message.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACKING: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::SESSION_TRACK.0 | Caps::DEPRECATE_EOF.0);

    #[test]
    fn the_text_of_an_update_has_its_length_in_front() {
        let payload = b"\x00\x01\x00\x02\x00\x00\x00\x28Rows matched: 1  Changed: 1  Warnings: 0";
        for caps in [Caps::PROTOCOL_41, TRACKING] {
            let ok = OkPacket::parse(payload, caps).unwrap();
            assert_eq!(ok.affected, 1);
            assert_eq!(ok.info, b"Rows matched: 1  Changed: 1  Warnings: 0");
        }
        let bare = OkPacket::parse(b"\x00\x01\x00\x02\x00\x00\x00hello", Caps::PROTOCOL_41).unwrap();
        assert_eq!(bare.info, b"hello");
    }

    #[test]
    fn changes_are_read_in_order() {
        let mut track = Vec::new();
        for (kind, data) in [
            (0, &b"\x0aautocommit\x03OFF"[..]),
            (0, b"\x01a\x011\x01b\xfb"),
            (1, b"\x04shop"),
            (2, b"1"),
            (3, b"\x00\x03a:1"),
            (4, b"\x00"),
            (5, b"\x08T_______"),
            (9, b"??"),
        ] {
            track.push(kind);
            put::lenenc_bytes(&mut track, data);
        }
        let mut payload = b"\x00\x00\x00\x02\x40\x00\x00\x00".to_vec();
        put::lenenc_bytes(&mut payload, &track);
        let ok = OkPacket::parse(&payload, TRACKING).unwrap();
        let changes: Vec<Change<'_>> = ok.changes().map(Result::unwrap).collect();
        assert_eq!(
            changes,
            [
                Change::Variable { name: b"autocommit", value: b"OFF" },
                Change::Variable { name: b"a", value: b"1" },
                Change::Variable { name: b"b", value: b"" },
                Change::Schema(b"shop"),
                Change::StateChanged(true),
                Change::Gtid(b"a:1"),
                Change::Characteristics(b""),
                Change::TransactionState(b"T_______"),
                Change::Other(9),
            ]
        );
        let ok = OkPacket::parse(&payload, TRACKING).unwrap();
        let twice = with_track(&payload, TRACKING, ok.track).unwrap();
        let twice = OkPacket::parse(&twice, TRACKING).unwrap();
        assert_eq!(twice, OkPacket { track: &[ok.track, ok.track].concat(), ..ok });
        let mut eof = vec![];
        put_eof(&mut eof, ok.warnings, ok.status);
        assert_eq!(eof, b"\xfe\x00\x00\x02\x00");
        let bare = without_track(&payload, TRACKING).unwrap();
        assert_eq!(bare, b"\x00\x00\x00\x02\x00\x00\x00");
    }

    #[test]
    fn a_broken_change_ends_the_list() {
        let ok = OkPacket {
            affected: 0,
            last_insert_id: 0,
            status: 0,
            warnings: 0,
            info: b"",
            track: b"\x00\x20ab",
        };
        let mut changes = ok.changes();
        assert!(changes.next().unwrap().is_err());
        assert_eq!(changes.next(), None);
    }

    #[test]
    fn errors_with_and_without_state() {
        let full = ErrPacket::parse(b"\xff\x15\x04#28000Access denied").unwrap();
        assert_eq!((full.code, full.state, full.message), (1045, &b"28000"[..], &b"Access denied"[..]));
        let early = ErrPacket::parse(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((early.code, early.state, early.message), (1040, &b""[..], &b"Too many connections"[..]));
        assert_eq!(ErrPacket::parse(b"\xff\x10\x04#12").unwrap().message, b"#12");
        assert!(ErrPacket::parse(b"\xff\x10").is_err());
        assert!(ErrPacket::parse(b"\x00\x10\x00").is_err());
    }

    proptest! {
        #[test]
        fn ok_round_trip(affected in any::<u64>(), id in any::<u64>(), status in any::<u16>(), warnings in any::<u16>(),
                         info in proptest::collection::vec(any::<u8>(), 0..300), track in any::<bool>()) {
            let caps = if track { TRACKING } else { Caps::PROTOCOL_41 };
            let mut payload = Vec::new();
            put_ok(&mut payload, EOF, affected, id, status, warnings, &info);
            let ok = OkPacket::parse(&payload, caps).unwrap();
            let status = status & !status::SESSION_STATE_CHANGED;
            prop_assert_eq!(ok, OkPacket { affected, last_insert_id: id, status, warnings, info: &info, track: b"" });
            prop_assert_eq!(without_track(&payload, caps).unwrap(), payload);
        }

        #[test]
        fn err_round_trip(code in any::<u16>(), message in ".{0,80}") {
            let mut payload = Vec::new();
            put_err(&mut payload, code, b"HY000", &message);
            let err = ErrPacket::parse(&payload).unwrap();
            prop_assert_eq!(err, ErrPacket { code, state: b"HY000", message: message.as_bytes() });
        }

        #[test]
        fn random_changes_end(track in proptest::collection::vec(any::<u8>(), 0..80)) {
            let ok = OkPacket { affected: 0, last_insert_id: 0, status: 0, warnings: 0, info: b"", track: &track };
            prop_assert!(ok.changes().count() <= track.len() + 1);
        }
    }
}
