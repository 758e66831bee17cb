//! The accounts of a stage, and the statements that create them. The lab has no secrets: these names are printed.
//!
//! Root has no password and can log in only through the unix socket in the node's directory, which only the directory's owner may enter.

/// The account with which a manager probes and controls the servers.
pub const MONITOR_USER: &str = "understudy";
/// Its password.
pub const MONITOR_PASSWORD: &str = "understudy";
/// The account an application would use.
pub const APP_USER: &str = "sbtest";
/// Its password.
pub const APP_PASSWORD: &str = "sbtest";
/// The schema of the application's tables.
pub const APP_SCHEMA: &str = "sbtest";

/// Run once, in the template from which every node is copied: what MariaDB's installation made and no stage is to have.
pub const SUPERFLUOUS: [&str; 2] = [
    "DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost')",
    "FLUSH PRIVILEGES",
];

/// Run after that. `monitor_grants`: the monitor account's privileges on `*.*`.
pub fn statements(monitor_grants: &str) -> Vec<String> {
    vec![
        format!("CREATE USER '{MONITOR_USER}'@'%' IDENTIFIED BY '{MONITOR_PASSWORD}'"),
        format!("GRANT {monitor_grants} ON *.* TO '{MONITOR_USER}'@'%'"),
        format!("GRANT SELECT ON mysql.* TO '{MONITOR_USER}'@'%'"),
        format!("CREATE DATABASE {MONITOR_USER}"),
        format!("GRANT ALL ON {MONITOR_USER}.* TO '{MONITOR_USER}'@'%'"),
        format!("CREATE USER '{APP_USER}'@'%' IDENTIFIED BY '{APP_PASSWORD}'"),
        format!("CREATE DATABASE {APP_SCHEMA}"),
        format!("GRANT ALL ON {APP_SCHEMA}.* TO '{APP_USER}'@'%'"),
    ]
}
