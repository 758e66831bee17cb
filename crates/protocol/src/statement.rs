//! A light look at SQL text: may it be sent again, and what does it tie to this one connection?
//!
//! Enters: one text as a client sent it. Leaves: a [`Statement`]. No allocation, every byte passed once, and it never
//! fails.
//!
//! The contract is one-sided. [`Kind::Read`] means: changes nothing, and gives the same answer on any other connection to
//! the same data, so it may be sent again. Whatever is not understood is a [`Kind::Write`], which is never wrong, only
//! dearer: executable comments, strings that could end in two places, functions that are not known to be harmless, names
//! in quotes before a parenthesis, texts with several statements of which one is not a read. Pins err to the other side:
//! rather one too many.
//!
//! What no look at the text can tell: a view, or a stored function named like a built-in one of the other server family,
//! may call something that writes; a procedure may do anything to the session ([`Kind::Write`], and a pin only for what
//! its arguments show). For those there is the server's own session tracking.
//!
//! ```text
//!   text --lexer--> tokens --Look (what every statement is searched for)--> first word --> kind
//! ```

mod lexer;
mod names;

use lexer::{Lexer, Token};
use names::{is_harmless_before_parenthesis, is_recalling};

/// What a statement text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What kind.
    pub kind: Kind,
    /// What it ties to the connection.
    pub pins: Pins,
    /// What it unties. A session holds `(held before).without(unpins).union(pins)` afterwards.
    pub unpins: Pins,
    /// A plain `SET @name = literal [, ...]` in ASCII and nothing else: running the text again on another connection
    /// restores it.
    pub literal_user_variables: bool,
    /// Besides what it does, it may commit an open transaction: COMMIT itself, BEGIN, DDL, LOCK TABLES, SET autocommit=1,
    /// CALL, whatever is not understood. When it was lost on the way, nobody may claim that the transaction was rolled back.
    pub may_commit: bool,
    /// Asks what an earlier statement left in the session: LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(), SHOW WARNINGS, ...
    /// After the session has moved to another connection, the answer would be wrong without an error.
    pub recalls: bool,
    /// What it recalls is the value that this session drew last from a sequence: LASTVAL(), PREVIOUS VALUE FOR.
    pub recalls_sequence: bool,
    /// One command of it may run several statements before it gives its first answer: CALL, EXECUTE, BEGIN NOT ATOMIC, whatever
    /// is not understood. An error as the first answer does not mean that nothing was run.
    pub runs_several: bool,
    /// It runs code that its text does not show, as far as the text is understood: CALL, EXECUTE, a block.
    pub calls: bool,
    /// COMMIT or ROLLBACK with words behind it (AND CHAIN, RELEASE): it may leave a new transaction open.
    pub chains: bool,
    /// What it sets that no server reports, or that changes what a server reports.
    pub sets: Sets,
    /// It stands alone in its text, and there is one way to read it: said again, it does the same and nothing else.
    pub alone: bool,
}

/// Settings of the session that are found by their text only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sets(pub u8);

impl Sets {
    /// None of them.
    pub const NONE: Sets = Sets(0);
    /// SET TRANSACTION, without SESSION or GLOBAL: for the next transaction.
    pub const TRANSACTION: Sets = Sets(1);
    /// SET ROLE.
    pub const ROLE: Sets = Sets(2);
    /// SET session_track_...: what the server reports of this session.
    pub const TRACKING: Sets = Sets(4);

    /// Whether all of `other` are here.
    #[inline]
    pub const fn has(self, other: Sets) -> bool {
        self.0 & other.0 == other.0
    }

    #[inline]
    const fn union(self, other: Sets) -> Sets {
        Sets(self.0 | other.0)
    }
}

