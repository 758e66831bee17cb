//! Parses the output of `mysqladmin ext -i 1`: tables of names and values, each ended by an empty line.
//!
//! Input: lines. Output: a [`Status`] for each complete table, or a sentence with the line number when this is not such a recording.

use std::io::{self, BufRead};

use super::columns::Status;

/// The limit of a line; a longer one is not from such a recording.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Reads the tables.
pub struct Recorded<R> {
    lines: R,
    number: u64,
    tables: u64,
}

/// The next item.
#[derive(Debug)]
pub enum Next {
    /// A table.
    Table(Status),
    /// The end of the input.
    End,
    /// The recording ends within a table, which began in this line.
    CutOff(u64),
}

impl<R: BufRead> Recorded<R> {
    /// Before the first line.
    pub fn new(lines: R) -> Self {
        Self { lines, number: 0, tables: 0 }
    }

    /// The next table.
    ///
    /// # Errors
    /// The input is not such a recording: a predicate to put after its name.
    pub fn next(&mut self) -> Result<Next, String> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let (mut first, mut borders) = (0, 0);
        loop {
            let line = self.line()?;
            let is_whole = line.as_ref().is_none_or(|line| line.ends_with('\n'));
            match line.as_deref().map(str::trim_end) {
                // The last table may lack the empty line after it.
                None | Some("") if borders >= 3 => {
                    self.tables += 1;
                    let rows = rows.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                    return Ok(Next::Table(Status::of(rows)));
                }
                None if first > 0 => return Ok(Next::CutOff(first)),
                None if self.tables == 0 => {
                    let why = "is no output of `mysqladmin ext -i 1`: it has no table of names and values";
                    return Err(why.to_owned());
                }
                None => return Ok(Next::End),
                Some("") if first == 0 => {}
                Some(line) => {
                    if first == 0 {
                        first = self.number;
                    }
                    match row(line) {
                        Some(Row::Border) => borders += 1,
                        Some(Row::Value("Variable_name", _)) => {}
                        Some(Row::Value(name, value)) => rows.push((name.to_owned(), value.to_owned())),
                        // mysqladmin was killed while it wrote.
                        None if !is_whole && first < self.number => return Ok(Next::CutOff(first)),
                        None => return Err(foreign(self.number)),
                    }
                }
            }
        }
    }

    fn line(&mut self) -> Result<Option<String>, String> {
        let mut bytes = Vec::new();
        let read = io::Read::take(&mut self.lines, LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        let read = read.map_err(|e| format!("cannot be read: {e}"))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read as u64 == LINE_BYTES_MAX {
            return Err(foreign(self.number));
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn foreign(line: u64) -> String {
    format!("is no output of `mysqladmin ext -i 1`: line {line} is none of its tables")
}

enum Row<'a> {
    Border,
    Value(&'a str, &'a str),
}

fn row(line: &str) -> Option<Row<'_>> {
    if line.starts_with("+--") && line.bytes().all(|byte| b"+-".contains(&byte)) {
        return Some(Row::Border);
    }
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let (name, value) = inner.split_once('|')?;
    Some(Row::Value(name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
+---------------+----------------------------+
| Variable_name | Value                      |
+---------------+----------------------------+
| Uptime        | 100                        |
| wsrep_local_state_comment | Joining: receiving State Transfer |
+---------------+----------------------------+
";

    fn all(text: &str) -> Vec<Next> {
        let mut recorded = Recorded::new(text.as_bytes());
        let mut found = Vec::new();
        loop {
            let next = recorded.next().unwrap();
            let is_last = !matches!(next, Next::Table(_));
            found.push(next);
            if is_last {
                return found;
            }
        }
    }

    #[test]
    fn tables_are_read_with_and_without_the_last_empty_line() {
        for text in [
            format!("{TABLE}\n{TABLE}\n"),
            format!("\n\n{TABLE}\n{TABLE}"),
            format!("{TABLE}\n{TABLE}\n").replace('\n', "\r\n"),
        ] {
            let found = all(&text);
            assert!(
                matches!(&found[..], [Next::Table(one), Next::Table(_), Next::End] if one.uptime_s() == Some(100) && one.is_of_galera()),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_table_that_is_cut_off_is_told_by_its_line() {
        let text = format!("{TABLE}\n{}", &TABLE[..180]);
        let found = all(&text);
        assert!(matches!(found[..], [Next::Table(_), Next::CutOff(8)]), "{found:?}");
    }

    #[test]
    fn what_is_no_recording_is_refused_in_a_sentence() {
        let problem = |text: &str| Recorded::new(text.as_bytes()).next().unwrap_err();
        assert!(problem("").contains("no table of names"));
        assert!(problem("\n\n").contains("no table of names"));
        assert!(problem("130523  9:59:46 [Note] mysqld: ready\n").contains("line 1"));
        assert!(problem(&format!("{TABLE}2020-01-01 x\n")).contains("line 7"));
        assert!(problem(&"x".repeat(70_000)).contains("line 1"));
    }
}
