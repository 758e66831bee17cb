//! Plain-text tables: columns as wide as their widest cell, two spaces between, nothing else.

/// Which way a column's cells lean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lean {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A table in the making.
pub struct Table {
    leans: Vec<Lean>,
    /// Of each column: cells that are longer than this many characters go on in the next line.
    widths_max: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&str, Lean)]) -> Self {
        Self {
            leans: columns.iter().map(|(_, lean)| *lean).collect(),
            widths_max: vec![usize::MAX; columns.len()],
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
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

    /// One more line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let lines: Vec<Vec<String>> = self.rows.iter().flat_map(|row| self.lines(row)).collect();
        let width = |column: usize| {
            lines.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.leans.len()).map(width).collect();
        let mut text = String::new();
        for row in &lines {
            let mut line = String::new();
            for ((cell, lean), width) in row.iter().zip(&self.leans).zip(&widths) {
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                match lean {
                    Lean::Left => line.extend([cell, pad.as_str(), "  "]),
                    Lean::Right => line.extend([pad.as_str(), cell, "  "]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// A row as the lines that it takes.
    fn lines(&self, row: &[String]) -> Vec<Vec<String>> {
        let wrapped: Vec<Vec<String>> =
            row.iter().zip(&self.widths_max).map(|(cell, most)| wrap(cell, *most)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        let line = |at: usize| {
            wrapped.iter().map(|cell| cell.get(at).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        (0..height).map(line).collect()
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
