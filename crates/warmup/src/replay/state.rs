//! The session state of recorded sessions (schema, sql_mode, character sets, ...), as far as the results of reads depend on it, and how a
//! replaying session assumes it.
//!
//! The state is attached to each statement, so that one session may serve several recorded ones, and may be reconnected. Only statements
//! that the guard has classified as [`super::guard::Disposition::State`] are processed here.

use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError};
use protocol::ok::status::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use protocol::statement::{
    AssignedModes, Modes, READ_VARIABLES, ReadState, assigned_sql_mode, assigned_user_variables, read_state,
};
use slowlog::{Command, Event};

use super::guard::Disposition;
use crate::recent::Recent;

/// The number of connections whose state is kept; up to twice as many may be kept at times.
const CONNECTIONS_MAX: usize = 32 << 10;
/// The largest number of statements per connection. There are few in practice, since a later SET of a variable replaces an earlier one.
const TEXTS_MAX: usize = 32;

/// Everything in which a session may differ from its state after login.
const RESET: &str = "SET sql_mode='',autocommit=1,time_zone=DEFAULT,sql_select_limit=DEFAULT,character_set_client=DEFAULT,\
                     character_set_results=DEFAULT,character_set_connection=DEFAULT,collation_connection=DEFAULT";

/// Commands behind which a session is as after its login, as servers name them in their logs.
const BEGINS_ANEW: [&str; 2] = ["Change user", "Reset connection"];

/// The statements that set state, in the order in which they ran.
pub(crate) type Texts = Arc<Vec<Box<[u8]>>>;

/// The state of each connection in the log.
#[derive(Debug)]
pub(crate) struct States {
    known: Recent<u64, State>,
    /// The modes that the server gives all sessions.
    default: Modes,
    /// How a connection begins.
    initial: State,
}

/// The state of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// To be run under the usual modes.
    pub(crate) texts: Texts,
    /// The modes that give backslashes and quotes another meaning ([`protocol::statement::Statement::under`]).
    pub(crate) modes: u16,
}

impl States {
    /// `sql_mode`: that with which recorded sessions began, as far as texts have other tokens or another meaning under it.
    pub(crate) fn new(sql_mode: &str) -> Self {
        // Whoever gives it has seen to it that each of its modes is known.
        let default = Modes::of(sql_mode).unwrap_or_default();
        let mut initial = State { modes: default.flags, ..State::default() };
        if !default.usual.is_empty() {
            initial.is_given(&default);
        }
        Self { known: Recent::new(CONNECTIONS_MAX), default, initial }
    }

    /// The present state of the connection.
    pub(crate) fn of(&mut self, connection: u64) -> State {
        self.known.get(connection).unwrap_or(&mut self.initial).clone()
    }

    /// Records an event that was judged so.
    pub(crate) fn saw(&mut self, event: &Event<'_>, verdict: Disposition) {
        let connection = event.connection.unwrap_or(0);
        match event.command {
            Command::Statement(sql) if verdict == Disposition::State => {
                self.said(connection, sql, event.connection.is_some());
            }
            Command::Administrator(word)
                if BEGINS_ANEW.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word)) =>
            {
                self.known.insert(connection, self.initial.clone());
            }
            _ => {}
        }
    }

    /// Records a statement of the connection. `is_known`: the log tells connections, and does not mix all of them in one.
    fn said(&mut self, connection: u64, sql: &[u8], is_known: bool) {
        if self.known.get(connection).is_none() {
            self.known.insert(connection, self.initial.clone());
        }
        let Some(state) = self.known.get(connection) else { return };
        match assigned_sql_mode(sql, state.modes) {
            Some(AssignedModes::Default) => state.is_given(&self.default),
            Some(AssignedModes::Given(modes)) => state.is_given(&modes),
            None => {
                // Among others, and to usual modes.
                if sets_sql_mode(sql) {
                    state.modes = 0;
                }
                state.runs(sql);
            }
        }
        if !is_known {
            // It says nothing about who runs the next statement.
            state.modes = self.default.flags;
        }
    }
}

impl State {
    fn is_given(&mut self, modes: &Modes) {
        self.modes = modes.flags;
        self.runs(format!("SET sql_mode='{}'", modes.usual).as_bytes());
    }

