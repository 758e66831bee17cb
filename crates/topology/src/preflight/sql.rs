//! The questions to a node before a switchover. They only read, and are the same for both kinds of cluster: a server leaves out what it
//! does not have.
//!
//! Pure text: the shell sends it, and reads every answer by column name.

use std::collections::BTreeSet;

use protocol::gtid::mariadb::Gtid;
use protocol::gtid::{Family, Position};

use crate::rules::variables;

/// The variables that are compared with the writer's, or counted with, beside those of the rules; semi-synchronous ones by their old names.
const COMPARED: [&str; 8] = [
    "binlog_format",
    "event_scheduler",
    "max_connections",
    MASTER_ENABLED,
    SLAVE_ENABLED,
    "wsrep_max_ws_rows",
    "wsrep_max_ws_size",
    "wsrep_OSU_method",
];

/// As a primary the server waits for acknowledgements.
pub const MASTER_ENABLED: &str = "rpl_semi_sync_master_enabled";
/// As a replica it acknowledges.
pub const SLAVE_ENABLED: &str = "rpl_semi_sync_slave_enabled";

/// The variables that are asked for.
pub fn names() -> Vec<&'static str> {
    let of_rules = variables::ALL.iter().filter(|rule| rule.before_a_move.is_some());
    COMPARED.into_iter().chain(of_rules.map(|rule| rule.name)).collect()
}

/// The name of a semi-synchronous variable with MySQL's plugins since 8.0.26; `name` is the old one, as `rpl_semi_sync_master_timeout`.
pub fn new_name(name: &str) -> String {
    name.replace("_master_", "_source_").replace("_slave_", "_replica_")
}

/// Asks for rows of name and value.
pub fn variables() -> String {
    let both = names().into_iter().flat_map(|name| [format!("'{name}'"), format!("'{}'", new_name(name))]);
    let quoted: BTreeSet<String> = both.collect();
    let list = quoted.into_iter().collect::<Vec<_>>().join(",");
    format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({list})")
}

/// Sessions that have a transaction open, wait for a lock, or change a table's structure; limited in number, as an answer has a limit.
/// Other accounts' sessions are shown only with PROCESS. `trx_started` has whole seconds. INNODB_TRX returns the same snapshot as long as
/// anybody reads it more often than every 0.1 s (seen on MariaDB 10.11).
pub const SESSIONS: &str = "SELECT p.ID AS id, p.USER AS user, p.HOST AS host, p.STATE AS state, LEFT(p.INFO, 80) AS info, \
    ROUND(p.TIME_MS / 1000) AS state_s, TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) AS transaction_s \
    FROM information_schema.PROCESSLIST p LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.ID \
    WHERE p.ID <> CONNECTION_ID() AND (t.trx_id IS NOT NULL OR p.STATE LIKE 'Waiting for%lock%' \
    OR p.STATE LIKE 'Waiting to execute in isolation%' \
    OR p.INFO REGEXP '^[[:space:]]*(ALTER|CREATE|DROP|OPTIMIZE|RENAME|TRUNCATE)[[:space:]]') \
    ORDER BY GREATEST(IFNULL(transaction_s, 0), state_s) DESC LIMIT 200";

/// MariaDB's position, whole: SHOW cuts long values off. MySQL and a server without GTIDs refuse it.
pub const POSITION: &str = "SELECT @@GLOBAL.gtid_current_pos AS gtid_current_pos";

/// One row with the databases that the server logs alone, or does not log, which no variable shows: see [`unlogged`]. It waits for a commit that
/// is being written. Needs BINLOG MONITOR. The second is MySQL's
/// since 8.2, which has the first one until 8.3.
pub const BINLOG: [&str; 2] = ["SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"];

/// Databases in which nothing is written: to leave them out of the binlog leaves out nothing.
const WITHOUT_WRITES: [&str; 2] = ["information_schema", "performance_schema"];

