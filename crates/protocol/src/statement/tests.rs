//! The table of what is what, and the promises that hold for any text.

use super::*;
use proptest::prelude::*;

fn kind(sql: &str) -> StatementKind {
    Statement::of(sql.as_bytes()).kind
}

#[test]
fn reads() {
    for sql in [
        "SELECT 1",
        "select c from sbtest1 where id=5",
        "SELECT * FROM t WHERE a IN (1,2) AND (b = 3 OR c LIKE 'x%') ORDER BY d LIMIT 5",
        "SELECT COUNT(*), MAX(a), IF (a, 1, 2), coalesce (a, b) FROM t GROUP BY b HAVING SUM(a) > 3",
        "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 100 ORDER BY c",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "((SELECT 1))",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t LOCK IN SHARE MODE;",
        "/* app=shop */ SELECT 1 -- done",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1",
        "SELECT 'it''s; DELETE', \"a\" `b` FROM `t`",
        r"SELECT 'a\'b'",
        "SELECT @a, @@version, @@session.sql_mode",
        "WITH a AS (SELECT 1), b AS (SELECT 2) SELECT * FROM a",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5) SELECT * FROM n",
        "SELECT CAST(a AS CHAR(10)), CONVERT(b USING utf8mb4), CAST(x AS DECIMAL(10,2)) FROM t",
        "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t",
        "SELECT * FROM t PARTITION (p0) USE INDEX (i)",
        "SELECT JSON_EXTRACT(a, '$.x') FROM t WHERE MATCH(b) AGAINST ('c' IN BOOLEAN MODE)",
        "SELECT * FROM (SELECT 1) AS t (a)",
        "SELECT INSERT('abc', 1, 1, 'x'), REPLACE(a, 'b', 'c') FROM t",
        "VALUES (1,2),(3,4)",
        "TABLE t",
        "SHOW STATUS LIKE 'wsrep%'",
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('a','b')",
        "SHOW CREATE PROCEDURE p",
        "DESC t",
        "EXPLAIN SELECT * FROM t",
        "HELP 'x'",
        "DO 1",
        "CHECKSUM TABLE t",
        "SELECT 1; SELECT 2;",
        "SET STATEMENT max_statement_time=1 FOR SELECT * FROM t",
        "SELECT a--1 FROM t",
        "SELECT ä FROM tabelle",
        "SELECT name FROM t WHERE b = UNIX_TIMESTAMP() - 5 AND c >= DATE_SUB(NOW(), INTERVAL 1 DAY)",
    ] {
        assert_eq!(kind(sql), StatementKind::Read, "{sql}");
    }
}

