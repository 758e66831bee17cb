//! The interface of this crate: one client's session, from its login to its end.
//!
//! The driver passes each command ([`Session::command`]) and each end of an answer ([`Session::part`], [`Session::ended`]), and asks what
//! to do after a loss ([`Session::lost`]). The driver keeps the bytes. The state that must survive a node is kept here ([`Wanted`]); the
//! state that one link has is passed with each call ([`Standing`]).

use memchr::{memchr_iter, memchr2_iter};
use protocol::capability::Caps;
use protocol::command::{self, Command, LAST_PREPARED};
use protocol::errno;
use protocol::ok::{self, OkPacket};
use protocol::packet::Fields;
use protocol::parameter::{bulk_parameters, parameters};
use protocol::response::End;
use protocol::statement::{
    InsertId, Pins, Recalls, Sets, Statement, StatementKind, asked_sequences, drawn_sequences, may_give,
    may_give_bound,
};

use crate::command::{BULK_SENDS_TYPES, InFlight, Next, Owed, begins_with_one_write, types_at};
use crate::finish::{Delivered, Failure, Finish, LOST_DATA};
use crate::names::Lists;
use crate::retry::{self, Circumstances, LossDecision, Progress};
use crate::standing::Standing;
use crate::wanted::{Begun, Prepared, Wanted};

/// One client's session. See the head of this file.
#[derive(Debug)]
pub struct Session {
    /// The state that must be set up again on another node.
    pub wanted: Wanted,
    /// The node's status bits as of the last answer that the client saw.
    status: u16,
    /// The error that the client's next command gets.
    owed: Option<Owed>,
    /// The current answer consists of several results, and one of them has ended.
    saw_part: bool,
}

impl Session {
    /// A session that just logged in. `defaults`: the status bits that a login begins with on the servers.
    pub fn new(schema: Option<Vec<u8>>, defaults: u16) -> Self {
        Self { wanted: Wanted::new(schema), status: defaults, owed: None, saw_part: false }
    }

    fn autocommit(&self) -> bool {
        self.status & ok::status::AUTOCOMMIT != 0
    }

    /// The status bits of an OK packet that the proxy makes itself: those that the server's would have. Clients send no COMMIT where they
    /// see no transaction, so that a bit which is left out may be a lost write. `link`: the state of the present link, if there is one.
    pub fn status(&self, link: Option<&Standing>) -> u16 {
        let of_transaction = ok::status::IN_TRANS | ok::status::IN_TRANS_READONLY;
        let lasting = self.status & ok::status::LASTING;
        if link.is_some_and(Standing::in_transaction) {
            lasting | ok::status::IN_TRANS
        } else {
            lasting & !of_transaction
        }
    }

    /// The status bits of the last answer, which determine how a text is parsed.
    pub fn flags(&self) -> u16 {
        self.status
    }

    /// The error that the client has not been told yet.
    pub fn owed(&self) -> Option<&Owed> {
        self.owed.as_ref()
    }

    /// The next command will get this error, unless a more serious one is waiting already.
    pub fn owe(&mut self, owed: Owed) {
        let has_graver = match &self.owed {
            Some(Owed::SessionLost(_)) => true,
            Some(Owed::Unknown) => owed == Owed::RolledBack,
            _ => false,
        };
        if !has_graver {
            self.owed = Some(owed);
        }
    }

    // ---- a command

    /// Decides about a command of the client. `payload` is all of it, or, with `whole` false, as much as was received of one that is larger
    /// than the proxy keeps; such a text counts as a write. `link`: the state of the present link, if there is one.
    pub fn command(
        &mut self,
        payload: &[u8],
        whole: bool,
        caps: Caps,
        link: Option<&mut Standing>,
        names: Lists<'_>,
    ) -> Next {
        let Some(command) = Command::of(payload) else { return Next::Refuse("an empty command packet") };
        self.saw_part = false;
        let next = match link {
            Some(link) => self.plan(command, payload, whole, caps, link, names),
            None => self.plan(command, payload, whole, caps, &mut Standing::default(), names),
        };
        if self.owed.is_some() { self.tell(next) } else { next }
    }

