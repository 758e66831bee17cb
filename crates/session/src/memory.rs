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
use protocol::statement::{Kind, Pins, Sets, Statement};

/// User-variable statements kept for replay: beyond this the session is pinned instead.
const USER_VARIABLE_TEXTS_MAX: usize = 32;
const USER_VARIABLE_BYTES_MAX: usize = 16 * 1024;
/// The same for texts that set what the server reports, and for SET TRANSACTION.
const SET_TEXTS_MAX: usize = 8;

/// Always said first on a node: have it report what the session changes.
pub const TRACK: &str =
    "session_track_system_variables='*',session_track_state_change=1,session_track_schema=1";

/// Variables that are reported but must not be set again: they follow from the schema, or are ours.
const NOT_RESTORED: [&[u8]; 3] =
    [b"character_set_database", b"collation_database", b"session_track_transaction_info"];

/// What a "state changed" without a name means for the statement that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// The scanner can name what the statement changed.
    Expected,
    /// It is what the same answer names, if it names anything.
    UnlessNamed,
    /// A procedure ran: what is named need not be all.
    Never,
}

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
    /// Types were bound, and could not be seen: they stood too far behind in a command that was not kept.
    pub types_unseen: bool,
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
    /// SET TRANSACTION, for the next one.
    next_transaction: Vec<String>,
    /// SET session_track_..., as the client said them.
    tracking: Vec<String>,
    /// The present node may no longer report all that it is asked for: it must be asked again.
    must_track: bool,
    role: Option<String>,
    last_insert_id: u64,
    pins: Pins,
    /// The client's prepared statements by the id the client knows.
    pub statements: BTreeMap<u32, Prepared>,
    last_statement: u32,
    last_prepared: Option<u32>,
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
            // No server prepares an empty text: it was streamed.
            if statement.sql.is_empty() {
                pins = pins.union(Pins::LONG_STATEMENT);
            }
        }
        pins
    }

    /// The scanner saw a statement that succeeded: what it pins, and what it lets go.
    pub fn succeeded(&mut self, text: &[u8], statement: &Statement) {
        let mut pins = statement.pins;
        if statement.literal_user_variables {
            // Said again, it takes the place of what it said before.
            self.user_variables.retain(|known| known.as_bytes() != text);
            let used: usize = self.user_variables.iter().map(String::len).sum();
            if self.user_variables.len() < USER_VARIABLE_TEXTS_MAX
                && used + text.len() <= USER_VARIABLE_BYTES_MAX
                && means_the_same_anywhere(text)
                && let Ok(text) = std::str::from_utf8(text)
            {
                self.user_variables.push(text.to_owned());
                pins = pins.without(Pins::USER_VARIABLE);
            }
        }
        self.pins = (self.pins.union(pins)).without(statement.unpins);
        self.set(text, statement);
        if statement.kind != Kind::SessionOnly {
            self.next_transaction.clear();
        }
    }

    /// Keeps the texts of what no server reports.
    fn set(&mut self, text: &[u8], statement: &Statement) {
        if statement.sets == Sets::NONE {
            return;
        }
        // Alone in its text: what stood beside it must not run a second time.
        let again = (statement.alone && statement.kind == Kind::SessionOnly && means_the_same_anywhere(text))
            .then(|| std::str::from_utf8(text).ok())
            .flatten()
            .filter(|text| !text.is_empty() && text.len() <= USER_VARIABLE_BYTES_MAX);
        if statement.sets.has(Sets::TRACKING) {
            self.must_track = true;
            if !again.is_some_and(|text| keep(&mut self.tracking, text)) {
                self.pins = self.pins.union(Pins::TRACKING);
            }
        }
        if statement.sets.has(Sets::ROLE) {
            match again {
                Some(text) => {
                    self.role = Some(text.to_owned());
                    self.pins = self.pins.without(Pins::ROLE);
                }
                None => self.pins = self.pins.union(Pins::ROLE),
            }
        }
        if statement.sets.has(Sets::TRANSACTION)
            && let Some(text) = again
        {
            keep(&mut self.next_transaction, text);
        }
    }

    /// The scanner saw a statement that failed: it may have come far enough to pin. Of one statement alone, only what is done
    /// row by row: a table or a lock that it could not have is not held.
    pub fn failed(&mut self, statement: &Statement) {
        const ROW_BY_ROW: Pins = Pins::GET_LOCK.union(Pins::USER_VARIABLE);
        let pins = statement.pins;
        let is_one = statement.alone && !statement.runs_several;
        if !statement.literal_user_variables {
            self.pins = self.pins.union(if is_one { pins.without(pins.without(ROW_BY_ROW)) } else { pins });
        }
        if !statement.alone {
            if statement.sets.has(Sets::TRACKING) {
                self.must_track = true;
                self.pins = self.pins.union(Pins::TRACKING);
            }
            if statement.sets.has(Sets::ROLE) {
                self.pins = self.pins.union(Pins::ROLE);
            }
        }
    }

    /// The node must be told [`TRACK`] again, since the client changed what it reports. Asked once, it is taken for done.
    pub fn take_must_track(&mut self) -> bool {
        std::mem::take(&mut self.must_track)
    }

    /// Takes up what an OK packet reports of a statement that sets `sets`.
    pub fn ok(&mut self, ok: &OkPacket<'_>, meaning: Unnamed, sets: Sets) {
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
                    self.variable(name, value, sets);
                }
                Ok(Change::StateChanged(true)) => unnamed = true,
                Ok(_) => {}
                // A report we cannot read may hide anything.
                Err(_) => self.pins = self.pins.union(Pins::UNNAMED),
            }
        }
        let is_unknown = match meaning {
            Unnamed::Expected => false,
            Unnamed::UnlessNamed => !named,
            Unnamed::Never => true,
        };
        if unnamed && is_unknown {
            self.pins = self.pins.union(Pins::UNNAMED);
        }
    }

    fn variable(&mut self, name: &[u8], value: &[u8], sets: Sets) {
        match name {
            b"session_track_system_variables" | b"session_track_schema" | b"session_track_state_change" => {
                let is_ours = value == b"*" || value.eq_ignore_ascii_case(b"ON");
                // A text that says so is kept, see `set`; what did it in any other way cannot be said again.
                if !is_ours && !sets.has(Sets::TRACKING) {
                    self.must_track = true;
                    self.pins = self.pins.union(Pins::TRACKING);
                }
            }
            b"last_insert_id" | b"identity" => {
                let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.last_insert_id = number.unwrap_or(self.last_insert_id);
            }
            // The server reports a moment, and does not say whether it was fixed or set back to the clock; an insert_id holds for
            // one statement, and nobody says when it was used.
            b"timestamp" | b"insert_id" => self.pins = self.pins.union(Pins::TIMESTAMP),
            name if NOT_RESTORED.contains(&name) => {}
            name => match std::str::from_utf8(name) {
                Ok(name) if name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'.') => {
                    self.variables.insert(name.to_owned(), value.into());
                }
                // No server names a variable so: nothing that could be set again.
                _ => self.pins = self.pins.union(Pins::UNNAMED),
            },
        }
    }

    /// Whether a node that is told COM_RESET_CONNECTION undoes all that this session did on it. Of a role, of the clock, and of what
    /// nobody can name, that is not known.
    pub fn is_undone_by_reset(&self) -> bool {
        const DOUBTFUL: Pins = Pins::ROLE.union(Pins::TIMESTAMP).union(Pins::UNNAMED);
        self.role.is_none() && self.pins.without(DOUBTFUL) == self.pins
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
            types_unseen: false,
            types_on_node: false,
            on_node: Some(on_node),
            long_data: false,
            cursor: false,
        };
        self.statements.insert(self.last_statement, statement);
        self.last_prepared = Some(self.last_statement);
    }

    /// A preparation begins: until it has ended well, no statement is the one prepared last.
    pub fn preparing(&mut self) {
        self.last_prepared = None;
    }

    /// The id of the statement prepared last (MariaDB clients may name it 0xFFFFFFFF), if that went well and it is not closed.
    pub fn last_prepared(&self) -> Option<u32> {
        self.last_prepared
    }

    /// Forgets a statement that the client closed.
    pub fn close(&mut self, id: u32) {
        self.statements.remove(&id);
        if self.last_prepared == Some(id) {
            self.last_prepared = None;
        }
    }

    /// The value of a variable that the session changed.
    pub fn changed(&self, name: &str) -> Option<&[u8]> {
        self.variables.get(name).map(AsRef::as_ref)
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
        let mut statements: Vec<String> = self.role.iter().chain(&self.tracking).cloned().collect();
        // Behind what the client said of tracking, and with the values that came of it.
        statements.push(set);
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

/// Adds a text behind the others, in the order of the last time it was said. False when there is no more room.
fn keep(texts: &mut Vec<String>, text: &str) -> bool {
    texts.retain(|known| known != text);
    let has_room = texts.len() < SET_TEXTS_MAX;
    if has_room {
        texts.push(text.to_owned());
    }
    has_room
}

/// Whether a text's strings end at the same place under any sql_mode: it may be said again after the mode has changed, and on
/// another node the mode is restored first. (NO_BACKSLASH_ESCAPES and ANSI_QUOTES decide the rest.)
fn means_the_same_anywhere(text: &[u8]) -> bool {
    !text.contains(&b'\\') && !text.contains(&b'"')
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

    fn after(texts: &[&str]) -> Memory {
        let mut memory = Memory::default();
        for text in texts {
            memory.succeeded(text.as_bytes(), &Statement::of(text.as_bytes()));
        }
        memory
    }

    #[test]
    fn nothing_beside_a_set_transaction_is_said_again() {
        assert_eq!(after(&["SET TRANSACTION READ ONLY"]).restore()[1..], ["SET TRANSACTION READ ONLY"]);
        let both = after(&["SET TRANSACTION READ ONLY; INSERT INTO t VALUES (1)"]);
        assert_eq!(both.restore().len(), 1, "the INSERT would run twice");
    }

    #[test]
    fn what_no_server_reports_is_said_again() {
        let both = ["/* a */ SET TRANSACTION READ ONLY", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"];
        assert_eq!(after(&both).restore()[1..], both);
        assert_eq!(after(&[both[0], "SELECT 1"]).restore().len(), 1, "it was for one transaction");
        let role = after(&["SET ROLE a", "SET ROLE b"]);
        assert_eq!((role.restore()[0].as_str(), role.pins()), ("SET ROLE b", Pins::NONE));
        assert_eq!(after(&["SET ROLE a; SELECT 1"]).pins(), Pins::ROLE);
        let java = "set sql_mode=CONCAT(@@sql_mode,',ANSI'),session_track_system_variables=CONCAT('a',',b')";
        let mut tracked = after(&[java]);
        assert_eq!((tracked.restore()[0].as_str(), tracked.pins()), (java, Pins::NONE));
        assert!(tracked.restore()[1].starts_with(&format!("SET {TRACK}")));
        assert!(tracked.take_must_track() && !tracked.take_must_track());
        assert_eq!(after(&["SET session_track_schema=OFF; SELECT 1"]).pins(), Pins::TRACKING);
        // Done by a procedure, which the text does not show.
        tracked.variable(b"session_track_schema", b"OFF", Sets::NONE);
        assert!(tracked.pins() == Pins::TRACKING && tracked.take_must_track());
        tracked.variable(b"identity", b"7", Sets::NONE);
        assert!(tracked.restore()[1].contains(",last_insert_id=7"), "{:?}", tracked.restore());
    }

    #[test]
    fn a_user_variable_set_again_takes_no_more_room() {
        let texts = ["SET @a = 1", "SET @a = 2"].repeat(USER_VARIABLE_TEXTS_MAX);
        let memory = after(&texts);
        assert_eq!(memory.restore()[1..], texts[..2]);
        assert_eq!(memory.pins(), Pins::NONE);
    }

    #[test]
    fn what_failed_may_pin_all_the_same() {
        let mut memory = Memory::default();
        memory.failed(&Statement::of(b"SET @a = 1"));
        assert_eq!(memory.pins(), Pins::NONE);
        for alone in ["CREATE TEMPORARY TABLE t (a INT)", "LOCK TABLES t WRITE", "HANDLER t OPEN"] {
            memory.failed(&Statement::of(alone.as_bytes()));
            assert_eq!(memory.pins(), Pins::NONE, "{alone}");
        }
        memory.failed(&Statement::of(b"SELECT GET_LOCK('a', 1), f()"));
        assert_eq!(memory.pins(), Pins::GET_LOCK);
        memory.failed(&Statement::of(b"CREATE TEMPORARY TABLE t (a INT); SELECT nonsense"));
        assert_eq!(memory.pins(), Pins::TEMP_TABLE.union(Pins::GET_LOCK));
    }

    #[test]
    fn the_statement_prepared_last_is_forgotten_in_time() {
        let mut memory = Memory::default();
        memory.prepared(b"SELECT 1", Statement::of(b"SELECT 1"), 9, 0);
        assert_eq!(memory.last_prepared(), Some(1));
        memory.preparing();
        assert_eq!(memory.last_prepared(), None);
        memory.prepared(b"SELECT 2", Statement::of(b"SELECT 2"), 10, 0);
        memory.close(2);
        assert_eq!(memory.last_prepared(), None);
        memory.prepared(b"", Statement::of(b""), 11, 0);
        assert_eq!(memory.pins(), Pins::LONG_STATEMENT);
    }

    #[test]
    fn a_text_that_another_sql_mode_would_read_otherwise_is_not_said_again() {
        assert_eq!(after(&["SET @a = 'it''s'"]).restore()[1..], ["SET @a = 'it''s'"]);
        // Under NO_BACKSLASH_ESCAPES the string ends early, and what follows in it would be run.
        let escaped = after(&[r"SET @a = 'x\'; DROP TABLE t; -- '", "SET sql_mode = NO_BACKSLASH_ESCAPES"]);
        assert_eq!((escaped.restore().len(), escaped.pins()), (1, Pins::USER_VARIABLE));
        let quoted = after(&[r#"SET @a = "b""#]);
        assert_eq!((quoted.restore().len(), quoted.pins()), (1, Pins::USER_VARIABLE));
    }

    #[test]
    fn what_a_session_set_comes_back() {
        let mut memory = Memory::new(Some(b"shop".to_vec()));
        memory.variable(b"autocommit", b"OFF", Sets::NONE);
        memory.variable(b"character_set_database", b"latin1", Sets::NONE);
        memory.variable(b"wait_timeout", b"100", Sets::NONE);
        let first = memory.restore().remove(0);
        assert_eq!(first, format!("SET {TRACK},`autocommit`=_utf8mb4 0x4F4646,`wait_timeout`=100"));
        assert_eq!(memory.pins(), Pins::default());
        assert!(memory.is_undone_by_reset());
        memory.variable(b"timestamp", b"1", Sets::NONE);
        assert_eq!(memory.pins(), Pins::TIMESTAMP);
        assert!(!memory.is_undone_by_reset());
        memory.reset();
        assert!(memory.is_undone_by_reset() && !after(&["SET ROLE a"]).is_undone_by_reset());
        assert_eq!(memory.pins(), Pins::default());
        assert_eq!(memory.schema(), Some(&b"shop"[..]));
    }
}
