//! Which names in a statement mean that it cannot be rolled back for certain: what the server is asked for that, and what must be true
//! for its answer to be believed.
//!
//! A row written to a table of an engine without transactions stays, whatever becomes of the statement. A view, a trigger or a stored
//! function may reach such a table under another name; so, where there is at least one, every view, every table with a trigger and
//! every stored function counts with it. (A procedure is not listed: a CALL may do anything.)
//!
//! Pure text: the shell sends it. MariaDB and MySQL's family answer all of it. information_schema shows an account only what it has a
//! privilege for, silently: therefore [`PRIVILEGES`] are asked for first (seen on MariaDB 10.11.19: TRIGGER ON *.* shows tables, views
//! and triggers, EXECUTE ON *.* the routines; SUPER and PROCESS show nothing).

/// One column: the global privileges of the account that asks.
pub const PRIVILEGES: &str = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = CONCAT('''', \
    LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)) - 1), \
    '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')";

/// One column: the tables of an engine without transactions. A view has no engine.
pub const TABLES: &str = "SELECT TABLE_NAME FROM information_schema.TABLES \
    WHERE ENGINE NOT IN ('InnoDB', 'XtraDB', 'ROCKSDB', 'TokuDB', 'SEQUENCE') \
    AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// One column: what may reach such a table under another name.
pub const REACH: &str = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'VIEW' \
    AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') \
    UNION SELECT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS \
    WHERE EVENT_OBJECT_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') \
    UNION SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'FUNCTION' \
    AND ROUTINE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// Any of these, held for everything, shows all tables.
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

/// What an account sees, by its global privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// All tables and views.
    pub tables: bool,
    /// All triggers and stored functions, too.
    pub reach: bool,
}

impl Sight {
    /// By the rows of [`PRIVILEGES`].
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
