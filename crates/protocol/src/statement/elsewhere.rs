//! Which reads any server with the same rows answers alike, so that they may run on a replica instead of the primary; and which only ask for
//! what the statement before them left, so that they belong where that ran.
//!
//! The list is of what is allowed, word by word, on top of [`super::Statement`]'s look: whatever is not known to depend on rows alone is
//! answered with no. A clock counts as something of the server's own: replicas have theirs.

use super::lexer::{Lexer, Token};
use super::names::is_harmless_before_parenthesis;
use super::word::{Upper, is};

/// Functions that change nothing, and give an answer of the server's own: its clock, its numbers, its accounts, its options, its files.
#[rustfmt::skip]
const OF_THE_SERVER: &[&[u8]] = &[
    b"AGAINST", b"CAN_ACCESS_COLUMN", b"CAN_ACCESS_DATABASE", b"CAN_ACCESS_TABLE", b"CONNECTION_ID", b"CONVERT_TZ", b"CURDATE",
    b"CURRENT_DATE", b"CURRENT_ROLE", b"CURRENT_TIME", b"CURRENT_TIMESTAMP", b"CURRENT_USER", b"CURTIME", b"DES_DECRYPT", b"DES_ENCRYPT",
    b"ENCRYPT", b"ICU_VERSION", b"IS_FREE_LOCK", b"IS_USED_LOCK", b"LOCALTIME", b"LOCALTIMESTAMP", b"MATCH", b"NOW", b"OLD_PASSWORD",
    b"PASSWORD", b"PS_CURRENT_THREAD_ID", b"PS_THREAD_ID", b"ROLES_GRAPHML", b"SESSION_USER", b"SYSDATE", b"SYSTEM_USER", b"SYS_GUID",
    b"UNIX_TIMESTAMP", b"USER", b"UTC_DATE", b"UTC_TIME", b"UTC_TIMESTAMP", b"UUID", b"UUID_SHORT", b"UUID_V4", b"UUID_V7", b"VERSION",
];

/// Words that need no parenthesis to mean something that a replica must not be asked for: locks, what is written, clocks, rows that are
/// found by the plan alone, and the schemas in which each server has its own.
#[rustfmt::skip]
const NOWHERE_ELSE: &[&[u8]] = &[
    b"CURRENT_DATE", b"CURRENT_ROLE", b"CURRENT_TIME", b"CURRENT_TIMESTAMP", b"CURRENT_USER", b"CURRVAL", b"EXAMINED", b"FOR",
    b"INFORMATION_SCHEMA", b"INTO", b"LASTVAL", b"LOCALTIME", b"LOCALTIMESTAMP", b"LOCK", b"MYSQL", b"NEXTVAL", b"PERFORMANCE_SCHEMA",
    b"PREVIOUS", b"PROCEDURE", b"ROWNUM", b"SESSION_USER", b"SYS", b"SYSDATE", b"SYSTEM_TIME", b"UTC_DATE", b"UTC_TIME", b"UTC_TIMESTAMP",
];

/// What asks for what the statement before left.
const RECALLING: &[&[u8]] = &[b"FOUND_ROWS", b"ROW_COUNT"];
const RECALLING_VARIABLES: &[&[u8]] = &[b"ERROR_COUNT", b"WARNING_COUNT"];

fn has(table: &[&[u8]], name: &[u8]) -> bool {
    table.binary_search(&name).is_ok()
}

/// Whether a schema holds what each server has for itself.
pub fn is_of_the_server(schema: &[u8]) -> bool {
    let known: [&[u8]; 4] = [b"information_schema", b"mysql", b"performance_schema", b"sys"];
    known.iter().any(|known| schema.eq_ignore_ascii_case(known))
}

/// Whether a text is one SELECT whose answer follows from rows and from what the session has set, and from nothing of the server's own.
/// Views and the like hide what they ask for: their names are looked up elsewhere. `status`: as for [`super::Statement::under`].
pub fn reads_rows_only(sql: &[u8], status: u16) -> bool {
    fits(sql, status, false)
}

/// Whether a text only asks for what the statement before left (`SHOW WARNINGS`, `SELECT FOUND_ROWS()`), and for no rows of a table.
pub fn only_recalls(sql: &[u8], status: u16) -> bool {
    fits(sql, status, true) || shows_warnings(sql, status)
}

