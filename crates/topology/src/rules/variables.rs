//! The variables of a primary and its replicas: each one's right value, and what is said where it is another.

use super::Weight::{self, Advice, Problem, Warning};

/// The servers that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All of them.
    All,
    /// The replicas.
    Replicas,
    /// None: the variable is shown in the doctor's table, and checked elsewhere by comparing the servers.
    Nobody,
}

/// How a wrong value is corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// While the server runs, and in its option file.
    NowAndInFile,
    /// While it runs; the value belongs into no file.
    Now,
    /// In the file alone, which takes a restart.
    InFile,
    /// No value is proposed.
    Nowhere,
}

/// A variable.
#[derive(Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    /// Whether a value is right.
    pub is_right: fn(&str) -> bool,
    /// The value that is proposed.
    value: &'static str,
    set: Set,
    /// Applies only with semi-synchronous replication.
    pub semi_sync: bool,
    pub who: Who,
    /// At rest, the severity.
    pub weight: Weight,
    /// At rest, for the table: the right value, and the reason.
    pub should_be: &'static str,
    /// At rest: what happens when the value is wrong.
    pub because: &'static str,
    /// At start: the same, where the server could not serve at all.
    pub at_start: &'static str,
    /// Before a move, about the new writer.
    pub before_a_move: Option<BeforeAMove>,
}

/// What is said before a move.
#[derive(Clone, Copy)]
pub struct BeforeAMove {
    /// The sentence when the value is wrong, by the value and the server's own name of the variable.
    pub sentence: fn(&str, &str) -> String,
    /// Where the value is to be set, to end the remedy.
    scope: &'static str,
}

/// A variable that a server's option file must contain, since a running server does not show it.
pub struct InFile {
    pub name: &'static str,
    pub value: &'static str,
    /// Applies only with semi-synchronous replication.
    pub semi_sync: bool,
    /// What happens without it.
    pub because: &'static str,
}

/// Whether the value of a switch is ON.
pub fn is_on(value: &str) -> bool {
    value.eq_ignore_ascii_case("ON") || value == "1"
}

fn is_off(value: &str) -> bool {
    !is_on(value)
}

fn number(value: &str) -> u64 {
    value.parse::<f64>().map_or(0, |number| number as u64)
}

/// A timeout that is never reached, in milliseconds: longer than any client waits for a commit.
const SEMI_SYNC_TIMEOUT_MS: u64 = 3_600_000;
/// A replica may be away for this many seconds and still catch up from the binlog.
const KEPT_S: u64 = 86_400;

const fn rule(name: &'static str, weight: Weight, value: &'static str, is_right: fn(&str) -> bool) -> Rule {
    Rule {
        name,
        is_right,
        value,
        set: Set::NowAndInFile,
        semi_sync: false,
        who: Who::All,
        weight,
        should_be: "",
        because: "",
        at_start: "",
        before_a_move: None,
    }
}

const fn semi_sync(
    name: &'static str,
    weight: Weight,
    value: &'static str,
    is_right: fn(&str) -> bool,
) -> Rule {
    Rule { semi_sync: true, ..rule(name, weight, value, is_right) }
}

const fn shown(name: &'static str, weight: Weight) -> Rule {
    Rule { who: Who::Nobody, set: Set::Nowhere, ..rule(name, weight, "", |_| true) }
}

