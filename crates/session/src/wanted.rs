//! What the client wants of its session, whatever node it stands on: schema, variables, user variables, prepared statements.
//!
//! Enters: what the server itself reports with each OK packet (session tracking), and for the few things that no server reports, the
//! scanner's word. Leaves: the statements that set the session up on a fresh link ([`Wanted::restore`]). What cannot be said again is noted
//! on the link ([`Standing::pin`]), since that link alone has it.
//!
//! Invariant: a session whose link has no pins, set up anew by [`Wanted::restore`] and by preparing its statements under what they were
//! bound to, cannot be told from the one before by any statement the proxy's documentation promises.

mod read_state;

use std::collections::BTreeMap;
use std::fmt::Write; // into a String it cannot fail
use std::sync::Arc;

use protocol::ok::{Change, OkPacket};
use protocol::statement::{
    Kind, NamesSaid, Pins, Recalls, Sets, Statement, names_said, unreported_variables,
};

use crate::bound::{BOUND, Bound, CHARSETS};
use crate::standing::{Doubt, Standing};
use crate::user_variables::UserVariables;
use crate::value::put_value;

pub use read_state::Tokens;

/// Of texts that set what the server reports: as many are kept, and each so long. Beyond this the session is pinned instead.
const SET_TEXTS_MAX: usize = 8;
const SET_BYTES_MAX: usize = 16 * 1024;

/// Always said first on a node: have it report what the session changes.
pub const TRACK: &str = "session_track_system_variables='*',session_track_state_change=1,session_track_schema=1,\
                         session_track_transaction_info='CHARACTERISTICS'";

/// Reported with each write where there is a binary log; only the server sets it.
const LAST_GTID: &[u8] = b"last_gtid";

/// They follow from the schema, unless the client has set them by themselves, until the next schema.
const OF_SCHEMA: [&str; 2] = ["character_set_database", "collation_database"];

/// Setting the first sets the second, too, and the server reports only what was said. The second is set behind the first, in whatever order
/// they were reported: the values are those at the statement's end.
const LED: [(&str, &str); 4] = [
    ("character_set_connection", "collation_connection"),
    ("character_set_server", "collation_server"),
    ("character_set_database", "collation_database"),
    ("max_join_size", "sql_big_selects"),
];

/// Variables whose reported value is not what the session has: a moment that was fixed or set back to the clock, what holds for one
/// statement and is gone when it was used, what each RAND() moves on; the node's number of the connection; and a moment that is told in the
/// time zone of then, and not at all (`DEFAULT`) in a form that can be set.
const NOT_KEPT: [&str; 7] = [
    "timestamp",
    "insert_id",
    "gtid_seq_no",
    "rand_seed1",
    "rand_seed2",
    "pseudo_thread_id",
    "system_versioning_asof",
];

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
    /// What was in force when it was prepared.
    pub bound: Arc<Bound>,
    /// The parameter types that were last bound (two bytes each); servers remember them between executions.
    pub types: Vec<u8>,
    /// Types were bound, and could not be seen: they stood too far behind in a command that was not kept.
    pub types_unseen: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Wanted {
    schema: Option<Box<[u8]>>,
    /// By name: the value, and when it was last reported. One that stands for another (an alias, a character set and its collation) is
    /// overruled by the later one.
    variables: BTreeMap<String, (u64, Box<[u8]>)>,
    /// Counts on with each report, and with each change of what [`Wanted::read_state`] says.
    reports: u64,
    /// SET NAMES and its like, as the client said it, and when. Only so does an answer's metadata get the collation, too.
    names: Option<(u64, String)>,
    user_variables: UserVariables,
    /// SET TRANSACTION for the next one, as the server reports it: one text, or none.
    next_transaction: String,
    /// SET session_track_..., as the client said them.
    tracking: Vec<String>,
    role: Option<String>,
    /// What LAST_INSERT_ID() is; `None` when only the node knows.
    insert_id: Option<u64>,
    /// What a statement that is prepared now is bound to; made when it is asked for.
    bound: Option<Arc<Bound>>,
    /// The client's prepared statements by the id the client knows.
    pub statements: BTreeMap<u32, Prepared>,
    last_statement: u32,
    last_prepared: Option<u32>,
    /// The last GTID that the session wrote under is kept.
    keeps_gtid: bool,
    last_gtid: Option<Box<str>>,
}

