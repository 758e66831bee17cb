//! Advice about problems that only an operator can solve, one sentence each.
//!
//! The grants were found by trial on MariaDB 10.11.19:
//!   - status (SHOW GLOBAL STATUS, SHOW GLOBAL VARIABLES) and the barrier (SET SESSION wsrep_sync_wait and a read without a table)
//!     need no privilege at all, also under wsrep_reject_queries = ALL;
//!   - the account table needs SELECT on mysql.global_priv (else 1142); no global privilege opens it short of SELECT on everything;
//!   - `SET GLOBAL wsrep_provider_options = 'evs.evict=...'` needs SUPER (else 1227): BINLOG ADMIN, REPLICATION SLAVE ADMIN,
//!     CONNECTION ADMIN and READ_ONLY ADMIN do not do, and MariaDB has no SYSTEM_VARIABLES_ADMIN;
//!   - which tables have no transactions is shown by information_schema only with TRIGGER (tables, views, triggers) and EXECUTE (stored
//!     functions) on everything, see [`topology::catalogue`]; a view's definition only with SELECT and SHOW VIEW on it, which is not asked for;
//!   - the sizes of tablespaces (information_schema.INNODB_SYS_TABLESPACES: how large a full copy would be) and other accounts' sessions need PROCESS;
//!     SHOW BINARY LOGS (how far back they reach) needs BINLOG MONITOR;
//!   - CONNECTION ADMIN lets the probe in when the clients have used up max_connections;
//!   - a primary and its replicas: SLAVE MONITOR for SHOW ALL SLAVES STATUS, REPLICATION SLAVE ADMIN for STOP and START SLAVE, CHANGE
//!     MASTER and gtid_slave_pos, RELOAD for RESET SLAVE, REPLICATION MASTER ADMIN for rpl_semi_sync_master_enabled, READ_ONLY ADMIN for
//!     read_only, PROCESS and CONNECTION ADMIN for the commits that keep a server from becoming that; no SUPER.

use topology::flavor::Flavor;
use topology::kind::Kind;
use topology::rules::privileges::account;

use crate::reading::ER_NOT_SUPPORTED_YET;

/// ER_SPECIFIC_ACCESS_DENIED_ERROR: a privilege is missing, and the server says which.
const SPECIFIC_ACCESS_DENIED: u16 = 1227;

/// The privileges that the monitor account needs globally.
fn global_grants(kind: Kind) -> &'static str {
    match kind {
        Kind::Galera => "SUPER, PROCESS, CONNECTION ADMIN, TRIGGER, EXECUTE",
        Kind::Replication => {
            "SLAVE MONITOR, BINLOG MONITOR, REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, READ_ONLY ADMIN, RELOAD, PROCESS, CONNECTION ADMIN, TRIGGER, EXECUTE"
        }
    }
}

/// The statements that give the monitor account of that name all that it needs, from any host.
pub fn grants_for(kind: Kind, user: &str) -> String {
    let account = account(user);
    let global = global_grants(kind);
    format!("GRANT {global} ON *.* TO {account}; GRANT SELECT ON mysql.global_priv TO {account};")
}

/// The same, with those that are needed only where the event scheduler runs if they are in `lacking`: SET USER is much to grant.
pub fn grants_with(kind: Kind, user: &str, lacking: &[String]) -> String {
    let grants = grants_for(kind, user);
    match &*crate::rights::for_events(lacking) {
        [] => grants,
        more => format!("{grants} GRANT {} ON *.* TO {};", more.join(", "), account(user)),
    }
}

/// What the monitor account of a primary and its replicas needs on MySQL.
pub fn mysql_grants(user: &str) -> String {
    let account = account(user);
    format!(
        "GRANT PROCESS, RELOAD, REPLICATION CLIENT, REPLICATION SLAVE, REPLICATION_SLAVE_ADMIN, SYSTEM_VARIABLES_ADMIN, SESSION_VARIABLES_ADMIN, \
         CONNECTION_ADMIN, TRIGGER, EXECUTE ON *.* TO {account}; GRANT SELECT ON mysql.user TO {account}; \
         GRANT SELECT ON performance_schema.* TO {account};"
    )
}

/// The monitor account, and what the servers are that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    pub kind: Kind,
    /// `None`: none has let it in yet.
    pub flavor: Option<Flavor>,
    pub user: String,
}