    /// Adds a text that is to be run.
    fn runs(&mut self, sql: &[u8]) {
        let texts = Arc::make_mut(&mut self.texts);
        // A repeated statement counts at its last position.
        texts.retain(|known| !supersedes(sql, known));
        if texts.len() >= TEXTS_MAX {
            // A missing user variable affects the reads that name it; a wrong character set affects all reads.
            let user = texts.iter().position(|text| matches!(read_state(text), Some(ReadState::User(_))));
            texts.remove(user.unwrap_or(0));
        }
        texts.push(sql.into());
    }
}

fn sets_sql_mode(sql: &[u8]) -> bool {
    let place = READ_VARIABLES.iter().position(|variable| *variable == "sql_mode");
    matches!((read_state(sql), place), (Some(ReadState::Variables(set)), Some(place)) if set & 1 << place != 0)
}

/// Gives a session these modes as well, for one statement. `sql_mode` is changed in texts that mean the same under all of them.
pub(super) fn with_modes(modes: u16) -> String {
    let names = [(NO_BACKSLASH_ESCAPES, ",NO_BACKSLASH_ESCAPES"), (ANSI_QUOTES, ",ANSI_QUOTES")];
    let names: String = names.iter().filter(|(flag, _)| modes & flag != 0).map(|(_, name)| *name).collect();
    format!("SET sql_mode=CONCAT(@@sql_mode,'{names}')")
}

/// Takes them away again.
pub(super) const USUAL_MODES: &str =
    "SET sql_mode=REPLACE(REPLACE(@@sql_mode,'NO_BACKSLASH_ESCAPES',''),'ANSI_QUOTES','')";

/// Whether `now` requires undoing something that `before` had set.
fn supersedes(now: &[u8], before: &[u8]) -> bool {
    let is_newer = || read_state(now)?.supersedes(&read_state(before)?).then_some(());
    now == before || is_newer().is_some()
}

