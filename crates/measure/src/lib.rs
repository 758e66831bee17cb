//! How much load a node can take and how long it may be away: samples of each node's counters, and what is computed from them.
//!
//! Computation only: numbers in, forecasts and judgements out. The code that queries servers and displays results is in other crates.

pub mod capacity;
pub mod flow;
pub mod histogram;
pub mod rates;
pub mod recovery;
pub mod ring;
pub mod sample;
