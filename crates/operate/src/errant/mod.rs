//! Errant transactions: those that a server has and the primary lacks. Finds them, writes them as SQL, undoes them.
//!
//! ```text
//!   node, primary ──> ask (SQL) ──> tool (mariadb-binlog) ──> binlog files ──> file (events) ──> judge ──> page (text, JSON)
//!                                                                                                  ├──> export (SQL)
//!                                                                                                  └──> undo (flashback)
//! ```
//!
//! Invariants: a transaction that the primary has is never reported as errant, and nothing on a server is changed before an export is on
//! disk.

pub mod ask;
pub mod command;
pub mod export;
pub mod file;
pub mod gather;
pub mod judge;
pub mod page;
pub mod tool;
pub mod undo;
pub mod work;
