//! SET: what it assigns, and what of it no server reports.

use super::Statement;
use super::insert_id::InsertId;
use super::kind::StatementKind;
use super::lexer::{Lexer, Token};
use super::look::Look;
use super::pins::Pins;
use super::recalls::Recalls;
use super::sets::Sets;
use super::word::{Upper, is};

/// What begins the names of the variables that say what a server reports of a session.
const TRACKING: &[u8] = b"SESSION_TRACK_";

/// The variable whose collation follows it.
const CHARSET: &[u8] = b"CHARACTER_SET_CONNECTION";

impl<'a> Look<'a> {
    /// Every form of SET.
    pub(super) fn set(&mut self) -> Statement {
        let asked = self.asked();
        let first = self.next();
        let Some(Token::Word(word)) = first else { return self.assignments(first, asked) };
        match Upper::of(word).as_bytes() {
            b"STATEMENT" => {
                self.sets(Sets::FOR_ONE_STATEMENT);
                self.set_statement()
            }
            b"PASSWORD" | b"DEFAULT" | b"RESOURCE" => self.write(true),
            b"ROLE" => {
                self.sets(Sets::ROLE);
                self.session_only()
            }
            b"TRANSACTION" => {
                self.sets(Sets::TRANSACTION);
                self.session_only()
            }
            _ => self.assignments(first, asked),
        }
    }

    /// SET STATEMENT x = y [, ...] FOR statement: what the inner one is, if that is a read.
    fn set_statement(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if self.depth == 0 && is(Some(token), "FOR") {
                let Some(inner) = self.next() else { break };
                if is(Some(inner), "SET") {
                    // Its changes are reported in one answer with those that are taken back.
                    self.pin(Pins::UNNAMED);
                }
                let inner = self.statement(inner);
                return Statement {
                    kind: if inner.kind == StatementKind::Read {
                        StatementKind::Read
                    } else {
                        StatementKind::Write
                    },
                    may_commit: inner.may_commit,
                    runs_several: inner.runs_several,
                    calls: inner.calls,
                    calls_stored: inner.calls_stored,
                    insert_id: inner.insert_id,
                    ..Statement::plain(StatementKind::Write)
                };
            }
        }
        Statement::write(true)
    }

    /// What the text has asked for so far.
    fn asked(&self) -> Asked {
        Asked { recalls: self.recalls, connection_id: self.asks_connection_id }
    }

    /// SET [scope] name = value [, ...]; `target` is the first token behind SET, `asked` what was asked for before it: the name of
    /// a variable that is set asks for nothing.
    fn assignments(&mut self, mut target: Option<Token<'a>>, mut asked: Asked) -> Statement {
        let mut all =
            Statement { literal_user_variables: true, ..Statement::plain(StatementKind::SessionOnly) };
        loop {
            let mut sets_autocommit = false;
            let mut sets_charset = false;
            if target == Some(Token::UserVariable) {
                self.pin(Pins::USER_VARIABLE);
            } else {
                all.literal_user_variables = false;
                if ["NAMES", "CHARACTER", "CHARSET"].iter().any(|word| is(target, word)) {
                    let is_names = is(target, "NAMES");
                    let value = self.value();
                    let is_default = is_names && value.is_one_name;
                    self.sets(if is_default { Sets::NAMES } else { Sets::COLLATION });
                    if !value.has_more {
                        break;
                    }
                    asked = self.asked();
                    target = self.next();
                    continue;
                }
                sets_autocommit = self.system_target(target, &mut all, &mut sets_charset);
            }
            let was_harmful = self.is_harmful;
            match self.name(&mut all, &mut sets_autocommit, &mut sets_charset) {
                None => break,
                Some(Token::Assign) => self.is_harmful = was_harmful, // here only another way to write `=`
                Some(_) => {}
            }
            (self.recalls, self.asks_connection_id) = (asked.recalls, asked.connection_id);
            let value = self.value();
            all.literal_user_variables &= value.is_literal;
            all.may_commit |= sets_autocommit && !value.is_off;
            if sets_charset {
                self.sets(if value.is_one_name { Sets::NAMES } else { Sets::COLLATION });
            }
            if !value.has_more {
                break;
            }
            asked = self.asked();
            target = self.next();
        }
        self.rest();
        if self.is_harmful || self.waits {
            all.kind = StatementKind::Write;
        }
        all.calls_stored = self.calls_stored;
        all
    }

    /// What is left of a target, up to its `=` or `:=`, which is returned. `SET SESSION TRANSACTION ...` has none.
    fn name(
        &mut self,
        all: &mut Statement,
        sets_autocommit: &mut bool,
        sets_charset: &mut bool,
    ) -> Option<Token<'a>> {
        let mut is_transaction = is(self.prev, "TRANSACTION");
        loop {
            let token = self.next();
            // Nothing stands between a user variable and its sign.
            all.literal_user_variables &= matches!(token, Some(Token::Punct(b'=') | Token::Assign));
            match token {
                None | Some(Token::Punct(b'=') | Token::Assign) => {
                    if token.is_none() && !is_transaction {
                        all.kind = StatementKind::Write;
                    }
                    return token;
                }
                Some(Token::Punct(b'.')) => {}
                Some(Token::Punct(b',')) if is_transaction => {}
                Some(Token::Word(word) | Token::Quoted(word)) => match Upper::of(word).as_bytes() {
                    b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY" | b"" => all.kind = StatementKind::Write,
                    b"TRANSACTION" => is_transaction = true,
                    b"AUTOCOMMIT" => *sets_autocommit = true,
                    CHARSET => *sets_charset = true,
                    name if name.starts_with(TRACKING) => self.sets(Sets::TRACKING),
                    _ => {}
                },
                Some(_) => all.kind = StatementKind::Write,
            }
        }
    }

    /// The first token of a target that is no user variable; tells whether it is autocommit.
    fn system_target(
        &mut self,
        target: Option<Token<'a>>,
        all: &mut Statement,
        sets_charset: &mut bool,
    ) -> bool {
        let Some(Token::Word(word) | Token::SystemVariable(word) | Token::Quoted(word)) = target else {
            all.kind = StatementKind::Write;
            return true; // it may be any
        };
        let upper = Upper::of(word);
        if matches!(target, Some(Token::SystemVariable(_))) && !is_scope(upper.as_bytes()) {
            // Without a scope, these are for the next transaction.
            let is_transaction = matches!(
                upper.as_bytes(),
                b"TX_ISOLATION" | b"TX_READ_ONLY" | b"TRANSACTION_ISOLATION" | b"TRANSACTION_READ_ONLY"
            );
            self.sets(if is_transaction { Sets::TRANSACTION } else { Sets::UNREPORTED });
            if matches!(upper.as_bytes(), b"LAST_INSERT_ID" | b"IDENTITY" | b"") {
                all.insert_id = InsertId::Unknown;
            }
        }
        *sets_charset = upper.as_bytes() == CHARSET;
        match upper.as_bytes() {
            // Beyond this session; in quotes or too long to be known.
            b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY" | b"" => {
                all.kind = StatementKind::Write;
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
        let mut value = Value { is_literal: true, is_off: false, has_more: false, is_one_name: true };
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
                Token::Number(digits) => {
                    value.is_off = digits == b"0";
                    value.is_one_name = false;
                }
                Token::Text(_) => {}
                Token::Word(word) => {
                    let upper = Upper::of(word);
                    value.is_one_name &= !matches!(upper.as_bytes(), b"DEFAULT" | b"NULL" | b"");
                    value.is_off = matches!(upper.as_bytes(), b"OFF" | b"FALSE");
                    value.is_literal &= matches!(upper.as_bytes(), b"NULL" | b"TRUE" | b"FALSE");
                }
                _ => {
                    value.is_literal = false;
                    value.is_one_name = false;
                }
            }
            tokens = tokens.saturating_add(1);
        }
        value.is_literal &= tokens == 1;
        value.is_off &= tokens == 1;
        value.is_one_name &= tokens == 1;
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
    /// One word or string: a name, and not DEFAULT.
    is_one_name: bool,
}

