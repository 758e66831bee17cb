//! What a heartbeat says to a server.
//!
//! Pure text, for a session whose sql_mode is empty.

/// What the session is told first. The server ends it when it says nothing for `idle_s`, so that a table that was locked by a process that has
/// vanished is free again; and ends by itself a wait for a lock that takes longer than `lock_s`. A row of the heartbeat's that somebody else has
/// locked says nothing of the server: that wait ends after a second.
pub fn session(idle_s: u64, lock_s: u64) -> [String; 2] {
    [
        "SET SESSION sql_mode = '', autocommit = 1, innodb_lock_wait_timeout = 1".to_owned(),
        format!("SET SESSION wait_timeout = {idle_s}, lock_wait_timeout = {lock_s}"),
    ]
}

/// What the session is told before [`create`], and behind it with 0: the server ends a statement itself that takes longer. One that waited for a
/// lock until after the server became read only would be carried out there, as the monitor account may.
pub fn limit(seconds: u64) -> String {
    format!("SET SESSION max_statement_time = {seconds}")
}

/// Makes schema and table, on a server that is not read only. It replicates.
pub fn create(schema: &str) -> [String; 2] {
    let table = table(schema);
    let schema = quoted(schema);
    let unless_read_only = |statement: String| {
        format!("BEGIN NOT ATOMIC IF @@GLOBAL.read_only = 0 THEN {statement}; END IF; END")
    };
    [
        unless_read_only(format!("CREATE DATABASE IF NOT EXISTS {schema}")),
        unless_read_only(format!(
            "CREATE TABLE IF NOT EXISTS {table} (node VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
             beats BIGINT UNSIGNED NOT NULL, at TIMESTAMP(6) NOT NULL) ENGINE = InnoDB"
        )),
    ]
}

/// Nobody else makes the server read only until [`UNLOCK`].
pub fn lock(schema: &str) -> String {
    format!("LOCK TABLES {} WRITE", table(schema))
}

/// One row, one column.
pub const IS_READ_ONLY: &str = "SELECT @@GLOBAL.read_only";

/// The row.
pub fn write(schema: &str, node: &str) -> String {
    format!(
        "INSERT INTO {} (node, beats, at) VALUES ('{}', 1, SYSDATE(6)) ON DUPLICATE KEY UPDATE beats = beats + 1, at = VALUES(at)",
        table(schema),
        node.replace('\\', "\\\\").replace('\'', "''")
    )
}

/// The other way.
pub const UNLOCK: &str = "UNLOCK TABLES";

/// Rows of id, state and command: of the sessions with these ids (at least one), and of all that wait at a commit for space or for a replica. Those of other accounts
/// are shown only with PROCESS.
pub fn sessions(ids: impl IntoIterator<Item = u32>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    format!(
        "SELECT ID, STATE, COMMAND FROM information_schema.PROCESSLIST WHERE ID IN ({}) OR STATE LIKE 'Waiting for semi-sync ACK%' \
         OR STATE LIKE 'Waiting for someone to free space%'",
        ids.join(",")
    )
}

/// Changes nothing, and takes the locks of a statement that changes a row: an error at once (1205) where such a one would wait. (Seen in
/// MariaDB's sources: a table that is opened to be written takes MDL_BACKUP_DML, which FLUSH TABLES WITH READ LOCK stops, and BACKUP STAGE BLOCK_DDL
/// does not.)
pub fn would_change(schema: &str) -> String {
    format!(
        "SET STATEMENT lock_wait_timeout = 0 FOR SELECT beats FROM {} WHERE node = '' FOR UPDATE",
        table(schema)
    )
}

/// Rows of name and value: what has been written to the logs. It grows while anything is committed, be it large.
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