#[test]
fn writes() {
    for sql in [
        "",
        ";",
        "-- nothing",
        "INSERT INTO t VALUES (1)",
        "update t set a=1",
        "DELETE FROM t",
        "REPLACE INTO t VALUES (1)",
        "CREATE TABLE t (a INT)",
        "ALTER TABLE t ADD b INT",
        "CALL p()",
        "SELECT f(1)",
        "SELECT db.now()",
        "SELECT `now`()",
        "SELECT \"now\"()",
        "SELECT count (*) FROM t",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT a INTO @x FROM t",
        "SELECT @x := 1",
        "SELECT NEXTVAL(s)",
        "SELECT NEXT VALUE FOR s",
        "SELECT s.nextval",
        "SELECT SETVAL(s, 1)",
        "SELECT GET_LOCK('a', 1)",
        "SELECT RELEASE_LOCK('a')",
        "DO SLEEP(5)",
        "SELECT BENCHMARK(1, 1)",
        "SELECT LAST_INSERT_ID(5)",
        "SELECT LAST_INSERT_ID()",
        "SELECT FOUND_ROWS()",
        "SELECT @@identity",
        "SELECT @@session.last_insert_id",
        "SHOW WARNINGS",
        "SHOW COUNT(*) ERRORS",
        "SELECT DEFAULT(a) FROM t",
        "SELECT /*!50000 1 */",
        "SELECT 1 /*M! INTO @x */",
        "SELECT 'open",
        "SELECT 1 /* open",
        "SELECT 1; DELETE FROM t",
        "SELECT 1; SET @a = 1",
        "BEGIN; SELECT 1",
        "WITH a AS (SELECT 1) DELETE FROM t",
        "WITH a AS (SELECT 1) UPDATE t SET b = 1",
        "EXPLAIN ANALYZE SELECT f FROM t",
        "EXPLAIN ANALYZE FORMAT=TREE SELECT 1",
        "EXPLAIN UPDATE t SET a = 1",
        "ANALYZE SELECT 1",
        "ANALYZE TABLE t",
        "BEGIN NOT ATOMIC DELETE FROM t; END",
        "START SLAVE",
        "START REPLICA",
        "STOP SLAVE",
        "RESET MASTER",
        "FLUSH TABLES",
        "SET GLOBAL read_only = 1",
        "SET @@global.read_only = 1",
        "SET @@GLOBAL . read_only = 1",
        "SET PERSIST x = 1",
        "SET @@persist_only.x = 1",
        "SET sql_mode = '', GLOBAL read_only = 1",
        "SET @a = 1, @@global.read_only = 1",
        "SET NAMES utf8mb4, GLOBAL read_only = 1",
        "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET PASSWORD = PASSWORD('x')",
        "SET PASSWORD FOR a@b = PASSWORD('x')",
        "SET DEFAULT ROLE admin",
        "SET DEFAULT ROLE admin",
        "SET @a = nextval(s)",
        "SET @a = f(1)",
        "SET @a = (SELECT f(1))",
        "SET STATEMENT max_statement_time=1 FOR DELETE FROM t",
        "SET STATEMENT max_statement_time=1 FOR CREATE TEMPORARY TABLE x (a INT)",
        "SET STATEMENT max_statement_time=1",
        "SET",
        "SET x",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "HANDLER t OPEN",
        "XA START 'x'",
        "LOCK TABLES t WRITE",
        "UNLOCK TABLES",
        "RELEASE",
        "GRANT ALL ON *.* TO a@b",
        "SHUTDOWN",
        "EXECUTE s",
        "1",
        "(",
        "((DELETE FROM t))",
        "\u{0}",
        "SELECT 1\u{0}",
        r"SELECT 'é\'; DELETE FROM t; -- '",
        "😀",
    ] {
        assert_eq!(kind(sql), StatementKind::Write, "{sql}");
    }
}

#[test]
fn transactions() {
    for (sql, wanted) in [
        ("BEGIN", StatementKind::Begin),
        ("begin work", StatementKind::Begin),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", StatementKind::Begin),
        ("COMMIT", StatementKind::Commit),
        ("COMMIT AND CHAIN", StatementKind::Commit),
        ("ROLLBACK", StatementKind::Rollback),
        ("ROLLBACK WORK", StatementKind::Rollback),
        ("ROLLBACK AND CHAIN;", StatementKind::Rollback),
        ("ROLLBACK TO a", StatementKind::Savepoint),
        ("ROLLBACK WORK TO SAVEPOINT a", StatementKind::Savepoint),
        ("SAVEPOINT a", StatementKind::Savepoint),
        ("RELEASE SAVEPOINT a", StatementKind::Savepoint),
    ] {
        assert_eq!(kind(sql), wanted, "{sql}");
    }
}

