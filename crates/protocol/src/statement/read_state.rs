//! Whether a SET changes nothing but how the reads of its session are meant.
//!
//! A replay of somebody else's reads may run such a text. Values are constants only; scopes other than the session's, and modes under which
//! a text's tokens are others, are refused: what was judged by the usual reading must not be run under another.

use super::Statement;
use super::assigned::assigned_user_variables;
use super::lexer::{Lexer, Token};
use super::word::is;
use crate::ok::status;

/// The variables, in lower case.
pub const READ_VARIABLES: [&str; 7] = [
    "character_set_client",
    "character_set_results",
    "character_set_connection",
    "collation_connection",
    "sql_mode",
    "time_zone",
    "sql_select_limit",
];

/// Modes of `sql_mode` under which a text has the tokens that it has under none.
const MODES: [&str; 20] = [
    "ALLOW_INVALID_DATES",
    "EMPTY_STRING_IS_NULL",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "HIGH_NOT_PRECEDENCE",
    "IGNORE_BAD_TABLE_OPTIONS",
    "IGNORE_SPACE",
    "NO_AUTO_CREATE_USER",
    "NO_AUTO_VALUE_ON_ZERO",
    "NO_DIR_IN_CREATE",
    "NO_ENGINE_SUBSTITUTION",
    "NO_UNSIGNED_SUBTRACTION",
    "NO_ZERO_DATE",
    "NO_ZERO_IN_DATE",
    "ONLY_FULL_GROUP_BY",
    "PAD_CHAR_TO_FULL_LENGTH",
    "PIPES_AS_CONCAT",
    "REAL_AS_FLOAT",
    "STRICT_ALL_TABLES",
    "STRICT_TRANS_TABLES",
    "TIME_ROUND_FRACTIONAL",
];

/// Whether a text has the tokens that it usually has under this mode of `sql_mode` (one word of it).
pub fn keeps_tokens(mode: &str) -> bool {
    mode.is_empty() || MODES.iter().any(|known| known.eq_ignore_ascii_case(mode))
}

/// What a SET of constants changes, of that which decides how the reads of its session are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadState {
    /// These of the [`READ_VARIABLES`]: bit N stands for the one at N.
    Variables(u8),
    /// User variables with these names, in lower case; none where a name cannot be read for certain.
    User(Option<Vec<String>>),
}

impl ReadState {
    /// Of NAMES and CHARACTER SET: the first four of the [`READ_VARIABLES`].
    const CHARACTER_SETS: u8 = 0b1111;

    /// After a text that changes this, nothing is left of what one before it changed.
    pub fn supersedes(&self, before: &ReadState) -> bool {
        match (self, before) {
            (Self::Variables(now), Self::Variables(before)) => before & !now == 0,
            (Self::User(Some(now)), Self::User(Some(before))) => before.iter().all(|name| now.contains(name)),
            _ => false,
        }
    }
}

/// What `sql` changes, when it is one SET of constants that changes only how the session's reads are meant: [`READ_VARIABLES`], NAMES,
/// CHARACTER SET, user variables.
pub fn read_state(sql: &[u8]) -> Option<ReadState> {
    let statement = Statement::of(sql);
    if !statement.alone {
        return None;
    }
    if statement.literal_user_variables {
        return Some(ReadState::User(assigned_user_variables(sql, 0)));
    }
    let mut lexer = Lexer::new(sql, 0);
    let variables = is(lexer.next(), "SET").then(|| assignments(&mut lexer))??;
    (!lexer.is_doubtful).then_some(ReadState::Variables(variables))
}

/// What a SET of `sql_mode` gives its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignedModes {
    /// What the server gives all sessions.
    Default,
    /// These.
    Given(Modes),
}

/// Modes of `sql_mode`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Those under which a text has its usual tokens, comma-separated.
    pub usual: String,
    /// Those that give backslashes and double quotes another meaning, in flags ([`Statement::under`]).
    pub flags: u16,
}

impl Modes {
    /// Those in a value of `sql_mode`; nothing where one is not known.
    pub fn of(value: &str) -> Option<Self> {
        let (mut usual, mut flags) = (Vec::new(), 0);
        for mode in value.split(',').map(str::trim) {
            match mode.to_ascii_uppercase().as_str() {
                "NO_BACKSLASH_ESCAPES" => flags |= status::NO_BACKSLASH_ESCAPES,
                "ANSI_QUOTES" => flags |= status::ANSI_QUOTES,
                _ if keeps_tokens(mode) => usual.push(mode),
                _ => return None,
            }
        }
        Some(Self { usual: usual.join(","), flags })
    }
}

