//! The only door: one client's session, from its login to its end.
//!
//! The driver shows each command ([`Session::command`]) and each end of an answer ([`Session::part`], [`Session::ended`]), and
//! asks what a loss means ([`Session::lost`]). Bytes stay with the driver; what is kept here is what must survive a node.

use protocol::capability::Caps;
use protocol::command::{self, Command, LAST_PREPARED};
use protocol::errno;
use protocol::ok::{self, OkPacket};
use protocol::packet::Fields;
use protocol::response::End;
use protocol::statement::{Kind, Pins, Sets, Statement};

use crate::memory::{Memory, Prepared, Unnamed};
use crate::retry::{self, Circumstances, Progress, Verdict};

/// Where the session's transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// None is open: the session may move.
    None,
    /// One is open on the present node.
    Open,
    /// One was open on a node that is lost: it is rolled back, and the client is yet to be told.
    Lost,
}

/// A command on its way.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Which.
    pub command: Command,
    /// The client's id of the prepared statement it speaks of.
    pub statement: Option<u32>,
    /// What the scanner says of its text; `None` for commands without text.
    scanned: Option<Statement>,
    /// What it is, as far as sending it again goes.
    what: Circumstances,
    recalls: bool,
    recalls_sequence: bool,
    /// What it recalls are the rows of the last SELECT: what stands between leaves them.
    recalls_rows: bool,
    /// Several statements may run before its first answer.
    several: bool,
    /// It runs code that its text does not show.
    calls: bool,
    /// It may leave a new transaction behind the one it ends.
    chains: bool,
}

impl InFlight {
    /// What it is, as far as sending it again goes.
    pub fn kind(&self) -> Kind {
        self.what.kind
    }

    /// It asks what an earlier statement left on the node (FOUND_ROWS(), SHOW WARNINGS, ...) and no other node knows.
    pub fn recalls(&self) -> bool {
        self.recalls
    }

    fn is(&mut self, scanned: &Statement) {
        self.what.kind = scanned.kind;
        self.what.may_commit = scanned.may_commit;
        self.several = scanned.runs_several;
        self.calls = scanned.calls;
        self.recalls_sequence = scanned.recalls_sequence;
    }

    fn recalls_by(&mut self, scanned: &Statement, text: &[u8]) {
        self.recalls = scanned.recalls && !recalls_only_insert_id(text);
        self.recalls_rows = self.recalls && has(text, b"found_rows");
    }

    fn is_harmless(&mut self, kind: Kind) {
        self.what.kind = kind;
        self.what.may_commit = false;
    }
}

