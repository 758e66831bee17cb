//! The only door: one client's session, from its login to its end.
//!
//! The driver shows each command ([`Session::command`]) and each end of an answer ([`Session::part`], [`Session::ended`]), and
//! asks what a loss means ([`Session::lost`]). Bytes stay with the driver; what is kept here is what must survive a node.

use protocol::capability::Caps;
use protocol::command::{self, Command};
use protocol::errno;
use protocol::ok::{self, OkPacket};
use protocol::response::End;
use protocol::statement::{Kind, Pins, Statement};

use crate::memory::Memory;
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
    /// The session has moved, and nothing was run since that would leave anything to recall.
    forgot: bool,
}

impl Session {
    /// A session that just logged in.
    pub fn new(schema: Option<Vec<u8>>) -> Self {
        Self {
            memory: Memory::new(schema),
            transaction: Transaction::None,
            status: ok::status::AUTOCOMMIT,
            forgot: false,
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
        let next = self.plan(command, payload, whole, caps);
        if self.transaction != Transaction::Lost {
            return next;
        }
        match next {
            // What was lost is rolled back: exactly what is asked for.
            Next::Forward(flight) if flight.kind() == Kind::Rollback => {
                self.transaction = Transaction::None;
                Next::AnswerOk
            }
            Next::Forward(flight) if flight.command.answers() && flight.command != Command::PING => {
                self.transaction = Transaction::None;
                Next::AnswerRolledBack
            }
            next => next,
        }
    }

    fn plan(&mut self, command: Command, payload: &[u8], whole: bool, caps: Caps) -> Next {
        let mut flight = InFlight {
            command,
            statement: None,
            scanned: None,
            recalls: false,
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
                }
                flight.is(&scanned);
                flight.recalls = scanned.recalls && !recalls_only_insert_id(text);
                flight.scanned = Some(scanned);
                if let Kind::Kill { query_only, id: Some(id) } = scanned.kind {
                    return Next::Kill { query_only, id, otherwise: flight };
                }
            }
            Command::STMT_PREPARE
            | Command::INIT_DB
            | Command::PING
            | Command::STATISTICS
            | Command::SET_OPTION => {
                flight.is_harmless(Kind::SessionOnly);
            }
            Command::FIELD_LIST | Command::PROCESS_INFO => flight.is_harmless(Kind::Read),
            // Ends whatever is open, and surely commits nothing.
            Command::RESET_CONNECTION => flight.is_harmless(Kind::Rollback),
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
                    Some(u32::MAX) => self.memory.last_prepared(),
                    Some(id) => id,
                    None => return Next::Refuse("a malformed statement command"),
                };
                return self.plan_prepared(flight, id, payload, whole);
            }
            _ => {}
        }
        Next::Forward(flight)
    }

    fn plan_prepared(&mut self, mut flight: InFlight, id: u32, payload: &[u8], whole: bool) -> Next {
        flight.statement = Some(id);
        if flight.command == Command::STMT_CLOSE {
            // Closed on its node, when it has been prepared on one; its number is gone for the client either way.
            return match self.memory.statements.get(&id) {
                Some(statement) if statement.on_node.is_some() => Next::Forward(flight),
                _ => {
                    self.memory.statements.remove(&id);
                    Next::Nothing
                }
            };
        }
        let Some(statement) = self.memory.statements.get_mut(&id) else {
            // The server's own words for it (1243) come from the node.
            return Next::Forward(flight);
        };
        match flight.command {
            Command::STMT_EXECUTE => {
                flight.is(&statement.scanned);
                flight.recalls = statement.scanned.recalls && !recalls_only_insert_id(&statement.sql);
                if whole {
                    remember_types(statement.params, &mut statement.types, payload);
                }
            }
            Command::STMT_FETCH => flight.is_harmless(Kind::Read),
            Command::STMT_SEND_LONG_DATA => statement.long_data = true,
            Command::STMT_RESET => flight.is_harmless(Kind::SessionOnly),
            _ => {}
        }
        Next::Forward(flight)
    }

    /// One part of a chain of results ended, and more follow: what it reports counts already.
    pub fn part(&mut self, flight: &InFlight, payload: &[u8], caps: Caps) {
        if let Ok(ok) = OkPacket::parse(payload, caps) {
            self.memory.ok(&ok, expects_state_change(flight));
        }
    }

    /// The answer ended. `payload` is its last packet, `text` the command's payload as the client sent it (empty when it was
    /// not kept).
    pub fn ended(&mut self, flight: &InFlight, end: &End, payload: &[u8], text: &[u8], caps: Caps) {
        match end {
            End::Ok { status, .. } => {
                if let Ok(ok) = OkPacket::parse(payload, caps) {
                    self.memory.ok(&ok, expects_state_change(flight));
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
            End::Err { .. } | End::Text => {}
            End::Prepared { id, params, .. } => {
                let sql = text.get(1..).unwrap_or_default();
                let scanned = Statement::under(sql, self.status);
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

    /// True when only the server knows whether a transaction is still open: after an error, when one was or might be.
    pub fn unsure(&self, end: &End) -> bool {
        matches!(end, End::Err { .. }) && (self.transaction == Transaction::Open || !self.autocommit())
    }

    /// What the server's status bits say, from any OK or EOF.
    pub fn server_status(&mut self, status: u16) {
        self.status = status;
        self.transaction =
            if status & ok::status::IN_TRANS != 0 { Transaction::Open } else { Transaction::None };
    }

    fn succeeded(&mut self, flight: &InFlight, text: &[u8], caps: Caps) {
        self.forgot &= flight.recalls;
        if let Some(scanned) = &flight.scanned {
            let text = command::query_text(text, caps).unwrap_or_default();
            self.memory.succeeded(text, scanned);
        } else if flight.command == Command::RESET_CONNECTION {
            self.memory.reset();
        } else if let Some(statement) = flight.statement.and_then(|id| self.memory.statements.get(&id))
            && flight.command == Command::STMT_EXECUTE
        {
            // Run again elsewhere, its text alone would lack the parameters.
            let executed = Statement { literal_user_variables: false, ..statement.scanned };
            self.memory.succeeded(&[], &executed);
        }
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
        self.memory.statements.remove(&statement);
    }

    /// The node was lost with this command on its way.
    pub fn lost(&mut self, flight: &InFlight, progress: Progress) -> Verdict {
        self.memory.unprepare_all();
        self.transaction = Transaction::None;
        retry::verdict(flight.what, progress)
    }

    /// The node was lost while nothing was on its way.
    pub fn lost_idle(&mut self) {
        self.memory.unprepare_all();
        if self.transaction == Transaction::Open {
            self.transaction = Transaction::Lost;
        }
    }

    /// The session stands on another node now.
    pub fn moved(&mut self) {
        self.forgot = true;
    }

    /// True when the command asks for something that only the former node knew.
    pub fn has_forgotten(&self, flight: &InFlight) -> bool {
        self.forgot && flight.recalls
    }

    /// The node refused the command with an error that speaks of the node. Such an answer means that it did not run, but for
    /// errors that may come after the work was done: those count as a loss.
    pub fn refused(&mut self, flight: &InFlight, code: u16) -> Verdict {
        let ran = !matches!(
            code,
            errno::UNKNOWN_COM_ERROR | errno::OPTION_PREVENTS_STATEMENT | errno::READ_ONLY_MODE
        ) || flight.kind() == Kind::Commit;
        self.lost(flight, Progress { sent: ran, delivered: false })
    }

    /// What keeps this session from moving, by name.
    pub fn pins(&self) -> Pins {
        self.memory.pins()
    }
}

/// Statements whose effect on the session the scanner can name need no "unnamed change".
fn expects_state_change(flight: &InFlight) -> bool {
    match &flight.scanned {
        Some(scanned) => {
            !scanned.pins.is_empty()
                || !scanned.unpins.is_empty()
                || scanned.literal_user_variables
                || scanned.kind == Kind::SessionOnly
        }
        None => !matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE),
    }
}

/// LAST_INSERT_ID() is restored with the session; what else recalls is not.
fn recalls_only_insert_id(text: &[u8]) -> bool {
    let has = |what: &[u8]| text.windows(what.len()).any(|found| found.eq_ignore_ascii_case(what));
    has(b"last_insert_id")
        && ![&b"found_rows"[..], b"row_count", b"warning", b"error", b"diagnostics", b"profile"]
            .iter()
            .any(|what| has(what))
}

/// Keeps the parameter types of an EXECUTE that binds them anew: id(4) flags(1) iterations(4), NULL bitmap, "new types"
/// flag, types (two bytes each).
fn remember_types(params: u16, types: &mut Vec<u8>, payload: &[u8]) {
    if params == 0 {
        return;
    }
    let flag_at = types_flag_at(params);
    let length = usize::from(params) * 2;
    if payload.get(flag_at) == Some(&1)
        && let Some(bound) = payload.get(flag_at + 1..flag_at + 1 + length)
    {
        types.clear();
        types.extend_from_slice(bound);
    }
}

/// Where the "new types follow" flag stands in a COM_STMT_EXECUTE payload.
pub fn types_flag_at(params: u16) -> usize {
    10 + usize::from(params).div_ceil(8)
}
