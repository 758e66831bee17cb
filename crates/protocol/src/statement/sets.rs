//! SET: what it assigns, and what of it no server reports.

use super::Statement;
use super::kind::Kind;
use super::lexer::Token;
use super::look::Look;
use super::pins::Pins;
use super::word::{Upper, is};

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
    pub(super) const fn union(self, other: Sets) -> Sets {
        Sets(self.0 | other.0)
    }
}

/// What begins the names of the variables that say what a server reports of a session.
const TRACKING: &[u8] = b"SESSION_TRACK_";

impl<'a> Look<'a> {
    /// Every form of SET.
    pub(super) fn set(&mut self) -> Statement {
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
