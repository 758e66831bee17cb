//! What a server of a primary-replica setup is asked and told, on MariaDB.
//!
//! Pure text: the shell sends it. Each answer is read by name, so that a server that lacks one of the values simply does not say it.

/// Rows of name and value: what [`super::ReplicationStatus`] holds of settings and positions. 0.5 ms on MariaDB 10.11.
pub const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id','read_only','log_bin','log_slave_updates',\
    'gtid_strict_mode','binlog_format','gtid_current_pos','gtid_binlog_state','wsrep_on','rpl_semi_sync_master_enabled','rpl_semi_sync_slave_enabled')";

/// Rows of name and value: the status half.
pub const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_status','Rpl_semi_sync_master_clients',\
    'Rpl_semi_sync_slave_status','Threads_connected')";

/// No statement of an account without READ ONLY ADMIN changes data from then on. It waits for what commits just now, and for tables that
/// are locked. Needs READ ONLY ADMIN (SUPER before MariaDB 10.11).
pub const READ_ONLY: &str = "SET GLOBAL read_only = ON";

/// The other way.
pub const WRITABLE: &str = "SET GLOBAL read_only = OFF";

/// One row: read_only, and all that has been written or applied.
pub const STANDING: &str = "SELECT @@GLOBAL.read_only AS read_only, @@GLOBAL.gtid_current_pos AS position";

/// The thread that fetches ends; what it has received is applied on. Needs REPLICATION SLAVE ADMIN.
pub const STOP_FETCHING: &str = "STOP ALL SLAVES IO_THREAD";

/// The thread that fetches begins; with [`STOP_FETCHING`] before it, its connection is made anew.
pub const START_FETCHING: &str = "START ALL SLAVES IO_THREAD";

/// Both threads end.
pub const STOP: &str = "STOP ALL SLAVES";

/// The server follows nobody any more. What it had received and not applied is thrown away with the relay log.
pub const FORGET_SOURCE: &str = "RESET SLAVE ALL";

/// What is applied counts as the place to go on from, for a server that wrote by itself.
pub const FROM_WHERE_IT_STANDS: &str = "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_current_pos";

/// Both threads begin.
pub const START: &str = "START SLAVE";

/// Waits until `position` is applied, at the most so long; one row, one column: 0 when it is, -1 when the time is over. `None` when
/// `position` is not MariaDB's.
pub fn wait_for(position: &str, seconds: f64) -> Option<String> {
    let sane = position.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b','));
    sane.then(|| format!("SELECT MASTER_GTID_WAIT('{position}', {seconds:.3})"))
}

/// Where and how to fetch from now on.
pub fn change_source(host: &str, port: u16, user: &str, password: &str) -> String {
    format!(
        "CHANGE MASTER TO MASTER_HOST = {}, MASTER_PORT = {port}, MASTER_USER = {}, MASTER_PASSWORD = {}, \
         MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1",
        text(host),
        text(user),
        text(password)
    )
}

/// A string literal, under whatever sql_mode.
fn text(value: &str) -> String {
    use std::fmt::Write as _;
    let mut hex = String::from("_utf8mb4 0x");
    for byte in value.bytes() {
        let _ = write!(hex, "{byte:02X}");
    }
    if value.is_empty() { "''".to_owned() } else { hex }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_position_is_waited_for() {
        assert_eq!(
            wait_for("0-1-5,1-2-7", 1.5).as_deref(),
            Some("SELECT MASTER_GTID_WAIT('0-1-5,1-2-7', 1.500)")
        );
        assert_eq!(wait_for("0-1-5'; DROP", 1.0), None);
    }
}
