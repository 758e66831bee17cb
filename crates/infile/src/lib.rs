//! Reads files that others wrote, and holds no more of them than a limit: small ones (settings, keys, options) whole, recordings line by line.
//! Another file that was named instead, a backup or `/dev/zero`, is refused in a sentence before it fills the memory.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

/// The most that is read of a small file. What people write is some kilobytes; a certificate's whole chain is less than a tenth of this.
pub const BYTES_MAX: u64 = 4 << 20;

/// The file's bytes.
///
/// # Errors
/// When it cannot be read, or has more than [`BYTES_MAX`] bytes.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    whole(File::open(path)?)
}

/// The file's text.
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    text(read(path)?)
}

/// The text of an open file, or of standard input.
///
/// # Errors
/// As [`read_text`].
pub fn read_text_from(source: impl Read) -> io::Result<String> {
    text(whole(source)?)
}

/// A recording's lines.
pub struct Lines<R> {
    source: R,
    number: u64,
    bytes_max: usize,
}

/// A line of a recording, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes, which may be no text: whoever wrote them may have been killed in the middle of a character.
    pub bytes: Vec<u8>,
    /// It has its end: one that has not may be cut off.
    pub is_whole: bool,
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most `bytes_max` bytes.
    pub fn new(source: R, bytes_max: usize) -> Self {
        Self { source, number: 0, bytes_max }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    /// An error when the source cannot be read, or has a longer line: then it is no such recording.
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<io::Result<Line>> {
        let mut bytes = Vec::new();
        self.number += 1;
        match (&mut self.source).take(self.bytes_max as u64 + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        let is_whole = bytes.pop_if(|byte| *byte == b'\n').is_some();
        if bytes.len() > self.bytes_max {
            return Some(Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "line {} has more than {} KiB, which no such line has",
                    self.number,
                    self.bytes_max >> 10
                ),
            )));
        }
        Some(Ok(Line { number: self.number, bytes, is_whole }))
    }
}

fn whole(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB, which no such file has: name the right one", BYTES_MAX >> 20),
        ));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not text in UTF-8 (byte {})", at + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused_and_what_is_not_is_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a\nä").unwrap();
        assert_eq!(read_text(file.path()).unwrap(), "a\nä");
        std::fs::write(file.path(), b"ok\xff").unwrap();
        assert_eq!(read(file.path()).unwrap(), b"ok\xff");
        assert_eq!(read_text(file.path()).unwrap_err().to_string(), "it is not text in UTF-8 (byte 3)");
        file.as_file().set_len(BYTES_MAX).unwrap();
        assert_eq!(read(file.path()).unwrap().len() as u64, BYTES_MAX);
        for length in [BYTES_MAX + 1, 1 << 30] {
            file.as_file().set_len(length).unwrap();
            assert!(read(file.path()).unwrap_err().to_string().starts_with("it has more than 4 MiB"));
        }
        assert_eq!(read_text("/dev/zero").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read("/no/such/file").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn lines_come_one_by_one_and_none_is_too_long() {
        let of =
            |text: &[u8]| Lines::new(text, 1024).collect::<io::Result<Vec<_>>>().map_err(|e| e.to_string());
        let line = |number, bytes: &[u8], is_whole| Line { number, bytes: bytes.to_vec(), is_whole };
        assert_eq!(of(b""), Ok(vec![]));
        let lines = [line(1, b"a\r", true), line(2, b"", true), line(3, b"\xff", false)];
        assert_eq!(of(b"a\r\n\n\xff"), Ok(lines.to_vec()));
        let longest = vec![b'x'; 1024];
        assert_eq!(of(&[&longest[..], b"\n"].concat()), Ok(vec![line(1, &longest, true)]));
        assert_eq!(of(&longest), Ok(vec![line(1, &longest, false)]));
        let longer = [b"a\n", &longest[..], b"x"].concat();
        assert_eq!(of(&longer).unwrap_err(), "line 2 has more than 1 KiB, which no such line has");
        let zeros = io::BufReader::new(File::open("/dev/zero").unwrap());
        assert!(Lines::new(zeros, 1 << 20).next().unwrap().is_err());
    }
}