impl Wanted {
    /// A new session that logged in with `schema`.
    pub fn new(schema: Option<Vec<u8>>) -> Self {
        Self {
            schema: schema.map(Vec::into_boxed_slice),
            variables: BTreeMap::new(),
            reports: 0,
            names: None,
            user_variables: UserVariables::default(),
            next_transaction: String::new(),
            tracking: vec![],
            role: None,
            insert_id: Some(0),
            bound: None,
            statements: BTreeMap::new(),
            last_statement: 0,
            last_prepared: None,
            keeps_gtid: false,
            last_gtid: None,
        }
    }

    /// From now on the last GTID that the session wrote under is kept for [`Wanted::take_last_gtid`].
    pub fn keep_gtid(&mut self) {
        self.keeps_gtid = true;
    }

    /// The last GTID that the session wrote under, if the server has told one since this was asked.
    pub fn take_last_gtid(&mut self) -> Option<Box<str>> {
        self.last_gtid.take()
    }

    /// Something is set that holds for one transaction, or that changes what answers tell.
    pub fn has_terms_of_its_own(&self) -> bool {
        !self.next_transaction.is_empty() || !self.tracking.is_empty()
    }

    /// What a read depends on, but for the schema, as it is to be said on a fresh link.
    pub fn restore_for_reads(&self) -> Vec<String> {
        let mut statements: Vec<String> = self.role.iter().cloned().collect();
        statements.extend(self.charsets());
        statements.push(self.set_variables(format!("SET {TRACK}")));
        statements
    }

    /// The default schema now.
    pub fn schema(&self) -> Option<&[u8]> {
        self.schema.as_deref()
    }

    /// What LAST_INSERT_ID() is; `None` when only the node knows.
    pub fn insert_id(&self) -> Option<u64> {
        self.insert_id
    }

    /// What LAST_INSERT_ID() is, as the node said.
    pub fn learned_insert_id(&mut self, id: u64) {
        self.insert_id = Some(id);
    }

    /// The values of all user variables, as the node said, in statements that set them.
    pub fn learned_user_variables(&mut self, texts: Vec<String>) {
        self.user_variables = UserVariables::read(texts);
        self.reports += 1;
    }

    /// The value of a variable, as the node said when it was asked.
    pub fn learned_variable(&mut self, name: &str, value: &[u8], link: &mut Standing) {
        if self.changed(name) == Some(value) {
            return;
        }
        self.variable(name.as_bytes(), value, Sets::NONE, link);
    }

    /// The role, as the node said; `None` for none.
    pub fn learned_role(&mut self, role: Option<&str>, link: &mut Standing) {
        let role = match role {
            None => "NONE".to_owned(),
            Some(role) if role.bytes().all(|c| c.is_ascii_graphic() && c != b'`') => format!("`{role}`"),
            // In whatever character set the session has its answers.
            Some(_) => return link.pin(Pins::ROLE),
        };
        self.role = Some(format!("SET ROLE {role}"));
    }

