//! Whether a text is a query that asks for rows and locks none.

use super::lexer::{Lexer, Token};
use super::word::is;

/// It begins as a query does (SELECT, WITH, TABLE, VALUES, also in parentheses), and does not lock the rows it reads (FOR UPDATE, FOR SHARE,
/// LOCK IN SHARE MODE). What else it does says [`super::Statement`]. `status`: as for [`super::Statement::under`].
pub fn queries_without_locking(sql: &[u8], status: u16) -> bool {
    let mut lexer = Lexer::new(sql, status);
    let mut first = lexer.next();
    while matches!(first, Some(Token::Punct(b'('))) {
        first = lexer.next();
    }
    if !["SELECT", "WITH", "TABLE", "VALUES"].iter().any(|word| is(first, word)) {
        return false;
    }
    let mut before = first;
    while let Some(token) = lexer.next() {
        let token = Some(token);
        let locks = (is(before, "FOR") && (is(token, "UPDATE") || is(token, "SHARE")))
            || (is(before, "LOCK") && is(token, "IN"));
        if locks {
            return false;
        }
        before = token;
    }
    !lexer.is_doubtful
}

#[cfg(test)]
mod tests {
    use super::queries_without_locking;

    #[test]
    fn locks_are_found_however_they_are_written() {
        for sql in [
            "SELECT a FROM t",
            "((SELECT a FROM t))",
            "SELECT 'FOR UPDATE' FROM t -- FOR UPDATE",
            "SELECT SUBSTRING(a FROM 1 FOR 2) FROM t",
            "WITH x AS (SELECT 1) SELECT * FROM x",
        ] {
            assert!(queries_without_locking(sql.as_bytes(), 0), "{sql}");
        }
        for sql in [
            "SELECT a FROM t FOR UPDATE",
            "(select a from t for /* so */ share)",
            "SELECT a FROM t FOR\nUPDATE SKIP LOCKED",
            "SELECT a FROM t /*! FOR UPDATE */",
            "SELECT a FROM t LOCK IN SHARE MODE",
            "SELECT a FROM (SELECT b FROM u FOR UPDATE) v",
            "SELECT 'a FROM t",
            "SHOW TABLES",
            "EXPLAIN SELECT 1",
            "",
        ] {
            assert!(!queries_without_locking(sql.as_bytes(), 0), "{sql}");
        }
    }
}
