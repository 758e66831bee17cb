//! What simulations share. Only tests use this crate.

mod dice;

pub use dice::Dice;
