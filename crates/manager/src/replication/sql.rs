//! Statements of the orders that hold a value, beside those in [`topology::replication::sql`].
//!
//! Pure text, for a session whose sql_mode is empty.

/// Whether it acknowledges, and whether it waits for acknowledgements. No rows where a server knows no semi-synchronous replication.
pub const SEMI_SYNC: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('rpl_semi_sync_slave_enabled','rpl_semi_sync_master_enabled')";

/// A commit waits for a replica from then on. Needs REPLICATION MASTER ADMIN. Never on a server that applies: its applier would wait for
/// acknowledgements that nobody gives it.
pub const WAIT_FOR_REPLICAS: &str = "SET GLOBAL rpl_semi_sync_master_enabled = ON";

/// The other way.
pub const WAIT_FOR_NOBODY: &str = "SET GLOBAL rpl_semi_sync_master_enabled = OFF";

/// The sessions whose commits wait for an acknowledgement. Those of other accounts are shown only with PROCESS.
pub const UNACKNOWLEDGED: &str =
    "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%'";

/// The sessions that wait for space on a full disk: each tries again after a minute, and all other commits behind it.
pub const WITHOUT_SPACE: &str =
    "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for someone to free space%'";

/// Ends a session. Its commit is not taken back. Needs CONNECTION ADMIN.
pub fn kill(id: u64) -> String {
    format!("KILL {id}")
}

/// How long a replica that acknowledges may take to tell its source that it stops; one row, or none.
pub const GOODBYE: &str = "SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_slave\\_kill\\_conn\\_timeout'";

/// The name in that row.
pub const GOODBYE_LIMIT: &str = "rpl_semi_sync_slave_kill_conn_timeout";

/// Sets it. Needs REPLICATION SLAVE ADMIN.
pub fn goodbye(seconds: u64) -> String {
    format!("SET GLOBAL {GOODBYE_LIMIT} = {seconds}")
}

/// How many orders are carried out in other sessions of this account; its questions are none.
pub const OTHER_ORDERS: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() \
    AND USER = SUBSTRING_INDEX(USER(), '@', 1) AND INFO REGEXP '^(STOP|START|CHANGE|RESET|SET GLOBAL|BEGIN)'";

/// Has the thread that fetches make its connection anew. `limit`: of its goodbye, where it is to be shorter meanwhile.
pub fn reconnect(limit: Option<u64>) -> String {
    let put = |seconds: u64| format!("{};", goodbye(seconds));
    let (before, after) = limit.map_or_else(Default::default, |limit| (put(1), put(limit)));
    let (stop, start) =
        (topology::replication::sql::STOP_FETCHING, topology::replication::sql::START_FETCHING);
    format!("BEGIN NOT ATOMIC {before} {stop}; {start}; {after} END")
}

/// The server's clock, in seconds.
pub const CLOCK: &str = "SELECT UNIX_TIMESTAMP(SYSDATE(6))";

/// As [`topology::replication::sql::WRITABLE`], if the server's clock has not reached `clock_s` when it comes to it. A server that stood still
/// carries out later what it was sent before; by then another may be the primary.
pub fn writable_before(clock_s: f64) -> String {
    format!(
        "BEGIN NOT ATOMIC IF UNIX_TIMESTAMP(SYSDATE(6)) < {clock_s:.6} THEN {}; END IF; END",
        topology::replication::sql::WRITABLE
    )
}

/// The server no longer follows the source of that name.
pub fn forget(channel: &str) -> String {
    if channel.is_empty() {
        topology::replication::sql::FORGET_SOURCE.to_owned()
    } else {
        format!("RESET SLAVE {} ALL", text(channel))
    }
}

/// Where and how to fetch from now on. Fetching begins at gtid_slave_pos. A source that is gone is tried each second; one that has nothing
/// to send says so each second.
pub fn change_source(host: &str, port: u16, user: &str, password: &str) -> String {
    format!(
        "CHANGE MASTER TO MASTER_HOST = {}, MASTER_PORT = {port}, MASTER_USER = {}, MASTER_PASSWORD = {}, \
         MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1",
        text(host),
        text(user),
        text(password)
    )
}

/// A string literal. CHANGE MASTER takes no other form: no hexadecimal one, no variable.
fn text(value: &str) -> String {
    let mut literal = String::from("'");
    for character in value.chars() {
        match character {
            '\'' => literal.push_str("''"),
            '\\' => literal.push_str("\\\\"),
            '\0' => literal.push_str("\\0"),
            other => literal.push(other),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_ends_where_its_value_ends() {
        assert_eq!(text(r"it's \ 'it'"), r"'it''s \\ ''it'''");
        assert_eq!(forget("east"), "RESET SLAVE 'east' ALL");
        assert_eq!(forget(""), "RESET SLAVE ALL");
    }
}
