//! Checks that the table of all recorded starts in the docs is what the crate finds. `UPDATE_DOCS=1` writes it.

use std::path::Path;

use ndb::{ClusterLog, Window, seconds, verdict};

const BEGIN: &str = "<!-- starts -->\n";
const END: &str = "<!-- /starts -->\n";

fn table() -> String {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let truth = std::fs::read_to_string(recordings.join("truth.tsv")).unwrap();
    let mut lines = truth.lines();
    let head: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let mut out = "| start | what happened: ours | recorded | s: ours | recorded | checkpoints: ours | recorded | rule of 5.1 would say |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let mut log = ClusterLog::new(Window::default());
        log.feed(&std::fs::read(recordings.join(cells[column("folder")]).join("cluster.log")).unwrap());
        let story = log.finish().unwrap();
        let name = cells[column("restart")];
        let nth = name.split_once('/').map_or(0, |(_, n)| n.parse::<usize>().unwrap() - 1);
        let restart = &story.restarts[nth];
        let predicted = verdict::predicted(restart, true);
        out += &format!(
            "| {name} | {} | {} | {} | {} | {} + {} | {} + {} | {} ({} missed) |\n",
            verdict::happened(restart, None).source,
            cells[column("source")],
            restart.total_us().map_or_else(|| "never".to_owned(), seconds),
            if cells[column("total")] == "-" { "never" } else { cells[column("total")] },
            restart.lcps_absent.len(),
            restart.lcps_starting.len(),
            cells[column("lcps_absent")],
            cells[column("lcps_starting")],
            predicted.source,
            predicted.missed,
        );
    }
    out
}

#[test]
fn the_table_in_the_docs_is_what_is_found() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recovery-ndb.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (there, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(there, table, "UPDATE_DOCS=1 writes it anew");
    }
}
