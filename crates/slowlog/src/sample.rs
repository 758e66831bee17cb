//! Sampling: which entries are kept, when not all are.

use crate::event::{Event, Rate, RateBy};

/// Keeps one entry in N. The same entries in the same order give the same selection.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    rate: Rate,
    /// The number of entries until the next one that is kept.
    until: u64,
}

impl Sampling {
    /// `one_in`: 0 and 1 keep all.
    ///
    /// When sampling by event, the first entry is kept, and then every `one_in`-th. When sampling by session, a connection is kept or not
    /// depending on its number, so that complete transactions are kept, and each prepared statement with its executions. Entries without a
    /// number (MySQL 5.5) count as one session.
    pub fn new(by: RateBy, one_in: u64) -> Self {
        Self { rate: Rate { by, one_in: one_in.max(1) }, until: 0 }
    }

    /// Whether this entry is kept.
    pub fn keeps(&mut self, event: &Event<'_>) -> bool {
        match self.rate.by {
            RateBy::Event => {
                let is_kept = self.until == 0;
                self.until = if is_kept { self.rate.one_in - 1 } else { self.until - 1 };
                is_kept
            }
            RateBy::Session => spread(event.connection.unwrap_or(0)).is_multiple_of(self.rate.one_in),
        }
    }

    /// The number of entries that a kept entry represents, including those that its server left out. `None`: itself only.
    pub fn rate(&self, event: &Event<'_>) -> Option<Rate> {
        let theirs = event.rate.map_or(1, |rate| rate.one_in);
        let one_in = self.rate.one_in.saturating_mul(theirs);
        match event.rate {
            Some(rate) if self.rate.one_in == 1 => Some(rate),
            None if one_in == 1 => None,
            _ => Some(Rate { by: self.rate.by, one_in }),
        }
    }
}

/// Connection numbers are consecutive, and an application may use every second connection for another purpose, so the numbers are hashed
/// (the finalizer of splitmix64).
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
