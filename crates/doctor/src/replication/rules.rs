//! The table of rules: each setting, its right value, the reason, and the line for the option file.

use super::super::judge::Weight;
use super::read::Said;

/// The servers that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All of them.
    All,
    /// The replicas.
    Replicas,
    /// None: the setting is shown in the table, and checked elsewhere by comparing the servers.
    Nobody,
}

/// One setting.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// For the table: its right value, and the reason.
    pub should_be: &'static str,
    pub weight: Weight,
    pub who: Who,
    /// Applies only with semi-synchronous replication.
    pub semi_sync: bool,
    /// Whether a value is right.
    pub is_right: fn(&str) -> bool,
    /// What happens when the value is wrong.
    pub because: &'static str,
    /// SQL that corrects it now; empty when that takes a restart.
    pub sql: &'static str,
    /// The line for the option file; empty when it belongs into none.
    pub line: &'static str,
}

fn on(value: &str) -> bool {
    value.eq_ignore_ascii_case("ON") || value == "1"
}

fn off(value: &str) -> bool {
    !on(value)
}

fn number(value: &str) -> u64 {
    value.parse::<f64>().map_or(0, |number| number as u64)
}

/// A timeout that is never reached, in milliseconds: longer than any client waits for a commit.
const SEMI_SYNC_TIMEOUT_MS: u64 = 3_600_000;
/// A replica may be away for this many seconds and still catch up from the binlog.
const KEPT_S: u64 = 86_400;

