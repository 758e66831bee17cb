//! Renders the report as one self-contained HTML file. Each restart is a bar of its phases. Pure.

use std::fmt::Write;

use super::run::{Measured, Report};
use super::table::{self, figure};
use report::words::escape;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 360.0;
const RIGHT: f64 = 90.0;
const BAR: f64 = 22.0;
const STEP: f64 = 34.0;
const TOP: f64 = 34.0;

/// Each phase's name and colour.
const PHASES: [(&str, &str); 8] = [
    ("join", "#8a8f98"),
    ("request", "#a05ca0"),
    ("copy", "#b3541e"),
    ("engines", "#b07d00"),
    ("ist", "#0b7a75"),
    ("state", "#55585e"),
    ("catch-up", "#3d5a98"),
    ("ready", "#c9ccd1"),
];

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(32 * 1024);
    out += "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
            <title>Understudy: the return of a Galera node, measured</title><style>";
    out += report::STYLE;
    out += include_str!("../warm/page.css");
    out += "</style></head><body><main><h1>How long a Galera node takes to come back</h1>";
    let plan = &report.conditions.plan;
    put(
        &mut out,
        format_args!(
            "<p class=\"soft\">Three real nodes, the seed's two tables with {} rows each; {:.0} updates a second by primary key in the cells with \
             updates. After every restart the returned node's rows were compared with another's. {}</p>",
            report::words::number(plan.rows as f64),
            plan.updates_per_s,
            escape(&report.conditions.at),
        ),
    );
    out += "<div class=\"figures\">";
    bars(&mut out, report);
    out += "</div>";
    out += "<p class=\"soft\">";
    for (name, colour) in PHASES {
        put(&mut out, format_args!("<b style=\"color:{colour}\">■</b> {name} &#160; "));
    }
    out += "</p><h2>The figures, and the seed's</h2><div class=\"figures\"><pre style=\"padding:.8rem;font-size:.75rem\">";
    out += &escape(&table::draw(report));
    out += "</pre></div>";
    put(
        &mut out,
        format_args!(
            "<p class=\"soft\">{}; {}, {} cores, {} GiB, Linux {}</p>",
            escape(&report.conditions.settings),
            escape(&report.machine.processor),
            report.machine.cores,
            report.machine.memory_gib,
            escape(&report.machine.kernel)
        ),
    );
    out + "</main></body></html>\n"
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

/// A bar for each cell, all with the same scale.
fn bars(out: &mut String, report: &Report) {
    let most_s = report
        .cells
        .iter()
        .map(|cell| figure(&cell.told, "gross_s"))
        .filter(|s| s.is_finite())
        .fold(1.0, f64::max);
    let height = TOP + STEP * report.cells.len() as f64 + 8.0;
    put(
        out,
        format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" style=\"font-size:13px;fill:currentColor\" role=\"img\" aria-label=\"each restart by phases\">"
        ),
    );
    put(
        out,
        format_args!(
            "<text x=\"{LEFT}\" y=\"18\">from the start of the process until Synced, by phases</text>"
        ),
    );
    for (number, measured) in report.cells.iter().enumerate() {
        bar(out, measured, TOP + STEP * number as f64, (WIDTH - LEFT - RIGHT) / most_s);
    }
    out.push_str("</svg>");
}

fn bar(out: &mut String, measured: &Measured, y: f64, px_per_s: f64) {
    let middle = y + BAR * 0.7;
    let title = escape(measured.cell.title);
    put(
        out,
        format_args!("<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{title}</text>", LEFT - 10.0),
    );
    for phase in measured.told["phases"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let name = phase["phase"].as_str().unwrap_or_default();
        let (from_s, took_s) = (figure(phase, "from_s"), figure(phase, "took_s"));
        let Some((_, colour)) = PHASES.iter().find(|(known, _)| *known == name) else { continue };
        if !(from_s.is_finite() && took_s.is_finite()) {
            continue;
        }
        put(
            out,
            format_args!(
                "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"><title>{} {took_s:.2} s</title></rect>",
                LEFT + from_s * px_per_s,
                took_s * px_per_s,
                escape(name)
            ),
        );
    }
    let gross_s = figure(&measured.told, "gross_s");
    if gross_s.is_finite() {
        put(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{middle:.1}\">{gross_s:.1} s</text>",
                LEFT + gross_s * px_per_s + 8.0
            ),
        );
    }
}
