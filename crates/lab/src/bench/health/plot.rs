//! multi-mechanize's three plots, as SVG: throughput, response times, and response times by interval. Pure.
//!
//! Response times are drawn on a logarithmic scale, 10 µs to 1000 s: ours and the 127 s of the archived runs must both be visible.
//! Single transactions are drawn as a grid of cells, darker where there were more; a single one is still a visible dot.
//!
//! Invariant: whatever was measured, every mark lies inside the frame.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::record::{GRID_COLUMNS, GRID_DECADES, Interval, Record, grid_rows};
use report::plot::axis_top;
use report::words::escape;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;
/// Number of shades of the grid's cells.
const SHADES: usize = 5;
/// Opacity of the palest cell.
const PALE: f64 = 0.35;

/// The plots' file names, as multi-mechanize had them except for the extension.
pub const FILES: [&str; 3] = [
    "All_Transactions_throughput.svg",
    "All_Transactions_response_times.svg",
    "All_Transactions_response_times_intervals.svg",
];

/// The input of one contestant's plots.
pub struct Line<'a> {
    /// The contestant's name.
    pub name: &'a str,
    /// Its recorded results.
    pub record: &'a Record,
}

impl Line<'_> {
    fn run_s(&self) -> f64 {
        self.record.run.as_secs_f64().max(1e-3)
    }
}

/// A plot as a standalone file, with the page's style sheet.
pub fn alone(svg: &str) -> String {
    let style = format!("<style>{}{}</style>", report::STYLE, include_str!("plot.css"));
    let body =
        svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"960\" ", 1);
    // The style rules apply to elements inside .plot; here that is the picture itself.
    let body = body.replacen(
        '>',
        &format!(" font-family=\"sans-serif\" font-size=\"12\">{style}<g class=\"plot\">"),
        1,
    );
    body.replacen("</svg>", "</g></svg>\n", 1)
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

fn begin(label: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(label))
}

