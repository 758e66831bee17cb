//! One restart as each version writes it, and every recording: the same is found however the input is cut into pieces, and with either
//! line end.
//!
//! `field/restart_5_1.log` is a log of 5.1: a node is away for four checkpoints and takes part in the one that starts while it starts. The
//! forms differ in what the sources of EventLogger and LogHandler, and logs in public manuals, show: the writer's name, the version's
//! spelling, the line with the node id, the time, blanks, repeated messages.

use std::fmt::Debug;
use std::path::Path;

use ndb::restart::Story;
use ndb::restart_info::Table;
use ndb::verdict::{self, Rule, Source};
use ndb::{ClusterLog, Moment, NodeLog, Note, Window, Wrong};

const FIELD: &str = include_str!("../field/restart_5_1.log");
const PIECES_BYTES: [usize; 4] = [1, 7, 61, 4096];
const DAMAGED: Window = Window { since: None, until: None, allow_damaged: true };

/// How the versions name themselves in `Started (...)` and behind `API`.
const VERSIONS: [(&str, Rule); 17] = [
    ("version 3.5.4", Rule::AlwaysCopies),
    ("version 4.1.22", Rule::AlwaysCopies),
    ("version 5.0.51", Rule::AlwaysCopies),
    ("version 5.1.16", Rule::Decides),
    ("version 6.2.15", Rule::NotEstablished),
    ("version 6.3.20", Rule::NotEstablished),
    ("mysql-5.1.34 ndb-6.3.25", Rule::NotEstablished),
    ("mysql-5.1.35 ndb-7.0.7", Rule::NotEstablished),
    ("mysql-5.1.56 ndb-7.1.15a", Rule::NotEstablished),
    ("mysql-5.5.29 ndb-7.2.10", Rule::NotEstablished),
    ("mysql-5.6.27 ndb-7.4.8", Rule::NotEstablished),
    ("mysql-5.7.16 ndb-7.5.4", Rule::NotEstablished),
    ("5.7.44-ndb-7.5.36", Rule::NotEstablished),
    ("mysql-5.7.20 ndb-7.6.3", Rule::NotEstablished),
    ("mysql-5.7.20 ndb-7.6.4", Rule::DecidesNothing),
    ("mysql-8.0.36 ndb-8.0.36", Rule::DecidesNothing),
    ("mysql-9.7.4 ndb-9.7.4", Rule::DecidesNothing),
];

/// A change of the text that changes nothing of what it says.
type Shape = (&'static str, fn(&str) -> String);

const WRITERS: [&str; 2] = ["[MgmSrvr]", "[MgmtSrvr]"];
const NODE_ID_LINES: [Shape; 3] = [
    ("reserved", str::to_owned),
    ("missing", |text| without(text, "nodeid 3 reserved")),
    ("allocated", |text| {
        let line =
            "Mgmt server state: nodeid 3 reserved for ip 192.0.2.13, m_reserved_nodes 000000000000000a.";
        text.replace(line, "Nodeid 3 allocated for NDB at 192.0.2.13")
    }),
];
const TIMES: [Shape; 2] = [
    ("local, whole seconds", str::to_owned),
    ("UTC, microseconds", |text| {
        each_line(text, |line| format!("{}T{}.000000Z{}", &line[..10], &line[11..19], &line[19..]))
    }),
];
const SHAPES: [Shape; 6] = [
    ("as it is", str::to_owned),
    ("two-digit node ids", |text| {
        let text =
            text.replace("Node 2", "Node 12").replace("Node 3", "Node 13").replace("nodeid 3", "nodeid 13");
        text.replace("Nodeid 3", "Nodeid 13").replace("failure of 3", "failure of 13")
    }),
    ("blanks", |text| {
        text.replace("INFO     --", "INFO --")
            .replace("-- Node 2: ", "--  Node  2:  ")
            .replace("-- Node 3: ", "-- Node 3 :")
    }),
    ("other levels", |text| text.replace("ALERT   ", "CRITICAL").replace("INFO    ", "DEBUG   ")),
    ("repeated messages", |text| each_line(text, |line| format!("{line} - Repeated 2 times"))),
    ("blanks at the ends of lines", |text| each_line(text, |line| format!("{line}\t "))),
];

fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

fn without(text: &str, part: &str) -> String {
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(part)).collect();
    assert!(kept.len() < text.lines().count(), "no line with {part}");
    kept.join("\n") + "\n"
}

