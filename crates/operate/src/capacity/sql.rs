//! What the nodes are asked and told, and how their answers are read. All SQL of the command is here.

use std::time::Duration;

use link::Rows;
use measure::capacity::reading::{Node, Other};

/// Rows of name and value: what a reading of a Galera node needs, and what the checks before need.
pub const GALERA_STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_last_committed','wsrep_local_recv_queue','wsrep_local_state',\
    'wsrep_local_state_comment','wsrep_cluster_status','wsrep_cluster_size','wsrep_incoming_addresses','wsrep_flow_control_sent',\
    'wsrep_flow_control_paused_ns','wsrep_replicated','wsrep_replicated_bytes','wsrep_connected')";

/// The same for many looks: all of a node's wsrep variables, which is less to do for it than picking some out of all.
pub const GALERA_ALL: &str = "SHOW GLOBAL STATUS LIKE 'wsrep%'";

/// One row: wsrep_desync, whether writes are refused, the provider's options, the version.
pub const GALERA_SETTINGS: &str =
    "SELECT @@GLOBAL.wsrep_desync, @@GLOBAL.read_only, @@GLOBAL.wsrep_provider_options, @@GLOBAL.version";

/// Who is connected, and what they do.
pub const SESSIONS: &str = "SELECT ID, USER, HOST, COMMAND, TIME, IFNULL(LEFT(INFO, 60), '') \
     FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()";

/// The same columns, of sessions with an open transaction that has written or locked rows.
pub const WRITING: &str = "SELECT DISTINCT p.ID, p.USER, p.HOST, p.COMMAND, p.TIME, '' \
     FROM information_schema.INNODB_TRX t JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id \
     WHERE p.ID <> CONNECTION_ID() AND t.trx_rows_modified + t.trx_rows_locked > 0";

/// One row: how many sessions of clients wait for [`LOCK`] to end, since they write. The appliers (`system user`) wait for it, too.
pub const WAITING: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER <> 'system user' \
     AND STATE IN ('Waiting for backup lock', 'Waiting for global read lock', 'Waiting for commit lock')";

/// One row: whether the node is desynchronised by order.
pub const DESYNC: &str = "SELECT @@GLOBAL.wsrep_desync";

/// Which state a replica is in; one row for each of its sources.
pub const REPLICA: &str = "SHOW ALL SLAVES STATUS";

/// One row: what a replica has applied, how much its relay logs may take, the version.
pub const REPLICA_SETTINGS: &str =
    "SELECT @@GLOBAL.gtid_slave_pos, @@GLOBAL.relay_log_space_limit, @@GLOBAL.read_only, @@GLOBAL.version";

/// One row: what a replica has applied.
pub const APPLIED: &str = "SELECT @@GLOBAL.gtid_slave_pos";

/// One row: what a primary has committed.
pub const COMMITTED: &str = "SELECT @@GLOBAL.gtid_binlog_pos";

/// A replica stops applying, and fetches on.
pub const STOP_APPLYING: &str = "STOP SLAVE SQL_THREAD";

/// Its end.
pub const START_APPLYING: &str = "START SLAVE SQL_THREAD";

/// The lock. It is given up for when a statement runs that is longer than lock_wait_timeout.
pub const LOCK: &str = "FLUSH TABLES WITH READ LOCK";

/// Its end.
pub const UNLOCK: &str = "UNLOCK TABLES";

/// What a session of ours is told first. It waits for no causal read, is ended by no limit of statements, and waits for a lock for so long.
pub fn prepare(is_galera: bool, lock_wait: Duration, idle_max: Duration) -> String {
    let wsrep = if is_galera { ", wsrep_sync_wait = 0" } else { "" };
    format!(
        "SET SESSION max_statement_time = 0, lock_wait_timeout = {}, wait_timeout = {}{wsrep}",
        lock_wait.as_secs().max(1),
        idle_max.as_secs().max(1)
    )
}

/// Begins to take a backup's first lock and gives it back. It is refused at once where another backup has it, also one that is silent because it
/// copies files, and that names itself nowhere.
pub const BACKUP_BEGIN: &str = "BACKUP STAGE START";

/// Its end.
pub const BACKUP_END: &str = "BACKUP STAGE END";

/// What a session is told first that gives one order: what hangs is ended by the server after `order_max`, where the server can.
pub fn prepare_order(order_max: Duration) -> String {
    format!("SET SESSION max_statement_time = {}, wsrep_sync_wait = 0", order_max.as_secs().max(1))
}

/// What the server does by itself, should nobody say otherwise: after `lock_max` it ends the session that holds the lock and the one that was to
/// desynchronise the node, should that order hang still; and when that has ended and at most `queue_short` transactions wait, it is synchronised again. With more it is not: its flow control would stop the whole cluster; so it goes on
/// waiting for `wait_max`, and is left desynchronised after that. SLEEP ends early when the client of its session is gone (looked at every
/// 5 s), so that a client that was killed is noticed sooner; `LOCK_SESSION` and what has ended already do no harm.
pub fn galera_guard(
    (lock_session, order_session): (u64, u64),
    lock_max: Duration,
    queue_short: u64,
    wait_max: Duration,
) -> String {
    format!(
        "BEGIN NOT ATOMIC \
           DECLARE waited, behind INT DEFAULT 1; \
           DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
           DO SLEEP({}); \
           KILL CONNECTION {lock_session}; \
           KILL CONNECTION {order_session}; \
           DO SLEEP(0.2); \
           WHILE behind AND waited <= {} DO \
             SET behind = (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                            WHERE VARIABLE_NAME = 'WSREP_LOCAL_RECV_QUEUE') > {queue_short} \
                          OR EXISTS (SELECT * FROM information_schema.PROCESSLIST WHERE ID = {order_session}); \
             IF behind THEN DO SLEEP(1); SET waited = waited + 1; END IF; \
           END WHILE; \
           IF NOT behind THEN SET GLOBAL wsrep_desync = OFF; END IF; \
         END",
        lock_max.as_secs(),
        wait_max.as_secs()
    )
}