/// What a server leaves out of its binlog, by that row; `value` gives the value of a column.
pub fn unlogged<'a>(value: impl Fn(&str) -> Option<&'a str>) -> String {
    let of = |name| value(name).unwrap_or_default().split(',').map(str::trim).filter(|base| !base.is_empty());
    let is_written = |base: &&str| !WITHOUT_WRITES.iter().any(|other| other.eq_ignore_ascii_case(base));
    let logged = of("Binlog_Do_DB").collect::<Vec<_>>().join(",");
    let ignored = of("Binlog_Ignore_DB").filter(is_written).collect::<Vec<_>>().join(",");
    let filters = [("Binlog_Do_DB", logged), ("Binlog_Ignore_DB", ignored)];
    let filters = filters.iter().filter(|(_, bases)| !bases.is_empty());
    filters.map(|(name, bases)| format!("{name} = {bases}")).collect::<Vec<_>>().join(", ")
}

/// The existing binlogs, the oldest first. Needs BINLOG MONITOR.
pub const BINLOGS: &str = "SHOW BINARY LOGS";

/// MySQL's counterpart of the next one: the Reference Manual's "gtid_purged".
pub const MYSQL_PURGED: &str = "SELECT @@GLOBAL.gtid_purged";

/// Asks for the position at which that binlog begins. A server that lacks anything before it cannot follow any more. `None` when it is not
/// a file name.
pub fn begins_at(binlog: &str) -> Option<String> {
    is_file_name(binlog).then(|| format!("SELECT BINLOG_GTID_POS('{binlog}', 4)"))
}

/// Asks for the first events of that binlog. A server that was made from a copy of another begins with an empty position, and not with the first
/// transaction. `None` when it is not a file name.
pub fn first_events(binlog: &str) -> Option<String> {
    is_file_name(binlog).then(|| format!("SHOW BINLOG EVENTS IN '{binlog}' LIMIT 20"))
}

/// The position just before the transaction whose event this is: `Info` of a `Gtid` event, `BEGIN GTID 0-1-51`.
pub fn before(info: &str) -> Option<Position> {
    let gtid: Gtid = info.rsplit(' ').next()?.parse().ok()?;
    let before = Gtid { sequence: gtid.sequence.checked_sub(1)?, ..gtid };
    Position::parse(Family::MariaDb, &before.to_string()).ok().filter(|_| before.sequence > 0)
}

fn is_file_name(binlog: &str) -> bool {
    !binlog.is_empty()
        && binlog.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_is_asked_for() {
        assert_eq!(begins_at("binlog.000003").as_deref(), Some("SELECT BINLOG_GTID_POS('binlog.000003', 4)"));
        assert_eq!(begins_at("x', 4); DROP"), None);
        assert_eq!(begins_at(""), None);
        assert_eq!(first_events("x', 4); DROP"), None);
    }

    #[test]
    fn databases_in_which_nothing_is_written_may_be_left_out_of_the_binlog() {
        let of = |logged: &'static str, ignored: &'static str| {
            unlogged(move |name| Some(if name == "Binlog_Do_DB" { logged } else { ignored }))
        };
        assert_eq!(of("", "information_schema,performance_schema"), "");
        assert_eq!(of("", "Information_Schema, mysql"), "Binlog_Ignore_DB = mysql");
        assert_eq!(of("information_schema", ""), "Binlog_Do_DB = information_schema");
        assert_eq!(of("shop,crm", "tmp"), "Binlog_Do_DB = shop,crm, Binlog_Ignore_DB = tmp");
        assert_eq!(unlogged(|_| None), "");
    }

    #[test]
    fn a_binlog_begins_just_before_its_first_transaction() {
        let at = |info: &str| before(info).map(|position| position.to_string());
        assert_eq!(at("BEGIN GTID 0-1-51").as_deref(), Some("0-1-50"));
        assert_eq!(at("GTID 7-3-2").as_deref(), Some("7-3-1"));
        assert_eq!(at("BEGIN GTID 0-1-1"), None);
        assert_eq!(at("binlog.000001"), None);
    }
}