/// What to do with a command.
#[derive(Debug)]
pub enum Next {
    /// Send it to a node and relay the answer.
    Forward(InFlight),
    /// Answer OK here; no node is needed.
    AnswerOk,
    /// Its transaction was lost with its node: say so (1213), and go on.
    AnswerRolledBack,
    /// It asks for something the proxy cannot do; the name of it.
    Refuse(&'static str),
    /// No such prepared statement (1243).
    UnknownStatement(u32),
    /// Forget the session, here and on its node, and answer OK.
    Reset,
    /// A new login on the same connection.
    ChangeUser,
    /// End a statement or a connection; the scanner's word on KILL.
    Kill {
        /// Only its running statement.
        query_only: bool,
        /// The connection id.
        id: u64,
        /// Forward this when the id is not one of the proxy's own.
        otherwise: InFlight,
    },
    /// Nothing to send and nothing to answer.
    Nothing,
    /// The client says goodbye.
    Quit,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Session {
    /// What must be set up again on another node.
    pub memory: Memory,
    transaction: Transaction,
    /// The node's status bits as of the last answer.
    status: u16,
    /// The session has moved, and nothing was run since: no warnings, row counts and the like to recall.
    forgot: bool,
    /// The session has moved, and nothing was run since that would leave rows to count.
    forgot_rows: bool,
    /// The session has moved, and nothing was run since that would draw from a sequence.
    forgot_sequences: bool,
    /// Of the answer at hand, one part has ended already.
    saw_part: bool,
}

impl Session {
    /// A session that just logged in.
    pub fn new(schema: Option<Vec<u8>>) -> Self {
        Self {
            memory: Memory::new(schema),
            transaction: Transaction::None,
            status: ok::status::AUTOCOMMIT,
            forgot: false,
            forgot_rows: false,
            forgot_sequences: false,
            saw_part: false,
        }
    }

    /// Where its transaction stands.
    pub fn transaction(&self) -> Transaction {
        self.transaction
    }

    fn autocommit(&self) -> bool {
        self.status & ok::status::AUTOCOMMIT != 0
    }

    /// The status bits a locally made OK carries.
    pub fn status(&self) -> u16 {
        self.status & (ok::status::AUTOCOMMIT | ok::status::NO_BACKSLASH_ESCAPES)
    }

    /// A command of the client. `payload` is all of it, or as much as is at hand when it is larger than the proxy keeps
    /// (`whole` false): a text that is cut off is taken for a write.
    pub fn command(&mut self, payload: &[u8], whole: bool, caps: Caps) -> Next {
        let Some(command) = Command::of(payload) else { return Next::Refuse("an empty command packet") };
        self.saw_part = false;
        let next = self.plan(command, payload, whole, caps);
        if self.transaction != Transaction::Lost {
            return next;
        }
        match next {
            // The client is told by its next statement: this says nothing of a transaction.
            Next::Forward(flight) if flight.command == Command::PING => Next::AnswerOk,
            // What was lost is rolled back: exactly what is asked for. (A new transaction behind it is not.)
            Next::Forward(flight) if flight.kind() == Kind::Rollback && !flight.chains => {
                self.transaction = Transaction::None;
                Next::AnswerOk
            }
            // Long data: the EXECUTE that follows is refused, and nothing of it must be left behind.
            Next::Forward(flight) if !flight.command.answers() => {
                if let Some(statement) = flight.statement.and_then(|id| self.statement(id)) {
                    statement.long_data = false;
                }
                Next::Nothing
            }
            Next::Forward(_) | Next::Kill { .. } | Next::UnknownStatement(_) => {
                self.transaction = Transaction::None;
                Next::AnswerRolledBack
            }
            next => next,
        }
    }

    fn statement(&mut self, id: u32) -> Option<&mut Prepared> {
        self.memory.statements.get_mut(&id)
    }

    fn plan(&mut self, command: Command, payload: &[u8], whole: bool, caps: Caps) -> Next {
        let mut flight = InFlight {
            command,
            statement: None,
            scanned: None,
            recalls: false,
            recalls_sequence: false,
            recalls_rows: false,
            several: false,
            calls: false,
            chains: false,
            what: Circumstances {
                kind: Kind::Write,
                may_commit: true,
                in_transaction: self.transaction == Transaction::Open,
                autocommit: self.autocommit(),
            },
        };
        match command {
            Command::QUIT => return Next::Quit,
            Command::CHANGE_USER => return Next::ChangeUser,
            Command::BINLOG_DUMP | Command::BINLOG_DUMP_GTID | Command::REGISTER_SLAVE => {
                return Next::Refuse("reading the binary log");
            }
            Command::QUERY => {
                let Ok(text) = command::query_text(payload, caps) else {
                    return Next::Refuse("a malformed query");
                };
                let mut scanned = Statement::under(text, self.status);
                if !whole {
                    // What follows may be anything, another statement included.
                    scanned.kind = Kind::Write;
                    scanned.may_commit = true;
                    scanned.runs_several = true;
                    scanned.alone = false;
                }
                if !caps.has(Caps::MULTI_STATEMENTS) && begins_with_one_write(text) {
                    scanned.runs_several = false;
                }
                flight.is(&scanned);
                self.mark_chain(&mut flight, scanned);
                flight.recalls_by(&scanned, text);
                flight.scanned = Some(scanned);
                if let Kind::Kill { query_only, id: Some(id) } = scanned.kind {
                    return Next::Kill { query_only, id, otherwise: flight };
                }
            }
            Command::STMT_PREPARE => {
                self.memory.preparing();
                flight.is_harmless(Kind::SessionOnly);
            }
            Command::INIT_DB | Command::PING | Command::STATISTICS | Command::SET_OPTION => {
                flight.is_harmless(Kind::SessionOnly);
            }
            Command::FIELD_LIST | Command::PROCESS_INFO => flight.is_harmless(Kind::Read),
            Command::RESET_CONNECTION => return Next::Reset,
            Command::PROCESS_KILL if payload.len() >= 5 => {
                let id = u32::from_le_bytes([payload[1], payload[2], payload[3], payload[4]]);
                return Next::Kill { query_only: false, id: u64::from(id), otherwise: flight };
            }
            Command::STMT_EXECUTE
            | Command::STMT_BULK_EXECUTE
            | Command::STMT_FETCH
            | Command::STMT_RESET
            | Command::STMT_SEND_LONG_DATA
            | Command::STMT_CLOSE => {
                let id = match command::statement_id(payload) {
                    Some(LAST_PREPARED) => self.memory.last_prepared(),
                    Some(id) => Some(id).filter(|id| self.memory.statements.contains_key(id)),
                    None => return Next::Refuse("a malformed statement command"),
                };
                return match id {
                    Some(id) => self.plan_prepared(flight, id, payload),
                    // Its number means nothing to the node, or means another statement there.
                    None if command.answers() => {
                        Next::UnknownStatement(command::statement_id(payload).unwrap_or_default())
                    }
                    None => Next::Nothing,
                };
            }
            _ => {}
        }
        Next::Forward(flight)
    }

    /// A ROLLBACK that begins a new transaction is not done by being lost.
    fn mark_chain(&self, flight: &mut InFlight, scanned: Statement) {
        if !matches!(scanned.kind, Kind::Commit | Kind::Rollback) {
            return;
        }
        let by_setting = self.memory.changed("completion_type");
        flight.chains = scanned.chains
            || by_setting.is_some_and(|value| !value.eq_ignore_ascii_case(b"NO_CHAIN") && value != b"0");
        if flight.chains && scanned.kind == Kind::Rollback && flight.what.in_transaction {
            flight.is_harmless(Kind::Write);
        }
    }

    fn plan_prepared(&mut self, mut flight: InFlight, id: u32, payload: &[u8]) -> Next {
        flight.statement = Some(id);
        let Some(statement) = self.memory.statements.get_mut(&id) else {
            return Next::UnknownStatement(id);
        };
        match flight.command {
            // Closed on its node, when it has been prepared on one; its number is gone for the client either way.
            Command::STMT_CLOSE if statement.on_node.is_none() => {
                self.closed(id);
                return Next::Nothing;
            }
            Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE => {
                let scanned = statement.scanned;
                flight.is(&scanned);
                flight.recalls_by(&scanned, &statement.sql);
                remember_types(statement, flight.command, payload);
                self.mark_chain(&mut flight, scanned);
                // Once for each set of parameters.
                flight.several |= flight.command == Command::STMT_BULK_EXECUTE;
            }
            Command::STMT_FETCH => flight.is_harmless(Kind::Read),
            Command::STMT_SEND_LONG_DATA => statement.long_data = true,
            Command::STMT_RESET => flight.is_harmless(Kind::SessionOnly),
            _ => {}
        }
        Next::Forward(flight)
    }

    /// One part of a chain of results ended, and more follow: what it reports counts already. `payload` is its OK or EOF packet.
    pub fn part(&mut self, flight: &InFlight, payload: &[u8], caps: Caps) {
        if let Some(status) = short_eof(payload) {
            self.server_status(status);
        } else if let Ok(ok) = OkPacket::parse(payload, caps) {
            self.memory.ok(&ok, unnamed(flight), sets(flight));
            self.server_status(ok.status);
        }
    }

    /// The answer ended. `payload` is its last packet, `text` the command's payload as the client sent it (empty when it was
    /// not kept).
    pub fn ended(&mut self, flight: &InFlight, end: &End, payload: &[u8], text: &[u8], caps: Caps) {
        match end {
            End::Ok { status, .. } => {
                if let Ok(ok) = OkPacket::parse(payload, caps) {
                    self.memory.ok(&ok, unnamed(flight), sets(flight));
                }
                self.succeeded(flight, text, caps);
                self.server_status(*status);
                self.note_cursor(flight, *status);
            }
            End::Eof { status } => {
                self.succeeded(flight, text, caps);
                self.server_status(*status);
                self.note_cursor(flight, *status);
            }
            // Several servers roll back the whole transaction on some errors, and an error carries no status: the driver
            // asks for it (`unsure`).
            End::Err { code } => {
                if let Some(scanned) = flight.scanned.or_else(|| self.executed(flight)) {
                    // What it left behind is the error, which the present node knows.
                    self.forgot &= flight.recalls;
                    // A text that cannot be parsed has done nothing, unless it is the second of several.
                    let several = self.saw_part || flight.several;
                    if *code != errno::PARSE_ERROR || several {
                        let runs_several = scanned.runs_several || several;
                        self.memory.failed(&Statement { runs_several, ..scanned });
                    }
                }
            }
            End::Text => {}
            End::Prepared { id, params, .. } => {
                // Empty when it was too long to be kept: then nothing is known of it.
                let sql = text.get(1..).unwrap_or_default();
                let scanned = Statement::under(sql, self.status);
                let scanned = match sql {
                    [] => Statement { may_commit: true, runs_several: true, ..scanned },
                    _ => scanned,
                };
                self.memory.prepared(sql, scanned, *id, *params);
            }
        }
        if let Some(statement) = flight.statement.and_then(|id| self.memory.statements.get_mut(&id))
            && matches!(
                flight.command,
                Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE | Command::STMT_RESET
            )
        {
            statement.long_data = false;
        }
    }

    /// True when only the server knows whether a transaction is open: after an error, when one was or may have been begun.
    pub fn unsure(&self, flight: &InFlight, end: &End) -> bool {
        matches!(end, End::Err { .. })
            && (self.transaction == Transaction::Open
                || !self.autocommit()
                || flight.what.may_commit
                || self.saw_part)
    }

    /// What the server's status bits say, from any OK or EOF. A lost transaction stays lost until the client has been told.
    pub fn server_status(&mut self, status: u16) {
        self.status = status;
        self.saw_part |= status & ok::status::MORE_RESULTS != 0;
        if self.transaction != Transaction::Lost {
            self.transaction =
                if status & ok::status::IN_TRANS != 0 { Transaction::Open } else { Transaction::None };
        }
    }

    /// A fresh link stands, with these status bits.
    pub fn attached(&mut self, status: u16) {
        self.status = status;
    }

    /// The prepared statement that `flight` runs, as the scanner sees it.
    fn executed(&self, flight: &InFlight) -> Option<Statement> {
        matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE)
            .then_some(flight.statement)
            .flatten()
            .and_then(|id| self.memory.statements.get(&id))
            .map(|statement| statement.scanned)
    }

    fn succeeded(&mut self, flight: &InFlight, text: &[u8], caps: Caps) {
        if let Some(scanned) = &flight.scanned {
            let text = command::query_text(text, caps).unwrap_or_default();
            self.memory.succeeded(text, scanned);
        } else if let Some(scanned) = self.executed(flight) {
            let statement = flight.statement.and_then(|id| self.memory.statements.get(&id));
            // Run again elsewhere, its text alone would lack the parameters. Copied for those few of which it is kept.
            let is_kept = scanned.literal_user_variables || scanned.sets != Sets::NONE;
            let text = statement
                .filter(|statement| is_kept && statement.params == 0)
                .map(|statement| statement.sql.clone());
            let literal = scanned.literal_user_variables && text.is_some();
            let executed = Statement { literal_user_variables: literal, ..scanned };
            self.memory.succeeded(text.as_deref().unwrap_or_default(), &executed);
        } else {
            return; // PING and the like leave nothing to recall
        }
        self.forgot &= flight.recalls;
        self.forgot_rows &= flight.recalls || !matches!(flight.kind(), Kind::Read | Kind::Write);
        self.forgot_sequences &= flight.recalls || flight.kind() != Kind::Write;
    }

    fn note_cursor(&mut self, flight: &InFlight, status: u16) {
        let Some(statement) = flight.statement.and_then(|id| self.memory.statements.get_mut(&id)) else {
            return;
        };
        match flight.command {
            Command::STMT_EXECUTE => statement.cursor = status & ok::status::CURSOR_EXISTS != 0,
            Command::STMT_FETCH if status & ok::status::LAST_ROW_SENT != 0 => statement.cursor = false,
            Command::STMT_RESET => statement.cursor = false,
            _ => {}
        }
    }

    /// A STMT_CLOSE was sent, or needs no sending.
    pub fn closed(&mut self, statement: u32) {
        self.memory.close(statement);
    }

    /// COM_RESET_CONNECTION: all is as after the login but the schema, on the node too, or no link stands.
    pub fn reset(&mut self) {
        self.memory.reset();
        self.transaction = Transaction::None;
        self.status = ok::status::AUTOCOMMIT;
        self.forgot = false;
        self.forgot_rows = false;
        self.forgot_sequences = false;
    }

    /// An EXECUTE was answered here: true when long data waits for it on the node, which the next one must not find.
    pub fn left_long_data(&mut self, flight: &InFlight) -> bool {
        matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE)
            && flight
                .statement
                .and_then(|id| self.statement(id))
                .is_some_and(|statement| std::mem::take(&mut statement.long_data))
    }