fn story(text: &str, window: Window) -> Result<Story, Wrong> {
    let read = |text: &[u8], piece: usize| {
        let mut log = ClusterLog::new(window);
        text.chunks(piece).all(|piece| log.feed(piece));
        log.finish()
    };
    alike(text, read)
}

/// What is found in all pieces and with both line ends.
fn alike<T: PartialEq + Debug>(text: &str, read: impl Fn(&[u8], usize) -> T) -> T {
    let whole = read(text.as_bytes(), usize::MAX);
    let windows = text.replace('\n', "\r\n");
    for piece in PIECES_BYTES {
        assert_eq!(read(text.as_bytes(), piece), whole, "in pieces of {piece} bytes");
    }
    for piece in PIECES_BYTES.into_iter().chain([usize::MAX]) {
        assert_eq!(read(windows.as_bytes(), piece), whole, "CRLF, in pieces of {piece} bytes");
    }
    whole
}

/// All forms, each with its name and the rule of its version.
fn forms() -> Vec<(String, Rule, String)> {
    let mut forms = Vec::new();
    for (version, rule) in VERSIONS {
        let text = FIELD
            .replace("Started (version 5.1.16)", &format!("Started ({version})"))
            .replace("API version 5.1.16", &format!("API {version}"));
        for writer in WRITERS {
            for (node_id, with_id) in NODE_ID_LINES {
                for (time, timed) in TIMES {
                    for (shape, shaped) in SHAPES {
                        let text = shaped(&timed(&with_id(&text.replace("[MgmSrvr]", writer))));
                        forms.push((format!("{version}, {writer}, {node_id}, {time}, {shape}"), rule, text));
                    }
                }
            }
        }
    }
    forms
}

#[test]
fn one_restart_in_all_forms() {
    let forms = forms();
    assert_eq!(forms.len(), 1224);
    let at = |clock: &str| Moment::parse(&format!("2007-03-07 {clock}"));
    for (name, rule, text) in forms {
        let story = story(&text, Window::default()).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        assert_eq!((story.restarts.len(), story.checkpoints.len(), story.notes.len()), (1, 6, 0), "{name}");
        let restart = &story.restarts[0];
        assert_eq!(restart.node, if name.contains("two-digit") { 13 } else { 3 }, "{name}");
        assert_eq!((restart.failed, restart.started), (at("11:01:40"), at("11:15:23")), "{name}");
        assert_eq!(
            (restart.process_ended, restart.why.as_deref()),
            (at("11:01:43"), Some("signal 9")),
            "{name}"
        );
        let (id, begun) =
            if name.contains("missing") { (None, "11:11:42") } else { (at("11:11:40"), "11:11:40") };
        assert_eq!((restart.node_id, restart.begun), (id, at(begun)), "{name}");
        assert_eq!(
            (&restart.lcps_absent[..], &restart.lcps_starting[..]),
            (&[21, 22, 23, 24][..], &[25][..]),
            "{name}"
        );
        assert_eq!((restart.lcps_missed, restart.lcps_missed_max), (4, Some(4)), "{name}");
        assert_eq!((restart.fragments_copied, restart.checkpoint_us()), (4, Some(121_000_000)), "{name}");

        let predicted = verdict::predicted(restart, true);
        assert_eq!((predicted.rule, predicted.source), (rule, Source::FullCopy), "{name}");
        let happened = verdict::happened(restart, None).source;
        let expected = match rule {
            Rule::AlwaysCopies => Source::FullCopy,
            Rule::DecidesNothing => Source::Disk,
            _ => Source::NotKnown,
        };
        assert_eq!(happened, expected, "{name}");
    }
}

