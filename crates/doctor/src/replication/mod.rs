//! The doctor for a primary with replicas: finds settings that may lose transactions, or that let clients bypass Understudy and write to a
//! replica.
//!
//! ```text
//!   nodes ──> read (SQL) ──┬──> judge (topology::rules, what is of accounts and files) ──> the same report as for Galera
//!   my.cnf, where named ───┘
//! ```

mod accounts;
mod judge;
pub mod read;
#[cfg(test)]
mod tests;

pub use judge::report;
pub use read::{Files, all};
