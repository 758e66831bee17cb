//! The checks for a primary with its replicas, in addition to those for any cluster.

use super::answer::{Admission, Events, ReplicaLogin};
use super::sight::{Look, Peer, Rule, Sight, look};
use super::sql::{MASTER_ENABLED, SLAVE_ENABLED};
use super::wish::Row;
use crate::finding::Problem;
use crate::flavor::Dialect;
use crate::replication::{ReplicationStatus, words};
use crate::rules::Severity::{Fails, Note, Ok as Well, Slow};
use crate::rules::privileges;
use crate::rules::variables::{self, TIMEOUT, WAIT_POINT};

pub(super) const RULES: &[Rule] = &[
    Rule { check: "rights", look: rights },
    Rule { check: REPLICA_LOGIN, look: replica_login },
    Rule { check: "lag", look: lag },
    Rule { check: "strict", look: strict },
    Rule { check: "binlog_format", look: binlog_format },
    Rule { check: "unlogged", look: unlogged },
    Rule { check: "version", look: version },
    Rule { check: "binlogs", look: binlogs },
    Rule { check: "semi_sync", look: semi_sync },
    Rule { check: "events", look: events },
    Rule { check: "replicas", look: replicas },
];

/// The check whether replicas will be let in at the new primary.
pub const REPLICA_LOGIN: &str = "replica_login";

/// Whether a problem has its own row here.
pub(super) fn is_word(problem: Problem) -> bool {
    words::problems().any(|word| word == problem)
}

/// A row for each rule of the brain's table.
pub(super) fn words(sight: &Sight, rows: &mut Vec<Row>) {
    let (to, from) = (sight.to, sight.from);
    let Some(status) = to.replication() else {
        rows.extend(
            words::problems()
                .filter_map(|problem| Some(Row { check: problem.name().into(), ..sight.unheard()? })),
        );
        return;
    };
    let primary =
        words::Primary { name: from.name(), address: &from.view.address, status: from.replication() };
    for (rule, found) in words::each(status, &primary, to.view.problem, &to.view.reason) {
        let (verdict, sentence, remedy) = match found {
            None => (Well, rule.well.to_owned(), String::new()),
            Some(sentence) => {
                let remedy = if from.is_heard() {
                    rule.remedy
                } else {
                    without_primary(rule.problem, status, rule.remedy)
                };
                (Fails, sentence, in_words_of(status.dialect, remedy))
            }
        };
        let check = rule.problem.name().into();
        rows.push(Row { check, node: to.name().to_owned(), verdict, sentence, remedy });
    }
}

