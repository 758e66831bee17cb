//! The first of the three guards: which statements are sent at all.
//!
//! A statement is replayed if it is a read by the same classification that the proxy uses (`protocol::statement`), is the only one in its text,
//! and waits for no lock. That classification knows the functions that lock, sleep, write or export, and takes whatever it does not know for a
//! write.

use protocol::statement::{
    Pins, Statement, StatementKind, assigned_sql_mode, queries_without_locking, read_state,
};
use slowlog::{Command, Event};

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Disposition {
    /// It is sent.
    Replayed,
    /// A command without SQL: Quit, Ping, Prepare, ...
    NoSql,
    /// It was cut off, or may end elsewhere: it is not certain what was run.
    Uncertain,
    /// It sets in its session what decides how reads are meant, to constants: sent before the reads that follow on it.
    State,
    /// It only sets something else in its session, or begins or ends a transaction.
    SessionOnly,
    /// Its account is one that is left out.
    SkippedUser,
    /// It writes, locks, waits or exports, or could: whatever is not understood is one of these.
    Writing,
}

impl Disposition {
    /// In words, for reports.
    pub fn words(self) -> &'static str {
        match self {
            Disposition::Replayed => "replayed",
            Disposition::NoSql => "without SQL",
            Disposition::Uncertain => "cut off, or with entries in a string",
            Disposition::State => "for how reads are meant",
            Disposition::SessionOnly => "session only",
            Disposition::SkippedUser => "of accounts that are left out",
            Disposition::Writing => "writing, locking or not understood",
        }
    }

    /// Its place among the verdicts.
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// All of them.
    pub const ALL: [Disposition; 7] = [
        Disposition::Replayed,
        Disposition::NoSql,
        Disposition::Uncertain,
        Disposition::State,
        Disposition::SessionOnly,
        Disposition::SkippedUser,
        Disposition::Writing,
    ];
}

/// Looks at one event of a session with these modes ([`Statement::under`]); what `skipped` accounts ran is left out.
pub fn judge(event: &Event<'_>, skipped: &[String], modes: u16) -> Disposition {
    if skipped.iter().any(|user| user.as_bytes() == event.user) {
        return Disposition::SkippedUser;
    }
    match event.command {
        Command::Administrator(_) | Command::Nothing => Disposition::NoSql,
        Command::Statement(_) if event.is_cut || event.quoted > 0 => Disposition::Uncertain,
        Command::Statement(sql) => judge_sql(sql, modes),
    }
}

/// Looks at one text.
pub fn judge_sql(sql: &[u8], modes: u16) -> Disposition {
    let statement = Statement::under(sql, modes);
    match statement.kind {
        // SHOW, EXPLAIN, CHECKSUM and the like warm nothing, or everything.
        StatementKind::Read
            if statement.alone
                && !statement.calls_stored
                && statement.pins == Pins(0)
                && queries_without_locking(sql, modes) =>
        {
            Disposition::Replayed
        }
        StatementKind::SessionOnly if is_state(sql, modes) => Disposition::State,
        StatementKind::SessionOnly
        | StatementKind::Begin
        | StatementKind::Commit
        | StatementKind::Rollback
        | StatementKind::Savepoint
            if statement.alone =>
        {
            Disposition::SessionOnly
        }
        _ => Disposition::Writing,
    }
}

/// It is run later, under the usual modes: under others it must mean the same.
fn is_state(sql: &[u8], modes: u16) -> bool {
    assigned_sql_mode(sql, modes).is_some() || (necessary(modes, sql) == 0 && read_state(sql).is_some())
}

