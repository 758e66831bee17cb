//! Plots disk reads over time as SVG: reads a second, and total reads. Pure.
//!
//! As in the talk, time runs to the right and a lower line is a warmer standby. Invariant: whatever was measured, every mark lies inside
//! the frame.

use std::fmt::Write;

use report::plot::axis_top;
use report::words::{escape, number};

use super::result::{Case, Sample};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 74.0;
/// Space for the lines' names.
const RIGHT: f64 = 236.0;
const PANEL: f64 = 190.0;
const GAP: f64 = 44.0;
const TOP: f64 = 24.0;
const HEIGHT: f64 = TOP + PANEL * 2.0 + GAP + 36.0;
/// Maximum number of points of a line: shorter intervals would only show noise.
const INTERVALS: usize = 40;
/// Vertical distance between two names.
const NAME_HEIGHT: f64 = 15.0;
/// Number of line colours in the page's style sheet.
pub const COLOURS: usize = 8;

/// A line of the plot: a case, and the number of its colour.
pub struct Line<'a> {
    /// The case.
    pub case: &'a Case,
    /// 0 to [`COLOURS`] - 1.
    pub colour: usize,
}

/// Position and scale of one panel.
struct Panel {
    top: f64,
    most: f64,
    run_s: f64,
}

impl Panel {
    fn x(&self, at_s: f64) -> f64 {
        LEFT + (at_s / self.run_s).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL - (value / self.most).clamp(0.0, 1.0) * PANEL
    }

    fn frame(&self, out: &mut String, title: &str) {
        let above = self.top - 8.0;
        put(out, format_args!("<text class=\"name\" x=\"{LEFT}\" y=\"{above:.1}\">{}</text>", escape(title)));
        let right = WIDTH - RIGHT;
        for quarter in 0..=4 {
            let value = self.most * f64::from(quarter) / 4.0;
            let (y, text) = (self.y(value), self.y(value) + 4.0);
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                ),
            );
            let x = LEFT - 8.0;
            put(
                out,
                format_args!("<text x=\"{x}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>", number(value)),
            );
        }
    }

    fn line(&self, out: &mut String, colour: usize, points: impl Iterator<Item = (f64, f64)>) {
        let mut text = String::new();
        for (at_s, value) in points {
            put(&mut text, format_args!("{:.1},{:.1} ", self.x(at_s), self.y(value)));
        }
        put(out, format_args!("<polyline class=\"w{colour}\" points=\"{}\"/>", text.trim_end()));
    }
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

/// Draws both panels. `run_s`: recorded length of the chunk.
pub fn svg(lines: &[Line], run_s: f64) -> String {
    let last = |line: &Line| line.case.samples.last().map_or(0.0, |sample| sample.recorded_s);
    let run_s = lines.iter().map(last).fold(run_s, f64::max).max(1e-3);
    let rates: Vec<Vec<(f64, f64)>> = lines.iter().map(|line| rates(&line.case.samples, run_s)).collect();
    let most = rates.iter().flatten().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let upper = Panel { top: TOP, most: axis_top(most), run_s };
    let most = lines.iter().map(|line| line.case.disk_reads as f64).fold(0.0, f64::max);
    let lower = Panel { top: TOP + PANEL + GAP, most: axis_top(most), run_s };
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"reads from disk over time\">"
    );
    upper.frame(&mut out, "Reads from disk a second");
    lower.frame(&mut out, "Reads from disk since the failover");
    seconds(&mut out, &lower);
    for (line, rates) in lines.iter().zip(&rates) {
        upper.line(&mut out, line.colour, rates.iter().copied());
        let all = line.case.samples.iter().map(|sample| (sample.recorded_s, sample.pool_reads as f64));
        lower.line(&mut out, line.colour, all);
    }
    names(&mut out, lines, &lower);
    out + "</svg>"
}

/// (middle, reads a second) of each interval.
fn rates(samples: &[Sample], run_s: f64) -> Vec<(f64, f64)> {
    let width_s = (run_s / INTERVALS as f64).max(1e-6);
    let mut points = Vec::new();
    let Some(mut from) = samples.first() else { return points };
    for (index, sample) in samples.iter().enumerate() {
        let long_s = sample.recorded_s - from.recorded_s;
        if long_s >= width_s || (index + 1 == samples.len() && long_s > width_s / 2.0) {
            let reads = sample.pool_reads.saturating_sub(from.pool_reads) as f64;
            points.push((from.recorded_s + long_s / 2.0, reads / long_s));
            from = sample;
        }
    }
    points
}

/// The time axis below the lower panel.
fn seconds(out: &mut String, panel: &Panel) {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];
    let step = steps.into_iter().find(|step| panel.run_s / step <= 12.0).unwrap_or(3600.0);
    let bottom = panel.top + PANEL;
    for number in 0..=((panel.run_s / step + 1e-9) as u32) {
        let at = f64::from(number) * step;
        let (x, y) = (panel.x(at), bottom + 16.0);
        put(out, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{at:.0}</text>"));
    }
    let (x, y) = (WIDTH - RIGHT, bottom + 31.0);
    put(
        out,
        format_args!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">seconds of recorded traffic</text>"),
    );
}

/// The names next to the lines' ends, without overlap.
fn names(out: &mut String, lines: &[Line], panel: &Panel) {
    let mut placed: Vec<(f64, &Line)> =
        lines.iter().map(|line| (panel.y(line.case.disk_reads as f64), line)).collect();
    placed.sort_by(|one, other| one.0.total_cmp(&other.0));
    // From the lowest name up: each as low as possible, and above the one below it.
    let mut below = panel.top + PANEL + NAME_HEIGHT;
    for (y, _) in placed.iter_mut().rev() {
        *y = y.min(below - NAME_HEIGHT);
        below = *y;
    }
    for (y, line) in placed {
        let (x, y, colour) = (WIDTH - RIGHT + 8.0, y + 4.0, line.colour);
        put(
            out,
            format_args!(
                "<text class=\"n{colour}\" x=\"{x}\" y=\"{y:.1}\">{} {}</text>",
                number(line.case.disk_reads as f64),
                escape(line.case.title)
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warm::playback::Played;

    fn case(title: &'static str, reads: u64) -> Case {
        let sample = |second: u64| Sample {
            recorded_s: second as f64,
            pool_reads: reads * second / 100,
            data_reads: 0,
        };
        Case {
            name: "x",
            title,
            expected: None,
            warmed: None,
            warm_s: None,
            warm_reads: 0,
            played: Played::default(),
            disk_reads: reads,
            data_reads: 0,
            to_control: None,
            samples: (0..=100).map(sample).collect(),
        }
    }

    #[test]
    fn everything_lies_inside_of_the_frame() {
        let cases = [case("a <b>", 0), case("c", 100_000), case("d", 99_999), case("e", 1)];
        let lines: Vec<Line> = cases.iter().enumerate().map(|(colour, case)| Line { case, colour }).collect();
        for svg in [svg(&lines, 120.0), svg(&lines, 0.0), svg(&[], 0.0)] {
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<b>"), "{svg}");
            for points in svg.split("points=\"").skip(1) {
                for point in points.split('"').next().unwrap().split(' ').filter(|point| !point.is_empty()) {
                    let (x, y) = point.split_once(',').unwrap();
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (0.0..=HEIGHT).contains(&y), "{point}");
                }
            }
        }
    }
}