#[test]
fn a_log_that_is_cut_at_both_ends() {
    for (name, _, text) in forms().into_iter().step_by(7) {
        let cut = &text[30..text.len() - 10];
        assert!(matches!(story(cut, Window::default()), Err(Wrong::Cut { line: 51 | 52 })), "{name}");
        let story = story(cut, DAMAGED).unwrap();
        assert_eq!(story.notes, [Note::LastLineLeftOut, Note::Headless(1)], "{name}");
        let restart = &story.restarts[0];
        assert_eq!(
            (restart.lcps_absent.len(), restart.lcps_starting.len(), restart.started),
            (4, 1, None),
            "{name}"
        );
        // The version stands before `Started`, too: behind `API`.
        assert!(restart.version.is_some(), "{name}");
    }
}

#[test]
fn every_recording_in_any_pieces() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let folders = std::fs::read_dir(recordings).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut read = 0;
    for path in files.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "cluster.log" {
            assert!(story(&text, Window::default()).is_ok(), "{path:?}");
        } else if name.ends_with("_out.log") {
            let own = alike(&text, |text, piece| {
                let mut log = NodeLog::new(Window::default());
                text.chunks(piece).all(|piece| log.feed(piece));
                log.finish()
            });
            assert!(own.is_ok_and(|own| !own.starts.is_empty()), "{path:?}");
        } else {
            let rows = alike(&text, |text, piece| {
                let mut table = Table::default();
                text.chunks(piece).all(|piece| table.feed(piece));
                table.finish()
            });
            assert!(rows.is_ok(), "{path:?}");
        }
        read += 1;
    }
    assert_eq!(read, 49);
}

/// The lines about the end of the copy are of level 8, those about checkpoints of 7, the default.
#[test]
fn what_the_log_does_not_show_is_a_range() {
    let quiet = without(FIELD, "completed copying the fragments");
    let quiet = without(&without(&quiet, "Local checkpoint 23"), "Local checkpoint 24");
    let late = "2007-03-07 11:15:21 [MgmSrvr] INFO     -- Node 2: Local checkpoint 26 started. Keep GCI = 1 oldest restorable GCI = 1\n";
    let at = quiet.find("2007-03-07 11:15:21").unwrap();
    let (before, after) = quiet.split_at(at);
    let story = story(&format!("{before}{late}{after}"), Window::default()).unwrap();
    let restart = &story.restarts[0];
    assert_eq!((restart.lcps_missed, restart.lcps_missed_max), (2, Some(3)));
    let predicted = verdict::predicted(restart, true);
    assert_eq!((predicted.source, predicted.count()), (Source::NotKnown, "2 to 3".to_owned()));
    assert!(predicted.to_string().contains("does not show when its data was complete"), "{predicted}");
}

#[test]
fn a_log_that_begins_after_the_failure_counts_no_absence() {
    let since = Moment::parse("2007-03-07 11:11:00");
    let late = story(FIELD, Window { since, ..Window::default() }).unwrap();
    let restart = &late.restarts[0];
    assert_eq!((restart.failed, restart.lcps_missed, restart.lcps_missed_max), (None, 0, None));
    let predicted = verdict::predicted(restart, true);
    assert_eq!((predicted.source, predicted.count()), (Source::NotKnown, "0 or more".to_owned()));
    // One that ends while the node is away counts what it has seen.
    let until = Moment::parse("2007-03-07 11:09:00");
    let early = story(FIELD, Window { until, ..Window::default() }).unwrap();
    assert_eq!(verdict::predicted(&early.restarts[0], true).count(), "4 or more");
    assert_eq!(verdict::happened(&early.restarts[0], None).source, Source::NotKnown);
}

#[test]
fn checkpoints_of_the_second_of_the_failure_are_counted_by_the_order_of_lines() {
    let checkpoint = "2007-03-07 11:01:40 [MgmSrvr] INFO     -- Node 2: Local checkpoint 20 started. Keep GCI = 400 oldest restorable GCI = 400\n";
    let text = FIELD.replacen("2007-03-07 11:00:05 [MgmSrvr] INFO     -- Node 2: Local checkpoint 20 started. Keep GCI = 400 oldest restorable GCI = 400\n", "", 1);
    let text = without(&text, "Local checkpoint 20 completed");
    let at = text.find("2007-03-07 11:01:40").unwrap();
    let text = format!("{}{checkpoint}{}", &text[..at], &text[at..]);
    let story = story(&text, Window::default()).unwrap();
    assert_eq!((story.checkpoints.len(), &story.restarts[0].lcps_absent[..]), (6, &[21, 22, 23, 24][..]));
}