    /// What becomes of a command while an error is waiting for the client.
    fn tell(&mut self, next: Next) -> Next {
        let is_session = matches!(self.owed, Some(Owed::SessionLost(_)));
        match next {
            // The transaction is rolled back, which is what the client asks for. (Not if it also begins a new one.)
            Next::Forward(flight)
                if flight.kind() == StatementKind::Rollback && !flight.chains && !is_session =>
            {
                self.owed = None;
                Next::AnswerOk
            }
            // These commands have no answer, so the next one that has gets the error.
            Next::Forward(flight) if !flight.command.answers() => {
                match (flight.command, flight.statement, &self.owed) {
                    (Command::STMT_CLOSE, Some(id), _) => self.wanted.close(id),
                    (Command::STMT_SEND_LONG_DATA, _, Some(_)) => self.forget_long_data(&flight),
                    _ => {}
                }
                Next::Nothing
            }
            Next::Forward(flight) if flight.command == Command::PING => Next::Close,
            Next::Forward(flight) if asks_nothing_of_a_transaction(flight.command) => match &self.owed {
                Some(owed) => Next::Tell(owed.clone()),
                None => Next::Forward(flight),
            },
            Next::Forward(_) | Next::Kill { .. } | Next::UnknownStatement(_) => match self.owed.take() {
                Some(owed) => {
                    if let Next::Forward(flight) = &next {
                        let _ = self.take_refused(flight);
                    }
                    Next::Tell(owed)
                }
                None => next,
            },
            next => next,
        }
    }