#[test]
fn what_may_commit() {
    for (sql, may) in [
        ("COMMIT", true),
        ("BEGIN", true),
        ("CREATE TABLE t (a INT)", true),
        ("CREATE TEMPORARY TABLE t (a INT)", false),
        ("CALL p()", true),
        ("SET autocommit = 1", true),
        ("SET SESSION autocommit = ON", true),
        ("SET @@session.autocommit = @x", true),
        ("SET `autocommit` = 1", true),
        ("SET SESSION `autocommit` = 1", true),
        ("SET @@session.`autocommit` = 1", true),
        ("SET sql_mode = '', LOCAL `AutoCommit` = 1", true),
        ("SET SESSION `autocommit` = 0", false),
        ("SET SESSION `sql_mode` = ''", false),
        ("KILL QUERY 5", true),
        ("KILL USER 'app'", true),
        ("SET @@autocommit=0", false),
        ("SET sql_mode='', autocommit=OFF", false),
        ("SELECT 1", false),
        ("SELECT /*!1 1*/", true),
        ("INSERT INTO t VALUES (1)", false),
        ("INSERT INTO t VALUES (1); COMMIT", true),
        ("ROLLBACK", false),
        ("FROBNICATE", true),
        ("LOAD DATA INFILE 'f' INTO TABLE t", true),
    ] {
        assert_eq!(Statement::of(sql.as_bytes()).may_commit, may, "{sql}");
    }
}

#[test]
fn the_session_alone() {
    for sql in [
        "SET autocommit=0",
        "SET `autocommit` = 0",
        "SET SESSION autocommit = 0",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "SET CHARACTER SET 'utf8'",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
        "SET @@session.sql_mode = CONCAT(@@sql_mode, ',ANSI'), wait_timeout = 5",
        "SET @a := (SELECT MAX(b) FROM t)",
        "USE shop",
        "PREPARE s FROM 'SELECT 1'",
        "DEALLOCATE PREPARE s",
        "DROP PREPARE s",
    ] {
        assert_eq!(kind(sql), StatementKind::SessionOnly, "{sql}");
    }
}

#[test]
fn literal_user_variables() {
    for (sql, wanted) in [
        ("SET @a = 1", true),
        ("SET @a = 'x', @`b` := NULL, @c = -1.5;", true),
        ("set @a=true -- yes", true),
        ("SET @a = 'ä'", false),
        ("SET @a = @b", false),
        ("SET @a = 1 + 1", false),
        ("SET @a = NOW()", false),
        ("SET @a = 1, sql_mode = ''", false),
        ("SET @a = (1)", false),
        ("SET @a = 1; SET @b = 2", false),
        ("SET @a", false),
        ("SET @a =", false),
        ("SET @a = /*! 1 */", false),
        ("SET @a = _utf8'x'", false),
        ("SET @a autocommit b.wait_timeout = 5", false),
    ] {
        let found = Statement::of(sql.as_bytes());
        assert_eq!(found.literal_user_variables, wanted, "{sql}");
        assert!(found.pins.has(Pins::USER_VARIABLE), "{sql}");
    }
}

