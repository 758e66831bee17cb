//! Draws the view on a text terminal, from states as `serve` reports them.

#![allow(clippy::unwrap_used)]

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::model::{Model, Order, Replay};
use super::{gap, view};

fn drawn(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}

fn galera() -> Value {
    json!({
        "cluster": "shop", "id": 5, "kind": "galera", "writers": "one", "term": 8, "writer": "db1", "gate": "held",
        "hold_because": "db2 is being confirmed as writer", "order": null,
        "now_ms": 192_000, "started_unix_ms": 1_404_465_517_250_u64,
        "flow_control": "the group stood still for 12.5 % of the time: db3 asked for it",
        "nodes": [
            { "name": "db1", "state": "synced", "lane": "open", "writer": true, "linked": true, "reason": "synced", "advice": [],
              "facts": { "recv_queue": 0 },
              "rates": { "over_s": 1.0, "questions": 1520.4, "replicated": 301.2, "received": 2.0, "applied": 303.0, "paused": 0.125 } },
            { "name": "db2", "state": "dead", "lane": "shut", "writer": false, "linked": false, "reason": "refused 2 connections",
              "advice": ["restart it"], "answered_ms_ago": 12_400, "facts": { "recv_queue": 0 } },
            { "name": "db3", "state": "donor", "lane": "open", "writer": false, "linked": true, "reason": "donor",
              "advice": [], "facts": { "recv_queue": 349_123 }, "rates": { "over_s": 1.0, "received": 5100.0, "applied": 0.0 } },
        ],
        "proxy": {
            "clients": 4, "clients_total": 120, "sessions_moved": 2, "sessions_pinned": 1,
            "hold": { "held": 12, "resumed": 9, "evicted": 0, "expired": 1, "gone": 0, "waiting": 2 },
            "lanes": [{ "node": "db1", "sessions": 4, "running": 1 }],
            "busy": [{ "node": "db1", "id": 77, "user": "app", "client": "10.0.0.9:4711", "what": "UPDATE t\u{1b}[2J SET a = 1" }],
        },
        "decisions": [
            { "at_unix_ms": 1_404_465_709_250_u64, "level": "warn", "text": "db2 refused: db1 writes" },
            { "at_unix_ms": 1_404_465_710_250_u64, "level": "info", "text": "db3 is a donor" },
        ],
    })
}

