//! The 16 recorded starts of NDB 9.7.4: each must be found with the right kind, and with parts as long as the recorder's own figures say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ndb::restart::{Restart, Story};
use ndb::restart_info::Table;
use ndb::verdict::{self, Rule, Source};
use ndb::{ClusterLog, Moment, NodeLog, OwnStart, Window};

/// The tolerance for the recorder's figures, which are truncated to milliseconds: far below the required second.
const APART_US: i64 = 5_000;

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn story(folder: &str) -> Story {
    let mut log = ClusterLog::new(Window::default());
    log.feed(&std::fs::read(recordings().join(folder).join("cluster.log")).unwrap());
    log.finish().unwrap()
}

fn own_starts(folder: &str) -> Vec<OwnStart> {
    let nodes = ["ndb_1_out.log", "ndb_2_out.log"].map(|name| recordings().join(folder).join(name));
    let logs = nodes.iter().filter_map(|path| std::fs::read(path).ok());
    let starts = logs.flat_map(|text| {
        let mut log = NodeLog::new(Window::default());
        log.feed(&text);
        log.finish().unwrap().starts
    });
    starts.collect()
}

/// The recorder's figures: one map from column to value for each start.
fn truth() -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(recordings().join("truth.tsv")).unwrap();
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned));
    let head: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| head.iter().cloned().zip(cells).collect()).collect()
}

/// Each recorded start, with what was found for it.
fn starts() -> Vec<(BTreeMap<String, String>, Story, Restart)> {
    let starts = truth().into_iter().map(|truth| {
        let story = story(&truth["folder"]);
        let nth = truth["restart"].split_once('/').map_or(0, |(_, n)| n.parse::<usize>().unwrap() - 1);
        let restart = story.restarts[nth].clone();
        (truth, story, restart)
    });
    starts.collect()
}

fn us(seconds: &str) -> i64 {
    let (whole, ms) = seconds.split_once('.').unwrap();
    whole.parse::<i64>().unwrap() * 1_000_000 + ms.parse::<i64>().unwrap() * 1_000
}

fn at(clock: &str) -> Moment {
    Moment::parse(&format!("2026-11-21T{clock}Z")).unwrap()
}

