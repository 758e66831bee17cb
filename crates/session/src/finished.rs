//! A read whose client has its answer, copied for the warming of other servers.
//!
//! ```text
//!   proxy: a read has ended ──> Finished ──> Offered, in a bounded queue ──> warmup: a log for a replay, or for GET /slow
//! ```
//!
//! Invariant: a read that waits in a queue, or is being processed from it, holds its [`Room`], which limits the bytes of the queue.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A read that has ended well.
#[derive(Debug)]
pub struct Finished {
    /// The session: the proxy's connection id, and in the upper half how often the session was reset (COM_RESET_CONNECTION,
    /// COM_CHANGE_USER). Reads with the same number are sent in the order in which they ran.
    pub session: u64,
    /// The name of the account, as given in the login.
    pub user: Arc<str>,
    /// The client's address.
    pub client: IpAddr,
    /// The default schema for the text.
    pub schema: Option<Box<[u8]>>,
    /// When the client had its answer; microseconds since 1970.
    pub ended_us: u64,
    /// The duration since it was sent to the server; microseconds.
    pub took_us: u64,
    /// Rows in the answer; `None` where the client fetches them itself.
    pub rows_sent: Option<u64>,
    /// The text; for a prepared statement, with its parameters as literals.
    pub sql: Box<[u8]>,
    /// The session's settings that change what a read means.
    pub state: Arc<ReadState>,
    /// With sampling: it stands for this many reads, of which the others were left out; at least 1.
    pub one_in: u64,
    /// Sampling left out whole sessions, and not single reads.
    pub by_session: bool,
}

/// The part of a session's settings that changes what its reads mean: statements for a new connection, in order. They only set variables of
/// the session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    /// The statements.
    pub statements: Vec<String>,
}

/// A share of a queue's bytes; returned when it is dropped.
#[derive(Debug)]
pub struct Room {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Room {
    /// Takes `bytes` of `bytes_max`, of which `used` are taken; `None` when there are not enough.
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
    /// Its share of the queue's bytes.
    pub room: Room,
}

/// What became of the reads for one listener; counted since it began to listen.
#[derive(Debug, Default)]
pub struct Counts {
    /// Put into its queue.
    pub offered: AtomicU64,
    /// Left out because its queue was full.
    pub dropped: AtomicU64,
    /// Bytes of SQL of those.
    pub dropped_bytes: AtomicU64,
    /// Left out because the text, or a prepared statement written as text, is larger than the limit. Commands that the proxy passes on
    /// without keeping them count here, too, even if they are no reads, since they are not parsed.
    pub too_large: AtomicU64,
    /// Left out because no text means the same: parameters of types without a literal, several statements in one text, user variables that
    /// only the server knows, a `sql_mode` that changes the tokens of a text.
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
