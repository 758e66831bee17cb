//! One session's part of the tap: which of its reads the listeners get, and as which text.
//!
//! Made when a command of the session first finds a listener, and kept from then on.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use protocol::capability::Caps;
use protocol::command::{Command, query_text};
use protocol::ok::status::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use protocol::statement::{StatementKind, queries_without_locking};
use session::as_text::{Charset, NoText, as_text, charset_of_login};
use session::bound::Bound;
use session::command::InFlight;
use session::finished::{Finished, Offered, ReadState};
use session::session::Session;
use session::wanted::{Prepared, Tokens};
use tokio::sync::mpsc::error::TrySendError;

use super::long::LongData;
use super::{Listener, Tap};

/// See the head of this file.
pub(crate) struct ReadRecorder {
    connection: u32,
    /// How often the session was reset.
    begun: u32,
    user: Arc<str>,
    client: IpAddr,
    login_charset: u16,
    edition: u64,
    listeners: Arc<[Arc<Listener>]>,
    dice: u64,
    /// The session's settings, and the number of that state in [`Session`].
    state: Option<(u64, Arc<ReadState>)>,
    long: LongData,
}

/// The connection that the reads come from.
pub(crate) struct Connection<'a> {
    pub(crate) id: u32,
    pub(crate) user: &'a str,
    pub(crate) client: IpAddr,
    /// The number of the character set in its login.
    pub(crate) login_charset: u16,
}

/// A command that was answered successfully.
pub(crate) struct AnsweredCommand<'a> {
    pub(crate) flight: &'a InFlight,
    /// The command as the client sent it; empty when it was not kept.
    pub(crate) payload: &'a [u8],
    pub(crate) caps: Caps,
    /// The session has user variables whose values only its node knows.
    pub(crate) ties_variables: bool,
    pub(crate) rows: u64,
    pub(crate) took: Duration,
}

/// A read as the listeners get it.
struct LoggedRead<'a> {
    sql: Cow<'a, [u8]>,
    schema: Option<&'a [u8]>,
}

impl ReadRecorder {
    pub(crate) fn new(connection: &Connection<'_>) -> Self {
        Self {
            connection: connection.id,
            begun: 0,
            user: connection.user.into(),
            client: connection.client,
            login_charset: connection.login_charset,
            edition: 0,
            listeners: Arc::default(),
            // Mixed, since sessions with consecutive ids would otherwise make the same choices.
            dice: mixed(u64::from(connection.id)),
            state: None,
            long: LongData::default(),
        }
    }

    /// COM_RESET_CONNECTION or COM_CHANGE_USER: for the listeners it is another session.
    pub(crate) fn begins_anew(&mut self, connection: &Connection<'_>) {
        self.begun = self.begun.wrapping_add(1);
        self.user = connection.user.into();
        self.login_charset = connection.login_charset;
        self.state = None;
        self.long = LongData::default();
    }

    /// A command is about to be sent. `payload`: as much of it as was received; `whole`: that is all of it. `has_long`: the node has long
    /// data for its statement.
    pub(crate) fn will_send(
        &mut self,
        tap: &Tap,
        flight: &InFlight,
        payload: &[u8],
        whole: bool,
        has_long: bool,
    ) {
        let Some(id) = flight.statement else { return };
        self.long.recorded_under(tap.edition());
        match flight.command {
            Command::STMT_EXECUTE => self.long.executes(id, has_long),
            Command::STMT_SEND_LONG_DATA => self.long.keep(id, payload, whole, has_long),
            Command::STMT_RESET => self.long.forget(id),
            _ => {}
        }
    }

    /// A statement was closed.
    pub(crate) fn closed(&mut self, id: u32) {
        self.long.forget(id);
    }

    /// A command was answered successfully, and the answer was sent to the client.
    pub(crate) fn answered(&mut self, tap: &Tap, session: &mut Session, answered: &AnsweredCommand<'_>) {
        if answered.flight.kind() != StatementKind::Read {
            return;
        }
        if self.edition != tap.edition() {
            (self.edition, self.listeners) = tap.listeners();
        }
        let listeners = Arc::clone(&self.listeners);
        let mut chosen = listeners.iter().filter(|listener| self.is_chosen(listener)).peekable();
        if chosen.peek().is_none() {
            return;
        }
        let chosen: Vec<_> = chosen.collect();
        let Some(text) = text_as_sent(session, answered) else { return };
        // Before any work on its bytes, since the session is not served during it.
        let bytes_max = chosen.iter().map(|listener| listener.wish.sql_bytes_max).max().unwrap_or(0);
        if text.len() > bytes_max {
            for listener in chosen {
                listener.counts.too_large.fetch_add(1, Relaxed);
            }
            return;
        }
        if !queries_without_locking(text, session.flags()) {
            return;
        }
        let mut is_any_gone = false;
        let mut with_place = vec![];
        for listener in chosen {
            match listener.queue.try_reserve() {
                Ok(place) => with_place.push((listener, place)),
                Err(TrySendError::Full(())) => listener.drops(text.len()),
                Err(TrySendError::Closed(())) => is_any_gone = true,
            }
        }
        if !with_place.is_empty() {
            let now = session.wanted.bound();
            let read = self.read(session, &now, answered, bytes_max);
            for (listener, place) in with_place {
                match &read {
                    Ok(read) if read.sql.len() > listener.wish.sql_bytes_max => {
                        listener.counts.too_large.fetch_add(1, Relaxed);
                    }
                    Ok(read) => match listener.room(read.sql.len()) {
                        Some(room) => {
                            let read = self.finished(listener, read, session, answered);
                            place.send(Offered { read, room });
                            listener.counts.offered.fetch_add(1, Relaxed);
                        }
                        None => listener.drops(read.sql.len()),
                    },
                    Err(NoText::TooLarge) => _ = listener.counts.too_large.fetch_add(1, Relaxed),
                    Err(NoText::NotExpressible) => {
                        listener.counts.not_expressible.fetch_add(1, Relaxed);
                    }
                }
            }
        }
        if is_any_gone {
            tap.forget_gone();
        }
    }

