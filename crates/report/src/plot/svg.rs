//! Draws a plot as SVG. Pure.
//!
//! Invariant: every x comes from `Drawing::x`, so that all panels have the same axis; what lies outside of it is clamped to its edge.

use super::{Band, Colour, Panel, Plot, Scale, Series};
use crate::words::{escape, number};

const WIDTH: f64 = 960.0;
const LEFT_MIN: f64 = 84.0;
const RIGHT_MIN: f64 = 20.0;
/// A character's, about; of a bold text.
const CHARACTER: f64 = 6.6;
const BOLD_CHARACTER: f64 = 7.4;
/// From one line of text to the next.
const LINE: f64 = 15.0;
const ROW: f64 = 20.0;
const GAP: f64 = 12.0;
/// Marks closer than this share one.
const MARK: f64 = 26.0;
/// Of a column, so that one among thousands can be seen.
const COLUMN_MIN: f64 = 2.0;
/// A panel at least so high has a line on each quarter.
const QUARTERS_FROM: f64 = 120.0;
const LABELS_MAX: f64 = 16.0;
/// Between two labels of the horizontal axis, s.
const STEPS_S: [f64; 13] = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

impl Plot {
    pub fn svg(&self) -> String {
        let (mut names, mut ends) = (0, 0);
        for panel in &self.panels {
            match panel {
                Panel::Row { name, end, .. } => {
                    names = names.max(name.chars().count());
                    ends = ends.max(end.chars().count());
                }
                Panel::Values { series, .. } => {
                    ends = series.iter().map(|one| one.end().chars().count()).fold(ends, usize::max);
                }
            }
        }
        let left = (names as f64 * BOLD_CHARACTER + 12.0).max(LEFT_MIN);
        let right = WIDTH - (ends as f64 * CHARACTER + 12.0).max(RIGHT_MIN);
        let mut drawing = Drawing { out: String::new(), plot: self, left, right };
        let bottom = drawing.all();
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            bottom + 2.0 * LINE + 4.0,
            escape(self.label),
            drawing.out
        )
    }
}

impl Series {
    /// The name of a line, with its last value.
    fn end(&self) -> String {
        match self {
            Self::Line { name, points, .. } if !name.is_empty() => {
                format!("{} {name}", number(points.last().map_or(0.0, |point| point.1)))
            }
            _ => String::new(),
        }
    }
}

/// Where a text stands: it begins, is centred or ends at its x.
const START: &str = "start";
const MIDDLE: &str = "middle";
const END: &str = "end";

struct Drawing<'a> {
    out: String,
    plot: &'a Plot,
    left: f64,
    right: f64,
}

