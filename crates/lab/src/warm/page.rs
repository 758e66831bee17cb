//! Renders the report: one self-contained HTML file, for light and dark mode. Pure: a [`Report`] in, text out.

use std::fmt::Write;

use super::plot::{self, COLOURS, Line};
use super::result::{Case, Report};
use super::way::{COLD, CONTROL, named};
use report::words::{escape, number};

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(64 * 1024);
    out += "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
            <title>Understudy: a standby kept warm, measured</title><style>";
    out += report::STYLE;
    out += include_str!("page.css");
    out += "</style></head><body><main>";
    head(&mut out, report);
    cases(&mut out, report);
    goals(&mut out, report);
    pictures(&mut out, report);
    failovers(&mut out, report);
    forecasts(&mut out, report);
    keep_up(&mut out, report);
    prices(&mut out, report);
    conditions(&mut out, report);
    out + "</main></body></html>\n"
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

fn head(out: &mut String, report: &Report) {
    let conditions = &report.conditions;
    out.push_str("<h1>What a standby reads from disk after a failover, by how it was warmed</h1>");
    put(
        out,
        format_args!(
            "<p class=\"soft\">A real MariaDB primary and replica, a table of {} MiB, a buffer pool of {} MiB. Two chunks of {} s of traffic \
             were recorded in the slow log, one after the other; the hot set moves on slowly. For each way the standby was restarted, warmed, \
             and then asked what chunk 2 asked ({} reads, at {} times the recorded speed).</p>",
            conditions.data_mb,
            conditions.standby_pool_mb,
            conditions.chunk_s,
            number(report.chunks[1].reads as f64),
            conditions.speed,
        ),
    );
}

fn cases(out: &mut String, report: &Report) {
    let most = report.cases.iter().map(|case| case.disk_reads).max().unwrap_or(0).max(1);
    out.push_str(
        "<div class=\"figures\"><table><thead><tr><th>Warmed by</th><th>disk reads</th><th></th><th>× control</th>\
         <th>statements replayed</th><th>time to warm</th><th>statements/s</th><th>disk reads to warm</th></tr></thead><tbody>",
    );
    for case in &report.cases {
        let dash = || "–".to_owned();
        let part = case.disk_reads as f64 / most as f64 * 100.0;
        put(
            out,
            format_args!(
                "<tr><th>{}</th><td>{}</td><td class=\"wide\"><div class=\"bar\"><i style=\"width:{part:.1}%\"></i></div></td><td>{}</td>\
                 <td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(case.title),
                number(case.disk_reads as f64),
                case.to_control.map_or_else(dash, |ratio| format!("{ratio:.2}")),
                case.warmed.map_or_else(dash, |warmed| number(warmed.statements as f64)),
                case.warm_s.map_or_else(dash, |s| format!("{s:.1} s")),
                case.warmed.map_or_else(dash, |warmed| number(warmed.statements_per_s)),
                case.warm_s.map_or_else(dash, |_| number(case.warm_reads as f64)),
            ),
        );
    }
    out.push_str("</tbody></table></div>");
    let recorded = report.chunks[0].statements_per_s;
    put(
        out,
        format_args!(
            "<p class=\"soft\">The active node ran {} statements a second while chunk 1 was recorded. \"Disk reads\" are pages that a statement \
             had to wait for (Innodb_buffer_pool_reads).</p>",
            number(recorded)
        ),
    );
}

fn goals(out: &mut String, report: &Report) {
    out.push_str("<ul class=\"goals\">");
    for goal in &report.goals {
        let (class, word) = if goal.holds { ("good", "holds") } else { ("bad", "missed") };
        put(
            out,
            format_args!(
                "<li><b class=\"{class}\">{word}</b> {}: {}, at most {}</li>",
                escape(&goal.what),
                goal.figure,
                goal.at_most
            ),
        );
    }
    out.push_str("</ul>");
}

/// One plot for each group of ways, each with the control and the cold standby for comparison.
fn pictures(out: &mut String, report: &Report) {
    let mut groups: Vec<&'static str> = Vec::new();
    for case in &report.cases {
        if let Some(group) = named(case.name).map(|way| way.group)
            && !group.is_empty()
            && !groups.contains(&group)
        {
            groups.push(group);
        }
    }
    if groups.is_empty() {
        groups.push("");
    }
    for group in groups {
        let references = [CONTROL, COLD].into_iter().filter_map(|name| report.case(name));
        let own = report
            .cases
            .iter()
            .filter(|case| !group.is_empty() && named(case.name).is_some_and(|way| way.group == group));
        let shown: Vec<&Case> = references.chain(own).collect();
        let lines: Vec<Line> =
            shown.iter().enumerate().map(|(index, case)| Line { case, colour: index % COLOURS }).collect();
        put(
            out,
            format_args!(
                "<h2>{}</h2><p class=\"soft\">Lower is warmer. The control was warmed with what it is asked.</p>\
                 <figure><div class=\"plot\">{}</div></figure>",
                escape(if group.is_empty() { "Reads from disk over time" } else { group }),
                plot::svg(&lines, f64::from(report.conditions.chunk_s))
            ),
        );
    }
}

