//! KILL: whom, and is that the connection it comes from?

use super::Statement;
use super::kind::StatementKind;
use super::lexer::Token;
use super::look::Look;
use super::word::is;

impl<'a> Look<'a> {
    /// KILL [HARD | SOFT] [CONNECTION | QUERY [ID]] n. A Galera node commits an open transaction at it (seen on MariaDB 10.11.19).
    pub(super) fn kill(&mut self) -> Statement {
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
        let id = match next {
            Some(Token::Number(digits)) => {
                std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok())
            }
            _ => {
                self.kills_own = self.is_own_id(next);
                return self.plain(StatementKind::Kill { query_only, id: None }, true);
            }
        };
        let id = if self.next().is_some() { None } else { id }; // more: an expression
        self.plain(StatementKind::Kill { query_only, id }, true)
    }

    /// Whether what begins with `first` and ends the statement is the connection's own number: CONNECTION_ID() or
    /// @@pseudo_thread_id, perhaps in parentheses.
    fn is_own_id(&mut self, first: Option<Token<'a>>) -> bool {
        let mut next = first;
        while next == Some(Token::Punct(b'(')) {
            next = self.next();
        }
        let is_own = match next {
            Some(Token::Word(name) | Token::Quoted(name)) => {
                name.eq_ignore_ascii_case(b"CONNECTION_ID")
                    && self.next() == Some(Token::Punct(b'('))
                    && self.next() == Some(Token::Punct(b')'))
            }
            Some(Token::SystemVariable(name)) => {
                name.eq_ignore_ascii_case(b"PSEUDO_THREAD_ID")
                    || (self.next() == Some(Token::Punct(b'.')) && is(self.next(), "PSEUDO_THREAD_ID"))
            }
            _ => false,
        };
        let mut behind = self.next();
        while behind == Some(Token::Punct(b')')) {
            behind = self.next();
        }
        is_own && behind.is_none()
    }
}
