//! Which entries are kept, when not all are.

use crate::event::{Event, Rate, RateBy};

/// Keeps one in so many. The same entries in the same order give the same choice.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    rate: Rate,
    /// Entries until the next that is kept.
    until: u64,
}

impl Sampling {
    /// `one_in`: 0 and 1 keep all.
    ///
    /// By event, the first is kept, and then each that comes `one_in` behind it. By session, a connection is kept or not by its number, so that
    /// what is kept has whole transactions, and each statement that is prepared; entries without a number (MySQL 5.5) are one session.
    pub fn new(by: RateBy, one_in: u64) -> Self {
        Self { rate: Rate { by, one_in: one_in.max(1) }, until: 0 }
    }

    /// Whether this one is kept.
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

    /// For how many an entry stands that was kept: what its server left out counts, too. None: for itself.
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

/// Numbers of connections follow one another, and applications may open every second one for something else: so they are spread
/// (the finalizer of splitmix64).
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
