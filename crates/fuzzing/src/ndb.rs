//! The logs of NDB Cluster and `ndbinfo.restart_info`, in pieces.
//!
//! Input: a byte that chooses the kind and whether damage is put up with, one for how the text is cut into pieces, then the text. Checked: nothing panics; what is
//! found is the same however the text is cut; verdicts and advice can be made of whatever was found; parts of a restart lie within the log's time.

use ndb::restart::Story;
use ndb::restart_info::{Row, Table};
use ndb::{ClusterLog, NodeLog, Own, Window, Wrong, advice, verdict};

pub(crate) fn holds(input: &[u8]) {
    let [choice, cut, text @ ..] = input else { return };
    let window = Window { allow_damaged: choice & 1 == 1, ..Window::default() };
    let (once, piece) = (text.len().max(1), usize::from(*cut).max(1));
    match choice >> 1 & 3 {
        0 | 1 => {
            let story = cluster(text, once, window);
            assert_eq!(story, cluster(text, piece, window), "the pieces count");
            story.iter().for_each(judge);
        }
        2 => assert_eq!(own(text, once, window), own(text, piece, window), "the pieces count"),
        _ => assert_eq!(table(text, once), table(text, piece), "the pieces count"),
    }
}

fn cluster(text: &[u8], piece: usize, window: Window) -> Result<Story, Wrong> {
    let mut log = ClusterLog::new(window);
    text.chunks(piece).all(|piece| log.feed(piece));
    log.finish()
}

fn own(text: &[u8], piece: usize, window: Window) -> Result<Own, Wrong> {
    let mut log = NodeLog::new(window);
    text.chunks(piece).all(|piece| log.feed(piece));
    log.finish()
}

fn table(text: &[u8], piece: usize) -> Result<Vec<Row>, Wrong> {
    let mut table = Table::default();
    text.chunks(piece).all(|piece| table.feed(piece));
    table.finish()
}

fn judge(story: &Story) {
    assert!(story.first <= story.last);
    let _ = advice::rhythm(&story.checkpoints);
    for restart in &story.restarts {
        let _ = verdict::happened(restart, None).because;
        let _ = verdict::predicted(restart, !story.checkpoints.is_empty()).to_string();
        let known =
            [restart.failed, restart.node_id, restart.started, restart.failed_again, restart.process_ended];
        assert!(known.into_iter().flatten().all(|time| story.first <= time && time <= story.last));
        let span_us = story.last.since_us(story.first);
        assert!(restart.parts().iter().all(|part| part.us.abs() <= span_us));
        assert!(restart.lcps_missed <= restart.lcps_absent.len() + restart.lcps_starting.len());
        assert!(restart.lcps_missed_max.is_none_or(|max| restart.lcps_missed <= max));
    }
}
