//! What is Galera's alone.

mod evict;
mod pace;
pub mod reading;
