//! Formats the results as text: a line during the run, a table at its end. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use report::table::{Lean, Table};
use report::words::time;

use super::result::{Report, ScenarioRun};
use super::scenario::Scenario;
use crate::experiment::Results;
use crate::figures::quantile;

/// One result in one line.
pub fn line(outcome: &ScenarioRun) -> String {
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), time);
    let verdict = if outcome.wrong.is_empty() {
        "as it must be".to_owned()
    } else {
        format!("WRONG: {}", outcome.wrong.join("; "))
    };
    format!(
        "{}: left after {}, moved after {}, answered after {}: {verdict}",
        outcome.scenario.title(),
        time(outcome.left_ms),
        time(outcome.moved_ms),
        time(outcome.answered_ms),
    )
}

/// The median, followed by the maximum when there are several values.
fn summed(values: impl Iterator<Item = f64>) -> String {
    // As integer microseconds, which can be sorted.
    let mut values: Vec<u64> = values.map(|ms| (ms * 1e3).round() as u64).collect();
    let Some(median) = quantile(&mut values, 0.5) else { return "-".to_owned() };
    let shown = |value: u64| time(value as f64 / 1e3);
    match values.last() {
        Some(worst) if values.len() > 1 => format!("{} ({})", shown(median), shown(*worst)),
        _ => shown(median),
    }
}

impl Results for Report {
    fn table(&self) -> String {
        draw(self)
    }

    /// Whether everything is as required.
    fn is_good(&self) -> bool {
        self.broken.is_empty() && self.outcomes.iter().all(|outcome| outcome.wrong.is_empty())
    }
}

/// The whole table.
pub fn draw(report: &Report) -> String {
    let mut by_scenario: BTreeMap<usize, Vec<&ScenarioRun>> = BTreeMap::new();
    for outcome in &report.outcomes {
        let at = Scenario::ALL.iter().position(|scenario| *scenario == outcome.scenario).unwrap_or(0);
        by_scenario.entry(at).or_default().push(outcome);
    }
    let names = [
        "what happens",
        "holder",
        "old one lost it",
        "moved",
        "answered",
        "client's gap",
        "two holders",
        "verdict",
    ];
    let mut table = Table::new(&names.map(|name| (name, Lean::Left)));
    let mut below = String::new();
    for outcomes in by_scenario.values() {
        let Some(first) = outcomes.first() else { continue };
        let to = if first.to.is_empty() { "nobody".to_owned() } else { first.to.join(" + ") };
        let overlap = outcomes.iter().map(|o| o.overlap_ms()).fold(0.0, f64::max);
        let apart = outcomes.iter().map(|o| o.overlap_apart_ms()).fold(0.0, f64::max);
        let wrong = outcomes.iter().filter(|o| !o.wrong.is_empty()).count();
        table.row([
            first.scenario.title().to_owned(),
            format!("{} -> {to}", first.from),
            summed(outcomes.iter().filter_map(|o| o.left_ms)),
            summed(outcomes.iter().filter_map(|o| o.moved_ms)),
            summed(outcomes.iter().filter_map(|o| o.answered_ms)),
            summed(outcomes.iter().map(|o| o.gap_ms)),
            match (overlap > 0.0, apart > 0.0) {
                (false, false) => "never".to_owned(),
                (true, _) => time(overlap),
                (false, true) => format!("{}, apart", time(apart)),
            },
            if wrong == 0 { "good".to_owned() } else { format!("WRONG {wrong}/{}", outcomes.len()) },
        ]);
        let mut notes: Vec<&String> = Vec::new();
        for note in outcomes.iter().flat_map(|outcome| &outcome.notes) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let states: Vec<String> =
            first.states.iter().map(|(node, state)| format!("{node} {state:?}")).collect();
        let _ = writeln!(below, "{}\n  states: {}", first.scenario.title(), states.join(", "));
        for note in notes {
            let _ = writeln!(below, "  {note}");
        }
        for outcome in outcomes {
            for wrong in &outcome.wrong {
                let _ = writeln!(below, "  WRONG in repetition {}: {wrong}", outcome.repetition + 1);
            }
        }
    }
    let mut text = format!(
        "{}; adverts every {} ms, a check every {} s, priorities {:?}; {}; times since the fault{}\n\n",
        report.ip.title(),
        report.advert_interval_ms,
        report.check_interval_s,
        report.priorities,
        if report.galera_options.is_empty() { "Galera's own timeouts" } else { "the advised evs settings" },
        if report.outcomes.iter().any(|o| o.repetition > 0) { ", median (worst)" } else { "" },
    );
    let _ = write!(text, "{}\n{below}", table.text());
    for broken in &report.broken {
        let _ = writeln!(text, "broke off: {broken}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::experiment::Results;
    use crate::vip::observer::Overlap;

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 100));

    fn outcome(repetition: u32, moved_ms: f64) -> ScenarioRun {
        ScenarioRun {
            scenario: Scenario::Stop,
            repetition,
            addresses: vec![ADDRESS],
            from: "db2".into(),
            to: vec!["db1".into()],
            left_ms: Some(400.0),
            moved_ms: Some(moved_ms),
            answered_ms: Some(moved_ms + 10.0),
            gap_ms: moved_ms + 20.0,
            errors: BTreeMap::new(),
            overlaps: Vec::new(),
            moved_again: 0,
            states: [("db1".to_owned(), "now master".to_owned())].into(),
            notes: vec!["a note".into()],
            wrong: Vec::new(),
        }
    }

    #[test]
    fn repetitions_become_a_median_and_the_worst() {
        let mut outcomes = vec![outcome(0, 500.0), outcome(1, 1500.0), outcome(2, 700.0)];
        outcomes[2].notes.push("another".into());
        let text =
            draw(&Report { outcomes, advert_interval_ms: 1000, check_interval_s: 1, ..Report::default() });
        assert_eq!((text.matches("a note").count(), text.matches("another").count()), (1, 1), "{text}");
        assert!(text.contains("mysqld stopped  db2 -> db1  0.40 s (0.40 s)  0.70 s (1.50 s)"), "{text}");
        assert!(text.contains("never") && text.contains("a note") && text.contains("db1 \"now master\""));
    }

    #[test]
    fn what_is_wrong_is_not_hidden() {
        let mut bad = outcome(0, 500.0);
        bad.wrong.push("two had the address for 30 ms".into());
        bad.overlaps.push(Overlap {
            address: ADDRESS,
            nodes: vec!["db1".into(), "db2".into()],
            from_ms: 1.0,
            ms: 30.0,
            reachable: true,
        });
        let report = Report { outcomes: vec![bad], broken: vec!["x: y".into()], ..Report::default() };
        assert!(!report.is_good());
        let text = draw(&report);
        for part in ["WRONG 1/1", "30 ms", "WRONG in repetition 1: two had", "broke off: x: y"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
