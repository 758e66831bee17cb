//! The statements for a server of a primary-replica setup, in each [`Dialect`].
//!
//! Pure text: the shell sends it. Each answer is read by name, so that a server simply leaves out a value that it does not have. Texts with
//! values in them are for a session whose sql_mode is empty.
//!
//! Sources: for MariaDB its knowledge base, and what was seen on 10.11.19; for MySQL the pages of its Reference Manual 8.4 that are named by
//! their titles below.

use crate::flavor::Dialect;

/// Rows of name and value: the settings in [`super::ReplicationStatus`]. 0.5 ms on MariaDB 10.11. Positions are not among them: SHOW cuts long
/// values off (MariaDB 10.11 after 4,096 bytes, seen; MySQL: see `MYSQL_VARIABLES`), and a set of GTIDs that is cut off is another set.
/// [`positions`] asks for those.
pub fn variables(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => VARIABLES,
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => MYSQL_VARIABLES,
    }
}

/// Rows of name and value, for a server whose family is not known yet: MariaDB's names, of which MySQL answers those that it knows.
pub const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id','read_only','log_bin','log_slave_updates',\
    'gtid_strict_mode','binlog_format','event_scheduler','wsrep_on','rpl_semi_sync_master_enabled','rpl_semi_sync_slave_enabled',\
    'rpl_semi_sync_master_timeout','rpl_semi_sync_master_wait_no_slave','sync_binlog','innodb_flush_log_at_trx_commit','autocommit','sql_mode')";

/// MySQL has its older names beside the newer ones in some versions and not in others, and a plugin's names only where that is installed.
/// `gtid_executed` is not among them: "SHOW VARIABLES Statement" says that long values are cut off, after 1024 characters in
/// performance_schema ("Performance Schema System Variable Tables").
const MYSQL_VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version','server_id','read_only','super_read_only','log_bin',\
    'log_replica_updates','log_slave_updates','gtid_mode','enforce_gtid_consistency','binlog_format','rpl_semi_sync_source_enabled',\
    'rpl_semi_sync_replica_enabled','rpl_semi_sync_master_enabled','rpl_semi_sync_slave_enabled','rpl_semi_sync_source_timeout',\
    'rpl_semi_sync_master_timeout','rpl_semi_sync_source_wait_no_replica','rpl_semi_sync_master_wait_no_slave','wsrep_on','rpl_semi_sync_source_wait_for_replica_count','rpl_semi_sync_master_wait_for_slave_count','sync_binlog','innodb_flush_log_at_trx_commit','autocommit','sql_mode')";

/// One row, read by column name in addition to [`variables`]: the positions, whole. MySQL: "GTID Format and Storage", "Replication and Binary
/// Logging Options and Variables" (`server_uuid`, `gtid_owned`). What is being committed is read before what is committed, so that none is missed.
pub fn positions(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => POSITIONS,
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => {
            "SELECT @@GLOBAL.server_uuid AS server_uuid, @@GLOBAL.gtid_owned AS gtid_owned, @@GLOBAL.gtid_executed AS gtid_executed"
        }
    }
}

/// The positions on MariaDB.
pub const POSITIONS: &str = "SELECT @@GLOBAL.gtid_current_pos AS gtid_current_pos, @@GLOBAL.gtid_slave_pos AS gtid_slave_pos, \
     @@GLOBAL.gtid_binlog_state AS gtid_binlog_state";

/// The status variables of MariaDB on which decisions depend.
macro_rules! mariadb {
    () => {
        "'Rpl_semi_sync_master_status','Rpl_semi_sync_master_clients','Rpl_semi_sync_master_wait_sessions','Rpl_semi_sync_master_yes_tx',\
         'Rpl_semi_sync_slave_status','Threads_connected','Uptime'"
    };
}

