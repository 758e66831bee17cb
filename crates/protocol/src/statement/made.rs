//! Names that a statement gives to a view, or to a table of whose engine it says something: what lists of names do not have yet.
//!
//! Code that runs inside (EXECUTE, CALL, a block) is not looked into, and a CREATE TABLE that names no engine makes one of the usual.

use super::lexer::{Lexer, Token};
use super::word::Upper;

/// See the head of this file: the bare names, in lower case. Those that are not plain ASCII are left out.
pub fn names_made(sql: &[u8], status: u16) -> Vec<String> {
    let mut lexer = Lexer::new(sql, status);
    let tokens: Vec<Token<'_>> = std::iter::from_fn(|| lexer.next()).collect();
    let statements = tokens.split(|token| matches!(token, Token::Punct(b';')));
    let names = statements.flat_map(made_by);
    names
        .filter(|name| name.is_ascii())
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect()
}

fn made_by<'a>(tokens: &[Token<'a>]) -> Vec<&'a [u8]> {
    match tokens.first() {
        Some(first) if is_any(first, &["CREATE"]) => created(tokens),
        Some(first) if is_any(first, &["ALTER"]) => {
            let mut names = created(tokens);
            names.extend(behind(tokens, &["RENAME"]));
            names
        }
        Some(first) if is_any(first, &["RENAME"]) => behind(tokens, &["TO"]),
        _ => vec![],
    }
}

/// Of the first VIEW, or of the first TABLE where more is said of its engine.
fn created<'a>(tokens: &[Token<'a>]) -> Vec<&'a [u8]> {
    let Some(at) = tokens.iter().position(|token| is_any(token, &["VIEW", "TABLE"])) else { return vec![] };
    let rest = &tokens[at + 1..];
    let says_engine = |token| is_any(token, &["ENGINE", "LIKE", "EXCHANGE", "CONVERT"]);
    if is_any(&tokens[at], &["TABLE"]) && !rest.iter().any(says_engine) {
        return vec![];
    }
    name(rest).into_iter().collect()
}

/// The name behind each of these words.
fn behind<'a>(tokens: &[Token<'a>], words: &[&str]) -> Vec<&'a [u8]> {
    let here = tokens.iter().enumerate().filter(|(_, token)| is_any(token, words));
    here.filter_map(|(at, _)| name(&tokens[at + 1..])).collect()
}

/// The name that stands first, without its schema.
fn name<'a>(tokens: &[Token<'a>]) -> Option<&'a [u8]> {
    const BETWEEN: [&str; 6] = ["IF", "NOT", "EXISTS", "TO", "AS", "TABLE"];
    let between =
        tokens.iter().take_while(|token| is_any(token, &BETWEEN) || matches!(token, Token::Punct(b'=')));
    let rest = &tokens[between.count()..];
    let schema = usize::from(matches!(rest.get(1), Some(Token::Punct(b'.')))) * 2;
    match rest.get(schema)? {
        Token::Word(name) | Token::Quoted(name) | Token::Number(name) => Some(name),
        Token::Text([b'"', inner @ ..]) => Some(inner.strip_suffix(b"\"").unwrap_or(inner)),
        _ => None,
    }
}

fn is_any(token: &Token<'_>, words: &[&str]) -> bool {
    let Token::Word(word) = token else { return false };
    let upper = Upper::of(word);
    words.iter().any(|wanted| upper.as_bytes() == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_and_tables_of_an_engine_that_is_named() {
        for (sql, made) in [
            ("CREATE VIEW v AS SELECT a FROM t", &["v"][..]),
            (
                "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`a`@`%` SQL SECURITY INVOKER VIEW shop.`V w` (a) AS SELECT 1",
                &["v w"],
            ),
            ("CREATE VIEW IF NOT EXISTS shop . v AS SELECT 1", &["v"]),
            (
                "/*!50001 CREATE ALGORITHM=UNDEFINED */ /*!50013 DEFINER=`a`@`b` */ /*!50001 VIEW `v` AS SELECT 1 */",
                &["v"],
            ),
            ("ALTER VIEW v AS SELECT 2", &["v"]),
            ("CREATE TABLE t (a INT)", &[]),
            ("CREATE TABLE t (a INT) ENGINE = MEMORY", &["t"]),
            ("CREATE TABLE IF NOT EXISTS t LIKE u", &["t"]),
            ("ALTER TABLE t ADD COLUMN b INT", &[]),
            ("ALTER TABLE IF EXISTS shop.t ENGINE=MyISAM", &["t"]),
            ("ALTER TABLE t RENAME TO shop.u", &["u"]),
            ("ALTER TABLE t RENAME u", &["u"]),
            ("RENAME TABLE a TO b, shop.c TO shop.d", &["b", "d"]),
            ("DROP VIEW v; CREATE VIEW w AS SELECT 1", &["w"]),
            ("CREATE VIEW \u{e4} AS SELECT 1", &[]),
            ("DROP VIEW v", &[]),
            ("CREATE VIEW", &[]),
            ("CREATE VIEW shop.", &[]),
            ("SELECT 1", &[]),
            ("", &[]),
        ] {
            assert_eq!(names_made(sql.as_bytes(), 0), made, "{sql}");
        }
    }
}
