//! Formats the results as text. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::faults::Event;
use super::judge::Finding;
use super::result::{Outcomes, Phase, Report};

/// How many findings are printed in full; `result.json` has all.
const FINDINGS_SHOWN: usize = 20;

/// The whole report. Writing to a String cannot fail.
pub fn draw(report: &Report) -> String {
    let mut out = format!(
        "consistency of {}, seed {}{}\n\n",
        report.cluster,
        report.seed,
        if report.split { ", reads on replicas through the port for writes" } else { "" }
    );
    let _ = writeln!(out, "{:<34} {:>26} {:>26}", "", "one server, no faults", "through Understudy");
    for (name, cell) in rows() {
        let _ = writeln!(out, "{name:<34} {:>26} {:>26}", cell(&report.direct), cell(&report.through));
    }
    let _ = writeln!(out, "\nanomalies between transactions, by Elle's names:");
    for (name, phase) in [("one server", &report.direct), ("through Understudy", &report.through)] {
        for (level, cycles) in &phase.cycles {
            let names: Vec<String> =
                cycles.count_by_name.iter().map(|(name, count)| format!("{name} {count}")).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let _ = writeln!(out, "  {name}, {}: {names}", level.name());
        }
    }
    let _ = writeln!(out, "\nfaults and moves: {}", summed(&report.events));
    if let Some(longest) = report.events.iter().filter_map(to_well).max_by(f64::total_cmp) {
        let _ =
            writeln!(out, "longest time from the end of a fault until everything was well: {longest:.1} s");
    }
    verdict(report, &mut out);
    out
}

type Row = (&'static str, fn(&Phase) -> String);

fn rows() -> [Row; 8] {
    use super::lists::Level;
    fn lists(phase: &Phase, level: Level) -> String {
        phase.counts.lists.get(&level).copied().map(outcomes).unwrap_or_default()
    }
    [
        ("seconds", |phase| format!("{:.0}", phase.seconds)),
        ("lists, REPEATABLE READ *", |phase| lists(phase, Level::RepeatableRead)),
        ("lists, SERIALIZABLE *", |phase| lists(phase, Level::Serializable)),
        ("transfers *", |phase| outcomes(phase.counts.transfers)),
        ("inserts *", |phase| outcomes(phase.counts.inserts)),
        ("reads of all balances", |phase| phase.counts.bank_reads.to_string()),
        ("registers: writes / reads", |phase| {
            format!("{} / {}", phase.counts.register_writes, phase.counts.register_reads)
        }),
        ("wrong at any isolation level", |phase| kinds(&phase.findings)),
    ]
}

fn outcomes(counts: Outcomes) -> String {
    format!("{} / {} / {}", counts.ok, counts.failed, counts.unknown)
}

fn kinds(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing".to_owned();
    }
    let counts = Report::by_kind(findings.iter());
    counts.iter().map(|(kind, count)| format!("{} {count}", kind.name())).collect::<Vec<_>>().join(", ")
}

fn summed(events: &[Event]) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        let of = match (event.what.as_str(), event.was_writer) {
            ("switchover", _) if event.refused.is_some() => "switchover that was refused".to_owned(),
            ("switchover", _) => "switchover".to_owned(),
            (what, true) => format!("{what} of the writer"),
            (what, false) => format!("{what} of another"),
        };
        *counts.entry(of).or_default() += 1;
    }
    let each: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    if each.is_empty() { "none".to_owned() } else { each.join(", ") }
}

fn to_well(event: &Event) -> Option<f64> {
    Some(event.well_s? - event.undone_s?)
}

fn verdict(report: &Report, out: &mut String) {
    let _ = writeln!(out, "* acknowledged / failed / outcome unknown to the client\n");
    for (at, finding) in report.wrong().enumerate() {
        if at >= FINDINGS_SHOWN {
            let _ = writeln!(out, "... and {} more", report.wrong().count() - at);
            break;
        }
        let _ = writeln!(out, "WRONG, {}: {}", finding.kind.name(), finding.text);
    }
    if let Some(broke) = &report.broke {
        let _ = writeln!(out, "BROKE OFF: {broke}");
    }
    if report.is_good() {
        let _ = writeln!(
            out,
            "nothing lost, doubled, aborted or read backwards beyond what one server shows with the same transactions"
        );
    }
}