    /// The names of the variables that the session has set, but for the character sets.
    pub fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str).filter(|name| !CHARSETS.contains(name))
    }

    /// What a statement prepared now is bound to.
    pub fn bound(&mut self) -> Arc<Bound> {
        if let Some(bound) = &self.bound {
            return bound.clone();
        }
        let bound = Bound::new(self.schema(), |name| self.changed(name), self.charsets());
        let bound = Arc::new(bound);
        self.bound = Some(bound.clone());
        bound
    }

    /// LAST_INSERT_ID() after a statement that succeeded, with `ok_id` in its OK packet. `gives`: whether its text, or its parameters, may have
    /// given that number.
    pub fn note_insert_id(
        &mut self,
        statement: &Statement,
        ok_id: u64,
        gives: impl FnOnce(u64) -> bool,
        link: &mut Standing,
    ) {
        let before = self.insert_id.filter(|_| link.forgotten(Recalls::INSERT_ID).is_empty());
        let after = statement.insert_id.after(before, ok_id, gives);
        self.insert_id = after;
        if after.is_some() {
            link.remembers(Recalls::INSERT_ID);
        }
    }

    /// The scanner saw a statement that succeeded: what it ties to the link, and what it lets go.
    pub fn succeeded(&mut self, text: &[u8], statement: &Statement, link: &mut Standing) {
        let mut pins = statement.pins;
        if statement.literal_user_variables {
            let is_kept = means_the_same_anywhere(text)
                && std::str::from_utf8(text).is_ok_and(|text| self.user_variables.keep(text));
            if is_kept {
                self.reports += 1;
                pins = pins.without(Pins::USER_VARIABLE);
            }
        }
        link.pin(pins);
        link.unpin(statement.unpins);
        if statement.calls || statement.calls_stored {
            link.ran_code();
        }
        self.set(text, statement, link);
        if statement.sets.has(Sets::UNREPORTED) {
            for name in unreported_variables(text, 0) {
                match std::str::from_utf8(name).map(str::to_ascii_lowercase) {
                    Ok(name) if NOT_KEPT.contains(&&*name) => link.pin(Pins::TIMESTAMP),
                    Ok(name) => link.must_ask(&name),
                    Err(_) => link.pin(Pins::UNNAMED),
                }
            }
            if text.is_empty() {
                link.pin(Pins::UNNAMED);
            }
        }
    }

    /// Keeps the texts of what no server reports.
    fn set(&mut self, text: &[u8], statement: &Statement, link: &mut Standing) {
        if statement.sets == Sets::NONE {
            return;
        }
        // Alone in its text: what stood beside it must not run a second time.
        let again = (statement.alone && statement.kind == Kind::SessionOnly && means_the_same_anywhere(text))
            .then(|| std::str::from_utf8(text).ok())
            .flatten()
            .filter(|text| !text.is_empty() && text.len() <= SET_BYTES_MAX);
        if statement.sets.has(Sets::TRACKING) {
            link.must_track();
            if !again.is_some_and(|text| keep(&mut self.tracking, text)) {
                link.pin(Pins::TRACKING);
            }
        }
        if statement.sets.has(Sets::ROLE) {
            match again {
                Some(text) => {
                    self.role = Some(text.to_owned());
                    link.unpin(Pins::ROLE);
                }
                None => link.pin(Pins::ROLE),
            }
        }
        if statement.sets.has(Sets::NAMES) || statement.sets.has(Sets::COLLATION) {
            self.names(text, statement, link);
        }
    }

    /// Keeps what a text says of names, and of nothing else: the rest of it is reported, and must not be set a second time.
    fn names(&mut self, text: &[u8], statement: &Statement, link: &mut Standing) {
        match names_said(text, 0) {
            NamesSaid::Only(said) if statement.alone && statement.kind == Kind::SessionOnly => {
                self.bound = None;
                self.reports += 1;
                // SET CHARACTER SET takes the collation from the schema of the moment: said again, it may be another.
                if said.starts_with("SET NAMES") {
                    link.need_not_ask("collation_connection");
                }
                self.names = Some((self.reports, said));
            }
            // The answers' metadata has the collation, too, and only this very statement says so.
            _ if statement.sets.has(Sets::COLLATION) && mentions_names(text) => link.pin(Pins::UNNAMED),
            _ => {}
        }
    }

    /// The scanner saw a statement that failed: it may have come far enough to pin. Of one statement alone, only what is done
    /// row by row: a table or a lock that it could not have is not held.
    pub fn failed(&mut self, statement: &Statement, link: &mut Standing) {
        const ROW_BY_ROW: Pins = Pins::GET_LOCK.union(Pins::USER_VARIABLE);
        let pins = statement.pins;
        let is_one = statement.alone && !statement.runs_several;
        if !statement.literal_user_variables {
            link.pin(if is_one { pins.without(pins.without(ROW_BY_ROW)) } else { pins });
        }
        // A failed INSERT may have made an id before it failed; an error tells none.
        self.insert_id = statement.insert_id.after_error(self.insert_id);
        if !statement.alone {
            if statement.sets.has(Sets::TRACKING) {
                link.must_track();
                link.pin(Pins::TRACKING);
            }
            if statement.sets.has(Sets::ROLE) {
                link.pin(Pins::ROLE);
            }
        }
        let runs_code = statement.calls || statement.calls_stored;
        if runs_code
            || (!statement.alone && statement.sets != Sets::NONE)
            || !self.next_transaction.is_empty()
        {
            // What it set before it failed stays, and no error tells.
            link.doubt(Doubt::MayHaveSet);
        }
    }

    /// Takes up what an OK packet reports of a statement that sets `sets`.
    pub fn ok(&mut self, ok: &OkPacket<'_>, meaning: Unnamed, sets: Sets, link: &mut Standing) {
        let (mut named, mut unnamed) = (false, false);
        let (mut leads, mut led) = ([false; LED.len()], [false; LED.len()]);
        let (mut schema, mut of_schema) = (false, vec![]);
        for change in ok.changes() {
            match change {
                Ok(Change::Schema(name)) => {
                    named = true;
                    schema = true;
                    self.bound = None;
                    self.schema = (!name.is_empty()).then(|| name.into());
                }
                // What it set is set back with the statement's end, and told with the next answer.
                Ok(Change::Variable { .. }) if sets.has(Sets::FOR_ONE_STATEMENT) => named = true,
                Ok(Change::Variable { name, value }) => {
                    named = true;
                    for (at, (first, second)) in LED.iter().enumerate() {
                        leads[at] |= name == first.as_bytes();
                        led[at] |= name == second.as_bytes();
                    }
                    if name == b"character_set_results" && meaning == Unnamed::Never {
                        // By a SET NAMES, perhaps with a collation, which the answers' metadata has then.
                        link.pin(Pins::UNNAMED);
                    }
                    match OF_SCHEMA.iter().find(|known| known.as_bytes() == name) {
                        Some(name) => of_schema.push((*name, value)),
                        None => self.variable(name, value, sets, link),
                    }
                }
                Ok(Change::StateChanged(true)) => unnamed = true,
                // The fourth letter: a table without transactions was written.
                Ok(Change::TransactionState(state)) if state.get(3) == Some(&b'w') => {
                    link.note_untransactional()
                }
                Ok(Change::Characteristics(text)) => self.transaction_to_come(text, link),
                Ok(_) => {}
                // A report we cannot read may hide anything.
                Err(_) => link.pin(Pins::UNNAMED),
            }
        }
        if schema {
            self.variables.retain(|name, _| !OF_SCHEMA.contains(&name.as_str()));
        } else {
            for (name, value) in of_schema {
                self.put(name, value, link);
            }
        }
        for (at, (first, second)) in LED.iter().enumerate() {
            if leads[at] && !led[at] && !(schema && OF_SCHEMA.contains(first)) {
                // It has changed with the first, and no server says to which.
                self.variables.remove(*second);
                self.bound = None;
                // A character set that was named brings its default.
                if sets != Sets::NAMES || *second != "collation_connection" {
                    link.must_ask(second);
                }
            }
        }
        let is_unknown = match meaning {
            Unnamed::Expected => false,
            Unnamed::UnlessNamed => !named,
            Unnamed::Never => true,
        };
        // Told only now, it may be what failed code did before.
        if unnamed && (is_unknown || link.is_in_doubt()) {
            link.doubt(Doubt::HasSet);
        } else if !unnamed && (named || ok.changes().next().is_some()) {
            // It would have said so by now.
            link.settle_doubt();
        }
    }

    /// SET TRANSACTION as the server would have it said elsewhere; it is used up when one begins.
    fn transaction_to_come(&mut self, text: &[u8], link: &mut Standing) {
        self.next_transaction.clear();
        match std::str::from_utf8(text) {
            Ok(text) if text.contains("START TRANSACTION") || text.contains("XA START") => {}
            Ok(text) if is_set_transaction(text) => self.next_transaction.push_str(text),
            // It would be said on another node: nothing else is.
            _ => link.pin(Pins::UNNAMED),
        }
    }

    /// The answer of `statement` ended with rows, in the old form that says only that something changed; a later answer says what.
    pub fn changed_untold(&self, statement: &Statement, link: &mut Standing) {
        if statement.calls_stored {
            link.doubt(Doubt::HasSet);
        } else if !self.next_transaction.is_empty() {
            // Perhaps it has begun.
            link.doubt(Doubt::MayHaveSet);
        }
    }

    fn variable(&mut self, name: &[u8], value: &[u8], sets: Sets, link: &mut Standing) {
        match name {
            b"session_track_system_variables"
            | b"session_track_schema"
            | b"session_track_state_change"
            | b"session_track_transaction_info" => {
                let is_ours =
                    value == b"*" || value == b"CHARACTERISTICS" || value.eq_ignore_ascii_case(b"ON");
                // A text that says so is kept, see `set`; what did it in any other way cannot be said again.
                if !is_ours && !sets.has(Sets::TRACKING) {
                    link.must_track();
                    link.pin(Pins::TRACKING);
                }
            }
            b"last_insert_id" | b"identity" => {
                let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.insert_id = number;
                if number.is_some() {
                    link.remembers(Recalls::INSERT_ID);
                }
            }
            LAST_GTID => {
                link.remembers(Recalls::LAST_GTID);
                if self.keeps_gtid {
                    self.last_gtid = std::str::from_utf8(value).ok().map(Into::into);
                }
            }
            name if NOT_KEPT.iter().any(|known| known.as_bytes() == name) => link.pin(Pins::TIMESTAMP),
            name => match std::str::from_utf8(name) {
                Ok(name) if name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'.') => {
                    self.put(name, value, link);
                }
                // No server names a variable so: nothing that could be set again.
                _ => link.pin(Pins::UNNAMED),
            },
        }
    }

    fn put(&mut self, name: &str, value: &[u8], link: &mut Standing) {
        if BOUND.contains(&name) || CHARSETS.contains(&name) {
            self.bound = None;
        }
        if CHARSETS.contains(&name) && self.user_variables.have_strings() {
            // Said again under another character set, their texts would be other texts: the node knows what they are.
            self.user_variables = UserVariables::default();
            link.pin(Pins::USER_VARIABLE);
        }
        self.reports += 1;
        match self.variables.get_mut(name) {
            Some(known) => *known = (self.reports, value.into()),
            None => _ = self.variables.insert(name.to_owned(), (self.reports, value.into())),
        }
    }

    /// Whether a node that is told COM_RESET_CONNECTION undoes all that this session did on `link`. Not the role; of the clock, and of
    /// what nobody can name, that is not known.
    pub fn is_undone_by_reset(&self, link: &Standing) -> bool {
        const DOUBTFUL: Pins = Pins::ROLE.union(Pins::TIMESTAMP).union(Pins::UNNAMED);
        let pins = link.pins();
        self.role.is_none() && pins.without(DOUBTFUL) == pins
    }

    /// COM_RESET_CONNECTION: all is as after the login but the schema. The role, too, which MariaDB leaves to whoever has the connection next.
    pub fn reset(&mut self) {
        let schema = self.schema.take().map(Vec::from);
        *self = Self {
            last_statement: self.last_statement,
            keeps_gtid: self.keeps_gtid,
            reports: self.reports + 1,
            ..Self::new(schema)
        };
    }

    /// The id the client is told for the statement it prepares next.
    pub fn next_statement(&self) -> u32 {
        self.last_statement.wrapping_add(1)
    }

    /// Remembers a statement the node just prepared, under [`Wanted::next_statement`], which is given back.
    pub fn prepared(&mut self, sql: &[u8], scanned: Statement, params: u16) -> u32 {
        self.last_statement = self.next_statement();
        let bound = self.bound();
        let statement =
            Prepared { sql: sql.into(), scanned, params, bound, types: vec![], types_unseen: false };
        self.statements.insert(self.last_statement, statement);
        self.last_prepared = Some(self.last_statement);
        self.last_statement
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
        self.variables.get(name).map(|(_, value)| &**value)
    }

    /// Statements that were prepared without a default schema, while the session has one now: no statement takes a schema away, so they are
    /// prepared before the session takes its own.
    pub fn without_schema(&self) -> impl Iterator<Item = (u32, &Prepared)> {
        let has_schema = self.schema.is_some();
        self.statements
            .iter()
            .filter(move |(_, statement)| {
                has_schema && statement.bound.schema.is_none() && !statement.sql.is_empty()
            })
            .map(|(&id, statement)| (id, statement))
    }

    /// What makes the character sets of a fresh link the session's.
    fn charsets(&self) -> Vec<String> {
        let names_at = self.names.as_ref().map_or(0, |(at, _)| *at);
        let mut later: Vec<_> = CHARSETS
            .iter()
            .filter_map(|name| self.variables.get(*name).map(|(at, value)| (*at, *name, value)))
            .filter(|(at, _, _)| *at > names_at)
            .collect();
        later.sort_unstable_by_key(|(at, name, _)| (is_led(name), *at));
        let mut statements: Vec<String> = self.names.iter().map(|(_, text)| text.clone()).collect();
        if !later.is_empty() {
            let mut set = String::from("SET ");
            for (_, name, value) in later {
                let comma = if set.ends_with(' ') { "" } else { "," };
                let _ = write!(set, "{comma}`{name}`=");
                put_value(&mut set, name, value);
            }
            statements.push(set);
        }
        statements
    }

    /// What to say on a fresh link, in order, before the client's first statement. The schema is part of the login.
    pub fn restore(&self) -> Vec<String> {
        let mut set = format!("SET {TRACK}");
        let mut statements: Vec<String> = self.role.iter().chain(&self.tracking).cloned().collect();
        if let Some(id) = self.insert_id
            && id != 0
        {
            let _ = write!(set, ",last_insert_id={id}");
        }
        let set = self.set_variables(set);
        // Variables behind: a SET NAMES may have set some of them, too, which were changed since. And behind what the client said of
        // tracking, with the values that came of it.
        statements.extend(self.charsets());
        statements.push(set);
        statements.extend(self.user_variables.texts().map(str::to_owned));
        let to_come = self.next_transaction.split(';').map(str::trim).filter(|text| !text.is_empty());
        statements.extend(to_come.map(str::to_owned));
        statements
    }

    /// Adds the variables that the session has set to a SET, but for the character sets.
    fn set_variables(&self, mut set: String) -> String {
        let mut variables: Vec<_> = self.variables.iter().collect();
        variables.sort_by_key(|(name, (report, _))| (is_led(name), *report));
        for (name, (_, value)) in variables {
            if !CHARSETS.contains(&name.as_str()) {
                let _ = write!(set, ",`{name}`=");
                put_value(&mut set, name, value);
            }
        }
        set
    }
}

/// Whether it is one SET TRANSACTION behind the other, and nothing else.
fn is_set_transaction(text: &str) -> bool {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let seen = Statement::of(part.as_bytes());
        seen.alone && seen.kind == Kind::SessionOnly && seen.sets == Sets::TRANSACTION && part.is_ascii()
    })
}

/// Whether a variable is to be set behind others: see [`LED`].
fn is_led(name: &str) -> bool {
    LED.iter().any(|(_, led)| *led == name)
}

/// Whether a text may say NAMES or CHARACTER SET, which sets everything that the connection has of the kind; one that was not kept may.
fn mentions_names(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
    text.is_empty() || has(b"NAMES") || has(b"CHARSET") || has(b"CHARACTER SET")
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

#[cfg(test)]
mod tests;