fn x(part: f64) -> f64 {
    LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn y(part: f64) -> f64 {
    HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
}

fn tick(out: &mut String, part: f64, label: &str) {
    let (y, right, left) = (y(part), WIDTH - RIGHT, LEFT - 8.0);
    put(out, format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
    let text = y + 4.0;
    put(out, format_args!("<text x=\"{left}\" y=\"{text:.1}\" text-anchor=\"end\">{label}</text>"));
}

/// The time axis below the frame.
fn seconds(out: &mut String, run_s: f64) {
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
    let step = steps.into_iter().find(|step| run_s / step <= 12.0).unwrap_or(1000.0);
    let (top, bottom, text) = (TOP, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 15.0);
    for number in 0..=((run_s / step + 1e-9) as u32) {
        let at = f64::from(number) * step;
        let x = x(at / run_s);
        put(
            out,
            format_args!("<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>"),
        );
        let label = if step < 1.0 { format!("{at:.1}") } else { format!("{at:.0}") };
        put(out, format_args!("<text x=\"{x:.1}\" y=\"{text}\" text-anchor=\"middle\">{label}</text>"));
    }
    let (right, text) = (WIDTH - RIGHT, HEIGHT - 4.0);
    put(
        out,
        format_args!(
            "<text x=\"{right}\" y=\"{text}\" text-anchor=\"end\">elapsed time in the run, s</text>"
        ),
    );
}

/// (middle of the interval as a part of the run, its width in s, the interval).
fn intervals(record: &Record, run_s: f64) -> impl Iterator<Item = (f64, f64, &Interval)> {
    let wide = record.interval.as_secs_f64();
    record.intervals.iter().enumerate().filter_map(move |(index, interval)| {
        let from = wide * index as f64;
        let long = wide.min(run_s - from);
        (long > 0.0).then_some(((from + long / 2.0) / run_s, long, interval))
    })
}

fn polyline(out: &mut String, class: &str, points: &[(f64, f64)]) {
    let mut text = String::new();
    for (px, py) in points {
        put(&mut text, format_args!("{:.1},{:.1} ", x(*px), y(*py)));
    }
    put(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", text.trim_end()));
    if let [(px, py)] = points {
        dot(out, &class.replace('l', "c"), *px, *py);
    }
}

fn dot(out: &mut String, class: &str, px: f64, py: f64) {
    put(out, format_args!("<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.4\"/>", x(px), y(py)));
}

/// Answers a second over time, one line for each contestant.
pub fn throughput(lines: &[Line]) -> String {
    let run_s = run_s(lines);
    let flow = |line: &Line| -> Vec<(f64, f64)> {
        intervals(line.record, run_s)
            .map(|(at, long, interval)| (at, interval.answers as f64 / long))
            .collect()
    };
    let flows: Vec<_> = lines.iter().map(flow).collect();
    let most = flows.iter().flatten().map(|(_, per_s)| *per_s).fold(1.0, f64::max);
    let top = axis_top(most);
    let mut out = begin("throughput");
    seconds(&mut out, run_s);
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        tick(&mut out, part, &super::table::number(top * part));
    }
    for (index, flow) in flows.iter().enumerate() {
        let points: Vec<_> = flow.iter().map(|(at, per_s)| (*at, per_s / top)).collect();
        polyline(&mut out, &format!("l{}", index % 4), &points);
    }
    out + "</svg>"
}

fn run_s(lines: &[Line]) -> f64 {
    lines.iter().map(Line::run_s).fold(1e-3, f64::max)
}

/// Position of a response time on the logarithmic scale, 0 to 1.
fn log_part(s: f64) -> f64 {
    let (low, high) = GRID_DECADES;
    (s.max(1e-9).log10() - f64::from(low)) / f64::from(high - low)
}

fn log_ticks(out: &mut String) {
    let labels = ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"];
    for (index, label) in labels.into_iter().enumerate() {
        tick(out, index as f64 / f64::from(GRID_DECADES.1 - GRID_DECADES.0), label);
    }
}

/// Draws a line at the longest response time of each archived run; `(name, s)`.
fn past(out: &mut String, worst: &[(String, f64)]) {
    for (name, s) in worst {
        let y = y(log_part(*s));
        let (right, text) = (WIDTH - RIGHT, y - 4.0);
        put(
            out,
            format_args!("<line class=\"past\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"),
        );
        let x = right - 6.0;
        let name = escape(name);
        put(
            out,
            format_args!(
                "<text class=\"pastname\" x=\"{x}\" y=\"{text:.1}\" text-anchor=\"end\">{name}</text>"
            ),
        );
    }
}

/// Every transaction's response time over time. `worst`: the longest response times of the archived runs, s.
pub fn response_times(line: &Line, worst: &[(String, f64)]) -> String {
    let grid = &line.record.grid;
    let most = f64::from(grid.iter().copied().max().unwrap_or(0).max(1)).ln_1p();
    let mut out = begin("response times");
    seconds(&mut out, line.run_s());
    log_ticks(&mut out);
    past(&mut out, worst);
    let cell_x = (WIDTH - LEFT - RIGHT) / GRID_COLUMNS as f64;
    let cell_y = ((HEIGHT - TOP - BOTTOM) / grid_rows() as f64).max(2.0);
    let shade = |n: u32| if n == 0 { 0 } else { 1 + (f64::from(n).ln_1p() / most * 4.0) as usize };
    // One path for each shade, with one rectangle per series of adjacent cells of that shade.
    let mut paths = [const { String::new() }; SHADES];
    for row in 0..grid_rows() {
        let cells = &grid[row * GRID_COLUMNS..(row + 1) * GRID_COLUMNS];
        let top = y((row + 1) as f64 / grid_rows() as f64);
        let mut column = 0;
        while column < GRID_COLUMNS {
            let depth = shade(cells[column]).min(SHADES);
            let long = cells[column..].iter().take_while(|n| shade(**n).min(SHADES) == depth).count();
            if depth > 0 {
                let (x, wide) = (LEFT + cell_x * column as f64, cell_x * long as f64);
                put(
                    &mut paths[depth - 1],
                    format_args!("M{x:.1} {top:.1}h{wide:.1}v{cell_y:.1}h-{wide:.1}z"),
                );
            }
            column += long;
        }
    }
    for (index, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let opacity = PALE + (1.0 - PALE) * (index + 1) as f64 / SHADES as f64;
        put(&mut out, format_args!("<path class=\"dot\" opacity=\"{opacity:.2}\" d=\"{path}\"/>"));
    }
    out + "</svg>"
}

/// Average, 80th and 90th percentile and maximum of each interval.
pub fn response_times_intervals(line: &Line, worst: &[(String, f64)]) -> String {
    let mut out = begin("response times by interval");
    seconds(&mut out, line.run_s());
    log_ticks(&mut out);
    past(&mut out, worst);
    let series = |value: fn(&Histogram<u64>) -> f64| -> Vec<(f64, f64)> {
        intervals(line.record, line.run_s())
            .filter(|(.., interval)| !interval.times_us.is_empty())
            .map(|(at, _, interval)| (at, log_part(value(&interval.times_us) / 1e6)))
            .collect()
    };
    polyline(&mut out, "l0", &series(Histogram::mean));
    polyline(&mut out, "l1", &series(|times| times.value_at_quantile(0.8) as f64));
    polyline(&mut out, "l2", &series(|times| times.value_at_quantile(0.9) as f64));
    for (at, part) in series(|times| times.max() as f64) {
        dot(&mut out, "c3", at, part);
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::answer::AnswerClass;
    use super::*;

    #[test]
    fn everything_lies_inside_of_the_frame() {
        let mut record = Record::new(Duration::from_secs(4), Duration::from_secs(1), 0).unwrap();
        for n in 0..4000_u64 {
            let took = Duration::from_micros(if n == 2000 { 4_000_000_000 } else { 1 + n % 700 });
            record.add(Duration::from_millis(n), 0, 0, took, AnswerClass::Unavailable);
        }
        record.add(Duration::from_millis(4100), 0, 0, Duration::from_secs(1), AnswerClass::Timeout);
        let line = Line { name: "x", record: &record };
        let worst = [("twisted <2014>".to_owned(), 31.6)];
        for svg in [
            throughput(&[line]),
            response_times(&Line { name: "x", record: &record }, &worst),
            response_times_intervals(&Line { name: "x", record: &record }, &worst),
        ] {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            for (mark, end) in [(" x=\"", WIDTH), (" y=\"", HEIGHT), (" cx=\"", WIDTH), (" cy=\"", HEIGHT)] {
                for part in svg.split(mark).skip(1) {
                    let at: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!((0.0..=end).contains(&at), "{mark}{at}");
                }
            }
            for mark in svg.split(['M', '"']).filter(|mark| mark.ends_with('z')) {
                let at: Vec<f64> = mark.split([' ', 'h', 'v']).take(3).map(|n| n.parse().unwrap()).collect();
                assert!(at[0] >= LEFT && at[0] + at[2] <= WIDTH && (0.0..=HEIGHT).contains(&at[1]), "{mark}");
            }
            let alone = alone(&svg);
            assert!(
                alone.starts_with("<svg xmlns=")
                    && alone.contains("<style>")
                    && alone.ends_with("</g></svg>\n")
            );
        }
    }

    #[test]
    fn refused_connections_are_no_throughput() {
        let mut record = Record::new(Duration::from_secs(2), Duration::from_secs(1), 0).unwrap();
        let refused = AnswerClass::Transport(super::super::answer::Trouble::Refused);
        for n in 0..2000 {
            let outcome = if n < 1000 && n % 20 == 0 { AnswerClass::Good } else { refused };
            record.add(Duration::from_millis(n), 0, 0, Duration::from_micros(20), outcome);
        }
        let svg = throughput(&[Line { name: "x", record: &record }]);
        // 50 answers in the first second, of 60 at the top, and none in the second.
        assert!(svg.contains(">60</text>") && !svg.contains("000"), "{svg}");
        let (top, zero) = (format!(",{:.1} ", y(50.0 / 60.0)), format!(",{:.1}\"", y(0.0)));
        assert!(svg.contains(&top) && svg.contains(&zero), "{svg}");
    }
}
