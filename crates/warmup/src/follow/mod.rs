//! Reads a log to which a server continues to write: each byte once and in order, through every kind of rotation.
//!
//! A log is a chain of generations. Renaming followed by `FLUSH SLOW LOGS` begins a new file; copytruncate empties the same file. One task
//! (`watch`) detects both and appends generations to the chain. Each reader has its own [`Cursor`] in the chain, so that a slow reader
//! delays no other, and files that it has not read yet stay open for it, whatever their names are by then.
//!
//! ```text
//!   slow.log.2          slow.log.1          slow.log
//!   generation 0  ───>  generation 1  ───>  generation 2  (grows)
//!        ^ a slow reader                         ^ the others
//! ```
//!
//! What can be lost: with copytruncate, bytes that the server wrote after the copy was made and before the file was emptied, if no reader
//! read them in between. That loss is inherent in copytruncate; renaming loses nothing.

mod cursor;
mod generation;
mod position;
mod siblings;
mod watch;

pub use cursor::{Cursor, Read};
pub use position::LogPosition;
pub(crate) use position::fnv1a;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use generation::Generation;
use tokio::sync::watch as signal;
use tokio::task::AbortHandle;

/// Why a log cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The file cannot be opened now; it may appear later.
    #[error("the log {path} cannot be read: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Changes cannot be detected.
    #[error(
        "changes of {path} cannot be watched (inotify): {source}; is fs.inotify.max_user_watches or max_user_instances used up?"
    )]
    Unwatchable {
        /// The log's directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// A log that is watched until this is dropped.
pub struct Log {
    shared: Arc<Shared>,
    looked: Arc<Mutex<watch::Looked>>,
    watcher: AbortHandle,
}

/// The state shared by the watching task and the readers.
struct Shared {
    path: PathBuf,
    /// The generation that the server writes, as far as is known; `None` before the file exists.
    newest: Mutex<Option<Arc<Generation>>>,
    /// Incremented each time a change was detected.
    changed: signal::Sender<u64>,
}

impl Log {
    /// Begins to watch the log at `path`. The file need not exist yet, but its directory must. Must be called within a runtime.
    pub fn watch(path: &Path) -> Result<Log, FollowError> {
        let (changed, _) = signal::channel(0);
        let shared = Arc::new(Shared { path: path.to_owned(), newest: Mutex::new(None), changed });
        let (looked, watcher) = watch::begin(&shared)?;
        Ok(Log { shared, looked, watcher })
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// A reader that begins after the last existing byte.
    pub fn at_end(&self) -> Result<Cursor, FollowError> {
        let mut newest = self.looked()?;
        for _ in 0..PLACE_TRIES {
            let length = newest.length().map_err(|source| self.unreadable(source))?;
            let cursor = Cursor::new(Arc::clone(&newest), length, self.shared.changed.subscribe());
            // The log was rotated in the meantime: the length may be that of the next file.
            let again = self.looked()?;
            if Arc::ptr_eq(&newest, &again) {
                return Ok(cursor);
            }
            newest = again;
        }
        // The log is rotated continuously. Reading some bytes twice is better than reading them out of order.
        Ok(Cursor::new(newest, 0, self.shared.changed.subscribe()))
    }

    /// A reader that begins at the first byte of the present file.
    pub fn at_start(&self) -> Result<Cursor, FollowError> {
        Ok(Cursor::new(self.looked()?, 0, self.shared.changed.subscribe()))
    }

    /// A reader that continues after `place`, a position from an earlier reader, in the present file or in a rotated one beside it. `None`
    /// when no file there has those bytes at that position any more.
    pub fn at_place(&self, place: LogPosition) -> Result<Option<Cursor>, FollowError> {
        let mut newest = self.looked()?;
        for _ in 0..PLACE_TRIES {
            let begin = self.chain(place, &newest);
            let changed = self.shared.changed.subscribe();
            let cursor = begin.map(|begin| Cursor::new(begin, place.offset, changed));
            // Files were renamed or emptied during the search: what was found may be out of order, or found twice.
            let again = self.looked()?;
            if Arc::ptr_eq(&newest, &again) {
                return Ok(cursor);
            }
            newest = again;
        }
        Ok(None)
    }

    /// The generation that has these bytes at this position, with the chain from it to `newest`.
    fn chain(&self, place: LogPosition, newest: &Arc<Generation>) -> Option<Arc<Generation>> {
        if newest.has(place) {
            return Some(Arc::clone(newest));
        }
        let mut rotated = siblings::rotated(&self.shared.path);
        // The file may already be renamed, with an empty file in its place, and a copy may be in progress.
        if let Some(own) = rotated.iter().position(|rotated| rotated.id == newest.id) {
            rotated.truncate(own);
        }
        rotated.retain(|rotated| rotated.length > 0 && !watch::is_copy(&rotated.file, &newest.file));
        let first = rotated.iter().position(|rotated| place.is_in(&rotated.file))?;
        let mut chain = Arc::clone(newest);
        for rotated in rotated.into_iter().skip(first).rev() {
            let generation = Generation::new(rotated.file, rotated.id);
            generation.seal(chain);
            chain = Arc::new(generation);
        }
        Some(chain)
    }

    /// The newest generation, examined at this moment.
    fn looked(&self) -> Result<Arc<Generation>, FollowError> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).look();
        self.newest()
    }

    fn newest(&self) -> Result<Arc<Generation>, FollowError> {
        if let Some(generation) = self.shared.newest() {
            return Ok(generation);
        }
        // The watching task has not run yet, or the file does not exist.
        self.shared.open().map_err(|source| self.unreadable(source))
    }

    fn unreadable(&self, source: io::Error) -> FollowError {
        FollowError::Unreadable { path: self.shared.path.clone(), source }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Shared {
    fn newest(&self) -> Option<Arc<Generation>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first generation: the file as it is now.
    fn open(&self) -> io::Result<Arc<Generation>> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(generation) = &*newest {
            return Ok(Arc::clone(generation));
        }
        let generation = Arc::new(Generation::of(File::open(&self.path)?)?);
        *newest = Some(Arc::clone(&generation));
        Ok(generation)
    }

    fn replace(&self, generation: Arc<Generation>) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    }
}

/// The number of attempts to find a position while the log is being rotated.
const PLACE_TRIES: usize = 10;

#[cfg(test)]
mod tests;
