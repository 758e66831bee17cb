//! Which sequences a text draws from, and whose last value it asks for: a session that has moved knows the latter only of those that it has
//! drawn from since.

use std::collections::BTreeSet;

use super::lexer::{Lexer, Token};
use super::word::{Upper, is};

/// Words that may keep a draw beside them from being done.
const DOUBTFUL: [&str; 14] = [
    "FROM", "WHERE", "IF", "IFNULL", "NVL", "NVL2", "NULLIF", "COALESCE", "CASE", "AND", "OR", "LIMIT", "ON",
    "EXISTS",
];

/// The sequences that `sql` has surely drawn from when it has succeeded, as `schema.name`. `schema`: the default one.
/// Capitals count: they do on most servers.
pub fn drawn_sequences(sql: &[u8], status: u16, schema: &str) -> BTreeSet<String> {
    let Some(tokens) = tokens(sql, status) else { return BTreeSet::new() };
    let runs =
        ["SELECT", "INSERT", "REPLACE", "DO", "SET"].iter().any(|verb| is(tokens.first().copied(), verb));
    let may_skip = |token: &Token<'_>| match token {
        Token::Word(_) => DOUBTFUL.iter().any(|word| is(Some(*token), word)),
        // || and && are operators that stop early; behind a semicolon stands another statement.
        Token::Punct(c) => matches!(c, b'|' | b'&' | b';'),
        _ => false,
    };
    if !runs || tokens.iter().any(may_skip) {
        return BTreeSet::new();
    }
    named(&tokens, schema, &[b"NEXTVAL"], "NEXT").into_iter().flatten().collect()
}

/// The sequences whose last value `sql` asks for, in the same form; `None` where that cannot be told.
pub fn asked_sequences(sql: &[u8], status: u16, schema: &str) -> Option<BTreeSet<String>> {
    let names = named(&tokens(sql, status)?, schema, &[b"LASTVAL", b"CURRVAL"], "PREVIOUS");
    let asked: Option<BTreeSet<String>> = names.into_iter().collect();
    asked.filter(|asked| !asked.is_empty())
}

fn tokens(sql: &[u8], status: u16) -> Option<Vec<Token<'_>>> {
    let mut lexer = Lexer::new(sql, status);
    let tokens: Vec<_> = std::iter::from_fn(|| lexer.next()).collect();
    (!lexer.is_doubtful).then_some(tokens)
}

/// The names in `FUNCTION(name`, `WORD VALUE FOR name` and `name.FUNCTION`; `None` for one that cannot be read.
fn named(tokens: &[Token<'_>], schema: &str, functions: &[&[u8]], word: &str) -> Vec<Option<String>> {
    let is_function = |token: &Token<'_>| match token {
        Token::Word(name) | Token::Quoted(name) => functions.contains(&Upper::of(name).as_bytes()),
        _ => false,
    };
    let mut names = vec![];
    for (at, token) in tokens.iter().enumerate() {
        let behind = tokens.get(at + 1..).unwrap_or_default();
        if is_function(token) && behind.first() == Some(&Token::Punct(b'(')) {
            names.push(name(behind.get(1..).unwrap_or_default(), schema));
        } else if is_function(token) && at >= 2 && tokens[at - 1] == Token::Punct(b'.') {
            let from = if at >= 4 && tokens[at - 3] == Token::Punct(b'.') { at - 4 } else { at - 2 };
            names.push(name(&tokens[from..at - 1], schema));
        } else if is(Some(*token), word) && is(behind.first().copied(), "VALUE") {
            let is_for = is(behind.get(1).copied(), "FOR");
            names.push(is_for.then(|| name(behind.get(2..).unwrap_or_default(), schema)).flatten());
        }
    }
    names
}

/// The name that `tokens` begin with.
fn name(tokens: &[Token<'_>], schema: &str) -> Option<String> {
    let part = |at: usize| match tokens.get(at) {
        Some(Token::Word(name) | Token::Quoted(name)) if name.is_ascii() && !name.contains(&b'`') => {
            Some(String::from_utf8_lossy(name).into_owned())
        }
        _ => None,
    };
    let first = part(0)?;
    match tokens.get(1) {
        Some(Token::Punct(b'.')) => Some(format!("{first}.{}", part(2)?)),
        _ => Some(format!("{schema}.{first}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: impl IntoIterator<Item = String>) -> String {
        names.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_drawn_for_certain() {
        for (sql, wanted) in [
            ("SELECT NEXTVAL(s)", "shop.s"),
            ("SELECT NEXT VALUE FOR S, nextval(`Other`.`R`)", "Other.R shop.S"),
            ("SELECT s.nextval", "shop.s"),
            ("SELECT a.s.nextval", "a.s"),
            ("INSERT INTO t VALUES (NEXTVAL(s), 1)", "shop.s"),
            ("SELECT NEXTVAL(s) FROM t", ""),
            ("SELECT IF(0, NEXTVAL(s), 1)", ""),
            ("SELECT 1 || NEXTVAL(s)", ""),
            ("EXPLAIN SELECT NEXTVAL(s)", ""),
            ("CREATE VIEW v AS SELECT NEXTVAL(s)", ""),
            ("SELECT NEXTVAL(s); SELECT 1", ""),
            ("SELECT 'NEXTVAL(s)'", ""),
            ("SELECT /*!99 NEXTVAL(s) */ 1", ""),
        ] {
            assert_eq!(list(drawn_sequences(sql.as_bytes(), 0, "shop")), wanted, "{sql}");
        }
    }

    #[test]
    fn what_is_asked_for() {
        for (sql, wanted) in [
            ("SELECT LASTVAL(s), PREVIOUS VALUE FOR a.r", Some("a.r shop.s")),
            ("SELECT s.currval FROM t", Some("shop.s")),
            ("SELECT LASTVAL(/*! s */)", None),
            ("SELECT LASTVAL(\u{e4})", None),
            ("SELECT `x`.`lastval`", Some("shop.x")),
            ("SELECT 1", None),
        ] {
            assert_eq!(asked_sequences(sql.as_bytes(), 0, "shop").map(list).as_deref(), wanted, "{sql}");
        }
    }
}
