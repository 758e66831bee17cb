//! The accounts of a replication stage: those of every stage, and the one that replicas use.

use super::super::account::{self, MONITOR_USER};
use super::super::product::Product;

/// The account with which replicas connect to the primary.
pub const REPLICATION_USER: &str = "replication";
/// Its password.
pub const REPLICATION_PASSWORD: &str = "replication";

/// Privileges of the monitor account on MariaDB: what a manager needs, not everything, so that a missing grant is noticed here first.
///
/// | privilege | for |
/// |---|---|
/// | READ_ONLY ADMIN | SET GLOBAL read_only, writing while it is on |
/// | REPLICATION SLAVE ADMIN | STOP, CHANGE, RESET, START SLAVE; gtid_slave_pos; rpl_semi_sync_slave_enabled |
/// | REPLICATION MASTER ADMIN | rpl_semi_sync_master_enabled and its limit; SHOW SLAVE HOSTS |
/// | SLAVE MONITOR | SHOW SLAVE STATUS |
/// | BINLOG MONITOR | SHOW MASTER STATUS, SHOW BINARY LOGS |
/// | BINLOG ADMIN | sql_log_bin, gtid_binlog_state, PURGE |
/// | BINLOG REPLAY | gtid_domain_id, gtid_seq_no and BINLOG in a session: flashback of errant transactions |
/// | CONNECTION ADMIN | KILL of others' connections, one connection beyond max_connections |
/// | PROCESS, RELOAD, SHUTDOWN | the process list; FLUSH, RESET MASTER; a clean stop |
/// | TRIGGER, EXECUTE | which tables are not transactional |
/// | EVENT, SET USER | ALTER DEFINER = ... EVENT: events run on the primary only |
///
/// No SUPER: no step of a switchover or a failover needs it on 10.11.
const MARIADB_GRANTS: &str = "PROCESS, RELOAD, SHUTDOWN, CONNECTION ADMIN, READ_ONLY ADMIN, BINLOG MONITOR, BINLOG ADMIN, BINLOG REPLAY, \
     SLAVE MONITOR, REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, TRIGGER, EXECUTE, EVENT, SET USER";

/// The same on MySQL ("Privileges Provided by MySQL" in its Reference Manual).
///
/// | privilege | for |
/// |---|---|
/// | SYSTEM_VARIABLES_ADMIN | super_read_only, the variables of semi-synchronous replication |
/// | REPLICATION_SLAVE_ADMIN | STOP, CHANGE, RESET, START REPLICA |
/// | REPLICATION CLIENT | SHOW REPLICA STATUS, SHOW BINARY LOGS |
/// | REPLICATION SLAVE | SHOW REPLICAS |
/// | CONNECTION_ADMIN | KILL of others' connections, being let in while super_read_only is on and beyond max_connections |
/// | SESSION_VARIABLES_ADMIN | sql_log_bin |
/// | PROCESS, RELOAD, SHUTDOWN, TRIGGER, EXECUTE, EVENT | as on MariaDB |
/// | SELECT on performance_schema | for how long a replica has received nothing; what a session has set by code |
const MYSQL_GRANTS: &str = "SYSTEM_VARIABLES_ADMIN, REPLICATION_SLAVE_ADMIN, REPLICATION CLIENT, REPLICATION SLAVE, CONNECTION_ADMIN, \
     SESSION_VARIABLES_ADMIN, PROCESS, RELOAD, SHUTDOWN, TRIGGER, EXECUTE, EVENT";

/// Run once, in the template from which every node is copied: no binlog contains them. MySQL's accounts have its default plugin,
/// caching_sha2_password.
pub fn statements(product: Product) -> Vec<String> {
    let mut statements = match product {
        Product::MariaDb => account::SUPERFLUOUS.map(str::to_owned).into(),
        Product::MySql => Vec::new(),
    };
    statements.extend(account::statements(match product {
        Product::MariaDb => MARIADB_GRANTS,
        Product::MySql => MYSQL_GRANTS,
    }));
    statements.extend([
        format!("CREATE USER '{REPLICATION_USER}'@'%' IDENTIFIED BY '{REPLICATION_PASSWORD}'"),
        format!("GRANT REPLICATION SLAVE ON *.* TO '{REPLICATION_USER}'@'%'"),
    ]);
    if product == Product::MySql {
        statements.push(format!("GRANT SELECT ON performance_schema.* TO '{MONITOR_USER}'@'%'"));
    }
    statements
}
