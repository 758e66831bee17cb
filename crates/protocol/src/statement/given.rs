//! Whether an INSERT may itself give a row the number that its OK packet tells: then LAST_INSERT_ID() did not change.
//!
//! It surely does not when all its values are literals or parameters of known values, and none of them is the number. Whatever else
//! stands among the values (a call, a SELECT, arithmetic) may be any number.

use super::lexer::{Lexer, Token};
use super::word::is;
use crate::parameter::Parameter;

/// Whether the INSERT or REPLACE in `sql` may give a row the number `id`. `status`: as for [`super::Statement::under`].
pub fn may_give(sql: &[u8], status: u16, id: u64) -> bool {
    may_give_bound(sql, status, id, &[])
}

/// The same of a prepared statement that is run with these parameters.
pub fn may_give_bound(sql: &[u8], status: u16, id: u64, bound: &[Parameter<'_>]) -> bool {
    let mut given = Given { lexer: Lexer::new(sql, status), id, bound: bound.iter() };
    given.anything().is_none_or(|gives| gives || given.lexer.is_doubtful)
}

struct Given<'a> {
    lexer: Lexer<'a>,
    id: u64,
    /// The parameters that were not met yet.
    bound: std::slice::Iter<'a, Parameter<'a>>,
}

impl<'a> Given<'a> {
    /// `None`: it is not of the simple form.
    fn anything(&mut self) -> Option<bool> {
        let first = self.lexer.next();
        if !is(first, "INSERT") && !is(first, "REPLACE") {
            return None;
        }
        loop {
            let token = self.lexer.next()?;
            if is(Some(token), "VALUES") || is(Some(token), "VALUE") {
                return self.rows();
            }
            if is(Some(token), "SET") {
                return self.assignments();
            }
            // The table and its columns.
            let is_name =
                matches!(token, Token::Word(_) | Token::Quoted(_) | Token::Punct(b'.' | b',' | b'(' | b')'));
            if !is_name || is(Some(token), "SELECT") {
                return None;
            }
        }
    }

    /// `(literal, ...), (...)` up to the end.
    fn rows(&mut self) -> Option<bool> {
        let mut gives = false;
        loop {
            if self.lexer.next()? != Token::Punct(b'(') {
                return None;
            }
            loop {
                let (gives_it, behind) = self.literal()?;
                gives |= gives_it;
                match behind {
                    Some(Token::Punct(b',')) => {}
                    Some(Token::Punct(b')')) => break,
                    _ => return None,
                }
            }
            match self.lexer.next() {
                Some(Token::Punct(b',')) => {}
                end => return self.is_end(end).then_some(gives),
            }
        }
    }

    /// `name = literal, ...` up to the end.
    fn assignments(&mut self) -> Option<bool> {
        let mut gives = false;
        loop {
            loop {
                match self.lexer.next()? {
                    Token::Punct(b'=') => break,
                    Token::Word(_) | Token::Quoted(_) | Token::Punct(b'.') => {}
                    _ => return None,
                }
            }
            let (gives_it, behind) = self.literal()?;
            gives |= gives_it;
            if behind != Some(Token::Punct(b',')) {
                return self.is_end(behind).then_some(gives);
            }
        }
    }

    fn is_end(&mut self, token: Option<Token<'_>>) -> bool {
        token.is_none() || (token == Some(Token::Punct(b';')) && self.lexer.next().is_none())
    }

    /// A literal or a parameter: whether it may be the number; and the token behind it.
    fn literal(&mut self) -> Option<(bool, Option<Token<'a>>)> {
        let mut first = self.lexer.next()?;
        let is_negative = first == Token::Punct(b'-');
        if is_negative {
            first = self.lexer.next()?;
            // No AUTO_INCREMENT gives a number below zero; one that is given is told as one beyond these.
            if !matches!(first, Token::Number(_)) || self.id > u64::MAX / 2 {
                return None;
            }
        }
        let mut may_be = match first {
            Token::Text(text) => self.is_near(text.get(1..).unwrap_or_default().trim_ascii_start()),
            Token::Number(digits) => self.is_near(digits),
            // NULL and DEFAULT ask for a number.
            Token::Word(_) if is(Some(first), "NULL") || is(Some(first), "DEFAULT") => false,
            Token::Punct(b'?') if !is_negative => {
                let value = *self.bound.next()?;
                self.is_near_parameter(value)
            }
            Token::Word(_) if is(Some(first), "TRUE") || is(Some(first), "FALSE") => self.id <= 1,
            _ => return None,
        };
        let mut behind = self.lexer.next();
        if matches!(first, Token::Number(_)) && behind == Some(Token::Punct(b'.')) {
            // What stands behind the point may round up; an exponent there may do anything.
            let fraction = self.lexer.next();
            if let Some(Token::Number(digits)) = fraction {
                may_be |= !digits.iter().all(u8::is_ascii_digit);
                behind = self.lexer.next();
            } else {
                behind = fraction;
            }
        }
        Some((may_be && !is_negative, behind))
    }

