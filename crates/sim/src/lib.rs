//! What simulations share: chance and time that can be had again, and a primary with its replicas as a model. Only tests use this crate. A
//! simulation that goes wrong must fail, so this crate panics.
#![allow(missing_docs, clippy::missing_panics_doc)] // fields and helpers whose names say it
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod clock;
mod dice;
pub mod replication;
pub mod seeds;

pub use dice::Dice;