fn fits(sql: &[u8], status: u16, recalls: bool) -> bool {
    let mut lexer = Lexer::new(sql, status);
    let first = lexer.next();
    if !is(first, "SELECT") && (recalls || !is(first, "WITH")) {
        return false;
    }
    let (mut before, mut prev) = (None, first);
    let mut has_ended = false;
    while let Some(token) = lexer.next() {
        let fits = match token {
            _ if has_ended => false,
            Token::Punct(b';') => {
                has_ended = true;
                true
            }
            Token::Punct(b'(') => may_open(prev, before, lexer.had_gap, recalls),
            Token::Word(word) => {
                let upper = Upper::of(word);
                !(has(NOWHERE_ELSE, upper.as_bytes()) || (recalls && upper.as_bytes() == b"FROM"))
            }
            Token::Quoted(name) => !is_of_the_server(name),
            Token::SystemVariable(name) => recalls && has(RECALLING_VARIABLES, Upper::of(name).as_bytes()),
            Token::UserVariable | Token::Assign => false,
            Token::Text(_) | Token::Number(_) | Token::Punct(_) => true,
        };
        if !fits {
            return false;
        }
        (before, prev) = (prev, Some(token));
    }
    !lexer.is_doubtful
}

/// Whether a parenthesis opens nothing but a grouping, or the arguments of a function that is the same everywhere.
fn may_open(prev: Option<Token<'_>>, before: Option<Token<'_>>, had_gap: bool, recalls: bool) -> bool {
    match prev {
        Some(Token::Punct(_)) => true,
        // schema.function(
        Some(Token::Word(_)) if matches!(before, Some(Token::Punct(b'.'))) => false,
        Some(Token::Word(word)) => {
            let upper = Upper::of(word);
            let name = upper.as_bytes();
            (recalls && has(RECALLING, name) && !had_gap)
                || (is_harmless_before_parenthesis(name, had_gap) && !has(OF_THE_SERVER, name))
        }
        _ => false,
    }
}