/// What a text has asked for up to some place.
#[derive(Clone, Copy)]
struct Asked {
    recalls: Recalls,
    connection_id: bool,
}

/// What may stand between `@@` and the point before a variable's name.
fn is_scope(name: &[u8]) -> bool {
    matches!(name, b"SESSION" | b"LOCAL" | b"GLOBAL" | b"PERSIST" | b"PERSIST_ONLY")
}

/// The names of the variables that `SET @@name = ...` sets without a scope, as they stand there; see [`Sets::UNREPORTED`]. A few more
/// may come along that are only read.
pub fn unreported_variables(sql: &[u8], status: u16) -> impl Iterator<Item = &[u8]> {
    let mut lexer = Lexer::new(sql, status);
    // What stood before the variable that was read last, if one was.
    let mut target: Option<&[u8]> = None;
    let mut may_begin = false;
    std::iter::from_fn(move || {
        loop {
            let token = lexer.next()?;
            let found = target.take().filter(|_| matches!(token, Token::Punct(b'=') | Token::Assign));
            target = match token {
                Token::SystemVariable(name) if may_begin && !is_scope(Upper::of(name).as_bytes()) => {
                    Some(name)
                }
                _ => None,
            };
            may_begin = token == Token::Punct(b',') || is(Some(token), "SET");
            if found.is_some() {
                return found;
            }
        }
    })
}
