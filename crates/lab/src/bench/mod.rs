//! Benchmarks of single parts, compared with the programs that others use in their place.

pub mod health;
