//! What a statement does to LAST_INSERT_ID(), and how far its OK packet tells.
//!
//! Seen on MariaDB 10.11 (the link crate's tests check it on a running server):
//!
//! | statement | LAST_INSERT_ID() afterwards | in its OK packet |
//! |---|---|---|
//! | INSERT, REPLACE, CREATE TABLE ... SELECT that make a number | the first number made | the same |
//! | the same that are given their number, or find it by ON DUPLICATE KEY UPDATE | as before | the number |
//! | the same with RETURNING | the first number made | nothing |
//! | the same that fail after a number was made | the number made | (an ERR) |
//! | LOAD DATA | the first number made | nothing |
//! | UPDATE that runs LAST_INSERT_ID(n) | n | n |
//! | SELECT, DO, SET, DELETE that run LAST_INSERT_ID(n) | n | nothing |
//! | CALL, a block, ANALYZE INSERT | what their last such statement left | nothing |
//! | SET last_insert_id, SET identity | the value | the value, as a variable (but not after `SET @@last_insert_id`) |
//! | ALTER TABLE that numbers the rows; ROLLBACK; triggers and stored functions that insert | as before | nothing |
//!
//! What no text shows: a view that runs LAST_INSERT_ID(n), and a trigger that gives a row its number.

/// What becomes of LAST_INSERT_ID() when a statement succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InsertId {
    /// It stays, or a reported variable tells it.
    #[default]
    Kept,
    /// An id in the OK packet is the new value.
    Reported {
        /// The text runs LAST_INSERT_ID(n): an id of 0 may be its n, or mean that it stays.
        runs_argument: bool,
    },
    /// An id in the OK packet is the new value, unless the statement supplied it itself: then the value stays.
    ReportedOrGiven {
        /// See above.
        runs_argument: bool,
    },
    /// The server does not report it.
    Unknown,
}

impl InsertId {
    /// The value after success. `before`: what it was, where that is known. `ok_id`: the id in the OK packet. `may_give`: whether
    /// the statement may have given this number itself (see [`super::may_give`]); asked only where it matters. `None`: only the node knows.
    pub fn after(self, before: Option<u64>, ok_id: u64, may_give: impl FnOnce(u64) -> bool) -> Option<u64> {
        match self {
            InsertId::Kept => before,
            InsertId::Reported { runs_argument } | InsertId::ReportedOrGiven { runs_argument }
                if ok_id == 0 =>
            {
                before.filter(|_| !runs_argument)
            }
            InsertId::Reported { .. } => Some(ok_id),
            InsertId::ReportedOrGiven { .. } if before == Some(ok_id) || !may_give(ok_id) => Some(ok_id),
            InsertId::ReportedOrGiven { .. } | InsertId::Unknown => None,
        }
    }

    /// Whether the values of the statement show if `ok_id` is the new value.
    pub fn needs_values(self, ok_id: u64) -> bool {
        ok_id != 0 && matches!(self, InsertId::ReportedOrGiven { .. })
    }

    /// The value after an error, which tells nothing.
    pub fn after_error(self, before: Option<u64>) -> Option<u64> {
        match self {
            InsertId::Kept | InsertId::Reported { runs_argument: false } => before,
            _ => None,
        }
    }

