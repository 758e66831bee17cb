//! Tables: columns as wide as their widest cell for a terminal, and the same cells for a page.

use crate::plot::Colour;
use crate::words::{each, escape, number};

/// Which way a column's cells lean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lean {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// One cell. On a page counts have separators.
#[derive(Clone, Default)]
pub struct Cell {
    text: String,
    /// Where it differs from the text.
    page: Option<String>,
    /// A bar below it, as a part of the longest; for the page.
    bar: Option<(f64, Colour)>,
    is_warned: bool,
}

impl Cell {
    /// A figure with so many decimals.
    pub fn fixed(value: f64, decimals: usize) -> Self {
        format!("{value:.decimals$}").into()
    }

    /// What a page, which has more room, says instead.
    #[must_use]
    pub fn on_page(self, text: String) -> Self {
        Self { page: Some(text), ..self }
    }

    #[must_use]
    pub fn bar(self, part: f64, colour: Colour) -> Self {
        Self { bar: Some((part, colour)), ..self }
    }

    /// Something is wrong there: a page marks it.
    #[must_use]
    pub fn warned(self) -> Self {
        Self { is_warned: true, ..self }
    }

    fn html(&self, tag: &str, lean: Lean) -> String {
        let text = self.page.as_ref().unwrap_or(&self.text);
        let classes =
            [(lean == Lean::Right, "right"), (text.contains('\n'), "lines"), (self.is_warned, "warned")];
        let classes: Vec<&str> = classes.into_iter().filter_map(|(has, name)| has.then_some(name)).collect();
        let bar = self.bar.map_or_else(String::new, |(part, colour)| {
            let width = (part * 100.0).clamp(0.0, 100.0);
            format!("<div class=\"bar\"><i style=\"width:{width:.1}%;background:var(--{colour})\"></i></div>")
        });
        format!("<{tag} class=\"{}\">{}{bar}</{tag}>", classes.join(" "), escape(text))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self { text: count.to_string(), page: Some(number(count as f64)), ..Self::default() }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    /// What is not known is a dash.
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| "-".into(), Into::into)
    }
}