#[test]
fn a_node_id_given_to_an_sql_node_is_no_start() {
    let line = "2007-03-07 11:00:01 [MgmSrvr] INFO     -- Mgmt server state: nodeid 4 reserved for ip 192.0.2.14, m_reserved_nodes 0000000000000012.\n";
    let story = story(&format!("{line}{FIELD}"), DAMAGED).unwrap();
    assert_eq!(story.restarts.iter().map(|restart| restart.node).collect::<Vec<_>>(), [3]);
}

#[test]
fn orders_to_stop_that_were_taken_back_or_given_to_all() {
    let order = |text: &str| {
        let line = format!("2007-03-07 11:01:39 [MgmSrvr] INFO     -- {text}\n");
        let at = FIELD.find("2007-03-07 11:01:40").unwrap();
        story(&format!("{}{line}{}", &FIELD[..at], &FIELD[at..]), Window::default())
            .unwrap()
            .restarts
            .remove(0)
            .stop_asked
    };
    assert_eq!(order("Node 3: Node shutdown initiated"), Moment::parse("2007-03-07 11:01:39"));
    assert_eq!(order("Node 3: Cluster shutdown initiated"), Moment::parse("2007-03-07 11:01:39"));
    let aborted = "Node 3: Node shutdown initiated\n2007-03-07 11:01:39 [MgmSrvr] INFO     -- Node 3: Node shutdown aborted";
    assert_eq!(order(aborted), None);
}

#[test]
fn a_version_is_not_guessed() {
    let unfinished = without(&without(FIELD, "Started ("), "Node 3: API version");
    let version = |text: &str| story(text, Window::default()).unwrap().restarts[0].version;
    assert_eq!(version(&unfinished), None);
    let other = |version: &str| {
        format!("2007-03-07 11:15:30 [MgmSrvr] INFO     -- Node 5: Started (version {version})\n")
    };
    assert_eq!(version(&format!("{unfinished}{}", other("5.0.45"))).unwrap().to_string(), "5.0.45");
    assert_eq!(version(&format!("{unfinished}{}{}", other("5.0.45"), other("5.1.16"))), None);
    let story = story(&unfinished, Window::default()).unwrap();
    let predicted = verdict::predicted(&story.restarts[0], true);
    assert_eq!(predicted.rule, Rule::VersionNotNamed);
    assert!(predicted.to_string().contains("does not say which version"), "{predicted}");
}

/// A start in a data node's own log of 5.0 or 5.1, with lines of its RESTORE block.
fn own(version: &str, restored: &str) -> ndb::OwnStart {
    let text = format!(
        "2007-03-07 11:11:40 [ndbd] INFO     -- Angel pid: 12 ndb pid: 13\n\
         2007-03-07 11:11:40 [ndbd] INFO     -- NDB Cluster -- DB node 3\n\
         2007-03-07 11:11:40 [ndbd] INFO     -- Version {version} --\n\
         restartCreateObj(5) file: 1\n{restored}"
    );
    let read = |text: &[u8], piece: usize| {
        let mut log = NodeLog::new(Window::default());
        text.chunks(piece).all(|piece| log.feed(piece));
        log.finish()
    };
    let mut starts = alike(&text, read).unwrap().starts;
    assert_eq!(starts.len(), 1);
    starts.remove(0)
}

#[test]
fn no_rows_applied_is_no_restore() {
    let log = story(FIELD, Window::default()).unwrap();
    let happened = |own: &ndb::OwnStart| {
        assert!(own.is_of(&log.restarts[0]));
        verdict::happened(&log.restarts[0], Some(own))
    };
    let none =
        happened(&own("5.1.16 (beta)", "RESTORE table: 5 0 rows applied\nRESTORE table: 6 0 rows applied\n"));
    assert_eq!(none.source, Source::NotKnown);
    assert!(none.because.contains("0 rows"), "{}", none.because);
    let one = happened(&own(
        "5.1.16 (beta)",
        "RESTORE table: 5 0 rows applied\nRESTORE table: 6 12 rows applied\n",
    ));
    assert_eq!(one.source, Source::Disk);
    let silent = happened(&own("5.1.16 (beta)", ""));
    assert!(silent.because.contains("neither"), "{}", silent.because);
}

