//! The session's state as the client wants it, on whichever node: schema, variables, user variables, prepared statements.
//!
//! Enters: what the server reports with each OK packet (session tracking), and for the few things that no server reports, the scanner's
//! result. Leaves: the statements that set up the session on a new link ([`Wanted::restore`]). What cannot be set up by a statement is
//! noted on the link ([`Standing::pin`]), since only that link has it.
//!
//! Invariant: a session whose link has no pins can be set up by [`Wanted::restore`], and by preparing its statements under the settings
//! they were bound to, so that no statement covered by the proxy's documentation shows a difference.

mod read_state;

use std::collections::BTreeMap;
use std::fmt::Write; // into a String it cannot fail
use std::sync::Arc;

use protocol::ok::{Change, OkPacket, status};
use protocol::statement::{
    NamesSaid, Pins, Recalls, Sets, Statement, StatementKind, names_said, unreported_variables,
};

use topology::flavor::Flavor;

use crate::bound::{BOUND, Bound, CHARSETS};
use crate::finish::Finish;
use crate::standing::{Standing, UnreportedChange};
use crate::user_variables::UserVariables;
use crate::value::put_value;

pub use read_state::Tokens;

/// Texts of prepared statements that a session may have kept, each with [`PREPARED_BYTES_EACH`]. One beyond that exists on its node only, as one
/// whose text is too long to be kept: it ties the session to that node.
const PREPARED_BYTES_MAX: usize = 16 * 1024 * 1024;
const PREPARED_BYTES_EACH: usize = 256;
/// How many SET texts are kept that change what the server tracks, and how long each may be. Beyond this the session is pinned.
const SET_TEXTS_MAX: usize = 8;
const SET_BYTES_MAX: usize = 16 * 1024;

/// The first statement on a node: track what the session changes.
pub const TRACK: &str = "session_track_system_variables='*',session_track_state_change=1,session_track_schema=1,\
                         session_track_transaction_info='CHARACTERISTICS'";

/// Sets what SET NAMES sets to the server's defaults.
const CHARSETS_OF_SERVER: &str = "SET character_set_client=@@GLOBAL.character_set_client,character_set_results=@@GLOBAL.character_set_results,\
                                  collation_connection=@@GLOBAL.collation_connection";

/// Reported with each write where there is a binary log. Only the server sets it.
const LAST_GTID: &[u8] = b"last_gtid";

/// MySQL's number of the statement, read only, and reported among the variables (seen on 9.7).
const STATEMENT_ID: &[u8] = b"statement_id";

/// They follow from the schema, unless the client has set them itself since it chose the schema.
const OF_SCHEMA: [&str; 2] = ["character_set_database", "collation_database"];

/// The status flags with which a session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Those of the proxy's own OK: there was no link to a node yet.
    Told(u16),
    /// Those of a session on a node.
    OnNode(u16),
}

/// The modes that an OK packet's flags show, with those that include them.
const MODES_SHOWN: [(u16, &[&str]); 2] = [
    (status::NO_BACKSLASH_ESCAPES, &["NO_BACKSLASH_ESCAPES"]),
    (status::ANSI_QUOTES, &["ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"]),
];

/// Setting the first variable also sets the second, and the server reports only the one that was named. The second is therefore set after
/// the first, in whichever order they were reported: the values are those at the end of the statement.
const LED: [(&str, &str); 4] = [
    ("character_set_connection", "collation_connection"),
    ("character_set_server", "collation_server"),
    ("character_set_database", "collation_database"),
    ("max_join_size", "sql_big_selects"),
];

/// They say which collation a character set brings that is named without one: MariaDB's, since 11.2, and MySQL's.
const CHOOSE_COLLATION: [&str; 2] = ["character_set_collations", "default_collation_for_utf8mb4"];

/// Variables whose reported value is not the session's present value: a time that was fixed or set back to the clock; a value that holds
/// for one statement only; the seeds, which each RAND() changes; the node's connection id; and a time that is reported in a former time
/// zone, or as `DEFAULT`, in which form it cannot be set.
const NOT_KEPT: [&str; 7] = [
    "timestamp",
    "insert_id",
    "gtid_seq_no",
    "rand_seed1",
    "rand_seed2",
    "pseudo_thread_id",
    "system_versioning_asof",
];