    fn is_near_parameter(&self, value: Parameter<'_>) -> bool {
        match value {
            Parameter::Null => false,
            // One below zero is told as one beyond these.
            Parameter::Signed(number) => {
                u64::try_from(number).map_or(self.id > u64::MAX / 2, |it| it == self.id)
            }
            Parameter::Unsigned(number) => number == self.id,
            Parameter::Decimal(text) | Parameter::Text(text) | Parameter::Binary(text) => {
                self.is_near(text.trim_ascii_start())
            }
            // It is rounded, and a time becomes a number.
            Parameter::Double(_)
            | Parameter::Date { .. }
            | Parameter::DateTime { .. }
            | Parameter::Time { .. } => true,
        }
    }

    /// Whether what these bytes begin with is, or may round to, the number.
    fn is_near(&self, bytes: &[u8]) -> bool {
        let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
        let (digits, behind) = bytes.split_at(end);
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
        match (number, behind.first()) {
            // An exponent, or hexadecimal.
            (_, Some(b'e' | b'E' | b'x' | b'X' | b'b' | b'B')) if !digits.is_empty() => true,
            (Some(number), Some(b'.')) => {
                number.abs_diff(self.id) <= 1 || behind.iter().any(|byte| matches!(byte, b'e' | b'E'))
            }
            (Some(number), _) => number.abs_diff(self.id) <= 1,
            // No number, and so 0; or a sign, a point, or more digits than a number has.
            (None, _) => !digits.is_empty() || matches!(bytes.first(), Some(b'+' | b'-' | b'.')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_that_are_not_the_number_do_not_give_it() {
        for sql in [
            "INSERT INTO t (b) VALUES (1)",
            "INSERT INTO t VALUES (NULL, 'a', 12.5, -700, DEFAULT), (NULL, '', 701000, 0, TRUE);",
            "insert low_priority ignore into `shop`.t (a, `b`) value ('2024-01-01 10:00', \"x\")",
            "INSERT INTO t SET a = 1, t.b = 'x'",
            "REPLACE t VALUES (1) -- done",
            "INSERT INTO t () VALUES (1)",
        ] {
            assert!(!may_give(sql.as_bytes(), 0, 700), "{sql}");
        }
    }

    #[test]
    fn a_parameter_gives_it_when_it_is_the_number() {
        use Parameter::{Double, Null, Signed, Text, Unsigned};
        let gives = |sql: &str, bound: &[Parameter<'_>]| may_give_bound(sql.as_bytes(), 0, 700, bound);
        let sql = "INSERT INTO t (a, b) VALUES (?, 'x'), (5, ?)";
        assert!(!gives(sql, &[Null, Signed(-700)]));
        assert!(!gives(sql, &[Unsigned(7), Text(b"x")]));
        assert!(!gives("INSERT INTO t SET a = ?", &[Signed(701)]));
        for value in [Signed(700), Unsigned(700), Text(b" 700"), Text(b"699.5"), Text(b"7e2"), Double(699.7)]
        {
            assert!(gives(sql, &[Null, value]), "{value:?}");
        }
        // Not all are known, or it is not the value itself.
        assert!(gives(sql, &[Null]));
        assert!(gives("INSERT INTO t VALUES (? + 1)", &[Signed(1)]));
        assert!(gives("INSERT INTO t VALUES (-?)", &[Signed(1)]));
        assert!(may_give_bound(b"INSERT INTO t VALUES (?)", 0, u64::MAX, &[Signed(-1)]));
    }

    #[test]
    fn anything_else_may_give_it() {
        for sql in [
            "INSERT INTO t (a) VALUES (700)",
            "INSERT INTO t (a) VALUES (1), ('700')",
            "INSERT INTO t (a) VALUES (' 700 apples')",
            "INSERT INTO t (a) VALUES (699.9)",
            "INSERT INTO t (a) VALUES ('699.9')",
            "INSERT INTO t (a) VALUES (7e2)",
            "INSERT INTO t (a) VALUES (7.0e2)",
            "INSERT INTO t (a) VALUES ('7e2')",
            "INSERT INTO t (a) VALUES ('.7e3')",
            "INSERT INTO t (a) VALUES ('+700')",
            "INSERT INTO t (a) VALUES (0x2BC)",
            "INSERT INTO t (a) VALUES (x'02BC')",
            "INSERT INTO t (a) VALUES (699 + 1)",
            "INSERT INTO t (a) VALUES (- - 700)",
            "INSERT INTO t (a) VALUES (?)",
            "INSERT INTO t (a) VALUES (f())",
            "INSERT INTO t (a) VALUES (@a)",
            "INSERT INTO t (a) VALUES (NOW())",
            "INSERT INTO t SET a = 700",
            "INSERT INTO t SET a = b",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t (SELECT 1)",
            "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 5",
            "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)",
            "INSERT INTO t VALUES (1 /*! + 699 */)",
            "INSERT INTO t VALUES ('open",
            "INSERT INTO t VALUES (1",
            "INSERT INTO t VALUES ('a' 'b')",
            "UPDATE t SET a = 1",
            "INSERT",
            "",
        ] {
            assert!(may_give(sql.as_bytes(), 0, 700), "{sql}");
        }
        assert!(may_give(b"INSERT INTO t VALUES (-1)", 0, u64::MAX));
        assert!(may_give(b"INSERT INTO t VALUES (TRUE)", 0, 1));
    }
}
