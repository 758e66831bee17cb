//! Formats the results as text. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::faults::Event;
use super::judge::{Finding, Kind};
use super::result::{Outcomes, Phase, Report};
use crate::experiment::Results;

/// How many findings of each kind are printed in full; `result.json` has all.
const FINDINGS_SHOWN: usize = 4;

impl Results for Report {
    fn table(&self) -> String {
        draw(self)
    }

    /// Whether nothing is wrong, and the run came to its end.
    fn is_good(&self) -> bool {
        self.broke.is_none() && self.wrong().next().is_none()
    }
}

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
    let mut shown: BTreeMap<Kind, usize> = BTreeMap::new();
    for finding in report.wrong() {
        let count = shown.entry(finding.kind).or_default();
        *count += 1;
        if *count <= FINDINGS_SHOWN {
            let _ = writeln!(out, "WRONG, {}: {}", finding.kind.name(), finding.text);
        }
    }
    for (kind, count) in shown.iter().filter(|(_, count)| **count > FINDINGS_SHOWN) {
        let _ = writeln!(out, "... and {} more of the kind {}", count - FINDINGS_SHOWN, kind.name());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_findings_of_each_kind_are_printed_and_the_rest_is_counted() {
        let findings = |kind, count| (0..count).map(move |at| Finding::new(kind, format!("number {at}")));
        let through = Phase {
            findings: findings(Kind::Bank, 6).chain(findings(Kind::Lost, 1)).collect(),
            ..Phase::default()
        };
        let drawn = draw(&Report { through, ..Report::default() });
        assert!(drawn.contains("lost 1, bank 6"), "{drawn}");
        assert!(
            drawn.contains("WRONG, lost: number 0") && drawn.contains("WRONG, bank: number 3"),
            "{drawn}"
        );
        assert!(drawn.contains("... and 2 more of the kind bank") && !drawn.contains("number 4"), "{drawn}");
        assert!(!drawn.contains("nothing lost"), "{drawn}");
        assert!(draw(&Report::default()).contains("nothing lost"));
        let broke = draw(&Report { broke: Some("db1 does not answer".into()), ..Report::default() });
        assert!(
            broke.contains("BROKE OFF: db1 does not answer") && !broke.contains("nothing lost"),
            "{broke}"
        );
    }
}
