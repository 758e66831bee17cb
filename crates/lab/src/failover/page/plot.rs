//! Plots one repetition over time as inline SVG: throughput, latency, queue and concurrency, errors, and each node's reported state,
//! on one time axis with its zero at the fault. Pure: a timeline in, text out.
//!
//! Invariant: every x comes from `Frame::x`, so that all rows have the same time axis; what lies outside the frame is clamped to its edge.

use std::fmt::Write;
use std::time::Duration;

use report::words::escape;

use crate::failover::result::{Repetition, Timeline};
use crate::failover::watch::Word;
use crate::figures::Bucket;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 138.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const SPACE: f64 = 14.0;
const BAND: f64 = 18.0;

/// The common scale of several plots below each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scale {
    /// Commits a second.
    pub flow_max: f64,
    /// Latency, ms.
    pub latency_ms_max: f64,
    /// Queue length or busy threads.
    pub queue_max: f64,
    /// Seconds before and after the fault.
    pub before_s: f64,
    /// See `before_s`.
    pub after_s: f64,
}

impl Scale {
    /// The scale that fits all repetitions.
    pub fn of<'a>(all: impl Iterator<Item = &'a Repetition>) -> Self {
        let mut scale = Self { flow_max: 10.0, latency_ms_max: 100.0, queue_max: 4.0, ..Self::default() };
        for Timeline { width, buckets, fault, .. } in all.map(|rep| &rep.timeline) {
            let per_s = 1.0 / width.as_secs_f64().max(1e-3);
            for bucket in buckets {
                scale.flow_max = scale.flow_max.max(f64::from(bucket.commits) * per_s);
                scale.latency_ms_max = scale.latency_ms_max.max(bucket.latency_ms_max);
                scale.queue_max = scale.queue_max.max(f64::from(bucket.queue.max(bucket.concurrency)));
            }
            let length = width.as_secs_f64() * buckets.len() as f64;
            scale.before_s = scale.before_s.max(fault.as_secs_f64());
            scale.after_s = scale.after_s.max(length - fault.as_secs_f64());
        }
        scale
    }
}

/// Maps time to x.
struct Frame {
    scale: Scale,
    fault_s: f64,
}

impl Frame {
    fn x(&self, at: Duration) -> f64 {
        self.x_s(at.as_secs_f64() - self.fault_s)
    }

    /// Seconds from the fault.
    fn x_s(&self, s: f64) -> f64 {
        let whole = (self.scale.before_s + self.scale.after_s).max(1e-3);
        let part = ((s + self.scale.before_s) / whole).clamp(0.0, 1.0);
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }
}

/// One row of the plot.
struct Row {
    top: f64,
    height: f64,
}

impl Row {
    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Maps 0 to 1, upwards, to y.
    fn y(&self, part: f64) -> f64 {
        self.bottom() - part.clamp(0.0, 1.0) * self.height
    }
}

/// Draws the plot. `what` labels the fault's line, such as "SIGKILL db1".
pub fn svg(rep: &Repetition, scale: Scale, what: &str) -> String {
    let line = &rep.timeline;
    let frame = Frame { scale, fault_s: line.fault.as_secs_f64() };
    let mut top = TOP;
    let mut row = |height: f64| {
        let row = Row { top, height };
        top += height + SPACE;
        row
    };
    let (flow, latency, queue, errors) = (row(70.0), row(80.0), row(56.0), row(26.0));
    let bands: Vec<Row> = line.nodes.iter().map(|_| row(BAND - SPACE + 10.0)).collect();
    let bottom = top;
    let height = bottom + 30.0;

    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"timeline\">");
    outage(&mut out, &frame, rep, bottom);
    seconds(&mut out, &frame, bottom);
    draw_flow(&mut out, &frame, &flow, line);
    draw_latency(&mut out, &frame, &latency, line);
    draw_queue(&mut out, &frame, &queue, line);
    draw_errors(&mut out, &frame, &errors, line);
    for (row, (name, words)) in bands.iter().zip(&line.nodes) {
        draw_band(&mut out, &frame, row, name, words, line);
    }
    fault(&mut out, &frame, line, what, bottom);
    marks(&mut out, &frame, line);
    out + "</svg>"
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

/// The time during which a commit was due and none came, if it is longer than the noise before the fault.
fn outage(out: &mut String, frame: &Frame, rep: &Repetition, bottom: f64) {
    // sysbench's trace gives only the length of its outage, in whole seconds, not its position.
    if rep.sysbench.is_some() || !rep.is_above_noise() {
        return;
    }
    let effect = &rep.effect;
    let from = frame.x(Duration::from_secs_f64(effect.outage_from_ms.max(0.0) / 1e3));
    let to = frame.x(Duration::from_secs_f64((effect.outage_from_ms + effect.outage_ms).max(0.0) / 1e3));
    let (wide, high) = ((to - from).max(0.0), bottom - TOP);
    put(
        out,
        format_args!(
            "<rect class=\"outage\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{high:.1}\"/>"
        ),
    );
}

