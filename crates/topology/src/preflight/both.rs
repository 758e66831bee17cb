//! The checks for either kind of cluster: the node itself, what runs on the writer, and which sessions cannot leave it.

use super::answer::{NodeReply, Thread};
use super::sight::{Look, Peer, Rule, Sight, look};
use super::wish::Row;
use crate::finding::Serves;
use crate::rules::Severity::{Fails, Note, Slow};
use crate::session_defaults::Difference;

/// A transaction, a lock or a table change that is older than this is reported.
const OLD_S: u64 = 1;
/// At most this many sessions are named in a sentence.
const NAMED_MAX: usize = 3;

pub(super) const RULES: &[Rule] = &[
    Rule { check: "writer", look: writer },
    Rule { check: "node", look: node },
    Rule { check: "answers", look: answers },
    Rule { check: "transactions", look: transactions },
    Rule { check: "locks", look: locks },
    Rule { check: "table_changes", look: table_changes },
    Rule { check: "sessions", look: sessions },
    Rule { check: "unread", look: unread },
    Rule { check: "connections", look: connections },
    Rule { check: "defaults", look: defaults },
    Rule { check: "advice", look: advice },
];

/// What `status` advises about the two, such as a privilege that the monitor account lacks: the switchover goes without it.
fn advice<'a>(sight: &'a Sight<'a>) -> Option<Look> {
    let both = [sight.from, sight.to];
    let found = both.iter().flat_map(|peer| {
        let said = |text: &'a String| {
            let text = text.strip_prefix(peer.name()).map_or(text.as_str(), str::trim_start);
            let (text, remedy) = text
                .split_once("; run there: ")
                .or_else(|| text.split_once(": run there: "))
                .unwrap_or((text, ""));
            peer.found(Note, text, remedy)
        };
        peer.view.advice.iter().map(said)
    });
    let found: Vec<Row> = found.collect();
    // Where there is none, nothing was asked.
    if found.is_empty() { None } else { look(found, sight.to, "") }
}

fn writer(sight: &Sight) -> Option<Look> {
    let from = sight.from;
    let found = (!from.is_well()).then(|| {
        let text = format!("is not healthy: {}{}", from.view.reason, from.last_heard());
        from.found(Fails, text, "see `understudy status`")
    });
    look(found, from, "writes, and is healthy")
}

/// Findings against the new writer that have no row of their own.
fn node(sight: &Sight) -> Option<Look> {
    let to = sight.to;
    let view = to.view;
    let has_own_row = view.problem.is_some_and(super::replication::is_word) && to.replication().is_some();
    if has_own_row && view.doubt.is_none() && to.is_heard() {
        return None;
    }
    let is_electable = view.serves == Serves::Well && view.doubt.is_none() && view.linked && view.misses == 0;
    let found = (!is_electable).then(|| {
        let state = view.state.word();
        to.found(
            Fails,
            format!("cannot become the writer: it is {state}: {}{}", view.reason, to.last_heard()),
            "see `understudy status`",
        )
    });
    look(found, to, format!("may become the writer: {}", view.reason))
}

fn answers(sight: &Sight) -> Option<Look> {
    let both = [sight.from, sight.to];
    let found = both.iter().filter_map(|peer| match peer.said {
        NodeReply::NotAsked | NodeReply::Server(_) => None,
        NodeReply::Failed { why, late: true } => Some(peer.found(
            Slow,
            format!("is slow to answer a new connection: {why}"),
            "look at the load of that server and of the network",
        )),
        NodeReply::Failed { why, late: false } => Some(peer.found(
            Fails,
            format!("does not answer the monitor account on a new connection: {why}"),
            "see `understudy serve --check`",
        )),
    });
    let found: Vec<Row> = found.collect();
    let is_told = both.iter().all(|peer| !matches!(peer.said, NodeReply::NotAsked)) || !found.is_empty();
    is_told.then_some(())?;
    look(found, sight.to, "answers on a new connection, and so does the writer")
}

