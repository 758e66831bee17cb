//! The terminal table: for each load the contestants, and below them the seed's statements and its author's archived runs. Pure.

use std::fmt::Write;

use report::table::Table;
use report::words::{number, percent};

use super::archive::{SOURCE, runs, seed_says};
use super::cell::words;
use super::load::Mode;
use super::{Judgement, Loaded, Measured, Report};

/// Formats a time: `0.21 ms`, `34 ms`, `1.24 s`.
pub fn time(s: f64) -> String {
    match s {
        // None was measured: the shortest is 1 µs.
        s if s <= 0.0 => "-".to_owned(),
        s if s < 0.009_95 => format!("{:.2} ms", s * 1e3),
        s if s < 0.0995 => format!("{:.1} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

const TITLES: [&str; 17] = [
    "  ",
    "answers/s",
    "per CPU s",
    "of nginx",
    "busy",
    "in flight, most",
    "average",
    "50 %",
    "95 %",
    "99 %",
    "99.9 %",
    "worst",
    "200",
    "503",
    "timeouts",
    "transport",
    "wrong",
];

/// Requests in flight: average, maximum.
fn flight(one: &Measured) -> String {
    let average = one.flight.average;
    let average = if average < 9.95 { format!("{average:.1}") } else { number(average) };
    format!("{average}, {}", number(one.flight.most.into()))
}

/// The first word of a judgement.
fn word(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Met => "met",
        Judgement::NotMet => "not met",
        Judgement::NotMeasured => "not measured",
    }
}

fn row(load: &Loaded, one: &Measured) -> Vec<String> {
    let (record, counts) = (&one.record, &one.record.counts);
    let unknown = || "-".to_owned();
    vec![
        format!("  {}", one.who.name()),
        number(one.per_s()),
        one.per_cpu_s().map_or_else(unknown, number),
        load.of_nginx(one).map_or_else(unknown, |part| format!("{part:.2} x")),
        one.busy().map_or_else(unknown, percent),
        flight(one),
        time(record.times_us.mean() / 1e6),
        time(record.percentile_s(50.0)),
        time(record.percentile_s(95.0)),
        time(record.percentile_s(99.0)),
        time(record.percentile_s(99.9)),
        time(record.max_s()),
        number(counts.good as f64),
        number(counts.unavailable as f64),
        number(counts.timeouts as f64),
        number(counts.transport as f64),
        number((counts.wrong + counts.other) as f64),
    ]
}

/// The whole table.
pub fn draw(report: &Report) -> String {
    let mut out = String::new();
    for load in &report.loads {
        let _ = writeln!(out, "Load {}: {}", load.name, words(&load.plan));
        let mut table = Table::figures(TITLES);
        for one in &load.measured {
            table.row(row(load, one));
        }
        if let Some(cell) = load.cell {
            for run in runs(cell) {
                let mut row = vec![String::new(); 12];
                row[0] = format!("  {}*", run.name);
                row[1] = number(run.per_s);
                (row[6], row[8], row[11]) = (time(run.average_s), time(run.p95_s), time(run.max_s));
                table.row(row);
            }
        }
        out += &table.text();
        for one in &load.measured {
            let drops = one.drops;
            let _ = writeln!(
                out,
                "  {}: ListenOverflows +{}, ListenDrops +{}, SYNs sent again +{}; the generator was busy {}{}{}{}",
                one.who.name(),
                drops.listen_overflows,
                drops.listen_drops,
                drops.syn_retransmits,
                percent(one.generator_busy()),
                match load.plan.mode {
                    Mode::Open { .. } =>
                        format!(" and late by {} at worst", time(one.late_max.as_secs_f64())),
                    Mode::Bursts { .. } => format!(
                        "; it took {} at most to open a burst's connections",
                        time(one.late_max.as_secs_f64())
                    ),
                    Mode::Closed { .. } => String::new(),
                },
                if one.reconnects > 0 {
                    format!("; {} kept connections closed by the server", one.reconnects)
                } else {
                    String::new()
                },
                troubles(one),
            );
        }
        for says in load.cell.map(seed_says).unwrap_or_default() {
            let _ = writeln!(out, "  the seed says: {says}");
        }
        for verdict in load.verdicts() {
            let word = word(verdict.judgement);
            let word =
                if verdict.judgement == Judgement::Met { word.to_owned() } else { word.to_uppercase() };
            let _ = writeln!(out, "  {:<13} {}", word + ":", verdict.text);
        }
        out.push('\n');
    }
    if report.loads.iter().any(|load| load.cell.is_some_and(|cell| !runs(cell).is_empty())) {
        let _ = writeln!(out, "* archived: {SOURCE}; another machine, and a generator that limited itself");
    }
    out += &means(report);
    out
}

/// Explains the columns.
fn means(report: &Report) -> String {
    let cores = match report.cores {
        Some((server, generator)) => {
            format!("servers on processor {server}, the generator on processor {generator}")
        }
        None => "servers and generator share the processors".into(),
    };
    format!(
        "answers/s: 200 or 503; per CPU s: the same for each second of the server's processor time; busy: the part of the time in which the \
         server used its processor; in flight: requests from connecting until the answer was read, on average and at most (of bursts: \
         connections that stood at once); times: of all but failed connections; wrong: wrong bytes or another status. {cores}; contestants take turns of {} s.\n",
        super::TURN.as_secs_f64()
    )
}

fn troubles(one: &Measured) -> String {
    let troubles = &one.record.counts.troubles;
    if troubles.is_empty() {
        return String::new();
    }
    let words: Vec<String> = troubles
        .iter()
        .map(|(trouble, n)| format!("{} x{n}", format!("{trouble:?}").to_lowercase()))
        .collect();
    format!("; transport: {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people() {
        let times = [0.000_123, 0.012_34, 0.25, 63.368].map(time);
        assert_eq!(times, ["0.12 ms", "12.3 ms", "250 ms", "63.37 s"]);
    }
}