/// Time labels in seconds from the fault, as many as fit.
fn seconds(out: &mut String, frame: &Frame, bottom: f64) {
    let whole = frame.scale.before_s + frame.scale.after_s;
    let step = [1, 2, 5, 10, 20, 60].into_iter().find(|step| whole / f64::from(*step) <= 16.0).unwrap_or(120);
    let first = -(frame.scale.before_s as i32 / step) * step;
    let mut s = first;
    while f64::from(s) <= frame.scale.after_s {
        let x = frame.x_s(f64::from(s));
        put(
            out,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
            ),
        );
        let y = bottom + 14.0;
        let label = if s > 0 { format!("+{s}") } else { s.to_string() };
        put(out, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>"));
        s += step;
    }
    let (x, y) = (WIDTH - RIGHT, bottom + 28.0);
    put(out, format_args!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">seconds from the fault</text>"));
}

fn head(out: &mut String, row: &Row, name: &str, unit: &str) {
    let y = row.top + 10.0;
    put(out, format_args!("<text class=\"name\" x=\"0\" y=\"{y:.1}\">{}</text>", escape(name)));
    put(out, format_args!("<text x=\"0\" y=\"{:.1}\">{}</text>", y + 14.0, escape(unit)));
    let (y, right) = (row.bottom(), WIDTH - RIGHT);
    put(out, format_args!("<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
}

fn tick(out: &mut String, y: f64, label: &str) {
    let (x, right) = (LEFT - 6.0, WIDTH - RIGHT);
    put(out, format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
    put(out, format_args!("<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", y + 4.0));
}

/// (x, width) of each bucket, with the bucket.
fn placed<'a>(frame: &'a Frame, line: &'a Timeline) -> impl Iterator<Item = (f64, f64, &'a Bucket)> {
    line.buckets.iter().enumerate().map(|(i, bucket)| {
        let from = frame.x(line.width * i as u32);
        (from, frame.x(line.width * (i as u32 + 1)) - from, bucket)
    })
}

fn draw_flow(out: &mut String, frame: &Frame, row: &Row, line: &Timeline) {
    head(out, row, "Throughput", "commits/s");
    tick(out, row.y(1.0), &format!("{:.0}", frame.scale.flow_max));
    tick(out, row.bottom(), "0");
    let per_s = 1.0 / line.width.as_secs_f64().max(1e-3);
    for (x, wide, bucket) in placed(frame, line) {
        let y = row.y(f64::from(bucket.commits) * per_s / frame.scale.flow_max);
        if bucket.commits > 0 {
            column(out, "flow", (x, wide), y, row.bottom() - y);
        }
    }
}

/// One bucket's column, with a small gap to the next.
fn column(out: &mut String, class: &str, (x, wide): (f64, f64), y: f64, high: f64) {
    let wide = (wide - 0.6).max(0.4);
    put(
        out,
        format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\"/>"
        ),
    );
}

/// Logarithmic from 1 ms, since 10 ms and 10 s must both be visible.
fn draw_latency(out: &mut String, frame: &Frame, row: &Row, line: &Timeline) {
    head(out, row, "Latency", "worst, log");
    let top = frame.scale.latency_ms_max.log10().ceil().max(2.0);
    for power in 1..=top as i32 {
        let label = ["", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"];
        tick(out, row.y(f64::from(power) / top), label.get(power as usize).copied().unwrap_or(""));
    }
    for (x, wide, bucket) in placed(frame, line).filter(|(_, _, bucket)| bucket.commits > 0) {
        let y = row.y(bucket.latency_ms_max.max(1.0).log10() / top);
        column(out, "lat", (x, wide), y, (row.bottom() - y).max(1.0));
    }
}

fn draw_queue(out: &mut String, frame: &Frame, row: &Row, line: &Timeline) {
    head(out, row, "Waiting", "transactions");
    tick(out, row.y(1.0), &format!("{:.0}", frame.scale.queue_max));
    tick(out, row.bottom(), "0");
    let mut path = |class: &str, of: &dyn Fn(&Bucket) -> u32| {
        let mut points = String::new();
        for (x, wide, bucket) in placed(frame, line) {
            let y = row.y(f64::from(of(bucket)) / frame.scale.queue_max);
            put(&mut points, format_args!("{x:.1},{y:.1} {:.1},{y:.1} ", x + wide));
        }
        put(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", points.trim_end()));
    };
    path("busy", &|bucket| bucket.concurrency);
    path("queue", &|bucket| bucket.queue);
}

/// Failed transactions, with the repeated attempts stacked above them.
fn draw_errors(out: &mut String, frame: &Frame, row: &Row, line: &Timeline) {
    head(out, row, "Errors", "in 100 ms");
    let most = f64::from(line.buckets.iter().map(|bucket| bucket.errors + bucket.repeats).max().unwrap_or(0));
    if most == 0.0 {
        put(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">none</text>",
                LEFT - 6.0,
                row.bottom() + 4.0
            ),
        );
        return;
    }
    tick(out, row.y(1.0), &format!("{most:.0}"));
    for (x, wide, bucket) in placed(frame, line) {
        let wide = wide.max(2.5);
        let x = x.min(WIDTH - RIGHT - wide);
        let mut bottom = row.bottom();
        for (class, count) in [("err", bucket.errors), ("repeat", bucket.repeats)] {
            if count > 0 {
                // A single one among hundreds must still be visible.
                let high = (f64::from(count) / most * row.height).max(4.0);
                bottom -= high;
                put(
                    out,
                    format_args!(
                        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{bottom:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\"/>"
                    ),
                );
            }
        }
    }
}

fn draw_band(
    out: &mut String,
    frame: &Frame,
    row: &Row,
    name: &str,
    words: &[(Duration, Word)],
    line: &Timeline,
) {
    let y = row.top + 11.0;
    put(out, format_args!("<text class=\"name\" x=\"0\" y=\"{y:.1}\">{}</text>", escape(name)));
    let end = line.width * line.buckets.len() as u32;
    for (i, (from, word)) in words.iter().enumerate() {
        let to = words.get(i + 1).map_or(end, |next| next.0).min(end);
        let (x, to) = (frame.x(*from), frame.x(to));
        let (wide, word) = ((to - x).max(0.0), word.name());
        let (top, high) = (row.top, row.height);
        put(
            out,
            format_args!(
                "<rect class=\"{word}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\"/>"
            ),
        );
        if wide > 70.0 {
            let x = x + 6.0;
            put(
                out,
                format_args!("<text class=\"word\" x=\"{x:.1}\" y=\"{:.1}\">{word}</text>", top + high - 4.0),
            );
        }
    }
}

fn fault(out: &mut String, frame: &Frame, line: &Timeline, what: &str, bottom: f64) {
    let mut at = |x: f64, name: &str, y: f64| {
        let from = TOP - 6.0;
        put(
            out,
            format_args!(
                "<line class=\"fault\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from}\" y2=\"{bottom:.1}\"/>"
            ),
        );
        let anchor = if x > WIDTH * 0.75 { ("end", -5.0) } else { ("start", 5.0) };
        let x = x + anchor.1;
        put(
            out,
            format_args!(
                "<text class=\"faultname\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\">{}</text>",
                anchor.0,
                escape(name)
            ),
        );
    };
    match line.stopped {
        None => at(frame.x(line.fault), what, 10.0),
        Some(stopped) => {
            at(frame.x(line.fault), "order", 10.0);
            at(frame.x(stopped), "", 10.0);
            at(frame.x(stopped), what, 22.0);
        }
    }
}

/// The journal's entries as numbered marks; those too close together share one.
fn marks(out: &mut String, frame: &Frame, line: &Timeline) {
    let mut groups: Vec<(f64, usize, usize)> = Vec::new();
    for (i, (at, _)) in line.journal.iter().enumerate() {
        let x = frame.x(*at);
        match groups.last_mut() {
            Some((from, _, last)) if x - *from < 26.0 => *last = i,
            _ => groups.push((x, i, i)),
        }
    }
    for (x, first, last) in groups {
        let text =
            if first == last { format!("{}", first + 1) } else { format!("{}-{}", first + 1, last + 1) };
        let wide = 8.0 + 6.0 * text.len() as f64;
        let (left, y) = (x - wide / 2.0, TOP - 8.0);
        put(
            out,
            format_args!(
                "<rect class=\"mark\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"13\" rx=\"6\"/>"
            ),
        );
        put(
            out,
            format_args!(
                "<text class=\"marktext\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                y + 10.0
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::result::tests::repetition;
    use crate::failover::understudy::Sentence;

    #[test]
    fn it_draws_everything_inside_the_frame() {
        let mut rep = repetition(300.0, 5);
        let bucket =
            Bucket { commits: 3, errors: 6, repeats: 2, latency_ms_max: 12_000.0, queue: 9, concurrency: 4 };
        let said = Sentence { at_unix_ms: 0, level: "info".into(), text: "a <b>".into() };
        rep.timeline = Timeline {
            width: Duration::from_millis(100),
            buckets: vec![bucket; 140],
            fault: Duration::from_secs(6),
            stopped: None,
            nodes: [(
                "db1".to_owned(),
                vec![(Duration::ZERO, Word::Synced), (Duration::from_secs(6), Word::Down)],
            )]
            .into(),
            journal: vec![(Duration::from_millis(6100), said.clone()), (Duration::from_millis(6110), said)],
        };
        let svg = svg(&rep, Scale::of([&rep].into_iter()), "SIGKILL <db1>");
        assert!(svg.contains("SIGKILL &lt;db1&gt;") && svg.contains(">1-2</text>"), "near marks share one");
        assert!(svg.contains("class=\"down\"") && svg.contains(">10 s</text>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        for part in svg.split(" x=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=WIDTH).contains(&x), "{x}");
        }
    }
}