/// The kinds that matter for holding, retrying and moving a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Surely changes nothing: may be sent again.
    Read,
    /// Everything else, and whatever is not understood.
    Write,
    /// Starts a transaction.
    Begin,
    /// Commits the transaction; COMMIT AND CHAIN too.
    Commit,
    /// Rolls the transaction back; AND CHAIN too. ROLLBACK TO SAVEPOINT is [`Kind::Savepoint`].
    Rollback,
    /// Changes nothing but this session. (`SET autocommit=1` commits as well: see [`Statement::may_commit`].)
    SessionOnly,
    /// SAVEPOINT, RELEASE SAVEPOINT, ROLLBACK TO SAVEPOINT.
    Savepoint,
    /// KILL.
    Kill {
        /// KILL QUERY: the connection lives on.
        query_only: bool,
        /// The connection's number, when it is written as a plain number (`KILL QUERY ID n` and `KILL USER` name none).
        id: Option<u64>,
    },
}

/// A set of things that tie a session to its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pins(pub u16);

impl Pins {
    /// Nothing.
    pub const NONE: Pins = Pins(0);
    /// CREATE TEMPORARY TABLE.
    pub const TEMP_TABLE: Pins = Pins(1);
    /// GET_LOCK().
    pub const GET_LOCK: Pins = Pins(2);
    /// LOCK TABLES, FLUSH TABLES WITH READ LOCK, BACKUP LOCK, BACKUP STAGE.
    pub const LOCK_TABLES: Pins = Pins(4);
    /// `@x` was given a value.
    pub const USER_VARIABLE: Pins = Pins(8);
    /// HANDLER ... OPEN.
    pub const HANDLER: Pins = Pins(16);
    /// PREPARE x FROM ...
    pub const TEXT_PREPARE: Pins = Pins(32);
    /// An XA transaction.
    pub const XA: Pins = Pins(64);
    /// Long data was sent for a prepared statement (found by the session, not by the scanner).
    pub const LONG_DATA: Pins = Pins(128);
    /// A cursor is open on a prepared statement (found by the session).
    pub const CURSOR: Pins = Pins(256);
    /// The server reported a change of the session that nobody can name (found by the session).
    pub const UNNAMED: Pins = Pins(512);
    /// The client changed what the server reports (found by the session).
    pub const TRACKING: Pins = Pins(1024);
    /// The session's clock, or the id of its next insert, was set (found by the session).
    pub const TIMESTAMP: Pins = Pins(2048);
    /// SET ROLE in a text that cannot be said again (found by the session).
    pub const ROLE: Pins = Pins(4096);
    /// A prepared statement whose text was too long to be kept (found by the session).
    pub const LONG_STATEMENT: Pins = Pins(8192);

    /// Whether all of `other` are here.
    #[inline]
    pub const fn has(self, other: Pins) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those of either.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Pins) -> Pins {
        Pins(self.0 | other.0)
    }

    /// Those that are not in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Pins) -> Pins {
        Pins(self.0 & !other.0)
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Readable names, for messages.
    pub fn names(self) -> Vec<&'static str> {
        const NAMES: [(Pins, &str); 14] = [
            (Pins::TEMP_TABLE, "temporary table"),
            (Pins::GET_LOCK, "GET_LOCK"),
            (Pins::LOCK_TABLES, "table or backup lock"),
            (Pins::USER_VARIABLE, "user variable"),
            (Pins::HANDLER, "open HANDLER"),
            (Pins::TEXT_PREPARE, "PREPARE in SQL"),
            (Pins::XA, "XA transaction"),
            (Pins::LONG_DATA, "long data of a prepared statement"),
            (Pins::CURSOR, "open cursor"),
            (Pins::UNNAMED, "change of the session that the server does not name"),
            (Pins::TRACKING, "session_track_system_variables"),
            (Pins::TIMESTAMP, "SET timestamp or insert_id"),
            (Pins::ROLE, "SET ROLE beside other statements"),
            (Pins::LONG_STATEMENT, "prepared statement too long to be kept"),
        ];
        NAMES.iter().filter(|(pin, _)| self.has(*pin)).map(|&(_, name)| name).collect()
    }
}

impl Statement {
    /// Looks at a text as it stands in a COM_QUERY or COM_STMT_PREPARE, for a session with the usual `sql_mode`.
    pub fn of(sql: &[u8]) -> Statement {
        Statement::under(sql, 0)
    }