/// What "state changed" without a name means for the statement that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// The scanner knows what the statement changed.
    Expected,
    /// It is what the same answer reports by name, if anything.
    UnlessNamed,
    /// A procedure ran, so there may be more than what is reported by name.
    Never,
}

/// One prepared statement of the client.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its text, to prepare it again elsewhere.
    pub sql: Box<[u8]>,
    /// The scanner's result for the text.
    pub scanned: Statement,
    /// Number of parameters.
    pub params: u16,
    /// The settings in force when it was prepared.
    pub bound: Arc<Bound>,
    /// The parameter types that were last bound (two bytes each); servers remember them between executions.
    pub types: Vec<u8>,
    /// New types were sent and could not be read, since they were too far behind in a command that was not kept.
    pub types_unseen: bool,
    /// Long data for it could not be taken, and its next execution ends so, as on a server (`mysql_stmt_send_long_data(3)`).
    pub refused: Option<Box<Finish>>,
}

/// A session's state. See the head of this file.
#[derive(Debug)]
pub struct Wanted {
    /// As the server knows it, in UTF-8.
    schema: Option<Box<[u8]>>,
    /// The flags with which the session began. The client goes by them until it sets something else, whatever a node begins its sessions with.
    begun_with: Option<Begun>,
    /// It was reset, or the user was changed, so that it has nothing of what a login does by itself (`init_connect`).
    has_begun_anew: bool,
    /// A node has let the session into its schema: if it is gone on the next one, the session goes on without.
    has_used_schema: bool,
    /// By name: the value, and when it was reported. Where two variables change each other (an alias, a character set and its collation),
    /// the later one counts.
    variables: BTreeMap<String, (u64, Box<[u8]>)>,
    /// A counter of the reports, and of the changes to what [`Wanted::read_state`] returns.
    reports: u64,
    /// SET NAMES or the like, as the client sent it, and when. Only this statement sets the collation in the answers' metadata, too.
    names: Option<(u64, String)>,
    user_variables: UserVariables,
    /// SET TRANSACTION for the next transaction, as the server reports it; empty if there is none.
    next_transaction: String,
    /// SET session_track_..., as the client sent them.
    tracking: Vec<String>,
    role: Option<String>,
    /// The value of LAST_INSERT_ID(); `None` when only the node knows it.
    insert_id: Option<u64>,
    /// The settings that a statement would be bound to now; made on demand.
    bound: Option<Arc<Bound>>,
    /// The client's prepared statements by the id the client knows.
    pub statements: BTreeMap<u32, Prepared>,
    /// Of those, as [`PREPARED_BYTES_MAX`] counts.
    prepared_bytes: usize,
    last_statement: u32,
    last_prepared: Option<u32>,
    /// Whether the GTID of the session's last write is kept.
    keeps_gtid: bool,
    last_gtid: Option<Box<str>>,
}

impl Wanted {
    /// A new session that logged in with `schema`.
    pub fn new(schema: Option<Vec<u8>>) -> Self {
        Self {
            schema: schema.map(Vec::into_boxed_slice),
            begun_with: None,
            has_begun_anew: false,
            has_used_schema: false,
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
            prepared_bytes: 0,
            last_statement: 0,
            last_prepared: None,
            keeps_gtid: false,
            last_gtid: None,
        }
    }

    /// From now on the GTID of the session's last write is kept for [`Wanted::take_last_gtid`].
    pub fn keep_gtid(&mut self) {
        self.keeps_gtid = true;
    }

    /// The GTID of the session's last write, if the server has reported one since this was last called.
    pub fn take_last_gtid(&mut self) -> Option<Box<str>> {
        self.last_gtid.take()
    }

    /// Whether something is set that holds for one transaction, or that changes what answers report.
    pub fn has_terms_of_its_own(&self) -> bool {
        !self.next_transaction.is_empty() || !self.tracking.is_empty()
    }