/// The same for MySQL: "Server Status Variables"; the names with `source` and `replica` are those of the plugins since 8.0.26, which may be
/// installed instead of the older ones ("Installing Semisynchronous Replication").
macro_rules! mysql {
    () => {
        "'Rpl_semi_sync_source_status','Rpl_semi_sync_source_clients','Rpl_semi_sync_source_wait_sessions','Rpl_semi_sync_source_yes_tx',\
         'Rpl_semi_sync_replica_status','Rpl_semi_sync_master_status','Rpl_semi_sync_master_clients',\
         'Rpl_semi_sync_master_wait_sessions','Rpl_semi_sync_master_yes_tx','Rpl_semi_sync_slave_status','Threads_connected','Uptime'"
    };
}

/// Rows of name and value: the status variables. With `is_counted` also the counters that are sampled.
pub fn status(dialect: Dialect, is_counted: bool) -> &'static str {
    match (dialect, is_counted) {
        (Dialect::MariaDb, false) => STATUS,
        (Dialect::MariaDb, true) => {
            concat!("SHOW GLOBAL STATUS WHERE Variable_name IN (", mariadb!(), ",", counted!(), ")")
        }
        (Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql, false) => {
            concat!("SHOW GLOBAL STATUS WHERE Variable_name IN (", mysql!(), ")")
        }
        (Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql, true) => {
            concat!("SHOW GLOBAL STATUS WHERE Variable_name IN (", mysql!(), ",", counted!(), ")")
        }
    }
}

/// The status variables on MariaDB.
pub const STATUS: &str = concat!("SHOW GLOBAL STATUS WHERE Variable_name IN (", mariadb!(), ")");

/// One row for each replication channel, read with [`super::channel()`]. Needs SLAVE MONITOR (MariaDB) or REPLICATION CLIENT (MySQL: "SHOW
/// REPLICA STATUS Statement", since 8.0.22; before, "SHOW SLAVE STATUS Statement").
pub fn channels(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => "SHOW ALL SLAVES STATUS",
        Dialect::MySql57 | Dialect::MySql80 => "SHOW SLAVE STATUS",
        Dialect::MySql => "SHOW REPLICA STATUS",
    }
}

/// One row for each channel that is connected and is not in the middle of a transaction: its name, after how long without anything else its source
/// sends a heartbeat, and for how long it has received nothing, both in milliseconds. `None` where a server does not say that. MySQL: "The
/// replication_connection_status Table", "The replication_connection_configuration Table"; needs SELECT on both.
pub fn heard(dialect: Dialect) -> Option<&'static str> {
    // Without the hint, both times are local ones, and wrong by an hour for a moment twice a year.
    (dialect == Dialect::MySql).then_some(
        "SELECT /*+ SET_VAR(time_zone = '+00:00') */ CHANNEL_NAME, ROUND(HEARTBEAT_INTERVAL * 1000) AS heartbeat_ms, \
         TIMESTAMPDIFF(MICROSECOND, GREATEST(LAST_HEARTBEAT_TIMESTAMP, LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP), NOW(6)) DIV 1000 \
         AS heard_ago_ms FROM performance_schema.replication_connection_status \
         JOIN performance_schema.replication_connection_configuration USING (CHANNEL_NAME) \
         WHERE SERVICE_STATE = 'ON' AND QUEUEING_TRANSACTION = ''",
    )
}

/// A condition: MySQL notes the locks that its sessions hold ("The metadata_locks Table").
pub const NOTES_LOCKS: &str = "@@performance_schema_max_metadata_locks <> 0 \
    AND EXISTS(SELECT 1 FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl' AND ENABLED = 'YES')";

/// Whether this account may read which user variables and locks by name other sessions have, and the server notes them: 1 or 0. MySQL refuses the
/// question where it does not let the account read its tables ("The user_variables_by_thread Table", "The metadata_locks Table"), and where it
/// is older than 8.0.16 (`PS_THREAD_ID`). `None` for MariaDB, where each session may read its own.
pub fn shows_sessions(dialect: Dialect) -> Option<String> {
    (dialect == Dialect::MySql).then(|| {
        format!(
        "SELECT @@performance_schema AND PS_THREAD_ID(CONNECTION_ID()) IS NOT NULL \
         AND EXISTS(SELECT 1 FROM performance_schema.setup_consumers WHERE NAME = 'global_instrumentation' AND ENABLED = 'YES') \
         AND {NOTES_LOCKS} \
         AND NOT EXISTS(SELECT 1 FROM performance_schema.user_variables_by_thread WHERE THREAD_ID = 0) \
         AND NOT EXISTS(SELECT 1 FROM performance_schema.metadata_locks WHERE OWNER_THREAD_ID = 0) \
         AND NOT EXISTS(SELECT 1 FROM performance_schema.threads WHERE THREAD_ID = 0)",
        )
    })
}

