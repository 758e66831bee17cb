//! The report as a page: the table in the seed's form comes first; below it each cell is plotted over time, all proxies on the same scales.
//! Of several repetitions the worst one is plotted, and the page says so. Pure: a [`Report`] in, text out.

mod plot;

use std::process::ExitCode;

use report::document::Document;
use report::plot::Colour;
use report::table::{Cell as TableCell, Lean, Table};
use report::words::time;

use crate::experiment::Results;
use crate::failover::case::{COLUMNS_MEAN, Case, Scope, seed_says};
use crate::failover::result::{Cell, Repetition, Report, Summary};
use crate::failover::table::{self, lines, name_of, notes, whos};
use crate::stage::ClusterKind;

impl Results for Report {
    fn table(&self) -> String {
        table::draw(self)
    }

    fn page(&self) -> Option<String> {
        Some(page(self))
    }

    fn is_good(&self) -> bool {
        self.broken().is_empty() && !self.understudy_broke_its_word()
    }

    fn verdict(&self) -> anyhow::Result<ExitCode> {
        if self.broken().is_empty() && !self.is_good() {
            eprintln!(
                "what clients were told does not hold: see lost, doubled, phantom, differing nodes, stale reads and sessions ended elsewhere above"
            );
        }
        Ok(if self.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut page = Document::new("What the application saw when a node left");
    let conditions = &report.conditions;
    page.remark(format!(
        "{} on one machine, measured {}. Open-loop load: {} transactions a second ({} arrivals, {} statements) from {} threads that never retry, and \
         as much again from {} that do.",
        conditions.kind.in_words(),
        moment(&conditions.at),
        conditions.rate,
        conditions.arrivals,
        conditions.protocol,
        conditions.threads,
        conditions.threads,
    ));
    page.table(table(report));
    page.remark(notes(report));
    page.remark(COLUMNS_MEAN);
    page.remark(report.figures_mean());
    for case in Case::ALL {
        for scope in Scope::ALL {
            section(&mut page, report, case, scope);
        }
    }
    page.heading("Machine, versions, settings");
    page.facts(report.machine.facts().into_iter().chain(settings(report)));
    page.html()
}

/// `2026-01-31T12:00:00Z` in a readable form; any other text unchanged.
fn moment(at: &str) -> String {
    match at.split_once('T') {
        Some((day, time)) if time.len() == 9 && time.is_ascii() => format!("{day}, {} UTC", &time[..5]),
        _ => at.to_owned(),
    }
}

/// The seed's figure as a number, ms, if it begins with one; for its bar.
fn seed_ms(says: &str) -> Option<f64> {
    says.split(' ').next()?.parse::<f64>().ok().map(|s| s * 1e3)
}

/// For each case the seed's row, and one for each proxy.
fn table(report: &Report) -> Table {
    let kind = report.conditions.kind;
    let seeds = Case::ALL.into_iter().flat_map(|case| Scope::ALL.map(|scope| seed_says(kind, case, scope)));
    let measured = report.cells.iter().map(|cell| drawn_ms(&cell.summary()));
    let most = seeds.flatten().filter_map(seed_ms).chain(measured).fold(1.0, f64::max);

    let names = [["Failover type", ""].as_slice(), &Scope::ALL.map(Scope::title)].concat();
    let mut table = Table::new(&names.into_iter().map(|name| (name, Lean::Left)).collect::<Vec<_>>());
    for case in Case::ALL.into_iter().filter(|case| report.cells.iter().any(|cell| cell.case == *case)) {
        let title = format!("{}: {}", case.title(), case.means());
        let seed = Scope::ALL.map(|scope| {
            let says = seed_says(kind, case, scope);
            let cell = TableCell::from(says.unwrap_or("not measured"));
            match says.and_then(seed_ms) {
                Some(ms) => cell.bar(ms / most, "seed"),
                None => cell,
            }
        });
        table.cells([title.into(), "the seed".into()].into_iter().chain(seed));
        for who in whos(report, case) {
            let colour = if who.is_baseline() { "base" } else { "ours" };
            let cells = Scope::ALL.map(|scope| {
                let cell = report.at(case, scope).find(|cell| cell.who == *who);
                cell.map_or_else(|| "not in this run".into(), |cell| table_cell(cell, most, colour))
            });
            table.cells(["".into(), name_of(who).into()].into_iter().chain(cells));
        }
    }
    table
}

fn table_cell(cell: &Cell, most: f64, colour: Colour) -> TableCell {
    let mut lines = lines(cell);
    lines.extend(cell.broke.as_ref().map(|why| format!("broke off: {why}")));
    let sum = cell.summary();
    lines.extend(sum.order_ms_max.map(|took| format!("order took {}", time(took))));
    let shown = TableCell::from(lines.join("\n"));
    if cell.repetitions.is_empty() {
        return shown;
    }
    let shown = shown.bar(drawn_ms(&sum) / most, colour);
    let is_bad = sum.errors_naive > 0 || sum.lost > 0 || sum.doubled > 0 || sum.unusual().next().is_some();
    if is_bad || cell.broke.is_some() { shown.warned() } else { shown }
}

/// The length of a cell's bar, next to the seed's outage: the longer of hold and outage, ms.
fn drawn_ms(sum: &Summary) -> f64 {
    sum.hold_ms_median.unwrap_or(0.0).max(sum.outage_ms)
}

/// The plots of one cell.
fn section(page: &mut Document, report: &Report, case: Case, scope: Scope) {
    let mut drawn: Vec<(&Cell, &Repetition)> =
        report.at(case, scope).filter_map(|cell| Some((cell, worst(cell)?))).collect();
    if drawn.is_empty() {
        return;
    }
    drawn.sort_by_key(|(cell, _)| cell.who.rank());
    page.heading(&format!("{}, {}", case.title(), scope.title()));
    let seed = seed_says(report.conditions.kind, case, scope);
    let seed = seed.map(|says| format!("; the seed measured: {says}"));
    page.remark(format!("{}{}", case.means(), seed.unwrap_or_default()));
    let scale = plot::Scale::of(drawn.iter().map(|(_, rep)| *rep));
    for (cell, rep) in drawn {
        figure(page, cell, rep, scale);
    }
}

fn worst(cell: &Cell) -> Option<&Repetition> {
    let felt = |rep: &Repetition| rep.effect.outage_ms.max(rep.effect.hold_ms_max.unwrap_or(f64::INFINITY));
    cell.repetitions.iter().max_by(|a, b| felt(a).total_cmp(&felt(b)))
}

fn figure(page: &mut Document, cell: &Cell, rep: &Repetition, scale: plot::Scale) {
    let of = match cell.repetitions.len() {
        0 | 1 => String::new(),
        n => format!(" (the worst of {n} runs)"),
    };
    let caption = format!("{}{of}: {}; {}.", name_of(&cell.who), added(rep), endings(rep));
    let signal = match cell.case {
        Case::Graceful => "stop",
        Case::SemiGraceful => "SIGTERM",
        Case::NonGraceful => "SIGKILL",
        Case::Freeze => "SIGSTOP",
        Case::Vanish => "link down",
    };
    let what = format!("{signal} {}", rep.victim);
    let fault_s = rep.timeline.fault.as_secs_f64();
    let numbered = |events: Vec<(f64, String)>| {
        let mut table =
            Table::new(&[("", Lean::Left), ("from the fault", Lean::Right), ("what was said", Lean::Left)]);
        for (number, (at_s, said)) in (1_u64..).zip(events) {
            table.cells([number.into(), format!("{:+.3} s", at_s - fault_s).into(), said.into()]);
        }
        table
    };
    let journal = rep.timeline.journal.iter().map(|(at, said)| (at.as_secs_f64(), said.text.clone()));
    let troubles = rep.troubles.iter().map(|trouble| {
        (trouble.at.as_secs_f64(), format!("{} during {}: {}", trouble.code, trouble.during, trouble.message))
    });
    let below = [
        (String::new(), numbered(journal.collect())),
        ("The first errors, as the clients saw them".to_owned(), numbered(troubles.collect())),
    ];
    let below = below.into_iter().filter(|(_, table)| !table.is_empty()).collect();
    page.figure(caption, plot::plot(rep, scale, &what), below);
}

/// The effect of the fault, as half a sentence.
fn added(rep: &Repetition) -> String {
    let effect = &rep.effect;
    let hold = effect.hold_ms_max.map_or_else(
        || "the service was not seen to come back".to_owned(),
        |hold| format!("a transaction was held for {} at most", time(hold)),
    );
    let (outage, noise) = (time(effect.outage_ms), time(effect.noise_ms));
    let at_least = if effect.outage_is_open { "at least " } else { "" };
    if rep.sysbench.is_some() {
        return format!("{hold}; by sysbench's own trace, in whole seconds, the outage was {outage}");
    }
    if !rep.is_above_noise() {
        return format!("{hold}; no outage above the noise of {noise}");
    }
    format!(
        "{hold}; for {at_least}{outage} a commit was due and none came (shaded), before the fault for {noise} at most"
    )
}

/// The outcomes of the transactions, as half a sentence.
fn endings(rep: &Repetition) -> String {
    let (naive, retrying) = (rep.errors_naive(), rep.errors_retrying());
    let mut said = match naive + retrying {
        0 => format!("of {} transactions none ended badly", rep.transactions),
        bad => format!(
            "of {} transactions {bad} ended badly ({naive} of the client that never retries, {retrying} of the one that does)",
            rep.transactions
        ),
    };
    if rep.unknown > 0 {
        said += &format!("; of {} the client cannot know the outcome", rep.unknown);
    }
    match rep.retries {
        0 => {}
        1 => said += "; the retrying client repeated 1 try",
        tries => said += &format!("; the retrying client repeated {tries} tries"),
    }
    said
}

/// The settings of the run.
fn settings(report: &Report) -> Vec<(String, String)> {
    let conditions = &report.conditions;
    let knobs = &conditions.knobs;
    let is_replication = matches!(conditions.kind, ClusterKind::Replication { .. });
    let said: Vec<String> = [
        is_replication.then(|| "cluster.replication.failover_gap_ms = 0".to_owned()),
        knobs.checks_only.then(|| "monitor.detect = checks".to_owned()),
        knobs.evict.as_ref().map(|evict| format!("monitor.evict = {evict}")),
        knobs.silent.as_ref().map(|silent| format!("monitor.silent = {silent}")),
        knobs.probe_interval_ms.map(|ms| format!("monitor.interval_ms = {ms}")),
        knobs.misses_max.map(|misses| format!("monitor.misses_max = {misses}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let options = match conditions.galera_options.as_str() {
        "" => "Galera's defaults",
        options => options,
    };
    [
        ("Cluster", Some(format!("three nodes; {}", conditions.cluster))),
        (
            "Load",
            Some(format!(
                "sysbench's oltp transaction (14 reads, 4 writes, 2 others) and one ledger insert; 4 tables x 10,000 rows; driver {}",
                conditions.driver
            )),
        ),
        ("Seed of the arrivals", Some(conditions.seed.to_string())),
        (
            "Phases",
            Some(format!(
                "{} s quiet, then at least {} s from the fault on",
                conditions.warm_s, conditions.after_s
            )),
        ),
        (
            "wsrep_provider_options",
            (conditions.kind == ClusterKind::Galera).then(|| options.to_owned()),
        ),
        ("Understudy", Some(if said.is_empty() { "its defaults".to_owned() } else { said.join(", ") })),
        ("HAProxy", conditions.haproxy.clone()),
        ("HAProxy+agent", conditions.haproxy_agent.clone()),
        ("MHA", conditions.mha.clone()),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::result::tests::report;

    #[test]
    fn the_page_stands_alone() {
        let page = page(&report());
        assert!(
            !page.contains("http://") && !page.contains("https://") && !page.contains("<script"),
            "nothing from outside"
        );
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
        assert!(page.contains("4 seconds (errors)") && page.contains("8 errors (2013 x8)"));
        assert_eq!(
            page.matches("<figure>").count(),
            2,
            "HAProxy and Understudy, the skipped cell is not drawn"
        );
        assert!(page.contains("no way to tell it"));
    }

    #[test]
    fn the_seeds_words_and_moments_are_read() {
        assert_eq!(moment("2026-01-31T12:34:56Z"), "2026-01-31, 12:34 UTC");
        assert_eq!(moment("Tuesday"), "Tuesday");
        assert_eq!(seed_ms("4 seconds (errors)"), Some(4000.0));
        assert_eq!(seed_ms("sub-second (no errors)"), None);
    }
}
