//! One session's part in what listeners are told: which of its reads they get, and as what text.
//!
//! Made when the session's first command finds a listener, and kept from then on.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use protocol::capability::Caps;
use protocol::command::{Command, query_text};
use protocol::ok::status::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use protocol::statement::{Kind, queries_without_locking};
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
pub(crate) struct Ear {
    connection: u32,
    /// How often the session has begun anew.
    begun: u32,
    user: Arc<str>,
    client: IpAddr,
    login_charset: u16,
    edition: u64,
    listeners: Arc<[Arc<Listener>]>,
    dice: u64,
    /// What [`Session`] had set, and its number there.
    state: Option<(u64, Arc<ReadState>)>,
    long: LongData,
}

/// Who tells.
pub(crate) struct Teller<'a> {
    pub(crate) connection: u32,
    pub(crate) user: &'a str,
    pub(crate) client: IpAddr,
    /// The number of the character set at its login.
    pub(crate) login_charset: u16,
}

/// A command that was answered well.
pub(crate) struct Heard<'a> {
    pub(crate) flight: &'a InFlight,
    /// The command as the client sent it; empty when it was not kept.
    pub(crate) payload: &'a [u8],
    pub(crate) caps: Caps,
    /// The session has user variables that only its node knows.
    pub(crate) ties_variables: bool,
    pub(crate) rows: u64,
    pub(crate) took: Duration,
}

/// What a read is told as.
struct LoggedRead<'a> {
    sql: Cow<'a, [u8]>,
    schema: Option<&'a [u8]>,
}

impl Ear {
    pub(crate) fn new(teller: &Teller<'_>) -> Self {
        Self {
            connection: teller.connection,
            begun: 0,
            user: teller.user.into(),
            client: teller.client,
            login_charset: teller.login_charset,
            edition: 0,
            listeners: Arc::default(),
            // Spread, or sessions with neighbouring numbers would choose alike.
            dice: mixed(u64::from(teller.connection)),
            state: None,
            long: LongData::default(),
        }
    }

    /// COM_RESET_CONNECTION or COM_CHANGE_USER: another session, to those who listen.
    pub(crate) fn begins_anew(&mut self, teller: &Teller<'_>) {
        self.begun = self.begun.wrapping_add(1);
        self.user = teller.user.into();
        self.login_charset = teller.login_charset;
        self.state = None;
        self.long = LongData::default();
    }

    /// A command is about to be sent. `payload`: as much of it as is at hand, `whole`: that is all. `has_long`: long data waits for its
    /// statement on the node.
    pub(crate) fn will_send(
        &mut self,
        tap: &Tap,
        flight: &InFlight,
        payload: &[u8],
        whole: bool,
        has_long: bool,
    ) {
        let Some(id) = flight.statement else { return };
        self.long.heard_under(tap.edition());
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

    /// A command was answered well, and the answer is with the client.
    pub(crate) fn heard(&mut self, tap: &Tap, session: &mut Session, heard: &Heard<'_>) {
        if heard.flight.kind() != Kind::Read {
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
        let Some(text) = text_as_sent(session, heard) else { return };
        // Before anything is done with its bytes: all of this is time in which the session is not served.
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
            let told = self.told(session, &now, heard, bytes_max);
            for (listener, place) in with_place {
                match &told {
                    Ok(told) if told.sql.len() > listener.wish.sql_bytes_max => {
                        listener.counts.too_large.fetch_add(1, Relaxed);
                    }
                    Ok(told) => match listener.room(told.sql.len()) {
                        Some(room) => {
                            let read = self.finished(listener, told, session, heard);
                            place.send(Offered { read, room });
                            listener.counts.offered.fetch_add(1, Relaxed);
                        }
                        None => listener.drops(told.sql.len()),
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

    /// A command ended well that was not kept: what it was cannot be known any more.
    pub(crate) fn heard_unkept(&mut self, tap: &Tap, flight: &InFlight) {
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

    /// The read as a text that means the same on another connection with the session's state.
    fn told<'a>(
        &self,
        session: &'a Session,
        now: &Bound,
        heard: &Heard<'a>,
        bytes_max: usize,
    ) -> Result<LoggedRead<'a>, NoText> {
        let flags = session.flags();
        let (told, scanned) = match prepared(session, heard) {
            None => {
                let text = text_as_sent(session, heard).unwrap_or_default();
                (
                    LoggedRead { sql: Cow::Borrowed(text), schema: session.wanted.schema() },
                    heard.flight.scanned(),
                )
            }
            Some(statement) => {
                // With attributes a command has its parameters elsewhere, and those among them.
                let is_known = self.long.is_known(self.edition) && !heard.caps.has(Caps::QUERY_ATTRIBUTES);
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
                let sql = as_text(statement, heard.payload, pieces, charset, flags, bytes_max)?;
                let schema = statement.bound.schema.as_deref();
                (LoggedRead { sql: Cow::Owned(sql), schema }, Some(&statement.scanned))
            }
        };
        let sql = &told.sql;
        let is_unclear = scanned
            .is_none_or(|scanned| !scanned.alone || scanned.calls_stored || !scanned.pins.is_empty())
            || (heard.ties_variables && sql.contains(&b'@'))
            || match session.wanted.changes_tokens() {
                // A mode may be the server's own, for all sessions: its answers say so, and no session has set it.
                Tokens::Usual if flags & (NO_BACKSLASH_ESCAPES | ANSI_QUOTES) == 0 => false,
                Tokens::Usual | Tokens::OtherQuotes => sql.iter().any(|byte| matches!(byte, b'\\' | b'"')),
                Tokens::AnotherGrammar => true,
            };
        if is_unclear { Err(NoText::NotExpressible) } else { Ok(told) }
    }

    fn finished(
        &mut self,
        listener: &Listener,
        told: &LoggedRead<'_>,
        session: &Session,
        heard: &Heard<'_>,
    ) -> Finished {
        let ended = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Finished {
            session: u64::from(self.begun) << 32 | u64::from(self.connection),
            user: Arc::clone(&self.user),
            client: self.client,
            schema: told.schema.map(Into::into),
            ended_us: ended.as_micros() as u64,
            took_us: heard.took.as_micros() as u64,
            rows_sent: (!heard.flight.asks_cursor()).then_some(heard.rows),
            sql: (*told.sql).into(),
            state: self.state(session),
            one_in: listener.one_in,
            by_session: listener.wish.by_session,
        }
    }

    /// What the session has set; the same as before as long as nothing changes.
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
fn prepared<'a>(session: &'a Session, heard: &Heard<'_>) -> Option<&'a Prepared> {
    let runs = heard.flight.command == Command::STMT_EXECUTE;
    heard.flight.statement.filter(|_| runs).and_then(|id| session.wanted.statements.get(&id))
}

/// The text of a command, with parameters as they stand in it; nothing for a command that runs none.
fn text_as_sent<'a>(session: &'a Session, heard: &Heard<'a>) -> Option<&'a [u8]> {
    match heard.flight.command {
        Command::QUERY => query_text(heard.payload, heard.caps).ok(),
        Command::STMT_EXECUTE => prepared(session, heard).map(|statement| &*statement.sql),
        _ => None,
    }
}

/// A number that looks like chance (the last step of splitmix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
