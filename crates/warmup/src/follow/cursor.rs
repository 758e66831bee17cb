//! A reader's position in the chain, and the step from one generation to the next.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tokio::sync::watch as signal;

use super::generation::{Cut, Generation};
use super::position::{KNOWN_BY_BYTES, LogPosition, fnv1a};

/// The result of reading.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// This many bytes, which follow the previous ones.
    Bytes(usize),
    /// The file ended here; the next bytes are the beginning of another file. `lost_bytes` were in the file and could no longer be read.
    Rotated {
        /// Bytes that were gone before this reader reached them: not 0 only when a file was emptied and no copy contains them.
        lost_bytes: u64,
    },
    /// There is nothing more at present.
    End,
}

/// An independent reader of a log.
pub struct Cursor {
    generation: Arc<Generation>,
    offset: u64,
    /// The bytes before `offset` as they were read: if the file has other bytes there now, it was emptied and written again.
    before: Vec<u8>,
    changed: signal::Receiver<u64>,
}

impl Cursor {
    pub(super) fn new(generation: Arc<Generation>, offset: u64, changed: signal::Receiver<u64>) -> Cursor {
        let mut cursor = Cursor { generation, offset, before: Vec::new(), changed };
        let known = KNOWN_BY_BYTES.min(offset);
        let mut before = vec![0; known as usize];
        if cursor.generation.file.read_exact_at(&mut before, offset - known).is_ok() {
            cursor.before = before;
        }
        cursor
    }

    /// Reads what is available, at most as much as fits into `into`. Never waits for the server to write.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Read> {
        // Checked before the file is read: once the next generation exists, nothing is added after what is read now.
        let next = self.generation.next().cloned();
        if let (Some(cut), Some(next)) = (self.generation.is_cut(), &next) {
            let (read, lost_bytes) = self.rest(cut, into)?;
            return Ok(self.advance(into, read, Some((next.clone(), lost_bytes))));
        }
        // A clean-up of old logs may truncate a renamed file while a reader that is far behind still reads it.
        let lost_bytes = self.generation.sealed_bytes().saturating_sub(self.offset);
        let next = next.map(|next| (next, lost_bytes));
        match self.same_file(into, next.is_some())? {
            Some(read) => Ok(self.advance(into, read, next)),
            None if next.is_some() => Ok(self.advance(into, 0, next)),
            // The file was emptied, and the watching task has not reported it yet.
            None => Ok(Read::End),
        }
    }

    /// Waits until more may be available.
    pub async fn changed(&mut self) {
        // The log is no longer watched: nothing will come, and this waits until the caller ends it.
        if self.changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The present position, from which another reader can continue later.
    pub fn place(&self) -> LogPosition {
        LogPosition { offset: self.offset, checksum: fnv1a(&self.before) }
    }

    /// An earlier position in the same file; `None` when the file no longer has its bytes.
    pub fn place_at(&self, offset: u64) -> Option<LogPosition> {
        let file = match self.generation.is_cut() {
            Some(cut) => cut.copy.as_ref()?,
            None => &self.generation.file,
        };
        LogPosition::before(file, offset).ok()
    }

    /// Whether anything changed since the last wait.
    pub fn has_changed(&self) -> bool {
        self.changed.has_changed().unwrap_or(false)
    }

    /// Bytes that the server has written and that were not read yet.
    pub fn behind_bytes(&self) -> u64 {
        let mut generation = &self.generation;
        let mut bytes = length(generation).saturating_sub(self.offset);
        while let Some(next) = generation.next() {
            bytes += length(next);
            generation = next;
        }
        bytes
    }

    /// The number of files that are kept open for this reader although the server already writes another one.
    pub fn behind_files(&self) -> usize {
        let mut generation = &self.generation;
        let mut files = 0;
        while let Some(next) = generation.next() {
            files += 1;
            generation = next;
        }
        files
    }

    /// Skips everything up to the last existing byte; returns the number of bytes skipped.
    pub fn skip_to_end(&mut self) -> u64 {
        let (mut generation, mut from, mut skipped) = (Arc::clone(&self.generation), self.offset, 0);
        while let Some(next) = generation.next().cloned() {
            skipped += length(&generation).saturating_sub(from);
            (generation, from) = (next, 0);
        }
        let end = length(&generation);
        let at_end = Cursor::new(Arc::clone(&generation), end, self.changed.clone());
        if generation.is_unchanged() {
            *self = at_end;
            return skipped + end.saturating_sub(from);
        }
        // Emptied in this moment, or not looked at yet: its end may be another generation's. Its beginning is certain.
        if !Arc::ptr_eq(&generation, &self.generation) {
            *self = Cursor::new(generation, 0, self.changed.clone());
        }
        skipped
    }

    /// Reads from the file itself; `None` when it is not the file that was read before. A sealed file contains only bytes of its own
    /// generation.
    fn same_file(&self, into: &mut [u8], is_sealed: bool) -> io::Result<Option<usize>> {
        let read = read_at(&self.generation.file, into, self.offset)?;
        // Compared after reading: either the bytes were read before the file was emptied, or the comparison detects it.
        let same = match self.before.len() {
            // Nothing was read yet that could be compared, so the watching task decides.
            0 => self.offset == 0 && (is_sealed || self.generation.is_unchanged()),
            known => {
                let mut before = vec![0; known];
                let at = self.offset - known as u64;
                read_at(&self.generation.file, &mut before, at)? == known && before == self.before
            }
        };
        Ok(same.then_some(read))
    }

    /// Reads from the copy of a file that was emptied. At its end, returns the number of bytes that the copy does not contain.
    fn rest(&self, cut: &Cut, into: &mut [u8]) -> io::Result<(usize, u64)> {
        let Some(copy) = &cut.copy else { return Ok((0, cut.length.saturating_sub(self.offset))) };
        let read = read_at(copy, into, self.offset)?;
        let lost = if read == 0 { cut.length.saturating_sub(self.offset) } else { 0 };
        Ok((read, lost))
    }

    fn advance(&mut self, into: &[u8], read: usize, next: Option<(Arc<Generation>, u64)>) -> Read {
        if read > 0 {
            self.offset += read as u64;
            let keep = KNOWN_BY_BYTES as usize;
            let bytes = &into[..read];
            if bytes.len() >= keep {
                self.before.clear();
                self.before.extend_from_slice(&bytes[bytes.len() - keep..]);
            } else {
                self.before.extend_from_slice(bytes);
                let surplus = self.before.len().saturating_sub(keep);
                self.before.drain(..surplus);
            }
            return Read::Bytes(read);
        }
        let Some((next, lost_bytes)) = next else { return Read::End };
        self.generation = next;
        self.offset = 0;
        self.before.clear();
        Read::Rotated { lost_bytes }
    }
}

fn length(generation: &Generation) -> u64 {
    match generation.is_cut() {
        Some(cut) => cut.length,
        // Correct also when the file was truncated since.
        None => generation.length().unwrap_or(0).max(generation.sealed_bytes()),
    }
}

/// Reads as many bytes as there are, up to the length of `into`.
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