    /// The node was lost with this command on its way.
    pub fn lost(&mut self, flight: &InFlight, progress: Progress) -> Verdict {
        // It was looked at before it had this node, on which autocommit may be another.
        let autocommit = flight.what.autocommit || self.autocommit();
        self.memory.unprepare_all();
        self.transaction = Transaction::None;
        if flight.what.in_transaction {
            match flight.command {
                // Answered as if nothing had happened, as those who ask so expect; the next statement is told.
                Command::PING | Command::STMT_RESET => {
                    self.transaction = Transaction::Lost;
                    return Verdict::Done;
                }
                // Nobody looks for the end of a transaction in the answer to these.
                Command::STATISTICS | Command::SET_OPTION => self.transaction = Transaction::Lost,
                _ => {}
            }
        }
        retry::verdict(Circumstances { autocommit, ..flight.what }, progress)
    }

    /// The node was lost while nothing was on its way.
    pub fn lost_idle(&mut self) {
        self.memory.unprepare_all();
        if self.transaction == Transaction::Open {
            self.transaction = Transaction::Lost;
        }
    }

    /// The node was lost when it was to say whether a transaction is open after `flight` had failed. Where nobody knows, the
    /// client is told that it is lost; one statement that failed under autocommit has left none.
    pub fn lost_unsure(&mut self, flight: &InFlight) {
        let has_none = self.transaction == Transaction::None
            && flight.what.autocommit
            && self.autocommit()
            && !self.saw_part
            && !flight.several
            && !flight.chains;
        self.lost_idle();
        if !has_none {
            self.transaction = Transaction::Lost;
        }
    }