#[test]
fn pins() {
    for (sql, pins) in [
        ("CREATE TEMPORARY TABLE t (a INT)", Pins::TEMP_TABLE),
        ("CREATE OR REPLACE TEMPORARY TABLE t AS SELECT 1", Pins::TEMP_TABLE),
        ("CREATE /*!32302 TEMPORARY */ TABLE t (a INT)", Pins::TEMP_TABLE),
        ("CREATE TABLE temporary (a INT)", Pins::NONE),
        ("SELECT get_lock('a', 1)", Pins::GET_LOCK),
        ("EXECUTE IMMEDIATE 'SELECT get_lock(''a'', 1)'", Pins::GET_LOCK),
        ("EXECUTE IMMEDIATE \"HANDLER t OPEN\"", Pins::HANDLER),
        ("EXECUTE s USING 'HANDLER t OPEN'", Pins::NONE),
        ("BEGIN NOT ATOMIC DO get_lock('a', 1); END", Pins::GET_LOCK),
        ("INSERT INTO t VALUES (GET_LOCK ('a', 1))", Pins::GET_LOCK),
        ("LOCK TABLES t READ", Pins::LOCK_TABLES),
        ("FLUSH TABLES WITH READ LOCK", Pins::LOCK_TABLES),
        ("FLUSH LOCAL TABLES t FOR EXPORT", Pins::LOCK_TABLES),
        ("FLUSH LOGS", Pins::NONE),
        ("FLUSH LOCAL STATUS", Pins::UNNAMED),
        ("DO 1; /*!99999 DO RELEASE_ALL_LOCKS() */", Pins::NONE),
        ("/*!99999 UNLOCK TABLES */", Pins::NONE),
        ("BACKUP STAGE START", Pins::BACKUP_STAGE),
        ("BACKUP LOCK t", Pins::BACKUP_LOCK),
        ("LOCK INSTANCE FOR BACKUP", Pins::BACKUP_LOCK),
        ("SELECT IF(0, RELEASE_ALL_LOCKS(), 1)", Pins::NONE),
        ("SELECT RELEASE_ALL_LOCKS() FROM t WHERE 0", Pins::NONE),
        ("EXPLAIN SELECT RELEASE_ALL_LOCKS()", Pins::NONE),
        ("SET STATEMENT max_statement_time=1 FOR SET SESSION time_zone = '+05:00'", Pins::UNNAMED),
        ("SELECT 1.5INTO @x", Pins::USER_VARIABLE),
        ("SELECT a*.5INTO @x FROM t", Pins::USER_VARIABLE),
        ("SELECT 1e5INTO @x", Pins::USER_VARIABLE),
        ("SELECT 1E-5INTO @x", Pins::USER_VARIABLE),
        ("SELECT 1INTO FROM t", Pins::NONE),
        ("SET @x = 1", Pins::USER_VARIABLE),
        ("SET NAMES utf8, @x = 1", Pins::USER_VARIABLE),
        ("SET sql_mode = '', @x = 1", Pins::USER_VARIABLE),
        ("SELECT @x := @x + 1 FROM t", Pins::USER_VARIABLE),
        ("INSERT INTO t SELECT @x := 1", Pins::USER_VARIABLE),
        ("SELECT 1 INTO @x", Pins::USER_VARIABLE),
        ("SELECT a, b INTO\n@x, @y FROM t", Pins::USER_VARIABLE),
        ("INSERT INTO t VALUES (@x)", Pins::NONE),
        ("SELECT @x", Pins::NONE),
        ("CALL p(1, @out)", Pins::USER_VARIABLE),
        ("CALL p(1)", Pins::NONE),
        ("LOAD DATA INFILE 'f' INTO TABLE t (a, @b) SET c = @b", Pins::USER_VARIABLE),
        ("GET DIAGNOSTICS @n = NUMBER", Pins::USER_VARIABLE),
        ("HANDLER t OPEN AS h", Pins::HANDLER),
        ("HANDLER t READ FIRST", Pins::NONE),
        ("PREPARE s FROM 'SELECT 1'", Pins::TEXT_PREPARE),
        ("XA START 'x'", Pins::XA),
        ("XA RECOVER", Pins::NONE),
        ("SET STATEMENT x=1 FOR CREATE TEMPORARY TABLE t (a INT)", Pins::TEMP_TABLE),
        ("SELECT 1; SET @a = 1; LOCK TABLES t READ", Pins::USER_VARIABLE.union(Pins::LOCK_TABLES)),
        ("KILL 5; SET @a = 1", Pins::USER_VARIABLE),
        ("SELECT 'SET @a = 1', '@a := 1'", Pins::NONE),
    ] {
        let found = Statement::of(sql.as_bytes());
        assert_eq!(found.pins, pins, "{sql}: {:?}", found.pins.names());
        assert_eq!(found.unpins, Pins::NONE, "{sql}");
    }
    for (sql, pins, unpins) in [
        ("UNLOCK TABLES", Pins::NONE, Pins::LOCK_TABLES),
        ("UNLOCK INSTANCE", Pins::NONE, Pins::BACKUP_LOCK),
        ("LOCK INSTANCE FOR BACKUP; LOCK TABLES t READ; UNLOCK TABLES", Pins::BACKUP_LOCK, Pins::LOCK_TABLES),
        ("BACKUP STAGE END", Pins::NONE, Pins::BACKUP_STAGE),
        ("BACKUP UNLOCK", Pins::NONE, Pins::BACKUP_LOCK),
        ("DO RELEASE_ALL_LOCKS()", Pins::NONE, Pins::GET_LOCK),
        ("SELECT RELEASE_ALL_LOCKS()", Pins::NONE, Pins::GET_LOCK),
        ("XA COMMIT 'x'", Pins::NONE, Pins::XA),
        ("UNLOCK TABLES; LOCK TABLES t READ", Pins::LOCK_TABLES, Pins::NONE),
        ("LOCK TABLES t READ; UNLOCK TABLES", Pins::NONE, Pins::LOCK_TABLES),
    ] {
        let found = Statement::of(sql.as_bytes());
        assert_eq!((found.pins, found.unpins), (pins, unpins), "{sql}");
    }
    assert_eq!(Pins::TEMP_TABLE.union(Pins::XA).names(), ["temporary table", "XA transaction"]);
}

