//! `understudy status`: the cluster on one screen.
//!
//! Enters: the JSON of the API's status. Leaves: text for people, or that JSON. What a newer or older server does not say is
//! left out, never guessed.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::journal;
use cli::exit::{CommandResult, Failure};
use client::value::{figure, list, number, text};
use client::{Client, Server};
use health::VIEW_AGE_MAX;
use report::table::{Lean, Table, span};

/// Between two states.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Decisions shown.
const DECISIONS: usize = 5;

/// The nodes, the writer, the gate, the hold's counters and the last decisions.
#[derive(Args)]
pub struct Status {
    /// As JSON, with everything there is
    #[arg(long)]
    json: bool,
    /// With --json: once a second, each on one line, until it is ended; while the server does not answer, that is said once
    #[arg(long, requires = "json")]
    watch: bool,
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

impl Status {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        if self.watch {
            return watch(&self.server.client()?);
        }
        let answer = self.server.client()?.get("status")?;
        if self.json {
            println!("{:#}", answer.data);
        } else {
            print!("{}", screen(&answer.data));
        }
        Ok(if self.exit_code { ExitCode::from(exit_code(&answer.data)) } else { ExitCode::SUCCESS })
    }
}

/// The exit code that tells the state.
fn exit_code(status: &Value) -> u8 {
    if text(&status["gate"]) != "open" {
        return HELD;
    }
    if number(&status["view_age_ms"]) > VIEW_AGE_MS_MAX {
        return NODE_NOT_WELL;
    }
    let is_well =
        |node: &Value| node["problem"].is_null() && node["others"].is_null() && node["doubt"].is_null();
    if list(&status["nodes"]).iter().all(is_well) { 0 } else { NODE_NOT_WELL }
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
fn screen(status: &Value) -> String {
    let mut screen = String::new();
    head(&mut screen, status);
    screen.push('\n');
    screen.push_str(&nodes(status));
    advice(&mut screen, status);
    screen.push('\n');
    windows(&mut screen, status);
    proxy(&mut screen, &status["proxy"]);
    read_port(&mut screen, status);
    warm(&mut screen, &status["warm"]);
    capacity(&mut screen, &status["capacity"]);
    busy(&mut screen, &status["proxy"]["busy"]);
    decisions(&mut screen, status);
    screen
}

fn head(screen: &mut String, status: &Value) {
    let up = span(number(&status["now_ms"]));
    let kind = match (replicates(status), text(&status["writers"])) {
        (true, _) => "a primary and its replicas",
        (_, "all") => "all nodes write",
        _ => "one writer",
    };
    let (name, id, term) = (text(&status["cluster"]), number(&status["id"]), number(&status["term"]));
    let _ = writeln!(screen, "cluster {name} ({id}), {kind}, term {term}, up {up}");
    // Where all nodes write there is no one writer to name.
    let writer = status["writer"].as_str().or((text(&status["writers"]) == "one").then_some("none"));
    if let Some(writer) = writer {
        let name = if replicates(status) { "primary" } else { "writer " };
        let _ = writeln!(screen, "{name} {writer}");
    }
    let gate = text(&status["gate"]);
    match status["hold_because"].as_str() {
        Some(because) => {
            let _ = writeln!(screen, "gate    {gate}: {because}");
        }
        None => {
            let _ = writeln!(screen, "gate    {gate}");
        }
    }
    if let Some(order) = status["order"].as_str() {
        let _ = writeln!(screen, "order   {order}");
    }
    let age_ms = number(&status["view_age_ms"]);
    if age_ms > VIEW_AGE_MS_MAX {
        let _ = writeln!(
            screen,
            "old     the manager has said nothing for {}: what follows may not be so any more",
            span(age_ms)
        );
    }
}

/// Whether it is a primary with replicas.
pub fn replicates(status: &Value) -> bool {
    status["kind"] == "replication"
}

fn nodes(status: &Value) -> String {
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
    let all = list(&status["nodes"]);
    let lanes = list(&status["proxy"]["lanes"]);
    for node in all {
        let name = text(&node["name"]);
        let lane = lanes.iter().find(|lane| text(&lane["node"]) == name).unwrap_or(&Value::Null);
        table.row([
            name.to_owned(),
            text(&node["address"]).to_owned(),
            role(status, node).to_owned(),
            state(node, replicates).to_owned(),
            span(number(&node["since_ms"])),
            text(&node["lane"]).to_owned(),
            figure(&lane["sessions"]),
            figure(&lane["running"]),
            figure(&node["sessions_max"]),
            match (is_lost(node), replicates) {
                (true, _) => "unknown".to_owned(),
                (false, true) => behind(node),
                (false, false) => figure(&node["facts"]["recv_queue"]),
            },
            match (is_lost(node), replicates) {
                (true, _) => format!("{}{}", reason(node), last_answered(node)),
                (false, true) => standing(node, all),
                (false, false) => reason(node).to_owned(),
            },
        ]);
    }
    table.text()
}

/// What a node is to the others.
pub fn role(status: &Value, node: &Value) -> &'static str {
    let one_writer = text(&status["writers"]) != "all";
    match (one_writer, node["writer"].as_bool(), replicates(status)) {
        (true, Some(true), true) => "primary",
        (true, _, true) => "replica",
        (true, Some(true), false) => "writer",
        (true, _, false) => "standby",
        (false, ..) => "-",
    }
}

