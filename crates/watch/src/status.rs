//! `understudy status`: the cluster on one screen.
//!
//! Enters: the JSON of the API's status. Leaves: text for people, or that JSON. What a newer or older server does not say is
//! left out, never guessed.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use api::proxy::{HoldStats, SplitStats, Stats};
use api::warm::{Standby, Totals, Warm};
use api::{Node, Status};
use clap::Args;
use topology::kind::Kind;
use topology::replication::Channel;
use topology::routes::LaneState;
use topology::settings::Writers;
use topology::view::{ClusterView, NodeState, TrafficFlow};

use crate::{journal, sessions};
use cli::exit::{CommandResult, Failure};
use client::{Client, Server};
use health::VIEW_AGE_MAX;
use report::table::{Lean, Table, span};

/// Between two states.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Decisions shown.
const DECISIONS: usize = 5;

/// The nodes, the writer, the gate, the hold's counters and the last decisions.
#[derive(Args)]
pub struct StatusArgs {
    /// As JSON, with everything there is
    #[arg(long)]
    json: bool,
    /// With --json: once a second, each on one line, until it is ended; while the server does not answer, that is said once
    #[arg(long, requires = "json")]
    watch: bool,
    /// The sessions that wait, have a transaction open, or cannot move, too
    #[arg(long, conflicts_with = "json")]
    sessions: bool,
    /// Exit with 4 while a node is not well or the manager says nothing new, and with 5 while statements are held
    #[arg(long, conflicts_with = "watch")]
    exit_code: bool,
    #[command(flatten)]
    server: Server,
}

/// A manager that has said nothing for longer is not believed, ms: as at the health endpoint.
const VIEW_AGE_MS_MAX: u64 = VIEW_AGE_MAX.as_millis() as u64;
/// With --exit-code: statements flow, and a node is not as it should be.
const NODE_NOT_WELL: u8 = 4;
/// With --exit-code: statements are held.
const HELD: u8 = 5;

impl StatusArgs {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        if self.watch {
            return watch(&self.server.client()?);
        }
        let answer = self.server.client()?.get("status")?;
        if self.json {
            println!("{:#}", answer.data);
        } else {
            let status = answer.read()?;
            print!("{}", screen(&status));
            if self.sessions {
                print!("\n{}", sessions::table(&status));
            }
        }
        Ok(if self.exit_code { ExitCode::from(exit_code(&answer.read()?)) } else { ExitCode::SUCCESS })
    }
}

/// The exit code that tells the state.
fn exit_code(status: &Status) -> u8 {
    if status.gate != TrafficFlow::Open {
        return HELD;
    }
    if status.view_age_ms > VIEW_AGE_MS_MAX {
        return NODE_NOT_WELL;
    }
    let is_well = |node: &Node| node.problem.is_none() && node.others.is_none() && node.doubt.is_none();
    if status.nodes.iter().all(is_well) { 0 } else { NODE_NOT_WELL }
}

/// One status a second, a line each. It ends when nobody reads on, or with the first answer that is an error.
fn watch(client: &Client) -> CommandResult {
    let mut answer = Some(client.get("status")?);
    loop {
        if let Some(answer) = &answer {
            println!("{}", answer.data);
        }
        std::thread::sleep(WATCH_EVERY);
        let is_told = answer.is_none();
        answer = match client.get("status") {
            Ok(answer) => Some(answer),
            // Whoever watches a server wants to see it come back.
            Err(Failure::Unreachable(why) | Failure::NotRunning(why)) => {
                if !is_told {
                    eprintln!("{why}");
                }
                None
            }
            Err(other) => return Err(other),
        };
    }
}

