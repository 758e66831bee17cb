//! Names that change what a statement may do without showing in its text: tables that cannot be rolled back with certainty, and views whose
//! reads may write. What the server is asked to find them, and which privileges are needed for the answer to be complete.
//!
//! **Not rolled back.** A row in a table of an engine without transactions stays, even if the statement fails. A view, a trigger or a
//! stored function may write to such a table under another name. Where there is at least one such table, every view, every table with a
//! trigger and every stored function therefore counts as one. (Procedures are not listed: a CALL may do anything.)
//!
//! **Reads that may write.** A view may call a stored function, or draw from a sequence, and a SELECT from the view looks as if it changed
//! nothing. The view's definition shows it, but MariaDB shows the definition only to an account with SELECT and SHOW VIEW on the view (SHOW
//! VIEW alone is not enough). Without the definition, the view counts as writing as soon as there is anything that it could call. No server
//! enforces what a function declares about itself (READS SQL DATA), so that is not used. Not found are loadable functions (CREATE FUNCTION
//! ... SONAME) in a view whose definition is not shown.
//!
//! Pure text: the shell sends it. MariaDB and MySQL's family answer all of it. information_schema shows an account only what it has a
//! privilege for, silently: therefore [`PRIVILEGES`] are asked for first (seen on MariaDB 10.11.19: TRIGGER ON *.* shows tables, views
//! and triggers, EXECUTE ON *.* the routines; SUPER and PROCESS show nothing).

use std::collections::BTreeSet;

/// One column: the global privileges of the account that asks.
pub const PRIVILEGES: &str = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = CONCAT('''', \
    LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)) - 1), \
    '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')";

/// One column: the tables of an engine without transactions. A view has no engine.
pub const TABLES: &str = "SELECT TABLE_NAME FROM information_schema.TABLES \
    WHERE ENGINE NOT IN ('InnoDB', 'XtraDB', 'ROCKSDB', 'TokuDB', 'SEQUENCE') \
    AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// One column: objects through which such a table may be written under another name.
pub const REACH: &str = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'VIEW' \
    AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') \
    UNION SELECT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS \
    WHERE EVENT_OBJECT_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') \
    UNION SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'FUNCTION' \
    AND ROUTINE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// Two columns: what a view may use without its name showing it. "function": a stored one; "sequence"; "remote": a table whose rows come
/// from another server, where a read may run anything.
pub const CALLABLE: &str = "SELECT 'function', ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE <> 'PROCEDURE' \
    AND ROUTINE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') \
    UNION SELECT IF(TABLE_TYPE = 'SEQUENCE', 'sequence', 'remote'), TABLE_NAME FROM information_schema.TABLES \
    WHERE (TABLE_TYPE = 'SEQUENCE' OR ENGINE IN ('CONNECT', 'FEDERATED', 'SPIDER')) \
    AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// Two columns: each view, and its definition, which is empty when it is not shown to the account.
pub const VIEWS: &str = "SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS \
    WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// The names that were read: without schema, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// What makes a statement that names it impossible to roll back for certain: tables of an engine without transactions outside the
    /// system schemas; and, when there is at least one such table, all views, all tables with triggers and all stored functions outside
    /// those schemas, since they may reach it.
    pub untransactional: BTreeSet<String>,
    /// What may write when it is read: views that may call a stored function or draw from a sequence, tables of another server, and
    /// stored functions whose names look like harmless ones of the server's own.
    pub writing_reads: BTreeSet<String>,
    /// All views: a statement that names one does not show what it reads.
    pub views: BTreeSet<String>,
}

impl Catalogue {
    /// Made from names as the server writes them.
    pub fn new(
        untransactional: impl IntoIterator<Item = String>,
        writing_reads: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            untransactional: lower(untransactional),
            writing_reads: lower(writing_reads),
            views: BTreeSet::new(),
        }
    }

    /// The same, with these views.
    #[must_use]
    pub fn with_views(self, views: impl IntoIterator<Item = String>) -> Self {
        Self { views: lower(views), ..self }
    }
}

fn lower(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.to_lowercase()).collect()
}

/// Any of these privileges, held globally, shows all tables.
const SHOW_TABLES: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "CREATE VIEW",
    "SHOW VIEW",
    "TRIGGER",
];

/// What an account is shown, by its global privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// All tables and views.
    pub tables: bool,
    /// All triggers and stored functions, too.
    pub reach: bool,
}

impl Sight {
    /// From the rows of [`PRIVILEGES`].
    pub fn of(privileges: &[&str]) -> Self {
        let holds = |wanted: &str| privileges.iter().any(|held| held.eq_ignore_ascii_case(wanted));
        let tables = SHOW_TABLES.iter().any(|privilege| holds(privilege));
        Self { tables, reach: tables && holds("TRIGGER") && (holds("EXECUTE") || holds("SELECT")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_not_taken_for_absent() {
        let sight = |privileges: &[&str]| {
            let Sight { tables, reach } = Sight::of(privileges);
            (tables, reach)
        };
        assert_eq!(sight(&["SUPER", "PROCESS", "CONNECTION ADMIN"]), (false, false));
        assert_eq!(sight(&["SUPER", "SHOW VIEW"]), (true, false));
        assert_eq!(sight(&["EXECUTE"]), (false, false));
        assert_eq!(sight(&["trigger", "execute"]), (true, true));
    }
}
