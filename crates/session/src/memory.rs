//! What a session has set up on its node, as far as it can be set up again elsewhere, and what cannot be.
//!
//! Enters: what the server itself reports with each OK packet (session tracking), and for the few things that no server
//! reports, the scanner's word. Leaves: the statements that rebuild the session on another node ([`Memory::restore`]), or the
//! names of what stands in the way ([`Memory::pins`]).
//!
//! Invariant: a session with no pins, restored by [`Memory::restore`] and by preparing its statements again, cannot be told
//! from the session that was lost by any statement the proxy's documentation promises.

use std::collections::BTreeMap;
use std::fmt::Write; // into a String it cannot fail

use protocol::ok::{Change, OkPacket};
use protocol::statement::{Kind, Pins, Statement};

/// User-variable statements kept for replay: beyond this the session is pinned instead.
const USER_VARIABLE_TEXTS_MAX: usize = 32;
const USER_VARIABLE_BYTES_MAX: usize = 16 * 1024;

/// Always said first on a node: have it report what the session changes.
const TRACK: &str = "session_track_system_variables='*',session_track_state_change=1,session_track_schema=1";

/// Variables that are reported but must not be set again: they follow from the schema, or are ours.
const NOT_RESTORED: [&[u8]; 6] = [
    b"character_set_database",
    b"collation_database",
    b"session_track_schema",
    b"session_track_state_change",
    b"session_track_transaction_info",
    b"last_insert_id",
];

/// One prepared statement of the client.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its text, to prepare it again elsewhere.
    pub sql: Box<[u8]>,
    /// What it is.
    pub scanned: Statement,
    /// Number of parameters.
    pub params: u16,
    /// The parameter types that were last bound (two bytes each); servers remember them between executions.
    pub types: Vec<u8>,
    /// The present node has been told the types.
    pub types_on_node: bool,
    /// Its id on the present node; `None` until it is prepared there.
    pub on_node: Option<u32>,
    /// Long data was sent for it and not yet used.
    pub long_data: bool,
    /// A cursor is open on it.
    pub cursor: bool,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Memory {
    schema: Option<Box<[u8]>>,
    variables: BTreeMap<String, Box<[u8]>>,
    user_variables: Vec<String>,
    next_transaction: Option<String>,
    last_insert_id: u64,
    pins: Pins,
    /// The client's prepared statements by the id the client knows.
    pub statements: BTreeMap<u32, Prepared>,
    last_statement: u32,
}

impl Memory {
    /// A new session that logged in with `schema`.
    pub fn new(schema: Option<Vec<u8>>) -> Self {
        Self { schema: schema.map(Vec::into_boxed_slice), ..Self::default() }
    }

    /// The default schema now.
    pub fn schema(&self) -> Option<&[u8]> {
        self.schema.as_deref()
    }

    /// What stands in the way of moving this session, by name; empty when it can move.
    pub fn pins(&self) -> Pins {
        let mut pins = self.pins;
        for statement in self.statements.values() {
            if statement.long_data {
                pins = pins.union(Pins::LONG_DATA);
            }
            if statement.cursor {
                pins = pins.union(Pins::CURSOR);
            }
        }
        pins
    }

    /// The scanner saw a statement that succeeded: what it pins, and what it lets go.
    pub fn succeeded(&mut self, text: &[u8], statement: &Statement) {
        let mut pins = statement.pins;
        if statement.literal_user_variables {
            let used: usize = self.user_variables.iter().map(String::len).sum();
            if self.user_variables.len() < USER_VARIABLE_TEXTS_MAX
                && used + text.len() <= USER_VARIABLE_BYTES_MAX
                && let Ok(text) = std::str::from_utf8(text)
            {
                self.user_variables.push(text.to_owned());
                pins = pins.without(Pins::USER_VARIABLE);
            }
        }
        self.pins = (self.pins.union(pins)).without(statement.unpins);
        if is_set_transaction(text) {
            self.next_transaction = Some(String::from_utf8_lossy(text).into_owned());
        } else if statement.kind != Kind::SessionOnly {
            self.next_transaction = None;
        }
    }

    /// Takes up what an OK packet reports. `expected_state_change`: the scanner can name what the statement changed, so an
    /// unnamed "state changed" adds nothing.
    pub fn ok(&mut self, ok: &OkPacket<'_>, expected_state_change: bool) {
        if ok.last_insert_id != 0 {
            self.last_insert_id = ok.last_insert_id;
        }
        let (mut named, mut unnamed) = (false, false);
        for change in ok.changes() {
            match change {
                Ok(Change::Schema(schema)) => {
                    named = true;
                    self.schema = (!schema.is_empty()).then(|| schema.into());
                }
                Ok(Change::Variable { name, value }) => {
                    named = true;
                    self.variable(name, value);
                }
                Ok(Change::StateChanged(true)) => unnamed = true,
                Ok(_) => {}
                // A report we cannot read may hide anything.
                Err(_) => self.pins = self.pins.union(Pins::UNNAMED),
            }
        }
        if unnamed && !named && !expected_state_change {
            self.pins = self.pins.union(Pins::UNNAMED);
        }
    }

