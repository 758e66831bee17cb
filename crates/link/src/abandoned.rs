//! Connections that were closed with a reset because their server was given up. A reset is sent once: if the network is down at that moment, the
//! server never learns of it, and keeps the session with its transaction and its locks. Whoever reaches the server again can end it by its
//! number ([`take`]).
//!
//! One list for the whole process: the proxy closes the connections, and the manager reaches the servers. It is bounded, by the number of
//! connections of each server. No I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most that are remembered of one server; the oldest are dropped.
const OF_A_SERVER_MAX: usize = 20_000;
/// A reset that arrives has ended the session by then.
pub const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The server's number for it.
    pub connection_id: u32,
    /// Our port.
    pub port: u16,
    /// When the server last answered on it. A server that was started later numbers its connections anew.
    pub answered: Instant,
}

/// By the server's address; each with the time at which it is looked for, the earliest first.
type All = HashMap<String, VecDeque<(Instant, Abandoned)>>;

static ALL: LazyLock<Mutex<All>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, All> {
    // No change leaves it half done.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers one that was closed now, or whose session could not be looked for now.
pub fn note(address: &str, link: Abandoned) {
    note_at(Instant::now(), address, link);
}

fn note_at(now: Instant, address: &str, link: Abandoned) {
    let mut all = all();
    // The name is copied for the first only: thousands may be closed at once.
    if !all.contains_key(address) {
        all.insert(address.to_owned(), VecDeque::new());
    }
    if let Some(links) = all.get_mut(address) {
        if links.len() == OF_A_SERVER_MAX {
            links.pop_front();
        }
        links.push_back((now + SETTLED_AFTER, link));
    }
}

/// Those of a server whose sessions are to be looked for now. They are forgotten here.
pub fn take(address: &str) -> Vec<Abandoned> {
    take_at(Instant::now(), address)
}

fn take_at(now: Instant, address: &str) -> Vec<Abandoned> {
    let mut all = all();
    let Some(links) = all.get_mut(address) else { return vec![] };
    let due = links.iter().take_while(|(at, _)| *at <= now).count();
    let taken = links.drain(..due).map(|(_, link)| link).collect();
    if links.is_empty() {
        all.remove(address);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(connection_id: u32, answered: Instant) -> Abandoned {
        Abandoned { connection_id, port: 40_000, answered }
    }

    #[test]
    fn they_are_taken_once_when_a_reset_would_have_arrived() {
        let (address, began) = ("abandoned.example:3306", Instant::now());
        let later = began + SETTLED_AFTER / 2;
        note_at(began, address, link(1, began));
        note_at(later, address, link(2, began));
        assert_eq!(take_at(later, address), []);
        assert_eq!(take_at(began + SETTLED_AFTER, address), [link(1, began)]);
        assert_eq!(take_at(later + SETTLED_AFTER, address), [link(2, began)]);
        assert_eq!(take_at(later + SETTLED_AFTER, address), []);
        assert!(!all().contains_key(address));
    }

    #[test]
    fn of_too_many_the_oldest_are_dropped() {
        let (address, began) = ("crowd.example:3306", Instant::now());
        for number in 0..=OF_A_SERVER_MAX as u32 {
            note_at(began, address, link(number, began));
        }
        let taken = take_at(began + SETTLED_AFTER, address);
        assert_eq!((taken.len(), taken[0].connection_id), (OF_A_SERVER_MAX, 1));
    }
}