/// From then on, no client's statement changes data. Waits for commits in progress, and for locked tables.
///
/// MariaDB: except for accounts with READ ONLY ADMIN, which this needs itself (SUPER before 10.11). MySQL: without exception;
/// `super_read_only` sets `read_only`, too; needs SYSTEM_VARIABLES_ADMIN (SUPER in 5.7) ("Server System Variables").
pub fn read_only(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => "SET GLOBAL read_only = ON",
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => "SET GLOBAL super_read_only = ON",
    }
}

/// Makes the server writable, if its clock has not reached `clock_s` when it runs the statement: a server that was stopped runs later what
/// it was sent before, and by then another may be the primary. Otherwise nothing changes.
///
/// MySQL has no blocks outside stored code: the value itself depends on the clock. `read_only = OFF` turns super_read_only off, too
/// ("Server System Variables"); SYSDATE is the time at which it is evaluated ("Date and Time Functions").
pub fn writable_before(dialect: Dialect, clock_s: f64) -> String {
    match dialect {
        Dialect::MariaDb => format!(
            "BEGIN NOT ATOMIC IF UNIX_TIMESTAMP(SYSDATE(6)) < {clock_s:.6} THEN SET GLOBAL read_only = OFF; END IF; END"
        ),
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => {
            format!(
                "SET GLOBAL read_only = IF(UNIX_TIMESTAMP(SYSDATE(6)) < {clock_s:.6}, 0, @@GLOBAL.read_only)"
            )
        }
    }
}

/// One row: read_only, and all that was written or applied.
pub fn standing(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => {
            concat!("SELECT ", is_read_only!(), " AS read_only, @@GLOBAL.gtid_current_pos AS position")
        }
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => {
            concat!("SELECT ", is_read_only!(), " AS read_only, @@GLOBAL.gtid_executed AS position")
        }
    }
}

/// Limits the time of the session's statements. MariaDB ends any statement; MySQL's max_execution_time is for reads only ("Server System
/// Variables"), but a statement that waits for locks (becoming read only takes two) gives up after lock_wait_timeout, which has whole
/// seconds, at least one.
pub fn limit(dialect: Dialect, seconds: f64) -> String {
    match dialect {
        // Zero would be no limit.
        Dialect::MariaDb => format!("SET SESSION max_statement_time = {:.3}", seconds.max(0.001)),
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => {
            format!("SET SESSION lock_wait_timeout = {:.0}", seconds.floor().max(1.0))
        }
    }
}

/// Whether a statement ended with this error because that time was over: ER_STATEMENT_TIMEOUT, or ER_LOCK_WAIT_TIMEOUT.
pub fn is_limit_error(dialect: Dialect, errno: u16) -> bool {
    match dialect {
        Dialect::MariaDb => errno == 1969,
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => errno == 1205,
    }
}

/// Stops the I/O thread; what was received is still applied. Needs REPLICATION SLAVE ADMIN, MySQL's REPLICATION_SLAVE_ADMIN (SUPER in 5.7)
/// ("STOP REPLICA Statement": without FOR CHANNEL, those of all channels).
pub fn stop_fetching(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => "STOP ALL SLAVES IO_THREAD",
        Dialect::MySql57 | Dialect::MySql80 => "STOP SLAVE IO_THREAD",
        Dialect::MySql => "STOP REPLICA IO_THREAD",
    }
}

/// Starts the I/O thread; after [`stop_fetching`] it reconnects.
pub fn start_fetching(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => "START ALL SLAVES IO_THREAD",
        Dialect::MySql57 | Dialect::MySql80 => "START SLAVE IO_THREAD",
        Dialect::MySql => "START REPLICA IO_THREAD",
    }
}

