//! The table in the seed's form, for a terminal: rows are the failover types, columns the node's role; each cell has the seed's statement,
//! then the results of this run. Pure.

use std::fmt::Write;

use report::words::time;

use super::case::{Case, Scope, seed_says};
use super::result::{Cell, Report, Summary, Who};
use crate::figures::{Effect, quantile};

/// Short definitions of the two figures; the page and the JSON have the complete ones.
const WORDS_MEAN: &str = "Hold: the longest that an acknowledged transaction waited. Outage: the longest time for which a commit was due and \
none came. All words: docs/lab.md.";

const HEAD: usize = 15;
const WIDE: usize = 40;

/// The proxy's name in a row of a cell.
pub fn name_of(who: &Who) -> String {
    match who {
        Who::Understudy => "Understudy".into(),
        Who::Haproxy => "HAProxy".into(),
        Who::HaproxyAgent => "HAProxy+agent".into(),
        Who::Mha => "MHA".into(),
        Who::Through(address) => address.clone(),
    }
}

/// `no errors`, `1 error (2013)`, `8 errors (2013 x7, closed)`.
fn errors(sum: &Summary) -> String {
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

/// Maximum added latency of a repetition, as median and maximum over all, or that the service did not recover.
fn hold(sum: &Summary) -> String {
    let Some(median) = sum.hold_ms_median else {
        return "without end".into();
    };
    let Some(worst) = sum.hold_ms_max else {
        return format!("{} ({} without end)", time(median), sum.without_end);
    };
    if sum.repetitions > 1 { format!("{} (worst {})", time(median), time(worst)) } else { time(worst) }
}

/// The outage, as median and maximum over all repetitions; `none above 9 ms` where it is not above the noise.
fn outage(sum: &Summary) -> String {
    if !sum.by_sysbench && sum.outage_above_noise_ms_worst == 0.0 {
        return format!("none above {}", time(sum.noise_ms));
    }
    let at_least = if sum.outage_is_open { "at least " } else { "" };
    // sysbench reports only whole seconds.
    let one = |ms: f64| match sum.by_sysbench {
        true if ms == 0.0 => "below 1 s".into(),
        true => format!("{:.0} s", ms / 1e3),
        false if ms > 0.0 => time(ms),
        false => "none".into(),
    };
    let (median, worst) = (one(sum.outage_above_noise_ms), one(sum.outage_above_noise_ms_worst));
    if sum.repetitions > 1 {
        format!("{median} (worst {at_least}{worst})")
    } else {
        format!("{at_least}{worst}")
    }
}

/// Unusual counts of a cell, one line each.
fn warnings(sum: &Summary) -> Vec<String> {
    sum.unusual().map(|(n, what)| format!("  {what}: {n}")).collect()
}

/// The lines of one cell: three when it was measured, and one more for each unusual count.
pub fn lines(cell: &Cell) -> Vec<String> {
    if let Some(why) = &cell.skipped {
        return vec!["not measured:".into(), format!("  {why}")];
    }
    if cell.repetitions.is_empty() {
        return vec!["broke off, see below".into()];
    }
    let sum = cell.summary();
    let first = format!("hold {}", hold(&sum));
    // There may be many codes: if they do not fit beside the hold, they get their own line.
    let errors = errors(&sum);
    let mut lines = if first.chars().count() + errors.chars().count() + 2 <= WIDE {
        vec![format!("{first}, {errors}")]
    } else {
        vec![first, format!("  {errors}")]
    };
    lines.push(format!("  outage {}", outage(&sum)));
    lines.push(format!("  lost {}, doubled {}", sum.lost, sum.doubled));
    lines.extend(warnings(&sum));
    if cell.broke.is_some() {
        lines.push(format!("  broke off after {}, see below", runs(sum.repetitions)));
    }
    lines
}

fn runs(n: usize) -> String {
    if n == 1 { "1 run".into() } else { format!("{n} runs") }
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
    let kind = report.conditions.kind;
    let titles = Scope::ALL.map(Scope::title);
    out += &row(["Failover type", titles[0], titles[1], titles[2]]);
    for case in Case::ALL {
        if report.cells.iter().all(|cell| cell.case != case) {
            continue;
        }
        out += &rule("├", "┼", "┤");
        let seed = Scope::ALL.map(|scope| seed_says(kind, case, scope).unwrap_or("-"));
        out += &row([case.title(), "", "", ""]);
        out += &row(["  the seed", seed[0], seed[1], seed[2]]);
        for who in whos(report, case) {
            let cells = Scope::ALL.map(|scope| {
                let cell = report.at(case, scope).find(|cell| cell.who == *who);
                cell.map_or_else(|| vec!["-".to_owned()], lines)
            });
            let name = format!("  {}", name_of(who));
            for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let [one, two, three] =
                    [0, 1, 2].map(|column| cells[column].get(at).map_or("", String::as_str));
                out += &row([if at == 0 { &name } else { "" }, one, two, three]);
            }
        }
    }
    out += &rule("└", "┴", "┘");
    let _ = writeln!(out, "{}", notes(report));
    for broke in report.broken() {
        let _ = writeln!(out, "Broke off: {broke}");
    }
    out
}

/// The proxies that were measured in this case, the baselines first.
pub fn whos(report: &Report, case: Case) -> Vec<&Who> {
    let mut whos: Vec<&Who> = report.cells.iter().filter(|c| c.case == case).map(|c| &c.who).collect();
    whos.sort_by_key(|who| who.rank());
    whos.dedup();
    whos
}

/// How the table is to be read.
pub fn notes(report: &Report) -> String {
    format!("Each cell: {}. {WORDS_MEAN}{}", runs_of(report), noise(report))
}