/// The whole screen.
fn screen(status: &Status) -> String {
    let mut screen = String::new();
    head(&mut screen, status);
    screen.push('\n');
    screen.push_str(&nodes(status));
    for node in &status.nodes {
        for advice in &node.advice {
            let _ = writeln!(screen, "advice  {}: {advice}", node.name);
        }
    }
    let told = |at| api::proxy::expiry(at, SystemTime::now());
    if let Some(expiry) = status.proxy.certificate_expires_unix_s.and_then(told) {
        let _ = writeln!(
            screen,
            "advice  the certificate that clients are shown (listen.tls_certificate_file) {expiry}"
        );
    }
    screen.push('\n');
    for node in &status.nodes {
        // For how long it may be away.
        if let Some(recovery) = &node.recovery {
            let _ = writeln!(screen, "window  {} {}", node.name, recovery.sentence);
        }
    }
    proxy(&mut screen, &status.proxy);
    if let Some(port) = &status.read_port {
        read_port(&mut screen, status, port);
    }
    if let Some(warm) = &status.warm {
        self::warm(&mut screen, warm);
    }
    // What nodes could apply, where more is known than that they kept up.
    for node in status.capacity.iter().filter(|node| node.apply_per_s.is_some()) {
        let _ = writeln!(screen, "applies {}", node.sentence);
    }
    for session in &status.proxy.busy {
        let _ = writeln!(screen, "busy    {}: {session}", session.node);
    }
    decisions(&mut screen, status);
    screen
}

fn head(screen: &mut String, status: &Status) {
    let Status { id, view_age_ms, .. } = status;
    let ClusterView { cluster, term, .. } = &status.view;
    let kind = match (replicates(status), status.writers) {
        (true, _) => "a primary and its replicas",
        (_, Writers::All) => "all nodes write",
        (_, Writers::One) => "one writer",
    };
    let up = span(status.now_ms);
    let _ = writeln!(screen, "cluster {cluster} ({id}), {kind}, term {term}, up {up}");
    // Where all nodes write there is no one writer to name.
    let writer = status.writer.as_deref().or((status.writers == Writers::One).then_some("none"));
    if let Some(writer) = writer {
        let name = if replicates(status) { "primary" } else { "writer " };
        let _ = writeln!(screen, "{name} {writer}");
    }
    let because = status.hold_because.as_ref().map_or_else(String::new, |because| format!(": {because}"));
    let gate = if status.gate == TrafficFlow::Open { "open" } else { "held" };
    let _ = writeln!(screen, "gate    {gate}{because}");
    if let Some(order) = &status.order {
        let _ = writeln!(screen, "order   {order}");
    }
    if *view_age_ms > VIEW_AGE_MS_MAX {
        let _ = writeln!(
            screen,
            "old     the manager has said nothing for {}: what follows may not be so any more",
            span(*view_age_ms)
        );
    }
}

/// Whether it is a primary with replicas.
pub fn replicates(status: &Status) -> bool {
    status.kind == Kind::Replication
}

fn nodes(status: &Status) -> String {
    let replicates = replicates(status);
    let mut table = Table::new(&[
        ("NODE", Lean::Left),
        ("ADDRESS", Lean::Left),
        ("ROLE", Lean::Left),
        ("STATE", Lean::Left),
        ("FOR", Lean::Right),
        ("LANE", Lean::Left),
        ("SESSIONS", Lean::Right),
        ("RUNNING", Lean::Right),
        ("LIMIT", Lean::Right),
        (if replicates { "BEHIND" } else { "QUEUE" }, Lean::Right),
        ("WHY", Lean::Left),
    ]);
    for node in &status.nodes {
        let lane = status.proxy.lane(&node.name);
        table.row([
            node.name.clone(),
            node.address.clone(),
            role(status, node).to_owned(),
            state(node, replicates).to_owned(),
            span(node.since_ms),
            node.lane.word().to_owned(),
            figure(lane.map(|lane| lane.sessions)),
            figure(lane.map(|lane| lane.running)),
            figure(node.sessions_max),
            match (is_lost(node), replicates) {
                (true, _) => "unknown".to_owned(),
                (false, true) => behind(node),
                (false, false) => figure(queue(node)),
            },
            match (is_lost(node), replicates) {
                (true, _) => format!("{}{}", node.reason, last_answered(node)),
                (false, true) => standing(node, &status.nodes),
                (false, false) => node.reason.clone(),
            },
        ]);
    }
    table.text()
}

/// What a node is to the others.
pub fn role(status: &Status, node: &Node) -> &'static str {
    match (status.writers, node.writer, replicates(status)) {
        (Writers::One, true, true) => "primary",
        (Writers::One, false, true) => "replica",
        (Writers::One, true, false) => "writer",
        (Writers::One, false, false) => "standby",
        (Writers::All, ..) => "-",
    }
}