/// All rules, in the order of the page.
pub const RULES: &[Rule] = &[
    Rule {
        name: "read_only",
        should_be: "ON on replicas, and in every file: nobody writes to a server that is not the primary",
        weight: Weight::Problem,
        who: Who::Replicas,
        semi_sync: false,
        is_right: |value| !value.eq_ignore_ascii_case("OFF") && value != "0",
        because: "whoever connects to this replica past Understudy writes what the primary never gets; it could not follow any more",
        sql: "SET GLOBAL read_only = ON",
        line: "read_only = ON",
    },
    Rule {
        name: "super_read_only",
        should_be: "ON on replicas, where a server has it (MySQL)",
        weight: Weight::Advice,
        who: Who::Replicas,
        semi_sync: false,
        is_right: on,
        because: "without it accounts with SUPER write in spite of read_only",
        sql: "SET GLOBAL super_read_only = ON",
        line: "super_read_only = ON",
    },
    Rule {
        name: "gtid_strict_mode",
        should_be: "ON: errant transactions can be told",
        weight: Weight::Problem,
        who: Who::All,
        semi_sync: false,
        is_right: on,
        because: "two transactions may get the same number, and what a server has that the primary has not would not be noticed",
        sql: "SET GLOBAL gtid_strict_mode = ON",
        line: "gtid_strict_mode = ON",
    },
    Rule {
        name: "log_bin",
        should_be: "ON: any server may become the primary",
        weight: Weight::Problem,
        who: Who::All,
        semi_sync: false,
        is_right: on,
        because: "nobody could follow this server, so it never becomes the primary",
        sql: "",
        line: "log_bin = binlog",
    },
    Rule {
        name: "log_slave_updates",
        should_be: "ON: likewise",
        weight: Weight::Problem,
        who: Who::All,
        semi_sync: false,
        is_right: on,
        because: "what it applied as a replica is not in its binlog, so nobody could follow it",
        sql: "",
        line: "log_slave_updates = ON",
    },
    Rule {
        name: "server_id",
        should_be: "another one on each server: GTIDs are told apart by it",
        weight: Weight::Problem,
        who: Who::Nobody,
        semi_sync: false,
        is_right: |_| true,
        because: "",
        sql: "",
        line: "",
    },
    Rule {
        name: "gtid_domain_id",
        should_be: "the same on all: one order of transactions",
        weight: Weight::Warning,
        who: Who::Nobody,
        semi_sync: false,
        is_right: |_| true,
        because: "",
        sql: "",
        line: "",
    },
    Rule {
        name: "binlog_format",
        should_be: "ROW: replicas get the same rows, and errant ones can be undone",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: false,
        is_right: |value| value.eq_ignore_ascii_case("ROW"),
        because: "a statement may do something else on a replica; and `understudy errant flashback` undoes rows only",
        sql: "SET GLOBAL binlog_format = ROW",
        line: "binlog_format = ROW",
    },
    Rule {
        name: "binlog_row_image",
        should_be: "FULL: errant rows can be undone",
        weight: Weight::Advice,
        who: Who::All,
        semi_sync: false,
        is_right: |value| value.eq_ignore_ascii_case("FULL"),
        because: "a row without all of its columns cannot be put back by `understudy errant flashback`",
        sql: "SET GLOBAL binlog_row_image = FULL",
        line: "binlog_row_image = FULL",
    },
    Rule {
        name: "log_bin_compress",
        should_be: "OFF: likewise",
        weight: Weight::Advice,
        who: Who::All,
        semi_sync: false,
        is_right: off,
        because: "`understudy errant flashback` leaves compressed rows alone",
        sql: "SET GLOBAL log_bin_compress = OFF",
        line: "log_bin_compress = OFF",
    },
    Rule {
        name: "sync_binlog",
        should_be: "1: what is committed survives a power failure",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: false,
        is_right: |value| value == "1",
        because: "a server that loses power loses the end of its binlog: transactions that replicas have already, or that nobody has. 1 costs a flush for each group of commits",
        sql: "SET GLOBAL sync_binlog = 1",
        line: "sync_binlog = 1",
    },
    Rule {
        name: "innodb_flush_log_at_trx_commit",
        should_be: "1: likewise",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: false,
        is_right: |value| value == "1" || value == "3",
        because: "a server that loses power loses up to a second of transactions that clients were told of",
        sql: "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
        line: "innodb_flush_log_at_trx_commit = 1",
    },
    Rule {
        name: "rpl_semi_sync_slave_enabled",
        should_be: "ON on all: they acknowledge",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: true,
        is_right: on,
        because: "it acknowledges nothing as a replica: with too few that do, commits wait",
        sql: "SET GLOBAL rpl_semi_sync_slave_enabled = ON",
        line: "rpl_semi_sync_slave_enabled = ON",
    },
    Rule {
        name: "rpl_semi_sync_master_enabled",
        should_be: "ON on the primary alone, and in no file: Understudy sets it",
        weight: Weight::Problem,
        who: Who::Replicas,
        semi_sync: true,
        is_right: off,
        because: "on a replica the applier waits for acknowledgements that nobody gives it",
        sql: "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
        line: "",
    },
    Rule {
        name: "rpl_semi_sync_master_wait_point",
        should_be: "AFTER_SYNC: nobody reads what no replica has",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: true,
        is_right: |value| value.eq_ignore_ascii_case("AFTER_SYNC"),
        because: "with AFTER_COMMIT others read a transaction before a replica has it; after a failover it is gone",
        sql: "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
        line: "rpl_semi_sync_master_wait_point = AFTER_SYNC",
    },
    Rule {
        name: "rpl_semi_sync_master_timeout",
        should_be: "so long that it is never reached, 3600000 ms or more",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: true,
        is_right: |value| number(value) >= SEMI_SYNC_TIMEOUT_MS,
        because: "at this limit the primary goes on without acknowledgements, in silence: what it commits then may be lost; and one that is cut off is written on",
        sql: "SET GLOBAL rpl_semi_sync_master_timeout = 3600000",
        line: "rpl_semi_sync_master_timeout = 3600000",
    },
    Rule {
        name: "relay_log_recovery",
        should_be: "OFF: what was received and acknowledged is kept",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: true,
        is_right: off,
        because: "a replica that starts throws away what it has received, acknowledged and not applied; nobody else may have it",
        sql: "",
        line: "relay_log_recovery = OFF",
    },
    Rule {
        name: "slave_net_timeout",
        should_be: "10 s or less: a replica notices a source that vanished",
        weight: Weight::Advice,
        who: Who::All,
        semi_sync: false,
        is_right: |value| number(value) <= 10,
        because: "a replica that lost its source without a word sits on the dead connection for so many seconds. Understudy asks replicas to connect anew when the primary is silent; nobody does when only their own way there broke",
        sql: "SET GLOBAL slave_net_timeout = 10",
        line: "slave_net_timeout = 10",
    },
    Rule {
        name: "binlog_expire_logs_seconds",
        should_be: "0 (for ever) or a day and more: a server that was away can follow",
        weight: Weight::Warning,
        who: Who::All,
        semi_sync: false,
        is_right: |value| number(value) == 0 || number(value) >= KEPT_S,
        because: "a server that was away longer than that cannot follow any more, and must be copied anew",
        sql: "SET GLOBAL binlog_expire_logs_seconds = 604800",
        line: "binlog_expire_logs_seconds = 604800",
    },
];

impl Rule {
    /// Whether the server's value is wrong; a variable that it does not have is not wrong.
    pub fn is_broken(&self, said: &Said, semi_sync: bool) -> bool {
        let counts = match self.who {
            Who::All => true,
            Who::Replicas => said.is_replica,
            Who::Nobody => false,
        };
        counts
            && (semi_sync || !self.semi_sync)
            && said.value(self.name).is_some_and(|value| !(self.is_right)(value))
    }
}
