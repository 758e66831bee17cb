//! Statements that ask for something that an earlier statement left in the session, and what they ask for.
//!
//! Such a text has the right answer only on the connection on which that statement ran. Each thing has its own bit, since each is left
//! behind, and can be restored elsewhere, in its own way.

use crate::bits::set_of_bits;

/// What a text asks for that earlier statements left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recalls(pub u8);

set_of_bits!(Recalls);

impl Recalls {
    /// LAST_INSERT_ID() without an argument, `@@last_insert_id`, `@@identity`.
    pub const INSERT_ID: Recalls = Recalls(1);
    /// ROW_COUNT(): of the statement before.
    pub const ROW_COUNT: Recalls = Recalls(2);
    /// FOUND_ROWS(): of the SELECT before.
    pub const FOUND_ROWS: Recalls = Recalls(4);
    /// SHOW WARNINGS, SHOW ERRORS, SHOW COUNT(*) of them, `@@warning_count`, `@@error_count`, GET DIAGNOSTICS.
    pub const WARNINGS: Recalls = Recalls(8);
    /// LASTVAL(), PREVIOUS VALUE FOR, CURRVAL: what this session drew last from a sequence.
    pub const SEQUENCE: Recalls = Recalls(16);
    /// SHOW PROFILE, SHOW PROFILES, the table `information_schema.PROFILING`.
    pub const PROFILE: Recalls = Recalls(32);
    /// `@@last_gtid`, WSREP_LAST_WRITTEN_GTID(), WSREP_LAST_SEEN_GTID().
    pub const LAST_GTID: Recalls = Recalls(64);

    /// Readable names, for messages.
    pub fn names(self) -> Vec<&'static str> {
        const NAMES: [(Recalls, &str); 7] = [
            (Recalls::INSERT_ID, "LAST_INSERT_ID()"),
            (Recalls::ROW_COUNT, "ROW_COUNT()"),
            (Recalls::FOUND_ROWS, "FOUND_ROWS()"),
            (Recalls::WARNINGS, "warnings and diagnostics"),
            (Recalls::SEQUENCE, "the last value of a sequence"),
            (Recalls::PROFILE, "profiles"),
            (Recalls::LAST_GTID, "the last GTID"),
        ];
        NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|&(_, name)| name).collect()
    }
}

/// What a function of the server's own recalls; `name` in upper case. LAST_INSERT_ID recalls only without an argument.
pub(super) fn of_function(name: &[u8]) -> Recalls {
    match name {
        b"LAST_INSERT_ID" => Recalls::INSERT_ID,
        b"ROW_COUNT" => Recalls::ROW_COUNT,
        b"FOUND_ROWS" => Recalls::FOUND_ROWS,
        b"LASTVAL" | b"CURRVAL" => Recalls::SEQUENCE,
        b"WSREP_LAST_SEEN_GTID" | b"WSREP_LAST_WRITTEN_GTID" => Recalls::LAST_GTID,
        _ => Recalls::NONE,
    }
}

/// What a system variable recalls; `name` in upper case.
pub(super) fn of_variable(name: &[u8]) -> Recalls {
    match name {
        b"LAST_INSERT_ID" | b"IDENTITY" => Recalls::INSERT_ID,
        b"WARNING_COUNT" | b"ERROR_COUNT" => Recalls::WARNINGS,
        b"LAST_GTID" => Recalls::LAST_GTID,
        _ => Recalls::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, StatementKind};
    use super::*;

    #[test]
    fn what_is_recalled() {
        use Recalls as R;
        for (sql, wanted) in [
            ("SELECT LAST_INSERT_ID()", R::INSERT_ID),
            ("INSERT INTO t VALUES (last_insert_id ( ))", R::INSERT_ID),
            ("SELECT `last_insert_id`()", R::INSERT_ID),
            ("SELECT LAST_INSERT_ID(/* none */)", R::INSERT_ID),
            ("SELECT LAST_INSERT_ID(5)", R::NONE),
            ("SELECT LAST_INSERT_ID(5), LAST_INSERT_ID()", R::INSERT_ID),
            ("SELECT @@identity", R::INSERT_ID),
            ("SELECT @@session.last_insert_id, @@local . `warning_count`", R::INSERT_ID.union(R::WARNINGS)),
            ("SELECT @@`error_count`", R::WARNINGS),
            ("SET @@last_insert_id = 5", R::NONE),
            ("SET @@session.identity = 5, @a = @@identity", R::INSERT_ID),
            ("SET @a = @@identity, @@session.identity = 5", R::INSERT_ID),
            ("SELECT ROW_COUNT(), FOUND_ROWS()", R::ROW_COUNT.union(R::FOUND_ROWS)),
            ("SELECT `row_count`()", R::ROW_COUNT),
            ("SHOW WARNINGS LIMIT 1", R::WARNINGS),
            ("SHOW COUNT(*) ERRORS", R::WARNINGS),
            ("GET DIAGNOSTICS @a = NUMBER", R::WARNINGS.union(R::ROW_COUNT)),
            ("SELECT LASTVAL(s)", R::SEQUENCE),
            ("SELECT PREVIOUS VALUE FOR s", R::SEQUENCE),
            ("SELECT s.currval", R::SEQUENCE),
            ("SHOW PROFILE FOR QUERY 1", R::PROFILE),
            ("SHOW PROFILES", R::PROFILE),
            ("SELECT * FROM information_schema.profiling", R::PROFILE),
            ("SET profiling = 1", R::NONE),
            ("SELECT WSREP_LAST_WRITTEN_GTID(), @@last_gtid", R::LAST_GTID),
            ("SELECT NEXTVAL(s)", R::NONE),
            ("SELECT last_insert_id, warning_count FROM t", R::NONE),
            ("SELECT 'LAST_INSERT_ID()'", R::NONE),
            ("SHOW STATUS", R::NONE),
            ("SELECT 1 /*! , FOUND_ROWS() */", R::FOUND_ROWS),
        ] {
            let found = Statement::of(sql.as_bytes());
            assert_eq!(found.recalled, wanted, "{sql}: {:?}", found.recalled.names());
            assert!(wanted == R::NONE || found.kind == StatementKind::Write, "{sql}");
        }
    }
}
