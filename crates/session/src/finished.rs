//! A read that a client has its answer of, as it is told to whoever warms another server with it.
//!
//! ```text
//!   proxy: a read has ended ──> Finished ──> Offered, in a bounded queue ──> warmup: a log for a replay, or mirrored at once
//! ```
//!
//! Invariant: what waits in a queue, or is dealt with behind it, holds its [`Room`] there; the queue's bytes are bounded by it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A read that has ended well.
#[derive(Debug)]
pub struct Finished {
    /// The session: the proxy's number of the connection, and in the upper half how often that has begun anew (COM_RESET_CONNECTION,
    /// COM_CHANGE_USER). Two reads with the same number are told in the order in which they ran.
    pub session: u64,
    /// The account's name, as it was said at login.
    pub user: Arc<str>,
    /// Where the client comes from.
    pub client: IpAddr,
    /// The default schema under which the text is to be read.
    pub schema: Option<Box<[u8]>>,
    /// When the client had its answer; microseconds since 1970.
    pub ended_us: u64,
    /// From the moment at which it was sent to the server; microseconds.
    pub took_us: u64,
    /// Rows in the answer; nothing where the client fetches them itself.
    pub rows_sent: Option<u64>,
    /// The text. Of a prepared statement: with its parameters as literals.
    pub sql: Box<[u8]>,
    /// What the session had set, as far as it decides how a read is meant.
    pub state: Arc<ReadState>,
    /// It stands for so many, of which the others were left out; 1 at the least.
    pub one_in: u64,
    /// The others were left out by whole sessions, not one by one.
    pub by_session: bool,
}

/// What a session has set, as far as it decides how its reads are meant: statements that say it on a fresh connection, in the order in which they
/// are to be said. They set variables of the session, and change nothing else.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    /// The statements.
    pub statements: Vec<String>,
}

/// A place in a queue of bounded size; given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Room {
    /// Takes `bytes` of `bytes_max`, of which `used` are taken; `None` when there is no such room.
    pub fn take(used: &Arc<AtomicUsize>, bytes: usize, bytes_max: usize) -> Option<Room> {
        let taken = used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(bytes).filter(|together| *together <= bytes_max)
        });
        taken.is_ok().then(|| Room { used: Arc::clone(used), bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// A read in a listener's queue.
#[derive(Debug)]
pub struct Offered {
    /// The read.
    pub read: Finished,
    /// Its room there.
    pub room: Room,
}

/// What became of the reads that one listener wanted; all counts since it began to listen.
#[derive(Debug, Default)]
pub struct Counts {
    /// Put into its queue.
    pub offered: AtomicU64,
    /// Left out, since its queue was full.
    pub dropped: AtomicU64,
    /// Bytes of SQL of those.
    pub dropped_bytes: AtomicU64,
    /// Left out, since the text, or what a prepared statement would be as a text, is larger than the bound; what does not write and is no
    /// query, too, since it is not looked at. Commands that the proxy passes on without keeping them count here whatever they are.
    pub too_large: AtomicU64,
    /// Left out, since no text says the same: parameters of types without a literal, several statements in one text, user variables that only
    /// the server knows, a `sql_mode` that changes what a text means to a lexer.
    pub not_expressible: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back() {
        let used = Arc::new(AtomicUsize::new(0));
        let first = Room::take(&used, 6, 10).unwrap();
        assert!(Room::take(&used, 5, 10).is_none());
        drop(first);
        assert!(Room::take(&used, 10, 10).is_some());
        assert_eq!(used.load(Relaxed), 0);
        assert!(Room::take(&used, usize::MAX, 10).is_none());
    }
}
