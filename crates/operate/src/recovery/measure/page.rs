//! A restart drawn over time, as one HTML page with an inline SVG: how far the node is behind above, what waits on it below, the phases behind
//! both. Pure.

use std::fmt::Write;

use report::plot::axis_top;
use report::words::escape;

use super::drive::Measured;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 190.0;
const TOP: f64 = 44.0;
const GAP: f64 = 52.0;
const HEIGHT: f64 = TOP + PANEL * 2.0 + GAP + 44.0;
/// Points of a line, at the most.
const POINTS_MAX: usize = 1_500;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--grid:#d8dbe0;--behind:#b3541e;--queue:#1f6fb2;--even:#f0ece4;--net:#dcebdf;--away:#e6e8ec}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e6ea;--paper:#16181c;--grid:#3a3e45;--behind:#e28b52;--queue:#63aee8;--even:#26241f;--net:#203327;--away:#24272c}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere}svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .name{font-weight:600}\
.grid{stroke:var(--grid)}.even{fill:var(--even)}.net{fill:var(--net)}.away{fill:var(--away)}polyline{fill:none;stroke-width:1.8}\
.behind{stroke:var(--behind)}.queue{stroke:var(--queue)}";

/// The page: what was found, and the picture.
pub(super) fn page(name: &str, text: &str, measured: &Measured) -> String {
    let title = escape(&format!("The return of {name}, by phases"));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1><pre>{}</pre>{}\
         <p>Grey: away. Green: the phases whose length depends on the data or on what was missed.</p></body></html>\n",
        escape(text),
        svg(measured)
    )
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

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
            format_args!("<text class=\"name\" x=\"{LEFT}\" y=\"{:.1}\">{name}</text>", self.top - 24.0),
        );
        for quarter in 0..=4 {
            let value = self.most * f64::from(quarter) / 4.0;
            let (y, x) = (self.y(value), LEFT - 8.0);
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    WIDTH - RIGHT,
                    y + 4.0,
                    report::words::number(value)
                ),
            );
        }
    }

    fn band(&self, out: &mut String, class: &str, from_s: f64, to_s: f64) {
        let (from, to) = (self.x(from_s), self.x(to_s));
        put(
            out,
            format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{PANEL}\"/>",
                self.top,
                to - from
            ),
        );
    }

    fn line(&self, out: &mut String, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut text = String::new();
        for (at_s, value) in points {
            put(&mut text, format_args!("{:.1},{:.1} ", self.x(at_s), self.y(value)));
        }
        put(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", text.trim_end()));
    }
}

fn svg(measured: &Measured) -> String {
    let every = measured.readings.len().div_ceil(POINTS_MAX).max(1);
    let readings: Vec<_> = measured.readings.iter().step_by(every).collect();
    let started_s = measured.started.as_secs_f64();
    let gross_s = measured.restart.gross().map_or(0.0, |gross| gross.as_secs_f64());
    let end_s = readings.last().map_or(1.0, |last| last.at.as_secs_f64()).max(started_s + gross_s).max(1e-3);
    // Until it answers again, it has what it had.
    let mut own = u64::try_from(measured.position)
        .ok()
        .or_else(|| readings.iter().find_map(|reading| reading.own))
        .unwrap_or(0);
    let behind: Vec<(f64, f64)> = readings
        .iter()
        .map(|reading| {
            own = reading.own.filter(|now| *now > 0).map_or(own, |now| now.max(own));
            (reading.at.as_secs_f64(), reading.committed.saturating_sub(own) as f64)
        })
        .collect();
    let most = behind.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let upper = Panel { top: TOP, most: axis_top(most), end_s };
    let queue = readings.iter().map(|reading| reading.queue).max().unwrap_or(0) as f64;
    let lower = Panel { top: TOP + PANEL + GAP, most: axis_top(queue), end_s };
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"the node's lag and queue over time\">"
    );
    for panel in [&upper, &lower] {
        panel.band(&mut out, "away", measured.gone.as_secs_f64(), started_s);
        for (number, phase) in measured.restart.phases().into_iter().enumerate() {
            let from_s = started_s + phase.from.as_secs_f64();
            let class = if phase.mark.is_transfer() {
                "net"
            } else if number % 2 == 0 {
                "even"
            } else {
                continue;
            };
            panel.band(&mut out, class, from_s, from_s + phase.took.as_secs_f64());
        }
    }
    for phase in measured.restart.phases() {
        // A short phase's name would lie over the next one's.
        if phase.took.as_secs_f64() / end_s > 0.05 {
            let x = upper.x(started_s + phase.from.as_secs_f64()) + 2.0;
            put(
                &mut out,
                format_args!("<text x=\"{x:.1}\" y=\"{}\">{}</text>", TOP - 6.0, phase.mark.phase()),
            );
        }
    }
    upper.frame(&mut out, "Writesets that the group has and the node has not applied");
    lower.frame(&mut out, "Of these received, and waiting on the node");
    upper.line(&mut out, "behind", behind.into_iter());
    lower.line(
        &mut out,
        "queue",
        readings.iter().map(|reading| (reading.at.as_secs_f64(), reading.queue as f64)),
    );
    seconds(&mut out, &lower);
    out + "</svg>"
}

/// The time below the lower panel, from the order to stop.
fn seconds(out: &mut String, panel: &Panel) {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
    let hours = || (panel.end_s / 14.0 / 3600.0).ceil() * 3600.0;
    let step = steps.into_iter().find(|step| panel.end_s / step <= 14.0).unwrap_or_else(hours);
    let bottom = panel.top + PANEL;
    for number in 0..=((panel.end_s / step) as u32) {
        let at_s = f64::from(number) * step;
        let (x, y) = (panel.x(at_s), bottom + 18.0);
        put(out, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{at_s:.0}</text>"));
    }
    let (x, y) = (WIDTH - RIGHT, bottom + 36.0);
    put(
        out,
        format_args!(
            "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">seconds since the order to stop</text>"
        ),
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use measure::recovery::restart::{Own, Restart, TransferKind};

    use super::super::drive::Reading;
    use super::*;

    #[test]
    fn a_restart_is_drawn_inside_of_the_frame_and_a_name_is_no_markup() {
        let mut restart = Restart::default();
        restart.own(Duration::from_secs(9), Own { state: 4, is_ready: true });
        let reading = |second: u64| Reading {
            at: Duration::from_secs(second),
            committed: 100 * second,
            own: (second > 15).then_some(90 * second),
            queue: second % 5,
            has_donor: false,
        };
        let mut measured = Measured {
            gone: Duration::from_secs(1),
            started: Duration::from_secs(6),
            expected: TransferKind::Incremental,
            expected_at_start: TransferKind::Incremental,
            position: 3,
            missed: (1, 1),
            paused_ms: 0.0,
            restart,
            readings: (0..20).map(reading).collect(),
        };
        let drawn = page("<db3>", "a & b", &measured);
        assert!(drawn.contains("&lt;db3&gt;") && drawn.contains("a &amp; b") && !drawn.contains("<db3>"));
        assert_eq!(drawn.matches("<polyline").count(), 2);
        measured.readings.clear();
        let empty = svg(&measured);
        assert!(empty.ends_with("</svg>") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }
}
