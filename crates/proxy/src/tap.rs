//! The tap: reads whose clients have their answers are copied to listeners, which use them to warm another server.
//!
//! ```text
//!   driver: an answer was sent to the client ──> is there a listener? (one relaxed load) ──no──> done
//!                                                  │ yes
//!                                                  v
//!             recorder: for each session: is it a read? wanted, by chance? room in the queue? ──> copied and queued
//! ```
//!
//! Invariant: no client waits for a listener. A read that is not wanted, or has no room, is never copied.

mod long;
mod recorder;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use session::finished::{Counts, Offered, Room};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

pub(crate) use recorder::{AnsweredCommand, Connection, ReadRecorder};

/// What a listener wants of the reads from now on, and how much may wait for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// One read in so many, at least 1; chosen at random.
    pub one_in: u32,
    /// One session in so many: all reads of a chosen session, and none of the others.
    pub by_session: bool,
    /// Reads that may wait in the queue.
    pub reads_max: usize,
    /// Bytes of SQL that may wait in the queue, including reads that were taken out and whose room was not dropped yet.
    pub bytes_max: usize,
    /// A text larger than this is left out.
    pub sql_bytes_max: usize,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            one_in: 1,
            by_session: false,
            reads_max: 16 << 10,
            bytes_max: 32 << 20,
            sql_bytes_max: 64 << 10,
        }
    }
}

/// Where listeners register. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Grows with each change of `listeners`; 0 while there are none.
    edition: AtomicU64,
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    edition: u64,
    all: Arc<[Arc<Listener>]>,
}

/// A listener.
#[derive(Debug)]
struct Listener {
    wish: Wish,
    /// A random number of 32 bits below this is a hit.
    chance: u64,
    one_in: u64,
    queue: mpsc::Sender<Offered>,
    used_bytes: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    /// Tells the task that waits for the listener's end when this is dropped.
    _here: oneshot::Sender<()>,
}

impl Listener {
    /// Room for a text of this many bytes.
    fn room(&self, bytes: usize) -> Option<Room> {
        Room::take(&self.used_bytes, bytes, self.wish.bytes_max)
    }

    /// A read is left out because there is no room.
    fn drops(&self, bytes: usize) {
        self.counts.dropped.fetch_add(1, Relaxed);
        self.counts.dropped_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

impl Tap {
    /// Registers a listener. Dropping the receiver removes it: at once if this was called on a runtime, otherwise with the next read.
    pub fn listen(&self, wish: Wish) -> (mpsc::Receiver<Offered>, Arc<Counts>) {
        let (queue, receiver) = mpsc::channel(wish.reads_max.max(1));
        let (here, gone) = oneshot::channel();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(forget_when_gone(Arc::downgrade(&self.0), queue.clone(), gone));
        }
        let counts = Arc::new(Counts::default());
        let one_in = u64::from(wish.one_in.max(1));
        let listener = Listener {
            wish,
            chance: (1 << 32) / one_in,
            one_in,
            queue,
            used_bytes: Arc::default(),
            counts: Arc::clone(&counts),
            _here: here,
        };
        self.change(|all| all.push(Arc::new(listener)));
        (receiver, counts)
    }

    /// Whether there is a listener.
    #[inline]
    pub fn is_heard(&self) -> bool {
        self.edition() != 0
    }

    /// Grows with each change of the listeners; 0: there is none.
    #[inline]
    fn edition(&self) -> u64 {
        self.0.edition.load(Relaxed)
    }

    fn listeners(&self) -> (u64, Arc<[Arc<Listener>]>) {
        let listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        (self.edition(), Arc::clone(&listeners.all))
    }

    /// Removes the listeners that went away.
    fn forget_gone(&self) {
        self.change(|all| all.retain(|listener| !listener.queue.is_closed()));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Listener>>)) {
        let mut listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = listeners.all.to_vec();
        change(&mut all);
        listeners.edition += 1;
        listeners.all = all.into();
        let edition = if listeners.all.is_empty() { 0 } else { listeners.edition };
        self.0.edition.store(edition, Relaxed);
    }
}

/// Without this, the sessions would continue to examine reads that nobody receives.
async fn forget_when_gone(tap: Weak<Inner>, queue: mpsc::Sender<Offered>, gone: oneshot::Receiver<()>) {
    tokio::select! {
        () = queue.closed() => {}
        // The proxy has ended. Its queue has to end, too, which it does with the last of its senders.
        _ = gone => {}
    }
    if let Some(inner) = tap.upgrade() {
        Tap(inner).forget_gone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_heard_before_and_after() {
        let tap = Tap::default();
        assert!(!tap.is_heard());
        let (first, _) = tap.listen(Wish::default());
        let before = tap.edition();
        let (second, _) = tap.clone().listen(Wish::default());
        assert!(tap.is_heard() && tap.edition() > before);
        assert_eq!(tap.listeners().1.len(), 2);
        drop(first);
        tap.forget_gone();
        assert_eq!(tap.listeners().1.len(), 1);
        drop(second);
        tap.forget_gone();
        assert!(!tap.is_heard());
    }

    #[tokio::test]
    async fn who_goes_is_forgotten_without_a_read() {
        let tap = Tap::default();
        let (first, _) = tap.listen(Wish::default());
        let (mut second, _) = tap.listen(Wish { one_in: 1000, ..Wish::default() });
        drop(first);
        while tap.listeners().1.len() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(tap.is_heard());
        // The proxy ends: so does what it told.
        drop(tap);
        assert!(second.recv().await.is_none());
    }
}
