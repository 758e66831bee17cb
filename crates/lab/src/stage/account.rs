//! The accounts of a stage, and the statements that make them. The lab has no secrets: these names are printed.
//!
//! Root has no password and can log in only through the unix socket in the node's directory, which only its owner may enter.

/// The account a manager probes and orders with.
pub const MONITOR_USER: &str = "understudy";
/// Its password.
pub const MONITOR_PASSWORD: &str = "understudy";
/// The account an application would use.
pub const APP_USER: &str = "sbtest";
/// Its password.
pub const APP_PASSWORD: &str = "sbtest";
/// The schema the application's tables are in.
pub const APP_SCHEMA: &str = "sbtest";

/// What the monitor account may do: what a manager needs, not everything, so that a missing grant shows here first.
///
/// `SUPER` covers `SET GLOBAL wsrep_provider_options` (eviction); `mysql` is read to learn client accounts; the schema of its
/// own name holds marker rows. `TRIGGER` and `EXECUTE` show it which tables have no transactions.
const MONITOR_GRANTS: &str = "SUPER, PROCESS, RELOAD, SHUTDOWN, CONNECTION ADMIN, READ_ONLY ADMIN, BINLOG MONITOR, SLAVE MONITOR, \
     REPLICATION SLAVE ADMIN, TRIGGER, EXECUTE";

/// Run once, in the template every node is copied from.
pub fn statements() -> Vec<String> {
    vec![
        "DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost')".to_owned(),
        "FLUSH PRIVILEGES".to_owned(),
        format!("CREATE USER '{MONITOR_USER}'@'%' IDENTIFIED BY '{MONITOR_PASSWORD}'"),
        format!("GRANT {MONITOR_GRANTS} ON *.* TO '{MONITOR_USER}'@'%'"),
        format!("GRANT SELECT ON mysql.* TO '{MONITOR_USER}'@'%'"),
        format!("CREATE DATABASE {MONITOR_USER}"),
        format!("GRANT ALL ON {MONITOR_USER}.* TO '{MONITOR_USER}'@'%'"),
        format!("CREATE USER '{APP_USER}'@'%' IDENTIFIED BY '{APP_PASSWORD}'"),
        format!("CREATE DATABASE {APP_SCHEMA}"),
        format!("GRANT ALL ON {APP_SCHEMA}.* TO '{APP_USER}'@'%'"),
    ]
}
