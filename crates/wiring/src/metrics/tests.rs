//! The whole text, against a recorded one: what monitoring reads stays as it is, byte for byte.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use api::Status;
use api::proxy::{ErrorCount, HoldStats, LaneStats};
use api::recovery::Outlook;
use api::warm::{Forecast, Score, Totals, Warm, Warmth};
use topology::NodeId;
use topology::brain::{Brain, Restored};
use topology::galera::GaleraStatus;
use topology::replication::Channel;
use topology::settings::{NodeSettings, Settings, Writers};
use topology::view::Stuck;

use super::*;

fn view() -> ClusterView {
    let node = |name: &str| NodeSettings { name: name.into(), address: format!("{name}:3306"), priority: 0 };
    let nodes = ["db1", "db2", "db3", "db4"].map(node).to_vec();
    let now = Duration::from_secs(4_711);
    let brain = Brain::new(Settings::new("sh\"op", Writers::One, nodes), Restored::default(), now);
    let mut view = brain.view(now);
    view.term.0 = 7;
    view.bootstraps = 1;
    view.candidate = Some("db2".into());
    let counts = &mut view.counts;
    (counts.failovers_begun, counts.failovers_done, counts.switchovers_done) = (3, 2, 5);
    (counts.switchovers_undone, counts.switchovers_became_failovers) = (6, 1);
    (counts.evictions_done, counts.evictions_failed, counts.evictions_spared) = (8, 9, 10);
    let [db1, db2, db3, db4] = &mut view.nodes[..] else { panic!("four nodes") };

    (db1.state, db1.writer, db1.linked, db1.lane) = (NodeState::Synced, true, true, LaneState::Open);
    db1.stuck = Some(Stuck { ms: 4_200, why: Stall::Space });
    db1.facts = Some(GaleraStatus { recv_queue: 12, ..GaleraStatus::default() }.into());
    db1.advice = vec!["one".into(), "two".into()];

    (db2.state, db2.linked, db2.reads.lane, db2.reads.age_ms) =
        (NodeState::Synced, true, Some(LaneState::Open), Some(1_234));
    let channel = Channel { lag_s: Some(9), ..Channel::default() };
    db2.facts = Some(ReplicationStatus { channels: vec![channel], ..ReplicationStatus::default() }.into());

    (db3.state, db3.linked) = (NodeState::Synced, true);
    let mut primary = ReplicationStatus::default();
    (primary.semi_sync.primary_active, primary.semi_sync.replicas) = (true, 2);
    db3.facts = Some(primary.into());

    (db4.state, db4.misses, db4.facts) = (NodeState::Silent, 11, db1.facts.clone());
    view
}

fn stats() -> Stats {
    let lane = |node: &str, sessions, running, begun_total| LaneStats {
        node: node.into(),
        state: LaneState::Open,
        sessions,
        running,
        begun_total,
    };
    let held_for = Snapshot {
        at_most: vec![(Duration::from_millis(1), 3), (Duration::from_millis(2_500), 5)],
        count: 6,
        sum: Duration::from_micros(4_500_007),
    };
    Stats {
        certificate_expires_unix_s: Some(1_927_843_200),
        term: 7,
        clients: 21,
        clients_total: 22,
        links_total: 23,
        sessions_moved: 24,
        sessions_pinned: 25,
        statements_again: 26,
        hold: HoldStats {
            held: 31,
            resumed: 32,
            evicted: 33,
            expired: 34,
            gone: 35,
            waiting: 36,
            waiting_bytes: 37,
            waiting_max: 38,
            lawful: true,
            held_for,
        },
        lanes: vec![lane("db1", 41, 42, 43), lane("db2", 44, 45, 46)],
        errors: vec![
            ErrorCount { code: 9_102, name: "hold_expired".into(), count: 51 },
            ErrorCount { code: 9_103, name: "hold_full".into(), count: 52 },
        ],
        busy: Vec::new(),
        sessions: Vec::new(),
        split: None,
    }
}

fn warm() -> Warm {
    let seen = |standby: &str, state: &'static str, by: Option<&str>| Standby {
        node: standby.into(),
        state: state.into(),
        by: by.map(str::to_owned),
        why: None,
        totals: Totals {
            executed: 61,
            late: 62,
            left_out: [("no read".to_owned(), 63)].into(),
            errors: [("error 1146".to_owned(), 64)].into(),
            dropped_bytes: 65,
            unparsed_bytes: 66,
            corrected_times: 67,
        },
        lag_ms: 1_500,
        waiting: 68,
        sessions: 69,
        warmth: None,
    };
    let mut warmed = seen("db2", "warmed", Some("db1"));
    warmed.warmth = Some(Warmth {
        score: Some(Score { percent: 93.456, ..Score::default() }),
        forecast: Some(Forecast { disk_reads: 1_200, ..Forecast::default() }),
        ..Warmth::default()
    });
    let standbys = vec![warmed, seen("db3", "failing", None), seen("db4", "off", None)];
    Warm { standbys, ..Warm::default() }
}

fn windows() -> Vec<Outlook> {
    let row = |text: &str| serde_json::from_str(text).unwrap();
    vec![
        row(
            r#"{"node":"db1","state":"synced","position":5,"returns_by":"ist","is_there":true,"away_s":null,"away_max_s":7200.5,"busiest_away_max_s":null}"#,
        ),
        row(
            r#"{"node":"db2","state":"synced","position":5,"returns_by":"ist","is_there":false,"away_s":12.7,"away_max_s":null,"busiest_away_max_s":null}"#,
        ),
        row(
            r#"{"node":"db3","state":"dead","position":null,"returns_by":null,"is_there":false,"away_s":null,"away_max_s":null,"busiest_away_max_s":null}"#,
        ),
    ]
}

fn capacities() -> Vec<NodeCapacity> {
    let known =
        |node: &str, apply_per_s, at_least_per_s: Option<f64>, peak_per_s: Option<f64>| NodeCapacity {
            node: node.into(),
            apply_per_s,
            at_least_per_s,
            peak_per_s,
            times_peak: apply_per_s.zip(peak_per_s).map(|(apply, peak)| apply / peak),
            ..NodeCapacity::default()
        };
    vec![
        known("db1", Some(900.125), Some(880.0), Some(300.0)),
        known("db2", None, Some(310.5), Some(300.0)),
        known("db3", None, None, None),
    ]
}

#[test]
fn the_text_is_as_it_was_recorded() {
    let samples = Samples::new([NodeId(0), NodeId(1)]);
    samples.input(NodeId(0)).unwrap().probed(Duration::from_micros(1_700));
    let split = SplitStats {
        replicas: 71,
        primary: 72,
        primary_nobody: 73,
        primary_behind: 74,
        primary_failed: 75,
        lanes: vec![("db2".into(), 76)],
    };
    let mut status = Status::of(&view());
    (status.id, status.proxy) = (5, stats());
    // What is not there has no family.
    let least = text(&status, &[], &samples);
    (status.proxy.split, status.read_port, status.warm) = (Some(split), Some(stats()), Some(warm()));
    for (node, row) in status.nodes.iter_mut().zip(windows()) {
        node.recovery = Some(row);
    }
    let whole = format!("{}----\n{least}", text(&status, &capacities(), &samples));
    assert_eq!(whole, include_str!("recorded.txt").replace("VERSION", env!("CARGO_PKG_VERSION")));
}
