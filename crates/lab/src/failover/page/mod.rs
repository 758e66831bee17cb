//! Renders the report: one self-contained HTML file, for light and dark mode, large screens and phones.
//!
//! The table in the seed's form comes first; below it each cell is plotted over time, all proxies on the same scales.
//! Of several repetitions the worst one is plotted, and the page says so. Pure: a [`Report`] in, text out.

pub mod plot;

use std::fmt::Write;

use report::words::escape;

use crate::failover::case::{COLUMNS_MEAN, Case, Scope, seed_says};
use crate::failover::result::{Cell, Repetition, Report, Summary, Who};
use crate::failover::table::{errors, name_of, outage, time};
use crate::failover::watch::Word;
use crate::stage::ClusterKind;

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(256 * 1024);
    out += "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
            <title>Understudy: failover, measured</title><style>";
    out += report::STYLE;
    out += "</style></head><body><main>";
    head(&mut out, report);
    table(&mut out, report);
    put(&mut out, format_args!("<p class=\"soft\">{}</p>", escape(COLUMNS_MEAN)));
    put(&mut out, format_args!("<p class=\"soft\">{}</p>", escape(&report.figures_mean())));
    for case in Case::ALL {
        for scope in Scope::ALL {
            section(&mut out, report, case, scope);
        }
    }
    conditions(&mut out, report);
    out + "</main></body></html>\n"
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

fn head(out: &mut String, report: &Report) {
    let conditions = &report.conditions;
    out.push_str("<h1>What the application saw when a node left</h1>");
    put(
        out,
        format_args!(
            "<p class=\"soft\">{} on one machine, measured {}. Open-loop load: {} transactions a second \
         ({} arrivals, {} statements) from {} threads that never retry, and as much again from {} that do.</p>",
            conditions.kind.in_words(),
            escape(&moment(&conditions.at)),
            conditions.rate,
            escape(&conditions.arrivals),
            escape(&conditions.protocol),
            conditions.threads,
            conditions.threads,
        ),
    );
}

/// `2026-01-31T12:00:00Z` in a readable form; any other text unchanged.
fn moment(at: &str) -> String {
    match at.split_once('T') {
        Some((day, time)) if time.len() == 9 && time.is_ascii() => format!("{day}, {} UTC", &time[..5]),
        _ => at.to_owned(),
    }
}

fn class_of(who: &Who) -> &'static str {
    if who.is_baseline() { "base" } else { "ours" }
}

/// The seed's figure as a number, ms, if it begins with one; for its bar.
fn seed_ms(says: &str) -> Option<f64> {
    says.split(' ').next()?.parse::<f64>().ok().map(|s| s * 1e3)
}