/// A figure, or a dash for what is not said.
pub fn figure(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Writesets that a member has received and not yet applied.
pub fn queue(node: &Node) -> Option<u64> {
    Some(node.facts.as_ref()?.galera()?.recv_queue)
}

/// The word for what a node is. A server is in no group that it could be in step with.
pub fn state(node: &Node, replicates: bool) -> &'static str {
    match node.state {
        NodeState::Synced if replicates => "running",
        state => state.word(),
    }
}

/// It does not answer: what it said last does not count.
pub fn is_lost(node: &Node) -> bool {
    matches!(node.state, NodeState::Dead | NodeState::Silent) || !node.linked
}

/// Since when it has not, as the end of a sentence.
pub fn last_answered(node: &Node) -> String {
    node.answered_ms_ago.map_or_else(String::new, |ago| format!("; last answered {} ago", span(ago)))
}

/// How old what a replica has is, at the most: measured by what the primary and the replica have, the same that the port for reads goes by. Not
/// Seconds_Behind_Master, which is the age of what was applied last.
pub fn behind(node: &Node) -> String {
    match node.reads.age_ms {
        None => "-".to_owned(),
        Some(0..1000) => "< 1 s".to_owned(),
        Some(age) => span(age),
    }
}

/// What a server is to the others; of one against which something speaks, that.
fn standing(node: &Node, all: &[Node]) -> String {
    let facts = node.facts.as_ref().and_then(|facts| facts.replication());
    let Some(facts) = facts.filter(|_| node.problem.is_none()) else { return node.reason.clone() };
    let semi_sync = &facts.semi_sync;
    if let Some(Channel { source, .. }) = facts.channels.first() {
        let named = all.iter().find(|other| other.address == *source);
        let source = named.map_or(source, |other| &other.name);
        let acknowledges = if semi_sync.replica_active { ", acknowledges" } else { "" };
        return format!("replica of {source}{acknowledges}");
    }
    let writable = if facts.read_only { "read only" } else { "writable" };
    let waits = match (semi_sync.primary_enabled, semi_sync.primary_active, semi_sync.replicas) {
        (false, ..) => String::new(),
        (true, true, 1) => ", 1 replica acknowledges".to_owned(),
        (true, true, replicas) => format!(", {replicas} replicas acknowledge"),
        (true, false, _) => ", waits for no acknowledgement at the moment".to_owned(),
    };
    format!("{writable}, follows nobody{waits}")
}

fn proxy(screen: &mut String, proxy: &Stats) {
    let HoldStats { held, resumed, evicted, expired, gone, waiting, waiting_max, lawful, .. } = &proxy.hold;
    let _ = writeln!(
        screen,
        "hold    held {held} = resumed {resumed} + evicted {evicted} + expired {expired} + gone {gone} + waiting {waiting}; at most {waiting_max} waited at once"
    );
    if !lawful {
        screen.push_str("        these do not add up: this is a defect of Understudy, please report it\n");
    }
    let Stats { clients, clients_total, sessions_moved, sessions_pinned, statements_again, .. } = proxy;
    let _ = writeln!(
        screen,
        "clients {clients} now, {clients_total} in all; sessions moved {sessions_moved}, cannot move now {sessions_pinned}; statements sent again {statements_again}"
    );
    let given = proxy.errors.iter().filter(|error| error.count > 0);
    let given: Vec<_> =
        given.map(|error| format!("{} {} x {}", error.code, error.name, error.count)).collect();
    let given = if given.is_empty() { "none given to any client".to_owned() } else { given.join(", ") };
    let _ = writeln!(screen, "errors  {given}");
    if let Some(SplitStats { replicas, primary, primary_nobody, primary_behind, primary_failed, .. }) =
        &proxy.split
    {
        let _ = writeln!(
            screen,
            "split   to replicas {replicas}, to the primary {primary}; reads for a replica that went to the primary: none took them {primary_nobody}, behind {primary_behind}, failed {primary_failed}"
        );
    }
}