    /// The same for a session whose last answer had these [`crate::ok::status`] flags: they tell how backslashes and double quotes
    /// are meant.
    pub fn under(sql: &[u8], status: u16) -> Statement {
        let mut look = Look::new(sql, status);
        let mut whole: Option<Statement> = None;
        let mut statements = 0u32;
        while let Some(first) = look.begin() {
            let one = look.statement(first);
            statements = statements.saturating_add(1);
            whole = Some(match whole {
                None => one,
                Some(before) => before.then(one),
            });
        }
        // Nothing but space and comments: the server answers with an error.
        let mut whole = whole.unwrap_or(Statement::write(false));
        whole.pins = look.pins;
        whole.unpins = look.unpins;
        whole.recalls = look.recalls;
        whole.recalls_sequence = look.recalls_sequence;
        whole.sets = look.sets;
        whole.calls = whole.runs_several;
        whole.alone = statements == 1 && !look.lexer.is_doubtful;
        if look.recalls || look.lexer.is_doubtful {
            whole.kind = Kind::Write;
        }
        if look.lexer.is_doubtful {
            whole.may_commit = true;
            whole.runs_several = true;
        }
        whole.literal_user_variables &= whole.kind == Kind::SessionOnly && sql.is_ascii();
        whole
    }

    /// Two statements in one text.
    fn then(self, next: Statement) -> Statement {
        let kind = if (self.kind, next.kind) == (Kind::Read, Kind::Read) { Kind::Read } else { Kind::Write };
        Statement {
            may_commit: self.may_commit || next.may_commit,
            runs_several: self.runs_several || next.runs_several,
            ..Statement::plain(kind)
        }
    }

    fn plain(kind: Kind) -> Statement {
        Statement {
            kind,
            pins: Pins::NONE,
            unpins: Pins::NONE,
            literal_user_variables: false,
            may_commit: false,
            recalls: false,
            recalls_sequence: false,
            runs_several: false,
            calls: false,
            chains: false,
            sets: Sets::NONE,
            alone: false,
        }
    }

    fn write(may_commit: bool) -> Statement {
        Statement { may_commit, ..Statement::plain(Kind::Write) }
    }

    /// May do anything, any number of times.
    fn several() -> Statement {
        Statement { runs_several: true, ..Statement::write(true) }
    }
}

/// What begins the names of the variables that say what a server reports of a session.
const TRACKING: &[u8] = b"SESSION_TRACK_";

/// First words of statements that are one statement each, whatever they do. Those that are not here may begin a block of code.
#[rustfmt::skip]
const RUNS_ONCE: &[&[u8]] = &[
    b"ALTER", b"ANALYZE", b"CACHE", b"CHANGE", b"CHECK", b"GRANT", b"IMPORT", b"INSTALL", b"OPTIMIZE", b"PURGE", b"RENAME",
    b"REPAIR", b"RESET", b"RESIGNAL", b"REVOKE", b"SHUTDOWN", b"SIGNAL", b"STOP", b"TRUNCATE", b"UNINSTALL",
];

/// Longer words are nobody's keyword.
const WORD_MAX: usize = 40;

/// A word in upper case, on the stack. One that is too long or not ASCII is empty.
#[derive(Clone, Copy)]
struct Upper {
    bytes: [u8; WORD_MAX],
    len: usize,
}

