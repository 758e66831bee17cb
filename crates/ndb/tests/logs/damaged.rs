//! Input that is not a log, or not a whole one, gives an error sentence; a log may be cut anywhere.

use ndb::restart::Story;
use ndb::restart_info::Table;
use ndb::{ClusterLog, Moment, NodeLog, Note, Window, Wrong, advice, verdict};
use proptest::prelude::*;

const RECORDED: &str = include_str!("../recordings/k_rolling_restart/cluster.log");
const OWN: &str = include_str!("../recordings/a_kill_no_load/ndb_2_out.log");
const DAMAGED: Window = Window { since: None, until: None, allow_damaged: true };

fn read(text: &[u8], window: Window) -> Result<Story, Wrong> {
    let mut log = ClusterLog::new(window);
    log.feed(text);
    log.finish()
}

fn wrong(text: &[u8]) -> Wrong {
    read(text, Window::default()).unwrap_err()
}

#[test]
fn what_is_no_log_is_told() {
    assert_eq!(wrong(b""), Wrong::Empty);
    assert_eq!(wrong(b"\x1f\x8b\x08\x00\x01\x02"), Wrong::Compressed("gzip"));
    assert_eq!(wrong(b"# Time: 2020-01-02\nSELECT 1;\n"), Wrong::NoLog("# Time: 2020-01-02".into()));
    assert_eq!(wrong(OWN.as_bytes()), Wrong::IsNodeLog);
    let mut own = NodeLog::new(Window::default());
    own.feed(RECORDED.as_bytes());
    assert_eq!(own.finish().unwrap_err(), Wrong::IsClusterLog);
    assert_eq!(wrong(&[0xff; 300]), Wrong::NoLog("\u{fffd}".repeat(60)));
}

#[test]
fn a_cut_log_is_refused_or_read_as_far_as_it_is_whole() {
    let cut = &RECORDED.as_bytes()[..RECORDED.len() - 5];
    let lines = RECORDED.lines().count() as u64;
    assert_eq!(wrong(cut), Wrong::Cut { line: lines });
    let story = read(cut, DAMAGED).unwrap();
    assert!(story.notes.contains(&Note::LastLineLeftOut));
    assert_eq!(story.restarts.len(), 2);
}

#[test]
fn a_clock_that_goes_back_is_refused_or_what_follows_is_used() {
    let (head, tail) = RECORDED.split_at(RECORDED.find("2026-11-21T11:23:25").unwrap());
    let swapped = format!("{tail}{head}");
    let Wrong::Backwards { line, before, after } = wrong(swapped.as_bytes()) else { panic!("not seen") };
    assert_eq!(line, tail.lines().count() as u64 + 1);
    assert!(before > after);
    let story = read(swapped.as_bytes(), DAMAGED).unwrap();
    assert_eq!((story.restarts.len(), story.restarts[0].node), (1, 1));
    assert!(story.notes.contains(&Note::UsedFromLine(line)));
}

#[test]
fn late_lines_are_put_in_their_place_and_entries_of_several_lines_are_no_harm() {
    let whole = read(RECORDED.as_bytes(), Window::default()).unwrap();
    assert!(whole.notes.contains(&Note::Continued(11)), "{:?}", whole.notes);
    let mut lines: Vec<&str> = RECORDED.lines().collect();
    let at = lines.iter().position(|line| line.contains("NEW=Execute REDO logs ongoing")).unwrap();
    let late = lines.remove(at);
    lines.insert(at + 6, late);
    let story = read((lines.join("\n") + "\n").as_bytes(), Window::default()).unwrap();
    assert!(story.notes.contains(&Note::LateLines(1)), "{:?}", story.notes);
    assert_eq!(story.restarts, whole.restarts);
}

#[test]
fn a_window_leaves_the_rest_out() {
    let since = Moment::parse("2026-11-21T11:23:20Z");
    let story = read(RECORDED.as_bytes(), Window { since, ..Window::default() }).unwrap();
    assert_eq!((story.restarts.len(), story.restarts[0].node), (1, 2));
    let none = Window { since: Moment::parse("2030-01-01 00:00:00"), ..Window::default() };
    assert_eq!(read(RECORDED.as_bytes(), none).unwrap_err(), Wrong::NothingInWindow);
}