#[test]
fn kills() {
    for (sql, query_only, id) in [
        ("KILL 5", false, Some(5)),
        ("kill connection 18446744073709551615", false, Some(u64::MAX)),
        ("KILL HARD CONNECTION 7;", false, Some(7)),
        ("KILL SOFT QUERY 8", true, Some(8)),
        ("KILL QUERY ID 9", true, None),
        ("KILL USER 'app'", false, None),
        ("KILL 5 + 1", false, None),
        ("KILL CONNECTION_ID()", false, None),
        ("KILL", false, None),
        ("KILL 99999999999999999999", false, None),
    ] {
        assert_eq!(kind(sql), StatementKind::Kill { query_only, id }, "{sql}");
    }
}

#[test]
fn the_sessions_mode_counts() {
    use crate::ok::status::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
    let sql = br"SELECT 'a\'; DELETE FROM t; -- '";
    assert_eq!(Statement::of(sql).kind, StatementKind::Read);
    assert_eq!(Statement::under(sql, NO_BACKSLASH_ESCAPES).kind, StatementKind::Write);
    let sql = br#"SELECT "a\"; DELETE FROM t; -- ""#;
    assert_eq!(Statement::of(sql).kind, StatementKind::Write);
    assert_eq!(Statement::under(sql, ANSI_QUOTES).kind, StatementKind::Write);
}

#[test]
fn what_may_run_several_statements() {
    for (sql, several) in [
        ("CALL p()", true),
        ("EXECUTE s", true),
        ("BEGIN NOT ATOMIC INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END", true),
        ("IF 1 THEN INSERT INTO t VALUES (1); END IF", true),
        ("SELECT 1; CALL p()", true),
        ("INSERT INTO t VALUES (1) /*! , (2) */", true),
        ("SET STATEMENT max_statement_time=1 FOR CALL p()", true),
        ("INSERT INTO t VALUES (1)", false),
        ("ALTER TABLE t ADD b INT", false),
        ("CREATE TABLE t (a INT)", false),
        ("BEGIN", false),
        ("COMMIT", false),
        ("LOAD DATA INFILE 'f' INTO TABLE t", true),
    ] {
        let found = Statement::of(sql.as_bytes());
        assert_eq!(found.runs_several, several, "{sql}");
        // A file loaded in pieces runs no code, and what a version's comment has is not understood as any.
        let is_code = several && !sql.starts_with("LOAD") && !sql.contains("/*!");
        assert_eq!(found.calls, is_code, "{sql}");
    }
}

