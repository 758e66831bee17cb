//! How much a node can bear and how long it would be away: samples of each node's counters, and what follows from them.
//!
//! Cores only: numbers in, forecasts and verdicts out. What asks servers and what shows the results is elsewhere.

pub mod capacity;
pub mod flow;
pub mod histogram;
pub mod rates;
pub mod recovery;
pub mod ring;
pub mod sample;