/// What to compare the outages with: the same figure of this run without a fault, and the gaps that the arrivals leave.
fn noise(report: &Report) -> String {
    let reps = || report.cells.iter().flat_map(|cell| &cell.repetitions).map(|rep| &rep.effect);
    let median = |of: fn(&Effect) -> f64| {
        let mut us: Vec<u64> = reps().map(|effect| (of(effect) * 1e3).round() as u64).collect();
        let median = quantile(&mut us, 0.5)?;
        Some([median, *us.last()?].map(|us| time(us as f64 / 1e3)))
    };
    let (Some([noise, noise_worst]), Some([gap, gap_worst])) =
        (median(|effect| effect.noise_ms), median(|effect| effect.gap_quiet_ms))
    else {
        return String::new();
    };
    format!(
        " Noise of this run: median {noise}, worst {noise_worst}; before the faults the arrivals alone left up to {gap} (median), {gap_worst} (worst) \
         between two commits. Seed of the arrivals: {}.",
        report.conditions.seed
    )
}

/// How often the cells were measured, for each proxy.
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

/// Pads or truncates to exactly `width` characters; truncated text ends with an ellipsis.
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
    fn the_table_is_aligned_and_has_all_three_sources() {
        let table = draw(&report());
        let widths: Vec<usize> = table
            .lines()
            .filter(|l| l.starts_with(['│', '├', '┌', '└']))
            .map(|l| l.chars().count())
            .collect();
        assert!(widths.windows(2).all(|w| w[0] == w[1]), "{table}");
        for words in [
            "4 seconds (errors)",
            "hold 6.30 s, 8 errors (2013 x8)",
            "outage 6.30 s",
            "hold 0.25 s (worst 0.30 s)",
            "outage 0.25 s (worst 0.30 s)",
            "1 error (2013)",
            "no way to tell it",
        ] {
            assert!(table.contains(words), "{words}\n{table}");
        }
        assert!(!table.contains("Vanished"), "rows that were not run are not drawn");
        assert!(table.contains("Hold: the longest"));
    }

    #[test]
    fn what_should_be_0_and_is_not_stands_in_its_cell() {
        let mut report = report();
        let ours = &mut report.cells[1];
        ours.broke = Some("Understudy, non-graceful 4/4: the node did not come back".into());
        let rep = &mut ours.repetitions[0];
        (rep.unknown, rep.errors_quiet, rep.stale_reads) = (2, 3, 4);
        rep.errors_retrying_by_code.insert("1213".into(), 5);
        rep.probe_errors.insert("2013".into(), 6);
        let table = draw(&report);
        for words in [
            "unknown: 2",
            "errors before the fault: 3",
            "stale reads: 4",
            "errors of the retrying client: 5",
            "errors of the probe: 6",
            "broke off after 3 runs, see below",
            "Broke off: Understudy, non-graceful 4/4",
        ] {
            assert!(table.contains(words), "{words}\n{table}");
        }
        assert!(lines(&report.cells[0]).len() == 3, "nothing to warn of there");
    }

    #[test]
    fn an_outage_within_the_noise_is_told_as_none() {
        let mut cell = report().cells.swap_remove(1);
        for rep in &mut cell.repetitions {
            rep.effect.noise_ms = 310.0;
        }
        assert!(lines(&cell).contains(&"  outage none above 0.31 s".to_owned()), "{:?}", lines(&cell));
        // The maximum is above the noise, the median is not.
        cell.repetitions.iter_mut().for_each(|rep| rep.effect.noise_ms = 260.0);
        assert!(lines(&cell).contains(&"  outage none (worst 0.30 s)".to_owned()), "{:?}", lines(&cell));
        // One noisy quiet phase does not hide the outages of the others.
        cell.repetitions.iter_mut().for_each(|rep| rep.effect.noise_ms = 5.0);
        cell.repetitions[0].effect.noise_ms = 500.0;
        let lines = lines(&cell);
        assert!(lines.iter().any(|line| line.starts_with("  outage 0.2")), "{lines:?}");
    }

    #[test]
    fn a_service_that_did_not_come_back_is_the_worst_and_is_told() {
        let mut cell = report().cells.swap_remove(1);
        let effect = &mut cell.repetitions[0].effect;
        (effect.hold_ms_max, effect.outage_is_open, effect.outage_ms) = (None, true, 5_000.0);
        let text = lines(&cell).join("\n");
        assert!(text.contains("(1 without end)") && text.contains("(worst at least 5.00 s)"), "{text}");
        cell.repetitions.iter_mut().for_each(|rep| rep.effect.hold_ms_max = None);
        assert!(lines(&cell)[0].starts_with("hold without end"), "{:?}", lines(&cell));
    }

    #[test]
    fn sysbenchs_figures_do_not_pretend_to_be_finer_than_they_are() {
        let mut cell = report().cells.swap_remove(1);
        let second = "[ 1s ] thds: 4 tps: 9.00 qps: 1.00 (r/w/o: 1.00/0.00/0.00) lat (ms,95%): 1.00 err/s: 0.00 reconn/s: 0.00\n";
        let trace = crate::trace::Trace::parse(second).unwrap();
        for rep in &mut cell.repetitions {
            rep.sysbench = Some(crate::failover::result::BySysbench::of(&trace));
        }
        cell.repetitions[0].effect.outage_ms = 3000.0;
        cell.repetitions[1].effect.outage_ms = 0.0;
        cell.repetitions[2].effect.outage_ms = 0.0;
        assert!(lines(&cell).contains(&"  outage below 1 s (worst 3 s)".to_owned()), "{:?}", lines(&cell));
    }
}