/// The port for reads: who takes reads, and how old they are.
fn read_port(screen: &mut String, status: &Status, port: &Stats) {
    for node in &status.nodes {
        let sessions = figure(port.lane(&node.name).map(|lane| lane.sessions));
        let age = node.reads.age_ms.filter(|_| !is_lost(node));
        let age = age.map_or(String::new(), |age| format!(", at most {} behind", span(age)));
        let why = node.reads.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let lane = node.reads.lane.map_or("?", LaneState::word);
        let _ = writeln!(screen, "reads   {} {lane}, sessions {sessions}{age}{why}", node.name);
    }
    let told: u64 = port.errors.iter().map(|error| error.count).sum();
    let Stats { clients, clients_total, sessions_moved, hold: HoldStats { waiting, .. }, .. } = port;
    let _ = writeln!(
        screen,
        "reads   clients {clients} now, {clients_total} in all; sessions moved {sessions_moved}; waiting {waiting}; errors given {told}"
    );
}

/// How warm the standbys are kept.
fn warm(screen: &mut String, warm: &Warm) {
    for standby in &warm.standbys {
        let Standby { node, by, lag_ms, waiting, sessions, totals, .. } = standby;
        let Some(by) = by else {
            let _ =
                writeln!(screen, "warm    {node} is not warmed: {}", standby.why.as_deref().unwrap_or("?"));
            continue;
        };
        let Totals { executed, late, .. } = totals;
        let (failed, lag) = (totals.failed(), span(*lag_ms));
        let _ = writeln!(
            screen,
            "warm    {node} with what {by} is asked: {executed} run, {late} too late, {failed} failed; lag {lag}, waiting {waiting}, sessions {sessions}"
        );
        if let Some(warmth) = &standby.warmth {
            let _ = writeln!(screen, "        {node}: {}", warmth.sentence);
        }
    }
}