/// The same for a replica: its SQL thread is started.
pub fn replica_guard(stop_max: Duration) -> String {
    format!(
        "BEGIN NOT ATOMIC \
           DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
           DO SLEEP({}); \
           START SLAVE SQL_THREAD; \
         END",
        stop_max.as_secs()
    )
}

/// Rows for the replicas that fetch from a primary now.
pub const FETCHING: &str = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'";

/// Whether a session runs, and what: rows of its text.
pub fn session(id: u64) -> String {
    format!("SELECT IFNULL(LEFT(INFO, 16), '') FROM information_schema.PROCESSLIST WHERE ID = {id}")
}

/// Ends a session.
pub fn kill(id: u64) -> String {
    format!("KILL CONNECTION {id}")
}

fn number(rows: &Rows, name: &str) -> u64 {
    rows.value_of(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A Galera node as the measured one; `None` when it is no member any more.
pub fn galera_node(rows: &Rows) -> Option<Node> {
    let state: u8 = rows.value_of("wsrep_local_state")?.parse().ok()?;
    let is_primary = rows.value_of("wsrep_cluster_status")?.eq_ignore_ascii_case("Primary");
    Some(Node {
        applied: rows.value_of("wsrep_last_committed")?.parse().ok()?,
        queue: number(rows, "wsrep_local_recv_queue"),
        is_in_step: state == 4 && is_primary,
        is_desynced: state == 2 && is_primary,
        flow_control_sent: number(rows, "wsrep_flow_control_sent"),
        written: number(rows, "wsrep_replicated"),
        writers_waiting: 0,
    })
}

/// A Galera node as another one, with the bytes that it has sent to the group.
pub fn galera_other(rows: &Rows) -> Option<(Other, u64)> {
    let other = Other {
        committed: rows.value_of("wsrep_last_committed")?.parse().ok()?,
        flow_control_paused: Duration::from_nanos(number(rows, "wsrep_flow_control_paused_ns")),
        flow_control_sent: number(rows, "wsrep_flow_control_sent"),
    };
    Some((other, number(rows, "wsrep_replicated_bytes")))
}

/// How many transactions a GTID position of MariaDB counts: the sum of its domains' numbers. Only differences mean anything.
pub fn transactions(position: &str) -> Option<u64> {
    let gtids = position.split(',').map(str::trim).filter(|gtid| !gtid.is_empty());
    gtids.map(|gtid| gtid.rsplit('-').next()?.parse::<u64>().ok()).sum()
}

/// What a replica says of its only source.
pub struct Replica {
    /// `host:port` of its source.
    pub source: String,
    /// The thread that fetches runs.
    pub fetches: bool,
    /// The thread that applies runs.
    pub applies: bool,
    /// What it has fetched, in transactions.
    pub fetched: u64,
    /// How much its relay logs take, bytes.
    pub relay_log_bytes: u64,
    /// It follows by GTID.
    pub by_gtid: bool,
}

/// Reads [`REPLICA`].
///
/// # Errors
/// When it has no source, or several.
pub fn replica(rows: &Rows) -> Result<Replica, String> {
    match rows.len() {
        0 => return Err("it replicates from nobody".into()),
        1 => {}
        several => return Err(format!("it replicates from {several} sources: only one can be measured")),
    }
    let value = |name: &str| rows.column(name).and_then(|column| rows.text(0, column)).unwrap_or_default();
    Ok(Replica {
        source: format!("{}:{}", value("Master_Host"), value("Master_Port")),
        fetches: value("Slave_IO_Running") == "Yes",
        applies: value("Slave_SQL_Running") == "Yes",
        fetched: transactions(value("Gtid_IO_Pos")).unwrap_or(0),
        relay_log_bytes: value("Relay_Log_Space").parse().unwrap_or(0),
        by_gtid: !matches!(value("Using_Gtid"), "" | "No"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read() {
        assert_eq!(transactions("0-1-100,7-2-3"), Some(103));
        assert_eq!((transactions(""), transactions("0-1-x")), (Some(0), None));
    }

    fn rows(pairs: &[(&str, &str)]) -> Rows {
        let cell = |text: &str| Some(text.as_bytes().to_vec());
        let rows = pairs.iter().map(|(name, value)| vec![cell(name), cell(value)]).collect();
        Rows { columns: vec!["Variable_name".into(), "Value".into()], rows, ..Rows::default() }
    }

    #[test]
    fn a_node_outside_the_majority_is_in_no_state_that_counts() {
        let with = |state: &str, status: &str| {
            galera_node(&rows(&[
                ("wsrep_local_state", state),
                ("wsrep_cluster_status", status),
                ("wsrep_last_committed", "7"),
                ("wsrep_local_recv_queue", "3"),
            ]))
            .map(|node| (node.is_in_step, node.is_desynced, node.applied, node.queue))
        };
        assert_eq!(with("4", "Primary"), Some((true, false, 7, 3)));
        assert_eq!(with("2", "Primary"), Some((false, true, 7, 3)));
        assert_eq!(with("4", "non-Primary"), Some((false, false, 7, 3)));
        assert_eq!(galera_node(&rows(&[("wsrep_cluster_status", "Disconnected")])), None);
    }
}