    /// A command succeeded that was not kept, so its text is not known.
    pub(crate) fn answered_unkept(&mut self, tap: &Tap, flight: &InFlight) {
        if matches!(flight.command, Command::QUERY | Command::STMT_EXECUTE) {
            for listener in tap.listeners().1.iter() {
                listener.counts.too_large.fetch_add(1, Relaxed);
            }
        }
    }

    fn is_chosen(&mut self, listener: &Listener) -> bool {
        let number = if listener.wish.by_session {
            mixed(u64::from(self.connection) << 32 | u64::from(self.begun))
        } else {
            self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mixed(self.dice)
        };
        (number >> 32) < listener.chance
    }

    /// The read as a text that means the same on another connection with the session's settings.
    fn read<'a>(
        &self,
        session: &'a Session,
        now: &Bound,
        answered: &AnsweredCommand<'a>,
        bytes_max: usize,
    ) -> Result<LoggedRead<'a>, NoText> {
        let flags = session.flags();
        let (read, scanned) = match prepared(session, answered) {
            None => {
                let text = text_as_sent(session, answered).unwrap_or_default();
                (
                    LoggedRead { sql: Cow::Borrowed(text), schema: session.wanted.schema() },
                    answered.flight.scanned(),
                )
            }
            Some(statement) => {
                // With attributes, the parameters are at another position in the command, mixed with them.
                let is_known = self.long.is_known(self.edition) && !answered.caps.has(Caps::QUERY_ATTRIBUTES);
                if !is_known || !statement.bound.reads_as(now) {
                    return Err(NoText::NotExpressible);
                }
                let pieces = |nth| self.long.piece(nth);
                let changed =
                    |name| session.wanted.changed(name).and_then(|name| std::str::from_utf8(name).ok());
                let at_login = charset_of_login(self.login_charset);
                let name = changed("character_set_client").or(at_login);
                let connection = changed("character_set_connection").or(at_login);
                let charset = Charset { name, is_converted: connection != name };
                let sql = as_text(statement, answered.payload, pieces, charset, flags, bytes_max)?;
                let schema = statement.bound.schema.as_deref();
                (LoggedRead { sql: Cow::Owned(sql), schema }, Some(&statement.scanned))
            }
        };
        let sql = &read.sql;
        let is_unclear = scanned
            .is_none_or(|scanned| !scanned.alone || scanned.calls_stored || !scanned.pins.is_empty())
            || (answered.ties_variables && sql.contains(&b'@'))
            || match session.wanted.changes_tokens() {
                // A mode may be the server's default for all sessions: its answers show it, although no session has set it.
                Tokens::Usual if flags & (NO_BACKSLASH_ESCAPES | ANSI_QUOTES) == 0 => false,
                Tokens::Usual | Tokens::OtherQuotes => sql.iter().any(|byte| matches!(byte, b'\\' | b'"')),
                Tokens::AnotherGrammar => true,
            };
        if is_unclear { Err(NoText::NotExpressible) } else { Ok(read) }
    }

    fn finished(
        &mut self,
        listener: &Listener,
        read: &LoggedRead<'_>,
        session: &Session,
        answered: &AnsweredCommand<'_>,
    ) -> Finished {
        let ended = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Finished {
            session: u64::from(self.begun) << 32 | u64::from(self.connection),
            user: Arc::clone(&self.user),
            client: self.client,
            schema: read.schema.map(Into::into),
            ended_us: ended.as_micros() as u64,
            took_us: answered.took.as_micros() as u64,
            rows_sent: (!answered.flight.asks_cursor()).then_some(answered.rows),
            sql: (*read.sql).into(),
            state: self.state(session),
            one_in: listener.one_in,
            by_session: listener.wish.by_session,
        }
    }

    /// The session's settings; the same value as before while nothing changes.
    fn state(&mut self, session: &Session) -> Arc<ReadState> {
        let number = session.wanted.read_state_number();
        if let Some((known, state)) = &self.state
            && *known == number
        {
            return Arc::clone(state);
        }
        let state = session.wanted.read_state(self.login_charset);
        let state = match self.state.take() {
            Some((_, before)) if *before == state => before,
            _ => Arc::new(state),
        };
        self.state = Some((number, Arc::clone(&state)));
        state
    }
}

/// The prepared statement that a command runs.
fn prepared<'a>(session: &'a Session, answered: &AnsweredCommand<'_>) -> Option<&'a Prepared> {
    let runs = answered.flight.command == Command::STMT_EXECUTE;
    answered.flight.statement.filter(|_| runs).and_then(|id| session.wanted.statements.get(&id))
}

/// The text of a command, with parameter markers as they are; `None` for a command that runs no text.
fn text_as_sent<'a>(session: &'a Session, answered: &AnsweredCommand<'a>) -> Option<&'a [u8]> {
    match answered.flight.command {
        Command::QUERY => query_text(answered.payload, answered.caps).ok(),
        Command::STMT_EXECUTE => prepared(session, answered).map(|statement| &*statement.sql),
        _ => None,
    }
}

/// A pseudo-random number (the last step of splitmix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