fn reason(node: &Value) -> &str {
    node["reason"].as_str().unwrap_or_default()
}

/// The word for what a node is. A server is in no group that it could be in step with.
pub fn state(node: &Value, replicates: bool) -> &str {
    match text(&node["state"]) {
        "synced" if replicates => "running",
        state => state,
    }
}

/// It does not answer: what it said last does not count.
pub fn is_lost(node: &Value) -> bool {
    matches!(text(&node["state"]), "dead" | "silent") || node["linked"] == Value::Bool(false)
}

/// Since when it has not, as the end of a sentence.
pub fn last_answered(node: &Value) -> String {
    node["answered_ms_ago"]
        .as_u64()
        .map_or_else(String::new, |ago| format!("; last answered {} ago", span(ago)))
}

/// How old what a replica has is, at the most: measured by what the primary and the replica have, the same that the port for reads goes by. Not
/// Seconds_Behind_Master, which is the age of what was applied last.
pub fn behind(node: &Value) -> String {
    match node["reads"]["age_ms"].as_u64() {
        None => "-".to_owned(),
        Some(0..1000) => "< 1 s".to_owned(),
        Some(age) => span(age),
    }
}

/// What a server is to the others; of one against which something speaks, that.
fn standing(node: &Value, all: &[Value]) -> String {
    let (facts, reason) = (&node["facts"], reason(node));
    if !node["problem"].is_null() || facts.is_null() {
        return reason.to_owned();
    }
    let semi_sync = &facts["semi_sync"];
    let is_on = |name: &str| semi_sync[name].as_bool() == Some(true);
    if let Some(channel) = list(&facts["channels"]).first() {
        let source = text(&channel["source"]);
        let named = all.iter().find(|other| text(&other["address"]) == source);
        let source = named.map_or(source, |other| text(&other["name"]));
        let acknowledges = if is_on("replica_active") { ", acknowledges" } else { "" };
        return format!("replica of {source}{acknowledges}");
    }
    let writable = if facts["read_only"].as_bool() == Some(true) { "read only" } else { "writable" };
    let waits = match (is_on("primary_enabled"), is_on("primary_active"), number(&semi_sync["replicas"])) {
        (false, ..) => String::new(),
        (true, true, 1) => ", 1 replica acknowledges".to_owned(),
        (true, true, replicas) => format!(", {replicas} replicas acknowledge"),
        (true, false, _) => ", waits for no acknowledgement at the moment".to_owned(),
    };
    format!("{writable}, follows nobody{waits}")
}

/// What nodes could apply, where more is known than that they kept up.
fn capacity(screen: &mut String, nodes: &Value) {
    for node in list(nodes).iter().filter(|node| !node["apply_per_s"].is_null()) {
        let _ = writeln!(screen, "applies {}", text(&node["sentence"]));
    }
}

/// What keeps nodes busy, by name.
fn busy(screen: &mut String, sessions: &Value) {
    for session in list(sessions) {
        let _ = writeln!(
            screen,
            "busy    {}: session {} of {} from {}, connected for {} s: {}",
            text(&session["node"]),
            number(&session["id"]),
            text(&session["user"]),
            text(&session["client"]),
            number(&session["connected_s"]),
            text(&session["what"])
        );
    }
}

fn advice(screen: &mut String, status: &Value) {
    for node in list(&status["nodes"]) {
        for advice in list(&node["advice"]) {
            let _ = writeln!(screen, "advice  {}: {}", text(&node["name"]), text(advice));
        }
    }
}

/// For how long each node may be away.
fn windows(screen: &mut String, status: &Value) {
    for node in list(&status["nodes"]) {
        if let Some(sentence) = node["recovery"]["sentence"].as_str() {
            let _ = writeln!(screen, "window  {} {sentence}", text(&node["name"]));
        }
    }
}