    /// The session stands on another node now.
    pub fn moved(&mut self) {
        self.forgot = true;
        self.forgot_rows = true;
        self.forgot_sequences = true;
    }

    /// True when the command asks for something that only the former node knew.
    pub fn has_forgotten(&self, flight: &InFlight) -> bool {
        // Of these, what is remembered longer is forgotten longer: a text that asks for several is told by the first.
        flight.recalls
            && if flight.recalls_sequence {
                self.forgot_sequences
            } else if flight.recalls_rows {
                self.forgot_rows
            } else {
                self.forgot
            }
    }

    /// The node refused the command with an error that speaks of the node. Such an answer means that it did not run, but for
    /// errors that may come after the work was done: those count as a loss.
    pub fn refused(&mut self, flight: &InFlight, code: u16) -> Verdict {
        let ran = !matches!(
            code,
            errno::UNKNOWN_COM_ERROR | errno::OPTION_PREVENTS_STATEMENT | errno::READ_ONLY_MODE
        ) || flight.kind() == Kind::Commit
            || flight.several;
        self.lost(flight, Progress { sent: ran, delivered: false })
    }

    /// What keeps this session from moving, by name.
    pub fn pins(&self) -> Pins {
        self.memory.pins()
    }
}

/// What an unnamed change of the session means for this command.
fn unnamed(flight: &InFlight) -> Unnamed {
    match &flight.scanned {
        _ if flight.calls => Unnamed::Never,
        Some(scanned)
            if !scanned.pins.is_empty()
                || !scanned.unpins.is_empty()
                || scanned.literal_user_variables
                || scanned.kind == Kind::SessionOnly =>
        {
            Unnamed::Expected
        }
        None if !matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE) => {
            Unnamed::Expected
        }
        _ => Unnamed::UnlessNamed,
    }
}