#[test]
fn all_sixteen_starts_come_out_with_the_right_kind() {
    let mut seen = 0;
    for (truth, _, restart) in starts() {
        let own = own_starts(&truth["folder"]);
        let own = own.iter().find(|own| own.is_of(&restart));
        assert!(own.is_some(), "{}: no start in the node's own log", truth["restart"]);
        // With the node's own log, and with the cluster log alone.
        for own in [own, None] {
            let happened = verdict::happened(&restart, own);
            assert_eq!(
                happened.source.to_string(),
                truth["source"],
                "{}: {}",
                truth["restart"],
                happened.because
            );
            assert_eq!(happened.is_finished, truth["started"] != "never", "{}", truth["restart"]);
        }
        assert_eq!(restart.node.to_string(), truth["node"]);
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn every_part_is_as_long_as_the_recorder_says() {
    for (truth, _, restart) in starts() {
        let name = &truth["restart"];
        let known = [("failed", restart.failed), ("node_id", restart.node_id), ("started", restart.started)];
        for (column, found) in known {
            match truth[column].as_str() {
                "never" => assert_eq!(found, None, "{name}"),
                clock => {
                    assert!(found.unwrap().since_us(at(clock)).abs() < APART_US, "{name} {column}: {found:?}")
                }
            }
        }
        let mut columns = vec![
            "failure",
            "absent",
            "boot",
            "metadata",
            "restore",
            "redo",
            "index",
            "sync",
            "checkpoint",
            "handover",
        ];
        columns.retain(|column| truth[*column] != "-");
        let parts = restart.parts();
        assert_eq!(parts.len(), columns.len(), "{name}: {parts:?}");
        for (part, column) in parts.iter().zip(columns) {
            assert!(part.name.starts_with(column), "{name}: {} is not {column}", part.name);
            let apart_us = part.us - us(&truth[column]);
            assert!(apart_us.abs() < APART_US, "{name} {column}: {} us, not {}", part.us, truth[column]);
        }
        if truth["total"] != "-" {
            assert!((restart.total_us().unwrap() - us(&truth["total"])).abs() < APART_US, "{name}");
        }
    }
}

#[test]
fn checkpoints_and_rows_are_counted() {
    for (truth, _, restart) in starts() {
        let name = &truth["restart"];
        let counted = (restart.lcps_absent.len().to_string(), restart.lcps_starting.len().to_string());
        assert_eq!(counted, (truth["lcps_absent"].clone(), truth["lcps_starting"].clone()), "{name}");
        let or_none = |figure: Option<u64>| figure.map_or("-".to_owned(), |n| n.to_string());
        assert_eq!(or_none(restart.restored_lcp), truth["restored_lcp"], "{name}");
        assert_eq!(or_none(restart.rows_fetched), truth["rows_fetched"], "{name}");
    }
}

/// The rule of 5.1 would be wrong here, and is reported as having no effect.
#[test]
fn the_rule_of_three_is_kept_apart_from_what_happened() {
    let mut wrong = Vec::new();
    for (truth, story, restart) in starts() {
        let predicted = verdict::predicted(&restart, !story.checkpoints.is_empty());
        assert_eq!(predicted.rule, Rule::DecidesNothing, "{}", truth["restart"]);
        if predicted.source == Source::FullCopy && truth["source"] == "restored from disk" {
            wrong.push((truth["restart"].clone(), predicted.missed));
        }
    }
    let expected = [("f1", 11), ("f2", 7), ("f4", 7)].map(|(name, missed)| (name.to_owned(), missed));
    assert_eq!(wrong, expected);
}

#[test]
fn recordings_without_a_restart_have_none() {
    for folder in ["h6_lcp_rhythm_tblc_6", "h20_lcp_rhythm_tblc_20", "h24_lcp_rhythm_tblc_24"] {
        assert_eq!(story(folder).restarts, [], "{folder}");
    }
}

#[test]
fn the_rhythm_of_checkpoints_is_that_of_the_recorder() {
    let rhythm = |folder| ndb::advice::rhythm(&story(folder).checkpoints);
    let (slow, default) = (rhythm("h24_lcp_rhythm_tblc_24"), rhythm("h20_lcp_rhythm_tblc_20"));
    assert_eq!(slow.checkpoints, 5);
    assert!((57_500..59_000).contains(&slow.spacing_ms.unwrap()), "{slow:?}");
    assert!((115_000..116_000).contains(&slow.third_start_min_ms.unwrap()), "{slow:?}");
    assert_eq!(default.checkpoints, 39);
    assert!((8_100..8_300).contains(&default.spacing_ms.unwrap()), "{default:?}");
    assert!((11_600..11_800).contains(&default.third_start_min_ms.unwrap()), "{default:?}");
}

#[test]
fn restart_info_agrees_with_the_log_and_stale_rows_with_none() {
    for (truth, _, restart) in starts() {
        let folder = recordings().join(&truth["folder"]);
        let rows = ["restart_info.tsv", "restart_info_final.tsv"]
            .map(|name| folder.join(name))
            .into_iter()
            .filter(|path| path.exists());
        let rows: Vec<_> = rows
            .flat_map(|path| {
                let mut table = Table::default();
                table.feed(&std::fs::read(path).unwrap());
                table.finish().unwrap()
            })
            .collect();
        let of_it = rows.iter().filter(|row| row.is_of(&restart)).count();
        // The server keeps no row of an aborted restart.
        let is_finished = truth["started"] != "never";
        assert_eq!(of_it > 0, is_finished, "{}: {rows:?}", truth["restart"]);
    }
    let mut stale = Table::default();
    stale.feed(&std::fs::read(recordings().join("h24_lcp_rhythm_tblc_24/restart_info_final.tsv")).unwrap());
    assert_eq!(stale.finish().unwrap()[0].total_s(), 36);
    let mut down = Table::default();
    down.feed(&std::fs::read(recordings().join("f3_down_until_all_rows_changed/restart_info.tsv")).unwrap());
    let rows = down.finish().unwrap();
    assert_eq!(rows.last().unwrap().status, "Node failure handling complete");
}

/// The node hung, was declared dead, and its process ended only afterwards.
#[test]
fn a_hung_node_and_a_dead_master_are_told() {
    let hung = story("j_hung_node_heartbeats").restarts.remove(0);
    assert!(
        hung.silent_since < hung.declared_dead
            && hung.declared_dead < hung.failed
            && hung.failed < hung.process_ended
    );
    assert!(hung.why.unwrap().starts_with("error 2305"));
    let master = story("i_master_killed_with_load").restarts.remove(0);
    assert_eq!((master.node, master.why.as_deref()), (1, Some("signal 9")));
    let asked = story("c_graceful_restart").restarts.remove(0);
    assert_eq!(
        (asked.stop_asked.unwrap(), asked.why),
        (asked.stop_asked.unwrap().min(asked.failed.unwrap()), None)
    );
}