/// The remedy while the primary does not answer: what the server has received may be nowhere else. With GTIDs, MariaDB removes the relay log
/// at CHANGE MASTER that does not name a place in it, and at START SLAVE after both threads were stopped (10.11.19), to fetch it again.
fn without_primary<'a>(problem: Problem, status: &ReplicationStatus, remedy: &'a str) -> &'a str {
    let is_mariadb = status.dialect == Dialect::MariaDb;
    let both_stopped = status.source().is_some_and(|channel| channel.io_stopped && !channel.sql_running);
    match problem {
        Problem::Delayed if is_mariadb => {
            "what it received may be nowhere else, so keep its relay log: STOP SLAVE; SHOW SLAVE STATUS; CHANGE MASTER TO MASTER_DELAY = 0, \
             RELAY_LOG_FILE = 'Relay_Log_File', RELAY_LOG_POS = Relay_Log_Pos; START SLAVE SQL_THREAD there, with the two as shown; once \
             Slave_SQL_Running_State is 'Slave has read all relay log': STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE"
        }
        Problem::NotApplying if is_mariadb && both_stopped => {
            "what it received may be nowhere else, so keep its relay log: SHOW SLAVE STATUS; mend what it stumbled over; CHANGE MASTER TO \
             RELAY_LOG_FILE = 'Relay_Log_File', RELAY_LOG_POS = Relay_Log_Pos; START SLAVE SQL_THREAD there, with the two as shown; once \
             Slave_SQL_Running_State is 'Slave has read all relay log': STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE"
        }
        // A receiver that still tries to connect keeps the relay log (MariaDB), as MySQL always does here.
        Problem::Delayed => {
            "STOP SLAVE SQL_THREAD; CHANGE MASTER TO MASTER_DELAY = 0; START SLAVE SQL_THREAD there: what it received may be nowhere else"
        }
        Problem::NotApplying => {
            "SHOW SLAVE STATUS there: mend what it stumbled over, then START SLAVE SQL_THREAD, and not STOP SLAVE: what it received may be nowhere \
             else, and would be removed"
        }
        Problem::NotFetching | Problem::Stray | Problem::OtherSource => {
            "bring the primary back, or choose another server to take over"
        }
        // It takes over once only one source is left: there is nothing that it could follow or acknowledge to then.
        Problem::SeveralSources => {
            "once Slave_SQL_Running_State is 'Slave has read all relay log' for them: STOP SLAVE 'NAME'; RESET SLAVE 'NAME' ALL there for all \
             sources but the primary"
        }
        // Once it has applied what it received, nothing can be lost.
        Problem::Ring | Problem::NotByGtid => remedy,
        _ => {
            "bring the primary back, or choose another server to take over; change nothing there before: what it has may be nowhere else"
        }
    }
}

/// A remedy in the statements of the server's dialect; `remedy` is in MariaDB's.
fn in_words_of(dialect: Dialect, remedy: &str) -> String {
    let of_mysql = [
        ("STOP SLAVE 'NAME'", "STOP SLAVE FOR CHANNEL 'NAME'"),
        ("RESET SLAVE 'NAME' ALL", "RESET SLAVE ALL FOR CHANNEL 'NAME'"),
        ("STOP ALL SLAVES", "STOP SLAVE"),
        ("START ALL SLAVES", "START SLAVE"),
        ("MASTER_USE_GTID = slave_pos", "MASTER_AUTO_POSITION = 1"),
    ];
    let since_8_0_23 = [
        ("CHANGE MASTER TO MASTER_", "CHANGE REPLICATION SOURCE TO SOURCE_"),
        (" SLAVE", " REPLICA"),
        ("Slave_SQL_Running_State is 'Slave", "Replica_SQL_Running_State is 'Replica"),
    ];
    let pairs: &[&[(&str, &str)]] = match dialect {
        Dialect::MariaDb => &[],
        Dialect::MySql57 | Dialect::MySql80 => &[&of_mysql],
        Dialect::MySql => &[&of_mysql, &since_8_0_23],
    };
    let pairs = pairs.iter().copied().flatten();
    pairs.fold(remedy.to_owned(), |text, (before, after)| text.replace(before, after))
}

/// Privileges that the monitor account lacks on any server: each one must be made read only, or made to follow.
fn rights(sight: &Sight) -> Option<Look> {
    let waits = sight.from.server().and_then(|server| server.is_on(MASTER_ENABLED)) == Some(true);
    let verdict = |right: &str| privileges::without(right, waits);
    let all = || [sight.from, sight.to].into_iter().chain(sight.others.iter().copied());
    let held = || all().filter_map(|peer| Some((peer, peer.server()?.rights.as_ref()?)));
    let found = held().filter_map(|(peer, rights)| {
        let lacks: Vec<_> = rights.lacks.iter().filter(|(right, _)| verdict(right).is_some()).collect();
        let gravest = lacks.iter().filter_map(|(right, _)| verdict(right)).max()?;
        let each: Vec<String> = lacks.iter().map(|(right, why)| format!("{right} ({why})")).collect();
        let names: Vec<&str> = lacks.iter().map(|(right, _)| *right).collect();
        let text = format!("does not grant the monitor account {}", each.join(", "));
        let remedy = format!("GRANT {} ON *.* TO {} on the primary", names.join(", "), rights.account);
        Some(peer.found(gravest, text, remedy))
    });
    let found: Vec<Row> = found.collect();
    if found.is_empty() {
        sight.to.server()?.rights.as_ref()?;
    }
    let unknown = all().filter(|peer| peer.server().is_none_or(|server| server.rights.is_none()));
    let unknown: Vec<&str> = unknown.map(|peer| peer.name()).collect();
    let others = if unknown.is_empty() {
        "and so do the others".to_owned()
    } else {
        format!("which is not known of {}", unknown.join(" and "))
    };
    look(found, sight.to, format!("grants the monitor account what a switchover needs, {others}"))
}