fn sets(flight: &InFlight) -> Sets {
    flight.scanned.map_or(Sets::NONE, |scanned| scanned.sets)
}

/// The status flags of an EOF packet of the old form.
fn short_eof(payload: &[u8]) -> Option<u16> {
    if payload.first() != Some(&ok::EOF) || payload.len() > 5 {
        return None;
    }
    let mut fields = Fields::new(payload);
    fields.u8().and_then(|_| fields.u16()).and_then(|_| fields.u16()).ok()
}

/// LAST_INSERT_ID() is restored with the session; what else recalls is not.
fn recalls_only_insert_id(text: &[u8]) -> bool {
    has(text, b"last_insert_id")
        && ![
            &b"found_rows"[..],
            b"row_count",
            b"warning",
            b"error",
            b"diagnostics",
            b"profile",
            b"lastval",
            b"currval",
            b"previous",
        ]
        .iter()
        .any(|what| has(text, what))
}

/// Whether a text has a word anywhere, in letters of either case.
fn has(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|found| found.eq_ignore_ascii_case(what))
}

/// Whether a text begins with a statement that writes rows and nothing else, in plain words: a server that takes one statement in
/// a text runs this one, whatever follows.
fn begins_with_one_write(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let word = text.iter().position(|c| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    // Behind the word: a gap, so that it is one.
    text.get(word).is_some_and(u8::is_ascii_whitespace)
        && [&b"INSERT"[..], b"REPLACE", b"UPDATE", b"DELETE"]
            .iter()
            .any(|write| text[..word].eq_ignore_ascii_case(write))
}

/// Keeps the parameter types of an EXECUTE that binds them anew: id(4) flags(1) iterations(4), NULL bitmap, "new types"
/// flag, types (two bytes each); or of a BULK_EXECUTE: id(4) flags(2), types. `payload` may be the beginning of it.
fn remember_types(statement: &mut Prepared, command: Command, payload: &[u8]) {
    if statement.params == 0 {
        return;
    }
    let at = types_at(command, statement.params);
    let flag = match command {
        Command::STMT_BULK_EXECUTE => payload.get(5).map(|&flags| flags & BULK_SENDS_TYPES != 0),
        _ => payload.get(at - 1).map(|&flag| flag == 1),
    };
    if flag == Some(false) {
        return;
    }
    // New ones: the node's are old until this command has reached it.
    statement.types_on_node = false;
    let bound = flag.and_then(|_| payload.get(at..at + usize::from(statement.params) * 2));
    statement.types.clear();
    statement.types.extend_from_slice(bound.unwrap_or_default());
    statement.types_unseen = bound.is_none();
}

/// In the low byte of a BULK_EXECUTE's flags: the parameters' types follow.
pub const BULK_SENDS_TYPES: u8 = 128;

/// Where the parameter types stand in a COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE payload. In the former, the byte before tells
/// whether they do.
pub fn types_at(command: Command, params: u16) -> usize {
    match command {
        Command::STMT_BULK_EXECUTE => 7,
        _ => 11 + usize::from(params).div_ceil(8),
    }
}

#[cfg(test)]
mod tests;
