//! The contents of a server's dump, and the format of its file: one line `tablespace,page` for each page, as InnoDB writes and reads it.

use super::spaces::Spaces;

/// The limit of pages in a dump: those of a pool of 2 TiB. More is treated as a broken file.
pub const PAGES_MAX: usize = 1 << 27;

/// A page of a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Page {
    /// The number of its tablespace, which differs between servers.
    pub space: u32,
    /// Its number in the tablespace, from 0.
    pub number: u32,
}

/// The pages that a server has in memory, and the names of its tablespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Identifies the server; equal only for the same one.
    pub server: String,
    /// `innodb_page_size`, in bytes.
    pub page_bytes: u32,
    /// `innodb_buffer_pool_dump_pct`: the dump has at most this percentage of the pool.
    pub dump_percent: u8,
    /// The tablespaces.
    pub spaces: Spaces,
    /// The pages in the dump's order: most recently used first. (With several pool instances, as in MySQL, one instance after the other.)
    pub pages: Vec<Page>,
}

/// Why a text cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line has another format.
    #[error("line {line} is not {wanted}: {text:?}")]
    Line {
        /// From 1.
        line: usize,
        /// The expected format.
        wanted: &'static str,
        /// The beginning of the line.
        text: String,
    },
    /// The text ends too early.
    #[error("it ends in the middle, after {pages} pages")]
    Cut {
        /// The pages read before that.
        pages: usize,
    },
    /// It has more pages or tablespaces than any server.
    #[error("it names more than {PAGES_MAX} pages")]
    TooMany,
}

impl Malformed {
    pub(super) fn line(line: usize, wanted: &'static str, text: &str) -> Malformed {
        Malformed::Line { line, wanted, text: text.chars().take(60).collect() }
    }
}

/// Parses the file that InnoDB wrote.
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

/// Formats a file that InnoDB can load.
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