/// The modes that `sql` sets, when it is `SET [SESSION] sql_mode = ` constant, or the server's own, and nothing else. `before`: the flags under
/// which it ran.
pub fn assigned_sql_mode(sql: &[u8], before: u16) -> Option<AssignedModes> {
    let mut lexer = Lexer::new(sql, before);
    let name = is(lexer.next(), "SET")
        .then(|| lexer.next())
        .flatten()
        .and_then(|target| variable(&mut lexer, target))?;
    let (Token::Punct(b'=') | Token::Assign) = lexer.next()? else { return None };
    let value = lexer.next()?;
    let assigned = if is(Some(value), "DEFAULT") || is_global_sql_mode(value, &mut lexer) {
        AssignedModes::Default
    } else {
        let value = match value {
            Token::Text(text) => text.get(1..text.len().saturating_sub(1))?,
            Token::Word(word) | Token::Quoted(word) => word,
            _ => return None,
        };
        AssignedModes::Given(Modes::of(std::str::from_utf8(value).ok()?)?)
    };
    let behind = lexer.next();
    let has_more = has_more(&mut lexer, behind)?;
    let is_alone = !has_more && name.eq_ignore_ascii_case(b"sql_mode") && !lexer.is_doubtful;
    is_alone.then_some(assigned)
}

/// Whether it is `@@global.sql_mode`, which begins with `value`.
fn is_global_sql_mode(value: Token<'_>, lexer: &mut Lexer<'_>) -> bool {
    matches!(value, Token::SystemVariable(scope) if scope.eq_ignore_ascii_case(b"GLOBAL"))
        && lexer.next() == Some(Token::Punct(b'.'))
        && matches!(lexer.next(), Some(Token::Word(name) | Token::Quoted(name)) if name.eq_ignore_ascii_case(b"sql_mode"))
}

/// Which variables all of them set; nothing where one is not understood.
fn assignments(lexer: &mut Lexer<'_>) -> Option<u8> {
    let mut variables = 0;
    while assignment(lexer, &mut variables)? {}
    Some(variables)
}

/// Whether another assignment follows, by the token behind one.
fn has_more(lexer: &mut Lexer<'_>, behind: Option<Token<'_>>) -> Option<bool> {
    match behind {
        Some(Token::Punct(b',')) => Some(true),
        Some(Token::Punct(b';')) => lexer.next().is_none().then_some(false),
        None => Some(false),
        Some(_) => None,
    }
}

/// One assignment, which is added to `variables`; tells whether another follows.
fn assignment(lexer: &mut Lexer<'_>, variables: &mut u8) -> Option<bool> {
    let target = lexer.next()?;
    if is(Some(target), "NAMES") || is(Some(target), "CHARSET") || is(Some(target), "CHARACTER") {
        if is(Some(target), "CHARACTER") && !is(lexer.next(), "SET") {
            return None;
        }
        name(lexer.next()?)?;
        *variables |= ReadState::CHARACTER_SETS;
        let behind = lexer.next();
        if !is(behind, "COLLATE") {
            return has_more(lexer, behind);
        }
        name(lexer.next()?)?;
        let behind = lexer.next();
        return has_more(lexer, behind);
    }
    if target == Token::UserVariable {
        return None; // mixed with others: not worth its rules
    }
    let variable = variable(lexer, target)?;
    let place = READ_VARIABLES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(variable))?;
    let variable = &READ_VARIABLES[place];
    *variables |= 1 << place;
    if !matches!(lexer.next()?, Token::Punct(b'=') | Token::Assign) {
        return None;
    }
    let value = lexer.next()?;
    let is_sound = match value {
        Token::Text(text) if *variable == "sql_mode" => has_usual_modes(text),
        Token::Word(word) if *variable == "sql_mode" => {
            // DEFAULT is whatever another server has.
            std::str::from_utf8(word).is_ok_and(keeps_tokens)
        }
        _ if variable.starts_with('c') && is_swe7(value) => false,
        Token::Number(_) => *variable != "sql_mode",
        Token::Text(_) | Token::Word(_) => true,
        _ => false,
    };
    let behind = lexer.next();
    if is_sound { has_more(lexer, behind) } else { None }
}