impl Drawing<'_> {
    fn x(&self, at_s: f64) -> f64 {
        let axis = &self.plot.axis;
        let part = ((at_s - axis.from_s) / (axis.to_s - axis.from_s).max(1e-3)).clamp(0.0, 1.0);
        self.left + part * (self.right - self.left)
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escape(text);
        self.out += &format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.out +=
            &format!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    fn rect(&mut self, colour: Colour, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
        let title =
            if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
        self.out += &format!(
            "<rect style=\"fill:var(--{colour})\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">{title}</rect>",
            width.max(0.0),
            height.max(0.0)
        );
    }

    /// Everything, in the order in which it lies on each other; the lower end of the panels.
    fn all(&mut self) -> f64 {
        let plot = self.plot;
        let has_names = plot.bands.iter().any(|band| !band.name.is_empty());
        let lines = plot.moments.len() + usize::from(!plot.marks.is_empty()) + usize::from(has_names);
        let top = LINE * lines as f64 + 4.0;
        let height = |panel: &Panel| match panel {
            Panel::Values { height, .. } => LINE + 6.0 + height + GAP,
            Panel::Row { .. } => ROW + GAP,
        };
        let bottom = top + plot.panels.iter().map(height).sum::<f64>();
        for band in &plot.bands {
            self.band(band, (top, bottom));
            if self.fits(band) {
                self.text("", (self.x(band.from_s) + 2.0, top - 4.0), START, band.name);
            }
        }
        self.seconds((top, bottom));
        let mut y = top;
        for panel in &plot.panels {
            match panel {
                Panel::Values { title, height, scale, series } => {
                    let top = y + LINE + 6.0;
                    self.text("name", (self.left, top - 7.0), START, title);
                    self.values(*scale, series, Span { top, bottom: top + height });
                }
                Panel::Row { name, bands, end } => self.row(name, bands, end, y),
            }
            y += height(panel);
        }
        self.moments((top, bottom));
        self.marks(top);
        bottom
    }

    fn band(&mut self, band: &Band, (top, bottom): (f64, f64)) {
        let (from, to) = (self.x(band.from_s), self.x(band.to_s));
        let title = match band.name {
            "" => String::new(),
            name => format!("{name} {:.2} s", band.to_s - band.from_s),
        };
        self.rect(band.colour, (from, top), (to - from, bottom - top), &title);
    }

    /// Whether a band is as wide as its name.
    fn fits(&self, band: &Band) -> bool {
        let width = band.name.len() as f64 * CHARACTER + 6.0;
        !band.name.is_empty() && self.x(band.to_s) - self.x(band.from_s) > width
    }

    /// The horizontal axis, with its zero where the time's is.
    fn seconds(&mut self, (top, bottom): (f64, f64)) {
        let axis = &self.plot.axis;
        let length_s = axis.to_s - axis.from_s;
        let hours = || (length_s / LABELS_MAX / 3600.0).ceil() * 3600.0;
        let step = STEPS_S.into_iter().find(|step| length_s / step <= LABELS_MAX).unwrap_or_else(hours);
        let (first, last) = ((axis.from_s / step).ceil() as i64, (axis.to_s / step + 1e-9).floor() as i64);
        for number in first..=last {
            let at_s = number as f64 * step;
            let sign = if axis.from_s < 0.0 && number > 0 { "+" } else { "" };
            let x = self.x(at_s);
            self.line("grid", (x, top), (x, bottom));
            let decimals = usize::from(step < 1.0);
            self.text("", (x, bottom + LINE), MIDDLE, &format!("{sign}{at_s:.decimals$}"));
        }
        self.text("", (self.right, bottom + 2.0 * LINE), END, axis.title);
    }

    fn values(&mut self, scale: Scale, series: &[Series], span: Span) {
        let levels: Vec<(f64, String)> = match scale {
            Scale::Linear(top) if span.bottom - span.top >= QUARTERS_FROM => (0..=4)
                .map(|quarter| top * f64::from(quarter) / 4.0)
                .map(|value| (value, number(value)))
                .collect(),
            Scale::Linear(top) if top <= 0.0 => vec![],
            Scale::Linear(top) => [0.0, top].map(|value| (value, number(value))).into(),
            Scale::LogMs(top) => {
                let powers = 1..=top.log10().ceil() as i32;
                let label = |ms: f64| if ms < 1e3 { format!("{ms} ms") } else { format!("{} s", ms / 1e3) };
                powers.map(|power| 10_f64.powi(power)).map(|ms| (ms, label(ms))).collect()
            }
        };
        for (value, label) in levels {
            let y = span.y(scale.part(value));
            self.line("grid", (self.left, y), (self.right, y));
            self.text("", (self.left - 8.0, y + 4.0), END, &label);
        }
        let mut ends = Vec::new();
        for one in series {
            match one {
                Series::Line { colour, is_dashed, points, .. } => {
                    let place = |(at_s, value): &(f64, f64)| {
                        format!("{:.1},{:.1}", self.x(*at_s), span.y(scale.part(*value)))
                    };
                    let points: Vec<String> = points.iter().map(place).collect();
                    let class = if *is_dashed { " class=\"dashed\"" } else { "" };
                    self.out += &format!(
                        "<polyline{class} style=\"stroke:var(--{colour})\" points=\"{}\"/>",
                        points.join(" ")
                    );
                }
                Series::Columns(columns) => {
                    for column in columns {
                        self.column(column, scale, span);
                    }
                }
            }
            if let Series::Line { colour, points, name, .. } = one
                && !name.is_empty()
            {
                ends.push((
                    span.y(scale.part(points.last().map_or(0.0, |point| point.1))),
                    *colour,
                    one.end(),
                ));
            }
        }
        self.ends(ends, span.bottom);
    }

    fn column(&mut self, column: &super::Column, scale: Scale, span: Span) {
        // With a small gap to the next.
        let from = self.x(column.from_s);
        let width = (self.x(column.to_s) - from - 0.6).max(0.4);
        let (mut sum, mut floor) = (0.0, span.bottom);
        for (colour, value) in column.values.iter().filter(|(_, value)| *value > 0.0) {
            sum += value;
            let y = span.y(scale.part(sum)).min(floor - COLUMN_MIN);
            self.rect(colour, (from, y), (width, floor - y), "");
            floor = y;
        }
    }

    /// The names beside the lines' ends, without overlap: from the lowest up, each as low as possible, and above the one below it.
    fn ends(&mut self, mut ends: Vec<(f64, Colour, String)>, bottom: f64) {
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut below = bottom + LINE;
        for (y, colour, name) in ends.into_iter().rev() {
            below = y.min(below - LINE);
            let (x, y) = (self.right + 8.0, below + 4.0);
            self.out += &format!(
                "<text style=\"fill:var(--{colour})\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                escape(&name)
            );
        }
    }

    fn row(&mut self, name: &str, bands: &[Band], end: &str, top: f64) {
        let middle = top + ROW - 6.0;
        self.text("name", (self.left - 8.0, middle), END, name);
        for band in bands {
            self.band(band, (top, top + ROW));
            if self.fits(band) {
                self.text("word", (self.x(band.from_s) + 4.0, middle), START, band.name);
            }
        }
        if let (Some(last), false) = (bands.last(), end.is_empty()) {
            self.text("", (self.x(last.to_s) + 6.0, middle), START, end);
        }
    }

    fn moments(&mut self, (top, bottom): (f64, f64)) {
        let plot = self.plot;
        for (number, (at_s, name)) in plot.moments.iter().enumerate() {
            let x = self.x(*at_s);
            self.line("moment", (x, top - 4.0), (x, bottom));
            let (anchor, beside) = if x > WIDTH * 0.75 { (END, -5.0) } else { (START, 5.0) };
            self.text("moment", (x + beside, LINE * number as f64 + 10.0), anchor, name);
        }
    }

    fn marks(&mut self, top: f64) {
        let mut groups: Vec<(f64, usize, usize)> = Vec::new();
        for (number, at_s) in (1..).zip(&self.plot.marks) {
            let x = self.x(*at_s);
            match groups.last_mut() {
                Some((from, _, last)) if x - *from < MARK => *last = number,
                _ => groups.push((x, number, number)),
            }
        }
        for (x, first, last) in groups {
            let text = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let width = 8.0 + 6.0 * text.len() as f64;
            self.rect("ink", (x - width / 2.0, top - 13.0), (width, 13.0), "");
            self.text("mark", (x, top - 3.0), MIDDLE, &text);
        }
    }
}

/// A panel's height on the drawing.
#[derive(Clone, Copy)]
struct Span {
    top: f64,
    bottom: f64,
}

impl Span {
    /// Maps 0 to 1, upwards.
    fn y(self, part: f64) -> f64 {
        self.bottom - part.clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

impl Scale {
    /// A value as a part of the axis.
    fn part(self, value: f64) -> f64 {
        match self {
            Self::Linear(top) => value / top.max(f64::MIN_POSITIVE),
            Self::LogMs(top) => value.max(1.0).log10() / top.log10().ceil().max(1.0),
        }
    }
}
