//! What is one statement and what is two.

use super::*;
use proptest::prelude::*;

fn text(sql: &str) -> String {
    let text = digest_text(sql.as_bytes(), 0, usize::MAX);
    let mut hash = Fnv::NEW;
    text.bytes().for_each(|byte| hash.put(byte));
    assert_eq!(digest(sql.as_bytes(), 0), hash.number(), "{sql}: the number is that of the text");
    text
}

#[test]
fn texts() {
    for (sql, wanted) in [
        ("SELECT * FROM t WHERE a=5 AND b = 'x'", "select * from t where a = ? and b = ?"),
        ("select c from sbtest1 where id=-5", "select c from sbtest1 where id = ?"),
        ("SELECT a - 5, a -5, (1) - 2, -5, - 5, +a", "select a - ?, a - ?, (?) - ?, ?, ?, + a"),
        (
            "SELECT 1.5, .5, 1., 1e5, 1.5e-7, 2E+3, 0xAB, x'ff', X'00', b'01', 0b01",
            "select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?",
        ),
        ("SELECT 'a' 'b', _utf8mb4 'c', N'd', \"e\"", "select ?, ?, ?, ?"),
        ("SELECT n, x FROM t1 AS `x`", "select n, x from t1 as x"),
        ("SELECT `a b`.`c`, 1a FROM `Shop`.`T`", "select `a b`.c, 1a from shop.t"),
        ("INSERT INTO t(a,b) VALUES (1,'a'),(2,'b') , (3,'c')", "insert into t(a, b) values (?+)"),
        (
            "INSERT INTO t (a, b) VALUES (1, NOW()), (2, NOW()), (3, NOW())",
            "insert into t(a, b) values (?, now())",
        ),
        ("INSERT INTO t VALUES (1, NOW()), (2, 3)", "insert into t values (?, now()), (?+)"),
        (
            "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a=VALUES(a)",
            "insert into t values (?+) on duplicate key update a = values (a)",
        ),
        ("INSERT INTO t VALUES ()", "insert into t values ()"),
        (
            "SELECT 1 FROM t WHERE a IN (1) OR a in(1,2, 3) OR a NOT IN (?, ?)",
            "select ? from t where a in (?+) or a in (?+) or a not in (?+)",
        ),
        ("SELECT 1 FROM t WHERE (a,b) IN ((1,2),(3,4),(5,6))", "select ? from t where (a, b) in ((?+))"),
        ("SELECT a IN (1,2), (3), (3)", "select a in (?+), (?), (?)"),
        (
            "SELECT 1 WHERE a IN (SELECT b FROM u WHERE c IN (1,2)) AND d IN (b, 1)",
            "select ? where a in (select b from u where c in (?+)) and d in (b, ?)",
        ),
        ("INSERT INTO t VALUES (1, a IN (1,2)), (1, a IN (1,2,3))", "insert into t values (?, a in (?+))"),
        ("SELECT COUNT( * ), f (1,2), IF(a,1,2)", "select count(*), f(?, ?), if(a, ?, ?)"),
        (
            "SELECT a FROM t WHERE a IS NULL AND b IS NOT NULL AND c = NULL",
            "select a from t where a is null and b is not null and c = ?",
        ),
        ("CREATE TABLE t (a INT(11) NOT NULL DEFAULT NULL)", "create table t(a int (?) not null default ?)"),
        (
            "SELECT a<=b, a<>b, a!=b, a<=>b, a||b, a->'$.x', a->>'$.x', a:=1",
            "select a <= b, a <> b, a != b, a <=> b, a || b, a -> ?, a ->> ?, a := ?",
        ),
        ("SELECT @a, @@Session.sql_mode, @`b c`", "select @a, @@session.sql_mode, @`b c`"),
        ("SELECT 1 /* c */ -- d\n # e\n;", "select ?"),
        (";; SELECT 1;;SELECT 2 ;", "select ?; select ?"),
        ("SELECT /*!40001 SQL_NO_CACHE */ 1", "select sql_no_cache ?"),
        ("CREATE USER a@'%' IDENTIFIED BY 'secret'", "create user a @'%' identified by ?"),
        ("CALL p(1, 'x')", "call p(?, ?)"),
        ("SELECT a FROM t LIMIT 5,10", "select a from t limit ?, ?"),
        ("SELECT t.value, t.`in` (1)", "select t.value, t.in(?)"),
        ("SELECT 'open", "select ?"),
        (")) SELECT (((", ")) select ((("),
        ("", ""),
    ] {
        assert_eq!(text(sql), wanted, "{sql}");
    }
}

#[test]
fn a_text_is_cut_between_letters() {
    assert_eq!(digest_text("SELECT ää".as_bytes(), 0, 8), "select ");
    assert_eq!(digest_text("SELECT ää".as_bytes(), 0, 9), "select ä");
}

#[test]
fn quotes_are_as_the_session_has_them() {
    use crate::ok::status::ANSI_QUOTES;
    assert_eq!(digest_text(b"SELECT \"a\"", ANSI_QUOTES, 99), "select a");
    assert_eq!(digest_text(b"SELECT \"a\"", 0, 99), "select ?");
}

/// It may be kept on disk, and compared with one that another build made.
#[test]
fn numbers_stay() {
    assert_eq!(format!("{:016x}", digest(b"SELECT 1", 0)), format!("{:016x}", digest(b"select  'x' ;", 0)));
    assert_eq!(format!("{:016x}", digest(b"select ?", 0)), "02fb7a5a1a5a9a58");
}

#[test]
fn long_texts_take_no_longer_a_byte() {
    for piece in ["(", "(1,", "IN (", "VALUES (1),", "a ", "'", "1.", "- ", ";", "<", "IN ((1),"] {
        let sql = piece.repeat(2_000_000 / piece.len());
        digest(sql.as_bytes(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The digest of a digest is itself, whatever the words.
    #[test]
    fn a_digest_is_its_own(words in proptest::collection::vec(proptest::sample::select(vec![
        "SELECT", "a", "=", "5", "-", "'x'", ",", "(", ")", "IN", "VALUES", "IN (", "VALUES (", "(1,2)", "(a)", "NULL", "IS", "NOT",
        "f(", "@a", "`b c`", "<", ">", "WHERE", "+", "*", ";",
    ]), 0..25)) {
        let once = text(&words.join(" "));
        let folded = once.replace("?+", "?");
        prop_assert_eq!(text(&folded), once);
    }

    #[test]
    fn any_bytes_have_one(sql in proptest::collection::vec(any::<u8>(), 0..120), status in any::<u16>()) {
        digest(&sql, status);
        prop_assert!(digest_text(&sql, status, 50).len() <= 50);
    }

    /// Values, gaps, case and the number of rows do not count.
    #[test]
    fn what_does_not_count(a in any::<i64>(), b in "[a-z]{0,8}", rows in 1usize..5, upper in any::<bool>()) {
        let row = format!("({a}, '{b}')");
        let sql = format!("insert into t  values {}", vec![row; rows].join(" , "));
        let sql = if upper { sql.to_uppercase() } else { sql };
        prop_assert_eq!(text(&sql), "insert into t values (?+)");
    }
}
