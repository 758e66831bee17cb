//! Commands: the first byte of a client's packet, and the little that must be known of the rest.
//!
//! Enters: a command's payload. Leaves: which command, whether the server answers it, the statement id it carries, the
//! SQL text it carries.

use std::fmt;

use crate::capability::Caps;
use crate::packet::{Fields, Malformed};

/// A command byte. Unknown ones are kept: a server may know what we do not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command(pub u8);

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl Command {
            $($(#[$doc])* pub const $name: Command = Command($code);)*

            /// Its name as the manuals write it, without `COM_`.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        }
    };
}

commands! {
    /// Internal to the server.
    SLEEP = 0;
    /// The client leaves; the server closes without a word.
    QUIT = 1;
    /// Changes the default database.
    INIT_DB = 2;
    /// SQL text.
    QUERY = 3;
    /// The columns of a table (deprecated).
    FIELD_LIST = 4;
    /// Deprecated.
    CREATE_DB = 5;
    /// Deprecated.
    DROP_DB = 6;
    /// FLUSH by bits (deprecated).
    REFRESH = 7;
    /// Stops the server.
    SHUTDOWN = 8;
    /// One line of text.
    STATISTICS = 9;
    /// SHOW PROCESSLIST (deprecated).
    PROCESS_INFO = 10;
    /// Internal to the server.
    CONNECT = 11;
    /// KILL (deprecated).
    PROCESS_KILL = 12;
    /// Dumps debug information into the server's log.
    DEBUG = 13;
    /// Is the server there?
    PING = 14;
    /// Internal to the server.
    TIME = 15;
    /// Internal to the server.
    DELAYED_INSERT = 16;
    /// Logs in anew on the same connection.
    CHANGE_USER = 17;
    /// The binary log, as a stream.
    BINLOG_DUMP = 18;
    /// Internal to old replication.
    TABLE_DUMP = 19;
    /// Internal to the server.
    CONNECT_OUT = 20;
    /// A replica makes itself known.
    REGISTER_SLAVE = 21;
    /// Prepares a statement.
    STMT_PREPARE = 22;
    /// Runs a prepared statement.
    STMT_EXECUTE = 23;
    /// Sends a piece of a parameter; not answered.
    STMT_SEND_LONG_DATA = 24;
    /// Forgets a prepared statement; not answered.
    STMT_CLOSE = 25;
    /// Forgets pieces of parameters and closes the cursor.
    STMT_RESET = 26;
    /// Multi-statements on or off.
    SET_OPTION = 27;
    /// Rows of an open cursor.
    STMT_FETCH = 28;
    /// Internal to the server.
    DAEMON = 29;
    /// The binary log by GTID, as a stream (MySQL).
    BINLOG_DUMP_GTID = 30;
    /// Forgets the session, keeps the login.
    RESET_CONNECTION = 31;
    /// MySQL's clone plugin.
    CLONE = 32;
    /// MySQL group replication.
    SUBSCRIBE_GROUP_REPLICATION_STREAM = 33;
    /// Runs a prepared statement with many sets of parameters (MariaDB).
    STMT_BULK_EXECUTE = 250;
    /// Several commands in one packet (MariaDB 10.2 only; withdrawn).
    MULTI = 254;
}

impl Command {
    /// The command of a payload; `None` when it is empty, which no client may send.
    #[inline]
    pub fn of(payload: &[u8]) -> Option<Command> {
        payload.first().map(|&code| Command(code))
    }

    /// Whether the server answers it.
    #[inline]
    pub fn answers(self) -> bool {
        !matches!(self, Command::QUIT | Command::STMT_CLOSE | Command::STMT_SEND_LONG_DATA)
    }

    /// Whether it carries a prepared statement's id in bytes 1 to 4.
    #[inline]
    pub fn is_prepared(self) -> bool {
        matches!(
            self,
            Command::STMT_EXECUTE
                | Command::STMT_SEND_LONG_DATA
                | Command::STMT_CLOSE
                | Command::STMT_RESET
                | Command::STMT_FETCH
                | Command::STMT_BULK_EXECUTE
        )
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COM_{}({})", self.name(), self.0)
    }
}

/// MariaDB: the statement that this connection prepared last.
pub const LAST_PREPARED: u32 = 0xFFFF_FFFF;

/// The statement id of a command that carries one ([`Command::is_prepared`]); may be [`LAST_PREPARED`].
#[inline]
pub fn statement_id(payload: &[u8]) -> Option<u32> {
    let [code, a, b, c, d] = *payload.first_chunk::<5>()?;
    Command(code).is_prepared().then(|| u32::from_le_bytes([a, b, c, d]))
}

/// Whether a command asks for a cursor: a COM_STMT_EXECUTE with CURSOR_TYPE_READ_ONLY among its flags (the other types never
/// became anything in a server). Of a statement that can have none, the server sends the rows all the same.
#[inline]
pub fn asks_for_cursor(payload: &[u8]) -> bool {
    const CURSOR_TYPE_READ_ONLY: u8 = 1;
    Command::of(payload) == Some(Command::STMT_EXECUTE)
        && payload.get(5).is_some_and(|flags| flags & CURSOR_TYPE_READ_ONLY != 0)
}

/// The SQL text of a COM_QUERY or COM_STMT_PREPARE, or the name in a COM_INIT_DB: everything behind the command byte, but
/// for the parameters that come with every COM_QUERY when [`Caps::QUERY_ATTRIBUTES`] is agreed on.
#[inline]
pub fn query_text(payload: &[u8], caps: Caps) -> Result<&[u8], Malformed> {
    let (&code, text) = payload.split_first().ok_or(Malformed::new("a command without its byte"))?;
    if Command(code) == Command::QUERY && caps.has(Caps::QUERY_ATTRIBUTES) {
        return behind_attributes(text);
    }
    Ok(text)
}

/// Skips the attributes of MySQL's manual "COM_QUERY": counts, a NULL bitmap, types with names, values.
fn behind_attributes(text: &[u8]) -> Result<&[u8], Malformed> {
    let mut fields = Fields::new(text);
    let count = fields.lenenc_int()?;
    let sets = fields.lenenc_int()?;
    if count == 0 {
        return Ok(fields.rest());
    }
    if sets != 1 {
        return Err(Malformed::new("query attributes come in one set"));
    }
    let count = usize::try_from(count).map_err(|_| Malformed::new("more query attributes than bytes"))?;
    let nulls = fields.bytes(count.div_ceil(8))?;
    if fields.u8()? != 1 {
        return Err(Malformed::new("query attributes without their types"));
    }
    // The values stand behind all the types: one cursor stays at the types, the other goes ahead to the values.
    let mut types = fields;
    for _ in 0..count {
        fields.u16()?;
        fields.lenenc_bytes()?;
    }
    for nth in 0..count {
        let kind = types.u16()?;
        types.lenenc_bytes()?;
        let is_null = nulls.get(nth / 8).is_some_and(|byte| byte >> (nth % 8) & 1 == 1);
        if !is_null {
            skip_binary_value(&mut fields, kind as u8)?;
        }
    }
    Ok(fields.rest())
}

/// Skips one value of the binary protocol, by its column type.
fn skip_binary_value(fields: &mut Fields<'_>, kind: u8) -> Result<(), Malformed> {
    match kind {
        0x06 => {}                                 // NULL
        0x01 => drop(fields.u8()?),                // TINY
        0x02 | 0x0D => drop(fields.u16()?),        // SHORT, YEAR
        0x03 | 0x04 | 0x09 => drop(fields.u32()?), // LONG, FLOAT, INT24
        0x05 | 0x08 => drop(fields.u64()?),        // DOUBLE, LONGLONG
        0x07 | 0x0A | 0x0B | 0x0C => {
            // TIMESTAMP, DATE, TIME, DATETIME: a length byte and that many bytes
            let len = fields.u8()?;
            fields.bytes(usize::from(len))?;
        }
        _ => drop(fields.lenenc_bytes()?), // strings, decimals, blobs, JSON, geometry ...
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_found_only_where_they_stand() {
        assert_eq!(statement_id(&[23, 1, 0, 0, 0, 0, 1, 0, 0, 0]), Some(1));
        assert_eq!(statement_id(&[250, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0]), Some(LAST_PREPARED));
        assert_eq!(statement_id(&[3, 1, 0, 0, 0]), None);
        assert_eq!(statement_id(&[25, 1, 0, 0]), None);
        assert_eq!(statement_id(&[]), None);
    }

    #[test]
    fn cursors_are_asked_for_by_one_flag() {
        assert!(asks_for_cursor(&[23, 1, 0, 0, 0, 1, 1, 0, 0, 0]));
        assert!(asks_for_cursor(&[23, 1, 0, 0, 0, 9])); // MySQL 8: with the number of parameters, too
        assert!(!asks_for_cursor(&[23, 1, 0, 0, 0, 0, 1, 0, 0, 0]));
        assert!(!asks_for_cursor(&[23, 1, 0, 0, 0]));
        assert!(!asks_for_cursor(&[250, 1, 0, 0, 0, 1, 0]));
    }

    #[test]
    fn names_and_answers() {
        assert_eq!(Command::STMT_BULK_EXECUTE.name(), "STMT_BULK_EXECUTE");
        assert_eq!(format!("{:?}", Command(99)), "COM_UNKNOWN(99)");
        assert!(!Command::STMT_CLOSE.answers());
        assert!(Command::STMT_RESET.answers());
        assert_eq!(Command::of(b"\x0e"), Some(Command::PING));
        assert_eq!(Command::of(b""), None);
    }

    #[test]
    fn text_stands_behind_the_byte() {
        assert_eq!(query_text(b"\x03select 1", Caps::NONE), Ok(&b"select 1"[..]));
        assert_eq!(query_text(b"\x16select ?", Caps::QUERY_ATTRIBUTES), Ok(&b"select ?"[..]));
        assert!(query_text(b"", Caps::NONE).is_err());
    }

    #[test]
    fn text_stands_behind_the_attributes() {
        let caps = Caps::QUERY_ATTRIBUTES;
        assert_eq!(query_text(b"\x03\x00\x01select 1", caps), Ok(&b"select 1"[..]));
        // two attributes: trace = 'abc' (VAR_STRING), n = NULL (LONGLONG); as mysql 8.0 sends them
        let with_two = b"\x03\x02\x01\x02\x01\xfd\x00\x05trace\x08\x00\x01n\x03abcselect 2";
        assert_eq!(query_text(with_two, caps), Ok(&b"select 2"[..]));
        assert!(query_text(b"\x03\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", caps).is_err());
    }

    proptest! {
        #[test]
        fn attributes_never_lead_past_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut payload = vec![3];
            payload.extend_from_slice(&bytes);
            if let Ok(text) = query_text(&payload, Caps::QUERY_ATTRIBUTES) {
                prop_assert!(payload.ends_with(text));
            }
        }
    }
}
