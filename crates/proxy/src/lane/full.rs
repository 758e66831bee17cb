//! The pace of connection attempts to a node that has no free connection (error 1040).
//!
//! Enters: each wish to connect, and its result. Leaves: whether to connect now. All sessions of a lane share it. Without it, each session
//! without a connection would try again by itself, which would make hundreds of attempts a second.
//!
//! The gap between two attempts doubles with each refusal and halves with each success. Connections that have become free are thus used
//! soon, and a node that stays full gets two attempts a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The gap after the first refusal.
const GAP_MIN: Duration = Duration::from_millis(20);
/// The longest gap.
const GAP_MAX: Duration = Duration::from_millis(500);

/// The pace for one node. See the head of this file.
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

    /// Whether a connection may be tried now; a caller that gets `true` must try.
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

    /// The node has refused a connection because it is full.
    pub fn refused(&self, now: Instant) {
        self.with(|state| {
            let gap = state.map_or(GAP_MIN, |state| (state.gap * 2).min(GAP_MAX));
            *state = Some(State { gap, next: now + gap });
        });
    }

    /// The node has accepted a connection.
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
