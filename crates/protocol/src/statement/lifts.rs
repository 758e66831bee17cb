//! Statements that a session for reads only must not run: those that would let it write, and maintenance that even a read-only server
//! carries out and writes to its binary log.

use super::lexer::{Lexer, Token};

/// `SET SESSION tx_read_only = 0` and its like.
const READ_ONLY: [&str; 2] = ["tx_read_only", "transaction_read_only"];
/// MariaDB takes these from whoever may write the table, also while `read_only` is set or the transaction is read only.
const MAINTENANCE: [&str; 3] = ["ANALYZE", "OPTIMIZE", "REPAIR"];
/// What may follow them; ANALYZE may also stand before a SELECT.
const OBJECTS: [&str; 5] = ["TABLE", "TABLES", "VIEW", "LOCAL", "NO_WRITE_TO_BINLOG"];

/// Whether a text makes this session, its next transaction or one that it begins writable (`READ WRITE`, SET of `tx_read_only`), or is a
/// statement that a server writes to its binary log though it is read only. Says yes rather once too often. `status`: as for
/// [`super::Statement::under`]. What a text runs without showing it is [`super::Statement::calls`].
pub fn lifts_read_only(sql: &[u8], status: u16) -> bool {
    let mut lexer = Lexer::new(sql, status);
    let (mut sets, mut names) = (false, false);
    let mut before: Option<Token> = None;
    let is = |token: Option<Token>, words: &[&str]| match token {
        Some(Token::Word(word) | Token::Quoted(word) | Token::SystemVariable(word)) => {
            words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
        }
        _ => false,
    };
    while let Some(token) = lexer.next() {
        let now = Some(token);
        let lifts = is(before, &["READ"]) && is(now, &["WRITE"]);
        let maintains = is(before, &MAINTENANCE) && is(now, &OBJECTS);
        sets |= is(now, &["SET"]);
        names |= is(now, &READ_ONLY);
        if lifts
            || maintains
            || (sets && names)
            || (matches!(before, None | Some(Token::Punct(b';'))) && is(now, &["FLUSH"]))
        {
            return true;
        }
        before = now;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_let_a_session_write_are_found() {
        for text in [
            "START TRANSACTION READ WRITE",
            "start transaction with consistent snapshot, read /* x */ write",
            "SET TRANSACTION READ WRITE",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
            "SET tx_read_only=0",
            "SET SESSION `tx_read_only` = OFF",
            "SET @@session.tx_read_only = 0",
            "SET @@tx_read_only = 0",
            "set @a = 1, @@local.Transaction_Read_Only = default",
            "SET STATEMENT tx_read_only=0 FOR INSERT INTO t VALUES (1)",
            "SELECT 1; SET SESSION tx_read_only=0",
            "/*!50000 SET SESSION tx_read_only=0 */",
            "START TRANSACTION READ /*!50000 WRITE */",
            "ANALYZE TABLE t",
            "ANALYZE LOCAL TABLE t",
            "optimize table t",
            "REPAIR NO_WRITE_TO_BINLOG TABLE t",
            "FLUSH TABLES",
            "SELECT 1; FLUSH TABLES",
        ] {
            assert!(lifts_read_only(text.as_bytes(), 0), "{text}");
        }
    }

    #[test]
    fn what_reads_is_let_through() {
        for text in [
            "START TRANSACTION READ ONLY",
            "SET SESSION TRANSACTION READ ONLY",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SELECT @@session.tx_read_only",
            "SHOW VARIABLES LIKE 'tx_read_only'",
            "SELECT 'SET tx_read_only=0; READ WRITE' -- READ WRITE",
            "ANALYZE FORMAT=JSON SELECT 1",
            "ANALYZE SELECT * FROM t",
            "SELECT `flush` FROM t",
            "LOCK TABLES t READ, u WRITE",
            "",
        ] {
            assert!(!lifts_read_only(text.as_bytes(), 0), "{text}");
        }
    }
}
