//! Statements of the orders that both families understand, in addition to those in [`topology::replication::sql`].
//!
//! Pure text, for a session whose sql_mode is empty.

/// The sessions whose commits wait for an acknowledgement ("... from slave", "... from replica"). Other accounts' sessions are shown only
/// with PROCESS.
pub const UNACKNOWLEDGED: &str =
    "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%'";

/// MySQL: the sessions whose commits wait for an acknowledgement, for their own or for that of the group or of the group before: only one session of a
/// group shows that it waits. Without those that were killed before.
pub const COMMITTING: &str = "SELECT ID FROM information_schema.PROCESSLIST \
    WHERE (STATE LIKE 'Waiting for semi-sync ACK%' OR STATE = 'waiting for handler commit') AND COMMAND <> 'Killed' \
    AND USER <> 'system user' AND USER <> SUBSTRING_INDEX(USER(), '@', 1)";

/// The clients' sessions that wait for space on a full disk: each tries again after a minute, and all other commits wait behind it. The
/// second state is MySQL's.
pub const WITHOUT_SPACE: &str = "SELECT ID FROM information_schema.PROCESSLIST \
    WHERE (STATE LIKE 'Waiting for someone to free space%' OR STATE LIKE 'Waiting for disk space%') AND USER <> 'system user'";

/// The sessions of clients in a transaction that holds locks on rows or has changed some; neither replication's own threads nor this account's
/// sessions. Needs PROCESS.
pub const WITH_LOCKS: &str = "SELECT P.ID FROM information_schema.INNODB_TRX T \
    JOIN information_schema.PROCESSLIST P ON P.ID = T.TRX_MYSQL_THREAD_ID \
    WHERE (T.TRX_ROWS_LOCKED > 0 OR T.TRX_ROWS_MODIFIED > 0) AND P.USER <> 'system user' AND P.COMMAND <> 'Killed' \
    AND P.USER <> SUBSTRING_INDEX(USER(), '@', 1)";

/// The sessions that wait until a position is reached. Without PROCESS only this account's are shown.
pub const WAITING_FOR_A_POSITION: &str =
    "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting in MASTER_GTID_WAIT()%'";

/// Ends what a session runs. Needs CONNECTION ADMIN.
pub fn kill_query(id: u64) -> String {
    format!("KILL QUERY {id}")
}

/// Ends a session. Its commit is not undone. Needs CONNECTION ADMIN.
pub fn kill(id: u64) -> String {
    format!("KILL {id}")
}

/// How long an acknowledging replica may take to tell its source that it stops; one row, or none: MySQL has no such limit.
pub const GOODBYE: &str = "SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_slave\\_kill\\_conn\\_timeout'";

/// The name in that row.
pub const GOODBYE_LIMIT: &str = "rpl_semi_sync_slave_kill_conn_timeout";

/// Sets it. Needs REPLICATION SLAVE ADMIN.
pub fn goodbye(seconds: u64) -> String {
    format!("SET GLOBAL {GOODBYE_LIMIT} = {seconds}")
}

/// How many orders are being carried out in other sessions of this account; its questions do not count.
pub const OTHER_ORDERS: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() \
    AND USER = SUBSTRING_INDEX(USER(), '@', 1) AND INFO REGEXP '^(STOP|START|CHANGE|RESET|SET GLOBAL|BEGIN)'";

/// The server's clock, in seconds.
pub const CLOCK: &str = "SELECT UNIX_TIMESTAMP(SYSDATE(6))";