fn table(out: &mut String, report: &Report) {
    let kind = report.conditions.kind;
    let seeds = Case::ALL.into_iter().flat_map(|case| Scope::ALL.map(|scope| seed_says(kind, case, scope)));
    let seeds = seeds.flatten().filter_map(seed_ms);
    let measured = report.cells.iter().map(|cell| drawn_ms(&cell.summary()));
    let most = seeds.chain(measured).fold(1.0, f64::max);

    out.push_str("<table class=\"table\"><thead><tr><th>Failover type</th>");
    for scope in Scope::ALL {
        put(out, format_args!("<th>{}</th>", scope.title()));
    }
    out.push_str("</tr></thead><tbody>");
    for case in Case::ALL.into_iter().filter(|case| report.cells.iter().any(|cell| cell.case == *case)) {
        put(out, format_args!("<tr><th>{}<small>{}</small></th>", case.title(), escape(case.means())));
        for scope in Scope::ALL {
            put(out, format_args!("<td data-column=\"{}\">", scope.title()));
            let says = seed_says(kind, case, scope);
            let bar = says.and_then(seed_ms).map(|ms| bar(ms, most)).unwrap_or_default();
            line_of(out, "seed", "the seed", says.unwrap_or("not measured"), &bar, "");
            let mut cells: Vec<&Cell> = report.at(case, scope).collect();
            cells.sort_by_key(|cell| cell.who.rank());
            if cells.is_empty() {
                out.push_str("<small class=\"soft\">not in this run</small>");
            }
            for cell in cells {
                cell_line(out, cell, most);
            }
            out.push_str("</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
}

fn cell_line(out: &mut String, cell: &Cell, most: f64) {
    let (class, name) = (class_of(&cell.who), name_of(&cell.who));
    if let Some(why) = &cell.skipped {
        line_of(out, class, &name, "not measured", "", &escape(why));
        return;
    }
    if cell.repetitions.is_empty() {
        line_of(out, class, &name, "broke off", "", &escape(cell.broke.as_deref().unwrap_or_default()));
        return;
    }
    let sum = cell.summary();
    let mut small = Vec::new();
    if sum.repetitions > 1 {
        let worst = sum.hold_ms_max.map_or_else(|| "without end".to_owned(), time);
        small.push(format!("median of {}, worst {worst}", sum.repetitions));
    }
    small.push(match sum.errors_naive {
        0 => errors(&sum),
        _ => format!("<span class=\"bad\">{}</span>", escape(&errors(&sum))),
    });
    small.push(format!("outage {}", outage(&sum)));
    for (n, what) in [(sum.lost, "lost"), (sum.doubled, "doubled")] {
        small.push(if n == 0 {
            format!("0 {what}")
        } else {
            format!("<span class=\"bad\">{n} {what}</span>")
        });
    }
    for (n, what) in sum.unusual() {
        small.push(format!("<span class=\"bad\">{n} {what}</span>"));
    }
    if let Some(why) = &cell.broke {
        small.push(format!("<span class=\"bad\">then broke off: {}</span>", escape(why)));
    }
    if let Some(took) = sum.order_ms_max {
        small.push(format!("order took {}", time(took)));
    }
    // A line may break between two items, not inside one.
    let small: Vec<String> =
        small.into_iter().map(|item| format!("<span class=\"item\">{item}</span>")).collect();
    let hold = sum.hold_ms_median.map_or_else(|| "without end".to_owned(), time);
    let bar = bar(drawn_ms(&sum), most);
    line_of(out, class, &name, &format!("hold {hold}"), &bar, &small.join(" · "));
}

/// The length of a cell's bar, next to the seed's outage: the longer of hold and outage, ms.
fn drawn_ms(sum: &Summary) -> f64 {
    sum.hold_ms_median.unwrap_or(0.0).max(sum.outage_ms)
}

/// `bar` and `small` are markup, the rest is text.
fn line_of(out: &mut String, class: &str, who: &str, figure: &str, bar: &str, small: &str) {
    put(
        out,
        format_args!(
            "<div class=\"source {class}\"><span class=\"who\">{}</span><span><b>{}</b>{bar}<small>{small}</small></span></div>",
            escape(who),
            escape(figure),
        ),
    );
}

fn bar(ms: f64, most: f64) -> String {
    format!("<div class=\"bar\"><i style=\"width:{:.1}%\"></i></div>", (ms / most * 100.0).clamp(0.0, 100.0))
}

/// The plots of one cell.
fn section(out: &mut String, report: &Report, case: Case, scope: Scope) {
    let mut drawn: Vec<(&Cell, &Repetition)> =
        report.at(case, scope).filter_map(|cell| Some((cell, worst(cell)?))).collect();
    if drawn.is_empty() {
        return;
    }
    drawn.sort_by_key(|(cell, _)| cell.who.rank());
    put(out, format_args!("<h2>{}, {}</h2>", case.title(), scope.title()));
    put(out, format_args!("<p class=\"soft\">{}", escape(case.means())));
    if let Some(says) = seed_says(report.conditions.kind, case, scope) {
        put(out, format_args!("; the seed measured: {}", escape(says)));
    }
    out.push_str("</p>");
    let scale = plot::Scale::of(drawn.iter().map(|(_, rep)| *rep));
    for (cell, rep) in drawn {
        figure(out, cell, rep, scale);
    }
}

fn worst(cell: &Cell) -> Option<&Repetition> {
    let felt = |rep: &Repetition| rep.effect.outage_ms.max(rep.effect.hold_ms_max.unwrap_or(f64::INFINITY));
    cell.repetitions.iter().max_by(|a, b| felt(a).total_cmp(&felt(b)))
}

fn figure(out: &mut String, cell: &Cell, rep: &Repetition, scale: plot::Scale) {
    let of = match cell.repetitions.len() {
        0 | 1 => String::new(),
        n => format!(" (the worst of {n} runs)"),
    };
    put(
        out,
        format_args!(
            "<figure><figcaption><b class=\"{}\">{}</b>{of}: {}; {}.</figcaption><div class=\"plot\">",
            class_of(&cell.who),
            escape(&name_of(&cell.who)),
            added(rep),
            endings(rep),
        ),
    );
    let signal = match cell.case {
        Case::Graceful => "stop",
        Case::SemiGraceful => "SIGTERM",
        Case::NonGraceful => "SIGKILL",
        Case::Freeze => "SIGSTOP",
        Case::Vanish => "link down",
    };
    out.push_str(&plot::svg(rep, scale, &format!("{signal} {}", rep.victim)));
    out.push_str("</div>");
    key(out, rep);
    if !rep.timeline.journal.is_empty() {
        out.push_str("<ol class=\"journal\">");
        for (i, (at, said)) in rep.timeline.journal.iter().enumerate() {
            let from_fault = at.as_secs_f64() - rep.timeline.fault.as_secs_f64();
            put(
                out,
                format_args!(
                    "<li><span>{}</span><time>{from_fault:+.3} s</time><span>{}</span></li>",
                    i + 1,
                    escape(&said.text)
                ),
            );
        }
        out.push_str("</ol>");
    }
    if !rep.troubles.is_empty() {
        out.push_str("<details class=\"soft\"><summary>The first errors, as the clients saw them</summary><ol class=\"journal\">");
        for (i, trouble) in rep.troubles.iter().enumerate() {
            let from_fault = trouble.at.as_secs_f64() - rep.timeline.fault.as_secs_f64();
            put(
                out,
                format_args!(
                    "<li><span>{}</span><time>{from_fault:+.3} s</time><span>{} during {}: {}</span></li>",
                    i + 1,
                    escape(&trouble.code),
                    trouble.during,
                    escape(&trouble.message)
                ),
            );
        }
        out.push_str("</ol></details>");
    }
    out.push_str("</figure>");
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
        put(&mut said, format_args!("; of {} the client cannot know the outcome", rep.unknown));
    }
    match rep.retries {
        0 => {}
        1 => said += "; the retrying client repeated 1 try",
        tries => put(&mut said, format_args!("; the retrying client repeated {tries} tries")),
    }
    said
}

/// Explains the colours; of the nodes' states, only those that occur.
fn key(out: &mut String, rep: &Repetition) {
    out.push_str("<div class=\"key\">");
    let mut entry = |style: &str, name: &str| {
        put(
            out,
            format_args!(
                "<span><svg viewBox=\"0 0 10 10\"><rect width=\"10\" height=\"10\" {style}/></svg>{name}</span>"
            ),
        );
    };
    if rep.is_above_noise() {
        entry("style=\"fill:var(--tint)\"", "a commit was due and none came");
    }
    entry("style=\"fill:var(--queue)\"", "due, waiting for a thread");
    entry("style=\"fill:var(--busy)\"", "threads busy");
    entry("style=\"fill:var(--bad)\"", "ended badly");
    entry("style=\"fill:var(--repeat)\"", "tried again by the retrying client");
    for word in Word::ALL {
        if !rep.timeline.nodes.values().flatten().any(|(_, said)| *said == word) {
            continue;
        }
        entry(&format!("class=\"{}\"", word.name()), word.name());
    }
    out.push_str("</div>");
}

fn conditions(out: &mut String, report: &Report) {
    let (machine, conditions) = (&report.machine, &report.conditions);
    out.push_str("<h2>Machine, versions, settings</h2><dl>");
    let mut row = |name: &str, value: String| {
        put(out, format_args!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value)));
    };
    row(
        "Machine",
        format!(
            "{} cores, {}, {} GiB, Linux {}",
            machine.cores, machine.processor, machine.memory_gib, machine.kernel
        ),
    );
    for (name, version) in &machine.versions {
        row(name, version.clone());
    }
    row("Cluster", format!("three nodes; {}", conditions.cluster));
    row(
        "Load",
        format!(
            "sysbench's oltp transaction (14 reads, 4 writes, 2 others) and one ledger insert; 4 tables x 10,000 rows; driver {}",
            conditions.driver
        ),
    );
    row("Seed of the arrivals", conditions.seed.to_string());
    row(
        "Phases",
        format!("{} s quiet, then at least {} s from the fault on", conditions.warm_s, conditions.after_s),
    );
    if conditions.kind == ClusterKind::Galera {
        let options = if conditions.galera_options.is_empty() {
            "Galera's defaults"
        } else {
            &conditions.galera_options
        };
        row("wsrep_provider_options", options.to_owned());
    }
    let knobs = &conditions.knobs;
    let mut said = Vec::new();
    let is_replication = matches!(conditions.kind, ClusterKind::Replication { .. });
    said.extend(is_replication.then(|| "cluster.replication.failover_gap_ms = 0".to_owned()));
    said.extend(knobs.checks_only.then(|| "monitor.detect = checks".to_owned()));
    said.extend(knobs.evict.as_ref().map(|evict| format!("monitor.evict = {evict}")));
    said.extend(knobs.silent.as_ref().map(|silent| format!("monitor.silent = {silent}")));
    said.extend(knobs.probe_interval_ms.map(|ms| format!("monitor.interval_ms = {ms}")));
    said.extend(knobs.misses_max.map(|misses| format!("monitor.misses_max = {misses}")));
    row("Understudy", if said.is_empty() { "its defaults".to_owned() } else { said.join(", ") });
    if let Some(haproxy) = &conditions.haproxy {
        row("HAProxy", haproxy.clone());
    }
    if let Some(agent) = &conditions.haproxy_agent {
        row("HAProxy+agent", agent.clone());
    }
    if let Some(mha) = &conditions.mha {
        row("MHA", mha.clone());
    }
    out.push_str("</dl>");
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