#[test]
fn before_5_1_nothing_is_ever_restored_from_disk() {
    let text = FIELD.replace("5.1.16", "5.0.51");
    let log = story(&text, Window::default()).unwrap();
    let own = own("5.0.51 (GA)", "RESTORE table: 5 500000 rows applied\n");
    for own in [None, Some(&own)] {
        assert_eq!(verdict::happened(&log.restarts[0], own).source, Source::FullCopy);
    }
    // Also where the version stands in the node's own log only.
    let unnamed = without(&without(&text, "Started ("), "Node 3: API version");
    let log = story(&unnamed, Window::default()).unwrap();
    assert_eq!(verdict::happened(&log.restarts[0], Some(&own)).source, Source::FullCopy);
    // Two checkpoints would be few enough for 5.1.
    let few = without(&without(&text, "Local checkpoint 23"), "Local checkpoint 24");
    let few = story(&few, Window::default()).unwrap();
    let predicted = verdict::predicted(&few.restarts[0], true);
    assert_eq!((predicted.source, predicted.missed), (Source::FullCopy, 2));
    assert!(predicted.to_string().contains("does not apply before 5.1.0"), "{predicted}");
}

#[test]
fn lost_messages_are_told() {
    let lost = "2007-03-07 11:01:41 [MgmtSrvr] INFO     -- *** 5 MESSAGES LOST ***\n";
    let at = FIELD.find("2007-03-07 11:01:43").unwrap();
    let story = story(&format!("{}{lost}{}", &FIELD[..at], &FIELD[at..]), Window::default()).unwrap();
    assert_eq!(story.notes, [Note::Lost(5)]);
}

#[test]
fn times_without_a_year_are_refused_in_words() {
    let system_log =
        each_line(FIELD, |line| format!("Mar  7 {} mgm1 ndb_mgmd: {}", &line[11..19], &line[20..]));
    let wrong = story(&system_log, Window::default()).unwrap_err();
    assert!(matches!(wrong, Wrong::NoTime(_)), "{wrong:?}");
    assert!(wrong.to_string().contains("no years"), "{wrong}");
    let config = "[ndb_mgmd]\nHostName=127.0.0.1\n[ndbd]\nHostName=127.0.0.1\n";
    assert_eq!(story(config, Window::default()).unwrap_err(), Wrong::NoLog("[ndb_mgmd]".into()));
}

/// As /dev/zero, or `yes`: it is refused after little, and keeps little.
#[test]
fn an_endless_input_is_refused() {
    const MOST_BYTES: usize = 2 * 1024 * 1024;
    for endless in [&b"\0"[..], b"y\n", b"\n", b"2007-03-07 11:00:00 nothing of NDB\n"] {
        for piece in [endless.repeat(7), endless.repeat(64 * 1024 / endless.len())] {
            let mut log = ClusterLog::new(DAMAGED);
            let mut table = Table::default();
            let pieces = MOST_BYTES / piece.len();
            assert!((0..pieces).any(|_| !log.feed(&piece)), "{endless:?}");
            assert!((0..pieces).any(|_| !table.feed(&piece)), "{endless:?}");
            assert!(matches!(log.finish(), Err(Wrong::NoLog(_))), "{endless:?}");
            assert!(matches!(table.finish(), Err(Wrong::NoRestartInfo(_))), "{endless:?}");
        }
    }
}

#[test]
fn a_log_of_more_than_can_be_kept_is_refused() {
    let failed = b"2007-03-07 11:00:00 [MgmSrvr] ALERT    -- Node 2: Node 3 has failed. The Node state at failure was 0\n";
    let many = failed.repeat(1000);
    let mut restarts = ClusterLog::new(Window::default());
    assert!((0..20).all(|_| restarts.feed(&many)));
    assert_eq!(restarts.finish().unwrap_err(), Wrong::TooMuch);
    let mut entries = ClusterLog::new(Window::default());
    let read = (0..1000).take_while(|_| entries.feed(&many)).count();
    assert!(read < 600, "{read}");
    assert_eq!(entries.finish().unwrap_err(), Wrong::TooMuch);
}
