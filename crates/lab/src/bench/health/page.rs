//! Renders the report as one self-contained HTML file: for each load the figures, the goals and the three plots. Pure.

use std::fmt::Write;

use super::archive::{SOURCE, runs, seed_says};
use super::cell::words;
use super::contestant::Who;
use super::plot::{self, Line};
use super::table::{number, time};
use super::{Judgement, Loaded, Measured, Report, table};
use report::words::escape;

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Understudy: the health endpoint, measured</title><style>",
    );
    out += report::STYLE;
    out += include_str!("plot.css");
    out += "</style></head><body><main><h1>May this node take traffic: how fast, and how steadily, the answer comes</h1>";
    put(
        &mut out,
        format_args!(
            "<p class=\"soft\">Measured {} on {}, {} processors. The simulated node has failed: every answer is 503, and the database is asked \
             again each second. {}</p>",
            escape(&report.at),
            escape(&report.machine.processor),
            report.machine.cores,
            escape(&table::means(report)),
        ),
    );
    for load in &report.loads {
        section(&mut out, load);
    }
    conditions(&mut out, report);
    out + "</main></body></html>\n"
}

fn section(out: &mut String, load: &Loaded) {
    put(
        out,
        format_args!(
            "<h2>Load {}</h2><p class=\"soft\">{}</p>",
            escape(&load.name),
            escape(&words(&load.plan))
        ),
    );
    figures(out, load);
    let verdicts = load.verdicts();
    if !verdicts.is_empty() {
        out.push_str("<ul class=\"goals\">");
        for verdict in verdicts {
            let class = if verdict.judgement == Judgement::Met { "good" } else { "bad" };
            let word = table::word(verdict.judgement);
            put(out, format_args!("<li><b class=\"{class}\">{word}</b> {}</li>", escape(&verdict.text)));
        }
        out.push_str("</ul>");
    }
    let says = load.cell.map(seed_says).unwrap_or_default();
    if !says.is_empty() {
        let says: Vec<String> = says.iter().map(|says| escape(says)).collect();
        put(
            out,
            format_args!(
                "<p class=\"soft\">The seed says: {}. * archived: {}.</p>",
                says.join("; "),
                escape(SOURCE)
            ),
        );
    }
    let names: Vec<String> = load.measured.iter().map(|one| one.who.name()).collect();
    let lines: Vec<Line> = load.measured.iter().zip(&names).map(|(one, name)| line(one, name)).collect();
    let key: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(index, name)| format!("<span class=\"l{}\">&#9473; {}</span>", index % 4, escape(name)))
        .collect();
    figure(out, "Throughput, answers a second", &plot::throughput(&lines), &key.join(""));
    let worst = worst(load);
    for line in &lines {
        let name = escape(line.name);
        let title = format!("<b>{name}</b>: response time of every transaction");
        figure(out, &title, &plot::response_times(line, &worst), "");
        let key = "<span class=\"l0\">&#9473; average</span><span class=\"l1\">&#9473; 80 %</span><span class=\"l2\">&#9473; 90 %</span>\
                   <span class=\"l3\">&#9679; worst</span>";
        let title =
            format!("<b>{name}</b>: response times by interval of {} s", line.record.interval.as_secs_f64());
        figure(out, &title, &plot::response_times_intervals(line, &worst), key);
    }
}

/// The input of a contestant's plots.
pub fn line<'a>(one: &'a Measured, name: &'a str) -> Line<'a> {
    Line { name, record: &one.record }
}

/// The longest response times of the archived runs, for their lines in the plots.
pub fn worst(load: &Loaded) -> Vec<(String, f64)> {
    let runs = load.cell.map(runs).unwrap_or_default();
    let newest = runs.iter().filter(|run| run.name.contains("2014-05"));
    newest.map(|run| (format!("{}: worst {}", run.name, time(run.max_s)), run.max_s)).collect()
}

fn figure(out: &mut String, title: &str, svg: &str, key: &str) {
    put(
        out,
        format_args!(
            "<figure><figcaption>{title}</figcaption><div class=\"plot\">{svg}</div><div class=\"key\">{key}</div></figure>"
        ),
    );
}

fn figures(out: &mut String, load: &Loaded) {
    out.push_str("<div class=\"figures\"><table><thead><tr>");
    for title in [
        "",
        "answers/s",
        "per CPU s",
        "of nginx",
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
        "overflows",
    ] {
        put(out, format_args!("<th>{title}</th>"));
    }
    out.push_str("</tr></thead><tbody>");
    for one in &load.measured {
        let (record, counts) = (&one.record, &one.record.counts);
        let class = if one.who == Who::Understudy { "ours" } else { "" };
        let unknown = || "-".to_owned();
        let cells = [
            number(one.per_s()),
            one.per_cpu_s().map_or_else(unknown, number),
            load.of_nginx(one).map_or_else(unknown, |part| format!("{part:.2} x")),
            table::flight(one),
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
            number(one.drops.listen_overflows as f64),
        ];
        put(out, format_args!("<tr class=\"{class}\"><th>{}</th>", escape(&one.who.name())));
        for cell in cells {
            put(out, format_args!("<td>{cell}</td>"));
        }
        out.push_str("</tr>");
    }
    for run in load.cell.map(runs).unwrap_or_default() {
        put(
            out,
            format_args!(
                "<tr class=\"past\"><th>{}*</th><td>{}</td><td></td><td></td><td></td><td>{}</td><td></td><td>{}</td><td></td><td></td><td>{}</td>{}</tr>",
                escape(run.name),
                number(run.per_s),
                time(run.average_s),
                time(run.p95_s),
                time(run.max_s),
                "<td></td>".repeat(6),
            ),
        );
    }
    out.push_str("</tbody></table></div>");
}

fn conditions(out: &mut String, report: &Report) {
    out.push_str("<h2>Conditions</h2><dl>");
    let mut term = |name: &str, value: &str| {
        put(out, format_args!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)))
    };
    term("kernel", &format!("Linux {}", report.machine.kernel));
    term("memory", &format!("{} GiB", report.machine.memory_gib));
    for (name, version) in &report.machine.versions {
        term(name, version);
    }
    for (name, command) in report.commands.iter().filter(|(_, command)| !command.is_empty()) {
        term(&format!("{name} was started as"), command);
    }
    out.push_str("</dl>");
}