impl Monitor {
    /// The statements that give it all that it needs, from any host.
    fn grants(&self) -> String {
        match (self.kind, self.flavor) {
            (Kind::Galera, _) | (Kind::Replication, Some(Flavor::MariaDb)) => {
                grants_for(self.kind, &self.user)
            }
            (Kind::Replication, Some(Flavor::MySql)) => mysql_grants(&self.user),
            (Kind::Replication, None) => {
                format!(
                    "on MariaDB: {} On MySQL: {}",
                    grants_for(self.kind, &self.user),
                    mysql_grants(&self.user)
                )
            }
        }
    }
}

/// The statements that let the monitor account in after it was refused with `errno`; a configuration with root needs another account. `flavor`: where
/// it is known.
pub fn account_for(kind: Kind, flavor: Option<Flavor>, user: &str, errno: u16) -> String {
    let make = |user: &str| {
        let grants = Monitor { kind, flavor, user: user.to_owned() }.grants();
        format!("CREATE USER {} IDENTIFIED BY '...'; {grants}", account(user))
    };
    if user == "root" {
        // Debian's root has no password: it logs in by unix_socket, on the server's own machine only (1698, 1130).
        let text = "root logs in on that machine only, most often without a password: give Understudy an account of its own, and name it in \
                    [cluster.monitor]; run there:";
        return format!("{text} {}", make("understudy"));
    }
    match errno {
        // The account, or one of that name for another host, exists: creating it again fails.
        1045 => {
            format!("put its password right, or make it there, if there is no such account: {}", make(user))
        }
        1698 => format!(
            "it logs in without a password, as a user of that machine: run there: ALTER USER {} IDENTIFIED BY '...'; or, if there is no such \
             account: {}",
            account(user),
            make(user)
        ),
        _ => format!("run there: {}", make(user)),
    }
}

/// Whose server it is that has refused SHOW SLAVE STATUS: it names the privilege, which MySQL does not have by MariaDB's name.
fn flavor_of_denial(message: &str) -> Option<Flavor> {
    if message.contains("SLAVE MONITOR") {
        return Some(Flavor::MariaDb);
    }
    message.contains("REPLICATION CLIENT").then_some(Flavor::MySql)
}

/// What an advice is about; a node has at most one sentence for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Login,
    Accounts,
    Tables,
    Evict,
    Forget,
    Timers,
    Orders,
    Heartbeat,
    Rights,
    Rival,
}

pub(crate) fn login(monitor: &Monitor, node: &str, errno: u16, message: &str) -> String {
    let &Monitor { kind, flavor, ref user } = monitor;
    match errno {
        SPECIFIC_ACCESS_DENIED => format!(
            "{node} does not tell {user:?} whom it follows ({errno}), so it is not used: run there: {}",
            Monitor { flavor: flavor.or_else(|| flavor_of_denial(message)), ..monitor.clone() }.grants()
        ),
        ER_NOT_SUPPORTED_YET => format!("{node}: {message}"),
        1045 | 1698 => format!(
            "{node} refuses the monitor account {user:?} ({errno}): {}",
            account_for(kind, flavor, user, errno)
        ),
        1130 => {
            format!(
                "{node} lets nobody in from this host ({errno}): {}",
                account_for(kind, flavor, user, errno)
            )
        }
        1129 => format!(
            "{node} has blocked this host after too many broken connections ({errno}): run there: FLUSH HOSTS"
        ),
        1040 | 1203 => format!(
            "{node} has no connection left ({errno}): raise max_connections, or let the monitor account in anyway: {}",
            monitor.grants()
        ),
        1251 => format!("{node}: {message}"),
        _ => format!("{node} does not let the monitor account in: {errno} {message}"),
    }
}

pub(crate) fn accounts(monitor: &Monitor, node: &str, errno: u16, message: &str) -> String {
    if matches!(errno, 1142 | 1143 | 1044) {
        format!(
            "{node} does not show its accounts to {:?} ({errno}), so no client can log in through Understudy: run there: {}",
            monitor.user,
            monitor.grants()
        )
    } else {
        format!("{node} did not give its account table: {message}")
    }
}

pub(crate) fn tables_hidden(monitor: &Monitor, node: &str) -> String {
    format!(
        "{node} does not show {:?} which tables have no transactions, and which views may write, so a write or a read that loses its \
         node may end as \"outcome unknown\" where it could be sent again: run there: {}",
        monitor.user,
        monitor.grants()
    )
}

pub(crate) fn tables(node: &str, why: &str) -> String {
    format!("{node} did not say which tables have no transactions: {why}")
}

pub(crate) fn evict(node: &str, user: &str) -> String {
    format!(
        "{node} does not let {user:?} evict a dead node (1227), so a death stalls the cluster for evs.suspect_timeout: run there: {}",
        grants_for(Kind::Galera, user)
    )
}