/// Every other server will follow the new primary with that account. If it is refused, nobody follows; where commits wait for a replica, they
/// wait for ever.
fn replica_login(sight: &Sight) -> Option<Look> {
    let to = sight.to;
    let ReplicaLogin { user, admission } = to.server()?.replica_login.as_ref()?;
    let (verdict, text, remedy) = match admission {
        Admission::Admitted => {
            return look(None, to, format!("lets in {user}, which replicas log in with"));
        }
        Admission::MayNotReplicate => (
            Fails,
            format!("does not let {user}, which replicas log in with, replicate: it lacks REPLICATION SLAVE"),
            format!("GRANT REPLICATION SLAVE ON *.* TO {} on the primary", privileges::account(user)),
        ),
        Admission::Refused(why) => (
            Fails,
            format!("does not let in {user}, which replicas log in with, so that nobody could follow it: {why}"),
            format!(
                "put the password in [cluster.replication] right and run `understudy reload`, or the account: ALTER USER {} IDENTIFIED BY \
                 '...' on the primary",
                privileges::account(user)
            ),
        ),
        Admission::NotKnown(why) => (
            Note,
            format!("is not known to let in {user}, which replicas log in with: tried from here, {why}"),
            "try it from a replica's host; or make the account valid for Understudy's host, too, so that it can be tried".to_owned(),
        ),
    };
    look([to.found(verdict, text, remedy)], to, "")
}

fn lag<'a>(sight: &'a Sight<'a>) -> Option<Look> {
    let to = sight.to;
    let lag_s = to.replication()?.source()?.lag_s;
    let position = |peer: Peer<'a>| peer.server().and_then(|server| server.position.as_ref());
    let gap = position(to).zip(position(sight.from)).and_then(|(mine, theirs)| mine.behind_by(theirs).ok());
    // Seconds_Behind_Master is the age of what was applied last: after an old transaction it is large although nothing is left to apply.
    if gap.as_ref().is_some_and(|gap| gap.total() == 0) {
        return look(None, to, "has all that the primary has");
    }
    let behind = gap.map_or_else(String::new, |gap| format!(" and {}", count(gap.total())));
    // Nor does it grow while nothing arrives: a replica that is cut off from the primary says 0 for as long as its connection is not given up.
    // What counts is what `status` shows: for how long it has not had all that the primary had.
    let age_s = to.view.reads.age_ms.map(|age_ms| age_ms / 1000);
    let (lag_s, behind) = match (lag_s, age_s) {
        (Some(says_s), Some(age_s)) if age_s > says_s => {
            let text = format!(
                "{behind} behind, although Seconds_Behind_Master is {says_s}: it may be cut off from the primary"
            );
            (Some(age_s), text)
        }
        (lag_s, _) => (lag_s, format!("{behind} behind")),
    };
    let Some(lag_s) = lag_s else {
        let text = "does not say how far it is behind: Seconds_Behind_Master is NULL";
        return look(vec![to.found(Slow, text, "SHOW SLAVE STATUS there")], to, "");
    };
    let text = format!("is {lag_s} s{behind}");
    let budget = sight.wish.budget;
    let found = if lag_s > budget.as_secs() {
        let text = format!("{text}, which is more than the budget of {:.1} s", budget.as_secs_f64());
        Some(to.found(Fails, text, "wait until it has caught up, choose another, or raise --budget-ms"))
    } else if lag_s >= 1 {
        let text = format!("{text}, which the switchover waits for");
        Some(to.found(Slow, text, "wait until it has caught up"))
    } else {
        None
    };
    look(found, to, text)
}

