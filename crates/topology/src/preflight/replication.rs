//! What is looked at with a primary and its replicas beside what is looked at in any cluster.

use super::Verdict::{Fails, Note, Ok as Well, Slow};
use super::sight::{Found, Look, Peer, Rule, Sight, look};
use super::{Row, Verdict};
use crate::replication::words;

/// What the brain's table of rules ([`words`]) looks at: the check, what is said when all is well, and what to do when it is not.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "errant",
        "has no transactions that the primary has not",
        "`understudy errant list` shows them, and whether they can be undone; otherwise make the server a copy of the primary",
    ),
    (
        "stray",
        "follows a source",
        "wait until Understudy has it follow the primary; `understudy status` says what keeps it",
    ),
    ("several_sources", "follows one source", "RESET SLAVE 'NAME' ALL there for all sources but the primary"),
    (
        "stranger",
        "follows nobody outside of this cluster",
        "have it follow a server of this cluster, or put that one in the configuration",
    ),
    ("ring", "is in no ring", "STOP SLAVE; RESET SLAVE ALL on the one that is to be the primary"),
    ("other_source", "follows the primary", "wait until Understudy has it follow the primary"),
    (
        "not_applying",
        "applies what it receives",
        "SHOW SLAVE STATUS there: mend what it stumbled over, then START SLAVE",
    ),
    (
        "delayed",
        "is not kept behind on purpose",
        "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 0; START SLAVE there",
    ),
    (
        "filtered",
        "has no replication filters",
        "take the filters out of its my.cnf, and make it a copy of the primary: what was left out is missing",
    ),
    (
        "not_by_gtid",
        "follows by GTID",
        "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE there",
    ),
    (
        "no_binlog",
        "has log_bin and log_slave_updates",
        "set log_bin and log_slave_updates in its my.cnf, and restart it",
    ),
    ("not_fetching", "receives from the primary", "SHOW SLAVE STATUS there: look at Last_IO_Error"),
];

pub(super) const RULES: &[Rule] = &[
    Rule { check: "lag", look: lag },
    Rule { check: "strict", look: strict },
    Rule { check: "binlog_format", look: binlog_format },
    Rule { check: "version", look: version },
    Rule { check: "binlogs", look: binlogs },
    Rule { check: "semi_sync", look: semi_sync },
    Rule { check: "events", look: events },
    Rule { check: "replicas", look: replicas },
];

/// Whether a problem of that name has a row among [`words`].
pub(super) fn is_word(problem: &str) -> bool {
    WORDS.iter().any(|(name, ..)| *name == problem)
}

/// A row for each rule of the brain's table.
pub(super) fn words(sight: &Sight, rows: &mut Vec<Row>) {
    let (to, from) = (sight.to, sight.from);
    let Some(status) = to.replication() else { return };
    let primary =
        words::Primary { name: from.name(), address: &from.view.address, status: from.replication() };
    let said = words::each(status, &primary, to.view.problem, &to.view.reason);
    for (check, well, remedy) in WORDS {
        let Some(found) = said.iter().find(|(name, _)| name == check) else { continue };
        let (verdict, sentence, remedy) = match &found.1 {
            None => (Well, (*well).to_owned(), String::new()),
            Some(sentence) => (Fails, sentence.clone(), (*remedy).to_owned()),
        };
        rows.push(Row { check, node: to.name().to_owned(), verdict, sentence, remedy });
    }
}

fn lag<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let to = sight.to;
    let lag_s = to.replication()?.source()?.lag_s;
    let position = |peer: Peer<'a>| peer.server().and_then(|server| server.position.as_ref());
    let behind =
        position(to).zip(position(sight.from)).and_then(|(mine, theirs)| mine.behind_by(theirs).ok());
    let behind = behind.map_or_else(String::new, |gap| format!(" and {}", count(gap.total())));
    let Some(lag_s) = lag_s else {
        let text = "does not say how far it is behind: Seconds_Behind_Master is NULL";
        return look(vec![to.found(Slow, text, "SHOW SLAVE STATUS there")], to, "");
    };
    let text = format!("is {lag_s} s{behind} behind");
    let budget = sight.budget;
    let found = if lag_s > budget.as_secs() {
        let text = format!("{text}, which is more than the budget of {:.1} s", budget.as_secs_f64());
        Some(to.found(Fails, text, "wait until it has caught up, choose another, or raise --budget-ms"))
    } else if lag_s >= 1 {
        let text = format!("{text}, which the switchover waits for");
        Some(to.found(Slow, text, "wait until it has caught up"))
    } else {
        None
    };
    look(found.into_iter().collect(), to, text)
}

fn count(transactions: u128) -> String {
    format!("{transactions} transaction{}", if transactions == 1 { "" } else { "s" })
}

fn strict<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let strict = sight.to.server()?.strict?;
    let found = (!strict).then(|| {
        let text = "has gtid_strict_mode off: what is written there past Understudy would not be noticed";
        sight.to.found(Note, text, "SET GLOBAL gtid_strict_mode = ON there, and in its my.cnf")
    });
    look(found.into_iter().collect(), sight.to, "has gtid_strict_mode")
}