#[test]
fn a_table_that_is_none_is_told() {
    let wrong = |text: &str| {
        let mut table = Table::default();
        table.feed(text.as_bytes());
        table.finish().unwrap_err()
    };
    assert_eq!(wrong(""), Wrong::Empty);
    assert_eq!(wrong("a\tb\n1\t2\n"), Wrong::NoRestartInfo("node_id"));
    let good = include_str!("../recordings/a_kill_no_load/restart_info_final.tsv");
    let bad = good.replace("\t20\n", "\tNULL\n");
    assert_eq!(wrong(&bad), Wrong::Row { line: 2, column: "total_restart_secs".into() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A log that ends anywhere can be read, in pieces of any size; its restarts are a prefix of those of the whole log.
    #[test]
    fn a_log_cut_anywhere(end in 0..RECORDED.len(), piece in 1usize..5000) {
        let text = &RECORDED.as_bytes()[..end];
        let mut pieces = ClusterLog::new(DAMAGED);
        text.chunks(piece).all(|piece| pieces.feed(piece));
        let (pieces, once) = (pieces.finish(), read(text, DAMAGED));
        prop_assert_eq!(&pieces, &once);
        let whole = read(RECORDED.as_bytes(), DAMAGED).unwrap();
        for (part, all) in once.iter().flat_map(|story| &story.restarts).zip(&whole.restarts) {
            // The plain line is written a moment before the master's `NR Status` line.
            let apart_us = part.failed.unwrap().since_us(all.failed.unwrap());
            prop_assert!(apart_us.abs() < 1000);
            prop_assert!(part.started.is_none() || part.started == all.started);
        }
    }

    /// Lines that are missing, duplicated, moved or of another node: no panic, and no part is longer than the log.
    #[test]
    fn a_log_with_disordered_lines(moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..5), 1..30)) {
        let mut lines: Vec<String> = RECORDED.lines().map(str::to_owned).collect();
        for (from, to, what) in moves {
            let (from, to) = (from.index(lines.len()), to.index(lines.len()));
            match what {
                0 => drop(lines.remove(from)),
                1 => lines.insert(to, lines[from].clone()),
                2 => lines.swap(from, to),
                3 => lines[from] = lines[from].replace("Node 2", "Node 1").replace("node=2", "node=1"),
                // The text of one line after the time of another.
                _ => {
                    let text = lines[from].get(27..).unwrap_or_default().to_owned();
                    if let Some(time) = lines[to].get(..27).map(str::to_owned) {
                        lines[to] = time + &text;
                    }
                }
            }
        }
        let Ok(story) = read((lines.join("\n") + "\n").as_bytes(), DAMAGED) else { return Ok(()) };
        let span_us = story.last.since_us(story.first);
        for restart in &story.restarts {
            prop_assert!(restart.parts().iter().all(|part| part.us.abs() <= span_us));
            let known = [restart.failed, restart.node_id, restart.started, restart.failed_again, restart.process_ended];
            prop_assert!(known.into_iter().flatten().all(|time| story.first <= time && time <= story.last));
            prop_assert!(restart.lcps_missed <= restart.lcps_absent.len() + restart.lcps_starting.len());
            prop_assert!(restart.lcps_missed_max.is_none_or(|max| restart.lcps_missed <= max));
            let _ = verdict::happened(restart, None);
            let _ = verdict::predicted(restart, true).to_string();
        }
        let _ = advice::rhythm(&story.checkpoints);
    }

    /// No line content causes a panic.
    #[test]
    fn any_text_behind_a_head(text in "(Node [0-9]{1,12}: )?(Local checkpoint|Start phase|NR Status: node=|Table ID = |CopyFrag complete. )?\\PC{0,40}") {
        let line = format!("2026-11-21T11:23:25.000000Z [MgmtSrvr] INFO     -- {text}\n");
        prop_assert!(read(line.as_bytes(), DAMAGED).is_ok());
    }
}
