//! Synthetic logs in the format of 5.1: texts and levels from its sources, times from the tests of 2007 (1 GB, two nodes,
//! TimeBetweenLocalCheckpoints=24).

use ndb::restart::{Restart, Story};
use ndb::verdict::{self, Rule, Source};
use ndb::{ClusterLog, Moment, NodeLog, Version, Window};

/// One start of a node, in seconds from its node id.
struct Case {
    name: &'static str,
    started_s: i64,
    checkpoint_s: i64,
    /// Starts of checkpoints after the failure, except the node's own.
    others_s: &'static [i64],
}

/// The four measurements of 2007: the total times, of which about two minutes each are the checkpoint at the end.
const CASES: [Case; 4] = [
    Case { name: "test 1, optimized node recovery", started_s: 183, checkpoint_s: 120, others_s: &[] },
    Case { name: "test 1, node recovery", started_s: 327, checkpoint_s: 120, others_s: &[] },
    Case { name: "test 2, optimized node recovery", started_s: 282, checkpoint_s: 120, others_s: &[10, 130] },
    Case { name: "test 2, node recovery", started_s: 444, checkpoint_s: 120, others_s: &[10, 130, 250] },
];

fn line(second: i64, level: &str, text: &str) -> String {
    let from = Moment::parse("2007-03-07 10:00:00").unwrap();
    let time = Moment(from.0 + second * 1_000_000).to_string();
    format!("{} [MgmtSrvr] {level:<8} -- {text}\n", time.split('.').next().unwrap())
}

fn log(case: &Case) -> String {
    let synced = case.started_s - case.checkpoint_s;
    let mut lines = vec![
        (-3, "ALERT", "Node 3: Node 4 Disconnected".to_owned()),
        (-2, "ALERT", "Node 3: Node 4 has failed. The Node state at failure was 0".to_owned()),
        (-1, "ALERT", "Node 3: All nodes completed failure of Node 4".to_owned()),
        (
            0,
            "INFO",
            "Mgmt server state: nodeid 4 reserved for ip 127.0.0.1, m_reserved_nodes 000000000000001a."
                .to_owned(),
        ),
        (0, "INFO", "Node 1: Node 4 Connected".to_owned()),
        (1, "INFO", "Node 4: Start phase 0 completed ".to_owned()),
        (2, "INFO", "Node 4: Start phase 1 completed ".to_owned()),
        (3, "INFO", "Node 4: Start phase 2 completed (node restart)".to_owned()),
        (3, "INFO", "Node 4: Start phase 4 completed (node restart)".to_owned()),
        (4, "INFO", "Node 3: Node restart completed copy of dictionary information".to_owned()),
        (4, "INFO", "Node 4: Node restart completed copy of distribution information to Node 4".to_owned()),
        (5, "INFO", "Node 4: Node restart starting to copy the fragments to Node 4".to_owned()),
        (synced - 1, "INFO", "Node 4: Table ID = 5, fragment ID = 0 have been copied to Node 4".to_owned()),
        (synced, "INFO", "Node 4: Node restart completed copying the fragments to Node 4".to_owned()),
        (
            synced,
            "INFO",
            "Node 3: Local checkpoint 90 started. Keep GCI = 1003 oldest restorable GCI = 947".to_owned(),
        ),
        (case.started_s - 1, "INFO", "Node 3: Local checkpoint 90 completed".to_owned()),
        (case.started_s, "INFO", "Node 4: Start phase 5 completed (node restart)".to_owned()),
        (case.started_s, "INFO", "Node 4: Start phase 8 completed (node restart)".to_owned()),
        (case.started_s, "INFO", "Node 4: Started (version 5.1.16)".to_owned()),
    ];
    for (id, start) in (80..).zip(case.others_s) {
        lines.push((
            *start,
            "INFO",
            format!("Node 3: Local checkpoint {id} started. Keep GCI = 900 oldest restorable GCI = 890"),
        ));
        lines.push((start + 110, "INFO", format!("Node 3: Local checkpoint {id} completed")));
    }
    lines.sort_by_key(|(second, ..)| *second);
    lines.iter().map(|(second, level, text)| line(*second, level, text)).collect()
}