/// A table in the making.
pub struct Table {
    leans: Vec<Lean>,
    widths_min: Vec<usize>,
    /// Of each column: cells that are longer than this many characters go on in the next line.
    widths_max: Vec<usize>,
    /// Spaces between two columns.
    gap: usize,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&str, Lean)]) -> Self {
        Self {
            leans: columns.iter().map(|(_, lean)| *lean).collect(),
            widths_min: vec![0; columns.len()],
            widths_max: vec![usize::MAX; columns.len()],
            gap: 2,
            rows: vec![columns.iter().map(|(name, _)| Cell::from(*name)).collect()],
        }
    }

    /// A table whose first column leans to the left and whose others, figures, to the right.
    pub fn figures<const N: usize>(names: [&str; N]) -> Self {
        let mut lean = Lean::Left;
        Self::new(&names.map(|name| (name, std::mem::replace(&mut lean, Lean::Right))))
    }

    /// The last columns get at most so many characters each; what is longer goes on in the next line.
    #[must_use]
    pub fn wrapping<const N: usize>(mut self, widths: [usize; N]) -> Self {
        let from = self.widths_max.len().saturating_sub(N);
        for (width, most) in self.widths_max[from..].iter_mut().zip(widths) {
            *width = most;
        }
        self
    }

    /// Columns with these widths, the space between them included, whatever is in them: tables of several runs stand below each other.
    #[must_use]
    pub fn fixed<const N: usize>(self, widths: [usize; N]) -> Self {
        Self { widths_min: widths.into(), gap: 0, ..self }
    }

    /// One more line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.cells(cells.into_iter().map(Cell::from));
    }

    /// One more line.
    pub fn cells(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether it has nothing but its headings.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let lines: Vec<Vec<String>> = self.rows.iter().flat_map(|row| self.lines(row)).collect();
        let width = |(column, least): (usize, &usize)| {
            let widths = lines.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            widths.fold(*least, usize::max)
        };
        let widths: Vec<_> = self.widths_min.iter().enumerate().map(width).collect();
        let mut text = String::new();
        for row in &lines {
            let mut line = String::new();
            for ((cell, lean), width) in row.iter().zip(&self.leans).zip(&widths) {
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                match lean {
                    Lean::Left => line.extend([cell, pad.as_str()]),
                    Lean::Right => line.extend([pad.as_str(), cell]),
                }
                line.push_str(&" ".repeat(self.gap));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// A row as the lines that it takes.
    fn lines(&self, row: &[Cell]) -> Vec<Vec<String>> {
        let wrapped: Vec<Vec<String>> =
            row.iter().zip(&self.widths_max).map(|(cell, most)| wrap(&cell.text, *most)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        let line = |at: usize| {
            wrapped.iter().map(|cell| cell.get(at).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        (0..height).map(line).collect()
    }

    /// The same for a page.
    pub(crate) fn html(&self) -> String {
        let row = |(number, row): (usize, &Vec<Cell>)| {
            let cell = |(column, cell): (usize, &Cell)| {
                let tag = if number == 0 || column == 0 { "th" } else { "td" };
                cell.html(tag, self.leans.get(column).copied().unwrap_or(Lean::Left))
            };
            format!("<tr>{}</tr>", each(row.iter().enumerate(), cell))
        };
        let rows = each(self.rows.iter().enumerate(), row);
        format!("<div class=\"figures\"><table>{rows}</table></div>")
    }
}

/// A duration for people: "350 ms", "12.3 s", "4 min 10 s", "3 h 2 min", "5 d 4 h".
pub fn span(ms: u64) -> String {
    let s = ms / 1000;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..100_000 => format!("{}.{} s", s, ms % 1000 / 100),
        100_000..3_600_000 => format!("{} min {} s", s / 60, s % 60),
        3_600_000..172_800_000 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A moment for people, in UTC: "2026-11-21 12:03:11.402".
pub fn moment(unix_ms: u64) -> String {
    let nanos = i128::from(unix_ms) * 1_000_000;
    match time::OffsetDateTime::from_unix_timestamp_nanos(nanos) {
        Ok(t) => format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}",
            t.year(),
            u8::from(t.month()),
            t.day(),
            t.hour(),
            t.minute(),
            t.second(),
            t.millisecond()
        ),
        Err(_) => format!("{unix_ms} ms"),
    }
}

/// Breaks a sentence at spaces into lines of at most `width` characters.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell() {
        let mut table = Table::new(&[("NODE", Lean::Left), ("QUEUE", Lean::Right), ("WHY", Lean::Left)]);
        table.row(["db1".into(), "1200000".into(), String::new()]);
        table.row(["longer".into(), "3".into(), "because".into()]);
        assert_eq!(table.text(), "NODE      QUEUE  WHY\ndb1     1200000\nlonger        3  because\n");
    }

    #[test]
    fn figures_stand_below_each_other() {
        let mut table = Table::figures(["  ", "answers"]);
        table.row(["  nginx".into(), "22".into()]);
        assert_eq!(table.text(), "         answers\n  nginx       22\n");
        let mut fixed = Table::figures(["node", "reads"]).fixed([6, 8]);
        fixed.cells(["db1".into(), 12_u64.into()]);
        assert_eq!(fixed.text(), "node     reads\ndb1         12\n");
    }

    #[test]
    fn long_cells_go_on_in_the_next_line() {
        let mut table = Table::new(&[("NODE", Lean::Left), ("WHAT", Lean::Left), ("DO", Lean::Left)]);
        table.row(["db1".into(), "is".into(), String::new()]);
        let mut table = table.wrapping([12, 9]);
        table.row(["db2".into(), "holds up every write".into(), "find who".into()]);
        assert_eq!(
            table.text(),
            "NODE  WHAT         DO\ndb1   is\ndb2   holds up     find who\n      every write\n"
        );
    }

    #[test]
    fn times_read_well() {
        let spans = [(350, "350 ms"), (12_345, "12.3 s"), (250_000, "4 min 10 s"), (10_920_000, "3 h 2 min")];
        for (ms, text) in spans {
            assert_eq!(span(ms), text);
        }
        assert_eq!(span(450_000_000), "5 d 5 h");
        assert_eq!(moment(1_404_465_709_250), "2014-07-04 09:21:49.250");
    }
}
