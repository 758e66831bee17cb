//! The task that examines the log whenever the operating system reports a change, and appends generations to the chain.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchDescriptor, WatchMask};
use tokio::task::AbortHandle;

use super::generation::{Cut, FileId, Generation};
use super::position::LogPosition;
use super::siblings::{self, Rotated};
use super::{FollowError, Shared};

/// A busy log changes thousands of times a second: the pause between two examinations, and the longest delay that it adds for readers.
const PAUSE: Duration = Duration::from_millis(10);
/// File systems that other hosts write (NFS) do not report changes: the interval at which the log is examined in any case.
const UNASKED: Duration = Duration::from_millis(500);
/// Between the renaming of a log and the creation of the new file there is briefly none; after this time its absence is logged.
const MISSING_MAX: Duration = Duration::from_secs(5);

/// Begins to watch; ends when the task is aborted.
pub(super) fn begin(shared: &Arc<Shared>) -> Result<(Arc<Mutex<Looked>>, AbortHandle), FollowError> {
    let directory = match shared.path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let unwatchable = |source| FollowError::Unwatchable { path: directory.clone(), source };
    let inotify = Inotify::init().map_err(unwatchable)?;
    inotify
        .watches()
        .add(&directory, WatchMask::CREATE | WatchMask::MOVED_TO | WatchMask::MOVED_FROM | WatchMask::DELETE)
        .map_err(unwatchable)?;
    let events = inotify.into_event_stream([0; 4096]).map_err(unwatchable)?;
    let looked = Looked::new(shared);
    let looked = Arc::new(Mutex::new(looked));
    let watch = Watch { looked: Arc::clone(&looked), shared: Arc::clone(shared), events, file: None };
    Ok((looked, tokio::spawn(watch.run()).abort_handle()))
}

/// The number of attempts to read the directory while the log is being rotated.
const TRIES: usize = 10;

struct Watch {
    looked: Arc<Mutex<Looked>>,
    shared: Arc<Shared>,
    events: EventStream<[u8; 4096]>,
    /// The inotify watch on the newest generation's file.
    file: Option<(FileId, WatchDescriptor)>,
}

impl Watch {
    async fn run(mut self) {
        loop {
            let looked = Arc::clone(&self.looked);
            let look = move || looked.lock().unwrap_or_else(PoisonError::into_inner).look();
            if tokio::task::spawn_blocking(look).await.is_err() {
                return; // the runtime ends
            }
            self.follow_file();
            tokio::time::sleep(PAUSE).await;
            // Changes during the pause are reported immediately.
            let _ = tokio::time::timeout(UNASKED, self.events.next()).await;
        }
    }

    /// Writes to the newest file wake this task. A file that was written before its watch was set is seen by the look that follows.
    fn follow_file(&mut self) {
        let Some(newest) = self.shared.newest() else { return };
        if self.file.as_ref().is_some_and(|(id, _)| *id == newest.id) {
            return;
        }
        let mut watches = self.events.watches();
        if let Some((_, old)) = self.file.take() {
            // The kernel removes the watch when the file is deleted.
            let _ = watches.remove(old);
        }
        match watches.add(&self.shared.path, WatchMask::MODIFY) {
            Ok(descriptor) => self.file = Some((newest.id, descriptor)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(path = %self.shared.path.display(), %error, "writes to the log are not told; it is looked at every 0.5 s")
            }
        }
    }
}

/// The state after the last examination.
pub(super) struct Looked {
    shared: Arc<Shared>,
    /// Rotated files that already existed, and are therefore not new.
    known: HashSet<FileId>,
    /// The end of the newest generation.
    seen: Option<LogPosition>,
    /// The log must be examined again immediately: a generation began that has not been examined yet.
    again: bool,
    missing: Missing,
    /// For tests: called between the examination of the rotated files and that of the log itself.
    #[cfg(test)]
    pub(super) meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

/// Whether the log file exists, and whether its absence was logged.
#[derive(Clone, Copy, Debug)]
enum Missing {
    There,
    Since(Instant),
    Told,
}

impl Looked {
    fn new(shared: &Arc<Shared>) -> Looked {
        Looked {
            shared: Arc::clone(shared),
            known: HashSet::new(),
            seen: None,
            again: false,
            missing: Missing::There,
            #[cfg(test)]
            meanwhile: None,
        }
    }

    /// Examines whether the file was created, grew, was emptied or was replaced, until everything has been processed.
    pub(super) fn look(&mut self) {
        for _ in 0..TRIES {
            self.again = false;
            self.look_once();
            if !self.again {
                break;
            }
        }
        self.tell_missing();
    }

