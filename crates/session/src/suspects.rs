//! Statements that may have crashed a node: those that ran when a node was lost, and have not succeeded since.
//!
//! A single loss says little: it counts all statements that ran at that moment, and almost all are harmless. A statement that runs again
//! and succeeds is removed. One that ran at two losses, and never succeeded in between, is refused for a time, so that it does not crash
//! the next node as well. The list is empty except for a time after a loss.

use std::collections::HashMap;
use std::time::Duration;

use topology::NodeId;

/// Losses of nodes during one statement, without a success in between, after which it is refused.
const LOSSES_REFUSED: u32 = 2;
/// Statements kept at the same time; if more were running, the rest is not counted.
const STATEMENTS_MAX: usize = 4096;

/// A node until it is lost; it comes back in another epoch.
pub type Life = (NodeId, u64);

#[derive(Clone, Copy, Debug)]
struct Entry {
    losses: u32,
    last: Duration,
    /// The loss that was counted last. Many sessions may run the same statement and report the same loss.
    life: Life,
}

/// The statements under suspicion, each identified by its digest. See the head of this file.
#[derive(Debug)]
pub struct Suspects {
    statements: HashMap<u64, Entry>,
    /// For how long a statement is refused, and a single loss is remembered; zero: nothing is refused.
    time: Duration,
}

impl Suspects {
    /// Remembers losses, and refuses statements, for `time`.
    pub fn new(time: Duration) -> Self {
        Self { statements: HashMap::new(), time }
    }

    /// Changes that time, also for the losses that are remembered.
    pub fn set_time(&mut self, time: Duration) {
        self.time = time;
    }

    /// How many statements are under suspicion.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Its node, in this epoch, was lost while it ran.
    pub fn lost(&mut self, now: Duration, digest: u64, life: Life) {
        if self.time.is_zero() {
            return;
        }
        self.expire(now);
        if self.statements.len() < STATEMENTS_MAX || self.statements.contains_key(&digest) {
            let first = Entry { losses: 1, last: now, life };
            let entry = self.statements.entry(digest).or_insert(first);
            if entry.life != life {
                *entry = Entry { losses: entry.losses + 1, ..first };
            }
        }
    }

    /// It succeeded.
    pub fn ended_well(&mut self, digest: u64) {
        self.statements.remove(&digest);
    }

    /// The time for which it is still refused; `None` when it is not.
    pub fn refused(&mut self, now: Duration, digest: u64) -> Option<Duration> {
        self.expire(now);
        let entry = self.statements.get(&digest).filter(|entry| entry.losses >= LOSSES_REFUSED)?;
        Some((entry.last + self.time).saturating_sub(now))
    }

    fn expire(&mut self, now: Duration) {
        self.statements.retain(|_, entry| now < entry.last + self.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_never_ended_well_between_two_losses_is_refused() {
        let mut suspects = Suspects::new(60 * SECOND);
        for digest in [1, 2] {
            // Each of many sessions tells of the one loss.
            for _ in 0..10 {
                suspects.lost(SECOND, digest, (NodeId(0), 1));
            }
            assert_eq!(suspects.refused(SECOND, digest), None);
        }
        suspects.ended_well(1);
        for digest in [1, 2] {
            suspects.lost(5 * SECOND, digest, (NodeId(1), 1));
        }
        assert_eq!(suspects.refused(6 * SECOND, 1), None);
        assert_eq!(suspects.refused(6 * SECOND, 2), Some(59 * SECOND));
        assert_eq!(suspects.refused(65 * SECOND, 2), None);
        assert!(suspects.is_empty());
    }

    #[test]
    fn zero_turns_it_off() {
        let mut suspects = Suspects::new(Duration::ZERO);
        suspects.lost(SECOND, 1, (NodeId(0), 1));
        suspects.lost(SECOND, 1, (NodeId(1), 1));
        assert!(suspects.refused(SECOND, 1).is_none() && suspects.is_empty());
    }
}