fn proxy(screen: &mut String, proxy: &Value) {
    let hold = &proxy["hold"];
    let n = |name: &str| number(&hold[name]);
    let _ = writeln!(
        screen,
        "hold    held {} = resumed {} + evicted {} + expired {} + gone {} + waiting {}; at most {} waited at once",
        n("held"),
        n("resumed"),
        n("evicted"),
        n("expired"),
        n("gone"),
        n("waiting"),
        n("waiting_max")
    );
    if hold["lawful"] == Value::Bool(false) {
        screen.push_str("        these do not add up: this is a defect of Understudy, please report it\n");
    }
    let p = |name: &str| number(&proxy[name]);
    let _ = writeln!(
        screen,
        "clients {} now, {} in all; sessions moved {}, cannot move now {}; statements sent again {}",
        p("clients"),
        p("clients_total"),
        p("sessions_moved"),
        p("sessions_pinned"),
        p("statements_again")
    );
    let told: Vec<_> = list(&proxy["errors"])
        .iter()
        .filter(|error| number(&error["count"]) > 0)
        .map(|error| {
            format!("{} {} x {}", number(&error["code"]), text(&error["name"]), number(&error["count"]))
        })
        .collect();
    let told = if told.is_empty() { "none given to any client".to_owned() } else { told.join(", ") };
    let _ = writeln!(screen, "errors  {told}");
    let split = &proxy["split"];
    if !split.is_null() {
        let s = |key: &str| number(&split[key]);
        let _ = writeln!(
            screen,
            "split   to replicas {}, to the primary {}; reads for a replica that went to the primary: none took them {}, behind {}, failed {}",
            s("replicas"),
            s("primary"),
            s("primary_nobody"),
            s("primary_behind"),
            s("primary_failed"),
        );
    }
}

/// The port for reads, when there is one: who takes reads, and how old they are.
fn read_port(screen: &mut String, status: &Value) {
    let port = &status["read_port"];
    if port.is_null() {
        return;
    }
    let lanes = list(&port["lanes"]);
    for node in list(&status["nodes"]) {
        let name = text(&node["name"]);
        let lane = lanes.iter().find(|lane| text(&lane["node"]) == name).unwrap_or(&Value::Null);
        let reads = &node["reads"];
        let age = reads["age_ms"].as_u64().filter(|_| !is_lost(node));
        let age = age.map_or(String::new(), |age| format!(", at most {} behind", span(age)));
        let why = reads["why"].as_str().map_or(String::new(), |why| format!(": {why}"));
        let state = text(&reads["lane"]);
        let _ = writeln!(screen, "reads   {name} {state}, sessions {}{age}{why}", figure(&lane["sessions"]));
    }
    let told: u64 = list(&port["errors"]).iter().map(|error| number(&error["count"])).sum();
    let _ = writeln!(
        screen,
        "reads   clients {} now, {} in all; sessions moved {}; waiting {}; errors given {told}",
        number(&port["clients"]),
        number(&port["clients_total"]),
        number(&port["sessions_moved"]),
        number(&port["hold"]["waiting"]),
    );
}

/// How warm the standbys are kept.
fn warm(screen: &mut String, warm: &Value) {
    for standby in list(&warm["standbys"]) {
        let name = text(&standby["node"]);
        if text(&standby["state"]) != "warmed" {
            let _ = writeln!(screen, "warm    {name} is not warmed: {}", text(&standby["why"]));
            continue;
        }
        let errors: u64 =
            standby["errors"].as_object().into_iter().flat_map(|all| all.values().map(number)).sum();
        let _ = writeln!(
            screen,
            "warm    {name} with what {} is asked: {} run, {} too late, {errors} failed; lag {}, waiting {}, sessions {}",
            text(&standby["by"]),
            number(&standby["executed"]),
            number(&standby["late"]),
            span(number(&standby["lag_ms"])),
            number(&standby["waiting"]),
            number(&standby["sessions"]),
        );
        if let Some(sentence) = standby["warmth"]["sentence"].as_str() {
            let _ = writeln!(screen, "        {name}: {sentence}");
        }
    }
}

fn decisions(screen: &mut String, status: &Value) {
    let all = list(&status["decisions"]);
    let last = &all[all.len().saturating_sub(DECISIONS)..];
    if last.is_empty() {
        return;
    }
    screen.push_str("\nlast decisions (UTC)\n");
    for row in last {
        let _ = writeln!(screen, "  {}", journal::line(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_shows_what_the_server_says() {
        let status = serde_json::json!({
            "id": 5, "cluster": "shop", "writers": "one", "term": 8, "now_ms": 192_000, "writer": "db2", "gate": "held",
            "hold_because": "db2 is being confirmed as writer", "order": null,
            "nodes": [
                { "name": "db1", "address": "10.77.0.1:3306", "state": "dead", "since_ms": 12_345, "lane": "shut",
                  "writer": false, "sessions_max": null, "reason": "refused 2 connections", "advice": ["restart it"],
                  "answered_ms_ago": 12_400, "facts": { "recv_queue": 0 } },
                { "name": "db2", "address": "10.77.0.2:3306", "state": "synced", "since_ms": 190_000, "lane": "open",
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
            serde_json::json!({ "name": name, "address": address, "state": "synced", "since_ms": 5_000, "lane": lane, "writer": writer,
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
        assert!(screen(&Value::Null).contains("cluster ? (0)"));
    }
}
