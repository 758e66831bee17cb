//! Which statements may have cost a node: those that ran when a node was lost, and have not been seen to end well since.
//!
//! One loss says nothing: whatever ran at that moment is here, and almost all of it is innocent. What runs again and ends well is struck
//! off; what was running at a second loss, and never ended well between the two, is refused for a time, so that it does not take the next
//! node as well. Empty but for the time after a loss.

use std::collections::HashMap;
use std::time::Duration;

/// Losses of nodes under one statement, without a good end in between, after which it is refused.
const LOSSES_REFUSED: u32 = 2;
/// Statements kept at once; after a loss under more different ones, the rest is not watched.
const STATEMENTS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    losses: u32,
    last: Duration,
}

/// See the head of this file. A statement is known by its digest.
#[derive(Debug)]
pub struct Suspects {
    statements: HashMap<u64, Entry>,
    /// How long a statement is refused, and how long one loss is remembered; zero: never, not at all.
    time: Duration,
}

impl Suspects {
    /// Remembers, and refuses, for `time`.
    pub fn new(time: Duration) -> Self {
        Self { statements: HashMap::new(), time }
    }

    /// How many are under suspicion.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// None is.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Its node was lost while it ran.
    pub fn lost(&mut self, now: Duration, digest: u64) {
        if self.time.is_zero() {
            return;
        }
        self.expire(now);
        if self.statements.len() < STATEMENTS_MAX || self.statements.contains_key(&digest) {
            let entry = self.statements.entry(digest).or_insert(Entry { losses: 0, last: now });
            entry.losses += 1;
            entry.last = now;
        }
    }

    /// It was answered.
    pub fn ended_well(&mut self, digest: u64) {
        self.statements.remove(&digest);
    }

    /// Whether it is refused now, and for how long still.
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
            suspects.lost(SECOND, digest);
            assert_eq!(suspects.refused(SECOND, digest), None);
        }
        suspects.ended_well(1);
        for digest in [1, 2] {
            suspects.lost(5 * SECOND, digest);
        }
        assert_eq!(suspects.refused(6 * SECOND, 1), None);
        assert_eq!(suspects.refused(6 * SECOND, 2), Some(59 * SECOND));
        assert_eq!(suspects.refused(65 * SECOND, 2), None);
        assert!(suspects.is_empty());
    }

    #[test]
    fn zero_turns_it_off() {
        let mut suspects = Suspects::new(Duration::ZERO);
        suspects.lost(SECOND, 1);
        suspects.lost(SECOND, 1);
        assert!(suspects.refused(SECOND, 1).is_none() && suspects.is_empty());
    }
}