/// The session's variable that an assignment names, which begins with `target`.
fn variable<'a>(lexer: &mut Lexer<'a>, mut target: Token<'a>) -> Option<&'a [u8]> {
    if is(Some(target), "SESSION") || is(Some(target), "LOCAL") {
        target = lexer.next()?;
    }
    match target {
        Token::SystemVariable(scope)
            if scope.eq_ignore_ascii_case(b"SESSION") || scope.eq_ignore_ascii_case(b"LOCAL") =>
        {
            if lexer.next()? != Token::Punct(b'.') {
                return None;
            }
            match lexer.next()? {
                Token::Word(name) | Token::Quoted(name) => Some(name),
                _ => None,
            }
        }
        Token::Word(name) | Token::Quoted(name) | Token::SystemVariable(name) => Some(name),
        _ => None,
    }
}

/// A character set's or a collation's name, or number.
fn name(token: Token<'_>) -> Option<()> {
    match token {
        Token::Word(_) | Token::Text(_) | Token::Number(_) => (!is_swe7(token)).then_some(()),
        _ => None,
    }
}

/// The only character set of a session in which the bytes of brackets and the like are letters, so that a text would have other tokens.
fn is_swe7(value: Token<'_>) -> bool {
    match value {
        Token::Word(name) => name.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"swe7")),
        Token::Text(name) => name.get(1..5).is_some_and(|name| name.eq_ignore_ascii_case(b"swe7")),
        Token::Number(number) => matches!(number, b"10" | b"82"),
        _ => false,
    }
}

/// The value of a `sql_mode`, with its quotes.
fn has_usual_modes(text: &[u8]) -> bool {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    std::str::from_utf8(inner).ok().and_then(Modes::of).is_some_and(|modes| modes.flags == 0)
}

#[cfg(test)]
mod tests {
    use super::{AssignedModes, Modes, READ_VARIABLES, ReadState, assigned_sql_mode, read_state};
    use crate::ok::status;

    #[test]
    fn what_only_says_how_reads_are_meant_passes() {
        for sql in [
            "SET NAMES utf8mb4",
            "set names 'latin1' collate latin1_german1_ci;",
            "SET CHARACTER SET utf8",
            "SET CHARSET DEFAULT",
            "SET character_set_client=45,character_set_results=NULL, collation_connection='utf8mb4_bin'",
            "SET SESSION time_zone = '+05:00'",
            "SET @@session.time_zone := 'SYSTEM', @@sql_select_limit=5",
            "SET LOCAL sql_select_limit=DEFAULT",
            "/* a driver's */ SET sql_mode='STRICT_TRANS_TABLES,NO_ZERO_DATE'",
            "SET sql_mode=''",
            "SET @a = 1, @b = 'x', @c = NULL",
            "SET NAMES utf8, time_zone='+00:00'",
        ] {
            assert!(read_state(sql.as_bytes()).is_some(), "{sql}");
        }
    }

    #[test]
    fn whatever_does_more_does_not() {
        for sql in [
            "",
            "SET",
            "SELECT 1",
            "SET GLOBAL time_zone='+00:00'",
            "SET @@global.time_zone='+00:00'",
            "SET PERSIST time_zone='+00:00'",
            "SET SESSION GLOBAL time_zone='+00:00'",
            "SET time_zone='+00:00', GLOBAL sql_mode=''",
            "SET tx_read_only=0",
            "SET SESSION TRANSACTION READ WRITE",
            "SET TRANSACTION READ WRITE",
            "SET NAMES utf8, tx_read_only=0",
            "SET NAMES",
            "SET sql_mode=DEFAULT",
            "SET NAMES swe7",
            "SET NAMES latin1 COLLATE 'swe7_bin'",
            "SET character_set_client=10",
            "SET collation_connection=swe7_swedish_ci",
            "SET NAMES utf8 tx_read_only",
            "SET autocommit=0",
            "SET slow_query_log=1",
            "SET PASSWORD = 'x'",
            "SET ROLE admin",
            "SET STATEMENT time_zone='+00:00' FOR DELETE FROM t",
            "SET time_zone=f()",
            "SET time_zone=CONCAT('+', '00:00')",
            "SET time_zone=(SELECT 1)",
            "SET time_zone=@@global.time_zone",
            "SET time_zone=@a",
            "SET time_zone='+00:00'; DELETE FROM t",
            "SET @a = f()",
            "SET @a = (SELECT 1)",
            "SET @a = 1, time_zone='+00:00'",
            "SET @a := NEXTVAL(s)",
            "SET sql_mode='ANSI_QUOTES'",
            "SET sql_mode='STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES'",
            "SET sql_mode=ORACLE",
            "SET sql_mode=1048576",
            "SET sql_mode=CONCAT(@@sql_mode, ',ANSI')",
            "SET sql_mode='ANSI\\_QUOTES'",
            "SET /*!50000 GLOBAL */ time_zone='+00:00'",
            "SET time_zone='+00:00",
            "SET time_zone",
        ] {
            assert!(read_state(sql.as_bytes()).is_none(), "{sql}");
        }
    }

