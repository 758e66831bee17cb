//! One file of a log's chain, from its beginning until the server wrote elsewhere.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::LogPosition;

/// Which file it is, whatever its name. An inode's number is used again once its file is gone, so the time of birth belongs to it where the
/// file system has one.
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

/// One file of the chain.
pub(super) struct Generation {
    pub(super) file: File,
    pub(super) id: FileId,
    /// Set once nothing can be added to this file any more.
    next: OnceLock<Arc<Generation>>,
    /// Set, before `next`, when the file was emptied in place.
    cut: OnceLock<Cut>,
    /// Set, before `next`: the bytes that the file had then. It may be cut later, by whoever removes old logs.
    sealed_bytes: OnceLock<u64>,
    /// A place that the watching task saw in it. A file that still has those bytes was not emptied since.
    seen: OnceLock<LogPosition>,
}

/// What became of a generation that copytruncate ended: its bytes are gone from the file.
pub(super) struct Cut {
    /// The copy that was made of it, where one was found.
    pub(super) copy: Option<File>,
    /// Bytes that the file had when it was last looked at.
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

    /// This file has these bytes, and they are still its own.
    pub(super) fn has(&self, place: LogPosition) -> bool {
        self.cut.get().is_none() && place.is_in(&self.file)
    }

    /// Nothing is added any more: the server writes `next`.
    pub(super) fn seal(&self, next: Arc<Generation>) {
        // It is sealed once: only the watching task does it.
        let _ = self.sealed_bytes.set(self.length().unwrap_or(0));
        let _ = self.next.set(next);
    }

    /// Bytes that the file had when the server went on elsewhere; 0 as long as it has not.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes.get().copied().unwrap_or(0)
    }

    /// The watching task saw these bytes in it, and no copy beside it that has what it had before. Only the first place is kept.
    pub(super) fn saw(&self, place: LogPosition) {
        let _ = self.seen.set(place);
    }

    /// The file has the bytes now that the watching task saw in this generation: what was read from it before this was asked is its own.
    pub(super) fn is_unchanged(&self) -> bool {
        self.seen.get().is_some_and(|seen| seen.is_in(&self.file))
    }

    /// The file was emptied; what it has from now on is `next`.
    pub(super) fn cut(&self, cut: Cut, next: Arc<Generation>) {
        let _ = self.cut.set(cut);
        self.seal(next);
    }

    pub(super) fn next(&self) -> Option<&Arc<Generation>> {
        self.next.get()
    }

    /// Known only together with the next one.
    pub(super) fn is_cut(&self) -> Option<&Cut> {
        self.next.get()?;
        self.cut.get()
    }
}

impl Drop for Generation {
    /// A long chain is let go of one by one, so that its length is not the stack's depth.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(generation) = next {
            next = Arc::into_inner(generation).and_then(|mut generation| generation.next.take());
        }
    }
}