fn story(text: &str) -> Story {
    let mut log = ClusterLog::new(Window::default());
    log.feed(text.as_bytes());
    log.finish().unwrap()
}

fn only(story: &Story) -> &Restart {
    assert_eq!(story.restarts.len(), 1, "{story:?}");
    &story.restarts[0]
}

#[test]
fn the_minutes_of_2007_gross_and_net() {
    let mut net_s = Vec::new();
    for case in &CASES {
        let story = story(&log(case));
        let restart = only(&story);
        assert_eq!(restart.version, Some(Version(5, 1, 16)));
        assert_eq!(restart.start_us(), Some(case.started_s * 1_000_000), "{}", case.name);
        assert_eq!(restart.checkpoint_us(), Some(120_000_000), "{}", case.name);
        assert_eq!(restart.total_us(), Some((case.started_s + 2) * 1_000_000));
        net_s.push(restart.net_us().unwrap() / 1_000_000);
    }
    assert_eq!(net_s, [63, 207, 162, 324]);
}

#[test]
fn in_5_1_the_rule_decides_and_the_cluster_log_alone_does_not_tell() {
    for (case, missed, source) in
        [(&CASES[0], 0, Source::Disk), (&CASES[2], 2, Source::Disk), (&CASES[3], 3, Source::FullCopy)]
    {
        let story = story(&log(case));
        let restart = only(&story);
        let predicted = verdict::predicted(restart, !story.checkpoints.is_empty());
        assert_eq!(
            (predicted.missed, predicted.source, predicted.rule),
            (missed, source, Rule::Decides),
            "{}",
            case.name
        );
        assert_eq!(verdict::happened(restart, None).source, Source::NotKnown);
    }
}

#[test]
fn the_restore_block_in_the_nodes_own_log_shows_local_data() {
    let story = story(&log(&CASES[2]));
    let own = "2007-03-07 10:00:00 [ndbd] INFO     -- Angel pid: 12 ndb pid: 13\n\
               2007-03-07 10:00:00 [ndbd] INFO     -- NDB Cluster -- DB node 4\n\
               2007-03-07 10:00:00 [ndbd] INFO     -- Version 5.1.16 (beta) --\n\
               restartCreateObj(5) file: 1\n\
               RESTORE table: 5 500000 rows applied\n\
               RESTORE table: 6 500000 rows applied\n";
    let mut log = NodeLog::new(Window::default());
    log.feed(own.as_bytes());
    let own = log.finish().unwrap();
    assert_eq!((own.starts.len(), own.starts[0].restore_lines), (1, 2));
    assert!(own.starts[0].is_of(only(&story)));
    assert_eq!(verdict::happened(only(&story), own.starts.first()).source, Source::Disk);
}

#[test]
fn without_checkpoints_in_the_log_nothing_is_counted() {
    let text = log(&CASES[0]);
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("Local checkpoint")).collect();
    let text = kept.join("\n") + "\n";
    let story = story(&text);
    let predicted = verdict::predicted(only(&story), !story.checkpoints.is_empty());
    assert_eq!(predicted.source, Source::NotKnown);
    assert!(predicted.to_string().contains("CHECKPOINT=8"), "{predicted}");
}

#[test]
fn several_survivors_tell_of_one_failure() {
    let extra = [
        line(-2, "ALERT", "Node 5: Node 4 has failed. The Node state at failure was 0"),
        line(0, "ALERT", "Node 6: Node 4 has failed. The Node state at failure was 0"),
    ];
    let mut lines: Vec<String> = log(&CASES[0]).lines().map(|line| format!("{line}\n")).collect();
    lines.splice(2..2, extra.clone());
    let story = story(&lines.concat());
    assert_eq!(only(&story).start_us(), Some(183_000_000));
}