impl Upper {
    #[inline]
    fn of(word: &[u8]) -> Upper {
        let mut upper = Upper { bytes: [0; WORD_MAX], len: 0 };
        if let Some(room) = upper.bytes.get_mut(..word.len()) {
            room.copy_from_slice(word);
            room.make_ascii_uppercase();
            upper.len = word.len();
        }
        upper
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[inline]
fn is(token: Option<Token<'_>>, word: &str) -> bool {
    matches!(token, Some(Token::Word(found)) if found.eq_ignore_ascii_case(word.as_bytes()))
}

/// Reads one text's tokens, and notes on the way what matters in any statement.
struct Look<'a> {
    lexer: Lexer<'a>,
    /// The last two tokens of the statement at hand.
    prev: Option<Token<'a>>,
    before: Option<Token<'a>>,
    /// Something in the statement at hand keeps it from being a read.
    is_harmful: bool,
    /// Parentheses open at the last token.
    depth: u32,
    /// The statement at hand has been read to its end.
    has_ended: bool,
    // of the whole text
    pins: Pins,
    unpins: Pins,
    recalls: bool,
    recalls_sequence: bool,
    sets: Sets,
}

impl<'a> Look<'a> {
    fn new(sql: &'a [u8], status: u16) -> Look<'a> {
        Look {
            lexer: Lexer::new(sql, status),
            prev: None,
            before: None,
            is_harmful: false,
            depth: 0,
            has_ended: false,
            pins: Pins::NONE,
            unpins: Pins::NONE,
            recalls: false,
            recalls_sequence: false,
            sets: Sets::NONE,
        }
    }

    fn sets(&mut self, sets: Sets) {
        self.sets = self.sets.union(sets);
    }

    fn recalls_sequence(&mut self) {
        self.recalls = true;
        self.recalls_sequence = true;
    }

    fn pin(&mut self, pins: Pins) {
        self.pins = self.pins.union(pins);
        self.unpins = self.unpins.without(pins);
    }

    fn unpin(&mut self, pins: Pins) {
        self.unpins = self.unpins.union(pins);
        self.pins = self.pins.without(pins);
    }

    /// The first token of the next statement; `None` at the end of the text.
    fn begin(&mut self) -> Option<Token<'a>> {
        self.prev = None;
        self.before = None;
        self.is_harmful = false;
        self.depth = 0;
        self.has_ended = false;
        loop {
            let token = self.lexer.next()?;
            if token != Token::Punct(b';') {
                self.note(token);
                return Some(token);
            }
        }
    }

    /// The next token of the statement at hand; `None` at its end, and again until the next begins.
    fn next(&mut self) -> Option<Token<'a>> {
        if self.has_ended {
            return None;
        }
        match self.lexer.next() {
            Some(Token::Punct(b';')) | None => {
                self.has_ended = true;
                None
            }
            Some(token) => {
                self.note(token);
                Some(token)
            }
        }
    }

    /// Runs to the end of the statement.
    fn rest(&mut self) {
        while self.next().is_some() {}
    }

    fn note(&mut self, token: Token<'a>) {
        match token {
            Token::Punct(b'(') => {
                self.depth = self.depth.saturating_add(1);
                self.note_parenthesis();
            }
            Token::Punct(b')') => self.depth = self.depth.saturating_sub(1),
            Token::Word(word) => self.note_word(word),
            Token::UserVariable if is(self.prev, "INTO") => self.pin(Pins::USER_VARIABLE),
            Token::Assign => {
                self.is_harmful = true;
                if self.prev == Some(Token::UserVariable) {
                    self.pin(Pins::USER_VARIABLE);
                }
            }
            Token::SystemVariable(name) => self.note_system_variable(name),
            _ => {}
        }
        // INSERT( and REPLACE( are functions; without the parenthesis they write.
        if token != Token::Punct(b'(')
            && let Some(Token::Word(word)) = self.prev
            && (word.eq_ignore_ascii_case(b"INSERT") || word.eq_ignore_ascii_case(b"REPLACE"))
        {
            self.is_harmful = true;
        }
        self.before = self.prev;
        self.prev = Some(token);
    }

    /// Behind an opening parenthesis: is it a call, and of what?
    fn note_parenthesis(&mut self) {
        let word = match self.prev {
            Some(Token::Word(word)) => word,
            // Operators, commas, parentheses: only grouping.
            Some(Token::Punct(_) | Token::Assign) | None => return,
            // `name`(, 'name'(, 1a(: perhaps a stored function's name.
            Some(_) => return self.is_harmful = true,
        };
        match self.before {
            // schema.function(
            Some(Token::Punct(b'.')) => return self.is_harmful = true,
            // ... ) t (a, b): a table's alias
            Some(Token::Punct(b')')) => return,
            // CAST(x AS type(, AS t (a, b), and WITH t (a, b) AS: no calls either
            Some(Token::Word(before))
                if [&b"AS"[..], b"WITH", b"RECURSIVE"]
                    .iter()
                    .any(|word| before.eq_ignore_ascii_case(word)) =>
            {
                return;
            }
            _ => {}
        }
        let upper = Upper::of(word);
        let name = upper.as_bytes();
        if is_harmless_before_parenthesis(name, self.lexer.had_gap) {
            return;
        }
        self.is_harmful = true;
        match name {
            b"GET_LOCK" => self.pin(Pins::GET_LOCK),
            b"RELEASE_ALL_LOCKS" => self.unpin(Pins::GET_LOCK),
            b"LASTVAL" | b"CURRVAL" => self.recalls_sequence(),
            _ => self.recalls |= is_recalling(name),
        }
    }