    /// The absence of a log is logged once when it lasts, and so is its return. Readers wait in the meantime and lose nothing.
    fn tell_missing(&mut self) {
        let path = self.shared.path.display();
        self.missing = match (self.missing, self.shared.path.exists()) {
            (Missing::Told, true) => {
                tracing::info!("{path} is there again, and its readers go on");
                Missing::There
            }
            (_, true) => Missing::There,
            (Missing::There, false) => Missing::Since(Instant::now()),
            (Missing::Since(since), false) if since.elapsed() > MISSING_MAX => {
                tracing::warn!(
                    "{path} is not there; readers wait for it. When it was renamed: FLUSH SLOW LOGS makes the server begin it anew. When the \
                     server's disk was full, it may have turned its log off: make space, then SET GLOBAL slow_query_log = ON"
                );
                Missing::Told
            }
            (missing, false) => missing,
        };
    }

    fn look_once(&mut self) {
        let newest = match self.shared.newest() {
            Some(newest) => newest,
            None => match self.shared.open() {
                Ok(newest) => newest,
                Err(_) => return, // it is not there yet; who wants to read it is told why
            },
        };
        if self.seen.is_none() {
            self.known = siblings::rotated(&self.shared.path).into_iter().map(|rotated| rotated.id).collect();
            self.seen = Some(LogPosition::beginning());
        }
        let changed = match self.emptied(&newest) {
            true => self.cut(&newest),
            false => self.replaced(&newest),
        };
        if changed {
            self.shared.changed.send_modify(|looks| *looks += 1);
        }
    }

    /// The bytes that it had are no longer there.
    fn emptied(&self, newest: &Generation) -> bool {
        self.seen.is_some_and(|seen| !seen.is_in(&newest.file))
    }

    /// copytruncate: the same file begins again, and its earlier contents are in the copy.
    fn cut(&mut self, newest: &Arc<Generation>) -> bool {
        let Some(seen) = self.seen.take() else { return false };
        let Ok(file) = newest.file.try_clone() else { return false };
        let mut rotated = siblings::rotated(&self.shared.path);
        // The first that is new, as several fit a place at a file's beginning; or one that was there before it was whole; or one that ended
        // before what was seen, as the server wrote on between the copying and the emptying.
        let found = rotated
            .iter()
            .position(|rotated| self.may_be_copy(seen, newest, rotated))
            .or_else(|| rotated.iter().rposition(|rotated| seen.is_in(&rotated.file)))
            .or_else(|| rotated.iter().position(|rotated| self.may_be_earlier_copy(seen, newest, rotated)));
        // It may have been emptied more than once since the last look: each time a copy was made, which nobody has read yet.
        let mut between = found.map_or_else(Vec::new, |found| rotated.split_off(found + 1));
        // The file itself may be renamed by now: what follows on it comes behind it, and is found by the next look.
        if let Some(own) = between.iter().position(|rotated| rotated.id == newest.id) {
            between.truncate(own);
        }
        between.retain(|rotated| !self.known.contains(&rotated.id) && !is_copy(&rotated.file, &newest.file));
        // What is older than the copy is no news, and neither is anything when there is no copy.
        self.known.extend(rotated.iter().chain(&between).map(|rotated| rotated.id));
        let copy = found.and_then(|found| rotated.into_iter().nth(found)).map(|rotated| rotated.file);
        if copy.is_none() {
            tracing::warn!(
                path = %self.shared.path.display(),
                "the log was emptied in place and no copy of it is beside it: what was written last may be lost to readers; rotate by renaming and FLUSH SLOW LOGS"
            );
        }
        let again = Arc::new(Generation::new(file, newest.id));
        let mut next = Arc::clone(&again);
        for rotated in between.into_iter().rev() {
            let generation = Generation::new(rotated.file, rotated.id);
            generation.seal(next);
            next = Arc::new(generation);
        }
        // The copy may have more than was seen.
        let copied = copy.as_ref().and_then(|copy| copy.metadata().ok()).map_or(0, |about| about.len());
        newest.cut(Cut { copy, length: seen.offset.max(copied) }, next);
        self.begin(again);
        true
    }

    /// Emptied as well, although it still has what was seen of it: that was nothing yet, or the lines that each file begins with. A copy of what
    /// it had is beside it.
    fn was_copied(&self, newest: &Generation, rotated: &[Rotated]) -> bool {
        let Some(seen) = self.seen else { return false };
        // What is behind the file itself was written after it.
        let own = rotated.iter().position(|rotated| rotated.id == newest.id).unwrap_or(rotated.len());
        rotated[..own].iter().any(|rotated| self.may_be_copy(seen, newest, rotated))
    }

    /// A file that was not there before, with what was seen of `newest`, and with something that this has no more.
    fn may_be_copy(&self, seen: LogPosition, newest: &Generation, rotated: &Rotated) -> bool {
        rotated.id != newest.id
            && !self.known.contains(&rotated.id)
            && seen.is_in(&rotated.file)
            && !is_copy(&rotated.file, &newest.file)
    }