fn count(transactions: u128) -> String {
    format!("{transactions} transaction{}", if transactions == 1 { "" } else { "s" })
}

fn strict(sight: &Sight) -> Option<Look> {
    let name = "gtid_strict_mode";
    sight.to.server()?.value(name)?;
    look(broken(sight.to, name), sight.to, "has gtid_strict_mode")
}

/// What the rule about that variable says of a server.
fn broken(peer: Peer, name: &str) -> Option<Row> {
    let server = peer.server()?;
    let (text, remedy) =
        variables::named(name)?.before_a_move(server.value(name)?, &server.semi_sync_name(name))?;
    Some(peer.found(Note, text, remedy))
}

fn binlog_format(sight: &Sight) -> Option<Look> {
    let name = "binlog_format";
    let (before, after) = (sight.from.server()?.value(name)?, sight.to.server()?.value(name)?);
    let found = (!before.eq_ignore_ascii_case(after)).then(|| {
        let text =
            format!("has binlog_format = {after}, and the primary has {before}: it would log in another way");
        sight.to.found(Note, text, format!("SET GLOBAL binlog_format = '{before}' there, and in its my.cnf"))
    });
    look(found, sight.to, format!("logs as the primary does: {after}"))
}

/// Rows that a primary wrote and did not log are on no replica, and no position shows it.
fn unlogged<'a>(sight: &'a Sight<'a>) -> Option<Look> {
    let (from, to) = (sight.from, sight.to);
    let of = |peer: Peer<'a>| peer.server()?.unlogged.as_deref();
    let (old, new) = (of(from)?, of(to)?);
    let mut found = Vec::new();
    if !old.is_empty() {
        found.push(from.found(
            Fails,
            format!(
                "leaves some databases out of its binlog ({old}): what is written there is on no other server"
            ),
            "take that out of its my.cnf, restart it, and make the others copies of it (mariadb-backup)",
        ));
    }
    if !new.is_empty() {
        found.push(to.found(
            Fails,
            format!("leaves some databases out of its binlog ({new}): what is written there would be on no other server"),
            "take that out of its my.cnf, and restart it",
        ));
    }
    look(found, to, "logs all databases, and so does the primary")
}

/// All servers will follow the new primary, and a replica must not be older than its source.
fn version(sight: &Sight) -> Option<Look> {
    let (to, new) = (sight.to, sight.to.server()?);
    let series = new.series()?;
    let followers = std::iter::once(sight.from).chain(sight.others.iter().copied());
    let older: Vec<String> = followers
        .filter_map(|peer| Some((peer, peer.server()?)))
        .filter(|(_, server)| server.series().is_some_and(|other| other < series))
        .map(|(peer, server)| format!("{} ({})", peer.name(), server.version))
        .collect();
    let found = (!older.is_empty()).then(|| {
        let text =
            format!("runs {}, and is to be followed by older servers: {}", new.version, older.join(", "));
        to.found(Fails, text, "upgrade those first, or choose a server that is not newer than they are")
    });
    look(found, to, format!("runs {}, and none that is to follow it is older", new.version))
}

/// A server that lacks what the new primary has purged cannot follow it.
fn binlogs(sight: &Sight) -> Option<Look> {
    let to = sight.to;
    let purged = to.server()?.purged.as_ref()?;
    let lacks = |peer: &&Peer| {
        let position = peer.server().and_then(|server| server.position.as_ref());
        peer.is_well() && position.is_some_and(|position| !position.contains(purged).unwrap_or(true))
    };
    let found = sight.others.iter().filter(lacks).map(|peer| {
        let text = format!(
            "would be lost: it has not reached {purged}, where the binlogs of {} begin (the older ones were purged, or are those of a server that it is a copy of)",
            to.name()
        );
        peer.found(Fails, text, "wait until it has caught up with the primary, or choose another successor")
    });
    let well = if purged.is_empty() {
        "has all of its binlogs".to_owned()
    } else {
        format!("has binlogs from {purged} on, which every other server has reached")
    };
    look(found, to, well)
}