/// All rules, in the order of the doctor's page.
pub const ALL: &[Rule] = &[
    Rule {
        who: Who::Replicas,
        should_be: "ON on replicas, and in every file: nobody writes to a server that is not the primary",
        because: "whoever connects to this replica past Understudy writes what the primary never gets; it could not follow any more",
        ..rule("read_only", Problem, "ON", |value| !value.eq_ignore_ascii_case("OFF") && value != "0")
    },
    Rule {
        who: Who::Replicas,
        should_be: "ON on replicas, where a server has it (MySQL)",
        because: "without it accounts with SUPER write in spite of read_only",
        ..rule("super_read_only", Advice, "ON", is_on)
    },
    Rule {
        should_be: "ON: errant transactions can be told",
        because: "two transactions may get the same number, and what a server has that the primary has not would not be noticed",
        at_start: "what a replica writes by itself would not be noticed",
        before_a_move: Some(BeforeAMove {
            sentence: |_, name| {
                format!("has {name} off: what is written there past Understudy would not be noticed")
            },
            scope: "there, and in its my.cnf",
        }),
        ..rule("gtid_strict_mode", Problem, "ON", is_on)
    },
    Rule {
        set: Set::InFile,
        should_be: "ON: any server may become the primary",
        because: "nobody could follow this server, so it never becomes the primary",
        at_start: "no server could follow it when it is the primary",
        ..rule("log_bin", Problem, "binlog", is_on)
    },
    Rule {
        set: Set::InFile,
        should_be: "ON: likewise",
        because: "what it applied as a replica is not in its binlog, so nobody could follow it",
        at_start: "no server could follow it when it is the primary",
        ..rule("log_slave_updates", Problem, "ON", is_on)
    },
    Rule {
        should_be: "another one on each server: GTIDs are told apart by it",
        ..shown("server_id", Problem)
    },
    Rule { should_be: "the same on all: one order of transactions", ..shown("gtid_domain_id", Warning) },
    Rule {
        should_be: "ROW: replicas get the same rows, and errant ones can be undone",
        because: "a statement may do something else on a replica; and `understudy errant flashback` undoes rows only",
        ..rule("binlog_format", Warning, "ROW", |value| value.eq_ignore_ascii_case("ROW"))
    },
    Rule {
        should_be: "FULL: errant rows can be undone",
        because: "a row without all of its columns cannot be put back by `understudy errant flashback`",
        ..rule("binlog_row_image", Advice, "FULL", |value| value.eq_ignore_ascii_case("FULL"))
    },
    Rule {
        should_be: "OFF: likewise",
        because: "`understudy errant flashback` leaves compressed rows alone",
        ..rule("log_bin_compress", Advice, "OFF", is_off)
    },
    Rule {
        should_be: "1: what is committed survives a power failure",
        because: "a server that loses power loses the end of its binlog: transactions that replicas have already, or that nobody has. 1 costs a flush for each group of commits",
        ..rule("sync_binlog", Warning, "1", |value| value == "1")
    },
    Rule {
        should_be: "1: likewise",
        because: "a server that loses power loses up to a second of transactions that clients were told of",
        ..rule("innodb_flush_log_at_trx_commit", Warning, "1", |value| value == "1" || value == "3")
    },
    Rule {
        should_be: "ON on all: they acknowledge",
        because: "it acknowledges nothing as a replica: with too few that do, commits wait",
        ..semi_sync("rpl_semi_sync_slave_enabled", Warning, "ON", is_on)
    },
    Rule {
        who: Who::Replicas,
        set: Set::Now,
        should_be: "ON on the primary alone, and in no file: Understudy sets it",
        because: "on a replica the applier waits for acknowledgements that nobody gives it",
        ..semi_sync("rpl_semi_sync_master_enabled", Problem, "OFF", is_off)
    },
    Rule {
        should_be: "AFTER_SYNC: nobody reads what no replica has",
        because: "with AFTER_COMMIT others read a transaction before a replica has it; after a failover it is gone",
        before_a_move: Some(BeforeAMove {
            sentence: |value, _| {
                format!(
                    "waits at {value}: others read a transaction before a replica has it, and after a failover it may be gone"
                )
            },
            scope: "on all servers, and in my.cnf",
        }),
        ..semi_sync(WAIT_POINT, Warning, "AFTER_SYNC", |value| value.eq_ignore_ascii_case("AFTER_SYNC"))
    },
    Rule {
        should_be: "so long that it is never reached, 3600000 ms or more",
        because: "at this limit the primary goes on without acknowledgements, in silence: what it commits then may be lost; and one that is cut off is written on",
        before_a_move: Some(BeforeAMove {
            sentence: |value, name| {
                let limit_s = number(value) as f64 / 1000.0;
                format!(
                    "goes on without acknowledgements after {limit_s:.1} s ({name}), in silence: what it commits then, a failover may lose"
                )
            },
            scope: "on all servers, and in my.cnf",
        }),
        ..semi_sync(TIMEOUT, Warning, "3600000", |value| number(value) >= SEMI_SYNC_TIMEOUT_MS)
    },
    Rule {
        should_be: "ON: commits wait also where no replica is connected",
        because: "the primary goes on without acknowledgements as soon as its replicas are gone, in silence: what it commits then may be lost",
        ..semi_sync("rpl_semi_sync_master_wait_no_slave", Warning, "ON", is_on)
    },
    Rule {
        set: Set::InFile,
        should_be: "OFF: what was received and acknowledged is kept",
        because: "a replica that starts throws away what it has received, acknowledged and not applied; nobody else may have it",
        ..semi_sync("relay_log_recovery", Warning, "OFF", is_off)
    },
    Rule {
        should_be: "10 s or less: a replica notices a source that vanished",
        because: "a replica that lost its source without a word sits on the dead connection for so many seconds. Understudy asks replicas to connect anew when the primary is silent; nobody does when only their own way there broke",
        ..rule("slave_net_timeout", Advice, "10", |value| number(value) <= 10)
    },
    Rule {
        should_be: "0 (for ever) or a day and more: a server that was away can follow",
        because: "a server that was away longer than that cannot follow any more, and must be copied anew",
        ..rule("binlog_expire_logs_seconds", Warning, "604800", |value| {
            number(value) == 0 || number(value) >= KEPT_S
        })
    },
];