/// `SHOW WARNINGS`, `SHOW ERRORS`, `SHOW COUNT(*) WARNINGS`.
fn shows_warnings(sql: &[u8], status: u16) -> bool {
    let mut lexer = Lexer::new(sql, status);
    if !is(lexer.next(), "SHOW") {
        return false;
    }
    let what = lexer.next();
    let is_list = ["WARNINGS", "ERRORS"].iter().any(|word| is(what, word));
    if !is_list && !is(what, "COUNT") {
        return false;
    }
    let mut is_last = false;
    while let Some(token) = lexer.next() {
        let fits = match token {
            _ if is_last => false,
            Token::Punct(b';') => {
                is_last = true;
                true
            }
            Token::Punct(b'(' | b'*' | b')' | b',') | Token::Number(_) => true,
            word => ["WARNINGS", "ERRORS", "LIMIT", "OFFSET"].iter().any(|known| is(Some(word), known)),
        };
        if !fits {
            return false;
        }
    }
    !lexer.is_doubtful
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ok::status::ANSI_QUOTES;

    #[test]
    fn tables_are_sorted() {
        for table in [OF_THE_SERVER, NOWHERE_ELSE, RECALLING, RECALLING_VARIABLES] {
            assert!(table.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn what_follows_from_rows_may_run_elsewhere() {
        for sql in [
            "SELECT a FROM t",
            "select * from shop.t where id = 5;",
            "SELECT `a`, COUNT(*) FROM `t` GROUP BY `a` HAVING COUNT(*) > 1 ORDER BY 2 DESC LIMIT 5",
            "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1",
            "SELECT a FROM t WHERE id IN (SELECT id FROM u) UNION ALL (SELECT 1)",
            "WITH x AS (SELECT 1 AS a) SELECT a FROM x, t",
            "SELECT CONCAT(a, 'for update'), IF(a > 1, 'INTO', b) /* NOW() */ FROM t -- FOR UPDATE",
            "SELECT a FROM t USE INDEX (a) JOIN u USING (id) WHERE a BETWEEN '2024-01-01' AND DATE('2024-02-01')",
            "SELECT CAST(a AS CHAR(10)), SUM(b) OVER (PARTITION BY c) FROM t",
            "SELECT t.user, t.`now` FROM t",
            "SELECT a FROM t PARTITION (p0)",
        ] {
            assert!(reads_rows_only(sql.as_bytes(), 0), "{sql}");
            assert!(!only_recalls(sql.as_bytes(), 0), "{sql}");
        }
    }

    #[test]
    fn what_is_of_the_server_or_in_doubt_may_not() {
        for sql in [
            "",
            "INSERT INTO t VALUES (1)",
            "SHOW TABLES",
            "TABLE t",
            "EXPLAIN SELECT a FROM t",
            "(SELECT a FROM t)",
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t FOR SHARE",
            "SELECT a FROM t LOCK IN SHARE MODE",
            "SELECT a INTO @x FROM t",
            "SELECT a FROM t INTO OUTFILE '/tmp/x'",
            "SELECT a FROM t PROCEDURE ANALYSE()",
            "SELECT @x FROM t",
            "SELECT @x := a FROM t",
            "SELECT @@server_id FROM t",
            "SELECT @@session.sql_mode FROM t",
            "SELECT a FROM t; SELECT a FROM t",
            "SELECT a FROM t; DELETE FROM t",
            "SELECT f(a) FROM t",
            "SELECT shop.f(a) FROM t",
            "SELECT shop.count(a) FROM t",
            "SELECT `f`(a) FROM t",
            "SELECT `count`(a) FROM t",
            "SELECT count (a) FROM t",
            "SELECT NOW() FROM t",
            "SELECT a FROM t WHERE b < CURRENT_TIMESTAMP",
            "SELECT a FROM t WHERE b < now()",
            "SELECT a FROM t WHERE b < UNIX_TIMESTAMP()",
            "SELECT a FROM t WHERE b < CURDATE()",
            "SELECT a FROM t WHERE c = CURRENT_USER",
            "SELECT a FROM t WHERE c = USER()",
            "SELECT CONNECTION_ID() FROM t",
            "SELECT LAST_INSERT_ID() FROM t",
            "SELECT FOUND_ROWS() FROM t",
            "SELECT ROW_COUNT() FROM t",
            "SELECT GET_LOCK('x', 1) FROM t",
            "SELECT RELEASE_LOCK('x') FROM t",
            "SELECT IS_USED_LOCK('x') FROM t",
            "SELECT SLEEP(1) FROM t",
            "SELECT BENCHMARK(1, 1) FROM t",
            "SELECT UUID() FROM t",
            "SELECT UUID_SHORT() FROM t",
            "SELECT VERSION() FROM t",
            "SELECT NEXTVAL(s) FROM t",
            "SELECT NEXT VALUE FOR s FROM t",
            "SELECT PREVIOUS VALUE FOR s FROM t",
            "SELECT s.nextval FROM t",
            "SELECT LOAD_FILE('/etc/hostname') FROM t",
            "SELECT DEFAULT(a) FROM t",
            "SELECT MASTER_GTID_WAIT('0-1-1') FROM t",
            "SELECT a FROM information_schema.tables",
            "SELECT a FROM `mysql`.user",
            "SELECT a FROM performance_schema.threads",
            "SELECT a FROM t FOR SYSTEM_TIME ALL",
            "SELECT a FROM t WHERE MATCH(a) AGAINST('x')",
            "SELECT a FROM t LIMIT ROWS EXAMINED 10",
            "SELECT a FROM t WHERE ROWNUM < 5",
            "SELECT a /*! FOR UPDATE */ FROM t",
            "SELECT a FROM t /*!50000 FOR UPDATE */",
            "SELECT a FROM t /*M! LOCK IN SHARE MODE */",
            "SELECT 'a FROM t",
            "WITH x (a) AS (SELECT 1) SELECT a FROM x, t",
            "SELECT a FROM JSON_TABLE (x) AS t",
        ] {
            assert!(!reads_rows_only(sql.as_bytes(), 0), "{sql}");
        }
        assert!(!reads_rows_only(b"SELECT \"f\"(a) FROM t", 0));
        assert!(!reads_rows_only(b"SELECT \"f\"(a) FROM t", ANSI_QUOTES));
        assert!(!reads_rows_only(b"SELECT a FROM \"mysql\".user", ANSI_QUOTES));
    }

    #[test]
    fn questions_for_what_was_left_are_known() {
        for sql in [
            "SHOW WARNINGS",
            "show warnings limit 5, 10;",
            "SHOW ERRORS",
            "SHOW COUNT(*) WARNINGS",
            "SELECT FOUND_ROWS()",
            "SELECT ROW_COUNT() AS n, found_rows() + 1;",
            "SELECT @@warning_count, @@error_count",
        ] {
            assert!(only_recalls(sql.as_bytes(), 0), "{sql}");
        }
        for sql in [
            "SELECT FOUND_ROWS() INTO @x",
            "SELECT @x := FOUND_ROWS()",
            "SELECT FOUND_ROWS() FROM t",
            "SELECT FOUND_ROWS (), f()",
            "SELECT LAST_INSERT_ID()",
            "SELECT @@last_insert_id",
            "SELECT @@session.warning_count",
            "INSERT INTO t VALUES (FOUND_ROWS())",
            "GET DIAGNOSTICS @n = NUMBER",
            "SHOW WARNINGS; DELETE FROM t",
            "SHOW COUNT(*) TABLES",
            "SHOW PROFILES",
            "SET @x = FOUND_ROWS()",
            "SELECT FOUND_ROWS(), NOW()",
        ] {
            assert!(!only_recalls(sql.as_bytes(), 0), "{sql}");
        }
    }
}
