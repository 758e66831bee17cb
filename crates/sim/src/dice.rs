//! Chance that can be had again: the same seed, the same throws.

use std::cell::Cell;
use std::time::Duration;

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A generator of random numbers (`SplitMix64`).
pub struct Dice(Cell<u64>);

impl Dice {
    /// A state that is a multiple of the step would be the next seed's state one throw later: the seed is mixed.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(mixed(seed)))
    }

    fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(STEP);
        self.0.set(state);
        mixed(state)
    }

    /// Below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// So often in a hundred.
    pub fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A time between these.
    pub fn between_us(&self, least: u64, most: u64) -> Duration {
        Duration::from_micros(least + self.below(most - least + 1))
    }

    /// The same in milliseconds.
    pub fn between_ms(&self, least: u64, most: u64) -> Duration {
        self.between_us(least * 1000, most * 1000)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&self, several: &[T]) -> T {
        several[self.below(several.len() as u64) as usize]
    }
}

#[test]
fn seeds_beside_one_another_throw_otherwise() {
    let throws = |seed| {
        let dice = Dice::new(seed);
        (0..20).map(|_| dice.below(1 << 40)).collect::<Vec<_>>()
    };
    for seed in 0..50 {
        let (one, other) = (throws(seed), throws(seed + 1));
        assert!(one.iter().all(|throw| !other.contains(throw)), "{seed}: {one:?} {other:?}");
    }
}