    fn plan(
        &mut self,
        command: Command,
        payload: &[u8],
        whole: bool,
        caps: Caps,
        link: &mut Standing,
        names: Lists<'_>,
    ) -> Next {
        let mut flight = InFlight::new(command, link.in_transaction(), self.autocommit());
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
                    // The rest may be anything, including another statement.
                    scanned = cut_off(scanned);
                }
                if !caps.has(Caps::MULTI_STATEMENTS) && begins_with_one_write(text) {
                    scanned.runs_several = false;
                }
                flight.is(&scanned);
                flight.may_set_anything = !whole && scanned.runs_several;
                self.note_sequences(&mut flight, text, scanned.kind);
                if self.wanted.insert_id().is_none() && names_insert_id(text) {
                    // SHOW VARIABLES shows it, too.
                    flight.recalls = flight.recalls.union(Recalls::INSERT_ID);
                }
                flight.look_up(text, self.status, names);
                flight.what.untransactional |= !whole;
                self.mark_chain(&mut flight, scanned);
                flight.scanned = Some(scanned);
                if let StatementKind::Kill { query_only, id: Some(id) } = scanned.kind {
                    return Next::Kill { query_only, id, otherwise: flight };
                }
            }
            Command::STMT_PREPARE => {
                self.wanted.preparing();
                flight.is_harmless(StatementKind::SessionOnly);
            }
            Command::INIT_DB | Command::PING | Command::STATISTICS | Command::SET_OPTION => {
                flight.is_harmless(StatementKind::SessionOnly);
            }
            Command::FIELD_LIST | Command::PROCESS_INFO => flight.is_harmless(StatementKind::Read),
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
                    Some(LAST_PREPARED) => self.wanted.last_prepared(),
                    Some(id) => Some(id).filter(|id| self.wanted.statements.contains_key(id)),
                    None => return Next::Refuse("a malformed statement command"),
                };
                return match id {
                    Some(id) => self.plan_prepared(flight, id, payload, link, names),
                    // The node does not know this id, or knows it as another statement.
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

    /// Notes the sequences that a text draws from or asks for.
    fn note_sequences(&self, flight: &mut InFlight, text: &[u8], kind: StatementKind) {
        let (draws, asks) =
            (kind == StatementKind::Write && draws(text), flight.recalls.has(Recalls::SEQUENCE));
        if !draws && !asks {
            return;
        }
        let schema = String::from_utf8_lossy(self.wanted.schema().unwrap_or_default());
        if draws {
            flight.draws = drawn_sequences(text, self.status, &schema);
        }
        if asks {
            flight.asks_sequences = asked_sequences(text, self.status, &schema);
        }
    }

    /// A ROLLBACK that also begins a new transaction is not complete when its node is lost.
    fn mark_chain(&self, flight: &mut InFlight, scanned: Statement) {
        if !matches!(scanned.kind, StatementKind::Commit | StatementKind::Rollback) {
            return;
        }
        let by_setting = self.wanted.changed("completion_type");
        flight.chains = scanned.chains
            || by_setting.is_some_and(|value| !value.eq_ignore_ascii_case(b"NO_CHAIN") && value != b"0");
        if flight.chains && scanned.kind == StatementKind::Rollback && flight.what.in_transaction {
            flight.is_harmless(StatementKind::Write);
        }
    }

    fn plan_prepared(
        &mut self,
        mut flight: InFlight,
        id: u32,
        payload: &[u8],
        link: &mut Standing,
        names: Lists<'_>,
    ) -> Next {
        flight.statement = Some(id);
        match flight.command {
            // It is closed on the node only if it was prepared there. The client cannot use its id any more either way.
            Command::STMT_CLOSE if link.statement(id).is_none() => {
                self.wanted.close(id);
                return Next::Nothing;
            }
            Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE => {
                let Some(statement) = self.wanted.statements.get_mut(&id) else {
                    return Next::UnknownStatement(id);
                };
                if remember_types(statement, flight.command, payload) {
                    // The types are new, and unknown to the node until this command has reached it.
                    link.change(id, |on_node| on_node.types_told = false);
                }
                let scanned = statement.scanned;
                flight.is(&scanned);
                let statement = &self.wanted.statements[&id];
                self.note_sequences(&mut flight, &statement.sql, scanned.kind);
                flight.look_up(&statement.sql, self.status, names);
                flight.what.untransactional |= statement.sql.is_empty();
                self.mark_chain(&mut flight, scanned);
                // Servers send the results of a CALL directly, even if a cursor was asked for.
                flight.asks_cursor = command::asks_for_cursor(payload) && !scanned.calls;
                // It runs once for each set of parameters.
                flight.several |= flight.command == Command::STMT_BULK_EXECUTE;
            }
            Command::STMT_FETCH => flight.is_harmless(StatementKind::Read),
            Command::STMT_RESET => flight.is_harmless(StatementKind::SessionOnly),
            _ => {}
        }
        Next::Forward(flight)
    }

    // ---- its answer

    /// A part of an answer with several results ended, and more follow; what it reports counts already. `payload` is its OK or EOF packet.
    pub fn part(&mut self, link: &mut Standing, flight: &InFlight, payload: &[u8], caps: Caps) {
        if let Some(status) = short_eof(payload) {
            self.ended_by_eof(link, flight, status);
            if let Some(scanned) = flight.scanned.or_else(|| self.executed(flight)) {
                // An EOF packet has no insert id.
                self.wanted.note_insert_id(&scanned, 0, |_| true, link);
            }
            self.server_status(link, status);
        } else if let Ok(ok) = OkPacket::parse(payload, caps) {
            self.wanted.ok(&ok, flight.unnamed(), flight.sets(), link);
            if let Some(scanned) = flight.scanned.or_else(|| self.executed(flight)) {
                self.wanted.note_insert_id(&scanned, ok.last_insert_id, |_| true, link);
            }
            self.server_status(link, ok.status);
        }
    }

    /// The answer ended. `payload` is its last packet, and `text` the command's payload as the client sent it (empty when it was not kept).
    pub fn ended(
        &mut self,
        link: &mut Standing,
        flight: &InFlight,
        end: &End,
        payload: &[u8],
        text: &[u8],
        caps: Caps,
    ) {
        match end {
            End::Ok { status, changed, warnings } => {
                // The hot path: most answers report no change of the session and no insert id.
                let mut good = GoodEnd {
                    id: 0,
                    has_rows: payload.first() == Some(&ok::EOF),
                    warns: *warnings > 0,
                    wrote: payload.get(1) != Some(&0) && status & ok::status::IN_TRANS == 0,
                };
                if (*changed || tells_an_id(payload))
                    && let Ok(ok) = OkPacket::parse(payload, caps)
                {
                    self.wanted.ok(&ok, flight.unnamed(), flight.sets(), link);
                    good.id = ok.last_insert_id;
                }
                self.succeeded(link, flight, text, good, caps);
                self.server_status(link, *status);
                note_cursor(link, flight, *status);
            }
            End::Eof { status } => {
                self.ended_by_eof(link, flight, *status);
                let warns = payload.get(1..3).is_some_and(|count| count != [0, 0]);
                let good = GoodEnd { id: 0, has_rows: true, warns, wrote: false };
                self.succeeded(link, flight, text, good, caps);
                self.server_status(link, *status);
                note_cursor(link, flight, *status);
            }
            End::Err { code } => self.answered_by_error(link, flight, *code),
            End::Text => {}
            End::Prepared { id, params, .. } => {
                // Empty if it was too long to be kept; then nothing is known about it.
                let sql = text.get(1..).unwrap_or_default();
                let kept = if self.wanted.has_room_for(sql) { sql } else { b"" };
                let scanned = Statement::under(kept, self.status);
                let scanned = if kept.is_empty() { cut_off(scanned) } else { scanned };
                let known = self.wanted.prepared(kept, scanned, *params);
                link.prepared(known, *id, kept.is_empty());
            }
        }
        if let Some(id) = flight.statement
            && matches!(
                flight.command,
                Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE | Command::STMT_RESET
            )
        {
            link.change(id, |on_node| on_node.long_data = false);
            if flight.command == Command::STMT_RESET
                && let Some(statement) = self.wanted.statements.get_mut(&id)
            {
                statement.refused = None;
            }
        }
    }

    /// A result ended with an EOF packet, which cannot report what changed.
    fn ended_by_eof(&mut self, link: &mut Standing, flight: &InFlight, status: u16) {
        if status & ok::status::SESSION_STATE_CHANGED != 0
            && let Some(scanned) = flight.scanned.or_else(|| self.executed(flight))
        {
            self.wanted.changed_without_name(&scanned, link);
        }
    }

    /// Handles an error. Several servers roll back the whole transaction on some errors, and an error packet carries no status. The driver
    /// therefore asks the server for it ([`Session::unsure`]).
    fn answered_by_error(&mut self, link: &mut Standing, flight: &InFlight, code: u16) {
        let Some(scanned) = flight.scanned.or_else(|| self.executed(flight)) else { return };
        // The error itself is in the diagnostics area of the present node.
        link.remembers(Recalls::WARNINGS.union(Recalls::ROW_COUNT));
        // A text that cannot be parsed has changed nothing, unless it is not the first of several statements.
        let several = self.saw_part || flight.several;
        if code != errno::PARSE_ERROR || several {
            let runs_several = scanned.runs_several || several;
            self.wanted.failed(&Statement { runs_several, ..scanned }, link);
        }
    }

    /// A command without an answer has reached the node.
    pub fn sent(link: &mut Standing, flight: &InFlight) {
        if flight.command == Command::STMT_SEND_LONG_DATA
            && let Some(id) = flight.statement
        {
            link.change(id, |on_node| on_node.long_data = true);
        }
    }

    /// Whether only the server knows if a transaction is open: after an error, when one was or may have been open.
    pub fn unsure(&self, link: &Standing, flight: &InFlight, end: &End) -> bool {
        matches!(end, End::Err { .. })
            && (link.in_transaction() || !self.autocommit() || flight.what.may_commit || self.saw_part)
    }

    /// Takes the server's status bits from any OK or EOF packet.
    pub fn server_status(&mut self, link: &mut Standing, status: u16) {
        if (self.status ^ status) & ok::status::AUTOCOMMIT != 0 {
            self.wanted.set_autocommit(status & ok::status::AUTOCOMMIT != 0);
        }
        self.status = status;
        self.saw_part |= status & ok::status::MORE_RESULTS != 0;
        let is_open = status & ok::status::IN_TRANS != 0;
        if status & ok::status::AUTOCOMMIT != 0 || link.reports_transaction() && !is_open {
            link.set_savepoint(false);
        }
        link.set_transaction(is_open);
    }

    /// A new link was opened, with these status bits; it has no transaction.
    pub fn attached(&mut self, status: u16) {
        self.wanted.use_schema();
        self.wanted.begin_with(Begun::OnNode(status));
        self.status = status & !ok::status::IN_TRANS;
    }

    /// The scanner's result for the prepared statement that `flight` runs.
    fn executed(&self, flight: &InFlight) -> Option<Statement> {
        matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE)
            .then_some(flight.statement)
            .flatten()
            .and_then(|id| self.wanted.statements.get(&id))
            .map(|statement| statement.scanned)
    }

    fn succeeded(&mut self, link: &mut Standing, flight: &InFlight, text: &[u8], end: GoodEnd, caps: Caps) {
        if let Some(scanned) = &flight.scanned {
            let text = command::query_text(text, caps).unwrap_or_default();
            self.wanted.succeeded(text, scanned, link);
            self.wanted.note_insert_id(
                scanned,
                end.id,
                |id| text.is_empty() || may_give(text, self.status, id),
                link,
            );
        } else if let Some(scanned) = self.executed(flight) {
            let run = text;
            let statement = flight.statement.and_then(|id| self.wanted.statements.get(&id));
            // Repeated on another node, the text alone would lack the parameters. The text is copied only for the few statements that need it.
            let is_kept = scanned.literal_user_variables || scanned.sets != Sets::NONE;
            let text = statement
                .filter(|statement| is_kept && statement.params == 0)
                .map(|statement| statement.sql.clone());
            let literal = scanned.literal_user_variables && text.is_some();
            let executed = Statement { literal_user_variables: literal, ..scanned };
            self.wanted.succeeded(text.as_deref().unwrap_or_default(), &executed, link);
            let gives =
                scanned.insert_id.needs_values(end.id) && self.may_give_prepared(link, flight, run, end.id);
            self.wanted.note_insert_id(&scanned, end.id, |_| gives, link);
        } else {
            return; // PING and the like leave nothing in the session
        }
        let scanned = flight.scanned.or_else(|| self.executed(flight));
        match scanned {
            Some(ended) if ended.surely_ends_transaction() => link.set_savepoint(false),
            Some(set) if set.kind == StatementKind::Savepoint && !self.autocommit() => {
                link.set_savepoint(true)
            }
            _ => {}
        }
        let renews = scanned.map_or(Recalls::NONE, |scanned| scanned.renews);
        let mut anew = Recalls::ROW_COUNT.union(renews);
        if !end.has_rows {
            anew = anew.without(Recalls::FOUND_ROWS);
        }
        if end.warns {
            anew = anew.union(Recalls::WARNINGS);
        }
        if end.wrote && flight.kind() == StatementKind::Write && flight.recalls.is_empty() {
            anew = anew.union(Recalls::LAST_GTID);
        }
        if !flight.draws.is_empty() {
            link.drew(&flight.draws);
        }
        link.remembers(anew);
    }

    /// Whether the prepared INSERT that the command `run` ran may itself have given a row the number `id`.
    fn may_give_prepared(&self, link: &Standing, flight: &InFlight, run: &[u8], id: u64) -> bool {
        let Some((number, statement)) =
            flight.statement.and_then(|id| Some((id, self.wanted.statements.get(&id)?)))
        else {
            return true;
        };
        // Long data is not kept here.
        let is_seen = !run.is_empty()
            && !statement.types_unseen
            && link.statement(number).is_some_and(|on_node| !on_node.long_data);
        let (params, types) = (statement.params, &statement.types);
        let rows = match flight.command {
            Command::STMT_EXECUTE if is_seen => parameters(run, params, types, |_| None).map(|row| vec![row]),
            Command::STMT_BULK_EXECUTE if is_seen => {
                let types_bytes =
                    if bulk_sends_types(run) == Some(true) { 2 * usize::from(params) } else { 0 };
                bulk_parameters(run, types_at(flight.command, params) + types_bytes, params, types)
            }
            _ => return true,
        };
        rows.map_or(true, |rows| {
            rows.is_empty() || rows.iter().any(|row| may_give_bound(&statement.sql, self.status, id, row))
        })
    }

    // ---- what becomes of a link

    /// A STMT_CLOSE was sent, or did not have to be.
    pub fn closed(&mut self, link: Option<&mut Standing>, statement: u32) {
        self.wanted.close(statement);
        if let Some(link) = link {
            link.closed(statement);
        }
    }

    /// COM_RESET_CONNECTION: the session is as after the login except for the schema. The same was done on the node, or there is no link.
    /// `defaults`: as for [`Session::new`].
    pub fn reset(&mut self, defaults: u16) {
        self.wanted.reset();
        self.owed = None;
        self.status = defaults;
    }

    /// COM_CHANGE_USER was refused, and the connection goes on: the session begins anew, as on MariaDB. `defaults`: as for [`Session::new`].
    pub fn change_refused(&mut self, defaults: u16) {
        self.reset(defaults);
        self.wanted.use_schema();
        self.wanted.take_charsets_of_server();
    }

    /// The state of a new link of this session. `has_moved`: the session has run statements on another node.
    pub fn standing(&self, has_moved: bool) -> Standing {
        if has_moved { Standing::after_move(self.wanted.insert_id().is_some()) } else { Standing::default() }
    }

    /// Long data was not taken, and was not answered: the next execution of its statement ends so. What was lost beside the data is owed to
    /// the next command of any kind.
    pub fn refuse_long_data(&mut self, flight: &InFlight, why: Finish) {
        let owed = match &why {
            Finish::Answered | Finish::Ok => return,
            Finish::Fail { failure: Failure::RolledBack, .. } => Owed::RolledBack,
            Finish::Fail { failure: Failure::OutcomeUnknown, .. } => Owed::Unknown,
            _ => return self.keep_refused(flight, why),
        };
        self.owe(owed);
        self.forget_long_data(flight);
    }

    fn forget_long_data(&mut self, flight: &InFlight) {
        let (failure, detail) = (Failure::Forgotten, LOST_DATA.to_owned());
        self.keep_refused(flight, Finish::Fail { failure, detail, delivered: Delivered::Nothing });
    }

    fn keep_refused(&mut self, flight: &InFlight, refused: Finish) {
        if let Some(statement) = flight.statement.and_then(|id| self.wanted.statements.get_mut(&id)) {
            statement.refused.get_or_insert_with(|| Box::new(refused));
        }
    }

    /// How an EXECUTE ends whose long data was not taken.
    pub fn take_refused(&mut self, flight: &InFlight) -> Option<Finish> {
        if !matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE) {
            return None;
        }
        let statement = self.wanted.statements.get_mut(&flight.statement?)?;
        statement.refused.take().map(|refused| *refused)
    }

    /// An EXECUTE was answered by the proxy. `true` when long data for it is on the node, which the next EXECUTE must not use.
    pub fn left_long_data(link: &mut Standing, flight: &InFlight) -> bool {
        let Some(id) = flight.statement else { return false };
        if !matches!(flight.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE) {
            return false;
        }
        let left = link.statement(id).is_some_and(|on_node| on_node.long_data);
        link.change(id, |on_node| on_node.long_data = false);
        left
    }

    /// The node was lost during this command. `link` is the state that the link had.
    pub fn lost(&mut self, link: &Standing, flight: &InFlight, progress: Progress) -> LossDecision {
        // The circumstances were determined before the session had this node, whose autocommit may differ.
        let autocommit = flight.what.autocommit || self.autocommit();
        let untransactional = (progress.sent && flight.what.untransactional) || link.wrote_untransactional();
        if flight.what.in_transaction {
            let owed = if link.wrote_untransactional() { Owed::Unknown } else { Owed::RolledBack };
            if asks_nothing_of_a_transaction(flight.command) {
                self.owe(owed);
            }
        }
        retry::decide(Circumstances { autocommit, untransactional, ..flight.what }, progress)
    }

    /// What tied the session to the link that was lost during this command, which was sent and will not be sent again. Of several
    /// statements any may have run, whether its answer has come or not, so all that they could give the session counts. A single
    /// statement without an answer has given the client nothing; but the number that it may have drawn is not known.
    pub fn ties_lost(&mut self, link: &Standing, flight: &InFlight) -> Pins {
        match flight.scanned.or_else(|| self.executed(flight)) {
            Some(scanned) if !scanned.alone || self.saw_part => {
                let unseen = if flight.may_set_anything { Pins::UNNAMED } else { Pins::NONE };
                link.pins().union(self.wanted.cut_in_two(&scanned)).union(unseen)
            }
            Some(scanned) => {
                self.wanted.may_have_made_id(&scanned);
                link.pins()
            }
            None => link.pins(),
        }
    }

    /// The node was lost or left while no command was running. `link` is the state that the link had.
    pub fn lost_idle(&mut self, link: &Standing) {
        if link.in_transaction() {
            self.owe(if link.wrote_untransactional() { Owed::Unknown } else { Owed::RolledBack });
        }
        let pins = link.pins();
        if !pins.is_empty() {
            self.owe(Owed::SessionLost(pins.names().join(", ")));
        }
    }

    /// The node was lost when it was asked whether a transaction is open after `flight` had failed. If that is not certain, the client is
    /// told that its transaction is lost. A single statement that failed with autocommit on leaves none open.
    pub fn lost_unsure(&mut self, link: &Standing, flight: &InFlight) {
        let has_none = !link.in_transaction()
            && flight.what.autocommit
            && self.autocommit()
            && !self.saw_part
            && !flight.several
            && !flight.chains;
        self.lost_idle(link);
        if !has_none {
            let untransactional = link.wrote_untransactional() || flight.what.untransactional;
            self.owe(if untransactional { Owed::Unknown } else { Owed::RolledBack });
        }
    }

    /// What the command asks for that only a former node knew.
    pub fn forgotten(link: &Standing, flight: &InFlight) -> Recalls {
        let forgotten = link.forgotten(flight.recalls);
        match &flight.asks_sequences {
            Some(asked) if link.has_drawn(asked) => forgotten.without(Recalls::SEQUENCE),
            _ => forgotten,
        }
    }

    /// The node refused the command with an error about itself. Such an error means that the command did not run, except for those that may
    /// also come after the work was done; these count as a loss. So does one that may write where nothing is rolled back: a trigger may have done so before
    /// the error came.
    pub fn refused(&mut self, link: &Standing, flight: &InFlight, code: u16) -> LossDecision {
        let ran = !errno::is_before_running(code)
            || flight.kind() == StatementKind::Commit
            || flight.several
            || flight.reaches_untransactional;
        self.lost(link, flight, Progress { sent: ran, delivered: false })
    }

    /// Whether only the node knows the value of LAST_INSERT_ID().
    pub fn has_insert_id_to_save(&self, link: &Standing) -> bool {
        self.wanted.insert_id().is_none() && link.forgotten(Recalls::INSERT_ID).is_empty()
    }

    /// Whether only the node knows some of the session's state, and it can be read before the session leaves.
    pub fn has_to_save(&self, link: &Standing) -> bool {
        let pins = link.pins();
        self.has_insert_id_to_save(link)
            || link.must_ask_all()
            || pins.has(Pins::USER_VARIABLE)
            || pins.has(Pins::GET_LOCK)
    }
}

