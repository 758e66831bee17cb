//! One text's tokens, read statement by statement; noted on the way: what matters in any statement.

use super::lexer::{Lexer, Token};
use super::names::{changes_no_data, is_harmless_before_parenthesis};
use super::pins::Pins;
use super::recalls::{Recalls, of_function, of_variable};
use super::sets::Sets;
use super::word::{Upper, is};

/// Reads one text's tokens, and notes on the way what matters in any statement.
pub(super) struct Look<'a> {
    pub(super) lexer: Lexer<'a>,
    /// The last two tokens of the statement at hand.
    pub(super) prev: Option<Token<'a>>,
    before: Option<Token<'a>>,
    /// Something in the statement at hand keeps it from being a read.
    pub(super) is_harmful: bool,
    /// It calls a function that waits, locks or recalls: not to be run again, but no data is changed by it.
    pub(super) waits: bool,
    /// It calls what may be a stored function.
    pub(super) calls_stored: bool,
    /// It ends with RELEASE_ALL_LOCKS() behind SELECT or DO: nothing keeps that from being called.
    pub(super) releases_all_locks: bool,
    /// It has a FROM, not in parentheses, and not of DUAL.
    pub(super) has_from: bool,
    /// Parentheses open at the last token.
    pub(super) depth: u32,
    /// The statement at hand has been read to its end.
    has_ended: bool,
    // of the whole text
    pub(super) pins: Pins,
    pub(super) unpins: Pins,
    /// All that was pinned, released again or not.
    pub(super) gains: Pins,
    pub(super) recalls: Recalls,
    pub(super) sets: Sets,
    /// LAST_INSERT_ID with an argument.
    pub(super) sets_insert_id: bool,
    /// ... RETURNING ...
    pub(super) returns: bool,
    pub(super) asks_connection_id: bool,
    pub(super) touches_engines: bool,
    pub(super) kills_own: bool,
}

impl<'a> Look<'a> {
    pub(super) fn new(sql: &'a [u8], status: u16) -> Look<'a> {
        Look {
            lexer: Lexer::new(sql, status),
            prev: None,
            before: None,
            is_harmful: false,
            waits: false,
            calls_stored: false,
            releases_all_locks: false,
            has_from: false,
            depth: 0,
            has_ended: false,
            pins: Pins::NONE,
            unpins: Pins::NONE,
            gains: Pins::NONE,
            recalls: Recalls::NONE,
            sets: Sets::NONE,
            sets_insert_id: false,
            returns: false,
            asks_connection_id: false,
            touches_engines: false,
            kills_own: false,
        }
    }

    pub(super) fn sets(&mut self, sets: Sets) {
        self.sets = self.sets.union(sets);
    }

    pub(super) fn recalls(&mut self, what: Recalls) {
        self.recalls = self.recalls.union(what);
    }

    pub(super) fn pin(&mut self, pins: Pins) {
        self.pins = self.pins.union(pins);
        self.gains = self.gains.union(pins);
        self.unpins = self.unpins.without(pins);
    }

    pub(super) fn unpin(&mut self, pins: Pins) {
        self.unpins = self.unpins.union(pins);
        self.pins = self.pins.without(pins);
    }

    /// The first token of the next statement; `None` at the end of the text.
    pub(super) fn begin(&mut self) -> Option<Token<'a>> {
        self.prev = None;
        self.before = None;
        self.is_harmful = false;
        self.waits = false;
        self.calls_stored = false;
        self.releases_all_locks = false;
        self.has_from = false;
        self.depth = 0;
        self.has_ended = false;
        loop {
            let token = self.lexer.next()?;
            if !matches!(token, Token::Punct(b';')) {
                self.note(token);
                return Some(token);
            }
        }
    }