/// Where a commit waits for acknowledgements.
pub const WAIT_POINT: &str = "rpl_semi_sync_master_wait_point";
/// For how long.
pub const TIMEOUT: &str = "rpl_semi_sync_master_timeout";

/// What must be in each server's option file.
pub const IN_FILE: &[InFile] = &[
    InFile {
        name: "read_only",
        value: "ON",
        semi_sync: false,
        because: "a server that was restarted takes writes before Understudy has compared it: whoever reaches it past Understudy writes what the primary never gets",
    },
    InFile {
        name: "skip_slave_start",
        value: "ON",
        semi_sync: false,
        because: "a server that was restarted follows its old source before Understudy has compared it, and may throw away what it had received",
    },
    InFile {
        name: "init_rpl_role",
        value: "SLAVE",
        semi_sync: true,
        because: "a primary that crashed commits, when it starts, what no replica has acknowledged; it cannot follow then",
    },
];

/// The rule about the variable of that name.
pub fn named(name: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.name == name)
}

impl InFile {
    /// The line.
    pub fn line(&self) -> String {
        format!("{} = {}", self.name, self.value)
    }
}

impl Rule {
    /// Whether a value is wrong on such a server.
    pub fn is_broken(&self, value: &str, is_replica: bool, semi_sync: bool) -> bool {
        let counts = match self.who {
            Who::All => true,
            Who::Replicas => is_replica,
            Who::Nobody => false,
        };
        counts && (semi_sync || !self.semi_sync) && !(self.is_right)(value)
    }

    /// SQL that corrects it while the server runs; empty when that takes a restart.
    pub fn sql(&self) -> String {
        let is_set = matches!(self.set, Set::NowAndInFile | Set::Now);
        if is_set { format!("SET GLOBAL {} = {}", self.name, self.value) } else { String::new() }
    }

    /// The line for the option file; empty when it belongs into none.
    pub fn line(&self) -> String {
        let is_line = matches!(self.set, Set::NowAndInFile | Set::InFile);
        if is_line { format!("{} = {}", self.name, self.value) } else { String::new() }
    }

    /// What is said at start of a server that is in the configuration; `None` when nothing.
    pub fn at_start(&self, value: &str) -> Option<String> {
        let is_said = !self.at_start.is_empty() && !(self.is_right)(value);
        is_said.then(|| format!("{} is off: {}; set it in my.cnf", self.name, self.at_start))
    }

    /// Before a move, the sentence and the remedy, if the new writer's value is wrong. `own_name`: what that server calls the variable.
    pub fn before_a_move(&self, value: &str, own_name: &str) -> Option<(String, String)> {
        let said = self.before_a_move.filter(|_| !(self.is_right)(value))?;
        let remedy = format!("SET GLOBAL {own_name} = {} {}", self.value, said.scope);
        Some(((said.sentence)(value, own_name), remedy))
    }
}