/// Stops both threads.
pub fn stop(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => "STOP ALL SLAVES",
        Dialect::MySql57 | Dialect::MySql80 => "STOP SLAVE",
        Dialect::MySql => "STOP REPLICA",
    }
}

/// Starts both threads ("START REPLICA Statement").
pub fn start(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb | Dialect::MySql57 | Dialect::MySql80 => "START SLAVE",
        Dialect::MySql => "START REPLICA",
    }
}

/// Removes the channel of that name. What was received and not applied is deleted with the relay log. Needs RELOAD ("RESET REPLICA Statement").
pub fn forget(dialect: Dialect, channel: &str) -> String {
    match (dialect, channel) {
        (Dialect::MariaDb | Dialect::MySql57 | Dialect::MySql80, "") => "RESET SLAVE ALL".to_owned(),
        (Dialect::MySql, "") => "RESET REPLICA ALL".to_owned(),
        (Dialect::MariaDb, name) => format!("RESET SLAVE {} ALL", text(name)),
        (Dialect::MySql57 | Dialect::MySql80, name) => format!("RESET SLAVE ALL FOR CHANNEL {}", text(name)),
        (Dialect::MySql, name) => format!("RESET REPLICA ALL FOR CHANNEL {}", text(name)),
    }
}

/// For a server that was a primary: makes its own position the one from which it continues as a replica. MySQL's auto position uses
/// gtid_executed anyway ("GTID Auto-Positioning").
pub fn from_where_it_stands(dialect: Dialect) -> Option<&'static str> {
    (dialect == Dialect::MariaDb).then_some("SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_current_pos")
}

/// Sets the source, to fetch from the applied position on. A source that is gone is tried each second, without limit; one that has nothing
/// to send sends a heartbeat each second, on MySQL more often: see [`Channel::silent_after`](super::Channel::silent_after).
///
/// MySQL: "CHANGE REPLICATION SOURCE TO Statement", "CHANGE MASTER TO Statement". The number of tries must be set, since 8.4 gives up after
/// ten. The source's public key is requested, since a login by caching_sha2_password without TLS needs it. `is_under_tls`: a source without TLS is
/// not followed; otherwise what the server was last told of TLS stays.
pub fn change_source(
    dialect: Dialect,
    (host, port): (&str, u16),
    user: &str,
    password: &str,
    is_under_tls: bool,
) -> String {
    let heartbeat_s = if dialect == Dialect::MySql { "0.3" } else { "1" };
    let (statement, of, rest) = match dialect {
        Dialect::MariaDb => ("CHANGE MASTER TO", "MASTER", "MASTER_USE_GTID = slave_pos"),
        Dialect::MySql57 => {
            ("CHANGE MASTER TO", "MASTER", "MASTER_AUTO_POSITION = 1, MASTER_RETRY_COUNT = 86400")
        }
        Dialect::MySql80 => (
            "CHANGE MASTER TO",
            "MASTER",
            "MASTER_AUTO_POSITION = 1, MASTER_RETRY_COUNT = 86400, GET_MASTER_PUBLIC_KEY = 1",
        ),
        Dialect::MySql => (
            "CHANGE REPLICATION SOURCE TO",
            "SOURCE",
            "SOURCE_AUTO_POSITION = 1, SOURCE_RETRY_COUNT = 86400, GET_SOURCE_PUBLIC_KEY = 1",
        ),
    };
    let tls = if is_under_tls { format!(", {of}_SSL = 1") } else { String::new() };
    format!(
        "{statement} {of}_HOST = {}, {of}_PORT = {port}, {of}_USER = {}, {of}_PASSWORD = {}, {rest}, \
         {of}_CONNECT_RETRY = 1, {of}_HEARTBEAT_PERIOD = {heartbeat_s}{tls}",
        text(host),
        text(user),
        text(password)
    )
}

