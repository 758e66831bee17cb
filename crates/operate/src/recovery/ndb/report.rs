//! The findings for people.

use std::fmt::Write;

use ndb::advice::{self, Meaning, trigger_bytes};
use ndb::restart::{Restart, Story};
use ndb::verdict::{self, PARTIAL_CHECKPOINTS, Source};
use ndb::{OwnStart, seconds};

use super::{Advice, Findings};
use report::table::{Lean, Table, span};

/// All of it. Writing to a String cannot fail.
pub(super) fn text(found: &Findings) -> String {
    let mut out = String::new();
    if let Some(story) = &found.story {
        head(&mut out, story);
        if story.restarts.len() > 1 {
            overview(&mut out, story, found);
        }
        for one in &story.restarts {
            restart(&mut out, one, story, found);
        }
        rhythm(&mut out, story);
    } else {
        rows(&mut out, found);
    }
    if let Some(given) = &found.advice {
        advice(&mut out, given, found);
    }
    out
}

fn head(out: &mut String, story: &Story) {
    let version =
        story.version.map_or_else(|| "version not named".to_owned(), |version| format!("NDB {version}"));
    let _ = writeln!(
        out,
        "{} to {}, {version}; restarts: {}, checkpoints: {}",
        story.first,
        story.last,
        story.restarts.len(),
        story.checkpoints.len()
    );
    for note in &story.notes {
        let _ = writeln!(out, "note: {note}");
    }
    if story.restarts.is_empty() {
        let _ = writeln!(out, "No data node failed or started in it.");
    }
}

/// A start in a node's own log.
pub(super) fn own_of<'a>(restart: &Restart, found: &'a Findings) -> Option<&'a OwnStart> {
    found.own.iter().find(|own| own.is_of(restart))
}

fn or_dash(us: Option<i64>) -> String {
    us.map_or_else(|| "-".to_owned(), seconds)
}

fn overview(out: &mut String, story: &Story, found: &Findings) {
    let mut table = Table::new(&[
        ("node", Lean::Right),
        ("failed", Lean::Left),
        ("to Started s", Lean::Right),
        ("missed LCPs", Lean::Right),
        ("rule of 5.1", Lean::Left),
        ("what happened", Lean::Left),
    ]);
    for restart in &story.restarts {
        let predicted = verdict::predicted(restart, !story.checkpoints.is_empty());
        let happened = verdict::happened(restart, own_of(restart, found));
        let broken_off = if happened.is_finished { "" } else { ", not finished" };
        table.row([
            restart.node.to_string(),
            restart.failed.map_or_else(|| "-".to_owned(), |time| time.to_string()),
            or_dash(restart.total_us()),
            predicted.count(),
            predicted.source.to_string(),
            format!("{}{broken_off}", happened.source),
        ]);
    }
    let _ = write!(out, "\n{}", table.text());
}

fn restart(out: &mut String, restart: &Restart, story: &Story, found: &Findings) {
    let kind = restart.start.map_or("start", |start| start.name());
    let _ = writeln!(out, "\nnode {}: {kind}", restart.node);
    let why = restart.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    let times = [
        ("stop asked", restart.stop_asked, String::new()),
        (
            "first missed heartbeat",
            restart.silent_since.filter(|_| restart.declared_dead.is_some()),
            String::new(),
        ),
        ("process ended", restart.process_ended, why),
        ("failed", restart.failed, String::new()),
        ("node id", restart.node_id, String::new()),
        ("Started", restart.started, String::new()),
        ("failed again", restart.failed_again, String::new()),
    ];
    for (name, time, more) in times {
        if let Some(time) = time {
            let _ = writeln!(out, "  {name:<22}  {time}{more}");
        }
    }
    let parts = restart.parts();
    if !parts.is_empty() {
        let mut table = Table::new(&[("part", Lean::Left), ("s", Lean::Right)]);
        for part in &parts {
            table.row([part.name.to_owned(), seconds(part.us)]);
        }
        if let Some(total_us) = restart.total_us() {
            table.row(["from the failure".to_owned(), seconds(total_us)]);
        }
        if let Some(start_us) = restart.start_us() {
            table.row(["from the node id".to_owned(), seconds(start_us)]);
        }
        if let Some(net_us) = restart.net_us() {
            table.row(["without its checkpoint".to_owned(), seconds(net_us)]);
        }
        indented(out, &table);
    }
    verdicts(out, restart, story, found);
}

fn indented(out: &mut String, table: &Table) {
    for line in table.text().lines() {
        let _ = writeln!(out, "  {line}");
    }
}