/// What the last packet of a successful answer says.
#[derive(Clone, Copy)]
struct GoodEnd {
    /// The insert id.
    id: u64,
    /// It ends a result set.
    has_rows: bool,
    /// It reports warnings of this statement.
    warns: bool,
    /// Rows were changed and committed.
    wrote: bool,
}

fn note_cursor(link: &mut Standing, flight: &InFlight, status: u16) {
    let Some(id) = flight.statement else { return };
    match flight.command {
        Command::STMT_EXECUTE => {
            let open = flight.asks_cursor && status & ok::status::CURSOR_EXISTS != 0;
            if open || link.statement(id).is_some_and(|on_node| on_node.cursor) {
                link.change(id, |on_node| on_node.cursor = open);
            }
        }
        Command::STMT_FETCH if status & ok::status::LAST_ROW_SENT != 0 => {
            link.change(id, |on_node| on_node.cursor = false);
        }
        Command::STMT_RESET => link.change(id, |on_node| on_node.cursor = false),
        _ => {}
    }
}

/// Commands in whose answer clients do not look for the end of a transaction: the error that they get is given to the next one as well. A client that
/// ignores it, and asks for its COMMIT, must not be told that this succeeded.
fn asks_nothing_of_a_transaction(command: Command) -> bool {
    matches!(command, Command::PING | Command::STATISTICS | Command::SET_OPTION | Command::STMT_RESET)
}