/// Waits until `position` is applied, for a limited time; one row, one column: 0 when it is, another number when the time is over. `None`
/// when `position` is not of the dialect's family.
///
/// MySQL: "Functions Used with Global Transaction Identifiers (GTIDs)". Without a time it waits for ever, and 0 is not a time; the server
/// also ends the read by itself ("Optimizer Hints").
pub fn wait_for(dialect: Dialect, position: &str, seconds: f64) -> Option<String> {
    let is_of_set = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b',' | b':' | b'_');
    match dialect {
        Dialect::MariaDb => {
            let is_sane = position.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b','));
            is_sane.then(|| format!("SELECT MASTER_GTID_WAIT('{position}', {seconds:.3})"))
        }
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => position.bytes().all(is_of_set).then(|| {
            let (seconds, ms) = (seconds.max(0.001), (seconds * 1e3).max(1.0) + 50.0);
            format!("SELECT /*+ MAX_EXECUTION_TIME({ms:.0}) */ WAIT_FOR_EXECUTED_GTID_SET('{position}', {seconds:.3})")
        }),
    }
}

/// Whether it acknowledges, and whether it waits for acknowledgements. No rows on a server without semi-synchronous replication.
pub fn semi_sync(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => {
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('rpl_semi_sync_slave_enabled','rpl_semi_sync_master_enabled')"
        }
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => {
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('rpl_semi_sync_replica_enabled','rpl_semi_sync_source_enabled',\
             'rpl_semi_sync_slave_enabled','rpl_semi_sync_master_enabled')"
        }
    }
}

/// The names of the two, the newer ones first: acknowledges, waits.
pub const SEMI_SYNC_NAMES: [(&str, &str); 2] = [
    ("rpl_semi_sync_replica_enabled", "rpl_semi_sync_source_enabled"),
    ("rpl_semi_sync_slave_enabled", "rpl_semi_sync_master_enabled"),
];

/// Restarts the I/O thread, so that it reconnects. `goodbye`: statements around it that shorten the replica's message to its old source. On
/// MariaDB it is one statement, which the server completes whatever becomes of its sender. MySQL has no such statement; a thread that stays
/// stopped is started by the next order to follow.
pub fn reconnect(dialect: Dialect, goodbye: Option<(&str, &str)>) -> Vec<String> {
    let (stop, start) = (stop_fetching(dialect), start_fetching(dialect));
    match (dialect, goodbye) {
        (Dialect::MariaDb, goodbye) => {
            let put = |statement: &str| format!("{statement};");
            let (before, after) =
                goodbye.map_or_else(Default::default, |(before, after)| (put(before), put(after)));
            vec![format!("BEGIN NOT ATOMIC {before} {stop}; {start}; {after} END")]
        }
        (_, None) => vec![stop.to_owned(), start.to_owned()],
        (_, Some((before, after))) => [before, stop, start, after].map(ToOwned::to_owned).to_vec(),
    }
}