#[test]
fn a_galera_cluster_is_drawn() {
    let mut model = Model::default();
    model.take(galera());
    assert_eq!(
        drawn(&model, 132, 18),
        "\
shop (5)  term 8  db1  gate held  2014-07-04 09:21:49
statements wait: db2 is being confirmed as writer
NODE       ROLE     STATE     LANE        SESS   RUN    QUEUE  QUERY/s     UP/s   DOWN/s  APPLY/s    PAUSED WHY
db1        writer   synced    open           4     1        0     1520      301      2.0      303    12.5 % synced
db2        standby  dead      shut           -     -        -        -        -        -        -         - refused 2 connections; l
db3        standby  donor     open           -     -   349123        -        -     5100      0.0         - donor

flow control  the group stood still for 12.5 % of the time: db3 asked for it
hold          2 waiting, 12 held in all: 9 resumed, 0 evicted, 1 expired, 0 gone
clients       4 now, 120 in all; sessions moved 2, cannot move now 1
advice        db2: restart it
busy────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
db1: session 77 of app from 10.0.0.9:4711: UPDATE t [2J SET a = 1
events (UTC)────────────────────────────────────────────────────────────────────────────────────────db1 applied/s, at most 303──────
09:21:49 db2 refused: db1 writes                                                                    █
09:21:50 db3 is a donor                                                                             █

up/down choose   d drain  u undrain  s make it the writer   q quit"
    );
}

#[test]
fn events_are_sentences_with_their_time_and_the_last_ones_stay() {
    let mut model = Model::default();
    model.take(galera());
    let text = drawn(&model, 132, 20);
    assert!(text.contains("09:21:49 db2 refused: db1 writes"), "{text}");
    assert!(text.contains("09:21:50 db3 is a donor"), "{text}");
}

#[test]
fn a_primary_with_replicas_has_its_own_columns() {
    let mut model = Model::default();
    model.take(json!({
        "cluster": "shop", "id": 1, "kind": "replication", "term": 1, "writer": "db1", "gate": "open",
        "nodes": [
            { "name": "db1", "state": "synced", "lane": "open", "writer": true, "linked": true, "reason": "writable",
              "rates": { "writes": 40.0, "applied": 41.0 } },
            { "name": "db2", "state": "synced", "lane": "shut", "writer": false, "linked": true, "reason": "read only",
              "reads": { "age_ms": 2_500 }, "sample": { "replication": { "relay_log_bytes": 812 } },
              "rates": { "received": 41.0, "applied": 39.0 } },
        ],
    }));
    let text = drawn(&model, 132, 12);
    assert!(text.contains("db1        primary  running"), "{text}");
    let want = "db2        replica  running   shut           -     -    2.5 s        -        -       41       39       812 read only";
    assert!(text.contains(want), "{text}");
    assert!(!text.contains("flow control"), "{text}");
}

#[test]
fn what_is_asked_stands_at_the_foot() {
    let mut model = Model::default();
    model.take(galera());
    model.asked = Some(Order::Drain("db1".into()));
    let text = drawn(&model, 100, 20);
    assert!(
        text.contains(
            "drain db1? Its sessions move to another node; a writer moves first\ntype yes and Enter:    any other key: no"
        ),
        "{text}"
    );
    model.asked = None;
    model.trouble = Some("no answer from http://127.0.0.1:6080".into());
    assert!(drawn(&model, 100, 20).contains("no answer from http"));
    model.trouble = None;
    model.replay = Some(Replay { at: 4, count: 9, is_paused: true });
    assert!(drawn(&model, 100, 20).contains("recording: 5 of 9, paused"));
}

#[test]
fn any_size_and_any_answer_can_be_drawn() {
    for status in [
        Value::Null,
        json!({}),
        json!({ "nodes": [{}] }),
        json!({ "nodes": 7, "proxy": [], "decisions": [1] }),
        galera(),
    ] {
        let mut model = Model::default();
        model.take(status);
        for (width, height) in [(1, 1), (3, 40), (200, 2), (80, 24)] {
            drawn(&model, width, height);
        }
    }
}

#[test]
fn no_gap_of_a_recording_is_longer_than_some_seconds() {
    let at = |now_ms: u64| json!({ "started_unix_ms": 1, "now_ms": now_ms });
    assert_eq!(gap(&at(1000), Some(&at(2500))).as_millis(), 1500);
    assert_eq!(gap(&at(1000), Some(&at(3_600_000))).as_secs(), 5);
    assert_eq!(gap(&at(1000), Some(&at(400))).as_millis(), 0);
    assert_eq!(gap(&at(1000), None).as_millis(), 0);
}

#[test]
fn for_how_long_nodes_may_be_away_and_one_that_is() {
    let mut status = galera();
    status["nodes"][0]["recovery"] = json!({ "is_there": true, "returns_by": "ist", "away_max_s": 2460.0, "sentence": "may be away 41 min 0 s" });
    status["nodes"][1]["recovery"] = json!({ "is_there": false, "returns_by": "ist", "away_max_s": 29.0, "sentence": "has been away for 12 min 0 s" });
    status["nodes"][2]["recovery"] = json!({ "is_there": true, "returns_by": "ist", "away_max_s": null });
    let mut model = Model::default();
    model.take(status);
    let text = drawn(&model, 132, 24);
    assert!(
        text.contains(
            "may be away   db1 41 min 0 s, db3 without end\naway          db2 has been away for 12 min 0 s\n"
        ),
        "{text}"
    );
}