/// For a text of which only the beginning was kept: the rest may be anything, including another statement.
fn cut_off(scanned: Statement) -> Statement {
    Statement {
        kind: StatementKind::Write,
        may_commit: true,
        runs_several: true,
        alone: false,
        literal_user_variables: false,
        insert_id: InsertId::Unknown,
        touches_engines: true,
        ..scanned
    }
}

/// Whether a text may draw a number from a sequence.
fn draws(text: &[u8]) -> bool {
    // In both, the rarest letter is the third.
    with_both_cases(text, b'x')
        .any(|at| begins_at(text, at, 2, b"nextval") || begins_at(text, at, 2, b"next value"))
}

/// Whether a text names one of the variables for LAST_INSERT_ID().
fn names_insert_id(text: &[u8]) -> bool {
    memchr_iter(b'_', text).any(|at| begins_at(text, at, 4, b"last_insert_id"))
        || with_both_cases(text, b'y').any(|at| begins_at(text, at, 7, b"identity"))
}

/// Where a letter stands in a text, small or capital.
fn with_both_cases(text: &[u8], letter: u8) -> impl Iterator<Item = usize> + '_ {
    memchr2_iter(letter, letter.to_ascii_uppercase(), text)
}

/// Whether `word`, in either case, begins `before` bytes before `at`.
fn begins_at(text: &[u8], at: usize, before: usize, word: &[u8]) -> bool {
    let found = at.checked_sub(before).and_then(|begin| text.get(begin..begin + word.len()));
    found.is_some_and(|found| found.eq_ignore_ascii_case(word))
}