    fn note_word(&mut self, word: &[u8]) {
        // Of the words below none is shorter than four letters or longer than fifteen.
        if !(4..=15).contains(&word.len()) {
            return;
        }
        let upper = Upper::of(word);
        match upper.as_bytes() {
            b"INTO" | b"DELETE" | b"CALL" => self.is_harmful = true,
            b"UPDATE" if !is(self.prev, "FOR") => self.is_harmful = true,
            // MariaDB's and Oracle's ways to draw from a sequence without a parenthesis
            b"VALUE" if is(self.prev, "NEXT") => self.is_harmful = true,
            b"VALUE" if is(self.prev, "PREVIOUS") => {
                self.is_harmful = true;
                self.recalls_sequence();
            }
            b"NEXTVAL" if self.prev == Some(Token::Punct(b'.')) => self.is_harmful = true,
            b"CURRVAL" | b"LASTVAL" if self.prev == Some(Token::Punct(b'.')) => {
                self.is_harmful = true;
                self.recalls_sequence();
            }
            name if self.prev == Some(Token::Punct(b'.'))
                && matches!(self.before, Some(Token::SystemVariable(_)))
                && is_recalling_variable(name) =>
            {
                self.recalls = true;
            }
            _ => {}
        }
    }

    fn note_system_variable(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.is_harmful = true; // in quotes: it may be any
        } else {
            self.recalls |= is_recalling_variable(Upper::of(name).as_bytes());
        }
    }

    /// The statement that begins with `first`, to its end.
    fn statement(&mut self, first: Token<'a>) -> Statement {
        let word = match first {
            Token::Word(word) => word,
            Token::Punct(b'(') => return self.read_in_parentheses(),
            _ => return self.anything(),
        };
        let upper = Upper::of(word);
        match upper.as_bytes() {
            b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" | b"DO" => self.read(),
            b"DESC" | b"DESCRIBE" | b"EXPLAIN" => self.explain(),
            b"SHOW" => self.show(),
            b"HELP" => self.read(),
            b"CHECKSUM" => self.read(),
            b"INSERT" | b"UPDATE" | b"DELETE" | b"REPLACE" => self.write(false),
            b"LOAD" | b"CALL" | b"EXECUTE" | b"GET" => self.may_set_variables(upper.as_bytes()),
            b"SET" => self.set(),
            b"USE" => self.session_only(),
            b"PREPARE" => {
                self.pin(Pins::TEXT_PREPARE);
                self.session_only()
            }
            b"DEALLOCATE" => self.session_only(),
            b"BEGIN" => self.begin_transaction(),
            b"START" => self.start(),
            b"COMMIT" => self.commit(),
            b"ROLLBACK" => self.rollback(),
            b"SAVEPOINT" => self.plain(Kind::Savepoint, false),
            b"RELEASE" => match is(self.next(), "SAVEPOINT") {
                true => self.plain(Kind::Savepoint, false),
                false => self.anything(),
            },
            b"KILL" => self.kill(),
            b"CREATE" => self.create(),
            b"DROP" => match is(self.next(), "PREPARE") {
                true => self.session_only(),
                false => self.write(true),
            },
            b"LOCK" => {
                self.pin(Pins::LOCK_TABLES);
                self.write(true)
            }
            b"UNLOCK" => {
                self.unpin(Pins::LOCK_TABLES);
                self.write(true)
            }
            b"FLUSH" => self.flush(),
            b"BACKUP" => self.backup(),
            b"HANDLER" => self.handler(),
            b"XA" => self.xa(),
            word if RUNS_ONCE.contains(&word) => self.write(true),
            _ => self.anything(),
        }
    }

    /// Not understood: perhaps a block of code.
    fn anything(&mut self) -> Statement {
        self.rest();
        Statement::several()
    }

    fn plain(&mut self, kind: Kind, may_commit: bool) -> Statement {
        self.rest();
        Statement { may_commit, ..Statement::plain(kind) }
    }

    fn write(&mut self, may_commit: bool) -> Statement {
        self.plain(Kind::Write, may_commit)
    }

    /// What changes the session only, unless it calls something.
    fn session_only(&mut self) -> Statement {
        self.rest();
        Statement::plain(if self.is_harmful { Kind::Write } else { Kind::SessionOnly })
    }

    /// A read, unless something in it is harmful. Stored functions cannot commit.
    fn read(&mut self) -> Statement {
        self.rest();
        Statement::plain(if self.is_harmful { Kind::Write } else { Kind::Read })
    }

    /// `(SELECT ...) UNION ...`: what stands in the innermost of the opening parentheses decides.
    fn read_in_parentheses(&mut self) -> Statement {
        let mut first = self.next();
        while first == Some(Token::Punct(b'(')) {
            first = self.next();
        }
        if ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| is(first, word)) {
            self.read()
        } else {
            self.write(true)
        }
    }

    /// EXPLAIN ANALYZE runs what it explains.
    fn explain(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if is(Some(token), "ANALYZE") {
                self.is_harmful = true;
            }
        }
        self.read()
    }

    fn show(&mut self) -> Statement {
        let what = self.next();
        if ["WARNINGS", "ERRORS", "COUNT", "PROFILE", "PROFILES"].iter().any(|word| is(what, word)) {
            self.recalls = true;
        }
        self.read()
    }

    /// LOAD DATA (..., @x), CALL p(@x), EXECUTE s USING @x, GET DIAGNOSTICS @x = ...: each may give @x a value.
    fn may_set_variables(&mut self, verb: &[u8]) -> Statement {
        while let Some(token) = self.next() {
            if token == Token::UserVariable {
                self.pin(Pins::USER_VARIABLE);
            }
        }
        let recalls = verb == b"GET"; // diagnostics are of the statement before
        self.recalls |= recalls;
        match verb {
            b"CALL" | b"EXECUTE" => Statement::several(),
            // Galera may commit a large file in pieces (wsrep_load_data_splitting).
            b"LOAD" => Statement::write(true),
            _ => Statement::write(false),
        }
    }

    /// BEGIN [WORK]; MariaDB's BEGIN NOT ATOMIC begins a block of code.
    fn begin_transaction(&mut self) -> Statement {
        match self.next() {
            None => Statement { may_commit: true, ..Statement::plain(Kind::Begin) },
            word if is(word, "WORK") => self.plain(Kind::Begin, true),
            _ => self.anything(),
        }
    }

    /// START TRANSACTION; START REPLICA and the like are writes.
    fn start(&mut self) -> Statement {
        let kind = if is(self.next(), "TRANSACTION") { Kind::Begin } else { Kind::Write };
        self.plain(kind, true)
    }

    /// ROLLBACK [WORK] [TO [SAVEPOINT] x] [AND ...]
    fn rollback(&mut self) -> Statement {
        let mut next = self.next();
        if is(next, "WORK") {
            next = self.next();
        }
        let kind = if is(next, "TO") { Kind::Savepoint } else { Kind::Rollback };
        Statement { chains: next.is_some(), ..self.plain(kind, false) }
    }

    /// COMMIT [WORK] [AND ...]
    fn commit(&mut self) -> Statement {
        let mut next = self.next();
        if is(next, "WORK") {
            next = self.next();
        }
        Statement { chains: next.is_some(), ..self.plain(Kind::Commit, true) }
    }

    /// KILL [HARD | SOFT] [CONNECTION | QUERY [ID]] n
    fn kill(&mut self) -> Statement {
        let mut query_only = false;
        let mut next = self.next();
        if is(next, "HARD") || is(next, "SOFT") {
            next = self.next();
        }
        if is(next, "CONNECTION") {
            next = self.next();
        } else if is(next, "QUERY") {
            query_only = true;
            next = self.next(); // an ID that follows is a statement's, not a connection's, and is no number
        }
        let mut id = match next {
            Some(Token::Number(digits)) => {
                std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok())
            }
            _ => None,
        };
        if self.next().is_some() {
            id = None; // an expression
        }
        self.plain(Kind::Kill { query_only, id }, false)
    }

    /// CREATE [OR REPLACE] TEMPORARY TABLE pins; everything that begins so is a write. A temporary table commits nothing.
    fn create(&mut self) -> Statement {
        let mut next = self.next();
        if is(next, "OR") {
            self.next();
            next = self.next();
        }
        let is_temporary = is(next, "TEMPORARY");
        if is_temporary {
            self.pin(Pins::TEMP_TABLE);
        }
        self.write(!is_temporary)
    }

    /// FLUSH TABLES ... WITH READ LOCK, FLUSH TABLES ... FOR EXPORT
    fn flush(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if is(Some(token), "LOCK") || is(Some(token), "EXPORT") {
                self.pin(Pins::LOCK_TABLES);
            }
        }
        Statement::write(true)
    }

    /// BACKUP LOCK t, BACKUP UNLOCK, BACKUP STAGE x
    fn backup(&mut self) -> Statement {
        let what = self.next();
        if is(what, "UNLOCK") || (is(what, "STAGE") && is(self.next(), "END")) {
            self.unpin(Pins::LOCK_TABLES);
        } else {
            self.pin(Pins::LOCK_TABLES);
        }
        self.write(true)
    }

    /// HANDLER t OPEN. Closing one does not unpin: others may be open.
    fn handler(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if is(Some(token), "OPEN") {
                self.pin(Pins::HANDLER);
            }
        }
        Statement::write(false)
    }

    fn xa(&mut self) -> Statement {
        let what = self.next();
        if is(what, "COMMIT") || is(what, "ROLLBACK") {
            self.unpin(Pins::XA);
        } else if !is(what, "RECOVER") {
            self.pin(Pins::XA);
        }
        self.write(true)
    }

    /// Every form of SET.
    fn set(&mut self) -> Statement {
        let first = self.next();
        let Some(Token::Word(word)) = first else { return self.assignments(first) };
        match Upper::of(word).as_bytes() {
            b"STATEMENT" => self.set_statement(),
            b"PASSWORD" | b"DEFAULT" | b"RESOURCE" => self.write(true),
            b"ROLE" => {
                self.sets(Sets::ROLE);
                self.session_only()
            }
            b"TRANSACTION" => {
                self.sets(Sets::TRANSACTION);
                self.session_only()
            }
            _ => self.assignments(first),
        }
    }

    /// SET STATEMENT x = y [, ...] FOR statement: what the inner one is, if that is a read.
    fn set_statement(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if self.depth == 0 && is(Some(token), "FOR") {
                let Some(inner) = self.next() else { break };
                let inner = self.statement(inner);
                return Statement {
                    kind: if inner.kind == Kind::Read { Kind::Read } else { Kind::Write },
                    may_commit: inner.may_commit,
                    runs_several: inner.runs_several,
                    ..Statement::plain(Kind::Write)
                };
            }
        }
        Statement::write(true)
    }

    /// SET [scope] name = value [, ...]; `target` is the first token behind SET.
    fn assignments(&mut self, mut target: Option<Token<'a>>) -> Statement {
        let mut all = Statement { literal_user_variables: true, ..Statement::plain(Kind::SessionOnly) };
        loop {
            let mut sets_autocommit = false;
            if target == Some(Token::UserVariable) {
                self.pin(Pins::USER_VARIABLE);
            } else {
                all.literal_user_variables = false;
                if ["NAMES", "CHARACTER", "CHARSET"].iter().any(|word| is(target, word)) {
                    if !self.value().has_more {
                        break;
                    }
                    target = self.next();
                    continue;
                }
                sets_autocommit = self.system_target(target, &mut all);
            }
            let was_harmful = self.is_harmful;
            match self.name(&mut all, &mut sets_autocommit) {
                None => break,
                Some(Token::Assign) => self.is_harmful = was_harmful, // here only another way to write `=`
                Some(_) => {}
            }
            let value = self.value();
            all.literal_user_variables &= value.is_literal;
            all.may_commit |= sets_autocommit && !value.is_off;
            if !value.has_more {
                break;
            }
            target = self.next();
        }
        self.rest();
        if self.is_harmful {
            all.kind = Kind::Write;
        }
        all
    }

    /// What is left of a target, up to its `=` or `:=`, which is returned. `SET SESSION TRANSACTION ...` has none.
    fn name(&mut self, all: &mut Statement, sets_autocommit: &mut bool) -> Option<Token<'a>> {
        let mut is_transaction = is(self.prev, "TRANSACTION");
        loop {
            let token = self.next();
            match token {
                None | Some(Token::Punct(b'=') | Token::Assign) => {
                    if token.is_none() && !is_transaction {
                        all.kind = Kind::Write;
                    }
                    all.literal_user_variables &= token.is_some();
                    return token;
                }
                Some(Token::Punct(b'.')) => {}
                Some(Token::Punct(b',')) if is_transaction => {}
                Some(Token::Word(word)) => match Upper::of(word).as_bytes() {
                    b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY" | b"" => all.kind = Kind::Write,
                    b"TRANSACTION" => is_transaction = true,
                    b"AUTOCOMMIT" => *sets_autocommit = true,
                    name if name.starts_with(TRACKING) => self.sets(Sets::TRACKING),
                    _ => {}
                },
                Some(_) => all.kind = Kind::Write,
            }
        }
    }

    /// The first token of a target that is no user variable; tells whether it is autocommit.
    fn system_target(&mut self, target: Option<Token<'a>>, all: &mut Statement) -> bool {
        let Some(Token::Word(word) | Token::SystemVariable(word)) = target else {
            all.kind = Kind::Write;
            return true; // in quotes: it may be any
        };
        match Upper::of(word).as_bytes() {
            // Beyond this session; in quotes or too long to be known.
            b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY" | b"" => {
                all.kind = Kind::Write;
                true
            }
            b"AUTOCOMMIT" => true,
            name => {
                if name.starts_with(TRACKING) {
                    self.sets(Sets::TRACKING);
                }
                false
            }
        }
    }

    /// A value, up to the comma before the next assignment or to the statement's end.
    fn value(&mut self) -> Value {
        let mut value = Value { is_literal: true, is_off: false, has_more: false };
        let mut tokens = 0u32;
        let mut is_signed = false;
        while let Some(token) = self.next() {
            match token {
                Token::Punct(b',') if self.depth == 0 => {
                    value.has_more = true;
                    break;
                }
                Token::Punct(b'-' | b'+') if tokens == 0 && !is_signed => {
                    is_signed = true;
                    continue;
                }
                // 1.5: the point and what follows belong to the number
                Token::Punct(b'.') if tokens == 1 => {
                    tokens = 0;
                    value.is_off = false;
                    continue;
                }
                Token::Number(digits) => value.is_off = digits == b"0",
                Token::Text => {}
                Token::Word(word) => {
                    let upper = Upper::of(word);
                    value.is_off = matches!(upper.as_bytes(), b"OFF" | b"FALSE");
                    value.is_literal &= matches!(upper.as_bytes(), b"NULL" | b"TRUE" | b"FALSE");
                }
                _ => value.is_literal = false,
            }
            tokens = tokens.saturating_add(1);
        }
        value.is_literal &= tokens == 1;
        value.is_off &= tokens == 1;
        value
    }
}

/// What an assignment assigns.
struct Value {
    /// One literal and nothing else.
    is_literal: bool,
    /// 0, OFF or FALSE.
    is_off: bool,
    /// Another assignment follows.
    has_more: bool,
}

/// Variables of the session that an earlier statement left behind.
fn is_recalling_variable(name: &[u8]) -> bool {
    matches!(name, b"LAST_INSERT_ID" | b"IDENTITY" | b"WARNING_COUNT" | b"ERROR_COUNT" | b"LAST_GTID")
}

#[cfg(test)]
mod tests;
