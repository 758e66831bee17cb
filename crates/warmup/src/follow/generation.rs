//! A generation: one file of a log, from its beginning until the server continued in another file.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::position::LogPosition;

/// The identity of a file, independent of its name. An inode number may be reused after its file is deleted, so the birth time is included
/// where the file system has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino(), born: metadata.created().ok() }
    }
}

/// One file in the chain of generations.
pub(super) struct Generation {
    pub(super) file: File,
    pub(super) id: FileId,
    /// Set once nothing can be added to this file any more.
    next: OnceLock<Arc<Generation>>,
    /// Set before `next`, when the file was emptied in place.
    cut: OnceLock<Cut>,
    /// Set before `next`: the length of the file at that time. A clean-up of old logs may truncate it later.
    sealed_bytes: OnceLock<u64>,
    /// A position that the watching task saw in it. A file that still has those bytes has not been emptied since.
    seen: OnceLock<LogPosition>,
}

/// What is known of a generation that copytruncate ended: its bytes are no longer in the file.
pub(super) struct Cut {
    /// The copy that was made of it, if one was found.
    pub(super) copy: Option<File>,
    /// The length of the file when it was last examined.
    pub(super) length: u64,
}

impl Generation {
    pub(super) fn of(file: File) -> io::Result<Generation> {
        let id = FileId::of(&file.metadata()?);
        Ok(Generation::new(file, id))
    }

    pub(super) fn new(file: File, id: FileId) -> Generation {
        Generation {
            file,
            id,
            next: OnceLock::new(),
            cut: OnceLock::new(),
            sealed_bytes: OnceLock::new(),
            seen: OnceLock::new(),
        }
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether this file still has these bytes of its own.
    pub(super) fn has(&self, place: LogPosition) -> bool {
        self.cut.get().is_none() && place.is_in(&self.file)
    }

    /// Seals the generation: the server now writes `next`.
    pub(super) fn seal(&self, next: Arc<Generation>) {
        // Only the watching task seals a generation, and only once.
        let _ = self.sealed_bytes.set(self.length().unwrap_or(0));
        let _ = self.next.set(next);
    }

    /// The length of the file when the server continued elsewhere; 0 before that.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes.get().copied().unwrap_or(0)
    }

    /// Records that the watching task saw these bytes in the file, and no copy with its earlier contents beside it. Only the first position
    /// is kept.
    pub(super) fn saw(&self, place: LogPosition) {
        let _ = self.seen.set(place);
    }

    /// Whether the file now has the bytes that the watching task saw in this generation. If so, everything that was read before this call
    /// belongs to this generation.
    pub(super) fn is_unchanged(&self) -> bool {
        self.seen.get().is_some_and(|seen| seen.is_in(&self.file))
    }

    /// Whether nothing that the watching task saw first in this generation contradicts that `file` is its beginning.
    pub(super) fn may_begin_as(&self, file: &File) -> bool {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        self.seen.get().is_none_or(|first| first.offset > length || first.is_in(file))
    }

    /// Records that the file was emptied: its contents from now on are `next`.
    pub(super) fn cut(&self, cut: Cut, next: Arc<Generation>) {
        let _ = self.cut.set(cut);
        self.seal(next);
    }

    pub(super) fn next(&self) -> Option<&Arc<Generation>> {
        self.next.get()
    }

    /// Set at the same time as the next generation.
    pub(super) fn is_cut(&self) -> Option<&Cut> {
        self.next.get()?;
        self.cut.get()
    }
}

impl Drop for Generation {
    /// A long chain is dropped iteratively, because a recursive drop would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(generation) = next {
            next = Arc::into_inner(generation).and_then(|mut generation| generation.next.take());
        }
    }
}