    /// The statements that set up a new link for reads; they do not include the schema.
    pub fn restore_for_reads(&self) -> Vec<String> {
        let mut statements: Vec<String> = self.role.iter().cloned().collect();
        statements.extend(self.charsets());
        statements.push(self.set_variables(format!("SET {TRACK}")));
        statements
    }

    /// The client is told these flags, or gets a link that has them. The first ones after a login or a reset count, and those of a link more
    /// than what was told before there was one.
    pub fn begin_with(&mut self, begun: Begun) {
        match self.begun_with {
            Some(Begun::OnNode(_)) => {}
            Some(Begun::Told(_)) if matches!(begun, Begun::Told(_)) => {}
            _ => self.begun_with = Some(begun),
        }
    }

    /// The client has turned autocommit on or off, as an answer's flags show. A server reports none of the variables of a SET that assigns
    /// `session_track_system_variables` as well, as Connector/J's first one does.
    pub fn set_autocommit(&mut self, is_on: bool) {
        let value = if is_on { &b"ON"[..] } else { b"OFF" };
        if self.variables.get("autocommit").is_some_and(|(_, known)| **known == *value) {
            return;
        }
        self.reports += 1;
        self.variables.insert("autocommit".to_owned(), (self.reports, value.into()));
    }

    /// What gives a new link the modes that the session began with; `flags` are the link's. Before anything else is set there or prepared.
    pub fn begin_modes(&self, flags: u16) -> Option<String> {
        let (Begun::Told(begun_with) | Begun::OnNode(begun_with)) = self.begun_with?;
        let mut mode = "@@sql_mode".to_owned();
        for (flag, names) in MODES_SHOWN {
            if (begun_with ^ flags) & flag == 0 {
                continue;
            }
            if begun_with & flag != 0 {
                mode = format!("CONCAT({mode},',{}')", names[0]);
                continue;
            }
            for name in names {
                // By a comma, since an empty string may be NULL under the node's mode.
                mode = format!("REPLACE({mode},'{name}',',')");
            }
        }
        (mode != "@@sql_mode").then(|| format!("SET sql_mode={mode}"))
    }

    /// The session has nothing of what a login does by itself: its links are reset after theirs.
    pub fn begin_anew(&mut self) {
        self.has_begun_anew = true;
    }

    /// Whether that is so.
    pub fn has_begun_anew(&self) -> bool {
        self.has_begun_anew
    }

    /// A node has let the session into its schema.
    pub fn use_schema(&mut self) {
        self.has_used_schema = true;
    }

    /// Whether one has, so that the session is not refused where the schema is gone.
    pub fn has_used_schema(&self) -> bool {
        self.has_used_schema
    }

    /// The default schema now.
    pub fn schema(&self) -> Option<&[u8]> {
        self.schema.as_deref()
    }

    /// The value of LAST_INSERT_ID(); `None` when only the node knows it.
    pub fn insert_id(&self) -> Option<u64> {
        self.insert_id
    }

    /// The node was asked for LAST_INSERT_ID().
    pub fn learned_insert_id(&mut self, id: u64) {
        self.insert_id = Some(id);
    }

    /// The node was asked for the values of all user variables; `texts` are statements that set them.
    pub fn learned_user_variables(&mut self, texts: Vec<String>) {
        self.user_variables = UserVariables::read(texts);
        self.reports += 1;
    }

    /// The node was asked for the value of a variable.
    pub fn learned_variable(&mut self, name: &str, value: &[u8], link: &mut Standing) {
        if self.changed(name) == Some(value) {
            return;
        }
        self.variable(name.as_bytes(), value, Sets::NONE, link);
    }

    /// The node was asked for the role; `None`: there is none. MySQL tells all that are in force as SET ROLE takes them.
    pub fn learned_role(&mut self, role: Option<&str>, flavor: Flavor, link: &mut Standing) {
        let is_plain = |role: &str| role.bytes().all(|c| c.is_ascii_graphic());
        let role = match role {
            None => "NONE".to_owned(),
            Some(roles) if flavor == Flavor::MySql && is_plain(roles) => roles.to_owned(),
            Some(role) if is_plain(role) && !role.contains('`') => format!("`{role}`"),
            // It may be in any character set that the session has for its answers.
            Some(_) => return link.pin(Pins::ROLE),
        };
        self.role = Some(format!("SET ROLE {role}"));
    }

