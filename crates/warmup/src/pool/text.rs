//! The text format of a snapshot for HTTP: human-readable lines, with a last line that shows that nothing is missing.
//!
//! ```text
//! understudy buffer pool 1
//! server 9f86d081884c7d65
//! page_bytes 16384
//! dump_percent 25
//! tablespace 5 6400 shop/orders          number, pages of its file (or -), name
//! pages
//! 5,3                                    tablespace,page: most recently used first
//! end 1                                  how many pages there were
//! ```
//!
//! Head lines with unknown words are skipped, so that later versions may add some.

use super::snapshot::{Malformed, PAGES_MAX, Page, Snapshot, page, write_dump};
use super::spaces::Space;

/// The first line; its number changes when older readers would misinterpret the rest.
const FIRST: &str = "understudy buffer pool 1";
/// The limit of a line, in bytes: a tablespace's name has up to 2 x 5 x 64 bytes, and some other characters.
const LINE_BYTES_MAX: usize = 4096;
/// The limit of tablespaces, one for each table and partition; more is treated as a broken text.
const SPACES_MAX: usize = 10_000_000;
/// The number of pages in one part of the text.
const PAGES_A_PART: usize = 8192;

/// The text, in parts.
pub fn write(snapshot: Snapshot) -> impl Iterator<Item = String> {
    let mut head = format!(
        "{FIRST}\nserver {}\npage_bytes {}\ndump_percent {}\n",
        snapshot.server, snapshot.page_bytes, snapshot.dump_percent
    );
    for (number, space) in snapshot.spaces.iter() {
        let pages = space.pages.map_or_else(|| "-".to_owned(), |pages| pages.to_string());
        head.push_str(&format!("tablespace {number} {pages} {}\n", space.name));
    }
    head.push_str("pages\n");
    let pages = snapshot.pages;
    let end = format!("end {}\n", pages.len());
    let mut at = 0;
    let parts = std::iter::from_fn(move || {
        let part = pages.get(at..)?;
        at += PAGES_A_PART;
        (!part.is_empty()).then(|| write_dump(&part[..part.len().min(PAGES_A_PART)]))
    });
    std::iter::once(head).chain(parts).chain(std::iter::once(end))
}

/// Parses the text in pieces of any size.
#[derive(Debug, Default)]
pub struct Parser {
    snapshot: Snapshot,
    state: State,
    line: usize,
    rest: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    First,
    Head,
    Pages,
    Ended,
}

impl Parser {
    /// Parses the next piece.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), Malformed> {
        while let Some(at) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = (&piece[..at], &piece[at + 1..]);
            piece = behind;
            if self.rest.is_empty() {
                self.take(&String::from_utf8_lossy(line))?;
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.take(&String::from_utf8_lossy(&whole))?;
            }
        }
        self.rest.extend_from_slice(piece);
        if self.rest.len() > LINE_BYTES_MAX {
            let line = String::from_utf8_lossy(&self.rest);
            return Err(Malformed::line(self.line + 1, "a line of a buffer pool's text", &line));
        }
        Ok(())
    }

    /// The snapshot, if the text is complete.
    pub fn finish(self) -> Result<Snapshot, Malformed> {
        match self.state {
            State::Ended if self.rest.is_empty() => Ok(self.snapshot),
            _ => Err(Malformed::Cut { pages: self.snapshot.pages.len() }),
        }
    }

    fn take(&mut self, line: &str) -> Result<(), Malformed> {
        self.line += 1;
        let wrong = |wanted| Malformed::line(self.line, wanted, line);
        match self.state {
            State::First if line == FIRST => self.state = State::Head,
            State::First => return Err(wrong("`understudy buffer pool 1`")),
            State::Head if line == "pages" => {
                // Both values are required: the page size is used as a divisor.
                if self.snapshot.page_bytes == 0 || self.snapshot.server.is_empty() {
                    return Err(wrong("`server` or `page_bytes`, one of which is missing"));
                }
                self.state = State::Pages;
            }
            State::Head => self.head(line)?,
            State::Pages => match line.strip_prefix("end ") {
                Some(count) if count.parse() == Ok(self.snapshot.pages.len()) => self.state = State::Ended,
                Some(_) => return Err(wrong("the number of pages that came before")),
                None => {
                    let page: Page = page(line).ok_or_else(|| wrong("TABLESPACE,PAGE"))?;
                    if self.snapshot.pages.len() >= PAGES_MAX {
                        return Err(Malformed::TooMany);
                    }
                    self.snapshot.pages.push(page);
                }
            },
            State::Ended => return Err(wrong("the end")),
        }
        Ok(())
    }

    fn head(&mut self, line: &str) -> Result<(), Malformed> {
        let wrong = |wanted| Malformed::line(self.line, wanted, line);
        let (word, value) = line.split_once(' ').ok_or_else(|| wrong("a word and its value"))?;
        match word {
            "server" => self.snapshot.server = value.to_owned(),
            "page_bytes" => {
                self.snapshot.page_bytes = value.parse().map_err(|_| wrong("page_bytes NUMBER"))?;
            }
            "dump_percent" => {
                self.snapshot.dump_percent = value.parse().map_err(|_| wrong("dump_percent NUMBER"))?;
            }
            "tablespace" => {
                let (number, space) =
                    tablespace(value).ok_or_else(|| wrong("tablespace NUMBER PAGES NAME"))?;
                if self.snapshot.spaces.len() >= SPACES_MAX {
                    return Err(Malformed::TooMany);
                }
                self.snapshot.spaces.insert(number, space);
            }
            _ => {}
        }
        Ok(())
    }
}