/// Of the modes of its session, those without which a text could mean something else.
pub(crate) fn necessary(modes: u16, sql: &[u8]) -> u16 {
    if sql.iter().any(|byte| b"\\\"".contains(byte)) { modes } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{Disposition, judge_sql};

    #[test]
    fn reads_are_replayed() {
        for sql in [
            "SELECT 1",
            "select a from t where id = 5",
            "(SELECT a FROM t) UNION (SELECT b FROM u)",
            "WITH x AS (SELECT 1 AS a) SELECT a FROM x",
            "/* from the shop */ SELECT a FROM t WHERE b < NOW()",
            "SELECT COUNT(*), SUM(a) FROM t GROUP BY b",
            "SELECT 'INSERT INTO t VALUES (1)' FROM t",
            "SELECT a FROM information_schema.tables",
        ] {
            assert_eq!(judge_sql(sql.as_bytes(), 0), Disposition::Replayed, "{sql}");
        }
    }

    #[test]
    fn what_sets_or_ends_something_in_its_session_is_left_out() {
        for sql in [
            "USE shop",
            "BEGIN",
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT a",
            "SET autocommit=0",
            "SET SESSION TRANSACTION READ WRITE",
            "SET tx_read_only=0",
            "SET sql_mode='ORACLE'",
        ] {
            assert_eq!(judge_sql(sql.as_bytes(), 0), Disposition::SessionOnly, "{sql}");
        }
    }

    #[test]
    fn how_reads_are_meant_is_let_through() {
        for sql in [
            "SET NAMES latin1",
            "SET time_zone='+05:00'",
            "SET SESSION sql_mode='STRICT_TRANS_TABLES'",
            "SET sql_mode='NO_BACKSLASH_ESCAPES'",
            "SET @a = 5",
        ] {
            assert_eq!(judge_sql(sql.as_bytes(), 0), Disposition::State, "{sql}");
        }
        for sql in [
            "SET @a = (SELECT 1)",
            "SET GLOBAL time_zone='+05:00'",
            "SET @a = f()",
            "SET NAMES utf8; DROP TABLE t",
        ] {
            assert_ne!(judge_sql(sql.as_bytes(), 0), Disposition::State, "{sql}");
        }
    }

    #[test]
    fn under_other_modes_texts_are_read_as_they_are_run() {
        use protocol::ok::status::NO_BACKSLASH_ESCAPES as BARE;
        for (sql, usual, bare) in [
            (r"SELECT '\', 'a'", Disposition::Writing, Disposition::Replayed),
            (r"SELECT '\', ', SLEEP(1000) -- '", Disposition::Writing, Disposition::Replayed),
            (r"SELECT '\', SLEEP(1000) -- '", Disposition::Replayed, Disposition::Writing),
            (r"SET @a = '\', @@session.tx_read_only=0 -- '", Disposition::State, Disposition::SessionOnly),
            ("SET @a = 5", Disposition::State, Disposition::State),
            ("SET sql_mode = ''", Disposition::State, Disposition::State),
        ] {
            assert_eq!(
                (judge_sql(sql.as_bytes(), 0), judge_sql(sql.as_bytes(), BARE)),
                (usual, bare),
                "{sql}"
            );
        }
    }

    #[test]
    fn whatever_could_write_lock_wait_or_export_is_not_sent() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "WITH x AS (SELECT 1) DELETE FROM t",
            "WITH x AS (SELECT 1) UPDATE t SET a = 1",
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t FOR SHARE",
            "SELECT a FROM t LOCK IN SHARE MODE",
            "SELECT a INTO OUTFILE '/tmp/x' FROM t",
            "SELECT a INTO DUMPFILE '/tmp/x' FROM t",
            "SELECT a INTO @x FROM t",
            "SELECT @x := 1",
            "SELECT f(a) FROM t",
            "SELECT shop.f(a) FROM t",
            "SELECT `f`(a) FROM t",
            "SELECT GET_LOCK('x', 10)",
            "SELECT RELEASE_LOCK('x')",
            "SELECT SLEEP(1)",
            "SELECT BENCHMARK(1000000, MD5('a'))",
            "SELECT NEXTVAL(s)",
            "SELECT NEXT VALUE FOR s",
            "SELECT SETVAL(s, 1)",
            "SELECT LOAD_FILE('/etc/passwd')",
            "SELECT MASTER_POS_WAIT('a', 1)",
            "SELECT MASTER_GTID_WAIT('0-1-1')",
            "SELECT LAST_INSERT_ID(5)",
            "CALL p()",
            "DO SLEEP(1)",
            "EXECUTE s",
            "PREPARE s FROM 'DELETE FROM t'",
            "/*! INSERT INTO t VALUES (1) */",
            "/*!50000 DELETE FROM t */",
            "/*M! UPDATE t SET a = 1 */",
            "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
            "SELECT 1; DELETE FROM t",
            "SELECT 1;\nDROP TABLE t;",
            "BEGIN NOT ATOMIC DELETE FROM t; END",
            "EXPLAIN SELECT 1",
            "ANALYZE SELECT a FROM t",
            "SHOW TABLES",
            "CHECKSUM TABLE t",
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "HANDLER t OPEN",
            "LOCK TABLES t WRITE",
            "FLUSH TABLES",
            "SET GLOBAL read_only = 0",
            "KILL 5",
            "SHUTDOWN",
            "SELECT a FROM t PROCEDURE ANALYSE()",
            "XA BEGIN 'a'",
            "",
            "# nothing",
            "\u{0}\u{1}",
        ] {
            assert_ne!(judge_sql(sql.as_bytes(), 0), Disposition::Replayed, "{sql}");
        }
    }
}