#[test]
fn what_no_server_reports() {
    for (sql, sets, alone) in [
        ("/* c */ SET /* d */ TRANSACTION READ ONLY", Sets::TRANSACTION, true),
        ("SET SESSION TRANSACTION READ ONLY", Sets::NONE, true),
        ("SET ROLE admin;", Sets::ROLE, true),
        ("SET ROLE admin; SELECT 1", Sets::ROLE, false),
        ("SET DEFAULT ROLE admin", Sets::NONE, true),
        ("SET session_track_schema=OFF", Sets::TRACKING, true),
        ("SET @@session.session_track_state_change = 0", Sets::TRACKING, true),
        ("SET @@session_track_schema = 0 /*! ,sql_mode='' */", Sets::TRACKING.union(Sets::UNREPORTED), false),
        ("SET NAMES utf8mb4", Sets::NAMES, true),
        ("SET NAMES 'utf8mb4'", Sets::NAMES, true),
        ("SET NAMES DEFAULT", Sets::COLLATION, true),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", Sets::COLLATION, true),
        ("SET sql_mode = '', NAMES utf8mb4 COLLATE 'utf8mb4_bin', wait_timeout = 5", Sets::COLLATION, true),
        ("SET CHARACTER SET utf8mb4", Sets::COLLATION, true),
        ("SET CHARSET utf8mb4", Sets::COLLATION, true),
        ("SET character_set_connection = utf8mb4", Sets::NAMES, true),
        ("SET SESSION character_set_connection = 'utf8mb4'", Sets::NAMES, true),
        ("SET @@session.character_set_connection = @@character_set_client", Sets::COLLATION, true),
        ("SET character_set_connection = DEFAULT", Sets::COLLATION, true),
        ("SET character_set_connection = 45", Sets::COLLATION, true),
        ("SET collation_connection = utf8mb4_bin", Sets::NONE, true),
        ("SET @@collation_connection = utf8mb4_bin", Sets::UNREPORTED, true),
        ("SET @@wait_timeout = 5", Sets::UNREPORTED, true),
        ("SET wait_timeout = 5, @@`sql_mode` := ''", Sets::UNREPORTED, true),
        ("SET @@SESSION . wait_timeout = 5, @@local.sql_mode = ''", Sets::NONE, true),
        ("SET @@tx_isolation = 'SERIALIZABLE'", Sets::TRANSACTION, true),
        ("SET @@session.tx_isolation = 'SERIALIZABLE'", Sets::NONE, true),
        (
            "set sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'),session_track_system_variables=\
             CONCAT(@@global.session_track_system_variables,',transaction_isolation')",
            Sets::TRACKING,
            true,
        ),
        ("SELECT @@session_track_schema", Sets::NONE, true),
    ] {
        let found = Statement::of(sql.as_bytes());
        assert_eq!((found.sets, found.alone), (sets, alone), "{sql}");
        if alone && matches!(sets, Sets::TRANSACTION | Sets::ROLE | Sets::TRACKING) {
            assert_eq!(found.kind, StatementKind::SessionOnly, "{sql}");
        }
    }
}

#[test]
fn variables_that_are_set_without_a_report() {
    let names = |sql: &'static str| -> Vec<&str> {
        unreported_variables(sql.as_bytes(), 0).filter_map(|name| std::str::from_utf8(name).ok()).collect()
    };
    assert_eq!(names("SET @@a = 1, b = 2, @@`c` := 3, @@session.d = 4, @@GLOBAL.e = 5"), ["a", "c"]);
    assert_eq!(names("SET @x = @@y, @@z = @@w; SET @@sql_mode=''"), ["z", "sql_mode"]);
    assert!(names("SELECT @@a").is_empty());
    let for_one = Statement::of(b"SET STATEMENT max_statement_time = 1 FOR SELECT 1");
    assert_eq!((for_one.sets, for_one.kind), (Sets::FOR_ONE_STATEMENT, StatementKind::Read));
}