    #[test]
    fn modes_that_change_tokens_are_told() {
        let (no_backslash, ansi) = (status::NO_BACKSLASH_ESCAPES, status::ANSI_QUOTES);
        let given = |usual: &str, flags| Some(AssignedModes::Given(Modes { usual: usual.into(), flags }));
        for (sql, before, after) in [
            ("SET sql_mode='ANSI_QUOTES'", 0, given("", ansi)),
            (
                "SET SESSION sql_mode='STRICT_TRANS_TABLES,no_backslash_escapes, ANSI_QUOTES'",
                0,
                given("STRICT_TRANS_TABLES", no_backslash | ansi),
            ),
            ("set @@sql_mode=\"\"", ansi, given("", 0)),
            ("SET @@session.sql_mode := ANSI_QUOTES;", 0, given("", ansi)),
            ("SET @@global.sql_mode=ANSI_QUOTES", 0, None),
            ("SET sql_mode='ORACLE'", 0, None),
            ("SET sql_mode='ANSI_QUOTES', time_zone='+00:00'", 0, None),
            ("SET GLOBAL sql_mode='ANSI_QUOTES'", 0, None),
            ("SET sql_mode='\\', @@tx_read_only=0 -- '", 0, None),
            ("SET sql_mode='\\', @@tx_read_only=0 -- '", no_backslash, None),
            ("SET NAMES utf8", 0, None),
        ] {
            assert_eq!(assigned_sql_mode(sql.as_bytes(), before), after, "{sql}");
        }
    }

    #[test]
    fn the_servers_own_modes_are_told() {
        for (sql, is_default) in [
            ("SET sql_mode=DEFAULT", true),
            ("set session sql_mode = default;", true),
            ("SET LOCAL sql_mode := DEFAULT", true),
            ("SET @@sql_mode=DEFAULT", true),
            ("SET @@session.sql_mode = @@global.sql_mode", true),
            ("SET sql_mode = @@GLOBAL . `sql_mode`", true),
            ("SET GLOBAL sql_mode=DEFAULT", false),
            ("SET sql_mode=`DEFAULT`", false),
            ("SET sql_mode='DEFAULT'", false),
            ("SET sql_mode=@@global.sql_mode_of_ours", false),
            ("SET sql_mode=@@sql_mode", false),
            ("SET sql_mode=@@global", false),
            ("SET sql_mode=DEFAULT, time_zone=DEFAULT", false),
            ("SET time_zone=DEFAULT", false),
        ] {
            let told = assigned_sql_mode(sql.as_bytes(), 0) == Some(AssignedModes::Default);
            assert_eq!(told, is_default, "{sql}");
        }
    }

    #[test]
    fn what_is_set_again_is_superseded() {
        assert!(READ_VARIABLES[..4].iter().all(|name| name.starts_with('c')), "those of NAMES are the first");
        let supersedes = |now: &str, before: &str| {
            let state = |sql: &str| read_state(sql.as_bytes()).unwrap();
            state(now).supersedes(&state(before))
        };
        for (now, before) in [
            ("SET NAMES utf8", "SET NAMES latin1"),
            ("SET NAMES utf8", "SET character_set_client=latin1"),
            ("SET time_zone='+01:00', sql_mode=''", "SET @@time_zone='+02:00'"),
            ("SET @a=1, @b=2", "SET @B='x'"),
        ] {
            assert!(supersedes(now, before), "{now} after {before}");
        }
        for (now, before) in [
            ("SET character_set_client=latin1", "SET NAMES utf8"),
            ("SET time_zone='+01:00'", "SET NAMES utf8"),
            ("SET @a=1", "SET @a=1, @b=2"),
            ("SET @time_zone=1", "SET time_zone='+01:00'"),
        ] {
            assert!(!supersedes(now, before), "{now} after {before}");
        }
        assert_eq!(read_state(b"SET sql_select_limit=1"), Some(ReadState::Variables(1 << 6)));
    }
}
