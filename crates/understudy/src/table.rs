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
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&str, Lean)]) -> Self {
        Self {
            leans: columns.iter().map(|(_, lean)| *lean).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// One more line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.leans.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
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
            Some(line) if line.len() + 1 + word.len() <= width => {
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
    fn times_read_well() {
        let spans = [(350, "350 ms"), (12_345, "12.3 s"), (250_000, "4 min 10 s"), (10_920_000, "3 h 2 min")];
        for (ms, text) in spans {
            assert_eq!(span(ms), text);
        }
        assert_eq!(span(450_000_000), "5 d 5 h");
        assert_eq!(moment(1_404_465_709_250), "2014-07-04 09:21:49.250");
    }
}