#[test]
fn what_leaves_a_transaction_open() {
    for (sql, chains) in [
        ("ROLLBACK", false),
        ("ROLLBACK WORK;", false),
        ("ROLLBACK AND CHAIN", true),
        ("ROLLBACK WORK AND CHAIN", true),
        ("COMMIT", false),
        ("COMMIT AND CHAIN", true),
    ] {
        assert_eq!(Statement::of(sql.as_bytes()).chains, chains, "{sql}");
    }
}

#[test]
fn who_asks_for_its_own_number() {
    for (sql, asks) in [
        ("SELECT CONNECTION_ID()", true),
        ("SELECT connection_id ()", true),
        ("SELECT `connection_id`()", true),
        ("SELECT @@pseudo_thread_id", true),
        ("SELECT @@session.pseudo_thread_id", true),
        ("KILL CONNECTION_ID()", true),
        ("SET @@session.pseudo_thread_id = 5", false),
        ("SET pseudo_thread_id = CONNECTION_ID()", true),
        ("SELECT connection_id FROM t", false),
        ("SELECT 'CONNECTION_ID()'", false),
    ] {
        assert_eq!(Statement::of(sql.as_bytes()).asks_connection_id, asks, "{sql}");
    }
    for (sql, own) in [
        ("KILL CONNECTION_ID()", true),
        ("KILL QUERY CONNECTION_ID()", true),
        ("KILL HARD CONNECTION (connection_id());", true),
        ("KILL `connection_id`()", true),
        ("KILL @@pseudo_thread_id", true),
        ("KILL @@session.pseudo_thread_id", true),
        ("KILL CONNECTION_ID() + 1", false),
        ("KILL 5", false),
        ("KILL @a", false),
        ("KILL USER 'app'", false),
        ("KILL (SELECT CONNECTION_ID())", false),
        ("KILL /*! CONNECTION_ID() */", false),
        ("KILL CONNECTION_ID(); SELECT 1", false),
    ] {
        let found = Statement::of(sql.as_bytes());
        assert_eq!(found.kills_own, own, "{sql}");
        assert!(!own || matches!(found.kind, StatementKind::Kill { id: None, .. }), "{sql}");
    }
}

#[test]
fn what_touches_engines() {
    for (sql, touches) in [
        ("CREATE TABLE t (a INT) ENGINE=Aria", true),
        ("CREATE TABLE t (a INT)", true),
        ("CREATE OR REPLACE TABLE t LIKE u", true),
        ("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY", false),
        ("CREATE ALGORITHM=MERGE VIEW v AS SELECT 1", true),
        ("CREATE DEFINER=root@localhost TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET @a = 1", true),
        ("CREATE FUNCTION f() RETURNS INT RETURN 1", true),
        ("CREATE PROCEDURE p() SELECT 1", false),
        ("CREATE INDEX i ON t (a)", false),
        ("CREATE UNIQUE INDEX i ON t (a)", false),
        ("CREATE USER a", false),
        ("CREATE DATABASE d", false),
        ("ALTER TABLE t ENGINE = MyISAM", true),
        ("ALTER TABLE t ADD b INT", false),
        ("ALTER TABLE t RENAME TO u", true),
        ("ALTER VIEW v AS SELECT 1", true),
        ("RENAME TABLE t TO u", true),
        ("RENAME USER a TO b", false),
        ("ALTER FUNCTION f READS SQL DATA", true),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", true),
        ("CREATE AGGREGATE FUNCTION f() RETURNS INT RETURN 1", true),
        ("CREATE SEQUENCE s", true),
        ("DROP TABLE t", false),
        ("DROP VIEW IF EXISTS v", true),
        ("DROP FUNCTION f", true),
        ("INSERT INTO engine VALUES (1)", false),
        ("BEGIN NOT ATOMIC CREATE TABLE t (a INT); END", true),
        ("EXECUTE IMMEDIATE 'CREATE TABLE t (a INT)'", true),
        ("CALL p()", false),
        ("SELECT 1 /*! */", true),
        ("SELECT 1; CREATE TABLE t (a INT)", true),
    ] {
        assert_eq!(Statement::of(sql.as_bytes()).touches_engines, touches, "{sql}");
    }
}