    /// The same of a text that runs LAST_INSERT_ID(n) somewhere.
    pub(super) fn with_argument(self) -> InsertId {
        match self {
            InsertId::Kept | InsertId::Unknown => InsertId::Unknown,
            InsertId::Reported { .. } => InsertId::Reported { runs_argument: true },
            InsertId::ReportedOrGiven { .. } => InsertId::ReportedOrGiven { runs_argument: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::*;

    #[test]
    fn what_is_known_afterwards() {
        let gives = |_| true;
        let gives_not = |_| false;
        let (reported, given) =
            (InsertId::Reported { runs_argument: false }, InsertId::ReportedOrGiven { runs_argument: false });
        assert_eq!(InsertId::Kept.after(Some(4), 0, gives), Some(4));
        assert_eq!(InsertId::Unknown.after(Some(4), 9, gives_not), None);
        assert_eq!(
            (reported.after(Some(4), 9, gives), reported.after(Some(4), 0, gives)),
            (Some(9), Some(4))
        );
        assert_eq!((given.after(None, 9, gives_not), given.after(Some(4), 0, gives)), (Some(9), Some(4)));
        assert_eq!((given.after(Some(4), 9, gives), given.after(Some(9), 9, gives)), (None, Some(9)));
        for kind in [reported, given] {
            assert_eq!(kind.with_argument().after(Some(4), 0, gives_not), None);
            assert_eq!(kind.with_argument().after(Some(4), 9, gives_not), Some(9));
        }
        assert_eq!(InsertId::Kept.with_argument(), InsertId::Unknown);
        assert_eq!((reported.after_error(Some(4)), given.after_error(Some(4))), (Some(4), None));
    }
    #[test]
    fn what_becomes_of_the_insert_id() {
        let reported = |runs_argument| InsertId::Reported { runs_argument };
        let given = |runs_argument| InsertId::ReportedOrGiven { runs_argument };
        for (sql, wanted) in [
            ("SELECT 1", InsertId::Kept),
            ("SELECT LAST_INSERT_ID()", InsertId::Kept),
            ("SELECT LAST_INSERT_ID(5)", InsertId::Unknown),
            ("WITH a AS (SELECT last_insert_id (7) x) SELECT * FROM a", InsertId::Unknown),
            ("DO `LAST_INSERT_ID`(1)", InsertId::Unknown),
            ("SET @a = LAST_INSERT_ID(1)", InsertId::Unknown),
            ("DELETE FROM t", InsertId::Kept),
            ("DELETE FROM t WHERE a = LAST_INSERT_ID(5)", InsertId::Unknown),
            ("UPDATE t SET a = 1", reported(false)),
            ("UPDATE t SET a = LAST_INSERT_ID(a + 1)", reported(true)),
            ("UPDATE t SET a = LAST_INSERT_ID()", reported(false)),
            ("WITH x AS (SELECT 1) SELECT * FROM x", InsertId::Kept),
            ("WITH x AS (SELECT 1) UPDATE t, x SET a = 1", InsertId::Unknown),
            ("INSERT INTO t VALUES (1)", given(false)),
            ("REPLACE INTO t VALUES (1)", given(false)),
            ("INSERT INTO t SELECT * FROM u", given(false)),
            ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = LAST_INSERT_ID(a)", given(true)),
            ("INSERT INTO t VALUES (1) RETURNING a", InsertId::Unknown),
            ("DELETE FROM t RETURNING a", InsertId::Kept),
            ("SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)", given(false)),
            ("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY) SELECT 1", given(false)),
            ("CREATE TEMPORARY TABLE t (a INT AUTO_INCREMENT PRIMARY KEY) SELECT 1", given(false)),
            ("CREATE INDEX i ON t (a)", InsertId::Kept),
            ("LOAD DATA INFILE 'f' INTO TABLE t", InsertId::Unknown),
            ("CALL p()", InsertId::Unknown),
            ("EXECUTE s", InsertId::Unknown),
            ("BEGIN NOT ATOMIC INSERT INTO t VALUES (1); END", InsertId::Unknown),
            ("ANALYZE INSERT INTO t VALUES (1)", InsertId::Unknown),
            ("ANALYZE TABLE t", InsertId::Kept),
            ("FROBNICATE", InsertId::Unknown),
            ("INSERT INTO t VALUES (1) /*! RETURNING a */", InsertId::Unknown),
            ("SET last_insert_id = 5", InsertId::Kept),
            ("SET @@session.identity = 5", InsertId::Kept),
            ("SET @@identity = 5", InsertId::Unknown),
            ("COMMIT", InsertId::Kept),
            ("ALTER TABLE t ADD a INT AUTO_INCREMENT PRIMARY KEY", InsertId::Kept),
            ("SELECT 1; INSERT INTO t VALUES (1)", given(false)),
            ("INSERT INTO t VALUES (1); UPDATE t SET a = LAST_INSERT_ID(0)", given(true)),
            ("INSERT INTO t VALUES (1); CALL p()", InsertId::Unknown),
        ] {
            assert_eq!(Statement::of(sql.as_bytes()).insert_id, wanted, "{sql}");
        }
    }
}