fn semi_sync(sight: &Sight) -> Option<Look> {
    let (old, to, new) = (sight.from.server()?, sight.to, sight.to.server()?);
    if !old.is_on(MASTER_ENABLED)? {
        return look(None, to, "replication is asynchronous: no commit waits for a replica");
    }
    let mut found = Vec::new();
    let name = |name: &str| new.semi_sync_name(name);
    let acknowledges = name(SLAVE_ENABLED);
    let timeout_ms = new.number(TIMEOUT);
    if new.is_on(SLAVE_ENABLED) == Some(false) {
        let text = format!(
            "does not acknowledge ({acknowledges} is OFF): as the primary it would wait for nobody, so a failover could lose transactions"
        );
        let restart = if new.new_names { "STOP REPLICA; START REPLICA" } else { "STOP SLAVE; START SLAVE" };
        let remedy = format!("SET GLOBAL {acknowledges} = ON there, and in its my.cnf; {restart}");
        found.push(to.found(Note, text, remedy));
    } else if new.value(MASTER_ENABLED).is_none() || new.value(SLAVE_ENABLED).is_none() {
        let text = "has not both plugins for semi-synchronous replication: as the primary it would wait for nobody, so a failover could lose \
                    transactions";
        let remedy = "install the plugins there that the primary has, for its part and for a replica's";
        found.push(to.found(Note, text, remedy));
    } else if !acknowledged(sight) {
        let limit = timeout_ms.map_or_else(String::new, |ms| format!(", {:.1} s", ms as f64 / 1000.0));
        let text = format!(
            "would wait for acknowledgements that nobody gives: its first commit takes {}{limit}",
            name(TIMEOUT)
        );
        let is_short = timeout_ms.is_some_and(|ms| u128::from(ms) < sight.wish.budget.as_millis());
        let remedy = format!("SET GLOBAL {acknowledges} = ON on a replica, or on the old primary");
        found.push(to.found(if is_short { Slow } else { Fails }, text, remedy));
    }
    for known in [WAIT_POINT, TIMEOUT] {
        if let (Some(before), Some(after)) = (old.value(known), new.value(known))
            && before != after
        {
            let name = name(known);
            let text = format!("has {name} = {after} where the primary has {before}");
            let remedy = format!("set it alike on all servers, and in my.cnf: {name} = {before}");
            found.push(to.found(Note, text, remedy));
        }
    }
    if found.is_empty() {
        // What a failover later on may lose though commits wait for a replica.
        found.extend([WAIT_POINT, TIMEOUT].into_iter().find_map(|name| broken(to, name)));
    }
    look(found, to, "would wait for its replicas as the primary does, and has some that acknowledge")
}

/// Whether some server will acknowledge to the new primary: the old one, or another replica.
fn acknowledged(sight: &Sight) -> bool {
    let followers = std::iter::once(&sight.from).chain(&sight.others);
    followers.filter(|peer| peer.is_well()).any(|peer| {
        // A server that did not report it counts as acknowledging.
        peer.server().is_none_or(|server| server.is_on(SLAVE_ENABLED) != Some(false))
    })
}

/// How long an execution of an event that has begun may go on at the old primary.
const EXECUTION_MAX_S: &str = "0.25 s";