/// A table with its header; `rows`: the text of each cell, the first one is the row's name.
fn figures(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    out.push_str("<div class=\"figures\"><table><thead><tr>");
    for name in head {
        put(out, format_args!("<th>{}</th>", escape(name)));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let tag = if index == 0 { "th" } else { "td" };
            put(out, format_args!("<{tag}>{}</{tag}>", escape(cell)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn failovers(out: &mut String, report: &Report) {
    if report.failovers.is_empty() {
        return;
    }
    out.push_str(
        "<h2>A real failover under load</h2><p class=\"soft\">The primary is killed under load; Understudy is in front. p99 of response times in \
         the 10 s before, and in the first 10 s from the new primary's first answer on. Afterwards the old primary comes back with a warm cache, \
         and the new one, however slow, must keep its role.</p>",
    );
    let head = ["Standby", "p99 before", "p99 after", "×", "gap", "disk reads", "errors", "moved back"];
    figures(
        out,
        &head,
        report.failovers.iter().map(|row| {
            vec![
                row.standby.to_owned(),
                format!("{:.2} ms", row.p99_before_ms),
                format!("{:.2} ms", row.p99_after_ms),
                format!("{:.2}", row.p99_ratio),
                format!("{:.0} ms", row.gap_ms),
                number(row.disk_reads as f64),
                row.errors.to_string(),
                if row.moved_back { "yes" } else { "no" }.to_owned(),
            ]
        }),
    );
}

fn forecasts(out: &mut String, report: &Report) {
    if report.forecasts.is_empty() {
        return;
    }
    put(
        out,
        format_args!(
            "<h2>Is the forecast right?</h2><p class=\"soft\">What <code>understudy warmth</code> forecast beside live traffic, and the pages that the standby \
             read from disk in as much traffic again ({} s as recorded), after its primary was killed under load. The goal: within 10 %.</p>",
            report.conditions.chunk_s
        ),
    );
    let head =
        ["Standby", "buffer pool", "forecast", "95 %", "disk reads", "error", "method", "served from memory"];
    figures(
        out,
        &head,
        report.forecasts.iter().map(|row| {
            vec![
                row.standby.to_owned(),
                format!("{} MiB", row.pool_mb),
                number(row.forecast as f64),
                format!("{} to {}", number(row.low as f64), number(row.high as f64)),
                number(row.disk_reads as f64),
                format!("{:+.1} %", row.error * 100.0),
                row.method.clone(),
                row.score.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            ]
        }),
    );
}

fn keep_up(out: &mut String, report: &Report) {
    if report.keep_up.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Does replay keep up?</h2><p class=\"soft\">The active node is asked as fast as it answers; its slow log is streamed, and replayed on the \
         cold standby on the same machine. The talk's single session reached 1,700 of 20,000 statements a second.</p>",
    );
    let head =
        ["Sessions", "source, statements/s", "for", "reads", "replayed", "replayed/s", "behind at the end"];
    figures(
        out,
        &head,
        report.keep_up.iter().map(|row| {
            vec![
                row.sessions.to_owned(),
                number(row.source_per_s),
                format!("{:.1} s", row.source_s),
                number(row.reads as f64),
                number(row.replayed as f64),
                number(row.replayed_per_s),
                format!("{:.1} s", row.behind_s),
            ]
        }),
    );
}

fn prices(out: &mut String, report: &Report) {
    if report.prices.is_empty() {
        return;
    }
    out.push_str(
        "<h2>What it costs the active node</h2><p class=\"soft\">Processor time for each statement.</p>",
    );
    figures(
        out,
        &["Beside the load", "statements", "server", "streamer"],
        report.prices.iter().map(|row| {
            vec![
                row.beside.to_owned(),
                number(row.statements as f64),
                format!("{:.1} µs", row.server_us),
                row.streamer_us.map_or_else(|| "–".to_owned(), |us| format!("{us:.1} µs")),
            ]
        }),
    );
}

fn conditions(out: &mut String, report: &Report) {
    let (machine, conditions) = (&report.machine, &report.conditions);
    out.push_str("<h2>Machine, versions, settings</h2><dl>");
    let mut row = |name: &str, value: String| {
        put(out, format_args!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value)));
    };
    row("Measured", conditions.at.clone());
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
    row(
        "Load",
        format!(
            "{} statements a second from {} connections; seed {}",
            conditions.rate, conditions.connections, conditions.seed
        ),
    );
    row(
        "Hot set",
        format!(
            "{} blocks of 40 rows, {} of them new after a chunk",
            conditions.hot_blocks, conditions.drift_blocks
        ),
    );
    row(
        "Buffer pools",
        format!("{} MiB, the standby's {} MiB", conditions.pool_mb, conditions.standby_pool_mb),
    );
    let cache = conditions.page_cache.as_deref();
    row("Page cache", cache.unwrap_or("not in the way: files are read with O_DIRECT").to_owned());
    out.push_str("</dl>");
}
