//! How many wrong passwords are taken: from one address for one account, and for one account from everywhere.
//!
//! ```text
//!   attempt ──> of this account and address: some at once, then one in each pause ──┬─ none left ─> refused, unlooked at
//!               of this account alone: ten times as many ──────────────────────────┤
//!                    none left: refused where a password of this address was wrong before; a first one is looked at
//!   the password is right ──> the attempt is given back
//! ```
//!
//! Enters: attempts with their time. Leaves: whether the password is to be looked at. An attempt is taken *before* the look, so that a thousand at once
//! are no more than one after another. An attacker cannot keep out who comes from another address: what he uses up of the account
//! is asked only of addresses that have been wrong themselves. A name that no account has is counted in the same way, so that nothing is
//! learned from it. The tables are bounded: what was not touched for longest is forgotten first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::live_duration::LiveDuration;

/// Pairs and accounts remembered at once, each half of it twice: some 2 MiB.
const REMEMBERED_MAX: usize = 16_384;
/// An account alone is granted so many times what an address is.
const FOR_ALL: u32 = 10;
/// A host of IPv6 mostly has a network of its own.
const IPV6_NETWORK: u128 = !0 << 64;

/// See the head of this file.
#[derive(Debug)]
pub struct PasswordErrors {
    at_once: AtomicU32,
    pause: LiveDuration,
    hasher: RandomState,
    buckets: Mutex<Buckets>,
}

/// An attempt that may be looked at; [`PasswordErrors::was_right`] gives it back.
#[derive(Debug)]
pub struct Attempt {
    pair: u64,
    account: u64,
}

/// Whoever is known, by a number that nobody outside can foresee: two generations, of which the older is dropped when the newer is full.
#[derive(Debug, Default)]
struct Buckets {
    new: HashMap<u64, Bucket>,
    old: HashMap<u64, Bucket>,
}

/// Attempts used up, of which one comes back in each pause.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    used: u32,
    since: Instant,
}

impl Bucket {
    fn refill(&mut self, pause: Duration, now: Instant) {
        let pauses = now.saturating_duration_since(self.since).as_nanos() / pause.as_nanos().max(1);
        let back = u32::try_from(pauses).unwrap_or(u32::MAX);
        if back >= self.used {
            *self = Bucket { used: 0, since: now };
        } else {
            self.used -= back;
            self.since += pause * back;
        }
    }
}

impl Buckets {
    fn of(&mut self, key: u64, pause: Duration, now: Instant) -> &mut Bucket {
        if !self.new.contains_key(&key) {
            let known = self.old.remove(&key).unwrap_or(Bucket { used: 0, since: now });
            if self.new.len() >= REMEMBERED_MAX / 2 {
                self.old = std::mem::take(&mut self.new);
            }
            self.new.insert(key, known);
        }
        let bucket = self.new.entry(key).or_insert(Bucket { used: 0, since: now });
        bucket.refill(pause, now);
        bucket
    }
}

impl PasswordErrors {
    /// So many at once from an address for an account (0: no limit), and one more in each `pause`.
    pub fn new(at_once: u32, pause: Duration) -> Self {
        Self {
            at_once: at_once.into(),
            pause: pause.into(),
            hasher: RandomState::new(),
            buckets: Mutex::default(),
        }
    }

    /// Changes what [`PasswordErrors::new`] was given.
    pub fn set_limits(&self, at_once: u32, pause: Duration) {
        self.at_once.store(at_once, Relaxed);
        self.pause.set(pause);
    }

