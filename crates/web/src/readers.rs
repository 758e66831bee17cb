//! Who reads the live view: at most [`READERS_MAX`] at one time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Readers at one time.
pub(crate) const READERS_MAX: usize = 32;
/// There is an event each second: a reader that has taken none for so long counts as stalled.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(30);

/// The connected readers.
#[derive(Default)]
pub struct Readers {
    all: Mutex<Vec<Weak<Reader>>>,
}

pub(crate) struct Reader {
    last: Mutex<Instant>,
    /// Its slot was given to another reader.
    pub(crate) is_out: AtomicBool,
}

impl Readers {
    /// A slot; `None` when all are taken by readers that are not stalled.
    pub(crate) fn enter(&self, now: Instant) -> Option<Arc<Reader>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|reader| reader.strong_count() > 0);
        if all.len() >= READERS_MAX {
            let stalled = |reader: &Weak<Reader>| reader.upgrade().filter(|reader| reader.is_stalled(now));
            let (place, reader) =
                all.iter().enumerate().find_map(|(place, reader)| Some((place, stalled(reader)?)))?;
            reader.is_out.store(true, Relaxed);
            all.swap_remove(place);
        }
        let reader = Arc::new(Reader { last: Mutex::new(now), is_out: AtomicBool::new(false) });
        all.push(Arc::downgrade(&reader));
        Some(reader)
    }
}

impl Reader {
    fn is_stalled(&self, now: Instant) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last) >= STALLED_AFTER
    }

    pub(crate) fn took(&self, now: Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_stands_still_makes_place_and_one_that_reads_does_not() {
        let readers = Readers::default();
        let start = Instant::now();
        let mut held: Vec<_> = (0..READERS_MAX).map(|_| readers.enter(start)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(readers.enter(start).is_none(), "all places are taken");
        held.pop();
        let last = readers.enter(start);
        assert!(last.is_some(), "one has left");
        let later = start + STALLED_AFTER;
        for reader in held.iter().flatten().skip(1) {
            reader.took(later);
        }
        if let Some(last) = &last {
            last.took(later);
        }
        let next = readers.enter(later);
        assert!(next.is_some(), "one stands still");
        assert!(held[0].as_ref().is_some_and(|reader| reader.is_out.load(Relaxed)), "and is out");
        assert!(readers.enter(later).is_none());
    }
}