    /// A file that was not there before, which is shorter than what was seen of `newest`, and contradicts nothing that was seen of it. Only of
    /// a file that was emptied for certain: of another one, a file of whatever origin could fit.
    fn may_be_earlier_copy(&self, seen: LogPosition, newest: &Generation, rotated: &Rotated) -> bool {
        rotated.id != newest.id
            && !self.known.contains(&rotated.id)
            && rotated.length < seen.offset
            && newest.may_begin_as(&rotated.file)
            && !is_copy(&rotated.file, &newest.file)
    }

    /// Renamed: the server writes, or will write, another file.
    fn replaced(&mut self, newest: &Arc<Generation>) -> bool {
        let Some((present, mut between)) = self.snapshot() else {
            return match self.was_copied(newest, &siblings::rotated(&self.shared.path)) {
                true => self.cut(newest),
                false => self.grown(newest),
            };
        };
        if self.was_copied(newest, &between) {
            return self.cut(newest);
        }
        let grown = self.grown(newest);
        if present.id == newest.id {
            return grown;
        }
        // Others may have come and gone between two looks: those beside it that were not there before, and are no copy of what was read.
        let there: HashSet<FileId> = between.iter().map(|rotated| rotated.id).collect();
        between.retain(|rotated| {
            rotated.id != newest.id
                && !self.known.contains(&rotated.id)
                && !is_copy(&rotated.file, &newest.file)
        });
        let mut chain: Vec<(Generation, u64)> = between
            .into_iter()
            .map(|rotated| (Generation::new(rotated.file, rotated.id), rotated.length))
            .collect();
        let length = present.length().unwrap_or(0);
        chain.push((present, length));
        // A server begins each file with a line of its own. As long as a new one is empty, the server may still write the one before.
        while chain.last().is_some_and(|(_, length)| *length == 0) {
            chain.pop();
        }
        let Some((last, _)) = chain.pop() else { return grown };
        let last = Arc::new(last);
        let mut next = Arc::clone(&last);
        for (generation, _) in chain.into_iter().rev() {
            generation.seal(next);
            next = Arc::new(generation);
        }
        newest.seal(next);
        self.known = there;
        self.begin(last);
        true
    }

    /// The file that has the log's name, and those that were rotated before it; nothing while there is none of that name.
    fn snapshot(&self) -> Option<(Generation, Vec<Rotated>)> {
        for _ in 0..TRIES {
            let present = Generation::of(File::open(&self.shared.path).ok()?).ok()?;
            let rotated = siblings::rotated(&self.shared.path);
            let still = std::fs::metadata(&self.shared.path).is_ok_and(|now| FileId::of(&now) == present.id);
            if still {
                return Some((present, rotated));
            }
        }
        None
    }

    fn grown(&mut self, newest: &Generation) -> bool {
        #[cfg(test)]
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        let now = newest.length().and_then(|length| LogPosition::before(&newest.file, length)).ok();
        let Some(now) = now.filter(|now| self.seen != Some(*now)) else { return false };
        // Of a generation of which nothing was seen yet, only a copy tells that this is not its beginning. It is made before the file is emptied, so
        // it is there by now.
        let is_first = self.seen.is_some_and(|seen| seen.offset == 0);
        if self.emptied(newest) || is_first && self.was_copied(newest, &siblings::rotated(&self.shared.path))
        {
            self.again = true; // this very moment: the next look sees to it
            return false;
        }
        newest.saw(now);
        self.seen = Some(now);
        true
    }

    /// Nothing was seen of it yet: what it has now may be of one that follows it.
    fn begin(&mut self, newest: Arc<Generation>) {
        self.seen = Some(LogPosition::beginning());
        self.again = true;
        self.shared.replace(newest);
    }
}

/// The number of bytes at a file's beginning that two different logs do not share: more than the lines with which a server begins each log.
const HEAD_BYTES: usize = 4096;

/// All of `file`, as far as is looked, is how `other` begins: a copy, perhaps one that is still being made. Of one that is not begun yet nothing can
/// be told, and nothing is missed.
pub(super) fn is_copy(file: &File, other: &File) -> bool {
    let length = |file: &File| file.metadata().map_or(0, |metadata| metadata.len());
    if length(file) > length(other) {
        return false;
    }
    let (mut one, mut two) = (vec![0; HEAD_BYTES], vec![0; HEAD_BYTES]);
    match (file.read_at(&mut one, 0), other.read_at(&mut two, 0)) {
        (Ok(read), Ok(other)) => read <= other && one[..read] == two[..read],
        _ => false,
    }
}
