//! Errant transactions: those that a server has and the primary has not, exactly; written as SQL; undone.
//!
//! ```text
//!   node, primary ──> ask (SQL) ──> tool (mariadb-binlog) ──> binlog files ──> file (events) ──> judge ──> page (text, JSON)
//!                                                                                                  ├──> export (SQL)
//!                                                                                                  └──> undo (flashback)
//! ```
//!
//! Invariant: a transaction that the primary has is never called errant, and nothing on a server is changed before an export is on disk.

pub mod ask;
pub mod export;
pub mod file;
pub mod gather;
pub mod judge;
pub mod page;
pub mod tool;
pub mod undo;
pub mod work;