    /// The names of the variables that the session has set, except for the character sets.
    pub fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str).filter(|name| !CHARSETS.contains(name))
    }

    /// The settings that a statement would be bound to if it were prepared now.
    pub fn bound(&mut self) -> Arc<Bound> {
        if let Some(bound) = &self.bound {
            return bound.clone();
        }
        let bound = Bound::new(self.schema(), |name| self.changed(name), self.charsets());
        let bound = Arc::new(bound);
        self.bound = Some(bound.clone());
        bound
    }

    /// Updates LAST_INSERT_ID() after a statement that succeeded with `ok_id` in its OK packet. `gives`: whether its text, or its
    /// parameters, may have supplied that number.
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

    /// A statement succeeded: takes over what it set, and what ties the session to the link or no longer does.
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
        if statement.makes_table && statement.alone {
            link.made_table();
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

    /// Keeps the texts of settings that no server reports.
    fn set(&mut self, text: &[u8], statement: &Statement, link: &mut Standing) {
        if statement.sets == Sets::NONE {
            return;
        }
        // It must be alone in its text: a second statement must not run again.
        let again = (statement.alone
            && statement.kind == StatementKind::SessionOnly
            && means_the_same_anywhere(text))
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
            // A name that is not plain ASCII is another one under another character set, and the role is set before those are.
            match again.filter(|text| text.is_ascii()) {
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

    /// Keeps the part of a text that sets names. The rest is reported, and must not be set twice.
    fn names(&mut self, text: &[u8], statement: &Statement, link: &mut Standing) {
        match names_said(text, 0) {
            NamesSaid::Only(said) if statement.alone && statement.kind == StatementKind::SessionOnly => {
                self.bound = None;
                self.reports += 1;
                // SET CHARACTER SET takes the collation from the present schema, which may differ when it is sent again.
                if said.starts_with("SET NAMES") && !self.chooses_collation() {
                    link.need_not_ask("collation_connection");
                }
                self.names = Some((self.reports, said));
            }
            // The answers' metadata has the collation, too, which only this very statement sets.
            _ if statement.sets.has(Sets::COLLATION) && mentions_names(text) => link.pin(Pins::UNNAMED),
            _ => {}
        }
    }

    /// A statement failed: it may have come far enough to tie the session. Of a single statement, only what is done row by row counts,
    /// since it does not hold a table or a lock that it could not get.
    pub fn failed(&mut self, statement: &Statement, link: &mut Standing) {
        const ROW_BY_ROW: Pins = Pins::GET_LOCK.union(Pins::USER_VARIABLE);
        let pins = statement.pins;
        let is_one = statement.alone && !statement.runs_several;
        if !statement.literal_user_variables {
            // Of several statements, the one that releases something may not have run.
            link.pin(if is_one { pins.without(pins.without(ROW_BY_ROW)) } else { statement.gains });
        }
        self.may_have_made_id(statement);
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
            // What it set before it failed remains, and an error packet does not report it.
            link.note_unreported(UnreportedChange::MayHaveSet);
        }
    }

    /// A statement failed, or its link was lost before it was answered: an INSERT may have made an id, which nothing has reported.
    pub fn may_have_made_id(&mut self, statement: &Statement) {
        self.insert_id = statement.insert_id.after_error(self.insert_id);
    }

    /// The link was lost in the middle of a text of several statements, of which any may have run. Returns what they may have tied to it.
    pub fn cut_in_two(&mut self, statement: &Statement) -> Pins {
        self.may_have_made_id(statement);
        // An unanswered part has reported nothing, and what no server reports is kept only at the end of a text.
        let unreported = if statement.sets == Sets::NONE { Pins::NONE } else { Pins::UNNAMED };
        statement.gains.union(unreported)
    }

    /// Takes over what an OK packet reports about a statement that sets `sets`.
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
                    link.set_lacks_schema(false);
                }
                // The value is reset at the end of the statement, and reported with the next answer.
                Ok(Change::Variable { .. }) if sets.has(Sets::FOR_ONE_STATEMENT) => named = true,
                Ok(Change::Variable { name, value }) => {
                    named = true;
                    for (at, (first, second)) in LED.iter().enumerate() {
                        leads[at] |= name == first.as_bytes();
                        led[at] |= name == second.as_bytes();
                    }
                    if name == b"character_set_results" && meaning == Unnamed::Never {
                        // A SET NAMES inside the procedure, perhaps with a collation, which the answers' metadata then has.
                        link.pin(Pins::UNNAMED);
                    }
                    match OF_SCHEMA.iter().find(|known| known.as_bytes() == name) {
                        Some(name) => of_schema.push((*name, value)),
                        None => self.variable(name, value, sets, link),
                    }
                }
                Ok(Change::StateChanged(true)) => unnamed = true,
                // The fourth letter: a table without transactions was written to.
                Ok(Change::TransactionState(state)) if state.get(3) == Some(&b'w') => {
                    link.note_untransactional()
                }
                Ok(Change::Characteristics(text)) => self.transaction_to_come(text, link),
                Ok(_) => {}
                // A report that cannot be read may be about anything.
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
                // It has changed together with the first, and no server reports its new value.
                self.variables.remove(*second);
                self.bound = None;
                // A character set that was named by SET NAMES brings its default collation.
                let is_default = sets == Sets::NAMES && *second == "collation_connection";
                if !is_default || self.chooses_collation() {
                    link.must_ask(second);
                }
            }
        }
        let is_unknown = match meaning {
            Unnamed::Expected => false,
            Unnamed::UnlessNamed => !named,
            Unnamed::Never => true,
        };
        // As it is reported only now, it may be from failed code before.
        if unnamed && (is_unknown || link.may_have_unreported()) {
            link.note_unreported(UnreportedChange::HasSet);
        } else if !unnamed && (named || ok.changes().next().is_some()) {
            // It would have been reported by now.
            link.has_reported_all();
        }
    }

    /// Whether a SET NAMES may bring another collation here than on a new link.
    fn chooses_collation(&self) -> bool {
        CHOOSE_COLLATION.iter().any(|name| self.variables.contains_key(*name))
    }

    /// SET TRANSACTION as the server would have it sent to another one; used up when a transaction begins.
    fn transaction_to_come(&mut self, text: &[u8], link: &mut Standing) {
        self.next_transaction.clear();
        match std::str::from_utf8(text) {
            Ok(text) if text.contains("START TRANSACTION") || text.contains("XA START") => {}
            Ok(text) if is_set_transaction(text) => self.next_transaction.push_str(text),
            // It would be sent to another node, so it must be nothing else.
            _ => link.pin(Pins::UNNAMED),
        }
    }

    /// The answer of `statement` ended with rows and an EOF packet, which reports only that something changed; a later answer reports what.
    pub fn changed_without_name(&self, statement: &Statement, link: &mut Standing) {
        if statement.calls_stored {
            link.note_unreported(UnreportedChange::HasSet);
        } else if !self.next_transaction.is_empty() {
            // A transaction may have begun.
            link.note_unreported(UnreportedChange::MayHaveSet);
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
                // A text that sets it is kept, see `set`. What set it in any other way cannot be repeated.
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
            STATEMENT_ID => {}
            name if NOT_KEPT.iter().any(|known| known.as_bytes() == name) => link.pin(Pins::TIMESTAMP),
            name => match std::str::from_utf8(name) {
                Ok(name) if name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'.') => {
                    if CHOOSE_COLLATION.contains(&name) {
                        // A SET NAMES that is sent again would bring another collation than it did.
                        link.must_ask("collation_connection");
                    }
                    self.put(name, value, link);
                }
                // No server variable has such a name, so it could not be set again.
                _ => link.pin(Pins::UNNAMED),
            },
        }
    }

    /// A variable's value was read from the node, which does not report it.
    pub fn has_read(&mut self, name: &str, value: &[u8], link: &mut Standing) {
        self.put(name, value, link);
    }

    fn put(&mut self, name: &str, value: &[u8], link: &mut Standing) {
        if BOUND.contains(&name) || CHARSETS.contains(&name) {
            self.bound = None;
        }
        // Under another character set their texts would mean other strings, and with EMPTY_STRING_IS_NULL an empty one is none.
        let would_differ = CHARSETS.contains(&name) && self.user_variables.have_strings()
            || name == "sql_mode" && self.user_variables.have_empty_strings();
        if would_differ {
            // Only the node knows them now.
            self.user_variables = UserVariables::default();
            link.pin(Pins::USER_VARIABLE);
        }
        self.reports += 1;
        match self.variables.get_mut(name) {
            Some(known) => *known = (self.reports, value.into()),
            None => _ = self.variables.insert(name.to_owned(), (self.reports, value.into())),
        }
    }

    /// Whether COM_RESET_CONNECTION undoes on the node everything that this session did on `link`. Not the role; and it is not known for
    /// the clock, and for changes without a name.
    pub fn is_undone_by_reset(&self, link: &Standing) -> bool {
        const DOUBTFUL: Pins = Pins::ROLE.union(Pins::TIMESTAMP).union(Pins::UNNAMED);
        let pins = link.pins();
        self.role.is_none() && pins.without(DOUBTFUL) == pins
    }

    /// COM_RESET_CONNECTION: the session is as after the login except for the schema. That includes the role, which MariaDB leaves for the
    /// next user of the connection.
    pub fn reset(&mut self) {
        let schema = self.schema.take().map(Vec::from);
        *self = Self {
            last_statement: self.last_statement,
            has_used_schema: self.has_used_schema,
            has_begun_anew: true,
            keeps_gtid: self.keeps_gtid,
            reports: self.reports + 1,
            ..Self::new(schema)
        };
    }

    /// The session has the server's own character sets, whatever its login asked for.
    pub fn take_charsets_of_server(&mut self) {
        self.bound = None;
        self.reports += 1;
        self.names = Some((self.reports, CHARSETS_OF_SERVER.to_owned()));
    }

    /// The id the client is told for the statement it prepares next.
    pub fn next_statement(&self) -> u32 {
        self.last_statement.wrapping_add(1)
    }

    /// Whether the text of a statement can be kept beside the others.
    pub fn has_room_for(&self, sql: &[u8]) -> bool {
        self.prepared_bytes + kept_bytes(sql) <= PREPARED_BYTES_MAX
    }

    /// Adds a statement that the node has prepared, under the id [`Wanted::next_statement`], which is returned.
    pub fn prepared(&mut self, sql: &[u8], scanned: Statement, params: u16) -> u32 {
        self.last_statement = self.next_statement();
        self.prepared_bytes += kept_bytes(sql);
        let bound = self.bound();
        let statement = Prepared {
            sql: sql.into(),
            scanned,
            params,
            bound,
            types: vec![],
            types_unseen: false,
            refused: None,
        };
        self.statements.insert(self.last_statement, statement);
        self.last_prepared = Some(self.last_statement);
        self.last_statement
    }

    /// A preparation begins: until it has succeeded, no statement counts as the last prepared one.
    pub fn preparing(&mut self) {
        self.last_prepared = None;
    }

    /// The id of the last prepared statement (MariaDB clients may call it 0xFFFFFFFF), if that succeeded and it was not closed.
    pub fn last_prepared(&self) -> Option<u32> {
        self.last_prepared
    }

    /// Removes a statement that the client closed.
    pub fn close(&mut self, id: u32) {
        if let Some(statement) = self.statements.remove(&id) {
            self.prepared_bytes -= kept_bytes(&statement.sql);
        }
        if self.last_prepared == Some(id) {
            self.last_prepared = None;
        }
    }

    /// The value of a variable that the session changed.
    pub fn changed(&self, name: &str) -> Option<&[u8]> {
        self.variables.get(name).map(|(_, value)| &**value)
    }

    /// Statements that were prepared without a default schema, when the session has one now. No statement removes a schema, so they must be
    /// prepared before the session's schema is set.
    pub fn without_schema(&self) -> impl Iterator<Item = (u32, &Prepared)> {
        let has_schema = self.schema.is_some();
        self.statements
            .iter()
            .filter(move |(_, statement)| {
                has_schema && statement.bound.schema.is_none() && !statement.sql.is_empty()
            })
            .map(|(&id, statement)| (id, statement))
    }

    /// The statements that set the session's character sets on a new link.
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

    /// The statements for a new link, in order, before the client's first one, but for those of [`Self::begin_autocommit`] and
    /// [`Self::restore_last`]. The schema is part of the login.
    pub fn restore(&self) -> Vec<String> {
        let mut set = format!("SET {TRACK}");
        let mut statements: Vec<String> = self.role.iter().chain(&self.tracking).cloned().collect();
        if let Some(id) = self.insert_id
            && id != 0
        {
            let _ = write!(set, ",last_insert_id={id}");
        }
        let set = self.set_variables(set);
        // The variables follow last: a SET NAMES may have set some of them, too, which were changed later. They also follow the client's
        // tracking statements, with the resulting values.
        statements.extend(self.charsets());
        statements.push(set);
        statements
    }

    /// The statements that come last on a new link.
    pub fn restore_last(&self) -> impl Iterator<Item = String> {
        let to_come = self.next_transaction.split(';').map(str::trim).filter(|text| !text.is_empty());
        self.user_variables.texts().chain(to_come).map(str::to_owned)
    }

    /// The statement by which a new link gets the autocommit that the session began with, if the client has not set it and the link shows
    /// another: the client would not know of its own transaction. `at_login`: the flags that the node said at the login, or after the reset
    /// that followed it; `now`: those of the last answer. Where no link has begun the session yet, what the node's `init_connect` sets after
    /// the login holds, as it does without a proxy.
    ///
    /// Only a difference counts: MySQL, and MariaDB before 10.6.17 and 10.11.7, show autocommit at a login also where it is off for all.
    pub fn begin_autocommit(&self, at_login: u16, now: u16) -> Option<String> {
        let (begun, shown) = match self.begun_with? {
            Begun::OnNode(begun) => (begun, now),
            Begun::Told(told) => (told, at_login),
        };
        let differs = (begun ^ shown) & status::AUTOCOMMIT != 0;
        (differs && !self.variables.contains_key("autocommit"))
            .then(|| format!("SET autocommit={}", u8::from(begun & status::AUTOCOMMIT != 0)))
    }

    /// Adds the variables that the session has set to a SET, except for the character sets.
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