/// Whether an OK packet may carry an insert id: after a one-byte row count, a zero means none.
fn tells_an_id(payload: &[u8]) -> bool {
    !matches!(payload, [_, 0..=250, 0, ..])
}

/// The status flags of an EOF packet.
fn short_eof(payload: &[u8]) -> Option<u16> {
    if payload.first() != Some(&ok::EOF) || payload.len() > 5 {
        return None;
    }
    let mut fields = Fields::new(payload);
    fields.u8().and_then(|_| fields.u16()).and_then(|_| fields.u16()).ok()
}

/// Whether a COM_STMT_BULK_EXECUTE sends the parameters' types; `None` where its flags are missing.
fn bulk_sends_types(payload: &[u8]) -> Option<bool> {
    payload.get(5).map(|flags| flags & BULK_SENDS_TYPES != 0)
}

/// Keeps the parameter types of an EXECUTE that sends new ones, and returns whether it does: id(4) flags(1) iterations(4), NULL bitmap,
/// "new types" flag, types (two bytes each); or of a BULK_EXECUTE: id(4) flags(2), types. `payload` may be only the beginning of it.
fn remember_types(statement: &mut Prepared, command: Command, payload: &[u8]) -> bool {
    if statement.params == 0 {
        return false;
    }
    let at = types_at(command, statement.params);
    let flag = match command {
        Command::STMT_BULK_EXECUTE => bulk_sends_types(payload),
        _ => payload.get(at - 1).map(|&flag| flag == 1),
    };
    if flag == Some(false) {
        return false;
    }
    let bound = flag.and_then(|_| payload.get(at..at + usize::from(statement.params) * 2));
    statement.types.clear();
    statement.types.extend_from_slice(bound.unwrap_or_default());
    statement.types_unseen = bound.is_none();
    true
}

#[cfg(test)]
mod tests;
