//! Parses the output of `mysqladmin ext -i 1`: tables of names and values, each ended by an empty line.
//!
//! Input: lines. Output: a [`Status`] for each complete table, or a sentence with the line number when this is not such a recording.

use std::io::{self, BufRead};

use infile::Lines;

use super::columns::Status;

/// The limit of a line; a longer one is not from such a recording.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Reads the tables.
pub struct Recorded<R> {
    lines: Lines<R>,
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
        Self { lines: Lines::new(lines, LINE_BYTES_MAX), tables: 0 }
    }

    /// The next table.
    ///
    /// # Errors
    /// The input is not such a recording: a predicate to put after its name.
    pub fn next(&mut self) -> Result<Next, String> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let (mut first, mut borders) = (0, 0);
        loop {
            let line = self.lines.next().transpose().map_err(unread)?;
            let text = line.as_ref().map(|line| String::from_utf8_lossy(&line.bytes));
            let number = line.as_ref().map_or(0, |line| line.number);
            match text.as_deref().map(str::trim_end) {
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
                Some(text) => {
                    if first == 0 {
                        first = number;
                    }
                    match row(text) {
                        Some(Row::Border) => borders += 1,
                        Some(Row::Value("Variable_name", _)) => {}
                        Some(Row::Value(name, value)) => rows.push((name.to_owned(), value.to_owned())),
                        // mysqladmin was killed while it wrote: in the middle of a table, or of its first line.
                        None if line.as_ref().is_some_and(|line| !line.is_whole)
                            && (first < number || self.tables > 0 && "+-".starts_with(text)) =>
                        {
                            return Ok(Next::CutOff(first));
                        }
                        None => return Err(foreign(number)),
                    }
                }
            }
        }
    }
}

fn unread(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge => format!("is no output of `mysqladmin ext -i 1`: {error}"),
        _ => format!("cannot be read: {error}"),
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
        let border_at = TABLE.trim_end().rfind('\n').unwrap() + 1;
        for cut in 1..TABLE.len() {
            let found = all(&format!("{TABLE}\n{}", &TABLE[..cut]));
            // The border behind the last value says that it was the last.
            let is_cut_off = cut < border_at + "+--".len();
            let is_right = match found[..] {
                [Next::Table(_), Next::CutOff(8)] => is_cut_off,
                [Next::Table(_), Next::Table(_), Next::End] => !is_cut_off,
                _ => false,
            };
            assert!(is_right, "{cut}: {found:?}");
        }
        assert!(matches!(all(&TABLE[..180])[..], [Next::CutOff(1)]));
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
