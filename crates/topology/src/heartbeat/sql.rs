//! The statements of the heartbeat.
//!
//! Pure text, for a session whose sql_mode is empty.

/// Sent when the session begins. The server ends the session after `idle_s` without a statement, so that the table lock of a process that
/// has vanished is released. It ends a wait for a table lock after `lock_s`, and for a row lock after a second, since a row of the
/// heartbeat's own that somebody has locked says nothing about the server.
pub fn session(idle_s: u64, lock_s: u64) -> [String; 2] {
    [
        "SET SESSION sql_mode = '', autocommit = 1, innodb_lock_wait_timeout = 1".to_owned(),
        format!("SET SESSION wait_timeout = {idle_s}, lock_wait_timeout = {lock_s}"),
    ]
}

/// Sent before [`create`], and after it with 0: the server ends a statement that takes longer. A statement that waited for a lock while the
/// server became read only would otherwise still be carried out, since the monitor account may write on a read-only server.
pub fn limit(seconds: u64) -> String {
    format!("SET SESSION max_statement_time = {seconds}")
}

/// Creates schema and table, on a server that is not read only. They are replicated.
pub fn create(schema: &str) -> [String; 2] {
    let table = table(schema);
    let schema = quoted(schema);
    let unless_read_only = |statement: String| {
        format!("BEGIN NOT ATOMIC IF NOT ({}) THEN {statement}; END IF; END", is_read_only!())
    };
    [
        unless_read_only(format!("CREATE DATABASE IF NOT EXISTS {schema}")),
        unless_read_only(format!(
            "CREATE TABLE IF NOT EXISTS {table} (node VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
             beats BIGINT UNSIGNED NOT NULL, at TIMESTAMP(6) NOT NULL) ENGINE = InnoDB"
        )),
    ]
}

/// While this lock is held, nobody can make the server read only. Ends with [`UNLOCK`].
pub fn lock(schema: &str) -> String {
    format!("LOCK TABLES {} WRITE", table(schema))
}

/// One row, one column.
pub const IS_READ_ONLY: &str = concat!("SELECT ", is_read_only!());

/// Writes the row.
pub fn write(schema: &str, node: &str) -> String {
    format!(
        "INSERT INTO {} (node, beats, at) VALUES ('{}', 1, SYSDATE(6)) ON DUPLICATE KEY UPDATE beats = beats + 1, at = VALUES(at)",
        table(schema),
        node.replace('\\', "\\\\").replace('\'', "''")
    )
}

/// Ends [`lock`].
pub const UNLOCK: &str = "UNLOCK TABLES";

/// Rows of id, state and command: of the sessions with these ids (at least one), and of all sessions that wait at a commit for disk space
/// or for a replica. Other accounts' sessions are shown only with PROCESS.
pub fn sessions(ids: impl IntoIterator<Item = u32>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    format!(
        "SELECT ID, STATE, COMMAND FROM information_schema.PROCESSLIST WHERE ID IN ({}) OR STATE LIKE 'Waiting for semi-sync ACK%' \
         OR STATE LIKE 'Waiting for someone to free space%'",
        ids.join(",")
    )
}

/// Changes nothing, but takes the locks of a statement that changes a row. Where such a statement would wait, this one fails at once with
/// error 1205. (MariaDB's source: a table that is opened for writing takes MDL_BACKUP_DML, which FLUSH TABLES WITH READ LOCK blocks and
/// BACKUP STAGE BLOCK_DDL does not.)
pub fn would_change(schema: &str) -> String {
    format!(
        "SET STATEMENT lock_wait_timeout = 0 FOR SELECT beats FROM {} WHERE node = '' FOR UPDATE",
        table(schema)
    )
}

/// Rows of name and value: bytes written to the logs. They grow also during a single large commit.
pub const WRITTEN: &str =
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Binlog_bytes_written','Innodb_os_log_written')";

/// Galera: how many transactions of a thousand rows or more wait at their commit. Needs PROCESS.
pub const LARGE: &str = "SELECT COUNT(*) FROM information_schema.INNODB_TRX JOIN information_schema.PROCESSLIST ON ID = trx_mysql_thread_id \
    WHERE STATE LIKE 'Waiting for certification%' AND trx_rows_modified >= 1000";

/// Ends a session of the same account.
pub fn kill(id: u32) -> String {
    format!("KILL {id}")
}

fn table(schema: &str) -> String {
    format!("{}.heartbeat", quoted(schema))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_they_end() {
        assert_eq!(lock("a`b"), "LOCK TABLES `a``b`.heartbeat WRITE");
        assert!(write("s", r"d'\b").contains(r"VALUES ('d''\\b', 1,"));
    }
}