/// What a session has not set itself is that of its node.
fn defaults(sight: &Sight) -> Option<Look> {
    let (from, to) = (sight.from, sight.to);
    let (before, after) = (&from.server()?.defaults, &to.server()?.defaults);
    if before.is_empty() || after.is_empty() {
        return None;
    }
    // Replication has a row for the version.
    let mut differences = after.differences(before);
    differences.retain(|it| it.name != "version" || to.replication().is_none());
    let found = (!differences.is_empty()).then(|| {
        let told: Vec<String> = differences.iter().map(|it| it.text(from.name())).collect();
        let set: Vec<String> = differences.iter().filter_map(Difference::statement).collect();
        let text = format!(
            "has other values for sessions that have not set them: {}; statements may mean something else after the move",
            told.join(", ")
        );
        let remedy = if set.is_empty() {
            "make them alike: in its my.cnf, the time zone of its host, or its version".to_owned()
        } else {
            format!("{} there, and in its my.cnf; or the other way around, if that is the wrong one", set.join("; "))
        };
        to.found(Note, text, remedy)
    });
    look(found, to, "gives sessions the same values as the writer, where they set none")
}

/// The first sessions by name, and how many more there are.
fn named(sessions: &[&Thread], what: impl Fn(&Thread) -> String) -> String {
    let mut named: Vec<String> = sessions.iter().take(NAMED_MAX).map(|session| what(session)).collect();
    if sessions.len() > NAMED_MAX {
        named.push(format!("{} more", sessions.len() - NAMED_MAX));
    }
    named.join("; ")
}

fn statement(session: &Thread) -> String {
    if session.statement.is_empty() { String::new() } else { format!(": {}", session.statement) }
}

fn transactions(sight: &Sight) -> Option<Look> {
    let server = sight.from.server()?;
    let open_s = |session: &&Thread| session.transaction_s.unwrap_or(0);
    let mut old: Vec<&Thread> =
        server.sessions.iter().filter(|session| !session.is_internal() && open_s(session) >= OLD_S).collect();
    old.sort_by_key(|session| std::cmp::Reverse(open_s(session)));
    let found = old.first().map(|oldest| {
        let budget = sight.wish.budget.as_secs_f64();
        let names = named(&old, |session| {
            format!("{}, open for {} s{}", session.who(), open_s(&session), statement(session))
        });
        let chance = if open_s(oldest) as f64 >= budget { ", and has been longer than that already" } else { "" };
        let text = format!(
            "has transactions that have been open for a while: {names}; a switchover waits for those of its own clients up to the budget \
             ({budget:.1} s){chance}, then it is undone"
        );
        sight.from.found(Slow, text, format!("end them (KILL {} on {}), wait, or raise --budget-ms", oldest.id, sight.from.name()))
    });
    look(found, sight.from, "has no transaction that has been open for a second")
}

/// A global lock, which stops every statement that writes.
fn is_global(session: &Thread) -> bool {
    ["Waiting for backup lock", "Waiting for global read lock", "Waiting for commit lock"]
        .iter()
        .any(|state| session.state.starts_with(state))
}

fn locks(sight: &Sight) -> Option<Look> {
    let server = sight.from.server()?;
    let waits = |session: &&Thread| {
        session.state.starts_with("Waiting for")
            && session.state.ends_with("lock")
            && session.state_s >= OLD_S
    };
    let waiting: Vec<&Thread> = server.sessions.iter().filter(waits).collect();
    let (global, others): (Vec<&Thread>, Vec<&Thread>) =
        waiting.into_iter().partition(|session| is_global(session));
    let name =
        |session: &Thread| format!("{}, for {} s{}", session.who(), session.state_s, statement(session));
    let holder = "find who holds it: SHOW PROCESSLIST, or information_schema.METADATA_LOCK_INFO with the plugin metadata_lock_info";
    let mut found = Vec::new();
    if !global.is_empty() {
        let text = format!(
            "holds up every write: FLUSH TABLES WITH READ LOCK, or a backup; there wait {}",
            named(&global, name)
        );
        found.push(sight.from.found(Fails, text, holder));
    }
    if !others.is_empty() {
        let text = format!("has statements that wait for a locked table: {}", named(&others, name));
        found.push(sight.from.found(Slow, text, holder));
    }
    look(found, sight.from, "has no statement that waits for a lock")
}