/// A minute's worth of bytes at a quadratic pace, an instant's at a linear one.
#[test]
fn long_texts_take_no_longer_a_byte() {
    for piece in
        ["(", "'", "/*", "/*!", "a ", "@", "((SELECT ", ";", "'a\\'", "`", "SET @a=1,", "f(", "-", "\u{e4}`"]
    {
        let sql = piece.repeat(2_000_000 / piece.len());
        Statement::of(sql.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_something(sql in proptest::collection::vec(any::<u8>(), 0..120), status in any::<u16>()) {
        let found = Statement::under(&sql, status);
        prop_assert!(found.pins.0 & found.unpins.0 == 0);
    }

    #[test]
    fn any_words_are_something(words in proptest::collection::vec(proptest::sample::select(vec![
        "SELECT", "SET", "@a", "=", ":=", "1", "'x'", ",", "(", ")", ";", "INTO", "GLOBAL", "@@global.x", "FOR", "STATEMENT",
        "KILL", "QUERY", "f", "NOW", "autocommit", "TRANSACTION", "/*!", "*/", "--", "\n", "\"", "`", ".", "BEGIN", "WITH",
    ]), 0..30)) {
        let sql = words.join(" ");
        let found = Statement::of(sql.as_bytes());
        // A read has no pins; a write hidden behind it is found.
        if found.kind == StatementKind::Read {
            prop_assert!(found.pins.is_empty(), "{}", sql);
            let hidden = format!("{sql}\n; DELETE FROM t");
            prop_assert_eq!(Statement::of(hidden.as_bytes()).kind, StatementKind::Write, "{}", hidden);
        }
    }

    /// Space and case are nobody's business.
    #[test]
    fn case_does_not_count(upper in any::<bool>(), nth in 0usize..6) {
        let sql = ["select count(*) from t", "set @a = 1", "kill query 5", "create temporary table t (a int)", "begin work", "show warnings"][nth];
        let other = if upper { sql.to_uppercase() } else { format!("\n\t{sql}  ;") };
        prop_assert_eq!(Statement::of(sql.as_bytes()), Statement::of(other.as_bytes()));
    }
}

/// A no-break space of latin1 (A0), cp850 (FF), koi8r (9A) or macroman (CA) is space there. In UTF-8 the same bytes are parts of letters.
#[test]
fn a_byte_that_may_be_space_ends_a_word() {
    for space in [0xA0, 0xFF, 0x9A, 0xCA] {
        let of = |sql: &str| {
            let sql: Vec<u8> = sql.bytes().map(|b| if b == b'~' { space } else { b }).collect();
            Statement::of(&sql)
        };
        assert_eq!(of("SELECT id~INTO @x FROM t").pins, Pins::USER_VARIABLE);
        assert_eq!(of("SELECT id INTO~@x FROM t").pins, Pins::USER_VARIABLE);
        assert_eq!(of("SELECT GET_LOCK~('a', 1)").pins, Pins::GET_LOCK);
        assert_eq!(of("~LOCK~TABLES t WRITE").pins, Pins::LOCK_TABLES);
        let updates = of("WITH x AS (SELECT 1)~UPDATE t SET n = n + 1");
        assert_eq!((updates.kind, updates.leaves_no_trace), (StatementKind::Write, false));
        assert_eq!(of("SELECT a~FROM t").kind, StatementKind::Write, "it may be read in another way");
        assert_eq!(of("SELECT '~' FROM t").kind, StatementKind::Read, "in a string");
    }
    let letters = Statement::of("SELECT d\u{e0}, \u{e0} FROM t\u{e0}".as_bytes());
    assert_eq!((letters.kind, letters.pins), (StatementKind::Read, Pins::NONE));
}