fn verdicts(out: &mut String, restart: &Restart, story: &Story, found: &Findings) {
    let own = restart.own_lcp.map_or_else(String::new, |id| format!("; its own is {id}"));
    let away = restart.failed.map_or("not known".to_owned(), |_| restart.lcps_absent.len().to_string());
    let from = match (restart.node_id, restart.begun) {
        (None, Some(_)) => " (its node id is not in the log: from its first line on)",
        _ => "",
    };
    let _ = writeln!(
        out,
        "  checkpoints started     {away} while it was away, {} while it started{from}{own}",
        restart.lcps_starting.len()
    );
    let happened = verdict::happened(restart, own_of(restart, found));
    let unfinished = match (happened.is_finished, happened.source) {
        (false, Source::Disk | Source::FullCopy | Source::Both { .. }) => ", but not to the end",
        _ => "",
    };
    let _ = writeln!(out, "  what happened           {}{unfinished} ({})", happened.source, happened.because);
    let figures = [
        restart.restored_lcp.filter(|id| *id > 0).map(|id| format!("checkpoint {id}")),
        restart.restored_rows.filter(|rows| *rows > 0).map(|rows| format!("{rows} rows restored")),
        restart
            .redo_gci
            .filter(|_| happened.source == Source::Disk)
            .map(|(from, to)| format!("redo log from GCI {from} to {to}")),
        restart
            .rows_fetched
            .map(|rows| format!("{rows} rows fetched, {} bytes", restart.bytes_fetched.unwrap_or(0))),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    if !figures.is_empty() {
        let _ = writeln!(out, "  data                    {}", figures.join(", "));
    }
    let _ = writeln!(
        out,
        "  rule of three           {}",
        verdict::predicted(restart, !story.checkpoints.is_empty())
    );
    let of_node: Vec<_> = found.rows.iter().filter(|row| row.node == restart.node).collect();
    if let Some(row) = of_node.iter().find(|row| row.is_of(restart)) {
        let _ = writeln!(out, "  ndbinfo.restart_info    agrees: {} s in all", row.total_s());
    } else if let Some(row) = of_node.last() {
        let _ = writeln!(
            out,
            "  ndbinfo.restart_info    is about another restart: {}, {} s in all (the server keeps the last one only)",
            row.status,
            row.total_s()
        );
    }
}

/// Without a log: the table alone.
fn rows(out: &mut String, found: &Findings) {
    for row in &found.rows {
        let _ = writeln!(out, "node {}: {}, {} s in all", row.node, row.status, row.total_s());
        let mut table = Table::new(&[("part", Lean::Left), ("s", Lean::Right)]);
        for (name, s) in ndb::restart_info::TIMES.iter().zip(row.seconds).filter(|(_, s)| *s > 0) {
            table.row([(*name).to_owned(), s.to_string()]);
        }
        indented(out, &table);
    }
}

fn rhythm(out: &mut String, story: &Story) {
    let rhythm = advice::rhythm(&story.checkpoints);
    let Some(duration_ms) = rhythm.duration_ms else { return };
    let apart =
        rhythm.spacing_ms.map_or_else(String::new, |ms| format!(", {} from start to start", span(ms)));
    let third = rhythm.third_start_min_ms.map_or_else(String::new, |ms| {
        format!(" (medians); three were started within {} at the least", span(ms))
    });
    let _ = writeln!(out, "\ncheckpoints: {}, {} long{apart}{third}", rhythm.checkpoints, span(duration_ms));
}

fn advice(out: &mut String, given: &Advice, found: &Findings) {
    let load = given.load;
    let from =
        if given.is_rate_from_log { " (from the setting and the distance of checkpoints)" } else { "" };
    let _ = writeln!(
        out,
        "\nTimeBetweenLocalCheckpoints, with {} bytes/s written{from}, checkpoints of {}, and {} from a failure until the data is complete:",
        load.write_bytes_s,
        span(load.checkpoint_ms),
        span(load.needed_ms)
    );
    let advised = load.advised();
    let mut settings = vec![advice::DEFAULT, 24];
    settings.extend(given.setting);
    settings.extend(advised.map(|meaning| meaning.setting));
    settings.sort_unstable();
    settings.dedup();
    let mut table = Table::new(&[
        ("setting", Lean::Right),
        ("trigger", Lean::Right),
        ("written in", Lean::Right),
        ("start to start", Lean::Right),
        ("third start after", Lean::Right),
        ("", Lean::Left),
    ]);
    for meaning in settings.into_iter().map(|setting| load.meaning(setting)) {
        table.row(line(&meaning));
    }
    let _ = write!(out, "{}", table.text());
    let _ = match advised {
        Some(meaning) if given.setting == Some(meaning.setting) => {
            writeln!(out, "The present setting, {}, leaves half as much again.", meaning.setting)
        }
        Some(meaning) => writeln!(
            out,
            "Advice: {}, the smallest from the default on that leaves half as much again. The redo log must hold what is written in {} at the least: {} bytes.",
            meaning.setting,
            span(meaning.window_ms),
            u128::from(load.write_bytes_s) * u128::from(meaning.window_ms) / 1000
        ),
        None => writeln!(
            out,
            "No value leaves half as much again: start a failed node sooner, or have it ready sooner."
        ),
    };
    let version = found.story.as_ref().and_then(|story| story.version);
    if version.is_some_and(|version| version >= PARTIAL_CHECKPOINTS) {
        let _ = writeln!(
            out,
            "Since NDB {PARTIAL_CHECKPOINTS} this decides nothing about full copies: a larger value means fewer checkpoints, and more redo log to run at a restart."
        );
    }
}

fn line(meaning: &Meaning) -> [String; 6] {
    let judged = match (meaning.is_enough, meaning.has_margin) {
        (_, true) => "enough",
        (true, false) => "just enough",
        _ => "too short",
    };
    // Up to 2^17 words it is less than a MiB.
    let trigger = match trigger_bytes(meaning.setting) {
        bytes @ 0..1_048_576 => format!("{bytes} bytes"),
        bytes => format!("{} MiB", bytes >> 20),
    };
    [
        meaning.setting.to_string(),
        trigger,
        span(meaning.trigger_ms),
        span(meaning.spacing_ms),
        span(meaning.window_ms),
        judged.to_owned(),
    ]
}