/// `5 6400 shop/orders`.
fn tablespace(value: &str) -> Option<(u32, Space)> {
    let mut words = value.splitn(3, ' ');
    let number = words.next()?.parse().ok()?;
    let pages = match words.next()? {
        "-" => None,
        pages => Some(pages.parse().ok()?),
    };
    let name = words.next().filter(|name| !name.is_empty())?.to_owned();
    Some((number, Space { name, pages }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(pages: u32) -> Snapshot {
        let mut snapshot = Snapshot {
            server: "9f86".to_owned(),
            page_bytes: 16384,
            dump_percent: 25,
            pages: (0..pages).map(|number| Page { space: 5, number }).collect(),
            ..Snapshot::default()
        };
        snapshot.spaces.insert(5, Space { name: "shop/a b".to_owned(), pages: Some(6400) });
        snapshot.spaces.insert(9, Space { name: "shared".to_owned(), pages: None });
        snapshot
    }

    fn read(text: &[u8], piece: usize) -> Result<Snapshot, Malformed> {
        let mut parser = Parser::default();
        for piece in text.chunks(piece) {
            parser.feed(piece)?;
        }
        parser.finish()
    }

    #[test]
    fn what_is_written_is_read_in_pieces_of_any_size() {
        for pages in [0, 1, 3, 8192, 20_000] {
            let text: String = write(snapshot(pages)).collect();
            for piece in [1, 7, 1000, usize::MAX >> 1] {
                assert_eq!(read(text.as_bytes(), piece).unwrap(), snapshot(pages));
            }
        }
    }

    #[test]
    fn a_text_that_was_cut_anywhere_is_not_taken() {
        let text: String = write(snapshot(3)).collect();
        for length in 0..text.len() {
            assert!(read(&text.as_bytes()[..length], 5).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let head = "understudy buffer pool 1\nserver 1\npage_bytes 16384\n";
        for (text, said) in [
            ("<html>\n".to_owned(), "line 1 is not `understudy buffer pool 1`: \"<html>\""),
            (
                format!("{head}tablespace 5 x y\n"),
                "line 4 is not tablespace NUMBER PAGES NAME: \"tablespace 5 x y\"",
            ),
            (format!("{head}pages\n5;3\n"), "line 5 is not TABLESPACE,PAGE: \"5;3\""),
            (
                format!("{head}pages\n5,3\nend 2\n"),
                "line 6 is not the number of pages that came before: \"end 2\"",
            ),
            (format!("{head}pages\nend 0\nx\n"), "line 6 is not the end: \"x\""),
            (
                "understudy buffer pool 1\npages\n".to_owned(),
                "line 2 is not `server` or `page_bytes`, one of which is missing: \"pages\"",
            ),
        ] {
            assert_eq!(read(text.as_bytes(), 9).unwrap_err().to_string(), said);
        }
        let endless = vec![b'x'; 5000];
        assert!(read(&endless, 100).is_err());
        let later = format!("{head}something new\npages\nend 0\n");
        assert!(read(later.as_bytes(), 9).is_ok());
    }
}