fn events<'a>(sight: &'a Sight<'a>) -> Option<Look> {
    let (from, to) = (sight.from, sight.to);
    let name = "event_scheduler";
    let (before, after) = (from.server()?.is_on(name)?, to.server()?.is_on(name)?);
    let none = Events::default();
    let list = |peer: Peer<'a>| peer.server().and_then(|server| server.event_list.as_ref());
    let (ran, there) = (list(from).unwrap_or(&none), list(to).unwrap_or(&none));
    let mut found = Vec::new();
    if before && !after {
        let text = "has event_scheduler off, and the primary has it on: its events would run only if the monitor account has SUPER";
        let remedy = "SET GLOBAL event_scheduler = ON there, and in its my.cnf: a replica runs no events of its primary";
        found.push(to.found(Note, text, remedy));
    }
    let missing: Vec<&str> =
        ran.definers.iter().filter(|one| there.without_account.contains(one)).map(String::as_str).collect();
    if before && !missing.is_empty() {
        let text =
            format!("has no account for definers of events, which would fail there: {}", missing.join(", "));
        found.push(to.found(
            Note,
            text,
            "make the account on the primary, or give the events another definer",
        ));
    }
    if before && ran.running > 0 {
        let text = format!(
            "executes {} now: what takes longer than {EXECUTION_MAX_S} is killed",
            events_of(ran.running)
        );
        found.push(from.found(Note, text, "wait until it has ended: SHOW PROCESSLIST there"));
    }
    let well = match ran.enabled {
        _ if !before => "the primary runs no events".to_owned(),
        0 => "runs events as the primary does".to_owned(),
        count => format!(
            "would run {} of the primary's, and {} would run none of them",
            events_of(count),
            from.name()
        ),
    };
    look(found, to, well)
}

fn events_of(count: usize) -> String {
    format!("{count} event{}", if count == 1 { "" } else { "s" })
}

/// Replicas that would not follow.
fn replicas(sight: &Sight) -> Option<Look> {
    let broken = |peer: &&Peer| peer.view.serves != crate::finding::Serves::Well;
    let found: Vec<Row> = sight
        .others
        .iter()
        .filter(broken)
        .map(|peer| {
            peer.found(
                Note,
                format!("is not a well replica now: {}{}", peer.view.reason, peer.last_heard()),
                "see `understudy status`",
            )
        })
        .collect();
    let names: Vec<&str> = sight.others.iter().map(Peer::name).collect();
    (!names.is_empty() && sight.to.is_heard()).then_some(())?;
    look(
        found,
        sight.to,
        format!("is to be followed by the old primary and by {}, which are well", names.join(" and ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_run_is_said_in_the_words_of_the_server() {
        let status = ReplicationStatus::default();
        let primary = words::Primary { name: "db1", address: "db1:3306", status: None };
        let all = words::each(&status, &primary, None, "");
        let of = |problem, dialect| {
            in_words_of(dialect, all.iter().find(|(rule, _)| rule.problem == problem).unwrap().0.remedy)
        };
        for (words::Rule { problem, remedy, .. }, _) in &all {
            assert_eq!(of(*problem, Dialect::MariaDb), *remedy);
            let new = of(*problem, Dialect::MySql);
            assert!(!new.contains("SLAVE") && !new.contains("MASTER"), "{new}");
        }
        assert_eq!(
            of(Problem::NotByGtid, Dialect::MySql),
            "once Replica_SQL_Running_State is 'Replica has read all relay log': STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1; START REPLICA there"
        );
        assert_eq!(
            of(Problem::NotByGtid, Dialect::MySql57),
            "once Slave_SQL_Running_State is 'Slave has read all relay log': STOP SLAVE; CHANGE MASTER TO MASTER_AUTO_POSITION = 1; START SLAVE there"
        );
        let sources = of(Problem::SeveralSources, Dialect::MySql);
        for part in [
            "STOP REPLICA FOR CHANNEL 'NAME'; RESET REPLICA ALL FOR CHANNEL 'NAME' there",
            "STOP REPLICA IO_THREAD; START REPLICA IO_THREAD there",
        ] {
            assert!(sources.contains(part), "{sources}");
        }
    }
}