/// Brings a session from the state `has` to the state `wanted`. A statement that the server refuses was most likely refused where it was
/// recorded, too: it is passed to `refused`, and skipped.
pub(crate) async fn apply<T: AsRef<[u8]>, U: AsRef<[u8]>>(
    link: &mut Link,
    has: &[T],
    wanted: &[U],
    limit: Duration,
    mut refused: impl FnMut(&LinkError),
) -> Result<(), LinkError> {
    for text in between(has, wanted) {
        match link.count_rows(&text, limit).await {
            Ok(_) => {}
            Err(error @ LinkError::Rejected { .. }) => refused(&error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The statements that bring a session from the state `has` to the state `wanted`.
fn between<T: AsRef<[u8]>, U: AsRef<[u8]>>(has: &[T], wanted: &[U]) -> Vec<Vec<u8>> {
    let same = has.iter().zip(wanted).take_while(|(has, wanted)| has.as_ref() == wanted.as_ref()).count();
    let (over, missing) = (&has[same..], &wanted[same..]);
    let is_replaced = |text: &T| missing.iter().any(|wanted| supersedes(wanted.as_ref(), text.as_ref()));
    let mut texts: Vec<Vec<u8>> = vec![];
    let mut missing = missing;
    if !over.iter().all(is_replaced) {
        texts.push(RESET.into());
        let names = has.iter().filter_map(|text| assigned_user_variables(text.as_ref(), 0)).flatten();
        texts.extend(names.map(|name| format!("SET @`{name}`=NULL").into_bytes()));
        missing = wanted;
    }
    texts.extend(missing.iter().map(|text| text.as_ref().to_vec()));
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: &[impl AsRef<[u8]>]) -> Vec<String> {
        texts.iter().map(|text| String::from_utf8_lossy(text.as_ref()).into_owned()).collect()
    }

    #[test]
    fn the_last_word_counts() {
        let mut states = States::new("");
        for sql in ["SET @a=1", "SET @a=2", "SET @a=1"] {
            states.said(7, sql.as_bytes(), true);
        }
        assert_eq!(shown(&states.of(7).texts), ["SET @a=1"]);
        assert!(states.of(8).texts.is_empty());
        states.said(7, b"SET NAMES latin1", true);
        for number in 0..100 {
            states.said(7, format!("SET @a{number}=1").as_bytes(), true);
            states.said(7, format!("SET sql_select_limit={number}").as_bytes(), true);
        }
        let texts = shown(&states.of(7).texts);
        assert_eq!(texts.len(), TEXTS_MAX);
        for text in ["SET NAMES latin1", "SET sql_select_limit=99", "SET @a99=1"] {
            assert!(texts.iter().any(|known| known == text), "{text} is gone: {texts:?}");
        }
    }

    #[test]
    fn modes_that_change_tokens_are_kept_beside_the_texts() {
        let mut states = States::new("ANSI_QUOTES");
        assert_eq!(states.of(7).modes, ANSI_QUOTES);
        for (sql, modes, texts) in [
            (
                "SET sql_mode='NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
                NO_BACKSLASH_ESCAPES,
                "SET sql_mode='PIPES_AS_CONCAT'",
            ),
            ("SET @@session.sql_mode := ''", 0, "SET sql_mode=''"),
            ("SET @@session.sql_mode='ANSI_QUOTES';", ANSI_QUOTES, "SET sql_mode=''"),
            ("SET time_zone='+00:00', sql_mode=''", 0, "SET time_zone='+00:00', sql_mode=''"),
        ] {
            states.said(7, sql.as_bytes(), true);
            let state = states.of(7);
            assert_eq!((state.modes, shown(&state.texts).join("; ").as_str()), (modes, texts), "{sql}");
        }
        // A log that mixes all connections in one says nothing about the next statement's modes.
        states.said(0, b"SET sql_mode='NO_BACKSLASH_ESCAPES'", false);
        assert_eq!(states.of(0).modes, ANSI_QUOTES);
    }

    #[test]
    fn a_session_goes_back_to_the_modes_of_its_server() {
        let flags = NO_BACKSLASH_ESCAPES;
        for (given, modes, usual) in [
            ("", 0, ""),
            ("NO_BACKSLASH_ESCAPES", flags, ""),
            ("PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES", flags, "PIPES_AS_CONCAT"),
        ] {
            let mut states = States::new(given);
            let back = format!("SET sql_mode='{usual}'");
            for sql in
                ["SET sql_mode=DEFAULT", "SET SESSION sql_mode = DEFAULT", "SET @@sql_mode=@@global.sql_mode"]
            {
                for other in ["SET sql_mode='IGNORE_SPACE'", "SET sql_mode='ANSI_QUOTES,HIGH_NOT_PRECEDENCE'"]
                {
                    states.said(7, other.as_bytes(), true);
                    assert_ne!((states.of(7).modes, shown(&states.of(7).texts)), (modes, vec![back.clone()]));
                    states.said(7, sql.as_bytes(), true);
                    let state = states.of(7);
                    assert_eq!(
                        (state.modes, shown(&state.texts)),
                        (modes, vec![back.clone()]),
                        "{given}: {other}; {sql}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_session_that_begins_anew_is_as_after_its_login() {
        let head = "# Time: 2020-01-01T00:00:00.000000Z\n# User@Host: app[app] @ localhost []  Id:     7\n\
                    # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1577836800;\n";
        for (word, begins_anew) in [("Change user", true), ("Reset Connection", true), ("Ping", false)] {
            let mut reader = slowlog::Reader::new(slowlog::Limits::default(), slowlog::Start::Whole);
            for text in ["SET sql_mode='ANSI_QUOTES'", &format!("# administrator command: {word}")] {
                reader.feed(format!("{head}{text};\n").as_bytes());
            }
            reader.finish();
            let mut states = States::new("NO_BACKSLASH_ESCAPES");
            while let Some(item) = reader.next() {
                let slowlog::Item::Event(event) = item else { continue };
                let verdict = crate::replay::guard::judge(&event, &[], states.of(7).modes);
                states.saw(&event, verdict);
            }
            let state = states.of(7);
            let is_anew = state.texts.is_empty() && state.modes == NO_BACKSLASH_ESCAPES;
            assert_eq!(is_anew, begins_anew, "{word}: {state:?}");
            assert!(is_anew || state.modes == ANSI_QUOTES, "{word}: {state:?}");
        }
    }

    #[test]
    fn only_what_differs_is_said() {
        let said = |has: &[&str], wanted: &[&str]| shown(&between(has, wanted));
        let (names, one, two) = ("SET NAMES latin1", "SET time_zone='+01:00'", "SET time_zone='+02:00'");
        assert_eq!(said(&[names], &[names, one]), [one]);
        assert_eq!(said(&[names, one], &[names, two]), [two]);
        assert_eq!(said(&[names, one], &[names, one]), [""; 0]);
        // What the other session never said is taken back.
        assert_eq!(said(&[names, "SET @a=1"], &[one]), [RESET, "SET @`a`=NULL", one]);
        assert_eq!(said(&[names, one], &[names]), [RESET, names]);
    }
}