fn is_table_change(session: &Thread) -> bool {
    let first = session.statement.split(' ').next().unwrap_or_default();
    ["ALTER", "CREATE", "DROP", "OPTIMIZE", "RENAME", "TRUNCATE"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}

fn table_changes(sight: &Sight) -> Option<Look> {
    let mut found = Vec::new();
    for (peer, whose) in [(sight.from, "runs"), (sight.to, "applies")] {
        let Some(server) = peer.server() else { continue };
        let long = |session: &&Thread| is_table_change(session) && session.state_s >= OLD_S;
        let changing: Vec<&Thread> = server.sessions.iter().filter(long).collect();
        if changing.is_empty() {
            continue;
        }
        let names = named(&changing, |session| {
            format!("{}, for {} s{}", session.who(), session.state_s, statement(session))
        });
        let text = format!("{whose} a change of a table: {names}; what comes after it waits");
        found.push(peer.found(Slow, text, "wait until it has ended"));
    }
    let is_told = sight.from.server().is_some() && sight.to.server().is_some() || !found.is_empty();
    is_told.then_some(())?;
    look(found, sight.from, "changes no table, and neither does the new writer")
}

fn sessions(sight: &Sight) -> Option<Look> {
    let count = sight.immovable.len();
    let mut named: Vec<String> = sight
        .immovable
        .iter()
        .take(NAMED_MAX)
        .map(|session| format!("{}: {}", session.who, session.why))
        .collect();
    if count > NAMED_MAX {
        named.push(format!("{} more", count - NAMED_MAX));
    }
    let found = (count > 0).then(|| {
        let plural = if count == 1 { "session" } else { "sessions" };
        let text = format!(
            "has {count} {plural} that cannot move and would end with error 9104: {}",
            named.join("; ")
        );
        sight.from.found(Note, text, "have those clients let go of it, or expect that they connect anew")
    });
    let through = sight.wish.sessions;
    look(found, sight.from, format!("has {through} sessions through Understudy, and all can move"))
}

/// Results that clients do not read: the node cannot be left before they are cut.
fn unread(sight: &Sight) -> Option<Look> {
    let of = |can_be_cut: bool| -> Vec<&str> {
        let those = sight.stopped.iter().filter(|session| session.can_be_cut == can_be_cut);
        those.map(|session| session.who.as_str()).collect()
    };
    let told = |of: &[&str]| {
        let more = of.len().saturating_sub(NAMED_MAX);
        let named = of[..of.len() - more].join("; ");
        if more > 0 { format!("{named}; {more} more") } else { named }
    };
    let mut found = Vec::new();
    let (cut, kept) = (of(true), of(false));
    if !kept.is_empty() {
        let text =
            format!("waits for clients that do not read, and may lose something by a cut: {}", told(&kept));
        found.push(sight.from.found(Slow, text, "have those clients read on or end"));
    }
    if !cut.is_empty() {
        let text =
            format!("has results that are cut at once, with error 9105, if still unread: {}", told(&cut));
        found.push(sight.from.found(Note, text, "have those clients read on, or expect that they ask again"));
    }
    look(found, sight.from, "has no result that its client does not read")
}

fn connections(sight: &Sight) -> Option<Look> {
    let most = u32::try_from(sight.to.server()?.number("max_connections")?).ok()?;
    let has = threads(sight.to)?;
    let (carries, come) = (threads(sight.from)?, sight.wish.sessions);
    let to = sight.to;
    let remedy = format!("SET GLOBAL max_connections on {}, and in its my.cnf", to.name());
    let mut found = Vec::new();
    if has.saturating_add(come) > most {
        let text = format!("takes {most} connections and has {has}: the writer's {come} sessions do not fit");
        found.push(to.found(Fails, text, remedy));
    } else if carries > most {
        let text = format!("takes {most} connections, and the writer carries {carries} now");
        found.push(to.found(Fails, text, remedy));
    }
    look(found, to, format!("takes {most} connections and has {has}; the writer carries {carries}"))
}

fn threads(peer: Peer) -> Option<u32> {
    let replication = peer.replication().map(|status| status.threads_connected);
    replication.or_else(|| peer.galera().map(|status| status.threads_connected))
}