pub(crate) fn forget(node: &str, why: &str) -> String {
    format!(
        "{node} still remembers an evicted node ({why}), so each change of the group costs evs.suspect_timeout: run there: \
         SET GLOBAL wsrep_provider_options = 'evs.evict='"
    )
}

pub(crate) fn timers(node: &str, why: &str, statement: &str) -> String {
    format!(
        "{node} still has evs timers that were shortened for a moment ({why}); it is tried again, or run there: {statement}"
    )
}

pub(crate) fn timers_forbidden(node: &str, user: &str) -> String {
    format!(
        "{node} does not let {user:?} shorten its evs timers (1227), so a silent node stalls the cluster for evs.suspect_timeout: run there: {}",
        grants_for(Kind::Galera, user)
    )
}

pub(crate) fn heartbeat(node: &str, user: &str, schema: &str, errno: u16, message: &str) -> String {
    format!(
        "{node} does not let {user:?} write its heartbeat ({errno} {message}), so that it answers and cannot commit would not be seen: run there: \
         GRANT CREATE, SELECT, INSERT, UPDATE, LOCK TABLES ON `{schema}`.* TO {}; or set cluster.heartbeat.interval_ms = 0",
        account(user)
    )
}

/// `lacking`: see [`crate::rights::lacking`]; `None` when nothing is missing.
pub(crate) fn rights(kind: Kind, node: &str, user: &str, lacking: &[String]) -> Option<String> {
    (!lacking.is_empty()).then(|| {
        let grants = grants_with(kind, user, lacking);
        format!("{node} does not grant {user:?} what it needs: {}; run there: {grants}", lacking.join("; "))
    })
}

/// `from`: the addresses of the other managers.
pub(crate) fn rival(node: &str, from: &[String]) -> String {
    format!(
        "{node} is managed by another Understudy, too (another_manager), connected from {}: when the primary is lost both decide, and may promote \
         different servers; stop one of them, or set cluster.manager = \"external\" there",
        from.join(", ")
    )
}

/// `errno`: the error of an order; `None` when it is not about a missing privilege.
pub(crate) fn order(monitor: &Monitor, node: &str, errno: u16) -> Option<String> {
    (errno == SPECIFIC_ACCESS_DENIED).then(|| {
        format!(
            "{node} does not let {:?} make it read only, writable or follow another ({errno}), so it can take over from nobody: run there: {}",
            monitor.user,
            monitor.grants()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(kind: Kind, flavor: Option<Flavor>, user: &str) -> Monitor {
        Monitor { kind, flavor, user: user.into() }
    }

    #[test]
    fn grants_are_in_the_words_of_the_servers() {
        let text = |flavor| order(&monitor(Kind::Replication, flavor, "u"), "db1", 1227).unwrap();
        let (of_mariadb, of_mysql) = (grants_for(Kind::Replication, "u"), mysql_grants("u"));
        let has = |flavor| (text(flavor).contains(&of_mariadb), text(flavor).contains(&of_mysql));
        assert_eq!(has(Some(Flavor::MariaDb)), (true, false));
        assert_eq!(has(Some(Flavor::MySql)), (false, true));
        assert_eq!(has(None), (true, true));
    }

    #[test]
    fn root_is_no_account_to_be_made() {
        for errno in [1045, 1698, 1130] {
            let text = login(&monitor(Kind::Replication, None, "root"), "db1", errno, "Access denied");
            assert!(text.contains("CREATE USER 'understudy'@'%'") && !text.contains("'root'@"), "{text}");
        }
        let text = login(&monitor(Kind::Galera, None, "monitor"), "db1", 1698, "Access denied");
        assert!(text.contains("ALTER USER 'monitor'@'%' IDENTIFIED BY '...'"), "{text}");
    }

    #[test]
    fn all_that_is_needed_is_granted() {
        use topology::rules::privileges::{self, Needed};
        let grants = grants_for(Kind::Replication, "u");
        for privilege in privileges::ALL.iter().filter(|privilege| privilege.needed != Needed::ForEvents) {
            assert!(grants.contains(privilege.name), "{}", privilege.name);
        }
    }

    #[test]
    fn the_grants_name_the_user() {
        assert_eq!(
            grants_for(Kind::Galera, "o'neil"),
            "GRANT SUPER, PROCESS, CONNECTION ADMIN, TRIGGER, EXECUTE ON *.* TO 'o''neil'@'%'; GRANT SELECT ON mysql.global_priv TO 'o''neil'@'%';"
        );
    }
}
