//! The table in the seed's form, for a terminal: rows the failover types, columns what the node was doing; in each cell the
//! seed's words, then what was measured in this run. Pure.

use std::fmt::Write;

use super::case::{COLUMNS_MEAN, Case, Scope, seed_says};
use super::result::{Cell, FIGURES_MEAN, Report, Summary, Who};

const HEAD: usize = 15;
const WIDE: usize = 40;

/// The name of a row inside a cell.
pub fn name_of(who: &Who) -> String {
    match who {
        Who::Understudy => "Understudy".into(),
        Who::Haproxy => "HAProxy".into(),
        Who::Through(address) => address.clone(),
    }
}

/// A time as a reader wants it: `0.21 s`, below a tenth `34 ms`.
pub fn time(ms: f64) -> String {
    if ms < 99.5 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1e3) }
}

/// `no errors`, `1 error (2013)`, `8 errors (2013 x7, closed)`.
pub fn errors(sum: &Summary) -> String {
    let codes: Vec<String> = sum
        .errors_naive_by_code
        .iter()
        .map(|(code, n)| if *n == 1 { code.clone() } else { format!("{code} x{n}") })
        .collect();
    match sum.errors_naive {
        0 => "no errors".into(),
        1 => format!("1 error ({})", codes.join(", ")),
        n => format!("{n} errors ({})", codes.join(", ")),
    }
}

/// The worst added latency, or that nothing came through to have one.
pub fn hold(sum: &Summary) -> String {
    sum.hold_ms_max.map_or_else(|| "without end".into(), time)
}

/// The two lines of one measured cell.
pub fn lines(cell: &Cell) -> [String; 2] {
    if let Some(why) = &cell.skipped {
        return ["not measured:".into(), format!("  {why}")];
    }
    if cell.repetitions.is_empty() {
        return ["broke off, see below".into(), String::new()];
    }
    let sum = cell.summary();
    let mut first = time(sum.outage_ms);
    if sum.repetitions > 1 {
        let _ = write!(first, " (worst {})", time(sum.outage_ms_worst));
    }
    let _ = write!(first, ", {}", errors(&sum));
    let mut second = format!("  hold {}, lost {}, doubled {}", hold(&sum), sum.lost, sum.doubled);
    if sum.phantom > 0 {
        let _ = write!(second, ", phantom {}", sum.phantom);
    }
    if sum.nodes_that_differ > 0 {
        let _ = write!(second, ", {} nodes differ", sum.nodes_that_differ);
    }
    if sum.stale_reads > 0 {
        let _ = write!(second, ", stale reads {}", sum.stale_reads);
    }
    [first, second]
}

/// The whole table.
pub fn draw(report: &Report) -> String {
    let rule = |left: &str, mid: &str, right: &str| {
        let columns = [HEAD, WIDE, WIDE, WIDE].map(|width| "─".repeat(width + 2));
        format!("{left}{}{right}\n", columns.join(mid))
    };
    let row = |cells: [&str; 4]| {
        let mut line = String::from("│");
        for (cell, width) in cells.iter().zip([HEAD, WIDE, WIDE, WIDE]) {
            let _ = write!(line, " {} │", fit(cell, width));
        }
        line + "\n"
    };
    let mut out = rule("┌", "┬", "┐");
    let titles = Scope::ALL.map(Scope::title);
    out += &row(["Failover type", titles[0], titles[1], titles[2]]);
    for case in Case::ALL {
        if report.cells.iter().all(|cell| cell.case != case) {
            continue;
        }
        out += &rule("├", "┼", "┤");
        let seed = Scope::ALL.map(|scope| seed_says(case, scope).unwrap_or("-"));
        out += &row([case.title(), "", "", ""]);
        out += &row(["  the seed", seed[0], seed[1], seed[2]]);
        let mut whos: Vec<&Who> = report.cells.iter().filter(|c| c.case == case).map(|c| &c.who).collect();
        whos.sort_by_key(|who| **who != Who::Haproxy);
        whos.dedup();
        for who in whos {
            let cells = Scope::ALL.map(|scope| {
                let cell = report.at(case, scope).find(|cell| cell.who == *who);
                cell.map_or(["-".to_owned(), String::new()], lines)
            });
            let name = format!("  {}", name_of(who));
            out += &row([&name, &cells[0][0], &cells[1][0], &cells[2][0]]);
            out += &row(["", &cells[0][1], &cells[1][1], &cells[2][1]]);
        }
    }
    out += &rule("└", "┴", "┘");
    let runs = runs_of(report);
    let _ = writeln!(out, "Each cell: {runs}. {COLUMNS_MEAN}");
    let _ = writeln!(out, "{FIGURES_MEAN}");
    for broke in report.broken() {
        let _ = writeln!(out, "Broke off: {broke}");
    }
    out
}

/// How often the cells were measured, by whom.
fn runs_of(report: &Report) -> String {
    let mut most: Vec<(String, usize)> = Vec::new();
    for cell in &report.cells {
        let (name, runs) = (name_of(&cell.who), cell.repetitions.len());
        match most.iter_mut().find(|(of, _)| *of == name) {
            Some((_, before)) => *before = runs.max(*before),
            None => most.push((name, runs)),
        }
    }
    if most.iter().all(|(_, runs)| *runs <= 1) {
        return "one run".to_owned();
    }
    let each: Vec<String> = most.iter().map(|(name, runs)| format!("{name} {runs}")).collect();
    format!("runs: {}; median and worst, errors over all of them", each.join(", "))
}

/// Exactly `width` characters; what does not fit ends with an ellipsis.
fn fit(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return format!("{text}{}", " ".repeat(width - count));
    }
    let cut: String = text.chars().take(width - 1).collect();
    cut + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::result::tests::report;

    #[test]
    fn the_table_is_straight_and_holds_all_three_voices() {
        let table = draw(&report());
        let widths: Vec<usize> = table
            .lines()
            .filter(|l| l.starts_with(['│', '├', '┌', '└']))
            .map(|l| l.chars().count())
            .collect();
        assert!(widths.windows(2).all(|w| w[0] == w[1]), "{table}");
        for words in [
            "4 seconds (errors)",
            "6.30 s, 8 errors (2013 x8)",
            "0.25 s (worst 0.30 s), 1 error (2013)",
            "no way to tell it",
        ] {
            assert!(table.contains(words), "{words}\n{table}");
        }
        assert!(!table.contains("Vanished"), "rows that were not run are not drawn");
        assert!(table.contains("Active means that"));
    }

    #[test]
    fn times_are_read_at_a_glance() {
        assert_eq!(
            [time(0.4), time(34.4), time(99.4), time(100.0), time(6300.0)],
            ["0 ms", "34 ms", "99 ms", "0.10 s", "6.30 s"]
        );
    }
}