    /// An attempt to log in as `user` from there. `Err`: it is refused, and the password must not be looked at, for so long at the least.
    pub fn attempt(&self, user: &str, from: IpAddr, now: Instant) -> Result<Attempt, Duration> {
        let from = match from.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK)),
            address @ IpAddr::V4(_) => address,
        };
        let attempt =
            Attempt { pair: self.hasher.hash_one((user, from)), account: self.hasher.hash_one(user) };
        let (at_once, pause) = (self.at_once.load(Relaxed), self.pause.get());
        if at_once == 0 {
            return Ok(attempt);
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let pause_of_account = pause / FOR_ALL;
        let account = *buckets.of(attempt.account, pause_of_account, now);
        let pair = buckets.of(attempt.pair, pause, now);
        if pair.used >= at_once {
            return Err((pair.since + pause).saturating_duration_since(now));
        }
        if pair.used > 0 && account.used >= at_once.saturating_mul(FOR_ALL) {
            return Err((account.since + pause_of_account).saturating_duration_since(now));
        }
        if pair.used == 0 {
            pair.since = now;
        }
        pair.used += 1;
        let account = buckets.of(attempt.account, pause_of_account, now);
        if account.used == 0 {
            account.since = now;
        }
        // First attempts from ever more addresses are no reason to count beyond what comes back in the same time as for an address.
        account.used = (account.used + 1).min(at_once.saturating_mul(FOR_ALL));
        Ok(attempt)
    }

    /// The password was right: the attempt was none of a guesser.
    pub fn was_right(&self, attempt: Attempt, now: Instant) {
        let pause = self.pause.get();
        if self.at_once.load(Relaxed) == 0 {
            return;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, pause) in [(attempt.pair, pause), (attempt.account, pause / FOR_ALL)] {
            let bucket = buckets.of(key, pause, now);
            bucket.used = bucket.used.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn address(n: u32) -> IpAddr {
        IpAddr::V4((0x0A00_0000 + n).into())
    }

    #[test]
    fn an_address_has_some_at_once_and_then_one_in_each_pause() {
        let errors = PasswordErrors::new(3, PAUSE);
        let start = Instant::now();
        let taken = |n, at: Duration| errors.attempt("app", address(n), start + at).map(drop);
        for _ in 0..3 {
            assert_eq!(taken(1, Duration::ZERO), Ok(()));
        }
        assert_eq!(taken(1, Duration::from_secs(4)), Err(Duration::from_secs(6)));
        assert_eq!(taken(2, Duration::from_secs(4)), Ok(()), "another address");
        assert!(errors.attempt("other", address(1), start).is_ok(), "another account");
        assert_eq!(taken(1, PAUSE), Ok(()));
        assert_eq!(taken(1, PAUSE), Err(PAUSE));
        for _ in 0..3 {
            assert_eq!(taken(1, PAUSE * 10), Ok(()));
        }
        assert!(taken(1, PAUSE * 10).is_err());
    }

    #[test]
    fn right_passwords_use_nothing_up() {
        let errors = PasswordErrors::new(2, PAUSE);
        let now = Instant::now();
        for _ in 0..1000 {
            let attempt = errors.attempt("app", address(1), now).unwrap();
            errors.was_right(attempt, now);
        }
        let unlimited = PasswordErrors::new(0, PAUSE);
        assert!((0..1000).all(|_| unlimited.attempt("app", address(1), now).is_ok()));
    }

    #[test]
    fn many_addresses_guess_once_each_and_keep_nobody_out() {
        let errors = PasswordErrors::new(5, PAUSE);
        let now = Instant::now();
        for n in 0..50 {
            assert!(errors.attempt("app", address(n), now).is_ok());
        }
        assert!(errors.attempt("app", address(0), now).is_err(), "the account's are used up");
        for _ in 0..100 {
            let attempt = errors.attempt("app", address(1000), now).unwrap();
            errors.was_right(attempt, now);
        }
        let later = now + PAUSE;
        assert!(errors.attempt("app", address(0), later).is_ok());
        let network = |n: u128| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0DB8 << 96) + n));
        assert!((0..5).all(|n| errors.attempt("six", network(n), now).is_ok()));
        assert!(errors.attempt("six", network(9), now).is_err(), "one network is one address");
    }

    #[test]
    fn the_tables_are_bounded() {
        let errors = PasswordErrors::new(1, PAUSE);
        let now = Instant::now();
        for n in 0..2 * REMEMBERED_MAX as u32 {
            assert!(errors.attempt(&n.to_string(), address(n), now).is_ok());
        }
        let buckets = errors.buckets.lock().unwrap();
        assert!(buckets.new.len() + buckets.old.len() <= REMEMBERED_MAX);
    }
}
