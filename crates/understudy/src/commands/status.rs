//! `understudy status`: the cluster on one screen.
//!
//! Enters: the JSON of the API's status. Leaves: text for people, or that JSON. What a newer or older server does not say is
//! left out, never guessed.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::client::Server;
use crate::commands::journal;
use crate::exit::Outcome;
use crate::table::{Lean, Table, span};

/// Decisions shown.
const DECISIONS: usize = 5;

/// The nodes, the writer, the gate, the hold's counters and the last decisions.
#[derive(Args)]
pub struct Status {
    /// As JSON, with everything there is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Status {
    /// Prints it.
    pub fn run(&self) -> Outcome {
        let answer = self.server.client()?.get("status")?;
        if self.json {
            println!("{:#}", answer.data);
        } else {
            print!("{}", screen(&answer.data));
        }
        Ok(ExitCode::SUCCESS)
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
    proxy(&mut screen, &status["proxy"]);
    busy(&mut screen, &status["proxy"]["busy"]);
    decisions(&mut screen, status);
    screen
}

fn head(screen: &mut String, status: &Value) {
    let up = span(number(&status["now_ms"]));
    let kind = match text(&status["writers"]) {
        "all" => "all nodes write",
        _ => "one writer",
    };
    let (name, id, term) = (text(&status["cluster"]), number(&status["id"]), number(&status["term"]));
    let _ = writeln!(screen, "cluster {name} ({id}), {kind}, term {term}, up {up}");
    if let Some(writer) = status["writer"].as_str() {
        let _ = writeln!(screen, "writer  {writer}");
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
}

fn nodes(status: &Value) -> String {
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
        ("QUEUE", Lean::Right),
        ("WHY", Lean::Left),
    ]);
    let all = list(&status["nodes"]);
    let lanes = list(&status["proxy"]["lanes"]);
    let one_writer = text(&status["writers"]) != "all";
    for node in all {
        let name = text(&node["name"]);
        let lane = lanes.iter().find(|lane| text(&lane["node"]) == name).unwrap_or(&Value::Null);
        let role = match (one_writer, node["writer"].as_bool()) {
            (true, Some(true)) => "writer",
            (true, _) => "standby",
            (false, _) => "-",
        };
        table.row([
            name.to_owned(),
            text(&node["address"]).to_owned(),
            role.to_owned(),
            text(&node["state"]).to_owned(),
            span(number(&node["since_ms"])),
            text(&node["lane"]).to_owned(),
            figure(&lane["sessions"]),
            figure(&lane["running"]),
            figure(&node["sessions_max"]),
            figure(&node["facts"]["recv_queue"]),
            node["reason"].as_str().unwrap_or_default().to_owned(),
        ]);
    }
    table.text()
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

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A figure, or a dash for what is not said.
fn figure(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string())
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
                  "writer": false, "sessions_max": null, "reason": "refused 2 connections", "advice": ["restart it"], "facts": null },
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

NODE  ADDRESS         ROLE     STATE          FOR  LANE  SESSIONS  RUNNING  LIMIT  QUEUE  WHY
db1   10.77.0.1:3306  standby  dead        12.3 s  shut         -        -      -      -  refused 2 connections
db2   10.77.0.2:3306  writer   synced  3 min 10 s  open         4        1      7      3  synced
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
    fn an_empty_answer_is_no_panic() {
        assert!(screen(&Value::Null).contains("cluster ? (0)"));
    }
}