    /// The next token of the statement at hand; `None` at its end, and again until the next begins.
    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.advance()
    }

    /// Runs to the end of the statement.
    pub(super) fn rest(&mut self) {
        while self.advance().is_some() {}
    }

    /// Inlined, so that in [`Look::rest`], which most of a text is passed by, a token needs no place in memory.
    #[allow(clippy::inline_always)] // measured: see `Look::note`
    #[inline(always)]
    fn advance(&mut self) -> Option<Token<'a>> {
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

    /// Inlined, as [`Lexer::next`] is, so that a token goes from there to here in registers: most are numbers, commas and names that matter to nobody.
    #[allow(clippy::inline_always)] // measured: see `Look::note`
    #[inline(always)]
    fn note(&mut self, token: Token<'a>) {
        match token {
            Token::Punct(b'(' | b')')
            | Token::Word(_)
            | Token::Quoted(_)
            | Token::UserVariable
            | Token::Assign
            | Token::SystemVariable(_) => self.note_one(token),
            Token::Punct(_) | Token::Number(_) | Token::Text(_) => {}
        }
        match self.prev {
            Some(Token::Punct(b'(')) => self.note_argument(token),
            // INSERT( and REPLACE( are functions; without the parenthesis they write.
            Some(Token::Word(word)) if matches!(word.len(), 6 | 7) => {
                let may_write = word.eq_ignore_ascii_case(b"INSERT") || word.eq_ignore_ascii_case(b"REPLACE");
                self.is_harmful |= may_write && !matches!(token, Token::Punct(b'('));
            }
            _ => {}
        }
        self.before = self.prev;
        // Field by field: copied as a whole, it would be loaded wider than it was just stored, and wait for that.
        self.prev = Some(match token {
            Token::Word(text) => Token::Word(text),
            Token::Quoted(text) => Token::Quoted(text),
            Token::Text(text) => Token::Text(text),
            Token::Number(text) => Token::Number(text),
            Token::SystemVariable(text) => Token::SystemVariable(text),
            Token::Punct(byte) => Token::Punct(byte),
            Token::UserVariable => Token::UserVariable,
            Token::Assign => Token::Assign,
        });
    }

    fn note_one(&mut self, token: Token<'a>) {
        match token {
            Token::Punct(b'(') => {
                self.depth = self.depth.saturating_add(1);
                self.note_parenthesis();
            }
            Token::Punct(b')') => self.depth = self.depth.saturating_sub(1),
            Token::Word(word) => self.note_word(word),
            Token::Quoted(name) if self.is_behind_scope() => self.note_variable(name),
            Token::UserVariable if is(self.prev, "INTO") => self.pin(Pins::USER_VARIABLE),
            Token::Assign => {
                self.is_harmful = true;
                if matches!(self.prev, Some(Token::UserVariable)) {
                    self.pin(Pins::USER_VARIABLE);
                }
            }
            Token::SystemVariable(name) => self.note_variable(name),
            _ => {}
        }
    }

    /// Behind a parenthesis. Behind `LAST_INSERT_ID(` an argument makes it the setting of a number instead of the asking for one.
    fn note_argument(&mut self, token: Token<'a>) {
        let Some(Token::Word(name) | Token::Quoted(name)) = self.before else { return };
        if name.eq_ignore_ascii_case(b"LAST_INSERT_ID") {
            match token {
                Token::Punct(b')') => self.recalls(Recalls::INSERT_ID),
                _ => self.sets_insert_id = true,
            }
        }
    }

    /// At an opening parenthesis: is it a call, and of what?
    fn note_parenthesis(&mut self) {
        let name = match self.prev {
            Some(Token::Word(word)) => word,
            // `name`(: one of the server's own functions, or perhaps a stored one.
            Some(Token::Quoted(name)) => {
                self.is_harmful = true;
                self.calls_stored = true;
                name
            }
            // Operators, commas, parentheses: only grouping.
            Some(Token::Punct(_) | Token::Assign) | None => return,
            // 'name'(, 1a(: perhaps a stored function's name.
            Some(_) => return self.calls_unknown(),
        };
        match self.before {
            // schema.function(
            Some(Token::Punct(b'.')) => return self.calls_unknown(),
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
        let upper = Upper::of(name);
        let name = upper.as_bytes();
        self.asks_connection_id |= matches!(name, b"CONNECTION_ID" | b"PS_CURRENT_THREAD_ID");
        if is_harmless_before_parenthesis(name, self.lexer.had_gap) {
            return;
        }
        if changes_no_data(name) {
            self.waits = true;
        } else {
            self.is_harmful = true;
            self.calls_stored |= !matches!(name, b"NEXTVAL" | b"SETVAL" | b"DEFAULT" | b"LOAD_FILE");
        }
        match name {
            b"GET_LOCK" => self.pin(Pins::GET_LOCK),
            b"RELEASE_ALL_LOCKS" => self.note_release(),
            b"LAST_INSERT_ID" => {} // its argument decides
            _ => self.recalls(of_function(name)),
        }
    }

    /// At the parenthesis behind RELEASE_ALL_LOCKS.
    fn note_release(&mut self) {
        let mut behind = self.lexer.clone();
        self.releases_all_locks = (is(self.before, "SELECT") || is(self.before, "DO"))
            && behind.next() == Some(Token::Punct(b')'))
            && matches!(behind.next(), None | Some(Token::Punct(b';')));
    }

    fn calls_unknown(&mut self) {
        self.is_harmful = true;
        self.calls_stored = true;
    }

    fn note_word(&mut self, word: &[u8]) {
        // Of the words below none is shorter than four letters or longer than sixteen.
        if !(4..=16).contains(&word.len()) {
            return;
        }
        if self.is_behind_scope() {
            // No variable is called so.
            let is_reserved = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            self.is_harmful |= ["INTO", "DELETE", "UPDATE", "CALL"].into_iter().any(is_reserved);
            return self.note_variable(word);
        }
        // Nor does any begin with another letter than these: most words are done with here.
        if !matches!(
            word.first().map(u8::to_ascii_uppercase),
            Some(b'C' | b'D' | b'F' | b'I' | b'L' | b'N' | b'P' | b'R' | b'U' | b'V')
        ) {
            return;
        }
        let is_behind_dot = matches!(self.prev, Some(Token::Punct(b'.')));
        let upper = Upper::of(word);
        match upper.as_bytes() {
            b"FROM" if self.depth == 0 => self.has_from = true,
            b"DUAL" if is(self.prev, "FROM") => self.has_from = false,
            b"INTO" | b"DELETE" | b"CALL" => self.is_harmful = true,
            b"UPDATE" if !is(self.prev, "FOR") => self.is_harmful = true,
            b"RETURNING" => self.returns = true,
            // MariaDB's and Oracle's ways to draw from a sequence without a parenthesis
            b"VALUE" if is(self.prev, "NEXT") => self.is_harmful = true,
            b"VALUE" if is(self.prev, "PREVIOUS") => {
                self.is_harmful = true;
                self.recalls(Recalls::SEQUENCE);
            }
            b"NEXTVAL" if is_behind_dot => self.is_harmful = true,
            b"CURRVAL" | b"LASTVAL" if is_behind_dot => {
                self.is_harmful = true;
                self.recalls(Recalls::SEQUENCE);
            }
            // information_schema.PROFILING
            b"PROFILING" if is_behind_dot || is(self.prev, "FROM") || is(self.prev, "JOIN") => {
                self.recalls(Recalls::PROFILE);
            }
            _ => {}
        }
    }

    /// Behind `@@scope.`
    fn is_behind_scope(&self) -> bool {
        matches!((self.prev, self.before), (Some(Token::Punct(b'.')), Some(Token::SystemVariable(_))))
    }

    fn note_variable(&mut self, name: &[u8]) {
        let upper = Upper::of(name);
        self.recalls(of_variable(upper.as_bytes()));
        self.asks_connection_id |= upper.as_bytes() == b"PSEUDO_THREAD_ID";
    }
}