    fn variable(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"session_track_system_variables" if value != b"*" => self.pins = self.pins.union(Pins::TRACKING),
            // The server reports a moment, and does not say whether it was fixed or set back to the clock; an insert_id holds for
            // one statement, and nobody says when it was used.
            b"timestamp" | b"insert_id" => self.pins = self.pins.union(Pins::TIMESTAMP),
            name if NOT_RESTORED.contains(&name) || name == b"session_track_system_variables" => {}
            name => match std::str::from_utf8(name) {
                Ok(name) if name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'.') => {
                    self.variables.insert(name.to_owned(), value.into());
                }
                // No server names a variable so: nothing that could be set again.
                _ => self.pins = self.pins.union(Pins::UNNAMED),
            },
        }
    }

    /// COM_RESET_CONNECTION: all is as after the login but the schema.
    pub fn reset(&mut self) {
        *self = Self { schema: self.schema.take(), last_statement: self.last_statement, ..Self::default() };
    }

    /// The id the client is told for the statement it prepares next.
    pub fn next_statement(&self) -> u32 {
        self.last_statement.wrapping_add(1)
    }

    /// Remembers a statement the node just prepared, under [`Memory::next_statement`].
    pub fn prepared(&mut self, sql: &[u8], scanned: Statement, on_node: u32, params: u16) {
        self.last_statement = self.next_statement();
        let statement = Prepared {
            sql: sql.into(),
            scanned,
            params,
            types: vec![],
            types_on_node: false,
            on_node: Some(on_node),
            long_data: false,
            cursor: false,
        };
        self.statements.insert(self.last_statement, statement);
    }

    /// The id of the statement prepared last (MariaDB clients may name it 0xFFFFFFFF).
    pub fn last_prepared(&self) -> u32 {
        self.last_statement
    }

    /// The link to the node is gone: no statement is prepared anywhere.
    pub fn unprepare_all(&mut self) {
        for statement in self.statements.values_mut() {
            statement.on_node = None;
            statement.types_on_node = false;
        }
    }

    /// What to say on a fresh connection, in order, before the client's first statement. The schema is part of the login.
    pub fn restore(&self) -> Vec<String> {
        let mut set = format!("SET {TRACK}");
        if self.last_insert_id != 0 {
            let _ = write!(set, ",last_insert_id={}", self.last_insert_id);
        }
        for (name, value) in &self.variables {
            let _ = write!(set, ",`{name}`=");
            put_value(&mut set, name, value);
        }
        let mut statements = vec![set];
        statements.extend(self.user_variables.iter().cloned());
        statements.extend(self.next_transaction.iter().cloned());
        statements
    }
}

/// Writes a reported value as SQL. Numbers go bare, since numeric variables refuse quoted ones; an empty character set is NULL;
/// text goes as hexadecimal, which is right under any sql_mode and character set, with an introducer, because a bare
/// hexadecimal literal counts as a number for some variables.
fn put_value(out: &mut String, name: &str, value: &[u8]) {
    if value.is_empty() {
        out.push_str(if name.starts_with("character_set_") { "NULL" } else { "''" });
    } else if is_number(value) {
        out.push_str(&String::from_utf8_lossy(value));
    } else {
        out.push_str("_utf8mb4 0x");
        for byte in value {
            let _ = write!(out, "{byte:02X}");
        }
    }
}

/// `SET TRANSACTION ...`, without SESSION or GLOBAL: holds for the next transaction only, and no server reports it.
pub fn is_set_transaction(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut next_is = |word: &[u8]| words.next().is_some_and(|found| found.eq_ignore_ascii_case(word));
    next_is(b"SET") && next_is(b"TRANSACTION")
}

fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let mut dots = 0;
    digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|&c| {
            dots += usize::from(c == b'.');
            c.is_ascii_digit() || (c == b'.' && dots == 1)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_bare_and_text_goes_safe() {
        let value = |name, value| {
            let mut out = String::new();
            put_value(&mut out, name, value);
            out
        };
        assert_eq!(value("x", b"-12.5"), "-12.5");
        assert_eq!(value("sql_mode", b"a'b"), "_utf8mb4 0x612762");
        assert_eq!(value("sql_mode", b""), "''");
        assert_eq!(value("character_set_results", b""), "NULL");
        assert!(!is_number(b"1.2.3") && !is_number(b"+00:00") && !is_number(b"-") && is_number(b"0"));
    }

    #[test]
    fn what_a_session_set_comes_back() {
        let mut memory = Memory::new(Some(b"shop".to_vec()));
        memory.variable(b"autocommit", b"OFF");
        memory.variable(b"character_set_database", b"latin1");
        memory.variable(b"wait_timeout", b"100");
        let first = memory.restore().remove(0);
        assert_eq!(first, format!("SET {TRACK},`autocommit`=_utf8mb4 0x4F4646,`wait_timeout`=100"));
        assert_eq!(memory.pins(), Pins::default());
        memory.variable(b"timestamp", b"1");
        assert_eq!(memory.pins(), Pins::TIMESTAMP);
        memory.reset();
        assert_eq!(memory.pins(), Pins::default());
        assert_eq!(memory.schema(), Some(&b"shop"[..]));
    }
}
