//! What an operator should do about a trouble that only an operator can end, one sentence each.
//!
//! The grants were found by trial on MariaDB 10.11.19:
//!   - status (SHOW GLOBAL STATUS, SHOW GLOBAL VARIABLES) and the barrier (SET SESSION wsrep_sync_wait and a read without a table)
//!     need no privilege at all, also under wsrep_reject_queries = ALL;
//!   - the account table needs SELECT on mysql.global_priv (else 1142); no global privilege opens it short of SELECT on everything;
//!   - `SET GLOBAL wsrep_provider_options = 'evs.evict=...'` needs SUPER (else 1227): BINLOG ADMIN, REPLICATION SLAVE ADMIN,
//!     CONNECTION ADMIN and READ_ONLY ADMIN do not do, and MariaDB has no SYSTEM_VARIABLES_ADMIN;
//!   - which tables have no transactions is shown by information_schema only with TRIGGER (tables, views, triggers) and EXECUTE (stored
//!     functions) on everything, see [`topology::catalogue`]; a view's definition only with SELECT and SHOW VIEW on it, which is not asked for;
//!   - CONNECTION ADMIN lets the probe in when the clients have used up max_connections.

/// What the monitor account needs; `USER` and `HOST` to be filled in.
pub const GRANTS: &str = "GRANT SUPER, CONNECTION ADMIN, TRIGGER, EXECUTE ON *.* TO 'USER'@'HOST'; GRANT SELECT ON mysql.global_priv TO 'USER'@'HOST';";

/// [`GRANTS`] for that user, from any host.
pub fn grants_for(user: &str) -> String {
    GRANTS.replace("USER", &user.replace('\'', "''")).replace("HOST", "%")
}

/// What the trouble is about; a node has at most one sentence for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Login,
    Accounts,
    Tables,
    Evict,
    Forget,
    Timers,
}

pub(crate) fn login(node: &str, user: &str, errno: u16, message: &str) -> String {
    match errno {
        1045 | 1698 => format!(
            "{node} refuses the monitor account {user:?} ({errno}): check [cluster.monitor], or run there: CREATE USER '{user}'@'%' \
             IDENTIFIED BY '...'; {}",
            grants_for(user)
        ),
        1130 => format!(
            "{node} lets nobody in from this host ({errno}): run there: CREATE USER '{user}'@'%' IDENTIFIED BY '...'; {}",
            grants_for(user)
        ),
        1129 => format!(
            "{node} has blocked this host after too many broken connections ({errno}): run there: FLUSH HOSTS"
        ),
        1040 | 1203 => format!(
            "{node} has no connection left ({errno}): raise max_connections, or let the monitor account in anyway: {}",
            grants_for(user)
        ),
        1251 => format!("{node}: {message}; give the monitor account mysql_native_password"),
        _ => format!("{node} does not let the monitor account in: {errno} {message}"),
    }
}

pub(crate) fn accounts(node: &str, user: &str, errno: u16, message: &str) -> String {
    if matches!(errno, 1142 | 1143 | 1044) {
        format!(
            "{node} does not show its accounts to {user:?} ({errno}), so no client can log in through Understudy: run there: {}",
            grants_for(user)
        )
    } else {
        format!("{node} did not give its account table: {message}")
    }
}

pub(crate) fn tables_hidden(node: &str, user: &str) -> String {
    format!(
        "{node} does not show {user:?} which tables have no transactions, and which views may write, so a write or a read that loses its \
         node may end as \"outcome unknown\" where it could be sent again: run there: {}",
        grants_for(user)
    )
}

pub(crate) fn tables(node: &str, why: &str) -> String {
    format!("{node} did not say which tables have no transactions: {why}")
}

pub(crate) fn evict(node: &str, user: &str) -> String {
    format!(
        "{node} does not let {user:?} evict a dead node (1227), so a death stalls the cluster for evs.suspect_timeout: run there: {}",
        grants_for(user)
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
        grants_for(user)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grants_name_the_user() {
        assert_eq!(
            grants_for("o'neil"),
            "GRANT SUPER, CONNECTION ADMIN, TRIGGER, EXECUTE ON *.* TO 'o''neil'@'%'; GRANT SELECT ON mysql.global_priv TO 'o''neil'@'%';"
        );
    }
}
