//! One reader's place in the chain, and the step from one generation to the next.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tokio::sync::watch as signal;

use super::generation::{Cut, Generation};
use super::{KNOWN_BY_BYTES, LogPosition};

/// What reading brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes, which follow those before.
    Bytes(usize),
    /// The file ended here; what comes next is the beginning of another. `lost_bytes` were in the file and could not be read any more.
    Rotated {
        /// Bytes that were gone before this reader came to them: not 0 only when a file was emptied and no copy has them.
        lost_bytes: u64,
    },
    /// Nothing more at present.
    End,
}

/// A reader of its own in a log.
pub struct Cursor {
    generation: Arc<Generation>,
    offset: u64,
    /// The bytes before `offset`, as they were read: when the file has others there now, it was emptied and written anew.
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

    /// Reads what there is now, at most as much as fits into `into`. Never waits for the writer.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Read> {
        // Asked before the file is read: once the next one is there, nothing is added behind what is read now.
        let next = self.generation.next().cloned();
        if let (Some(cut), Some(next)) = (self.generation.is_cut(), &next) {
            let (read, lost_bytes) = self.rest(cut, into)?;
            return Ok(self.advance(into, read, Some((next.clone(), lost_bytes))));
        }
        // A file that was renamed may be cut by whoever removes old logs, under the eyes of a reader that is far behind.
        let lost_bytes = self.generation.sealed_bytes().saturating_sub(self.offset);
        let next = next.map(|next| (next, lost_bytes));
        match self.same_file(into, next.is_some())? {
            Some(read) => Ok(self.advance(into, read, next)),
            None if next.is_some() => Ok(self.advance(into, 0, next)),
            // Emptied, and the watching task has not said so yet.
            None => Ok(Read::End),
        }
    }

    /// Waits until there may be more to read.
    pub async fn changed(&mut self) {
        // The log is watched no more: nothing will come, and the caller's own end ends this.
        if self.changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Where it stands, to go on from there another time.
    pub fn place(&self) -> LogPosition {
        LogPosition { offset: self.offset, checksum: super::fnv1a(&self.before) }
    }

    /// A place before this one, in the same file; nothing when the file does not have its bytes any more.
    pub fn place_at(&self, offset: u64) -> Option<LogPosition> {
        let file = match self.generation.is_cut() {
            Some(cut) => cut.copy.as_ref()?,
            None => &self.generation.file,
        };
        LogPosition::before(file, offset).ok()
    }

    /// Something changed since it was waited for.
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

    /// Files that are kept open for this reader, although the server writes another one already.
    pub fn behind_files(&self) -> usize {
        let mut generation = &self.generation;
        let mut files = 0;
        while let Some(next) = generation.next() {
            files += 1;
            generation = next;
        }
        files
    }

    /// Leaves out everything up to the last byte that there is now; gives how many bytes that were.
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

    /// Bytes of the file itself; nothing when it is not the one that was read before. A sealed file has no other generation's bytes.
    fn same_file(&self, into: &mut [u8], is_sealed: bool) -> io::Result<Option<usize>> {
        let read = read_at(&self.generation.file, into, self.offset)?;
        // Compared after reading: what was read is from before the file was emptied, or this shows it.
        let same = match self.before.len() {
            // Nothing was read yet that could be known again, so the watching task's word counts.
            0 => self.offset == 0 && (is_sealed || self.generation.is_unchanged()),
            known => {
                let mut before = vec![0; known];
                let at = self.offset - known as u64;
                read_at(&self.generation.file, &mut before, at)? == known && before == self.before
            }
        };
        Ok(same.then_some(read))
    }

    /// Bytes of a file that was emptied, out of its copy; and those that the copy does not have, once it has no more.
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
        // Also when it was cut since.
        None => generation.length().unwrap_or(0).max(generation.sealed_bytes()),
    }
}

/// As many bytes as there are, up to the end of `into`.
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