fn binlog_format<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let (before, after) =
        (sight.from.server()?.binlog_format.as_deref()?, sight.to.server()?.binlog_format.as_deref()?);
    let found = (!before.eq_ignore_ascii_case(after)).then(|| {
        let text =
            format!("has binlog_format = {after}, and the primary has {before}: it would log in another way");
        sight.to.found(Note, text, format!("SET GLOBAL binlog_format = '{before}' there, and in its my.cnf"))
    });
    look(found.into_iter().collect(), sight.to, format!("logs as the primary does: {after}"))
}

/// Everybody is to follow the new primary, and a replica must not be older than its source.
fn version<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
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
    look(
        found.into_iter().collect(),
        to,
        format!("runs {}, and none that is to follow it is older", new.version),
    )
}

/// Who lacks what the new primary has purged cannot follow it any more.
fn binlogs<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let to = sight.to;
    let purged = to.server()?.purged.as_ref()?;
    let lacks = |peer: &&Peer| {
        let position = peer.server().and_then(|server| server.position.as_ref());
        peer.is_well() && position.is_some_and(|position| !position.contains(purged).unwrap_or(true))
    };
    let found = sight.others.iter().filter(lacks).map(|peer| {
        let text = format!(
            "would be lost: it has not reached {purged}, and {} has purged its binlogs up to there",
            to.name()
        );
        peer.found(Fails, text, "wait until it has caught up with the primary, or choose another successor")
    });
    let well = if purged.is_empty() {
        "has all of its binlogs".to_owned()
    } else {
        format!("has its binlogs from {purged} on, which every other server has reached")
    };
    look(found.collect(), to, well)
}

fn semi_sync<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let (old, to, new) = (sight.from.server()?, sight.to, sight.to.server()?);
    if !old.waits? {
        return look(vec![], to, "replication is asynchronous: no commit waits for a replica");
    }
    let mut found = Vec::new();
    if new.acknowledges == Some(false) {
        let text = "does not acknowledge (rpl_semi_sync_slave_enabled is OFF): as the primary it would wait for nobody, so a failover could lose \
                    transactions";
        let remedy =
            "SET GLOBAL rpl_semi_sync_slave_enabled = ON there, and in its my.cnf; STOP SLAVE; START SLAVE";
        found.push(to.found(Note, text, remedy));
    } else if !acknowledged(sight) {
        let limit = new
            .acknowledge_timeout_ms
            .map_or_else(String::new, |ms| format!(", {:.1} s", ms as f64 / 1000.0));
        let text = format!(
            "would wait for acknowledgements that nobody gives: its first commit takes rpl_semi_sync_master_timeout{limit}"
        );
        let is_short = new.acknowledge_timeout_ms.is_some_and(|ms| u128::from(ms) < sight.budget.as_millis());
        let remedy = "SET GLOBAL rpl_semi_sync_slave_enabled = ON on a replica, or on the old primary";
        found.push(to.found(if is_short { Slow } else { Fails }, text, remedy));
    }
    let differs = [
        ("rpl_semi_sync_master_wait_point", old.wait_point.clone(), new.wait_point.clone()),
        (
            "rpl_semi_sync_master_timeout",
            old.acknowledge_timeout_ms.map(|ms| ms.to_string()),
            new.acknowledge_timeout_ms.map(|ms| ms.to_string()),
        ),
    ];
    for (name, before, after) in differs {
        if let (Some(before), Some(after)) = (before, after)
            && before != after
        {
            let text = format!("has {name} = {after} where the primary has {before}");
            found.push(to.found(
                Note,
                text,
                format!("set it alike on all servers, and in my.cnf: {name} = {before}"),
            ));
        }
    }
    look(found, to, "would wait for its replicas as the primary does, and has some that acknowledge")
}

/// Somebody acknowledges to the new primary: the old one, or another replica.
fn acknowledged(sight: &Sight) -> bool {
    let followers = std::iter::once(&sight.from).chain(&sight.others);
    followers.filter(|peer| peer.is_well()).any(|peer| {
        // Who did not say is not blamed.
        peer.server().is_none_or(|server| server.acknowledges != Some(false))
    })
}

fn events<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let (before, after) = (sight.from.server()?.events?, sight.to.server()?.events?);
    let found = (before && !after).then(|| {
        let text = "has event_scheduler off, and the primary has it on: its events would run no more";
        sight.to.found(Note, text, "SET GLOBAL event_scheduler = ON there after the switchover, and ENABLE the events that are disabled on it")
    });
    look(
        found.into_iter().collect(),
        sight.to,
        if before { "runs events as the primary does" } else { "the primary runs no events" },
    )
}

/// Who would not follow.
fn replicas<'a>(sight: &'a Sight<'a>) -> Option<Look<'a>> {
    let broken = |peer: &&Peer| peer.view.serves != crate::finding::Serves::Well;
    let found: Vec<Found> = sight
        .others
        .iter()
        .filter(broken)
        .map(|peer| {
            let verdict: Verdict = Note;
            peer.found(
                verdict,
                format!("is not a well replica now: {}", peer.view.reason),
                "see `understudy status`",
            )
        })
        .collect();
    let names: Vec<&str> = sight.others.iter().map(Peer::name).collect();
    (!names.is_empty()).then_some(())?;
    look(
        found,
        sight.to,
        format!("is to be followed by the old primary and by {}, which are well", names.join(" and ")),
    )
}