/// Whether it is a list of SET TRANSACTION statements and nothing else.
fn is_set_transaction(text: &str) -> bool {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let seen = Statement::of(part.as_bytes());
        seen.alone
            && seen.kind == StatementKind::SessionOnly
            && seen.sets == Sets::TRANSACTION
            && part.is_ascii()
    })
}

/// Whether a variable is to be set after others: see [`LED`].
fn is_led(name: &str) -> bool {
    LED.iter().any(|(_, led)| *led == name)
}

/// Whether a text may contain NAMES or CHARACTER SET, which sets all character sets of the connection. True for a text that was not kept.
fn mentions_names(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
    text.is_empty() || has(b"NAMES") || has(b"CHARSET") || has(b"CHARACTER SET")
}

/// Adds a text after the others, in the order of last use. False when there is no more room.
fn keep(texts: &mut Vec<String>, text: &str) -> bool {
    texts.retain(|known| known != text);
    let has_room = texts.len() < SET_TEXTS_MAX;
    if has_room {
        texts.push(text.to_owned());
    }
    has_room
}

/// Whether a text's strings end at the same place under any sql_mode, so that it can be sent again after the mode has changed.
/// (NO_BACKSLASH_ESCAPES and ANSI_QUOTES decide otherwise.)
fn means_the_same_anywhere(text: &[u8]) -> bool {
    !text.contains(&b'\\') && !text.contains(&b'"')
}

/// What a text counts for in [`PREPARED_BYTES_MAX`]; nothing if it is not kept.
fn kept_bytes(sql: &[u8]) -> usize {
    if sql.is_empty() { 0 } else { PREPARED_BYTES_EACH + sql.len() }
}

#[cfg(test)]
mod tests;