/// A string literal, for an empty sql_mode. CHANGE MASTER accepts no other form: neither hexadecimal nor a variable.
pub(super) fn text(value: &str) -> String {
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

    const MYSQL: [Dialect; 3] = [Dialect::MySql57, Dialect::MySql80, Dialect::MySql];

    #[test]
    fn only_a_position_is_waited_for() {
        let wait = |dialect, position| wait_for(dialect, position, 1.5);
        assert_eq!(
            wait(Dialect::MariaDb, "0-1-5,1-2-7").as_deref(),
            Some("SELECT MASTER_GTID_WAIT('0-1-5,1-2-7', 1.500)")
        );
        assert_eq!(wait(Dialect::MariaDb, "0-1-5'; DROP"), None);
        let set = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:a_tag:7";
        assert_eq!(wait(Dialect::MariaDb, set), None);
        for dialect in MYSQL {
            let want =
                format!("SELECT /*+ MAX_EXECUTION_TIME(1550) */ WAIT_FOR_EXECUTED_GTID_SET('{set}', 1.500)");
            assert_eq!(wait(dialect, set), Some(want));
            assert_eq!(wait(dialect, "x'; DROP"), None);
        }
        assert!(
            wait_for(Dialect::MySql, set, 0.0).is_some_and(|wait| wait.ends_with(" 0.001)")),
            "0 is for ever"
        );
    }

    #[test]
    fn a_literal_ends_where_its_value_ends() {
        assert_eq!(text(r"it's \ 'it'"), r"'it''s \\ ''it'''");
        assert_eq!(forget(Dialect::MariaDb, "east"), "RESET SLAVE 'east' ALL");
        assert_eq!(forget(Dialect::MariaDb, ""), "RESET SLAVE ALL");
        assert_eq!(forget(Dialect::MySql80, "e'"), "RESET SLAVE ALL FOR CHANNEL 'e'''");
        assert_eq!(forget(Dialect::MySql, "east"), "RESET REPLICA ALL FOR CHANNEL 'east'");
    }

    #[test]
    fn each_version_is_told_in_its_own_words() {
        let change = |dialect| change_source(dialect, ("db1", 3306), "repl", r"p'\", false);
        let under_tls = |dialect| change_source(dialect, ("db1", 3306), "repl", "p", true);
        assert!(under_tls(Dialect::MariaDb).ends_with(", MASTER_SSL = 1"));
        assert!(under_tls(Dialect::MySql).ends_with(", SOURCE_SSL = 1"));
        assert_eq!(
            change(Dialect::MariaDb),
            r"CHANGE MASTER TO MASTER_HOST = 'db1', MASTER_PORT = 3306, MASTER_USER = 'repl', MASTER_PASSWORD = 'p''\\', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1"
        );
        assert_eq!(
            change(Dialect::MySql57),
            r"CHANGE MASTER TO MASTER_HOST = 'db1', MASTER_PORT = 3306, MASTER_USER = 'repl', MASTER_PASSWORD = 'p''\\', MASTER_AUTO_POSITION = 1, MASTER_RETRY_COUNT = 86400, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1"
        );
        assert!(change(Dialect::MySql80).contains("GET_MASTER_PUBLIC_KEY = 1"));
        assert_eq!(
            change(Dialect::MySql),
            r"CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'db1', SOURCE_PORT = 3306, SOURCE_USER = 'repl', SOURCE_PASSWORD = 'p''\\', SOURCE_AUTO_POSITION = 1, SOURCE_RETRY_COUNT = 86400, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_HEARTBEAT_PERIOD = 0.3"
        );
        // Nothing that 8.4 removed is said to it, and nothing new to what came before.
        let said = |dialect| {
            let mut said = vec![
                channels(dialect).to_owned(),
                stop_fetching(dialect).to_owned(),
                start_fetching(dialect).to_owned(),
                stop(dialect).to_owned(),
                start(dialect).to_owned(),
                forget(dialect, ""),
                forget(dialect, "x"),
                change(dialect),
            ];
            said.extend(reconnect(dialect, None));
            said.join("\n")
        };
        let old = ["SLAVE", "MASTER"];
        assert!(old.iter().all(|word| !said(Dialect::MySql).contains(word)), "{}", said(Dialect::MySql));
        for dialect in [Dialect::MariaDb, Dialect::MySql57, Dialect::MySql80] {
            let new = ["REPLICA ", "REPLICATION", "SOURCE"];
            assert!(new.iter().all(|word| !said(dialect).contains(word)), "{}", said(dialect));
        }
    }

    #[test]
    fn to_become_writable_has_a_limit_in_time_in_each_family() {
        assert_eq!(
            writable_before(Dialect::MariaDb, 5.25),
            "BEGIN NOT ATOMIC IF UNIX_TIMESTAMP(SYSDATE(6)) < 5.250000 THEN SET GLOBAL read_only = OFF; END IF; END"
        );
        for dialect in MYSQL {
            assert_eq!(
                writable_before(dialect, 5.25),
                "SET GLOBAL read_only = IF(UNIX_TIMESTAMP(SYSDATE(6)) < 5.250000, 0, @@GLOBAL.read_only)"
            );
            assert_eq!(limit(dialect, 0.25), "SET SESSION lock_wait_timeout = 1");
            assert_eq!(limit(dialect, 3.9), "SET SESSION lock_wait_timeout = 3");
        }
        assert_eq!(limit(Dialect::MariaDb, 0.25), "SET SESSION max_statement_time = 0.250");
    }
}
