//! Follows an error log that a server goes on writing: what is new since it was looked at last.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use measure::recovery::log::Lines;

/// Read at one look, at the most: the rest is read at the next.
const PIECE_BYTES: u64 = 1 << 20;

/// A log that is followed. It may be moved away and begun anew, and need not be there all the time.
pub(super) struct Tail {
    path: PathBuf,
    read_bytes: u64,
    lines: Lines,
}

impl Tail {
    /// Begins at its present end.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    pub(super) fn at_end(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let read_bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { path: path.to_owned(), read_bytes, lines: Lines::default() })
    }

    /// The whole lines that are new.
    pub(super) fn lines(&mut self) -> Vec<String> {
        // A log that is not there at the moment is being rotated.
        self.read().map(|bytes| self.lines.feed(&bytes)).unwrap_or_default()
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.read_bytes {
            self.read_bytes = 0;
            self.lines = Lines::default();
        }
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut bytes = Vec::new();
        file.take(PIECE_BYTES).read_to_end(&mut bytes)?;
        self.read_bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_what_is_new_also_when_it_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("error.log");
        assert!(Tail::at_end(&path).is_err());
        std::fs::write(&path, "old\n").unwrap();
        let mut tail = Tail::at_end(&path).unwrap();
        assert!(tail.lines().is_empty());
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"new\nhal").unwrap();
        assert_eq!(tail.lines(), ["new"]);
        file.write_all(b"f\n").unwrap();
        assert_eq!(tail.lines(), ["half"]);
        std::fs::remove_file(&path).unwrap();
        assert!(tail.lines().is_empty());
        std::fs::write(&path, "anew\n").unwrap();
        assert_eq!(tail.lines(), ["anew"]);
    }
}
