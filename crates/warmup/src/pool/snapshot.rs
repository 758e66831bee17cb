//! What a server's dump says, and the file that it stands in: one line `tablespace,page` for each page, as InnoDB writes and reads it.

use super::spaces::Spaces;

/// Pages that a dump may name: those of a pool of 2 TiB. More is taken for a broken file.
pub const PAGES_MAX: usize = 1 << 27;

/// A page of a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Page {
    /// The number of its tablespace, which is the server's own.
    pub space: u32,
    /// Its number in there, from 0.
    pub number: u32,
}

/// The pages that a server has in memory, and what its tablespaces are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Tells servers apart; equal only for the same one.
    pub server: String,
    /// `innodb_page_size`.
    pub page_bytes: u32,
    /// `innodb_buffer_pool_dump_pct`: of its pool the server named so many percent at most.
    pub dump_percent: u8,
    /// The tablespaces.
    pub spaces: Spaces,
    /// In the dump's order: most recently used first. (With several pool instances, as MySQL has them: of one instance after the other.)
    pub pages: Vec<Page>,
}

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line is something else.
    #[error("line {line} is not {wanted}: {text:?}")]
    Line {
        /// From 1.
        line: usize,
        /// What should be there.
        wanted: &'static str,
        /// Its beginning.
        text: String,
    },
    /// The text ends too early.
    #[error("it ends in the middle, after {pages} pages")]
    Cut {
        /// Read until then.
        pages: usize,
    },
    /// More than any server has.
    #[error("it names more than {PAGES_MAX} pages")]
    TooMany,
}

impl Malformed {
    pub(super) fn line(line: usize, wanted: &'static str, text: &str) -> Malformed {
        Malformed::Line { line, wanted, text: text.chars().take(60).collect() }
    }
}

/// Reads the file that InnoDB wrote.
pub fn read_dump(text: &str) -> Result<Vec<Page>, Malformed> {
    let mut pages = Vec::with_capacity(text.len() / 8);
    for (at, line) in text.lines().enumerate() {
        let page = page(line).ok_or_else(|| Malformed::line(at + 1, "TABLESPACE,PAGE", line))?;
        if pages.len() >= PAGES_MAX {
            return Err(Malformed::TooMany);
        }
        pages.push(page);
    }
    Ok(pages)
}

/// Writes a file that InnoDB reads.
pub fn write_dump(pages: &[Page]) -> String {
    let mut text = String::with_capacity(pages.len() * 12);
    for page in pages {
        text.push_str(&format!("{},{}\n", page.space, page.number));
    }
    text
}

/// `12,345`.
pub(super) fn page(line: &str) -> Option<Page> {
    let (space, number) = line.split_once(',')?;
    Some(Page { space: space.parse().ok()?, number: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_read_and_written_as_innodb_does() {
        let text = "0,311\n5,3\n4294967294,7\n";
        let pages = read_dump(text).unwrap();
        assert_eq!(pages[1], Page { space: 5, number: 3 });
        assert_eq!(write_dump(&pages), text);
        assert_eq!(read_dump("").unwrap(), []);
    }

    #[test]
    fn what_is_no_dump_is_told_with_its_line() {
        for (text, said) in [
            ("1,2\nx\n", "line 2 is not TABLESPACE,PAGE: \"x\""),
            ("1,2\n1,\n", "line 2 is not TABLESPACE,PAGE: \"1,\""),
            ("-1,2\n", "line 1 is not TABLESPACE,PAGE: \"-1,2\""),
            ("1,4294967296\n", "line 1 is not TABLESPACE,PAGE: \"1,4294967296\""),
        ] {
            assert_eq!(read_dump(text).unwrap_err().to_string(), said);
        }
    }
}
