//! How often a node that has no connection left (error 1040) is asked for one.
//!
//! Enters: each wish to connect, and what came of it. Leaves: whether to connect now. All sessions of a lane share this: without it, each of
//! those that the node has no room for would ask again by itself, hundreds of times a second in all.
//!
//! The gap between two tries doubles with each refusal and halves with each success, so that room that has come free is taken, and a
//! node that stays full is asked twice a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After the first refusal.
const GAP_MIN: Duration = Duration::from_millis(20);
/// After many.
const GAP_MAX: Duration = Duration::from_millis(500);

/// See the head of this file.
#[derive(Debug, Default)]
pub struct FullPace(Mutex<Option<State>>);

#[derive(Clone, Copy, Debug)]
struct State {
    gap: Duration,
    next: Instant,
}

impl FullPace {
    fn with<T>(&self, act: impl FnOnce(&mut Option<State>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a connection may be tried now; who is told so is to try.
    pub fn may_try(&self, now: Instant) -> bool {
        self.with(|state| match state {
            None => true,
            Some(state) if now >= state.next => {
                state.next = now + state.gap;
                true
            }
            Some(_) => false,
        })
    }

    /// The node has refused one since it is full.
    pub fn refused(&self, now: Instant) {
        self.with(|state| {
            let gap = state.map_or(GAP_MIN, |state| (state.gap * 2).min(GAP_MAX));
            *state = Some(State { gap, next: now + gap });
        });
    }

    /// The node has taken one.
    pub fn taken(&self, now: Instant) {
        self.with(|state| {
            let Some(before) = state else { return };
            let gap = before.gap / 2;
            *state = (gap >= GAP_MIN).then_some(State { gap, next: now.min(before.next) });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_node_is_asked_ever_more_seldom_and_one_with_room_at_once() {
        let pace = FullPace::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert!((0..1000).all(|_| pace.may_try(start)), "nothing is known against it");
        pace.refused(start);
        // A thousand sessions ask all the time.
        let mut tries = 0;
        for ms in 0..10_000 {
            if pace.may_try(at(ms)) {
                tries += 1;
                pace.refused(at(ms));
            }
        }
        assert!((20..30).contains(&tries), "{tries} tries in 10 s");
        let mut tries = 0;
        for ms in 10_000..11_000 {
            if pace.may_try(at(ms)) {
                tries += 1;
                pace.taken(at(ms));
            }
        }
        assert!(tries >= 500, "{tries} connections in a second with room");
    }
}