fn decisions(screen: &mut String, status: &Status) {
    let all = &status.decisions;
    let last = &all[all.len().saturating_sub(DECISIONS)..];
    if last.is_empty() {
        return;
    }
    screen.push_str("\nlast decisions (UTC)\n");
    for decision in last {
        let _ = writeln!(screen, "  {}", journal::line(decision));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn screen(status: &Value) -> String {
        super::screen(&serde_json::from_value(status.clone()).unwrap())
    }

    #[test]
    fn the_screen_shows_what_the_server_says() {
        let status = serde_json::json!({
            "id": 5, "cluster": "shop", "writers": "one", "term": 8, "now_ms": 192_000, "writer": "db2", "gate": "held",
            "hold_because": "db2 is being confirmed as writer", "order": null,
            "nodes": [
                { "name": "db1", "address": "10.77.0.1:3306", "state": "dead", "since_ms": 12_345, "lane": "shut",
                  "writer": false, "sessions_max": null, "reason": "refused 2 connections", "advice": ["restart it"],
                  "answered_ms_ago": 12_400, "facts": { "recv_queue": 0 } },
                { "name": "db2", "address": "10.77.0.2:3306", "state": "synced", "linked": true, "since_ms": 190_000, "lane": "open",
                  "writer": true, "sessions_max": 7, "reason": "synced", "advice": [], "facts": { "recv_queue": 3 } },
            ],
            "proxy": {
                "clients": 4, "clients_total": 120, "sessions_moved": 2, "sessions_pinned": 0, "statements_again": 1,
                "hold": { "held": 12, "resumed": 9, "evicted": 0, "expired": 1, "gone": 0, "waiting": 2, "waiting_max": 6, "lawful": true },
                "lanes": [{ "node": "db2", "state": "open", "sessions": 4, "running": 1 }],
                "errors": [{ "code": 9102, "name": "hold_expired", "count": 1 }, { "code": 9103, "name": "hold_full", "count": 0 }],
            },
            "decisions": [{ "at_unix_ms": 1_404_465_709_250_u64, "level": "warn", "text": "db1 refused: db2 writes" }],
        });
        assert_eq!(
            screen(&status),
            "\
cluster shop (5), one writer, term 8, up 3 min 12 s
writer  db2
gate    held: db2 is being confirmed as writer

NODE  ADDRESS         ROLE     STATE          FOR  LANE  SESSIONS  RUNNING  LIMIT    QUEUE  WHY
db1   10.77.0.1:3306  standby  dead        12.3 s  shut         -        -      -  unknown  refused 2 connections; last answered 12.4 s ago
db2   10.77.0.2:3306  writer   synced  3 min 10 s  open         4        1      7        3  synced
advice  db1: restart it

hold    held 12 = resumed 9 + evicted 0 + expired 1 + gone 0 + waiting 2; at most 6 waited at once
clients 4 now, 120 in all; sessions moved 2, cannot move now 0; statements sent again 1
errors  9102 hold_expired x 1

last decisions (UTC)
  2014-07-04 09:21:49.250  warn   db1 refused: db2 writes
"
        );
    }

    #[test]
    fn a_primary_and_its_replicas_are_called_that() {
        let semi_sync = |primary: bool| {
            serde_json::json!({ "primary_enabled": primary, "primary_active": primary, "replicas": u8::from(primary),
                                "replica_enabled": true, "replica_active": !primary })
        };
        let node = |name: &str, address: &str, writer: bool, facts: Value| {
            let lane = if writer { "open" } else { "shut" };
            serde_json::json!({ "name": name, "address": address, "state": "synced", "linked": true, "since_ms": 5_000, "lane": lane, "writer": writer,
                                "sessions_max": null, "reason": "well", "problem": null, "facts": facts })
        };
        let channel = serde_json::json!({ "source": "10.77.0.1:3306", "lag_s": 60 });
        let mut broken = node("db3", "10.77.0.3:3306", false, Value::Null);
        (broken["state"], broken["problem"]) = ("refused".into(), "filtered".into());
        broken["reason"] = "has replication filters: it does not have everything".into();
        let mut replica = node(
            "db2",
            "10.77.0.2:3306",
            false,
            serde_json::json!({ "read_only": true, "channels": [channel], "semi_sync": semi_sync(false) }),
        );
        replica["reads"] = serde_json::json!({ "age_ms": 3_210 });
        let mut lost = node("db4", "10.77.0.4:3306", false, replica["facts"].clone());
        (lost["state"], lost["problem"], lost["reads"]) =
            ("silent".into(), "silent".into(), serde_json::json!({ "age_ms": 0 }));
        (lost["reason"], lost["answered_ms_ago"]) =
            ("did not answer 3 probes in 0.600 s".into(), 61_000.into());
        let status = serde_json::json!({
            "id": 5, "kind": "replication", "cluster": "shop", "writers": "one", "term": 3, "now_ms": 9_000, "writer": "db1", "gate": "open",
            "nodes": [
                node("db1", "10.77.0.1:3306", true, serde_json::json!({ "read_only": false, "channels": [], "semi_sync": semi_sync(true) })),
                replica,
                broken,
                lost,
            ],
        });
        let screen = screen(&status);
        let expect = "\
cluster shop (5), a primary and its replicas, term 3, up 9.0 s
primary db1
gate    open

NODE  ADDRESS         ROLE     STATE      FOR  LANE  SESSIONS  RUNNING  LIMIT   BEHIND  WHY
db1   10.77.0.1:3306  primary  running  5.0 s  open         -        -      -        -  writable, follows nobody, 1 replica acknowledges
db2   10.77.0.2:3306  replica  running  5.0 s  shut         -        -      -    3.2 s  replica of db1, acknowledges
db3   10.77.0.3:3306  replica  refused  5.0 s  shut         -        -      -        -  has replication filters: it does not have everything
db4   10.77.0.4:3306  replica  silent   5.0 s  shut         -        -      -  unknown  did not answer 3 probes in 0.600 s; last answered 61.0 s ago
";
        assert!(screen.starts_with(expect), "{screen}");
    }

    #[test]
    fn standbys_that_are_warmed_are_shown_and_why_others_are_not() {
        let status = serde_json::json!({ "warm": { "source": "slow-log", "standbys": [
            { "node": "db2", "state": "warmed", "by": "db1", "executed": 500, "late": 2, "errors": { "error 1792": 1, "error 1146": 2 },
              "lag_ms": 1_500, "waiting": 4, "sessions": 9, "warmth": { "sentence": "93.0 % of page accesses" } },
            { "node": "db3", "state": "off", "why": "it is drained by an operator" },
        ] } });
        let screen = screen(&status);
        for line in [
            "warm    db2 with what db1 is asked: 500 run, 2 too late, 3 failed; lag 1.5 s, waiting 4, sessions 9\n        db2: 93.0 % of page accesses\n",
            "warm    db3 is not warmed: it is drained by an operator\n",
        ] {
            assert!(screen.contains(line), "{screen}");
        }
    }

    #[test]
    fn an_empty_answer_is_no_panic() {
        assert!(screen(&serde_json::json!({})).contains("cluster  (0)"));
    }
}
