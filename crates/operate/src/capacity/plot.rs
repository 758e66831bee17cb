//! A run drawn over time, as one HTML page with an inline SVG: the queue above, the rates below. Pure.

use std::fmt::Write;
use std::time::Duration;

use measure::capacity::reading::Reading;
use measure::capacity::result::{Record, rates};
use report::plot::axis_top;
use report::words::escape;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 200.0;
const TOP: f64 = 28.0;
const GAP: f64 = 52.0;
const HEIGHT: f64 = TOP + PANEL * 2.0 + GAP + 40.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--grid:#d8dbe0;--queue:#b3541e;--applied:#1f6fb2;--came:#5b8c3e;--held:#f1e4d6}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e6ea;--paper:#16181c;--grid:#3a3e45;--queue:#e28b52;--applied:#63aee8;--came:#93c572;--held:#33291f}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere}svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .name{font-weight:600}\
.grid{stroke:var(--grid)}.held{fill:var(--held)}polyline{fill:none;stroke-width:1.8}\
.queue{stroke:var(--queue)}.applied{stroke:var(--applied)}.came{stroke:var(--came);stroke-dasharray:5 3}";

/// The page: what was found, and the picture.
pub fn page(title: &str, text: &str, record: &Record) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1><pre>{}</pre>{}</body></html>\n",
        escape(text),
        svg(record),
        title = escape(title),
    )
}

/// One panel's place and scale.
struct Panel {
    top: f64,
    most: f64,
    end_s: f64,
}

impl Panel {
    fn x(&self, at_s: f64) -> f64 {
        LEFT + (at_s / self.end_s).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL - (value / self.most).clamp(0.0, 1.0) * PANEL
    }

    fn frame(&self, out: &mut String, name: &str) {
        put(
            out,
            format_args!("<text class=\"name\" x=\"{LEFT}\" y=\"{:.1}\">{name}</text>", self.top - 10.0),
        );
        for quarter in 0..=4 {
            let value = self.most * f64::from(quarter) / 4.0;
            let y = self.y(value);
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    WIDTH - RIGHT,
                    LEFT - 8.0,
                    y + 4.0,
                    thousands(value)
                ),
            );
        }
    }

    fn line(&self, out: &mut String, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut text = String::new();
        for (at_s, value) in points {
            put(&mut text, format_args!("{:.1},{:.1} ", self.x(at_s), self.y(value)));
        }
        put(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", text.trim_end()));
    }
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

/// The picture of a run.
pub fn svg(record: &Record) -> String {
    let readings = &record.readings;
    let end_s = readings.last().map_or(1.0, |reading| reading.at.as_secs_f64()).max(1e-3);
    // About a hundred and twenty points: shorter intervals show noise alone.
    let width = Duration::from_secs_f64((end_s / 120.0).max(0.5));
    let rate = |count: fn(&Reading) -> Option<u64>| {
        let rates = rates(readings, width, count);
        rates.into_iter().map(|(at, rate)| (at.as_secs_f64(), rate)).collect::<Vec<_>>()
    };
    let (applied, came) = (rate(|reading| Some(reading.node.applied)), rate(Reading::committed_elsewhere));
    let most = applied.iter().chain(&came).map(|(_, rate)| *rate).fold(1.0, f64::max);
    let upper = Panel { top: TOP, most: axis_top(record.queue_max() as f64), end_s };
    let lower = Panel { top: TOP + PANEL + GAP, most: axis_top(most), end_s };
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"queue and rates over time\">"
    );
    held(&mut out, record, &[&upper, &lower]);
    upper.frame(&mut out, "Transactions received and not yet applied");
    lower.frame(&mut out, "Transactions a second: applied here (solid), committed by the others (dashed)");
    upper.line(
        &mut out,
        "queue",
        readings.iter().map(|reading| (reading.at.as_secs_f64(), reading.node.queue as f64)),
    );
    lower.line(&mut out, "came", came.into_iter());
    lower.line(&mut out, "applied", applied.into_iter());
    seconds(&mut out, &lower);
    out + "</svg>"
}

/// The time in which nothing was applied, behind everything else.
fn held(out: &mut String, record: &Record, panels: &[&Panel]) {
    let (Some((_, from)), Some((_, to))) = (record.marks.held, record.marks.resumed) else { return };
    for panel in panels {
        let (from, to) = (panel.x(from.as_secs_f64()), panel.x(to.as_secs_f64()));
        put(
            out,
            format_args!(
                "<rect class=\"held\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{PANEL}\"/>",
                panel.top,
                to - from
            ),
        );
    }
}

/// The time below the lower panel.
fn seconds(out: &mut String, panel: &Panel) {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];
    let step = steps.into_iter().find(|step| panel.end_s / step <= 14.0).unwrap_or(3600.0);
    let bottom = panel.top + PANEL;
    for number in 0..=((panel.end_s / step) as u32) {
        let at = f64::from(number) * step;
        put(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at:.0}</text>",
                panel.x(at),
                bottom + 18.0
            ),
        );
    }
    put(
        out,
        format_args!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">seconds</text>",
            WIDTH - RIGHT,
            bottom + 34.0
        ),
    );
}

/// A whole figure with commas between thousands.
pub fn thousands(value: f64) -> String {
    report::words::number(value)
}

#[cfg(test)]
mod tests {
    use measure::capacity::reading::Node;

    use super::*;

    #[test]
    fn a_run_is_drawn_and_a_name_is_no_markup() {
        let reading = |second: u64| Reading {
            at: Duration::from_secs(second),
            node: Node { applied: second * 100, queue: second % 7, ..Node::default() },
            others: vec![],
            arrived_bytes: 0,
        };
        let mut record = Record { readings: (0..30).map(reading).collect(), ..Record::default() };
        record.marks.held = Some((5, Duration::from_secs(5)));
        record.marks.resumed = Some((9, Duration::from_secs(9)));
        let page = page("<db3>", "a & b", &record);
        assert!(page.contains("&lt;db3&gt;") && page.contains("a &amp; b") && !page.contains("<db3>"));
        assert_eq!(page.matches("<polyline").count(), 3);
        assert_eq!(page.matches("class=\"held\"").count(), 2);
        assert!(svg(&Record::default()).ends_with("</svg>"), "nothing was read");
    }
}
